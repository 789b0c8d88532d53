/* order: what the front (engram-acceld) asks of a GPU process, and the answers: the slots of the
 * two rings.
 * Owner:  the ring that it lies in.
 * Thread: the producer's, then the consumer's.
 * Errors: in completion.result. Neither side trusts the other's numbers: the GPU process checks
 *         that places lie inside the heap, the front that tokens are its own.
 *
 * A place is an offset into the heap, which both sides map; PLACE_NONE: absent. Orders of one
 * space are done in the order they were given; orders of different spaces run at once. */
#ifndef ENGRAM_HEAP_ORDER_H
#define ENGRAM_HEAP_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PLACE_NONE UINT64_MAX
/* Of a direct request's query: it lies in share.queries, at the place of the order's slot. */
#define PLACE_WITH_ORDER (UINT64_MAX - 1)
/* A kNN of many queries is run in passes of about so long, and what came meanwhile between them. */
#define ORDER_PASS_NS UINT64_C(4000000)

enum order_kind {
    ORDER_UPLOAD = 1, /* rows of a collection's replica; makes the replica if there is none */
    ORDER_RUN = 2,    /* one request */
    /* gives the replica up: its collection is gone, or the replica is to be built anew */
    ORDER_FORGET = 3,
    ORDER_STOP = 4,        /* finish no further order, exit */
    ORDER_UPLOAD_PART = 5, /* bytes of a graph's replica; makes the replica if there is none */
    ORDER_SPREAD = 6,      /* a spread over a graph's replica */
};

/* Sets rows [first, first + count) of a replica to what lies at `rows`, padded, row-major (stride
 * = vector_stride(dimension)), and their ids to those at `ids`. The replica then has row_count
 * rows (it grows or shrinks accordingly) and this version (0: more orders follow). count may be
 * 0. bare: the rows of a matrix, which have neither ids nor norms. */
struct order_upload {
    uint32_t dimension;
    /* 1: the first order of a replica; what was there is dropped. 0: continues the earlier
     * uploads; NO_REPLICA if it is gone or one of them failed */
    uint32_t fresh;
    uint64_t row_count;    /* of the replica, after this order */
    uint64_t first, count; /* rows in this order */
    uint64_t rows; /* place of count * stride floats, which do not change until the order is done */
    uint64_t ids;  /* place of count u64 */
    /* Uploads of one round stand on each other: if one was answered with NO_VERSION, so are those
     * that follow. 0: of none. */
    uint32_t round;
    uint32_t bare;
    /* what the space's replicas on this card may have as long as one of them has a second version;
     * 0: any bytes */
    uint64_t space_bytes_max;
    /* 1: of the rows only their codes stay (gpu/replica_shadow.h): such a replica serves KNN alone,
     * has one version, and gets its rows in their order: none before all rows ahead of it */
    uint32_t shadow_only;
    uint32_t exact; /* 1: its rows are not coded, whatever is allowed */
};

/* Sets bytes [first, first + count) of one array of a graph's replica to what lies at `bytes`. The
 * arrays get the given lengths (they grow or shrink), and the replica this version (0: more orders
 * follow). count may be 0. fresh: as in order_upload. */
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
    uint64_t bytes; /* their place */
    uint64_t part_bytes[ORDER_PARTS_MAX];
    uint32_t round, reserved; /* as in order_upload */
    uint64_t space_bytes_max; /* likewise */
};

/* A spread: kernels/spread.h's struct spread_question for each of set_count seed sets. The records
 * of all sets share one array; each set's lie together from its first_record on, in no order. A
 * set that found no room says so and has none; if no set found room, the result is
 * RESULT_NO_MEMORY. Parts of the array outside all sets are undefined. */
struct order_spread {
    uint32_t mode, fan, flags, hops; /* enum spread_mode, spread_fan; ORDER_SPREAD_... */
    uint32_t nodes;                  /* of the replica, as known to the front */
    uint32_t set_count;
    uint64_t edges;
    double grid_high, grid_low;
    float thresholds[3];
    uint32_t dimension; /* of the embeddings; 0: none */
    uint64_t row_count; /* of the embeddings' replica, order.other_replica, as known to the front */
    uint64_t seeds; /* place of seed_count struct spread_seed, those of one set after the other */
    uint64_t seed_count;
    uint64_t set_offsets; /* place of set_count + 1 u64: where the seeds of each set begin */
    uint64_t decay;       /* place of hops + 1 floats */
    uint64_t allowed;     /* place of a bitmap over nodes, u64 words; or PLACE_NONE */
    uint64_t touched_max;
    uint64_t deadline_ns; /* as clock_now_ns counts; 0: none */
    uint64_t record_room; /* for all sets together: >= min(nodes, touched_max) */
    uint64_t out_records; /* place of record_room struct spread_record */
    uint64_t out_sets;    /* place of set_count struct order_spread_set */
};
enum { ORDER_SPREAD_SETS_MAX = 4096, ORDER_SPREAD_ROWS_MAX = 1 << 30 /* of embeddings */ };
enum { ORDER_SPREAD_IGNORE_KINDS = 1, ORDER_SPREAD_LAST_HOP = 2, ORDER_SPREAD_PATHS = 4 };
enum order_no_room {
    NO_ROOM_RECORDS = 1, /* the other sets left no room for its records */
    NO_ROOM_WORK = 2,    /* a level has more contributions than the scratch holds */
};
struct order_spread_set {
    uint64_t first_record, record_count;
    uint64_t cycles;
    uint32_t hops_done;
    uint32_t truncated;
    uint32_t no_room; /* enum order_no_room; 0: there was room */
    uint32_t reserved;
};

/* What a request can be in the GPU process, where run_name (gpu/run.h) is how it runs:
 *   KNN      k best rows of the replica for each query
 *   SCORES   every query against every row of the replica, or against listed rows
 *   LISTS    each query against its own list of rows of the replica
 *   AVERAGE  weighted average of listed rows of the replica
 *   NORMS    the norms of rows that come with the order
 *   BIND     rows bound to rows, pair by pair, or unbound (kernels/hrr.h)
 *   SUPERPOSE  weighted sums of lists of rows (kernels/superpose.h)
 *   COMPLETE states completed from the rows of the replica, in rounds (kernels/complete.h)
 *   CLEANUP  rows unbound from rows, and the k best rows of the replica for each result
 *   COMPLETE_ENGINE  cues completed by an attractor (kernels/attractor.h), whose replica is a
 *            matrix: the columns of its weights, then the rows of its dentate matrix
 *   RECALL   the rows nearest to lists of cues, a spread from them, and the best of what it touched
 *            (docs/recall.md)
 *   PRODUCT  the rows of each list bound to each other (kernels/hrr.h)
 *   COVARIANCE  mean and covariance of rows (kernels/covariance.h)
 *   CLUSTER  the merges of a clustering (kernels/cluster.h) */
#define RUN_OPERATIONS(RUN)                   \
    RUN(KNN, 1, knn)                          \
    RUN(SCORES, 2, scores)                    \
    RUN(LISTS, 3, lists)                      \
    RUN(AVERAGE, 4, average)                  \
    RUN(NORMS, 5, norms)                      \
    RUN(BIND, 6, bind)                        \
    RUN(SUPERPOSE, 7, superpose)              \
    RUN(COMPLETE, 8, complete)                \
    RUN(CLEANUP, 9, cleanup)                  \
    RUN(COMPLETE_ENGINE, 10, complete_engine) \
    RUN(RECALL, 11, recall)                   \
    RUN(PRODUCT, 12, product)                 \
    RUN(COVARIANCE, 13, covariance)           \
    RUN(CLUSTER, 14, cluster)
#define NUMBER_OF(NAME, number, name) RUN_##NAME = (number),
enum run_operation { RUN_OPERATIONS(NUMBER_OF) };
#undef NUMBER_OF

/* An operand: rows of a replica, by their positions, or all rows that come with the order. */
struct order_operand {
    uint64_t rows;      /* place of row_count * dimension floats; PLACE_NONE: the replica's */
    uint64_t row_count; /* of the replica, as known to the front */
    uint64_t positions; /* place of `count` u32 row numbers; PLACE_NONE: rows come */
    uint64_t count;     /* of rows that come: row_count */
};

/* A request. Its rows are a replica's, or come with the order, which then names no replica, lists
 * no positions and is no KNN: row i is position i. Queries and such rows come unpadded and
 * unchecked: if one is not finite, or its squared norm overflows, the result is BAD_QUERY, or else
 * BAD_ROW, with the number of the first such query or row. A BIND has two operands, each a
 * replica's rows or rows that come; one row stands beside any number of the other's. If any row of
 * them or any result is not finite, or its squared norm overflows where it counts, the result is
 * BAD_ROW, with the number of a pair that has no result. */
struct order_run {
    uint32_t operation; /* enum run_operation */
    uint32_t metric;    /* enum metric */
    uint32_t dimension;
    /* KNN: 1..TOPK_K_MAX, the columns of the result; SUPERPOSE: the pieces of its longest list;
     * PRODUCT: the rows of its */
    uint32_t k;
    uint32_t has_threshold; /* of KNN */
    float threshold;
    float total;            /* AVERAGE: the sum of the weights */
    uint32_t segment_count; /* KNN: 0, or how many requests run as one */
    uint64_t query_count;   /* SUPERPOSE: of lists */
    uint64_t queries;       /* place of query_count * dimension floats */
    uint64_t rows;          /* place of row_count * dimension floats; PLACE_NONE: the replica's */
    uint64_t row_count;     /* of the replica, as known to the front */
    uint64_t positions;     /* place of u32 row numbers (all but KNN, NORMS); else PLACE_NONE */
    uint64_t list_count;    /* how many positions; where rows come and are listed: row_count */
    union {
        struct {
            /* LISTS, PRODUCT: place of query_count + 1 u64; SUPERPOSE: of piece_count + 1 */
            uint64_t offsets;
            /* AVERAGE, SUPERPOSE: place of list_count floats; or PLACE_NONE: all 1 */
            uint64_t weights;
            uint64_t segments; /* KNN: place of segment_count struct order_segment */
        };
        /* KNN of a replica without rows: where these are in the heap: place of the places, u64, of
         * the rows of each segment, and how many rows each of them has but the last. */
        struct {
            uint64_t host_rows, host_segment_rows;
        };
        struct order_operand cue; /* CLEANUP: what is unbound, of order.other_replica */
    };
    uint64_t allowed; /* KNN: place of a bitmap over rows, u64 words; or PLACE_NONE */
    /* Places of the results. KNN: ids and scores query_count * k, counts query_count u32; behind a
     * query's count, ids are 2^64 - 1 and scores 0x7fc00000. SCORES: query_count * (list_count or
     * row_count) scores; ids, unless PLACE_NONE: those of all rows. LISTS: list_count scores.
     * AVERAGE: dimension floats in scores. NORMS: row_count norms in scores. SUPERPOSE: dimension
     * floats a list in scores. */
    uint64_t out_ids, out_scores, out_counts;
    union {
        /* BIND: its first operand is rows, row_count, positions and list_count, of order.replica;
         * its second one is of order.other_replica, which may be the same. Results: dimension
         * floats a pair in out_scores. CLEANUP: what the cue is unbound from, of
         * order.third_replica; query_count pairs; results as a KNN's. */
        struct order_operand other;
        /* SUPERPOSE: its lists in pieces of one block, each the positions between two offsets, and
         * which pieces a list has: place of query_count + 1 u64; PLACE_NONE: one each. If the norm
         * of a sum overflows, the result is BAD_ROW. */
        struct {
            uint64_t firsts, piece_count;
        };
        /* COVARIANCE: of list_count rows, at positions, or all of them in their order; weights:
         * place of list_count floats, or PLACE_NONE: all 1; above 0 the sum of the weights and the
         * divisor. Results: dimension doubles in out_scores, their square in out_ids. */
        struct {
            double weight_total, divisor;
        };
    };
    uint32_t form;      /* BIND: enum hrr_form; CLEANUP: the same, but not HRR_BIND */
    uint32_t normalize; /* BIND, PRODUCT, SUPERPOSE: results are divided by their norms */
    /* COMPLETE: the queries are the cues, k the rounds, threshold beta, has_threshold whether rows
     * are unit ones; weights: place of list_count lines of dimension bytes, which numbers are
     * known (1 or query_count of them; 0: no mask); the others of a cue may be anything. Results:
     * query_count * dimension floats in out_scores, query_count struct complete_record in out_ids.
     * COMPLETE_ENGINE: the queries are the cues, of which only known numbers count, weights and
     * list_count their mask as above, k how many values of CA3 stay; other.row_count: of the
     * collection, order.other_replica, of which the nearest row to each state is wanted; 0: none
     * is. Results: query_count * dimension floats in out_scores, query_count struct
     * order_engine_end in out_ids; BAD_ROW with the number of a cue of which too little is known,
     * or that is invalid.
     * RECALL: the queries are the cues, threshold that of seeds; order.replica is the graph's,
     * order.other_replica that of the nodes' embeddings, if those are not the rows, and
     * order.third_replica that of the rows. segments: place of a struct order_recall; list_count
     * lists of cues, of which offsets says where each begins: place of list_count + 1 u64. Results,
     * list by list: struct recall_outcome in out_ids; struct recall_entry, `results` places each,
     * in out_scores; and with paths their nodes, u32, hops + 1 places each, in out_counts.
     * CLUSTER: of list_count rows, at positions, or all of them in their order: form: the rule,
     * threshold: at which pairs merge, total: the second pass's of rule centroid, k: the least size
     * for that; weights: place of list_count times of rule average, or PLACE_NONE: none. segments:
     * place of a u32 that the front sets if nobody wants the result any more. Result in out_ids:
     * struct order_cluster and behind it up to list_count - 1 struct order_merge, of which more
     * come as long as it runs, so that they are of use if it does not end. */
};

/* What became of a cue; the nearest row: of several the one with the smallest id. */
struct order_engine_end {
    uint64_t id;  /* if a collection was named */
    float cosine; /* likewise */
    uint32_t rounds, converged, reserved;
};

/* The form of a CLUSTER. */
enum { ORDER_CLUSTER_CENTROID = 1, ORDER_CLUSTER_AVERAGE = 2 };

/* Of a CLUSTER so far. The front sets first_merges to UINT32_MAX, and the others to 0. */
struct order_cluster {
    _Atomic uint32_t merges;       /* whose pairs are there */
    _Atomic uint32_t first_merges; /* of the first pass; UINT32_MAX: it is under way, or the last */
    _Atomic uint32_t scans;
    _Atomic uint32_t ended; /* there are no more */
};
struct order_merge {
    uint32_t low, high; /* the smaller id, which the two have then, and the other */
};

/* The rest of what a recall asks. */
struct order_recall {
    /* Without seeds, sets, record_room and results; dimension 0: no embeddings. */
    struct order_spread spread;
    uint32_t results; /* at most ORDER_RECALL_RESULTS_MAX */
    float width, activation_min, boost;
    uint64_t out_times; /* place of one struct recall_times */
};
enum {
    ORDER_RECALL_RESULTS_MAX = 2048,
    ORDER_RECALL_LISTS_MAX = 4096,
    ORDER_RECALL_CUES_MAX = 1024,    /* of a list */
    ORDER_RECALL_SEEDS_MAX = 1 << 20 /* k for each cue of a list */
};

enum { ORDER_QUERIES_MAX = 1 << 24 }; /* the most that query_count may be */

/* True if the GPU process may run an order of this shape directly: its query travels with the
 * launch, its results are stored straight into pinned memory. dimension_max: the device's; 0:
 * never. */
enum { ORDER_DIRECT_K_MAX = 64, ORDER_DIRECT_SCORES_MAX = 2048, ORDER_DIRECT_DIMENSION_MAX = 1024 };
static inline bool order_run_is_direct(const struct order_run *r, uint32_t dimension_max)
{
    bool best = r->operation == RUN_KNN && r->k >= 1 && r->k <= ORDER_DIRECT_K_MAX &&
                r->allowed == PLACE_NONE && !r->segment_count;
    bool all = r->operation == RUN_SCORES && r->positions == PLACE_NONE &&
               r->out_ids == PLACE_NONE && r->row_count <= ORDER_DIRECT_SCORES_MAX;
    return (best || all) && r->rows == PLACE_NONE && r->query_count == 1 && r->row_count >= 1 &&
           r->dimension <= dimension_max && r->dimension <= ORDER_DIRECT_DIMENSION_MAX;
}

/* One of the requests of a batch. The order's query_count is the sum of theirs, its k the largest;
 * its queries, allowed, threshold and out_* are unused; the number of a BAD_QUERY counts through
 * all of them. */
struct order_segment {
    uint64_t query_count;
    uint64_t queries;
    uint64_t allowed; /* bitmap over rows, or PLACE_NONE */
    uint32_t k;       /* the columns of its result */
    uint32_t has_threshold;
    float threshold;
    uint32_t reserved;
    uint64_t out_ids, out_scores, out_counts;
};
enum { ORDER_SEGMENTS_MAX = 256, ORDER_SEGMENT_QUERIES_MAX = 1024 };

/* An order without any place. */
static inline struct order_run order_run_of(enum run_operation operation)
{
    return (struct order_run){.operation = operation,
                              .rows = PLACE_NONE,
                              .positions = PLACE_NONE,
                              .offsets = PLACE_NONE,
                              .weights = PLACE_NONE,
                              .allowed = PLACE_NONE,
                              .out_ids = PLACE_NONE,
                              .out_scores = PLACE_NONE,
                              .out_counts = PLACE_NONE,
                              .segments = PLACE_NONE,
                              .other = {.rows = PLACE_NONE, .positions = PLACE_NONE}};
}

/* A replica, and the version of it that a request needs. */
struct order_replica {
    uint64_t number, version;
};
enum { ORDER_REPLICAS = 3 };

struct order {
    uint32_t kind;  /* enum order_kind */
    uint32_t space; /* the space's number, >= 1 */
    uint64_t token; /* the completion carries it, too */
    union {
        struct {
            /* >= 1, never used for two collections; 0: none, as of rows that come */
            uint64_t replica;
            uint64_t version; /* UPLOAD: the replica's version after it. RUN: the one it needs */
            /* of a second operand, or of a spread's embeddings; 0: none */
            uint64_t other_replica, other_version;
            uint64_t third_replica, third_version; /* of a third operand; 0: none */
        };
        struct order_replica reads[ORDER_REPLICAS]; /* the same, by number */
    };
    /* from its beginning on an idle device to its end, as the front predicts; 0: not predicted */
    uint64_t foreseen_ns;
    union {
        struct order_upload upload;
        struct order_run run;
        struct order_upload_part part;
        struct order_spread spread;
    };
};

enum order_result {
    RESULT_OK = 0,
    RESULT_BAD_QUERY = 1, /* completion.number says which */
    /* there is no replica (it was evicted), or it has another version: completion.number says of
     * which of the order's replicas, from 0 */
    RESULT_NO_REPLICA = 2,
    RESULT_NO_MEMORY = 3, /* not enough VRAM, even after evicting everything that may be evicted */
    RESULT_ERROR = 4,     /* this order alone failed on the device; others go on */
    RESULT_REFUSED = 5,   /* the GPU process found the order invalid */
    RESULT_BAD_ROW = 6,   /* completion.number says which of the rows that came, or which pair */
    /* UPLOAD: a request that is under way needs the version that is there, and there is no VRAM, or
     * none that the space may have, for a second one: nothing changed, and after the request it can
     * be tried again. RUN: it needed the version of such an upload. */
    RESULT_NO_VERSION = 7,
    RESULT_MAX = 8,
};

enum completion_kind {
    COMPLETION_DONE = 1,    /* the order with this token ended; every order, FORGET too, gets one */
    COMPLETION_EVICTED = 2, /* a replica was evicted to make room, without an order */
};

/* True if a request reads the replica that its order names as number i. */
static inline bool order_reads(const struct order *o, uint32_t i)
{
    const struct order_run *r = &o->run;
    if (o->kind == ORDER_SPREAD) return i == 0 || (i == 1 && o->spread.dimension != 0);
    if (o->kind != ORDER_RUN) return false;
    if (i == 0) return r->rows == PLACE_NONE;
    if (r->operation == RUN_CLEANUP) return (i == 1 ? &r->cue : &r->other)->rows == PLACE_NONE;
    if (r->operation == RUN_COMPLETE_ENGINE) return i == 1 && r->other.row_count != 0;
    if (r->operation == RUN_RECALL) return i == 2 || o->other_replica != 0;
    return i == 1 && r->operation == RUN_BIND && r->other.rows == PLACE_NONE;
}
/* Returns how many rows that replica has, as known to the front; i >= 1. */
static inline uint64_t order_replica_rows(const struct order *o, uint32_t i)
{
    if (o->kind == ORDER_SPREAD) return o->spread.row_count;
    return i == 1 && o->run.operation == RUN_CLEANUP ? o->run.cue.row_count
                                                     : o->run.other.row_count;
}

/* What a KNN did with the replica's rows in int8 (kernels/shadow.h); flags. */
enum completion_screen {
    SCREEN_ASKED = 1,   /* they were asked: completion.number and .read_bytes say more */
    SCREEN_USELESS = 2, /* too many rows passed: some of the next searches will do without */
    SCREEN_RESTED = 4,  /* it did without for that reason */
};

/* Times are as clock_now_ns counts, which is the same clock in both processes. */
struct completion {
    uint32_t kind;
    uint16_t result; /* enum order_result */
    uint16_t screen; /* of a KNN: enum completion_screen */
    uint64_t token;
    union {
        uint64_t replica;
        uint64_t read_bytes; /* of a KNN that ASKED: of rows, in either form */
    };
    /* BAD_QUERY, BAD_ROW: its number; UPLOAD: the replica's bytes of VRAM; a KNN that ASKED: pairs
     * of a query and a row that were scored then */
    uint64_t number;
    uint64_t started_ns, finished_ns;
    uint64_t copy_ns; /* the part of it spent copying between host and device; 0: not measured */
    uint64_t enqueued_ns; /* of a request: when its first kernel was enqueued; 0: none was */
};

_Static_assert(sizeof(struct order) <= 256, "an order fits its slot");
_Static_assert(sizeof(struct completion) == 64, "a completion fills its slot");

#endif
