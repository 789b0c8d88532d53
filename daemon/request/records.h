/* records: what requests do to the data, on its way into the journal (persist/journal.h). A record
 * is added on the loop before anybody else may write the same thing, so records stand in the order
 * in which the data changed; its tensors stay where they lie, in the request's body or in the
 * edition that the write has made.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: in the job's failure: UNAVAILABLE/JOURNAL: the journal cannot be written;
 *         RESOURCE_EXHAUSTED/MEMORY. */
#ifndef ENGRAM_REQUEST_RECORDS_H
#define ENGRAM_REQUEST_RECORDS_H

#include "daemon/persist/journal.h"
#include "daemon/request/pipeline_inside.h"

struct write_record {
    struct journal_entry entry; /* first: the journal gives it back */
    struct body *body;
    uint64_t *ids;          /* from malloc, or NULL */
    struct job_object kept; /* an edition that stays for it; resident NULL: none does */
};

/* How what an operation does is recorded; JOURNAL_KINDS: it changes nothing that is saved. */
enum journal_kind records_kind(enum operation operation);

/* j is about to write. Takes all memory that its record needs. False: it is refused. */
bool records_begin(struct pipeline *p, struct job *j);
/* j repeats a write that was done: true: it is refused, since that cannot be told to be on the
 * disk. */
bool records_refuse_repeated(struct pipeline *p, struct job *j);
/* j, which a backend had, has written, and still holds what it wrote. */
void records_written(struct pipeline *p, struct job *j);
/* j has made r; drops what has its name still; has put `with`, which was called `hidden`, in its
 * place. */
void records_made(struct pipeline *p, struct job *j, struct resident *r);
void records_dropped(struct pipeline *p, struct job *j);
void records_swapped(struct pipeline *p, struct job *j, struct resident *with, const char *hidden);
/* Whether what r has is all in the journal; false, with j's failure: it is not any more. */
bool records_have_all(struct pipeline *p, struct job *j, const struct resident *r);

/* Whether j's reply has to wait for the disk; then it waits (journals.h), and its token is known:
 * who repeats it waits, too. bytes > 0: it is encoded
 * at `reply`, of which a copy is kept. */
bool records_hold(struct pipeline *p, struct job *j, const void *reply, size_t bytes);
/* Whether what j did is as far on its way to the disk as its reply promises. */
bool records_on_disk(const struct pipeline *p, const struct job *j);

/* The journal has written it. */
void records_give(struct pipeline *p, struct write_record *r);

#endif
