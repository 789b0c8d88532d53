/* gpu_ask: orders for a GPU process, and whether what came back is right to the bit.
 * Owner:  the test.
 * Thread: one.
 * Errors: fail the test; ask_right says false. */
#ifndef ENGRAM_TESTS_GPU_ASK_H
#define ENGRAM_TESTS_GPU_ASK_H

#include "kernels/vectors.h"
#include "tests/support/gpu_peer.h"

/* A collection as it is at one version. */
struct ask_rows {
    uint32_t space, dimension;
    uint64_t replica, version, count;
    float *plain; /* count x dimension */
    uint64_t *ids;
};

/* Random rows with ids that are all different. */
struct ask_rows ask_make(uint32_t space, uint64_t replica, uint64_t version, uint32_t dimension,
                         uint64_t count, uint64_t seed);
void ask_free(struct ask_rows *r);

/* Rows first .. first + count of r, laid into the heap. */
struct order ask_upload(struct gpu_peer *p, const struct ask_rows *r, bool fresh, uint64_t first,
                        uint64_t count);
/* The same, of which the replica keeps only the codes. */
struct order ask_upload_codes(struct gpu_peer *p, const struct ask_rows *r, bool fresh,
                              uint64_t first, uint64_t count);
/* Lays all rows of r into the heap, in segments of `each` rows, the last one first. */
struct ask_host {
    uint64_t places; /* their place */
    uint64_t each;
};
struct ask_host ask_lay(struct gpu_peer *p, const struct ask_rows *r, uint64_t each);
/* Says in a kNN where they are. */
void ask_from(struct order *o, struct ask_host host);
struct order ask_forget(const struct ask_rows *r);
struct order ask_knn(struct gpu_peer *p, const struct ask_rows *r, enum metric metric,
                     uint64_t queries, uint32_t k, uint64_t seed);
struct order ask_scores(struct gpu_peer *p, const struct ask_rows *r, enum metric metric,
                        uint64_t queries, bool ids, uint64_t seed);
/* Every query against the same `listed` rows; or each against its own list of them. */
struct order ask_listed(struct gpu_peer *p, const struct ask_rows *r, enum metric metric,
                        uint64_t queries, uint64_t listed, bool own_lists, uint64_t seed);
struct order ask_average(struct gpu_peer *p, const struct ask_rows *r, uint64_t listed,
                         uint64_t seed);

/* The same request with r's rows beside it in place of a replica; one of lists or an average lists
 * r->count rows, and now all of them in order. */
struct order ask_bring(struct gpu_peer *p, const struct ask_rows *r, struct order o);
/* The norms of r's rows, brought along. */
struct order ask_norms(struct gpu_peer *p, const struct ask_rows *r);

/* What an order that was answered OK left in the heap is what r says. */
bool ask_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r);

#endif
