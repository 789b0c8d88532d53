/* model_keeper: the scheduler's cost model and the file where it outlives the daemon: read at the
 * start, and the GPUs' half when it is known which GPUs there are; written every ten minutes, when
 * something was learnt, and at the end.
 * Owner:  the engine.
 * Thread: the loop; the writing runs on libuv's own threads, for a disk may take its time.
 * Errors: model_keeper_create: RESOURCE_EXHAUSTED. Whatever is wrong with the file is one line in
 *         the log, and the daemon goes on without it. */
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
    struct cost_model *model;  /* initialised */
    const char *path;          /* sched.model_file; "": in systemd's state directory, if any */
    uint64_t now_ns;
};

enum status model_keeper_create(const struct model_keeper_options *options,
                                struct model_keeper **out);
/* Nothing of it may be with the loop any more. Saves what was learnt. NULL is fine. */
void model_keeper_destroy(struct model_keeper *k);

/* Every 100 ms. */
void model_keeper_check(struct model_keeper *k, uint64_t now_ns);

/* Which GPUs there are is known, and what the file says of them has been taken. */
bool model_keeper_knows_gpus(const struct model_keeper *k);
/* The half has been measured, now or in an earlier life. */
bool model_keeper_calibrated(const struct model_keeper *k, enum calibrated_half half);
void model_keeper_set_calibrated(struct model_keeper *k, enum calibrated_half half);

#endif
