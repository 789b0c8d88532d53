/* digest: what a request asks for, in 128 bits, by which a repetition of a write is told from
 * another request that bears its token: everything that the request holds, tensors included, by
 * XXH3. Whoever seeks two requests with one digest deceives only his own space.
 * Owner:  none.
 * Thread: any that has the job, in pieces (base/yield.h).
 * Errors: none. */
#ifndef ENGRAM_EXEC_DIGEST_H
#define ENGRAM_EXEC_DIGEST_H

#include "daemon/base/job.h"

/* Sets j->digest, of a request that was decoded and checked. */
void digest_take(struct job *j);

/* True if that is quicker than waking a worker: some 10 us. */
static inline bool digest_is_brief(const struct job *j)
{
    enum { BRIEF_BYTES = 64 << 10 };
    return j->body_bytes <= BRIEF_BYTES;
}

#endif
