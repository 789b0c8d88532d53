#include "daemon/gpu/sim_memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/memory_file.h"

/* Reserves as many addresses as the system gives, up to 1 TiB, in a range without other memory. */
#define REGION_BYTES_MAX (UINT64_C(1) << 40)
#define REGION_BYTES_MIN (UINT64_C(1) << 32)

void sim_misuse(const char *call, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "device_sim: %s: ", call);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

static void *map_nothing(void *at, uint64_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    return mmap(at, bytes, PROT_NONE, flags, -1, 0);
}

bool sim_memory_init(struct sim_memory *m, uint64_t bytes, uint64_t granularity)
{
    uint32_t granules = (uint32_t)(bytes / granularity);
    *m = (struct sim_memory){
        .granularity = granularity,
        .granule_count = granules,
        .granules_free = granules,
        .granule_users = calloc(granules, sizeof(uint8_t)),
        .fd = memory_file_create("engram-vram", (uint64_t)granules * granularity),
        .region = MAP_FAILED,
    };
    for (uint64_t size = REGION_BYTES_MAX; m->region == MAP_FAILED && size >= REGION_BYTES_MIN;
         size /= 2) {
        m->region = map_nothing(NULL, size);
        m->region_bytes = size;
    }
    if (m->granule_users && m->fd >= 0 && m->region != MAP_FAILED) return true;
    sim_memory_finish(m);
    return false;
}

void sim_memory_finish(struct sim_memory *m)
{
    if (!m->granularity) return;
    while (m->span_count > 0)
        sim_span_destroy(m, m->spans[m->span_count - 1]);
    while (m->pinned_count > 0)
        sim_pinned_destroy(m, m->pinned[m->pinned_count - 1].base);
    if (m->region != MAP_FAILED) munmap(m->region, m->region_bytes);
    if (m->fd >= 0) close(m->fd);
    free(m->granule_users);
    free(m->spans);
    free(m->pinned);
    *m = (struct sim_memory){0};
}

/* ---- spans ---- */

/* Finds the first gap of `bytes` from `at` on, and the span before which it lies. */
static bool find_gap(const struct sim_memory *m, uint64_t at, uint64_t bytes, uint64_t *out,
                     uint32_t *before)
{
    uint32_t i = 0;
    for (; i < m->span_count; i++) {
        uint64_t first = (uint64_t)(m->spans[i]->base - m->region);
        uint64_t end = first + m->spans[i]->reserved;
        if (end <= at) continue;
        if (first >= at && first - at >= bytes) break;
        at = end;
    }
    *out = at;
    *before = i;
    return at <= m->region_bytes && m->region_bytes - at >= bytes;
}

static bool grow(void **array, uint32_t *capacity, uint32_t count, size_t size)
{
    if (count < *capacity) return true;
    uint32_t more = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(*array, more * size);
    if (!grown) return false;
    *array = grown;
    *capacity = more;
    return true;
}

struct sim_span *sim_span_create(struct sim_memory *m, uint64_t reserved)
{
    if (reserved > m->region_bytes - 2 * m->granularity) return NULL;
    reserved = (reserved + m->granularity - 1) / m->granularity * m->granularity;
    uint64_t at, padded = reserved + m->granularity; /* leaves a gap behind each span */
    uint32_t before;
    if (!grow((void **)&m->spans, &m->span_capacity, m->span_count, sizeof *m->spans)) return NULL;
    /* Addresses are reused as late as possible, so that code which keeps a freed one is
     * detected. */
    if (!find_gap(m, m->cursor, padded, &at, &before) && !find_gap(m, 0, padded, &at, &before))
        return NULL;
    struct sim_span *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    *s = (struct sim_span){.base = m->region + at, .reserved = padded};
    memmove(m->spans + before + 1, m->spans + before,
            (m->span_count - before) * sizeof(struct sim_span *));
    m->spans[before] = s;
    m->span_count++;
    m->cursor = at + padded;
    return s;
}

static void leave_granule(struct sim_memory *m, uint32_t granule)
{
    if (--m->granule_users[granule] == 0) m->granules_free++;
}

static void give_granules(struct sim_memory *m, struct sim_span *s, uint32_t keep)
{
    if (keep >= s->granule_count) return;
    for (uint32_t i = keep; i < s->granule_count; i++)
        leave_granule(m, s->granules[i]);
    uint64_t from = keep * m->granularity;
    if (map_nothing(s->base + from, s->granule_count * m->granularity - from) == MAP_FAILED)
        sim_misuse("release", "the host cannot unmap memory");
    s->granule_count = keep;
}

/* Takes the lowest free granule from `from` on, so that the next owner gets what another owner gave
 * back; there is one. */
static uint32_t take_granule(struct sim_memory *m, uint32_t from)
{
    while (m->granule_users[from])
        from++;
    m->granule_users[from] = 1;
    m->granules_free--;
    return from;
}

static void take_granules(struct sim_memory *m, struct sim_span *s, uint32_t count)
{
    for (uint32_t g = 0; s->granule_count < count; g++)
        s->granules[s->granule_count++] = g = take_granule(m, g);
}

/* Maps granules [from, end); those that are adjacent in the file at once. */
static bool map_granules(struct sim_memory *m, struct sim_span *s, uint32_t from, uint32_t end)
{
    while (from < end) {
        uint32_t run = 1;
        while (from + run < end && s->granules[from + run] == s->granules[from] + run)
            run++;
        void *at = s->base + from * m->granularity;
        if (mmap(at, run * m->granularity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->fd,
                 (off_t)(s->granules[from] * m->granularity)) == MAP_FAILED)
            return false;
        from += run;
    }
    return true;
}

bool sim_span_resize(struct sim_memory *m, struct sim_span *s, uint64_t bytes)
{
    uint64_t wanted = (bytes + m->granularity - 1) / m->granularity;
    uint32_t had = s->granule_count;
    if (bytes > s->reserved - m->granularity) return false;
    if (wanted > had) {
        if (wanted - had > m->granules_free) return false;
        uint32_t *granules = realloc(s->granules, wanted * sizeof *granules);
        if (!granules) return false;
        s->granules = granules;
        take_granules(m, s, (uint32_t)wanted);
        if (!map_granules(m, s, had, s->granule_count)) {
            give_granules(m, s, had);
            return false;
        }
    }
    give_granules(m, s, (uint32_t)wanted);
    s->bytes = bytes;
    return true;
}

bool sim_span_share(struct sim_memory *m, const struct sim_span *from, struct sim_span *to,
                    uint64_t bytes)
{
    uint32_t count = (uint32_t)((bytes + m->granularity - 1) / m->granularity);
    if (count > from->granule_count) count = from->granule_count;
    to->granules = count ? malloc(count * sizeof *to->granules) : NULL;
    if (!to->granules) return count == 0;
    for (uint32_t i = 0; i < count; i++)
        m->granule_users[to->granules[i] = from->granules[i]]++;
    to->granule_count = count;
    to->bytes = count * m->granularity;
    if (map_granules(m, to, 0, count)) return true;
    give_granules(m, to, 0);
    to->bytes = 0;
    return false;
}

bool sim_span_own(struct sim_memory *m, struct sim_span *s, uint32_t i)
{
    uint32_t was = s->granules[i];
    if (!m->granules_free) return false;
    s->granules[i] = take_granule(m, 0);
    if (map_granules(m, s, i, i + 1)) {
        leave_granule(m, was);
        return true;
    }
    leave_granule(m, s->granules[i]);
    s->granules[i] = was;
    return false;
}

void sim_span_destroy(struct sim_memory *m, struct sim_span *s)
{
    if (!s) return;
    give_granules(m, s, 0);
    uint32_t i = 0;
    while (m->spans[i] != s)
        i++;
    m->span_count--;
    memmove(m->spans + i, m->spans + i + 1, (m->span_count - i) * sizeof(struct sim_span *));
    free(s->granules);
    free(s);
}

struct sim_span *sim_span_at(struct sim_memory *m, const char *call, const void *address)
{
    for (uint32_t i = 0; i < m->span_count; i++)
        if (m->spans[i]->base == (const char *)address) return m->spans[i];
    sim_misuse(call, "%p is not the start of an allocation", address);
}

/* ---- pinned memory ---- */

void *sim_pinned_create(struct sim_memory *m, uint64_t bytes)
{
    enum { PAGE = 4096 };
    if (bytes == 0 || bytes > REGION_BYTES_MAX ||
        !grow((void **)&m->pinned, &m->pinned_capacity, m->pinned_count, sizeof *m->pinned))
        return NULL;
    void *base = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    if (base) m->pinned[m->pinned_count++] = (struct sim_pinned){base, bytes};
    return base;
}

void sim_pinned_destroy(struct sim_memory *m, void *address)
{
    uint32_t i = 0;
    while (i < m->pinned_count && m->pinned[i].base != address)
        i++;
    if (i == m->pinned_count) sim_misuse("host_release", "%p is not pinned memory", address);
    free(address);
    m->pinned[i] = m->pinned[--m->pinned_count];
}

/* ---- checks ---- */

static bool lies_in(const void *address, uint64_t bytes, const char *base, uint64_t size)
{
    uintptr_t at = (uintptr_t)address, first = (uintptr_t)base;
    return at >= first && at - first <= size && size - (at - first) >= bytes;
}

/* Returns the last span that begins at or before address; NULL: none does. */
static const struct sim_span *span_before(const struct sim_memory *m, const void *address)
{
    uint32_t low = 0, high = m->span_count;
    while (low < high) { /* the first that begins after address */
        uint32_t middle = low + (high - low) / 2;
        if ((uintptr_t)m->spans[middle]->base <= (uintptr_t)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? m->spans[low - 1] : NULL;
}

void sim_device_check(const struct sim_memory *m, const char *call, const void *address,
                      uint64_t bytes)
{
    if (bytes == 0) return;
    const struct sim_span *s = span_before(m, address);
    if (s && lies_in(address, bytes, s->base, s->bytes)) return;
    if (s && lies_in(address, 1, s->base, s->bytes))
        sim_misuse(call, "%llu bytes at %p run past the %llu bytes of device memory at %p",
                   (unsigned long long)bytes, address, (unsigned long long)s->bytes,
                   (const void *)s->base);
    if (lies_in(address, 1, m->region, m->region_bytes))
        sim_misuse(call, "%p is device memory that is not, or no longer, allocated", address);
    sim_misuse(call, "%p is not device memory", address);
}

void sim_device_check_array(const struct sim_memory *m, const char *call, const void *address,
                            uint64_t count, uint64_t size, uint64_t alignment)
{
    if (count == 0) return;
    if (count > UINT64_MAX / size) sim_misuse(call, "%llu elements", (unsigned long long)count);
    if ((uintptr_t)address % alignment)
        sim_misuse(call, "%p is not aligned to %u bytes", address, (unsigned)alignment);
    sim_device_check(m, call, address, count * size);
}

void sim_own_check(const struct sim_memory *m, const char *call, const void *address,
                   uint64_t bytes)
{
    const struct sim_span *s = span_before(m, address);
    if (bytes == 0 || !s) return;
    uint64_t first = (uint64_t)((const char *)address - s->base), last = first + bytes - 1;
    for (uint64_t i = first / m->granularity; i <= last / m->granularity; i++)
        if (i < s->granule_count && sim_span_shares(m, s, (uint32_t)i))
            sim_misuse(call, "%p is written, and another range shows the same memory", address);
}

void sim_pinned_check(const struct sim_memory *m, const char *call, const void *address,
                      uint64_t bytes)
{
    if (bytes == 0) return;
    for (uint32_t i = 0; i < m->pinned_count; i++)
        if (lies_in(address, bytes, m->pinned[i].base, m->pinned[i].bytes)) return;
    for (uint32_t i = 0; i < m->pinned_count; i++)
        if (lies_in(address, 1, m->pinned[i].base, m->pinned[i].bytes))
            sim_misuse(call, "%llu bytes at %p run past the %llu bytes of pinned memory at %p",
                       (unsigned long long)bytes, address, (unsigned long long)m->pinned[i].bytes,
                       (void *)m->pinned[i].base);
    sim_misuse(call, "%p is not pinned memory (host_allocate)", address);
}
