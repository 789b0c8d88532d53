#include "daemon/persist/array_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "daemon/base/fault.h"
#include "daemon/persist/second_thread.h"

enum {
    STEP_BYTES = 1 << 20,    /* that are hashed while the cache has them */
    APART_BYTES = 256 << 10, /* from so many on a second thread hashes them */
};

struct array_file {
    struct second_thread *second; /* of a writer; NULL: none yet */
    bool alone;                   /* there is none to be had */
    int fd;
    struct array_entry *made;       /* of a writer */
    const struct array_entry *told; /* of a reader */
    XXH3_state_t *piece;
    EVP_MD_CTX *sha;    /* NULL: a reader that does not want it */
    uint64_t at, bytes; /* at: what is in the sums */
    uint64_t written;   /* of a writer */
};

void array_entry_free(struct array_entry *entry)
{
    free(entry->pieces);
    entry->pieces = NULL;
    entry->piece_count = 0;
}

uint64_t array_position(const struct array_file *a)
{
    return a->at;
}

void array_abandon(struct array_file *a)
{
    if (!a) return;
    second_thread_end(a->second);
    if (a->fd >= 0) close(a->fd);
    if (a->piece) XXH3_freeState(a->piece);
    EVP_MD_CTX_free(a->sha);
    free(a);
}

static const char *name_of(const struct array_file *a)
{
    return a->made ? a->made->name : a->told->name;
}

static enum status refuse_named(const char *name, const char *what, int error, struct failure *f)
{
    enum status st = error == ENOSPC || error == EDQUOT || error == ENOMEM
                         ? STATUS_RESOURCE_EXHAUSTED
                         : STATUS_UNAVAILABLE;
    return failure_set(f, st, DETAIL_SYSTEM, "%s: %s: %s", name, what, strerror(error));
}

static enum status refuse_system(const struct array_file *a, const char *what, int error,
                                 struct failure *f)
{
    return refuse_named(name_of(a), what, error, f);
}

static enum status refuse_damaged(const struct array_file *a, uint64_t at, const char *why,
                                  struct failure *f)
{
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s: byte %" PRIu64 ": %s", name_of(a),
                       at, why);
}

static struct array_file *make(const struct npy_shape *shape, bool with_sha)
{
    struct array_file *a = fault_here("array: struct") ? NULL : calloc(1, sizeof *a);
    if (!a) return NULL;
    a->fd = -1;
    a->bytes = npy_file_bytes(shape);
    a->piece = fault_here("array: hash") ? NULL : XXH3_createState();
    if (with_sha) a->sha = fault_here("array: sha") ? NULL : EVP_MD_CTX_new();
    if (!a->piece || (with_sha && (!a->sha || !EVP_DigestInit_ex(a->sha, EVP_sha256(), NULL)))) {
        array_abandon(a);
        return NULL;
    }
    XXH3_64bits_reset(a->piece);
    return a;
}

/* Takes what was written or read into the sums. Returns the bytes up to the end of a piece. */
static void sum(struct array_file *a, const void *data, size_t bytes)
{
    XXH3_64bits_update(a->piece, data, bytes);
    if (a->sha) EVP_DigestUpdate(a->sha, data, bytes);
    a->at += bytes;
}

static bool ends_piece(const struct array_file *a)
{
    return a->at == a->bytes || a->at % PERSIST_PIECE_BYTES == 0;
}

static size_t step_of(const struct array_file *a, uint64_t left)
{
    uint64_t step = PERSIST_PIECE_BYTES - a->at % PERSIST_PIECE_BYTES;
    if (step > STEP_BYTES) step = STEP_BYTES;
    return (size_t)(left < step ? left : step);
}

/* ---------------------------------------------------------------- writing */

enum status array_create(int folder, struct array_entry *entry, struct array_file **out,
                         struct failure *f)
{
    char head[NPY_HEAD_BYTES];
    struct array_file *a = make(&entry->shape, true);
    uint64_t pieces = array_piece_count(npy_file_bytes(&entry->shape));
    entry->pieces =
        a && !fault_here("array: pieces") ? calloc(pieces, sizeof *entry->pieces) : NULL;
    if (!entry->pieces) {
        array_abandon(a);
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a file");
    }
    entry->piece_count = pieces;
    a->made = entry;
    errno = EIO;
    a->fd = fault_here("array: create")
                ? -1
                : openat(folder, entry->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                         0640);
    if (a->fd < 0) {
        enum status st = refuse_system(a, "cannot be made", errno, f);
        array_abandon(a);
        return st;
    }
    npy_write_head(&entry->shape, head);
    enum status st = array_write(a, head, sizeof head, f);
    if (st)
        array_abandon(a);
    else
        *out = a;
    return st;
}

static enum status write_all(struct array_file *a, const char *data, size_t bytes,
                             struct failure *f)
{
    while (bytes) {
        errno = ENOSPC;
        ssize_t n = fault_here("array: write") ? -1 : write(a->fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return refuse_system(a, "cannot be written", n ? errno : EIO, f);
        data += n;
        bytes -= (size_t)n;
    }
    return STATUS_OK;
}

/* Takes what is, or will be, in the file into the sums. */
static void sum_written(void *owner, const void *data, uint64_t bytes)
{
    struct array_file *a = owner;
    const char *from = data;
    for (uint64_t left = bytes, step; left; left -= step, from += step) {
        step = step_of(a, left);
        sum(a, from, step);
        if (!ends_piece(a)) continue;
        a->made->pieces[(a->at - 1) / PERSIST_PIECE_BYTES] = XXH3_64bits_digest(a->piece);
        XXH3_64bits_reset(a->piece);
    }
}

/* The disk begins with every piece, so that the sync at the end has little left to do and the
 * system's memory does not fill with what waits to be written. */
static enum status write_begun(struct array_file *a, const char *data, uint64_t bytes,
                               struct failure *f)
{
    enum status st = STATUS_OK;
    for (uint64_t n; !st && bytes; bytes -= n, data += n) {
        n = PERSIST_PIECE_BYTES - a->written % PERSIST_PIECE_BYTES;
        if (n > bytes) n = bytes;
        st = write_all(a, data, n, f);
        a->written += n;
        if (st || a->written % PERSIST_PIECE_BYTES) continue;
        sync_file_range(a->fd, (off_t)(a->written - PERSIST_PIECE_BYTES),
                        (off_t)PERSIST_PIECE_BYTES, SYNC_FILE_RANGE_WRITE);
    }
    return st;
}

/* SHA-256 takes about as long as the disk: while a second thread does that, this one writes. */
enum status array_write_kept(struct array_file *a, const void *data, uint64_t bytes,
                             struct failure *f)
{
    if (bytes >= APART_BYTES && !a->second && !a->alone) {
        a->second = second_thread_make(sum_written, a);
        a->alone = !a->second;
    }
    if (a->second)
        second_thread_give(a->second, data, bytes);
    else
        sum_written(a, data, bytes);
    return write_begun(a, data, bytes, f);
}

enum status array_write(struct array_file *a, const void *data, uint64_t bytes, struct failure *f)
{
    enum status st = array_write_kept(a, data, bytes, f);
    if (a->second) second_thread_wait(a->second);
    return st;
}

static enum status sync_file(int fd, const char *name, struct failure *f)
{
    errno = EIO;
    return fault_here("array: sync") || fdatasync(fd)
               ? refuse_named(name, "cannot be synced", errno, f)
               : STATUS_OK;
}

/* All of it must be there. */
static enum status end_sums(struct array_file *a, struct failure *f)
{
    if (a->second) second_thread_wait(a->second);
    if (a->at != a->bytes)
        return failure_set(f, STATUS_INTERNAL, DETAIL_NONE, "%s: %" PRIu64 " of %" PRIu64 " bytes",
                           name_of(a), a->at, a->bytes);
    EVP_DigestFinal_ex(a->sha, a->made->sha256, NULL);
    return STATUS_OK;
}

enum status array_end_write(struct array_file *a, struct failure *f)
{
    enum status st = end_sums(a, f);
    if (!st) st = sync_file(a->fd, name_of(a), f);
    array_abandon(a);
    return st;
}

/* The one that has waited longest has the least left to do. */
static enum status sync_first(struct array_late *late, struct failure *f)
{
    enum status st = sync_file(late->fds[0], late->names[0], f);
    close(late->fds[0]);
    late->count--;
    memmove(late->fds, late->fds + 1, late->count * sizeof *late->fds);
    memmove(late->names, late->names + 1, late->count * sizeof *late->names);
    return st;
}

enum status array_end_write_late(struct array_file *a, struct array_late *late, struct failure *f)
{
    enum status st = end_sums(a, f);
    if (!st && late->count == ARRAY_LATE_MAX) st = sync_first(late, f);
    if (!st) {
        sync_file_range(a->fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* what no piece has begun */
        late->fds[late->count] = a->fd;
        strcpy(late->names[late->count++], name_of(a));
        a->fd = -1;
    }
    array_abandon(a);
    return st;
}

enum status array_sync_late(struct array_late *late, struct failure *f)
{
    struct failure ignored;
    enum status st = STATUS_OK;
    while (late->count) {
        enum status one = sync_first(late, st ? &ignored : f);
        if (!st) st = one;
    }
    return st;
}

/* ---------------------------------------------------------------- reading */

static enum status check_size(struct array_file *a, struct failure *f)
{
    struct stat is;
    if (fstat(a->fd, &is)) return refuse_system(a, "cannot be looked at", errno, f);
    if (!S_ISREG(is.st_mode))
        return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s: not a regular file",
                           name_of(a));
    if ((uint64_t)is.st_size == a->bytes) return STATUS_OK;
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED,
                       "%s: %" PRIu64 " bytes, and the manifest says %" PRIu64, name_of(a),
                       (uint64_t)is.st_size, a->bytes);
}

static enum status check_head(struct array_file *a, struct failure *f)
{
    char head[NPY_HEAD_BYTES], wanted[NPY_HEAD_BYTES];
    enum status st = array_read(a, head, sizeof head, f);
    if (st) return st;
    npy_write_head(&a->told->shape, wanted);
    for (uint64_t i = 0; i < sizeof head; i++)
        if (head[i] != wanted[i])
            return refuse_damaged(a, i, "the head of the array is not as the manifest says", f);
    return STATUS_OK;
}

enum status array_open(int folder, const struct array_entry *entry, bool with_sha,
                       struct array_file **out, struct failure *f)
{
    struct array_file *a = make(&entry->shape, with_sha);
    if (!a) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a file");
    a->told = entry;
    errno = EIO;
    a->fd = fault_here("array: open")
                ? -1
                : openat(folder, entry->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    enum status st = STATUS_OK;
    if (a->fd < 0 && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR))
        st = failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s: %s", name_of(a),
                         errno == ELOOP ? "a symbolic link" : "missing");
    else if (a->fd < 0)
        st = refuse_system(a, "cannot be opened", errno, f);
    if (!st) st = check_size(a, f);
    if (!st) {
        posix_fadvise(a->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        st = check_head(a, f);
    }
    if (st)
        array_abandon(a);
    else
        *out = a;
    return st;
}

static enum status read_all(struct array_file *a, char *data, size_t bytes, struct failure *f)
{
    uint64_t at = a->at;
    while (bytes) {
        errno = EIO;
        ssize_t n = fault_here("array: read") ? -1 : read(a->fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return refuse_system(a, "cannot be read", errno, f);
        if (!n) return refuse_damaged(a, at, "the file ends", f);
        data += n;
        bytes -= (size_t)n;
        at += (uint64_t)n;
    }
    return STATUS_OK;
}

enum status array_read(struct array_file *a, void *data, uint64_t bytes, struct failure *f)
{
    char *to = data;
    while (bytes) {
        size_t step = step_of(a, bytes);
        enum status st = read_all(a, to, step, f);
        if (st) return st;
        sum(a, to, step);
        to += step;
        bytes -= step;
        if (!ends_piece(a)) continue;
        uint64_t first = (a->at - 1) / PERSIST_PIECE_BYTES;
        if (XXH3_64bits_digest(a->piece) != a->told->pieces[first])
            return refuse_damaged(a, first * PERSIST_PIECE_BYTES,
                                  "the 16 MiB from here are not those that were written", f);
        XXH3_64bits_reset(a->piece);
    }
    return STATUS_OK;
}

enum status array_end_read(struct array_file *a, struct failure *f)
{
    enum status st = STATUS_OK;
    char *rest = a->at == a->bytes ? NULL : malloc(STEP_BYTES);
    if (a->at != a->bytes && !rest)
        st = failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory to read a file");
    while (!st && a->at < a->bytes)
        st = array_read(a, rest, step_of(a, a->bytes - a->at), f);
    free(rest);
    uint8_t sha256[SHA256_BYTES];
    if (!st && a->sha) {
        EVP_DigestFinal_ex(a->sha, sha256, NULL);
        if (memcmp(sha256, a->told->sha256, sizeof sha256) != 0)
            st = failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s: its SHA-256 differs",
                             name_of(a));
    }
    array_abandon(a);
    return st;
}
