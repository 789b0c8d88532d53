#include "daemon/store/array.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/base/fault.h"
#include "daemon/base/yield.h"

enum { PAGE = 4096, MAPPED_FROM = 65536, PIECE_BYTES = 1 << 20 };

static bool mapped(size_t bytes)
{
    return bytes >= MAPPED_FROM;
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void *array_take(size_t bytes)
{
    if (!mapped(bytes)) return calloc(1, bytes);
    void *p =
        mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *array_resize(void *old, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes > old_bytes && fault_here("store: array")) return NULL;
    if (old_bytes && mapped(old_bytes) && mapped(new_bytes)) {
        size_t old_pages = whole_pages(old_bytes), new_pages = whole_pages(new_bytes);
        /* The rest of the last page may still hold what was written there before the array
         * shrank. */
        if (new_bytes > old_bytes) memset((char *)old + old_bytes, 0, old_pages - old_bytes);
        if (old_pages == new_pages) return old;
        void *p = mremap(old, old_pages, new_pages, MREMAP_MAYMOVE);
        return p == MAP_FAILED ? NULL : p;
    }
    void *p = array_take(new_bytes);
    if (!p) return NULL;
    memcpy(p, old_bytes ? old : p, old_bytes < new_bytes ? old_bytes : new_bytes);
    array_free(old, old_bytes);
    return p;
}

/* Gives pages back from the end on, in pieces: 8 MiB at once take some 5 ms. */
static void unmap(char *data, size_t bytes)
{
    for (size_t left = whole_pages(bytes), n; left; left -= n) {
        yield_check();
        n = left < PIECE_BYTES ? left : PIECE_BYTES;
        munmap(data + left - n, n);
    }
}

void array_free(void *data, size_t bytes)
{
    if (mapped(bytes) && data)
        unmap(data, bytes);
    else
        free(data);
}

enum status array_make_counted(struct outside *count, size_t bytes, size_t beside, void **out)
{
    enum status st = outside_count(count, bytes + beside);
    if (st) return st;
    *out = array_resize(NULL, 0, bytes);
    if (*out) return STATUS_OK;
    outside_end(count);
    return STATUS_RESOURCE_EXHAUSTED;
}
