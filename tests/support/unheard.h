/* unheard: a transport whose other end takes all that is flushed, and nobody reads it.
 * Owner:  the test. Thread: one. Errors: none. */
#ifndef ENGRAM_TESTS_UNHEARD_H
#define ENGRAM_TESTS_UNHEARD_H

#include "daemon/net/connection.h"

static inline bool unheard_starts(struct connection *c)
{
    return true;
}

static inline void unheard_stops(struct connection *c) {}

static inline int unheard_takes_all(struct connection *c, const uv_buf_t *bufs, unsigned count)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += bufs[i].len;
    return (int)bytes;
}

/* close: what closing a connection does there. */
static inline struct transport unheard_transport(void (*close)(struct connection *c))
{
    return (struct transport){.start_reading = unheard_starts,
                              .stop_reading = unheard_stops,
                              .try_write = unheard_takes_all,
                              .close = close};
}

#endif
