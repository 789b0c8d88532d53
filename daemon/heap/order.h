/* order: what the front asks of a GPU process and what comes back: the slots of the two rings.
 * Owner:  the ring that it lies in.
 * Thread: the producer's, then the consumer's.
 * Errors: in completion.result. Neither side trusts the other's numbers: the GPU process checks
 *         that places lie inside the heap, the front that tokens are its own.
 *
 * Places are offsets into the heap, which both map; PLACE_NONE: absent. Orders of one space are
 * done in the order they were given; those of different spaces at once. */
#ifndef ENGRAM_HEAP_ORDER_H
#define ENGRAM_HEAP_ORDER_H

#include <stdint.h>

#define PLACE_NONE UINT64_MAX

enum order_kind {
    ORDER_UPLOAD = 1, /* rows of a collection's replica; makes the replica if there is none */
    ORDER_RUN = 2,    /* a request */
    ORDER_FORGET = 3, /* the replica is given up: its collection is gone, or to be built anew */
    ORDER_STOP = 4,   /* finish nothing more, exit */
    ORDER_UPLOAD_PART = 5, /* bytes of a graph's replica; makes the replica if there is none */
    ORDER_SPREAD = 6,      /* a spread over a graph's replica */
};

/* Rows [first, first + count) of a replica are as lies at `rows`, padded, row-major (stride =
 * vector_stride(dimension)); their ids at `ids`. The replica then has row_count rows (more than
 * before: it grows; fewer: it shrinks) and this version (0: more is to come). count may be 0. */
struct order_upload {
    uint32_t dimension;
    uint32_t fresh;        /* 1: the first of a replica, whatever was there goes. 0: on top of the
                               uploads before; NO_REPLICA if it is gone or one of them failed */
    uint64_t row_count;    /* of the replica, afterwards */
    uint64_t first, count; /* rows in this order */
    uint64_t rows;         /* place of count * stride floats; they stay as they are until done */
    uint64_t ids;          /* place of count u64 */
};

/* Bytes [first, first + count) of one array of a graph's replica are as lie at
 * `bytes`. The arrays then are so long, whatever they were (they grow, or shrink), and the replica has
 * this version (0: more is to come). count may be 0. fresh: as in order_upload. */
enum { ORDER_PARTS_MAX = 8 };
enum order_part { /* store/graph.h's enum graph_part */
                  PART_OUT,
                  PART_IN,
                  PART_OUT_EDGES,
                  PART_IN_EDGES,
                  PART_IDS,
                  PART_ORDER,
                  PART_KINDS,
                  PART_FACTORS
};
struct order_upload_part {
    uint32_t part; /* enum order_part */
    uint32_t fresh;
    uint64_t first, count;
    uint64_t bytes; /* place */
    uint64_t part_bytes[ORDER_PARTS_MAX];
};

/* kernels/spread.h's struct spread_question for each of set_count seed sets. All records come in one
 * array, up to the end of the last set's: a set's from its first_record on, in no order. A set that found
 * no room says so and has none; if none found any, that is RESULT_NO_MEMORY. What is no set's holds
 * anything. */
struct order_spread {
    uint32_t mode, fan, flags, hops; /* enum spread_mode, spread_fan; ORDER_SPREAD_... */
    uint32_t nodes;                  /* of the replica, as the front knows it */
    uint32_t set_count;
    uint64_t edges;
    double grid_high, grid_low;
    float thresholds[3];
    uint32_t reserved;
    uint64_t seeds; /* place of seed_count struct spread_seed: of all sets, one after the other */
    uint64_t seed_count;
    uint64_t set_offsets; /* place of set_count + 1 u64: where each set's seeds begin */
    uint64_t decay;       /* place of hops + 1 floats */
    uint64_t allowed;     /* place of a bitmap over nodes, u64 words; or PLACE_NONE */
    uint64_t touched_max;
    uint64_t deadline_ns; /* of clock_now_ns; 0: none */
    uint64_t record_room; /* of all sets together: >= min(nodes, touched_max) */
    uint64_t out_records; /* place of record_room struct spread_record */
    uint64_t out_sets;    /* place of set_count struct order_spread_set */
};
enum { ORDER_SPREAD_SETS_MAX = 4096 };
enum { ORDER_SPREAD_IGNORE_KINDS = 1, ORDER_SPREAD_LAST_HOP = 2, ORDER_SPREAD_PATHS = 4 };
enum order_no_room {
    NO_ROOM_RECORDS = 1, /* the others' left none for its own */
    NO_ROOM_WORK = 2,    /* a level has more contributions than scratch */
};
struct order_spread_set {
    uint64_t first_record, record_count;
    uint64_t cycles;
    uint32_t hops_done;
    uint32_t truncated;
    uint32_t no_room; /* enum order_no_room; 0: it found some */
    uint32_t reserved;
};

enum run_operation {
    RUN_KNN = 1,     /* k best rows of the replica for each query */
    RUN_SCORES = 2,  /* every query against every row of the replica, or against listed rows */
    RUN_LISTS = 3,   /* each query against its own list of rows of the replica */
    RUN_AVERAGE = 4, /* weighted average of listed rows of the replica */
};

/* Queries come unpadded and unchecked: one that is not finite, or whose squared norm overflows,
 * makes the result BAD_QUERY with the smallest such number. */
struct order_run {
    uint32_t operation; /* enum run_operation */
    uint32_t metric;    /* enum metric */
    uint32_t dimension;
    uint32_t k;             /* KNN: 1..TOPK_K_MAX, columns of the result */
    uint32_t has_threshold; /* KNN */
    float threshold;
    float total;            /* AVERAGE: the sum of the weights */
    uint32_t segment_count; /* KNN: 0, or several requests as one */
    uint64_t query_count;
    uint64_t queries;    /* place of query_count * dimension floats */
    uint64_t row_count;  /* of the replica, as the front knows it */
    uint64_t positions;  /* place of u32 row numbers (SCORES, LISTS, AVERAGE); else PLACE_NONE */
    uint64_t list_count; /* of positions */
    uint64_t offsets;    /* LISTS: place of query_count + 1 u64 */
    uint64_t weights;    /* AVERAGE: place of list_count floats */
    uint64_t allowed;    /* KNN: place of a bitmap over rows, u64 words; or PLACE_NONE */
    /* Where results go. KNN: ids and scores query_count * k, counts query_count u32; places past a
     * query's count are id 2^64 - 1 and score 0x7fc00000. SCORES: query_count * (list_count or
     * row_count) scores; ids, unless PLACE_NONE, those of all rows. LISTS: list_count scores.
     * AVERAGE: dimension floats in scores. */
    uint64_t out_ids, out_scores, out_counts;
    uint64_t segments; /* place of segment_count struct order_segment */
};

/* One of the requests of a batch. The order's query_count is the sum of theirs, its k the largest;
 * its queries, allowed, threshold and out_* are unused; BAD_QUERY counts through all of them. */
struct order_segment {
    uint64_t query_count;
    uint64_t queries;
    uint64_t allowed; /* bitmap over rows, or PLACE_NONE */
    uint32_t k;       /* columns of its result */
    uint32_t has_threshold;
    float threshold;
    uint32_t reserved;
    uint64_t out_ids, out_scores, out_counts;
};
enum { ORDER_SEGMENTS_MAX = 256, ORDER_SEGMENT_QUERIES_MAX = 1024 };

/* One without any place. */
static inline struct order_run order_run_of(enum run_operation operation)
{
    return (struct order_run){.operation = operation,
                              .positions = PLACE_NONE,
                              .offsets = PLACE_NONE,
                              .weights = PLACE_NONE,
                              .allowed = PLACE_NONE,
                              .out_ids = PLACE_NONE,
                              .out_scores = PLACE_NONE,
                              .out_counts = PLACE_NONE,
                              .segments = PLACE_NONE};
}

struct order {
    uint32_t kind;    /* enum order_kind */
    uint32_t space;   /* its number, >= 1 */
    uint64_t token;   /* comes back in the completion */
    uint64_t replica; /* >= 1, never used for two collections; 0: none */
    uint64_t version; /* UPLOAD: the replica's, afterwards. RUN: the one it needs */
    union {
        struct order_upload upload;
        struct order_run run;
        struct order_upload_part part;
        struct order_spread spread;
    };
};

enum order_result {
    RESULT_OK = 0,
    RESULT_BAD_QUERY = 1,  /* number: which */
    RESULT_NO_REPLICA = 2, /* there is none (evicted), or it has another version */
    RESULT_NO_MEMORY = 3,  /* not enough VRAM, even after evicting what could be */
    RESULT_ERROR = 4,      /* the device failed this order alone; others go on */
    RESULT_REFUSED = 5,    /* the order makes no sense to this process */
};

enum completion_kind {
    COMPLETION_DONE = 1,    /* of an order, by token; FORGET has one too */
    COMPLETION_EVICTED = 2, /* the replica is gone, to make room; no order asked for it */
};

/* Times are of clock_now_ns, which both processes share. */
struct completion {
    uint32_t kind;
    uint32_t result; /* enum order_result */
    uint64_t token;
    uint64_t replica;
    uint64_t number; /* BAD_QUERY: which; UPLOAD: bytes of VRAM that the replica holds */
    uint64_t started_ns, finished_ns;
    uint64_t copy_ns; /* of that, time when bytes moved between host and device; 0: not measured */
    uint64_t reserved;
};

_Static_assert(sizeof(struct order) <= 256, "an order fits its slot");
_Static_assert(sizeof(struct completion) == 64, "a completion fills its slot");

#endif
