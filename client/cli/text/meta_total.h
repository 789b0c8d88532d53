/* meta_total: sums over the replies' metadata of one command.
 * Owner:  the caller's struct; zeroed is empty.
 * Thread: one at a time.
 * Errors: none. */
#ifndef ENGRAM_CLI_TEXT_META_TOTAL_H
#define ENGRAM_CLI_TEXT_META_TOTAL_H

#include "client/cli/text/json.h"
#include "client/engram_accel.h"

#define META_WAYS_MAX 16 /* most pairs of backend and reason that are counted separately */

struct meta_total {
    uint64_t requests, queue_ns, run_ns, copy_ns;
    uint64_t predicted_ns, other_ns, wait_ns;
    /* requests with a prediction, and with one for the other backend, too */
    uint64_t predicted, compared;
    uint64_t screened, survived, read_bytes; /* as in ea_meta */
    uint32_t batch_max;
    struct meta_way {
        ea_backend backend;
        uint32_t reason;
        uint64_t requests;
    } ways[META_WAYS_MAX];
    unsigned way_count;
};

void meta_total_add(struct meta_total *t, const ea_meta *meta);
/* Prints "3 queries in 1 request: gpu (chosen_faster); queued 12 µs, ran 41 µs; batch 12,
 * predicted 43 µs, other 120 µs; int8: 21 of 300,000 scored, 75 MiB read" on standard error. What
 * not every request has is left out; of int8, what none has. */
void meta_total_print(const struct meta_total *t, uint64_t n, const char *things);
/* Writes members of the object that is open. */
void meta_total_json(const struct meta_total *t, struct json *j);
void meta_json(const ea_meta *meta, struct json *j);
/* The same without what became of rows in int8. */
void meta_times_json(const ea_meta *meta, struct json *j);

#endif
