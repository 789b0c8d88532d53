#include "daemon/heap/share.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/memory_file.h"

enum status share_create(uint64_t heap_bytes, const char *version, int *fd_out, struct share **out)
{
    int fd = memory_file_create("engram-share", sizeof(struct share));
    if (fd < 0) return STATUS_RESOURCE_EXHAUSTED;
    struct share *s = MAP_FAILED;
    if (!fault_here("share: map"))
        s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED) {
        close(fd);
        return STATUS_RESOURCE_EXHAUSTED;
    }
    s->magic = SHARE_MAGIC;
    s->bytes = sizeof *s;
    s->heap_bytes = heap_bytes;
    snprintf(s->front_version, sizeof s->front_version, "%s", version);
    *fd_out = fd;
    *out = s;
    return STATUS_OK;
}

/* The fields up to `why`, which have the same place in every version. */
#define SHARE_FIXED_BYTES (offsetof(struct share, why) + sizeof((struct share *)0)->why)

/* Gives the reason to the caller and to the front, which may be of another version. */
static enum status refuse(struct share *s, size_t bytes, struct failure *f)
{
    snprintf(s->why, sizeof s->why, "%s", f->text);
    atomic_store(&s->state, SHARE_ABSENT);
    munmap(s, bytes);
    return f->code;
}

enum status share_map(int fd, const char *version, struct share **out, struct failure *f)
{
    struct stat file;
    struct share *s = MAP_FAILED;
    size_t bytes = 0;
    if (!fstat(fd, &file) && file.st_size >= (off_t)SHARE_FIXED_BYTES) {
        bytes = (size_t)file.st_size;
        s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (s == MAP_FAILED || s->magic != SHARE_MAGIC) {
        if (s != MAP_FAILED) munmap(s, bytes);
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM,
                           "started by hand: engram-acceld starts this program");
    }
    char theirs[SHARE_TEXT];
    snprintf(theirs, sizeof theirs, "%.*s", SHARE_TEXT - 1, s->front_version);
    snprintf(s->gpu_version, sizeof s->gpu_version, "%s", version);
    if (strcmp(theirs, version) != 0) {
        failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_BAD_VERSION,
                    "engram-accel-gpu is %s, engram-acceld %s: install both from one build",
                    version, theirs);
        return refuse(s, bytes, f);
    }
    if (s->bytes != sizeof *s || bytes != sizeof *s) {
        failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_BAD_VERSION,
                    "engram-accel-gpu and engram-acceld %s are not of one build: install both "
                    "from the same one",
                    version);
        return refuse(s, bytes, f);
    }
    *out = s;
    return STATUS_OK;
}

void share_unmap(struct share *s)
{
    if (s) munmap(s, sizeof *s);
}

void share_copy_text(char *to, size_t bytes, const char *from, size_t from_bytes)
{
    size_t n = 0;
    for (; n + 1 < bytes && n < from_bytes && from[n]; n++)
        to[n] = from[n] >= 0x20 && from[n] < 0x7f ? from[n] : '?';
    to[n] = 0;
}

float *share_query(struct share *s, const struct ring *orders)
{
    return s->queries[orders->mine % SHARE_QUERIES];
}

void share_orders(struct share *s, int wake_fd, struct ring *out)
{
    ring_init(out, &s->order_lines, s->orders, sizeof s->orders[0], SHARE_ORDERS, wake_fd);
}

void share_completions(struct share *s, int wake_fd, struct ring *out)
{
    ring_init(out, &s->completion_lines, s->completions, sizeof s->completions[0],
              SHARE_COMPLETIONS, wake_fd);
}
