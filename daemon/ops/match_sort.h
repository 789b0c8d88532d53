/* match_sort: puts one query's matches in order, in pieces, between which the thread does what
 * others wait for (base/yield.h).
 * Owner:  the caller's arrays.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_OPS_MATCH_SORT_H
#define ENGRAM_OPS_MATCH_SORT_H

#include <stdint.h>

#include "kernels/topk.h"

/* So many are sorted in one piece. */
enum { MATCH_SORT_PIECE = 1 << 13 };

/* Sorts as topk_sort does. room: for as many; NULL: all are one piece. Returns which of the two
 * arrays holds the sorted ones. */
struct topk_entry *match_sort(struct topk_entry *entries, struct topk_entry *room, uint64_t count);

#endif
