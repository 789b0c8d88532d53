/* catalogue: what one daemon writes for its successor, piece after piece, into a file in memory
 * that nobody can change afterwards; and the same pieces as they are read again. A head says how
 * long it is, with XXH3 of all that follows and of itself, and is written last: what was not ended,
 * was cut or has a wrong bit is refused as a whole.
 * Owner:  whoever writes or reads it.
 * Thread: one at a time.
 * Errors: a writer remembers the first and tells it at the end. A reader gets zeros behind the end,
 *         which the flag `bad` tells. */
#ifndef ENGRAM_BASE_CATALOGUE_H
#define ENGRAM_BASE_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/status.h"

/* Raised whenever a piece changes its meaning or its size: only the same is understood. */
enum { CATALOGUE_FORMAT = 2 };

struct catalogue_writer;

enum status catalogue_begin(struct catalogue_writer **out);
/* Each piece begins at a multiple of 8. */
void catalogue_put(struct catalogue_writer *w, const void *data, uint64_t bytes);
/* Ends it and seals the file; *fd is the caller's. RESOURCE_EXHAUSTED. */
enum status catalogue_end(struct catalogue_writer *w, int *fd);
/* NULL is fine. */
void catalogue_abandon(struct catalogue_writer *w);

struct catalogue_reader {
    const char *base, *at, *end;
    uint64_t mapped_bytes;
    bool bad; /* a piece was not there */
};

/* Maps and checks all of it; the descriptor remains the caller's. DATA_LOSS, FAILED_PRECONDITION
 * (of another format), RESOURCE_EXHAUSTED: with text. */
enum status catalogue_open(int fd, struct catalogue_reader *out, struct failure *f);
void catalogue_close(struct catalogue_reader *r);
/* Copies the next piece; zeros if it is not there. */
void catalogue_get(struct catalogue_reader *r, void *out, uint64_t bytes);
/* The next piece where it lies; NULL if it is not there. */
const void *catalogue_look(struct catalogue_reader *r, uint64_t bytes);

#endif
