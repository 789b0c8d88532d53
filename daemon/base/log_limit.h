/* log_limit: at most so many lines of one kind in a second, whatever causes them. A kind is the
 * place in the code that logs, known by its format.
 * Owner:  log, one for the process.
 * Thread: one at a time: log holds its lock.
 * Errors: none. */
#ifndef ENGRAM_BASE_LOG_LIMIT_H
#define ENGRAM_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

enum { LOG_KINDS = 64, LOG_KIND_LINES = 50 };

struct log_kind {
    const char *format; /* NULL: free */
    uint64_t since_ns;  /* when its second began */
    uint32_t lines, left_out;
};

struct log_limit {
    struct log_kind kinds[LOG_KINDS]; /* open addressing; the last one is of all that found none */
};

/* Counts a line of this kind. False: it is to be left out. *left_out: how many lines of the kind
 * were left out in the second that ended with this line, to be told before it. */
bool log_limit_take(struct log_limit *l, const char *format, uint64_t now_ns, uint32_t *left_out);
/* One kind of which lines were left out in a second that is over, and *left_out of them; NULL:
 * there is none. *next_ns: when to ask again, UINT64_MAX if no kind had all of its lines. */
const char *log_limit_over(struct log_limit *l, uint64_t now_ns, uint32_t *left_out,
                           uint64_t *next_ns);

#endif
