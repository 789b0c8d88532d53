/* device: the functions that the GPU process needs of a GPU, as a const table. device_cuda is
 * real; device_sim runs the CPU kernels behind the same table, with settable memory, latency and
 * faults (for tests, and machines without a GPU).
 * Owner:  the GPU process; one device for each.
 * Thread: the device thread only, except that copiers write into pinned memory.
 * Errors: each function returns an enum device_result. A failed call has done nothing, but after
 *         DEVICE_STICKY every later call fails, too: only a fresh process helps.
 *
 * `stream` orders work: what is enqueued on one stream runs in order; streams overlap. Device
 * memory is named by pointers of the device's address space, which the host never reads or writes
 * through. Functions that enqueue return at once; their arguments must stay valid until a later
 * event is done. */
#ifndef ENGRAM_GPU_DEVICE_H
#define ENGRAM_GPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/device_cells.h"
#include "daemon/gpu/device_call.h"
#include "daemon/heap/share.h"

enum device_result {
    DEVICE_OK = 0,
    DEVICE_BUSY = 1, /* event_query only: not done yet */
    /* VRAM, address space or pinned memory ran out; everything else goes on */
    DEVICE_NO_MEMORY = 2,
    DEVICE_ERROR = 3,  /* this call failed, but the device works: try again or elsewhere */
    DEVICE_STICKY = 4, /* the context is unusable: restart the process */
    DEVICE_ABSENT = 5, /* open only: no device, no driver or one that is too old: give up */
};

struct device;
typedef struct CUstream_st *device_stream;
typedef struct device_event_st *device_event;

/* Memory that grows in place if the device can map it so (share_device.virtual_memory); otherwise
 * it moves, and `base` may change with each growth. */
struct device_range {
    char *base;         /* NULL: nothing is mapped */
    uint64_t bytes;     /* mapped, a multiple of the device's granularity */
    uint64_t bytes_max; /* reserved address space */
    /* The other of two ranges over the same contents (range_fork); NULL: there is none. */
    struct device_range *twin;
    uint64_t shared; /* of the second: so many of its bytes are the first's memory */
    void *inside;    /* private to the device */
};

struct device_options {
    const char
        /* "0": the first device that the driver shows; sim: its settings, see sim_settings.h */
        *which;
    const struct clock *clock; /* sim: NULL: the real one */
    bool managed; /* ranges use unified memory with advice and prefetching in place of device's */
};

struct device_ops {
    const char *name;

    /* ---- life ---- */
    /* Opens the device and fills in info. why (SHARE_WHY bytes): for DEVICE_ABSENT, one line that
     * a person can act on. */
    enum device_result (*open)(const struct device_options *options, struct device **out,
                               struct share_device *info, char *why);
    void (*close)(struct device *d); /* NULL is fine; does not wait */
    /* What the last failure was about: "cudaMemcpyAsync: out of memory". */
    const char *(*last_error)(const struct device *d);

    /* ---- memory ---- */
    enum device_result (*memory)(struct device *d, uint64_t *free_bytes, uint64_t *total_bytes);
    enum device_result (*allocate)(struct device *d, uint64_t bytes, void **out);
    void (*release)(struct device *d, void *address);
    enum device_result (*host_allocate)(struct device *d, uint64_t bytes, void **out); /* pinned */
    void (*host_release)(struct device *d, void *address);
    /* Reserves address space and maps nothing; r is zeroed before. bytes_max is a limit and costs
     * nothing. */
    enum device_result (*range_reserve)(struct device *d, uint64_t bytes_max,
                                        struct device_range *r);
    /* Maps at least `bytes` (>= r->bytes: grows; fewer: may shrink). The contents stay; new memory
     * is undefined. Where base moves or the range shrinks, as range_moves tells, enqueued work
     * that uses r must be done before. */
    enum device_result (*range_resize)(struct device *d, struct device_range *r, uint64_t bytes);
    bool (*range_moves)(const struct device *d);
    /* Ranges are mapped in multiples of this. */
    uint64_t (*range_piece)(const struct device *d);
    /* Makes `second`, which is zeroed before, a range with r's contents and at least `bytes`
     * mapped: r's memory at a second address, or a copy made on the stream where ranges move. What
     * lies behind r's end is undefined. Until one of the two is released r is only read, neither
     * struct moves, and `second` is written only where it has memory of its own. */
    enum device_result (*range_fork)(struct device *d, struct device_range *r, uint64_t bytes,
                                     device_stream s, struct device_range *second);
    /* Gives `second` memory of its own where [first, first + bytes) lies, in pieces, which no
     * enqueued work may use; the stream copies their contents. NO_MEMORY, also if it took more than
     * `limit` bytes: some pieces may have been given, or none. After another error the contents of
     * `second` are undefined. */
    enum device_result (*range_own)(struct device *d, struct device_range *second, uint64_t first,
                                    uint64_t bytes, uint64_t limit, device_stream s);
    /* Zeroes *r; if it has a twin, the twin keeps all of its memory. */
    void (*range_release)(struct device *d, struct device_range *r);

    /* ---- streams and events ---- */
    enum device_result (*stream_create)(struct device *d, device_stream *out);
    void (*stream_destroy)(struct device *d, device_stream s);
    enum device_result (*event_create)(struct device *d, device_event *out);
    void (*event_destroy)(struct device *d, device_event e);
    enum device_result (*event_record)(struct device *d, device_event e, device_stream s);
    /* DEVICE_OK: all work before the record is done; DEVICE_BUSY; or the error on the device. */
    enum device_result (*event_query)(struct device *d, device_event e);

    /* ---- enqueue ---- */
    enum device_result (*copy_in)(struct device *d, void *to, const void *pinned, uint64_t bytes,
                                  device_stream s);
    enum device_result (*copy_out)(struct device *d, void *pinned, const void *from, uint64_t bytes,
                                   device_stream s);
    enum device_result (*clear)(struct device *d, void *address, uint64_t bytes, device_stream s);

    /* Enqueues a kernel. Host memory that the call points to need not stay valid, except the query
     * of one whose results are cells. */
    enum device_result (*launch)(struct device *d, const struct device_call *call, device_stream s);
    /* DEVICE_OK: all cells of such a kernel on s have come; DEVICE_BUSY: not yet, or never. Makes
     * no call of the driver, so that it does not see failures: an event does. */
    enum device_result (*direct_query)(struct device *d, device_stream s, struct cells *cells);
    /* How many multiply-adds of kernels it does in a microsecond, about: a first guess. */
    uint64_t (*multiply_adds)(const struct device *d);
    uint64_t (*topk_scratch_min)(uint64_t query_count, uint32_t k, uint64_t row_count);
    uint64_t (*topk_scratch_best)(uint64_t query_count, uint32_t k, uint64_t row_count);
    /* True if the k best of so many rows are found sooner with their shadow than without. */
    bool (*shadow_suits)(const struct device *d, uint32_t dimension, uint64_t query_count,
                         uint32_t k, uint64_t row_count);
    uint64_t (*shadow_scratch)(uint64_t query_count, uint32_t k, uint64_t row_count,
                               uint32_t dimension);
    uint64_t (*shadow_list_scratch)(uint64_t query_count, uint32_t k, uint64_t row_count,
                                    uint32_t dimension);
    struct cuda_hrr_scratch (*bind_scratch)(const struct hrr_plan *plan, uint64_t count);
    uint64_t (*direct_scratch_min)(uint32_t k);
    uint64_t (*direct_scratch_best)(uint32_t k);
    /* As shadow_suits, of one query that travels with the launch. */
    bool (*shadow_direct_suits)(const struct device *d, uint32_t dimension, uint32_t k,
                                uint64_t row_count);
    uint64_t (*shadow_direct_scratch)(uint64_t row_count);
    uint64_t (*spread_scratch_min)(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                   uint32_t set_count);
    uint64_t (*spread_scratch_best)(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                    uint32_t set_count);
};

struct device {
    const struct device_ops *ops;
};

extern const struct device_ops device_sim;
/* NULL if this build has no CUDA (device_none.c). */
extern const struct device_ops *const device_cuda;

#endif
