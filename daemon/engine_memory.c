#include "daemon/engine_memory.h"

#include <sys/resource.h>
#include <uv.h>

#include "daemon/base/cgroup.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/memory_file.h"
#include "daemon/handover/hand_over.h"
#include "daemon/heap/adopt.h"
#include "daemon/net/connection.h"
#include "daemon/store/adopt.h"

/* The part of the memory bound that is reserved for receive buffers and small replies: a
 * sixteenth, but at most this. Otherwise a client that fills the memory would also keep others
 * from sending the requests that drop something. */
enum { RESERVE_SHARE = 16, RESERVE_BYTES_MAX = 256 << 20 };

/* What the machine has, or the control group that the daemon is in may have. */
static uint64_t memory_bytes(const struct config *c)
{
    uint64_t machine = uv_get_total_memory(), group = cgroup_memory_max("");
    uint64_t bytes = c->memory_mib_max << 20;
    if (!bytes) bytes = (group < machine ? group : machine) / 4 * 3;
    if (!c->memory_mib_max && group < machine)
        log_info("memory.max_mib: %llu, three quarters of the %llu MiB of the control group",
                 (unsigned long long)(bytes >> 20), (unsigned long long)(group >> 20));
    if (bytes > group)
        log_warning("memory.max_mib is %llu, but the control group may have only %llu MiB; the "
                    "kernel ends what takes more",
                    (unsigned long long)(bytes >> 20), (unsigned long long)(group >> 20));
    return bytes;
}

static bool is_limited(int which, unsigned long long *bytes)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) || limit.rlim_cur == RLIM_INFINITY) return false;
    *bytes = limit.rlim_cur;
    return true;
}

/* The heap's memory is files without a name, larger than the bound, whose size is limited like that
 * of others. */
static enum status refuse_heap(uint64_t bytes, enum status st, struct failure *f)
{
    unsigned long long mib = bytes >> 20, limit;
    if (is_limited(RLIMIT_FSIZE, &limit))
        return failure_set(f, st, DETAIL_MEMORY,
                           "memory.max_mib: cannot map %llu MiB; files, which that is to the "
                           "system, may have only %llu bytes (RLIMIT_FSIZE): make it unlimited",
                           mib, limit);
    if (is_limited(RLIMIT_AS, &limit))
        return failure_set(f, st, DETAIL_MEMORY,
                           "memory.max_mib: cannot map %llu MiB, for which four times as many "
                           "addresses are needed; there may be only %llu MiB of them (RLIMIT_AS)",
                           mib, limit >> 20);
    if (is_limited(RLIMIT_DATA, &limit))
        return failure_set(f, st, DETAIL_MEMORY,
                           "memory.max_mib: cannot map the tables of %llu MiB; data may have only "
                           "%llu MiB (RLIMIT_DATA)",
                           mib, limit >> 20);
    return failure_set(f, st, DETAIL_MEMORY, "memory.max_mib: cannot map %llu MiB", mib);
}

/* Where another daemon's data are, they are this one's afterwards. */
static enum status adopt(struct hand_over *from, struct heap *heap, struct store *store,
                         struct failure *f)
{
    uint64_t objects = 0, began_ns = clock_now_ns();
    enum status st = catalogue_open(from->catalogue_fd, &from->from, f);
    if (!st) st = store_adopt(store, &from->from, &objects, f);
    if (!st) st = heap_adopt_check(heap, f);
    if (!st) st = hand_over_claim(from, f);
    if (st) return st;
    heap_adopt_end(heap);
    log_info("hand-over: %llu object%s, %llu MiB, adopted in %.1f ms", (unsigned long long)objects,
             objects == 1 ? "" : "s", (unsigned long long)(heap_usage(heap).bytes_used >> 20),
             (double)(clock_now_ns() - began_ns) * 1e-6);
    return STATUS_OK;
}

enum status engine_memory_build(const struct config *c, const struct vector_kernels *kernels,
                                struct hand_over *from, struct heap **heap, struct store **store,
                                struct failure *f)
{
    uint64_t bytes_max = memory_bytes(c), reserve = bytes_max / RESERVE_SHARE;
    enum status st =
        from ? heap_adopt(bytes_max, from->heap_fd, heap, f) : heap_create(bytes_max, heap);
    if (st) return from ? st : refuse_heap(bytes_max, st, f);
    if (!memory_file_never_runs(heap_fd(*heap)))
        log_info("memory: this kernel cannot seal it against being run; Linux 6.3 can");
    st = heap_start_releaser(*heap);
    if (st) return failure_set(f, st, DETAIL_MEMORY, "no thread for the heap");
    heap_limit_cache(*heap, c->cache_mib_max << 20);
    heap_reserve(*heap, reserve < RESERVE_BYTES_MAX ? reserve : RESERVE_BYTES_MAX, RECEIVE_BYTES);
    st = store_create(*heap, kernels, store);
    if (st) return failure_set(f, st, DETAIL_MEMORY, "no memory for the store");
    if (from && (st = adopt(from, *heap, *store, f))) return st;
    store_limit_collections(*store, c->collection_max);
    return STATUS_OK;
}
