/* socket_file: the file of a Unix socket that is listened on. A lock file beside it, PATH.lock,
 * says whose it is: one byte of it is locked by whoever is looking, the other by the path's owner,
 * for as long as that process lives; it holds the owner's process id.
 * Owner:  whoever listens.
 * Thread: any, one at a time.
 * Errors: why the path cannot be used, with text. */
#ifndef ENGRAM_BASE_SOCKET_FILE_H
#define ENGRAM_BASE_SOCKET_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/status.h"

enum { SOCKET_PATH_BYTES = 108 };

/* All zero: no path is owned. */
struct socket_file {
    char path[SOCKET_PATH_BYTES]; /* "": none */
    uint64_t device, inode;       /* of the socket's file, so that only that one is removed */
    int lock_fd;
};

/* Makes a socket that is bound to path, with this mode, and does not listen yet; the socket file of
 * a daemon that was killed is replaced. A daemon whose socket file was removed has lost the path.
 * ALREADY_EXISTS: another process has it, or there is something that is no socket; it is left
 * alone. */
enum status socket_file_bind(const char *path, uint32_t mode, struct socket_file *out, int *fd,
                             struct failure *f);
/* True if the path has an owner that was killed, and has not ended yet: its locks go when its
 * memory is taken down. *pid: its process. */
bool socket_file_owner_ends(const char *path, long *pid);
/* This process is its owner from now on, as another was before: says so to whoever asks. */
void socket_file_tell_owner(const struct socket_file *s);
/* Who may connect from now on, where the path is still its socket's. */
enum status socket_file_set_mode(const struct socket_file *s, uint32_t mode, struct failure *f);
/* Removes the socket's file if it is still the one that was made, and gives the path up. While that
 * socket is open no other file can get its number, so it is closed only behind this. */
void socket_file_release(struct socket_file *s);

#endif
