/* share: the memory that the front and one GPU process share beside the heap: who each is, the
 * heartbeat, what the device is, counters, and the two rings.
 * Owner:  the front makes it (a sealed memfd) for each start of a GPU process.
 * Thread: as each field says; numbers that the other side reads at any time are atomic.
 * Errors: share_create: RESOURCE_EXHAUSTED. share_map: INVALID_ARGUMENT with why.
 *
 * The GPU process is started with these descriptors open and --share=3,4,5,6,7 style numbers fixed:
 * SHARE_FD the share, SHARE_HEAP_FD the heap, two eventfds, and a pipe whose other end closes when
 * the front is gone. */
#ifndef ENGRAM_HEAP_SHARE_H
#define ENGRAM_HEAP_SHARE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/status.h"
#include "daemon/heap/order.h"
#include "daemon/heap/ring.h"

enum {
    SHARE_FD = 3,
    SHARE_HEAP_FD = 4,
    SHARE_ORDERS_FD = 5,      /* eventfd: wakes the GPU process */
    SHARE_COMPLETIONS_FD = 6, /* eventfd: wakes the front */
    SHARE_LIFELINE_FD = 7,    /* read end of a pipe: end of file when the front is gone */
};

enum { SHARE_ORDERS = 1024, SHARE_COMPLETIONS = 2048, SHARE_TEXT = 128, SHARE_WHY = 256 };
#define SHARE_MAGIC UINT64_C(0x3175706761676e65) /* "engagpu1" */

enum share_state {
    SHARE_STARTING = 0, /* as made */
    SHARE_READY = 1,    /* takes orders */
    SHARE_ABSENT = 2,   /* no device, no driver, too old, wrong version: `why`; it exits, and
                           starting it again would not help */
    SHARE_BROKEN = 3,   /* the device failed for good (sticky error): `why`; it exits, and a fresh
                           process may do better */
};

/* What the device is; written before SHARE_READY, const after. */
struct share_device {
    char name[SHARE_TEXT]; /* "NVIDIA H200" */
    char uuid[64];
    uint32_t capability_major, capability_minor;
    uint32_t multiprocessors;
    uint32_t driver_version, runtime_version; /* CUDA's: 13000 is 13.0 */
    uint32_t device_count;                    /* that the driver shows this process */
    uint64_t memory_bytes, memory_free_bytes; /* at start */
    uint64_t budget_bytes;                    /* that replicas and requests may take together */
    uint8_t ecc, managed, concurrent_managed, virtual_memory, simulated;
    uint8_t reserved[11];
};

/* Counters since this process's start; the GPU process writes, the front reads when it likes. */
struct share_usage {
    _Atomic uint64_t replica_bytes; /* VRAM mapped for replicas */
    _Atomic uint64_t request_bytes; /* VRAM handed out to requests, */
    _Atomic uint64_t spare_bytes;   /* of this, scratch that they would do with less of */
    _Atomic uint64_t slab_bytes;    /* VRAM set aside for requests */
    _Atomic uint64_t free_bytes;    /* of the device, when last asked */
    _Atomic uint64_t replicas, streams;
    _Atomic uint64_t uploads, upload_bytes, upload_ns; /* ns while any upload was under way */
    _Atomic uint64_t evictions;
    _Atomic uint64_t runs, run_ns; /* ns while any request was on the device */
    _Atomic uint64_t errors;       /* orders that ended with RESULT_ERROR */
    _Atomic uint64_t no_memory;    /* orders that ended with RESULT_NO_MEMORY */
    _Atomic uint64_t shrunk;       /* runs that had less scratch than they would have liked */
    _Atomic uint64_t split;        /* runs done in passes because they did not fit at once */
    _Atomic uint64_t pinned_bytes; /* host memory pinned for copies */
};

struct share {
    uint64_t magic;
    uint64_t bytes;                 /* sizeof(struct share): both are built from one tree */
    char front_version[SHARE_TEXT]; /* ENGRAM_VERSION */
    char gpu_version[SHARE_TEXT];   /* written by the GPU process first of all */
    uint64_t heap_bytes;            /* of the heap's file */
    _Atomic uint32_t state;         /* enum share_state; the GPU process writes */
    char why[SHARE_WHY];            /* for ABSENT and BROKEN; written before state */
    _Atomic uint64_t heartbeat_ns;  /* clock_now_ns of its last turn, at least every 100 ms */
    struct share_device device;
    struct share_usage usage;
    struct ring_lines order_lines, completion_lines;
    _Alignas(64) char orders[SHARE_ORDERS][256];
    _Alignas(64) char completions[SHARE_COMPLETIONS][64];
};

/* A zeroed share in a sealed memfd, mapped; the caller closes *fd and calls share_unmap. */
enum status share_create(uint64_t heap_bytes, const char *version, int *fd, struct share **out);

/* The GPU process's view of a descriptor that it was given. f says why not. */
enum status share_map(int fd, const char *version, struct share **out, struct failure *f);
void share_unmap(struct share *s);

/* A text that the other process wrote: at most from_bytes of it, terminated, printable ASCII. */
void share_copy_text(char *to, size_t bytes, const char *from, size_t from_bytes);

/* The ring of orders or completions as one side sees it. */
void share_orders(struct share *s, int wake_fd, struct ring *out);
void share_completions(struct share *s, int wake_fd, struct ring *out);

#endif
