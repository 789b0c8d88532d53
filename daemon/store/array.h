/* array: flat memory that grows in place. Small ones come from malloc; large ones are mappings of
 * their own, so that giving them up returns every page to the system, growing moves no bytes, and
 * places not yet written cost no memory.
 * Owner:  the caller.
 * Thread: any; no state.
 * Errors: NULL when memory is out (shrinking included); the old array is unchanged. */
#ifndef ENGRAM_STORE_ARRAY_H
#define ENGRAM_STORE_ARRAY_H

#include <stddef.h>

/* From old_bytes (0: none yet) to new_bytes >= 1; what both have is kept, what is new is zero. */
void *array_resize(void *old, size_t old_bytes, size_t new_bytes);
void array_free(void *data, size_t bytes);

#endif
