#include "daemon/base/catalogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "daemon/base/fault.h"
#include "daemon/base/memory_file.h"

/* Pieces are gathered so that a small one takes no system call. */
enum { BUFFER_BYTES = 1 << 18, ALIGN = 8 };
#define MAGIC     UINT64_C(0x676f6c6174614345) /* "ECatalog" */
#define BYTES_MAX (UINT64_C(1) << 40)

struct head {
    uint64_t magic, format, bytes; /* bytes: of all that follows */
    uint64_t sum, head_sum;        /* of that; and of this struct up to here */
};

struct catalogue_writer {
    int fd;
    XXH3_state_t *state;
    uint64_t bytes, gathered;
    bool failed;
    char buffer[BUFFER_BYTES];
};

static uint64_t head_sum(const struct head *h)
{
    return XXH3_64bits(h, offsetof(struct head, head_sum));
}

/* ---- writing ---- */

static void write_all(struct catalogue_writer *w, const char *data, uint64_t bytes)
{
    while (bytes && !w->failed) {
        size_t most = bytes < (UINT64_C(1) << 30) ? bytes : (size_t)1 << 30;
        ssize_t n = fault_here("catalogue: write") ? -1 : write(w->fd, data, most);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            w->failed = true;
            return;
        }
        data += n;
        bytes -= (uint64_t)n;
    }
}

static void flush(struct catalogue_writer *w)
{
    write_all(w, w->buffer, w->gathered);
    w->gathered = 0;
}

static void add(struct catalogue_writer *w, const void *data, uint64_t bytes)
{
    XXH3_64bits_update(w->state, data, bytes);
    w->bytes += bytes;
    if (bytes > BUFFER_BYTES / 2) {
        flush(w);
        write_all(w, data, bytes);
        return;
    }
    if (w->gathered + bytes > BUFFER_BYTES) flush(w);
    memcpy(w->buffer + w->gathered, data, bytes);
    w->gathered += bytes;
}

enum status catalogue_begin(struct catalogue_writer **out)
{
    const struct head none = {0};
    struct catalogue_writer *w = fault_here("catalogue: struct") ? NULL : calloc(1, sizeof *w);
    if (!w) return STATUS_RESOURCE_EXHAUSTED;
    w->state = XXH3_createState();
    w->fd = memory_file_begin("engram-catalogue");
    if (!w->state || w->fd < 0) {
        catalogue_abandon(w);
        return STATUS_RESOURCE_EXHAUSTED;
    }
    XXH3_64bits_reset(w->state);
    write_all(w, (const char *)&none, sizeof none);
    *out = w;
    return STATUS_OK;
}

void catalogue_put(struct catalogue_writer *w, const void *data, uint64_t bytes)
{
    static const char zeros[ALIGN];
    if (bytes) add(w, data, bytes);
    if (w->bytes % ALIGN) add(w, zeros, ALIGN - w->bytes % ALIGN);
}

enum status catalogue_end(struct catalogue_writer *w, int *fd)
{
    struct head h = {.magic = MAGIC, .format = CATALOGUE_FORMAT, .bytes = w->bytes};
    flush(w);
    h.sum = XXH3_64bits_digest(w->state);
    h.head_sum = head_sum(&h);
    bool ok = !w->failed && !fault_here("catalogue: head") &&
              pwrite(w->fd, &h, sizeof h, 0) == sizeof h && memory_file_end(w->fd);
    if (ok) {
        *fd = w->fd;
        w->fd = -1;
    }
    catalogue_abandon(w);
    return ok ? STATUS_OK : STATUS_RESOURCE_EXHAUSTED;
}

void catalogue_abandon(struct catalogue_writer *w)
{
    if (!w) return;
    XXH3_freeState(w->state);
    if (w->fd >= 0) close(w->fd);
    free(w);
}

/* ---- reading ---- */

static enum status damaged(const char *why, struct failure *f)
{
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "the catalogue %s", why);
}

static enum status check_head(const struct head *h, uint64_t bytes, struct failure *f)
{
    if (h->magic != MAGIC) return damaged("is none, or was never ended", f);
    if (h->format != CATALOGUE_FORMAT)
        return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_NONE,
                           "the catalogue has format %llu, and this version reads %d",
                           (unsigned long long)h->format, CATALOGUE_FORMAT);
    if (h->head_sum != head_sum(h) || h->bytes != bytes - sizeof *h)
        return damaged("has a damaged head", f);
    return STATUS_OK;
}

enum status catalogue_open(int fd, struct catalogue_reader *out, struct failure *f)
{
    struct stat sb;
    struct head h;
    if (fstat(fd, &sb) || !S_ISREG(sb.st_mode)) return damaged("is no file", f);
    /* a file that could be cut would end who reads it */
    if (!memory_file_is_sealed(fd, true)) return damaged("is not sealed", f);
    uint64_t bytes = (uint64_t)sb.st_size;
    if (bytes < sizeof h || bytes > BYTES_MAX) return damaged("is cut", f);
    void *map = fault_here("catalogue: map") ? MAP_FAILED
                                             : mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "the catalogue cannot be mapped: %s", strerror(errno));
    memcpy(&h, map, sizeof h);
    enum status st = check_head(&h, bytes, f);
    const char *body = (const char *)map + sizeof h;
    if (!st && XXH3_64bits(body, h.bytes) != h.sum) st = damaged("is damaged", f);
    if (st) {
        munmap(map, bytes);
        return st;
    }
    *out = (struct catalogue_reader){
        .base = map, .at = body, .end = body + h.bytes, .mapped_bytes = bytes};
    return STATUS_OK;
}

void catalogue_close(struct catalogue_reader *r)
{
    if (r->base) munmap((void *)(uintptr_t)r->base, r->mapped_bytes);
    *r = (struct catalogue_reader){0};
}

const void *catalogue_look(struct catalogue_reader *r, uint64_t bytes)
{
    uint64_t left = (uint64_t)(r->end - r->at), whole = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (r->bad || bytes > left || whole > left) {
        r->bad = true;
        return NULL;
    }
    const void *piece = r->at;
    r->at += whole;
    return piece;
}

void catalogue_get(struct catalogue_reader *r, void *out, uint64_t bytes)
{
    const void *piece = catalogue_look(r, bytes);
    if (piece)
        memcpy(out, piece, bytes);
    else
        memset(out, 0, bytes);
}
