#include "daemon/base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "daemon/base/fault.h"

void secret_keep(struct secret *s, const void *token, size_t bytes)
{
    SHA256(token, bytes, s->digest);
}

bool secret_matches(const struct secret *s, const void *token, size_t bytes)
{
    struct secret other;
    secret_keep(&other, token, bytes);
    return CRYPTO_memcmp(other.digest, s->digest, sizeof s->digest) == 0;
}

static enum status refuse(const struct secret_source *from, const char *why, struct failure *f)
{
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM, "%s: %.120s: %s", from->setting,
                       from->path, why);
}

const char *secret_file_fault(int fd)
{
    struct stat sb;
    if (fstat(fd, &sb)) return strerror(errno);
    if (!S_ISREG(sb.st_mode)) return "not a regular file";
    if (sb.st_mode & S_IRWXO) return "others may read or change it (chmod o=)";
    if (sb.st_mode & S_IWGRP) return "its group may change it (chmod g-w)";
    return NULL;
}

static bool is_visible(const uint8_t *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] <= 0x20 || text[i] >= 0x7f) return false;
    return true;
}

static enum status read_token(int fd, const struct secret_source *from, struct secret *out,
                              struct failure *f)
{
    uint8_t text[SECRET_BYTES_MAX + 3];
    const char *wrong = secret_file_fault(fd);
    if (wrong) return refuse(from, wrong, f);
    ssize_t n = fault_here("secret: read") ? (errno = EIO, -1) : read(fd, text, sizeof text);
    if (n < 0) return refuse(from, strerror(errno), f);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    enum status st = STATUS_OK;
    if (n == 0)
        st = refuse(from, "empty", f);
    else if (from->visible && (n > SECRET_BYTES_MAX || !is_visible(text, (size_t)n)))
        st = refuse(from, "a token has 1 to 255 visible characters, and no blanks", f);
    else if (n > SECRET_BYTES_MAX)
        st = refuse(from, "a token has 1 to 255 bytes", f);
    else
        secret_keep(out, text, (size_t)n);
    OPENSSL_cleanse(text, sizeof text);
    return st;
}

enum status secret_read(const struct secret_source *from, struct secret *out, struct failure *f)
{
    /* A pipe that nobody writes to must not hold up the start. */
    int fd = fault_here("secret: open")
                 ? (errno = EMFILE, -1)
                 : open(from->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return refuse(from, strerror(errno), f);
    enum status st = read_token(fd, from, out, f);
    close(fd);
    return st;
}
