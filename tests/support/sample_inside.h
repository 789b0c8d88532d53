/* sample_inside: how samples are made, for the files that make them.
 * Owner:  sample_requests.c.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_TESTS_SAMPLE_INSIDE_H
#define ENGRAM_TESTS_SAMPLE_INSIDE_H

#include "daemon/base/job.h"
#include "tests/support/sample_requests.h"

void sample_begin(struct sample *s, uint8_t kind, const pb_msgdesc_t *fields);
/* Appends a tensor to the body, filled with small numbers, and describes it. */
void sample_add(struct sample *s, bool *present, engram_accel_v1_Tensor *t, int dtype,
                uint64_t rows, uint64_t columns);
#define ADD(message, member, dtype, rows, columns) \
    sample_add(s, &(message).has_##member, &(message).member, (dtype), (rows), (columns))

/* ---- sample_daemon.c ---- */
void sample_make_hello(struct sample *s);
void sample_make_ping(struct sample *s);
void sample_make_info(struct sample *s);
void sample_make_stats(struct sample *s);
void sample_make_cancel(struct sample *s);
void sample_make_explain(struct sample *s);
void sample_make_config_get(struct sample *s);
void sample_make_config_set(struct sample *s);
void sample_make_spaces(struct sample *s);
void sample_make_config_reload(struct sample *s);
void sample_make_save(struct sample *s);
void sample_make_slowlog(struct sample *s);
void sample_make_memory(struct sample *s);
void sample_make_memory_history(struct sample *s);

/* ---- sample_holographic.c ---- */
void sample_make_bind(struct sample *s);
void sample_make_bind_inline(struct sample *s);
void sample_make_unbind(struct sample *s);
void sample_make_bind_many(struct sample *s);
void sample_make_superpose(struct sample *s);
void sample_make_permute(struct sample *s);
void sample_make_random(struct sample *s);
void sample_make_cleanup(struct sample *s);

/* ---- sample_recall.c ---- */
void sample_make_complete(struct sample *s);
void sample_make_complete_masked(struct sample *s);
void sample_make_recall(struct sample *s);
void sample_make_recall_ids(struct sample *s);

/* ---- sample_covariance.c ---- */
void sample_make_covariance(struct sample *s);
void sample_make_covariance_ids(struct sample *s);
void sample_make_covariance_inline(struct sample *s);

/* ---- sample_cluster.c ---- */
void sample_make_cluster(struct sample *s);
void sample_make_cluster_ids(struct sample *s);
void sample_make_cluster_inline(struct sample *s);

/* ---- sample_attractor.c ---- */
void sample_make_attractor_create(struct sample *s);
void sample_make_attractor_drop(struct sample *s);
void sample_make_attractor_list(struct sample *s);
void sample_make_attractor_describe(struct sample *s);
void sample_make_attractor_learn(struct sample *s);
void sample_make_attractor_learn_ids(struct sample *s);
void sample_make_attractor_fetch(struct sample *s);
void sample_make_attractor_set(struct sample *s);
void sample_make_complete_engine(struct sample *s);

#endif
