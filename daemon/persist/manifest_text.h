/* manifest_text: what printing and parsing a manifest have in common.
 * Owner:  the caller. Thread: any; no state. Errors: none. */
#ifndef ENGRAM_PERSIST_MANIFEST_TEXT_H
#define ENGRAM_PERSIST_MANIFEST_TEXT_H

#include "daemon/persist/manifest.h"

#define MANIFEST_NAME "engram-accel snapshot"
enum { MANIFEST_END_BYTES = 128 }; /* at least those of a line with a sum */

extern const char *const snapshot_kind_names[RESIDENT_KINDS];

/* Writes `,\n\t"name": "sum"` of text[0 .. bytes) behind it. key NULL: a SHA-256; else an HMAC.
 * Returns how many bytes the line has. */
size_t manifest_sum_line(const char *name, const struct manifest_key *key, char *text,
                         size_t bytes);

#endif
