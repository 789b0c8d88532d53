/* complete_engine_inside: what both ways of a completion by an attractor share, the CPU's
 * (complete_engine.c) and a GPU's (complete_engine_gpu.c).
 * Owner:  the job.
 * Thread: the loop; engine_give_...: any, each line once.
 * Errors: INVALID_ARGUMENT/BAD_DIMENSION; RESOURCE_EXHAUSTED (MEMORY, REPLY_TOO_LARGE). */
#ifndef ENGRAM_OPS_COMPLETE_ENGINE_INSIDE_H
#define ENGRAM_OPS_COMPLETE_ENGINE_INSIDE_H

#include "daemon/ops/operation_inside.h"
#include "daemon/store/attractor.h"

#define ENGINE_PASS_COSINE 0.7f /* a stored row is as good as recalled above it */

/* ---- complete_engine_gpu.c ---- */

/* The cues and the collection, if one is named, have the attractor's dimension. */
enum status engine_check_dimensions(struct job *j, uint32_t dimension);
enum status engine_take_result(struct job *j, uint32_t dimension);

/* What became of cue `line`: its rounds, and with them its confidence. */
void engine_give_rounds(struct job *j, uint64_t line, uint32_t rounds, bool converged);
/* The nearest row to its state. */
void engine_give_nearest(struct job *j, uint64_t line, uint64_t id, float cosine);

enum status engine_gpu_plan(struct job *j);
uint64_t engine_gpu_pairs(const struct job *j);

#endif
