/* answers_gpu: what info, stats and describe say of GPUs: gathered from the GPU backend, its
 * processes and the memory shared with them, and from the counts of where requests ran.
 * Owner:  answers.c.
 * Thread: the loop.
 * Errors: none. A GPU process may write what it likes into the shared memory: texts are bounded
 *         and made plain, numbers are passed on for what they are worth. */
#ifndef ENGRAM_REPORT_CARDS_REPORT_H
#define ENGRAM_REPORT_CARDS_REPORT_H

#include "daemon/request/pipeline.h"
#include "daemon/store/graph.h"
#include "daemon/wire/encode.h"

/* info->gpu, gpus and gpu_count. */
void answer_gpu_info(const struct pipeline *p, uint64_t now_ns, struct wire_info *info);
/* stats->gpus, routes and their counts. */
void answer_gpu_stats(const struct pipeline *p, uint64_t now_ns, struct wire_stats *stats);
/* collection_info and graph_info, with the VRAM of replicas. */
struct collection_info answer_gpu_collection(const struct pipeline *p, struct collection *c);
struct graph_info answer_gpu_graph(const struct pipeline *p, struct graph *g);

#endif
