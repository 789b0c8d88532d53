/* token_file: the secret that clients over TCP must say, from auth.token_file.
 * Owner:  the engine, when it starts.
 * Thread: the loop.
 * Errors: why the file cannot be read, with text; INVALID_ARGUMENT: it is empty or too long. */
#ifndef ENGRAM_TOKEN_FILE_H
#define ENGRAM_TOKEN_FILE_H

#include "daemon/request/pipeline.h"

/* Reads all of the file but line ends behind. path "": there is no token, and *bytes
 * stays as it is. */
enum status token_file_read(const char *path, uint8_t token[TOKEN_BYTES_MAX], uint32_t *bytes,
                            struct failure *f);

#endif
