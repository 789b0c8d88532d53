/* slow_log: the last requests that took long, with all that was known of each when it was answered.
 * Where there are more than are kept, peers share the places, and spaces those of their peer: room
 * is made by the oldest request of whoever has most, so that nobody pushes out another's.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_SLOW_LOG_H
#define ENGRAM_REPORT_SLOW_LOG_H

#include "daemon/wire/encode.h"

enum { SLOW_KEPT = 256 };

/* Who asked, as digests of the names. */
struct slow_owner {
    uint64_t peer, space;
};

struct slow_log {
    uint64_t over_ns[OPERATION_MAX]; /* from which time on one is slow; UINT64_MAX: never */
    uint64_t count;                  /* of all since the start */
    uint32_t kept_count;
    uint16_t order[SLOW_KEPT]; /* their places in what follows, the oldest's first */
    struct slow_owner owners[SLOW_KEPT];
    struct wire_slow kept[SLOW_KEPT];
};

/* Keeps j, which is answered now; returns it as it is kept. peer: who asked. */
const struct wire_slow *slow_log_add(struct slow_log *l, const struct job *j, const char *peer,
                                     uint64_t now_ns);

/* Who asks sees the requests of its space, or all, and who asked those of its peer, or all. */
struct slow_log_view {
    const char *space, *peer;
    bool all;
};
/* Fills in requests, count, next and total: the newest with a number below `before` (0: any). */
void slow_log_page(const struct slow_log *l, const struct slow_log_view *view, uint64_t before,
                   struct wire_slowlog *out);

/* All that are kept, the newest first. */
struct slow_copy {
    uint64_t now_ns, total; /* of all since the start */
    uint32_t count;
    struct wire_slow requests[SLOW_KEPT];
};
void slow_log_copy(const struct slow_log *l, uint64_t now_ns, struct slow_copy *out);

#endif
