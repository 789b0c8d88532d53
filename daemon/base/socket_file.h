/* socket_file: the file of a Unix socket that is to be listened on.
 * Owner:  nobody.
 * Thread: any.
 * Errors: why the path cannot be used, with text. */
#ifndef ENGRAM_BASE_SOCKET_FILE_H
#define ENGRAM_BASE_SOCKET_FILE_H

#include "daemon/base/status.h"

/* Removes the socket file of a daemon that was killed; leaves anything else alone. path: at most
 * 107 bytes. ALREADY_EXISTS: another daemon serves there, or it is no socket. */
enum status socket_file_clear(const char *path, struct failure *f);

#endif
