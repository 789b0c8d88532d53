/* gpu_rig: a gpu_process on a loop of its own, and a made-up GPU process for it: the test's own
 * executable again, which the rig's environment turns into one that is ready, late, mute, mad, of
 * another version ... before main runs.
 * Owner:  the test; rig_open and rig_close pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_GPU_RIG_H
#define ENGRAM_TESTS_GPU_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/cards/process.h"

struct rig {
    uv_loop_t loop;
    struct heap *heap;
    struct config config;
    struct gpu_process *process;
    uint32_t ready, gone, wakes, stuck;
    uint64_t taken, last_token;
    uint32_t gone_at_last_wake;
    uint64_t gone_ns;
    uint32_t gone_wanted;
    uint64_t last_given;
    bool works; /* says gpu_process_worked for each completion */
    uint64_t next_check_ns;
};

/* how: what the process is like, a word that fake_main in gpu_rig.c knows. */
void rig_open(struct rig *r, const char *how);
/* What it is like from the next start on. */
void rig_become(const char *how);
/* Turns the loop until done says so, and checks as the engine does; false: not within limit_ms. */
bool rig_turn(struct rig *r, bool (*done)(struct rig *r), uint32_t limit_ms);
/* Starts, and turns until done. */
void rig_start(struct rig *r, bool (*done)(struct rig *r));
/* Stops; nothing may be left. */
void rig_close(struct rig *r);

bool rig_is_ready(struct rig *r);
bool rig_is_absent(struct rig *r);
bool rig_is_gone(struct rig *r);
bool rig_is_gone_enough(struct rig *r); /* gone_wanted times */
bool rig_has_answer(struct rig *r);     /* to the last order given */

/* gpu_process_describe's text has these words. */
void rig_expect_text(struct rig *r, const char *words);
void rig_give_order(struct rig *r, uint64_t token);
/* Open in this process. */
uint32_t rig_descriptors(void);

#endif
