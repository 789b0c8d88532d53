#include "daemon/http/access.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <openssl/crypto.h>

#include "daemon/base/fault.h"

enum { METRICS_TOKEN_BYTES_MAX = 255 };

static enum status refuse(const char *path, const char *why, struct failure *f)
{
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM, "metrics.token_file: %.120s: %s",
                       path, why);
}

static const char *what_is_wrong(const struct stat *sb)
{
    if (!S_ISREG(sb->st_mode)) return "not a regular file";
    if (sb->st_mode & S_IRWXO) return "others may read or change it (chmod o=)";
    if (sb->st_mode & S_IWGRP) return "its group may change it (chmod g-w)";
    return NULL;
}

/* Of a header nothing but visible characters arrives as it was sent. */
static bool is_visible(const uint8_t *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] <= 0x20 || text[i] >= 0x7f) return false;
    return true;
}

static enum status read_token(int fd, const char *path, struct guard *out, struct failure *f)
{
    uint8_t text[METRICS_TOKEN_BYTES_MAX + 3];
    struct stat sb;
    if (fstat(fd, &sb)) return refuse(path, strerror(errno), f);
    const char *wrong = what_is_wrong(&sb);
    if (wrong) return refuse(path, wrong, f);
    ssize_t n = fault_here("http: token") ? (errno = EIO, -1) : read(fd, text, sizeof text);
    if (n < 0) return refuse(path, strerror(errno), f);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    enum status st = STATUS_OK;
    if (n == 0)
        st = refuse(path, "empty", f);
    else if (n > METRICS_TOKEN_BYTES_MAX || !is_visible(text, (size_t)n))
        st = refuse(path, "a token has 1 to 255 visible characters, and no blanks", f);
    else
        guard_set_token(out, text, (size_t)n);
    OPENSSL_cleanse(text, sizeof text);
    return st;
}

enum status access_read(const struct config *c, struct guard *out, struct failure *f)
{
    const char *path = c->metrics_token_file;
    struct guard read = {.open = c->metrics_open};
    if (!path[0] && !c->metrics_open)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM,
                           "metrics.token_file: empty while metrics.open is false: nobody could "
                           "read /metrics");
    if (path[0]) {
        /* A pipe that nobody writes to must not hold up the start. */
        int fd = fault_here("http: open token")
                     ? (errno = EMFILE, -1)
                     : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0) return refuse(path, strerror(errno), f);
        enum status st = read_token(fd, path, &read, f);
        close(fd);
        if (st) return st;
    }
    *out = read;
    return STATUS_OK;
}
