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
#include "daemon/persist/zstd_frame.h"

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
    uint64_t at, bytes; /* of the file: at: what is in the sums; a frame's are not known before */
    uint64_t written;   /* of a writer */
    uint64_t inside, inside_at; /* of the array, and what of it was written or read */
    struct zstd_out *packs;     /* NULL: it is plain */
    struct zstd_in *unpacks;
};

void array_entry_free(struct array_entry *entry)
{
    free(entry->pieces);
    entry->pieces = NULL;
    entry->piece_count = 0;
}

uint64_t array_position(const struct array_file *a)
{
    return a->inside_at;
}

void array_abandon(struct array_file *a)
{
    if (!a) return;
    second_thread_end(a->second);
    if (a->fd >= 0) close(a->fd);
    if (a->piece) XXH3_freeState(a->piece);
    EVP_MD_CTX_free(a->sha);
    zstd_out_free(a->packs);
    zstd_in_free(a->unpacks);
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

static struct array_file *make(const struct array_entry *entry, bool with_sha)
{
    struct array_file *a = fault_here("array: struct") ? NULL : calloc(1, sizeof *a);
    if (!a) return NULL;
    a->fd = -1;
    a->inside = npy_file_bytes(&entry->shape);
    a->bytes = array_disk_bytes(entry);
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

/* What a frame may come to: blocks of 128 KiB that are no smaller than before have 3 bytes more. */
static uint64_t frame_bytes_max(uint64_t inside)
{
    return inside + inside / 1024 + 4096;
}

static bool open_writer(struct array_file *a, struct array_entry *entry, int level)
{
    uint64_t bytes = entry->is_zstd ? frame_bytes_max(a->inside) : a->inside;
    if (entry->is_zstd) {
        a->bytes = UINT64_MAX;
        a->packs = zstd_out_make(level, a->inside);
        if (!a->packs) return false;
    }
    entry->piece_count = array_piece_count(bytes);
    entry->pieces =
        fault_here("array: pieces") ? NULL : calloc(entry->piece_count, sizeof *entry->pieces);
    a->made = entry;
    return entry->pieces;
}

enum status array_create(int folder, struct array_entry *entry, int level, struct array_file **out,
                         struct failure *f)
{
    char head[NPY_HEAD_BYTES];
    struct array_file *a = make(entry, true);
    if (!a || !open_writer(a, entry, level)) {
        array_abandon(a);
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a file");
    }
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

/* The end of a piece, or of a file whose size was not known. */
static void end_piece(struct array_file *a)
{
    a->made->pieces[(a->at - 1) / PERSIST_PIECE_BYTES] = XXH3_64bits_digest(a->piece);
    XXH3_64bits_reset(a->piece);
}

/* Takes what is, or will be, in the file into the sums. */
static void sum_written(void *owner, const void *data, uint64_t bytes)
{
    struct array_file *a = owner;
    const char *from = data;
    for (uint64_t left = bytes, step; left; left -= step, from += step) {
        step = step_of(a, left);
        sum(a, from, step);
        if (ends_piece(a)) end_piece(a);
    }
}

/* A part of the frame. */
static enum status write_packed(void *owner, const void *data, uint64_t bytes, struct failure *f)
{
    struct array_file *a = owner;
    if (bytes > a->made->piece_count * PERSIST_PIECE_BYTES - a->at)
        return failure_set(f, STATUS_INTERNAL, DETAIL_NONE, "%s: zstd made too much of it",
                           name_of(a));
    sum_written(a, data, bytes);
    return write_begun(a, data, bytes, f);
}

/* SHA-256 takes about as long as the disk: while a second thread does that, this one writes. */
enum status array_write_kept(struct array_file *a, const void *data, uint64_t bytes,
                             struct failure *f)
{
    a->inside_at += bytes;
    if (a->packs) return zstd_out_write(a->packs, data, bytes, false, write_packed, a, f);
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
    if (a->inside_at != a->inside)
        return failure_set(f, STATUS_INTERNAL, DETAIL_NONE, "%s: %" PRIu64 " of %" PRIu64 " bytes",
                           name_of(a), a->inside_at, a->inside);
    if (a->packs) {
        enum status st = zstd_out_write(a->packs, NULL, 0, true, write_packed, a, f);
        if (st) return st;
        if (!ends_piece(a)) end_piece(a);
        a->made->zstd_bytes = a->at;
        a->made->piece_count = array_piece_count(a->at);
    }
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
    struct array_file *a = make(entry, with_sha);
    if (a && entry->is_zstd && !(a->unpacks = zstd_in_make())) {
        array_abandon(a);
        a = NULL;
    }
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

/* Reads the next bytes of the file. */
static enum status read_summed(struct array_file *a, void *data, uint64_t bytes, struct failure *f)
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

/* The next part of a frame. */
static enum status read_packed(void *owner, void *to, uint64_t room, uint64_t *bytes,
                               struct failure *f)
{
    struct array_file *a = owner;
    *bytes = a->bytes - a->at < room ? a->bytes - a->at : room;
    return read_summed(a, to, *bytes, f);
}

/* What is wrong with a frame, if nothing was wrong with its file. */
static enum status say_why(const struct array_file *a, enum status st, const char *why,
                           struct failure *f)
{
    return st == STATUS_DATA_LOSS && why ? refuse_damaged(a, a->at, why, f) : st;
}

enum status array_read(struct array_file *a, void *data, uint64_t bytes, struct failure *f)
{
    const char *why = NULL;
    a->inside_at += bytes;
    if (!a->unpacks) return read_summed(a, data, bytes, f);
    enum status st = zstd_in_read(a->unpacks, data, bytes, read_packed, a, &why, f);
    return say_why(a, st, why, f);
}

static enum status read_rest(struct array_file *a, struct failure *f)
{
    enum status st = STATUS_OK;
    const char *why = NULL;
    uint64_t left = a->inside - a->inside_at;
    char *rest = left ? malloc(STEP_BYTES) : NULL;
    if (left && !rest)
        st = failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory to read a file");
    for (uint64_t n; !st && left; left -= n) {
        n = left < STEP_BYTES ? left : STEP_BYTES;
        st = array_read(a, rest, n, f);
    }
    free(rest);
    if (st || !a->unpacks) return st;
    st = zstd_in_end(a->unpacks, read_packed, a, &why, f);
    return say_why(a, st, why, f);
}

enum status array_end_read(struct array_file *a, struct failure *f)
{
    enum status st = read_rest(a, f);
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
