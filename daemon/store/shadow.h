/* shadow: rows of a collection in int8 (kernels/shadow.h), beside the float32 rows in host memory:
 * a cache, made by who searches, never saved, and dropped before anything is refused for want of
 * memory. A segment (collection_inside.h) has a shadow of its first rows or none. Which version it
 * codes is which segment it belongs to: a segment that a reader sees does not change but behind the
 * rows that the reader sees, and a write in place codes again what it writes.
 * Owner:  the store; each shadow belongs to its segment.
 * Thread: any that has the edition pinned, unless said. Between collection_shadow_hold and _leave
 *         nothing may wait or yield: memory that is asked for waits for it.
 * Errors: none; what has no shadow is scored exactly. */
#ifndef ENGRAM_STORE_SHADOW_H
#define ENGRAM_STORE_SHADOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/shadow_scan.h"

struct edition;
struct collection;
struct job_screen;
struct heap;
struct shadows;
struct shadow_middle;

/* What a search codes its queries with. */
struct shadow_use {
    const struct shadow_kernels *kernels;
    const struct shadow_middle *middle; /* stays as long as the collection */
    struct shadow_centre centre;
};

/* Whether a search uses shadows; else it should score all rows exactly. */
enum shadow_begun {
    SHADOW_NONE,  /* they are off, or there are too few rows */
    SHADOW_RESTS, /* they let too many rows pass lately */
    SHADOW_BEGUN, /* it does, and collection_shadow_end ends it */
};
/* Begins a search of some queries; *out only if it is BEGUN. */
enum shadow_begun collection_shadow_begin(const struct edition *e, struct shadow_use *out);
/* Ends it: of so many pairs of a query and a row that were screened so many passed. False: too
 * many, and some of the next searches will score all rows exactly. */
bool collection_shadow_end(const struct edition *e, uint64_t screened, uint64_t passed);

/* What a search of some queries that begins now can expect: which part of the rows is coded (0: it
 * would not ask them), and which part of the pairs that were asked passed, of late. The loop. */
struct shadow_outlook {
    double coded, passed;
};
struct shadow_outlook collection_shadow_outlook(const struct edition *e, uint64_t queries);

/* Keeps the shadow of rows [first, first + count), within one segment, for the caller. False: there
 * is none with this centre. */
bool collection_shadow_hold(const struct edition *e, const struct shadow_use *use, uint64_t first,
                            size_t count, struct shadow_rows *out);
void collection_shadow_leave(const struct edition *e, uint64_t first);

/* Notes that so many queries scored the segment that begins at row `first` exactly; codes it if
 * enough did, which takes less than a millisecond. */
void collection_shadow_ask(const struct edition *e, const struct shadow_use *use, uint64_t first,
                           uint64_t queries);

/* What a collection's shadows are. */
struct shadow_info {
    uint64_t rows, bytes;
    double lost;               /* the mean of lost / norm, of rows that have a norm */
    uint64_t age_ns;           /* since its centre was chosen */
    uint64_t screened, passed; /* pairs, since the start */
    uint64_t rests;            /* searches to be done without, because they were of no use */
};
struct shadow_info collection_shadow_info(const struct collection *c);

/* What kNN on one backend did with rows in int8 since the start. */
struct screen_counts {
    uint64_t searches, queries;  /* that asked them */
    uint64_t screened, survived; /* pairs of a query and a row; those that were scored then */
    uint64_t read_bytes;         /* of rows, in either form */
    uint64_t useless, rested;    /* searches that too many survived; that did without for it */
    double passed;               /* part of the pairs that survived, of late */
};
enum { SCREENS_CPU, SCREENS_GPU, SCREENS };
/* Counts a search; the loop. */
void collection_count_screen(const struct edition *e, int where, const struct job_screen *did);
const struct screen_counts *collection_screens(const struct collection *c, int where);
const struct screen_counts *collection_screens_of(const struct edition *e, int where);

/* From now on the collection has none, here and on cards, whatever is allowed: how long exact
 * scores take is measured with it. It must not have any yet. */
void collection_shadow_never(struct collection *c);
bool collection_shadow_is_barred(const struct collection *c);

/* ---- the store's; the loop ---- */

/* The same of all collections, gone ones too; and the bytes of shadows in the host now. */
struct screen_counts shadows_screens(const struct shadows *all, int where);
uint64_t shadows_bytes(const struct shadows *all);

/* NULL: no memory. */
struct shadows *shadows_create(struct heap *heap, const struct vector_kernels *kernels);
void shadows_destroy(struct shadows *s);
/* From now on; at first false. false: those that are there go. */
void shadows_allow(struct shadows *s, bool allowed);
/* Compares some of a shadow with its checksum, the next one each time; one that differs goes, and
 * is made anew when it is asked for. Returns how many differed since the start. */
uint64_t shadows_sweep(struct shadows *s);

#endif
