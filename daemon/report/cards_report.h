/* cards_report: what info, stats and describe say about GPUs: the state of each card's process,
 * what the memory shared with it shows, and the replicas of a collection or graph.
 * Owner:  whoever answers.
 * Thread: the loop.
 * Errors: none. A GPU process may write anything into the shared memory: texts are bounded and
 *         made printable, numbers are passed on unchecked. */
#ifndef ENGRAM_REPORT_CARDS_REPORT_H
#define ENGRAM_REPORT_CARDS_REPORT_H

#include "daemon/cards/cards.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "daemon/wire/encode.h"

/* One card, as it is now. */
struct card_seen {
    enum gpu_state state;
    const struct share *share; /* NULL: it was never ready */
    uint64_t restarts;
    uint64_t ready_ns; /* when it became ready; 0: it is not ready */
    struct cards_room room;
    struct card_totals totals; /* of all lives of its process */
    char text[257];            /* gpu_process_describe */
};

/* All cards of the GPU backend. */
struct cards_seen {
    bool backend; /* there is one, but perhaps without a card */
    uint32_t count;
    uint32_t jobs; /* in flight there, without uploads */
    struct card_seen cards[WIRE_GPUS_MAX];
};

/* gpu NULL: this daemon runs without GPUs. */
void cards_look(const struct backend *gpu, struct cards_seen *out);

/* Fills in info->gpu, gpus and gpu_count. */
void cards_report_info(const struct cards_seen *seen, uint64_t now_ns, struct wire_info *info);
/* Fills in stats->gpus and gpu_count. in_flight: all jobs of clients, linked by hh. */
void cards_report_stats(const struct cards_seen *seen, const struct job *in_flight, uint64_t now_ns,
                        struct wire_stats *stats);
/* Copies what NVML said of a card, unless it is old. */
void cards_report_sensors(const struct share_sensors *s, uint64_t now_ns,
                          struct wire_gpu_stats *out);

/* As collection_info and graph_info, with the VRAM of replicas. */
struct collection_info cards_report_collection(const struct backend *gpu, struct collection *c);
struct graph_info cards_report_graph(const struct backend *gpu, struct graph *g);

#endif
