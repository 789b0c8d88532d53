/* gpu_pair: a daemon that is forced onto its GPU beside one that has none, to compare their
 * answers.
 * Owner:  the test; gpu_pair_open and gpu_pair_close pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_GPU_PAIR_H
#define ENGRAM_TESTS_GPU_PAIR_H

#include "tests/support/gpu_scene.h"

struct gpu_pair {
    struct gpu_scene gpu, cpu;
};

/* sim: as for gpu_scene_open. Returns when the GPU is ready. */
void gpu_pair_open(struct gpu_pair *p, const char *sim);
/* The half without a GPU, where a test opens the other one itself. */
void gpu_pair_open_cpu(struct gpu_pair *p);
void gpu_pair_close(struct gpu_pair *p);
/* The same, and the GPU process was never started again. */
void gpu_pair_close_unharmed(struct gpu_pair *p);
/* Space "alpha" of the daemon with the GPU (0) and without (1). */
ea_client *gpu_pair_of(struct gpu_pair *p, int i);

/* Four times: sends so many requests, kills the GPU process while the fourth to sixth answer is
 * awaited, and expects every answer. `send` sends one whose callback adds to *right if the answer
 * is what is wanted. */
void gpu_pair_kill_meanwhile(struct gpu_pair *p, unsigned requests,
                             void (*send)(ea_client *c, const void *question), const void *question,
                             unsigned *right);

#endif
