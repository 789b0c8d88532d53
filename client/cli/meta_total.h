/* meta_total: how the requests of one command came about, summed.
 * Owner:  the caller's struct; zeroed is empty.
 * Thread: one at a time.
 * Errors: none. */
#ifndef ENGRAM_CLI_META_TOTAL_H
#define ENGRAM_CLI_META_TOTAL_H

#include "client/cli/json.h"
#include "client/engram_accel.h"

#define META_ROADS_MAX 16 /* distinct pairs of backend and reason that are told apart */

struct meta_total {
    uint64_t requests, queue_ns, run_ns, copy_ns;
    struct meta_road {
        ea_backend backend;
        uint32_t reason;
        uint64_t requests;
    } roads[META_ROADS_MAX];
    unsigned road_count;
};

void meta_total_add(struct meta_total *t, const ea_meta *meta);
/* "3 queries in 1 request: cpu (gpu_absent); queued 12 µs, ran 3.4 ms" on standard error. */
void meta_total_print(const struct meta_total *t, uint64_t n, const char *things);
/* Members of the object that is open. */
void meta_total_json(const struct meta_total *t, struct json *j);
void meta_json(const ea_meta *meta, struct json *j);

#endif
