/* gpu_scene: a daemon with a GPU, simulated or real, and two clients of two spaces; and a script of
 * requests whose answers are the same wherever they come from.
 * Owner:  the test; gpu_scene_open and gpu_scene_close pair.
 * Thread: one.
 * Errors: fail the test.
 *
 * ENGRAM_TEST_GPU=0 in the environment: that device in place of the simulated one, for the scenes
 * that inject no faults. ENGRAM_TEST_LONG=1: long runs. */
#ifndef ENGRAM_TESTS_GPU_SCENE_H
#define ENGRAM_TESTS_GPU_SCENE_H

#include "client/engram_accel.h"
#include "tests/support/scene.h"

struct gpu_scene {
    struct daemon_process daemon;
    ea_client *a, *b;    /* spaces "alpha" and "beta" */
    char count_path[64]; /* the simulated device counts its calls there; "": it does not */
};

/* Settings for scenes in which a stopped or hanging process is to be noticed soon. */
#define GPU_IMPATIENT "gpu.heartbeat_ms=500", "gpu.job_ms=500"

/* sim: settings of the simulated device (sim_settings.h), NULL: defaults, without faults. settings:
 * as for daemon_start; unless they say else, gpu.force=gpu (not with a file, "--config=..." first),
 * gpu.min_pairs=1, and minutes until a slow process is taken for dead: a busy machine may stop one
 * for long. Where the device is to hang, GPU_IMPATIENT. */
void gpu_scene_open(struct gpu_scene *s, const char *sim, const char *const *settings);
/* The same, and its calls are counted over all its processes, so that a fault comes once. */
void gpu_scene_open_counting(struct gpu_scene *s, const char *sim, const char *const *settings);
/* SIGTERM: exit code 0, and no process stays behind. */
void gpu_scene_close(struct gpu_scene *s);

ea_client *gpu_scene_client(const struct gpu_scene *s, const char *space);
/* Whether scenes without faults have a real device. */
bool gpu_scene_is_real(void);
bool gpu_scene_long(void);
/* Calls counted so far. */
uint64_t gpu_scene_calls(const struct gpu_scene *s);
/* Until there were so many. */
void gpu_scene_await_calls(const struct gpu_scene *s, uint64_t calls);

/* The GPU process; 0: there is none now. */
pid_t gpu_process_of(pid_t daemon);
/* Whether a process of that number is there, and is no zombie. */
bool process_lives(pid_t pid);
/* Until the first GPU is in that state. */
void gpu_scene_await(const struct gpu_scene *s, ea_gpu_state state);
/* Until the GPU answers a kNN over the collection, with dimension columns. */
void gpu_scene_await_answer(ea_client *c, const char *collection, uint32_t dimension);
/* Until it holds no replica and no request: nothing may be left after everything was dropped. */
void gpu_scene_await_empty(const struct gpu_scene *s);
struct ea_gpu_stats gpu_scene_stats(ea_client *c);

/* ---- the script ---- */

enum { SCRIPT_STEPS_MAX = 96, SCRIPT_DIMENSION = 33 /* of "small" */ };

struct script_step {
    const char *what;
    ea_status status;
    uint64_t digest, version;
    ea_backend backend;
    uint32_t reason;
    char error[128];
};
struct transcript {
    struct script_step steps[SCRIPT_STEPS_MAX];
    size_t count;
};

/* Creates, fills, asks everything, changes, asks again: "small" and "wide" in space alpha, "small"
 * in beta. */
void script_run(ea_client *a, ea_client *b, struct transcript *t);
/* Drops what script_run made. */
void script_end(ea_client *a, ea_client *b, struct transcript *t);
/* What a daemon without a GPU answers. */
void script_reference(struct transcript *t);
/* Every status, version and bit. context: for the message. */
void transcript_compare(const struct transcript *got, const struct transcript *want,
                        const char *context);
size_t transcript_on_gpu(const struct transcript *t);

#endif
