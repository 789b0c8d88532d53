/* readiness: whether requests are answered now, as the loop last knew it; whoever serves /readyz
 * reads it without asking the loop, which may be stuck.
 * Owner:  the engine.
 * Thread: the loop writes, any reads.
 * Errors: none. */
#ifndef ENGRAM_REPORT_READINESS_H
#define ENGRAM_REPORT_READINESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum life_phase { LIFE_LOADING, LIFE_SERVING, LIFE_STOPPING };

struct readiness {
    atomic_int phase;           /* enum life_phase */
    _Atomic uint64_t turned_ns; /* when the loop last looked at its timers */
    _Atomic uint64_t asked_ns;  /* since when a worker has the probe; 0: none has */
    _Atomic uint64_t right_ns;  /* when one was last answered right; 0: never */
    atomic_bool wrong;          /* the last answer was wrong */
};

/* NULL: ready. Otherwise why not, in a word: loading, stopping, loop (it stands still), workers
 * (they do not answer the probe), probe (it was answered wrong, or could not be asked). */
const char *readiness_word(const struct readiness *r, uint64_t now_ns);

/* False while the loop stands still, though it should not. */
bool readiness_alive(const struct readiness *r, uint64_t now_ns);

#endif
