/* device: what the GPU process asks of a GPU: one const table. device_cuda is real; device_sim runs
 * the CPU kernels behind it, with a settable memory, latency and faults (tests, machines without a
 * GPU).
 * Owner:  the GPU process, one device each.
 * Thread: the device thread only, but for what copiers write into pinned memory.
 * Errors: each function returns an enum device_result. A failed call has done nothing, except that
 *         after DEVICE_STICKY every later call fails too: only a fresh process helps.
 *
 * `stream` orders work: what is enqueued on one happens in order; streams overlap. Device memory is
 * named by pointers of the device's address space, never read or written by the host. Functions
 * said to enqueue return at once; what they were given must stay until a later event is done. */
#ifndef ENGRAM_GPU_DEVICE_H
#define ENGRAM_GPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/device_call.h"
#include "daemon/heap/share.h"

enum device_result {
    DEVICE_OK = 0,
    DEVICE_BUSY = 1,      /* event_query alone: not done yet */
    DEVICE_NO_MEMORY = 2, /* VRAM, address space or pinned memory is out; all else goes on */
    DEVICE_ERROR = 3,     /* this call failed; the device is sound: try again or elsewhere */
    DEVICE_STICKY = 4,    /* the context is poisoned: restart */
    DEVICE_ABSENT = 5,    /* open alone: no device, no driver, driver too old: give up */
};

struct device;
typedef struct CUstream_st *device_stream;
typedef struct device_event_st *device_event;

/* Memory that grows in place where the device can map it so (share_device.virtual_memory), else
 * by moving: `base` may change with each growth. */
struct device_range {
    char *base;         /* NULL: nothing mapped */
    uint64_t bytes;     /* mapped, a multiple of the device's granularity */
    uint64_t bytes_max; /* address space set aside */
    void *inside;       /* the device's */
};

struct device_options {
    const char
        *which; /* "0": the n-th that the driver shows; sim: its settings, see device_sim.c */
    const struct clock *clock; /* sim: NULL: the real one */
    bool managed; /* unified memory with advise and prefetch in place of device memory */
};

struct device_ops {
    const char *name;

    /* ---- life ---- */
    /* Fills info. why (SHARE_WHY bytes): for DEVICE_ABSENT, one line a person can act on. */
    enum device_result (*open)(const struct device_options *options, struct device **out,
                               struct share_device *info, char *why);
    void (*close)(struct device *d); /* NULL is fine; waits for nothing */
    /* What the last result that was not OK was about: "cudaMemcpyAsync: out of memory". */
    const char *(*last_error)(const struct device *d);

    /* ---- memory ---- */
    enum device_result (*memory)(struct device *d, uint64_t *free_bytes, uint64_t *total_bytes);
    enum device_result (*allocate)(struct device *d, uint64_t bytes, void **out);
    void (*release)(struct device *d, void *address);
    enum device_result (*host_allocate)(struct device *d, uint64_t bytes, void **out); /* pinned */
    void (*host_release)(struct device *d, void *address);
    /* r zeroed: sets address space aside, maps nothing. bytes_max is a bound, not a cost. */
    enum device_result (*range_reserve)(struct device *d, uint64_t bytes_max,
                                        struct device_range *r);
    /* Maps at least `bytes` (>= r->bytes: grows; fewer: may shrink). What was there stays; new
     * memory holds anything. Enqueued work that uses r must be done where base moves or shrinks:
     * range_moves tells. */
    enum device_result (*range_resize)(struct device *d, struct device_range *r, uint64_t bytes);
    bool (*range_moves)(const struct device *d);
    void (*range_release)(struct device *d, struct device_range *r); /* zeroes *r */

    /* ---- streams and events ---- */
    enum device_result (*stream_create)(struct device *d, device_stream *out);
    void (*stream_destroy)(struct device *d, device_stream s);
    enum device_result (*event_create)(struct device *d, device_event *out);
    void (*event_destroy)(struct device *d, device_event e);
    enum device_result (*event_record)(struct device *d, device_event e, device_stream s);
    /* DEVICE_OK: all before the record is done; DEVICE_BUSY; or what went wrong on the device. */
    enum device_result (*event_query)(struct device *d, device_event e);

    /* ---- enqueue ---- */
    enum device_result (*copy_in)(struct device *d, void *to, const void *pinned, uint64_t bytes,
                                  device_stream s);
    enum device_result (*copy_out)(struct device *d, void *pinned, const void *from, uint64_t bytes,
                                   device_stream s);
    enum device_result (*clear)(struct device *d, void *address, uint64_t bytes, device_stream s);

    /* Enqueues a kernel. What the call points to on the host need not stay. */
    enum device_result (*launch)(struct device *d, const struct device_call *call, device_stream s);
    uint64_t (*topk_scratch_min)(uint64_t query_count, uint32_t k, uint64_t row_count);
    uint64_t (*topk_scratch_best)(uint64_t query_count, uint32_t k, uint64_t row_count);
    uint64_t (*spread_scratch_min)(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                   uint32_t set_count);
    uint64_t (*spread_scratch_best)(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                    uint32_t set_count);
};

struct device {
    const struct device_ops *ops;
};

extern const struct device_ops device_sim;
/* NULL where this build has no CUDA (device_none.c). */
extern const struct device_ops *const device_cuda;

#endif
