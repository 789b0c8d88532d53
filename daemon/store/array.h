/* array: flat memory that grows in place. A small array comes from malloc; a large one is a
 * mapping of its own, so that freeing it returns every page to the system, growing moves no bytes,
 * and places not yet written cost no memory.
 * Owner:  the caller.
 * Thread: any; no state.
 * Errors: NULL when memory runs out (shrinking can fail, too); the old array is unchanged. */
#ifndef ENGRAM_STORE_ARRAY_H
#define ENGRAM_STORE_ARRAY_H

#include <stddef.h>

#include "daemon/heap/outside.h"

/* Resizes from old_bytes (0: none yet) to new_bytes >= 1. Bytes within both sizes are kept, new
 * bytes are zero. */
void *array_resize(void *old, size_t old_bytes, size_t new_bytes);
void array_free(void *data, size_t bytes);

/* Makes one, and counts it and so many bytes beside it. Errors: outside_count's, or
 * RESOURCE_EXHAUSTED; nothing is counted then. */
enum status array_make_counted(struct outside *count, size_t bytes, size_t beside, void **out);

#endif
