/* model_keeper: the scheduler's cost model and the file in which it outlives the daemon. The file
 * is read at the start, its half for the GPUs when it is known which GPUs there are; it is written
 * every ten minutes if something was learnt, and at the end.
 * Owner:  the engine.
 * Thread: the loop; libuv's own threads write, because a disk may be slow.
 * Errors: model_keeper_create: RESOURCE_EXHAUSTED. If the file is faulty, the log has one line,
 *         and the daemon runs without it. */
#ifndef ENGRAM_LEARN_MODEL_KEEPER_H
#define ENGRAM_LEARN_MODEL_KEEPER_H

#include <uv.h>

#include "daemon/exec/backend.h"
#include "daemon/learn/model_file.h"
#include "kernels/vectors.h"

struct model_keeper;

struct model_keeper_options {
    uv_loop_t *loop;
    uint32_t workers; /* what machine this is: workers, kernels, cards */
    const struct vector_kernels *kernels;
    const struct backend *gpu; /* NULL: none */
    struct cost_model *model;  /* initialised before */
    const char *path; /* sched.model_file; "": in systemd's state directory, if there is one */
    uint64_t now_ns;
};

enum status model_keeper_create(const struct model_keeper_options *options,
                                struct model_keeper **out);
/* The loop must be done with it. Saves what was learnt. NULL is fine. */
void model_keeper_destroy(struct model_keeper *k);

/* Called every 100 ms. */
void model_keeper_check(struct model_keeper *k, uint64_t now_ns);

/* True once it is known which GPUs there are and the file's half for them has been taken. */
bool model_keeper_knows_gpus(const struct model_keeper *k);
/* True if the half was measured, now or in an earlier run of the daemon. */
bool model_keeper_calibrated(const struct model_keeper *k, enum calibrated_half half);
void model_keeper_set_calibrated(struct model_keeper *k, enum calibrated_half half);

#endif
