/* pieces: runs a job as a worker would that nobody else helps, and tells in how many pieces: from
 * one look at what others wait for (base/yield.h) to the next, parts and steps being pieces, too.
 * Owner:  the caller; pieces_finish frees the times.
 * Thread: one.
 * Errors: what the operation says; a failed allocation ends the program. */
#ifndef ENGRAM_TESTS_PIECES_H
#define ENGRAM_TESTS_PIECES_H

#include "daemon/base/job.h"
#include "daemon/base/yield.h"

struct pieces {
    struct yielder yielder;
    uint64_t count, capacity;
    bool timed; /* times are wanted; pieces of less than 10 us are then one with the next */
    double *ms; /* the thread's own time in each */
    double since_ms;
};

/* Plans and runs j. Scratch is given back; the result is the caller's. Returns j->failure.code. */
enum status pieces_run(struct pieces *p, struct job *j);
void pieces_finish(struct pieces *p);

#endif
