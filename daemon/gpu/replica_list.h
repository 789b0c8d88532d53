/* replica_list: what a replica is, and all of them: found by number, ordered by their last use.
 * replica.h has what is done with them. A replica can have a former version beside its newest one,
 * for the tasks that read it; it is a struct of its own, out of the list and not found by
 * number.
 * Owner:  the GPU process.
 * Thread: the device thread.
 * Errors: none. */
#ifndef ENGRAM_GPU_REPLICA_LIST_H
#define ENGRAM_GPU_REPLICA_LIST_H

#include "daemon/gpu/device.h"

/* The ranges of a collection, of which a matrix has the first; those of a graph are its parts. */
enum {
    RANGE_ROWS,
    RANGE_NORMS,
    RANGE_IDS,
    RANGE_SHADOW, /* from here on a shadow's (replica_shadow.h): */
    RANGE_CODES = RANGE_SHADOW,
    RANGE_SCALES,
    RANGE_LOSTS,
    RANGE_LENGTHS,
    RANGE_CENTRE, /* a row, behind it its norm, what a look found, and the checksums of tiles */
    RANGES_MAX = ORDER_PARTS_MAX
};

/* What a replica needs: the bytes of each range, and the most that it could ever have. */
struct replica_room {
    uint64_t bytes[RANGES_MAX], most[RANGES_MAX];
};

/* What is known of a shadow, whose arrays are ranges of the replica. */
struct replica_shadow {
    bool whole;                      /* each row of the replica's version is coded */
    uint32_t exact_left, exact_next; /* searches to be done without it: it did not help */
    uint64_t tried_ns;               /* when it was last made, or found no memory; 0: never */
    uint64_t coded;                  /* rows in the checksums: the first ones */
    uint64_t made_ns;                /* when its centre was chosen */
    double lost, lost_first;   /* mean lost / norm, as last seen, and with this centre at first */
    uint64_t screened, passed; /* pairs of a query and a row; those that were scored */
};

struct replica {
    uint64_t id;
    uint64_t version; /* 0: not complete */
    bool torn;        /* an upload failed: only a complete new upload helps */
    uint32_t space;
    uint64_t space_bytes_max; /* as its newest order says; 0: any bytes */
    uint32_t dimension;       /* of its rows; 0: it is a graph's replica */
    bool bare;                /* it is a matrix's: rows without norms and ids */
    bool shadow_only;         /* it has no rows, only the codes of all */
    bool exact;               /* its rows are not coded */
    uint64_t rows;
    /* rows whose norms are missing: computed when the replica is complete */
    uint64_t no_norm_first, no_norm_end;
    uint64_t part_bytes[ORDER_PARTS_MAX]; /* of a graph */
    struct device_range ranges[RANGES_MAX];
    struct replica_shadow shadow;
    uint64_t multiply_adds; /* that a kNN of many queries does in a microsecond; 0: not known */
    uint64_t completes;     /* the same of a COMPLETE's rounds (run_complete.c) */
    uint64_t spreads;       /* the same of spreads of several sets (run_spread.c) */
    uint32_t holders;       /* how many tasks use it */
    uint32_t readers;       /* those among them whose kernels read it, sooner or later */
    /* those among them that read it in several passes: it must not change meanwhile */
    uint32_t rereaders;
    struct replica *former;    /* the version before, as long as tasks hold it; NULL: none */
    struct replica *successor; /* of a former version: the replica that it belongs to */
    uint32_t refused_round;    /* whose uploads found no place for a second version; 0: none */
    struct replica *hash_next;
    struct replica *older, *newer; /* in the order of their last use */
};

enum { REPLICA_BUCKETS = 4096, EVICTED_MAX = 256 };

struct replicas {
    struct replica *buckets[REPLICA_BUCKETS];
    struct replica *oldest, *newest;
    uint64_t bytes, bytes_max, count;
    uint64_t range_bytes_max;      /* reserved address space of each */
    uint64_t evicted[EVICTED_MAX]; /* evicted replicas that the front has not been told yet */
    uint32_t evicted_count;
};

#endif
