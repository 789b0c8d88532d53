#include "daemon/heap/areas.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/memory_file.h"

#define MAP_ALIGN (UINT64_C(2) << 20)

static uint64_t bytes_of(const struct heap_area *a)
{
    return (uint64_t)a->buddy.units * HEAP_UNIT;
}

/* A descriptor through which the file cannot be mapped for writing. A seal would do the same for
 * all descriptors, but forbids to punch holes, which is how memory goes back to the system. Without
 * /proc it is one like the daemon's own, which a GPU process maps only to read. */
static enum status open_to_read(struct heap *h)
{
    char path[32];
    errno = EMFILE;
    int fd = h->areas[HEAP_OWN].fd;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    h->read_fd = fault_here("heap: descriptor") ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (h->read_fd < 0 && errno == ENOENT) h->read_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return h->read_fd < 0 ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK;
}

static enum status map_file(const struct heap *h, const struct heap_area *a)
{
    char *at = h->base + (uint64_t)a->first_unit * HEAP_UNIT;
    if (fault_here("heap: map") ||
        mmap(at, bytes_of(a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, a->fd,
             0) == MAP_FAILED)
        return STATUS_RESOURCE_EXHAUSTED;
    return STATUS_OK;
}

/* 2 MiB aligned, so that a kernel with huge pages for shared memory can use them. */
static enum status reserve(struct heap *h)
{
    for (int i = 0; i < HEAP_AREAS; i++)
        h->file_bytes += bytes_of(&h->areas[i]);
    h->reserved_bytes = h->file_bytes + MAP_ALIGN;
    char *reserved = fault_here("heap: address space")
                         ? MAP_FAILED
                         : mmap(NULL, h->reserved_bytes, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return STATUS_RESOURCE_EXHAUSTED;
    h->reserved = reserved;
    h->base = (char *)(((uintptr_t)reserved + MAP_ALIGN - 1) / MAP_ALIGN * MAP_ALIGN);
    return STATUS_OK;
}

static int open_file(enum heap_area_name name, uint64_t bytes, int own_fd)
{
    static const char *const names[HEAP_AREAS] = {"engram-heap", "engram-exchange"};
    if (name != HEAP_OWN || own_fd < 0) return memory_file_create(names[name], bytes);
    return fault_here("heap: descriptor") ? -1 : fcntl(own_fd, F_DUPFD_CLOEXEC, 0);
}

enum status areas_open(struct heap *h, const uint32_t units[HEAP_AREAS], int own_fd)
{
    enum status st = STATUS_OK;
    uint32_t first = 0;
    h->read_fd = -1;
    for (int i = 0; i < HEAP_AREAS; i++) {
        struct heap_area *a = &h->areas[i];
        a->fd = -1;
        a->first_unit = first;
        first += units[i];
        for (uint32_t order = 0; order < BUDDY_ORDERS; order++)
            a->class_head[order] = NONE;
        if (!st) st = buddy_init(&a->buddy, units[i]);
        if (!st) a->fd = open_file((enum heap_area_name)i, bytes_of(a), own_fd);
        if (!st && a->fd < 0) st = STATUS_RESOURCE_EXHAUSTED;
    }
    if (!st) st = open_to_read(h);
    if (!st) st = reserve(h);
    for (int i = 0; i < HEAP_AREAS && !st; i++)
        st = map_file(h, &h->areas[i]);
    return st;
}

void areas_close(struct heap *h)
{
    if (h->reserved) munmap(h->reserved, h->reserved_bytes);
    if (h->read_fd >= 0) close(h->read_fd);
    for (int i = 0; i < HEAP_AREAS; i++) {
        buddy_finish(&h->areas[i].buddy);
        if (h->areas[i].fd >= 0) close(h->areas[i].fd);
    }
}

void heap_populate(void *data, uint64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    enum { PAGE = 4096 };
    uintptr_t first = (uintptr_t)data / PAGE * PAGE;
    uintptr_t end = (uintptr_t)data + bytes;
    (void)madvise((void *)first, end - first, MADV_POPULATE_WRITE);
#endif
}

void heap_on_shortage(struct heap *h, bool (*spare)(void *owner, uint32_t space, uint64_t bytes),
                      void *owner)
{
    h->spare = spare;
    h->spare_owner = owner;
}
