/* share: the memory that the front (engram-acceld) and one GPU process share beside the heap: who
 * each is, the heartbeat, what the device is, counters, and the two rings.
 * Owner:  the front makes it (a sealed memfd) for each start of a GPU process.
 * Thread: as each field says; numbers that the other side may read at any time are atomic.
 * Errors: share_create: RESOURCE_EXHAUSTED. share_map: INVALID_ARGUMENT with the reason.
 *
 * The GPU process inherits the descriptors below, under fixed numbers: the share, the heap, two
 * eventfds, and a pipe whose other end closes when the front is gone. */
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
    SHARE_HEAP_FD = 4,        /* the heap's first file, to be read */
    SHARE_EXCHANGE_FD = 5,    /* its second one, which may be written */
    SHARE_ORDERS_FD = 6,      /* eventfd: wakes the GPU process */
    SHARE_COMPLETIONS_FD = 7, /* eventfd: wakes the front */
    SHARE_LIFELINE_FD = 8,    /* read end of a pipe: end of file when the front is gone */
};

enum { SHARE_ORDERS = 1024, SHARE_COMPLETIONS = 2048, SHARE_TEXT = 128, SHARE_WHY = 256 };
/* Queries that lie beside their orders; few, so that they stay in the caches. */
enum { SHARE_QUERIES = 64 };
#define SHARE_MAGIC UINT64_C(0x3175706761676e65) /* "engagpu1" */

enum share_state {
    SHARE_STARTING = 0, /* as it was made */
    SHARE_READY = 1,    /* takes orders */
    /* no device, no driver, too old, wrong version: `why` says it. The process exits, and starting
     * it again would not help */
    SHARE_ABSENT = 2,
    /* the device failed for good (sticky error): `why` says it. The process exits, and a fresh one
     * may do better */
    SHARE_BROKEN = 3,
};

/* What the device is; written before SHARE_READY, const after. */
struct share_device {
    char name[SHARE_TEXT]; /* "NVIDIA H200" */
    char uuid[64];
    uint32_t capability_major, capability_minor;
    uint32_t multiprocessors;
    uint32_t driver_version, runtime_version; /* as CUDA counts: 13000 is 13.0 */
    uint32_t device_count;                    /* as the driver shows them to this process */
    uint32_t direct_dimension; /* of the longest query that travels with a launch; 0: none does */
    uint64_t memory_bytes, memory_free_bytes; /* at start */
    uint64_t budget_bytes; /* the most that replicas and requests may take together */
    uint64_t piece_bytes;  /* VRAM of replicas is mapped in multiples of this; 0: of any size */
    uint8_t ecc, managed, concurrent_managed, virtual_memory, simulated;
    uint8_t reserved[7];
};

/* Counters since the start of the GPU process, which writes them; the front reads them at any
 * time. */
struct share_usage {
    _Atomic uint64_t replica_bytes; /* VRAM mapped for replicas */
    _Atomic uint64_t request_bytes; /* VRAM handed out to requests, */
    _Atomic uint64_t asked_bytes;   /* the part of it that they asked for: blocks are larger, */
    _Atomic uint64_t spare_bytes;   /* the part of it that is optional scratch */
    _Atomic uint64_t slab_bytes;    /* VRAM set aside for requests */
    _Atomic uint64_t largest_bytes; /* the largest block that a request could get of it */
    _Atomic uint64_t free_bytes;    /* of the device, as last asked */
    _Atomic uint64_t replicas, streams;
    _Atomic uint64_t uploads, upload_bytes, upload_ns; /* ns while any upload was under way */
    _Atomic uint64_t evictions, shadows_dropped; /* of replicas; of their rows in int8 alone */
    _Atomic uint64_t sweeps;           /* of the rows in int8 of a replica, that were done */
    _Atomic uint64_t shadows_differed; /* tiles of rows in int8 from their checksums */
    _Atomic uint64_t runs, run_ns;     /* ns while any request was on the device */
    _Atomic uint64_t errors;           /* orders that ended with RESULT_ERROR */
    _Atomic uint64_t no_memory;        /* orders that ended with RESULT_NO_MEMORY */
    _Atomic uint64_t shrunk;           /* runs that had less optional scratch than they asked for */
    _Atomic uint64_t split;            /* runs done in passes because they did not fit at once */
    _Atomic uint64_t pinned_bytes;     /* host memory pinned for copies */
};

/* What a GPU process has of a replica's rows in int8, which it writes at any time. That of replica
 * n is at n % SHARE_SHADOWS, where a later replica may have taken its place. */
struct share_shadow {
    _Atomic uint64_t replica;     /* whose; 0: nobody's yet */
    _Atomic uint64_t rows, bytes; /* coded; VRAM; 0: there is none */
    _Atomic uint64_t made_ns;     /* when its centre was chosen */
    _Atomic uint64_t lost;  /* mean lost / norm, a double's bits; 0: no sweep was through it */
    _Atomic uint64_t rests; /* searches to be done without it, because it was of no use */
};
enum { SHARE_SHADOWS = 1024 };

/* What NVML says of the card (gpu/sensors.h). */
enum share_sensor {
    SENSOR_CELSIUS,
    SENSOR_MILLIWATTS,
    SENSOR_LIMIT_MILLIWATTS, /* that is enforced */
    SENSOR_MEGAHERTZ,        /* of the multiprocessors */
    SENSOR_MEMORY_MEGAHERTZ,
    SENSOR_BUSY_PERCENT, /* of the time, since the last sample, with a kernel on it */
    SENSOR_MEMORY_BUSY_PERCENT,
    SENSOR_MEMORY_USED_BYTES, /* by all processes */
    SENSOR_MEMORY_BYTES,
    SENSOR_ECC_CORRECTED, /* errors since the driver was loaded */
    SENSOR_ECC_UNCORRECTED,
    SENSOR_SLOWED, /* why clocks are lower than they could be: enum share_slowed together */
    SHARE_SENSORS,
};
/* Bits as NVML has them. */
enum share_slowed {
    SLOWED_BY_SETTING = 0x2,
    SLOWED_BY_POWER_CAP = 0x4,
    SLOWED_BY_HARDWARE = 0x8, /* one of the two below, or a fault of the power supply */
    SLOWED_BY_SYNC = 0x10,
    SLOWED_BY_HEAT = 0x20,
    SLOWED_BY_HARDWARE_HEAT = 0x40,
    SLOWED_BY_POWER_BRAKE = 0x80,
};
struct share_sensors {
    _Atomic uint64_t seen_ns; /* clock_now_ns of the last sample; 0: there is none */
    _Atomic uint64_t known;   /* bit n: the card has sensor n, and it was read */
    _Atomic uint64_t values[SHARE_SENSORS];
};
/* An older sample says nothing: NVML hangs, or its thread is gone. */
#define SHARE_SENSORS_OLD_NS UINT64_C(10000000000)

struct share {
    uint64_t magic;
    uint64_t bytes;                 /* sizeof(struct share): both are built from one tree */
    char front_version[SHARE_TEXT]; /* ENGRAM_VERSION of the front */
    char gpu_version[SHARE_TEXT];   /* the GPU process writes it before anything else */
    uint64_t heap_bytes;            /* of the heap's files together */
    _Atomic uint32_t state;         /* enum share_state; the GPU process writes */
    char why[SHARE_WHY];            /* for ABSENT and BROKEN; written before state */
    _Atomic uint32_t shadows;       /* the front writes: 1: rows are to be had in int8, too */
    _Atomic uint64_t heartbeat_ns;  /* clock_now_ns of its last loop, at least every 100 ms */
    struct share_device device;
    struct share_usage usage;
    struct share_sensors sensors;
    struct share_shadow shadow_of[SHARE_SHADOWS];
    struct ring_lines order_lines, completion_lines;
    _Alignas(64) char orders[SHARE_ORDERS][256];
    _Alignas(64) char completions[SHARE_COMPLETIONS][64];
    /* The query of order n is at n % SHARE_QUERIES, and is there until the order is released. */
    _Alignas(64) float queries[SHARE_QUERIES][ORDER_DIRECT_DIMENSION_MAX];
};

/* Makes and maps a zeroed share in a sealed memfd; the caller closes *fd and calls share_unmap. */
enum status share_create(uint64_t heap_bytes, const char *version, int *fd, struct share **out);

/* Maps a share that the GPU process was given as a descriptor. f says why it cannot be. */
enum status share_map(int fd, const char *version, struct share **out, struct failure *f);
void share_unmap(struct share *s);

/* Copies a text that the other process wrote: at most from_bytes, terminated, printable ASCII. */
void share_copy_text(char *to, size_t bytes, const char *from, size_t from_bytes);

/* Returns where the query of the order lies that the ring of orders reserves or peeks at next. The
 * producer may write there only if fewer than SHARE_QUERIES orders are not released. */
float *share_query(struct share *s, const struct ring *orders);

/* Sets up one side's view of the ring of orders or of completions. */
void share_orders(struct share *s, int wake_fd, struct ring *out);
void share_completions(struct share *s, int wake_fd, struct ring *out);

#endif
