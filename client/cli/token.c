#include "client/cli/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *what_is_wrong(int fd)
{
    struct stat sb;
    if (fstat(fd, &sb)) return strerror(errno);
    if (S_ISDIR(sb.st_mode)) return strerror(EISDIR);
    if (!S_ISREG(sb.st_mode)) return NULL; /* a pipe: <(command) in a shell */
    if (sb.st_mode & S_IRWXO) return "others may read or change it (chmod o=)";
    if (sb.st_mode & S_IWGRP) return "its group may change it (chmod g-w)";
    return NULL;
}

/* Reads until the end or until there is no room; a pipe gives as much as was written at once. */
static const char *read_all(int fd, struct cli_token *out)
{
    ssize_t n = 1;
    out->count = 0;
    while (n && out->count < sizeof out->bytes) {
        n = read(fd, out->bytes + out->count, sizeof out->bytes - out->count);
        if (n < 0) return strerror(errno);
        out->count += (size_t)n;
    }
    while (out->count && (out->bytes[out->count - 1] == '\n' || out->bytes[out->count - 1] == '\r'))
        out->count--;
    if (out->count == 0) return "empty";
    return out->count > CLI_TOKEN_BYTES_MAX ? "a token has 1 to 255 bytes" : NULL;
}

bool cli_token_read(const char *path, struct cli_token *out, char *error, size_t error_bytes)
{
    if (out->count) return true;
    if (!path) path = getenv("ENGRAM_ACCEL_TOKEN_FILE");
    if (!path || !*path) return true;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    const char *wrong = fd < 0 ? strerror(errno) : what_is_wrong(fd);
    if (!wrong) wrong = read_all(fd, out);
    if (fd >= 0) close(fd);
    if (!wrong) return true;
    out->count = 0;
    snprintf(error, error_bytes, "token file %s: %s", path, wrong);
    return false;
}
