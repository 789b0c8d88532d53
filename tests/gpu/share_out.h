/* share_out: work of the host, by all processors.
 * Owner:  included by tests/gpu/gpu_*.c; everything is static inline.
 * Thread: one calls it; run is called by several at once.
 * Errors: no thread to be had ends the program. */
#ifndef ENGRAM_TESTS_GPU_SHARE_OUT_H
#define ENGRAM_TESTS_GPU_SHARE_OUT_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { SHARES_MAX = 32 };

struct share {
    void (*run)(void *owner, uint32_t first, uint32_t end);
    void *owner;
    uint32_t first, end;
};

static inline void *share_run(void *user)
{
    const struct share *s = user;
    s->run(s->owner, s->first, s->end);
    return NULL;
}

/* Runs items 0 to count - 1, each once. */
static inline void share_out(void (*run)(void *owner, uint32_t first, uint32_t end), void *owner,
                             uint32_t count)
{
    pthread_t threads[SHARES_MAX];
    struct share shares[SHARES_MAX];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = processors < 1 ? 1 : processors > SHARES_MAX ? SHARES_MAX : (uint32_t)processors;
    for (uint32_t i = 0; i < n; i++) {
        shares[i] = (struct share){run, owner, (uint32_t)((uint64_t)count * i / n),
                                   (uint32_t)((uint64_t)count * (i + 1) / n)};
        if (pthread_create(&threads[i], NULL, share_run, &shares[i])) abort();
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

#endif
