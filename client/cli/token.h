/* token: what a daemon with auth.token_file asks of each client, from a file.
 * Owner:  the caller.
 * Thread: the main thread.
 * Errors: false, with text. */
#ifndef ENGRAM_CLI_TOKEN_H
#define ENGRAM_CLI_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLI_TOKEN_BYTES_MAX = 255 };

struct cli_token {
    uint8_t bytes[CLI_TOKEN_BYTES_MAX + 3]; /* what is read; count is what is taken of it */
    size_t count;                           /* 0: none */
};

/* Reads all of the file but line ends behind; path NULL: that of ENGRAM_ACCEL_TOKEN_FILE, if any. A
 * file that others may read or change is refused; a pipe is taken. error: why not. */
bool cli_token_read(const char *path, struct cli_token *out, char *error, size_t error_bytes);

#endif
