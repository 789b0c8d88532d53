/* secret: a token that somebody must know: the file that it is read from, and the comparison.
 * Owner:  the caller.
 * Thread: any.
 * Errors: secret_read: with "setting: path: reason"; INVALID_ARGUMENT where the file is none for a
 * secret. */
#ifndef ENGRAM_BASE_SECRET_H
#define ENGRAM_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/status.h"

enum { SECRET_BYTES_MAX = 255, SECRET_DIGEST_BYTES = 32 };

/* What is kept of a token: its SHA-256. */
struct secret {
    uint8_t digest[SECRET_DIGEST_BYTES];
};

void secret_keep(struct secret *s, const void *token, size_t bytes);
/* It takes as long for one wrong token as for another of its length, and digests are compared, so
 * that not even the right one's length shows in the time. */
bool secret_matches(const struct secret *s, const void *token, size_t bytes);

/* What a file that holds a secret may be: a regular one, which only its owner may change, and which
 * nobody but its owner and its group may read. visible: of a token nothing but visible characters
 * is taken, because more does not arrive in a header of HTTP. */
struct secret_source {
    const char *setting, *path;
    bool visible;
};

/* NULL: fd is such a file; else what is wrong with it. */
const char *secret_file_fault(int fd);

/* Takes all of the file but line ends behind. */
enum status secret_read(const struct secret_source *from, struct secret *out, struct failure *f);

#endif
