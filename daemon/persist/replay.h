/* replay: what a journal's records say was done is done again: in the same order, with the same
 * versions afterwards, so the data has the same bits as before.
 * Owner:  persist.
 * Thread: the only user of the store; or, with a gate, any one thread, beside the loop.
 * Errors: DATA_LOSS/DAMAGED (a write that cannot have been done to what is there; the text names
 *         file and byte), RESOURCE_EXHAUSTED, CANCELLED, and those of journal_file.h. */
#ifndef ENGRAM_PERSIST_REPLAY_H
#define ENGRAM_PERSIST_REPLAY_H

#include <stdatomic.h>

#include "daemon/persist/journal_file.h"
#include "daemon/persist/replay_gate.h"
#include "daemon/store/space.h"

struct replay {
    struct store *store;
    struct heap *heap;
    const struct vector_kernels *kernels;
    /* Only what was made under a hidden name, which no snapshot has. */
    bool hidden_alone;
    /* A write had a token; answer: the weights of edges that it left, one for each that it named,
     * or NULL. NULL: tokens are left out. */
    enum status (*token)(void *owner, const struct journal_write *w, const float *answer,
                         struct failure *f);
    void *owner;
    struct replay_gate *gate; /* NULL: nobody else uses the store */
    const atomic_bool *stop;  /* true: it ends as CANCELLED; NULL: never */
    _Atomic uint64_t *done;   /* bytes of files that are behind it; or NULL */
};
/* Does one write: enters the gate for it, if there is one. */
enum status replay_write(const struct replay *r, const struct journal_write *w, struct failure *f);
/* What has a hidden name goes, since its connection is gone. */
void replay_end(const struct replay *r);

#endif
