#include "daemon/learn/calibrate_shapes.h"

#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

/* Two widths, so that the cost of a pair and that of its floats can be told apart. */
const struct ground grounds[GROUNDS] = {{256, 64, 0},    {256, 1024, 0}, {32, 8192, 0},
                                        {256, 16384, 0}, {0, 1024, 8},   {0, 16384, 8}};

uint32_t ground_rows(uint32_t ground, uint32_t shift)
{
    uint32_t rows = grounds[ground].rows;
    return rows > CHUNK_ROWS ? rows >> shift : rows;
}

/* The first trial on each ground also uploads it; the very first one loads the device's code. */
#define SCANS(operation)                                                             \
    {operation, 0, 1, 0, 0}, {operation, 0, 8, 0, 0}, {operation, 0, 64, 0, 0},      \
        {operation, 1, 1, 0, 0}, {operation, 1, 8, 0, 0}, {operation, 1, 64, 0, 0},  \
        {operation, 2, 1, 0, 0}, {operation, 2, 16, 0, 0}, {operation, 2, 64, 0, 0}, \
        {operation, 3, 1, 0, 0}, {operation, 3, 2, 0, 0}, {operation, 3, 8, 0, 0},   \
    {                                                                                \
        operation, 3, 64, 0, 0                                                       \
    }

/* From a few edges to all of them; many sets, with few seeds and with one. The smallest come last:
 * their time predicts nothing about larger ones. */
#define SPREADS(operation, seeds, hops)                                                   \
    {operation, 4, 1, 64, 2}, {operation, 4, 8, 1, 3}, {operation, 4, 64, seeds, hops},   \
        {operation, 4, 64, 1, 1}, {operation, 4, 16, 1, 1}, {operation, 4, 1, 1, 1},      \
        {operation, 5, 1, 1, 3}, {operation, 5, 1, 64, 2}, {operation, 5, 1, 4096, 1},    \
        {operation, 5, 1, 4096, 2}, {operation, 5, 1, 16384, 1}, {operation, 5, 8, 1, 3}, \
    {                                                                                     \
        operation, 5, 1, 1, 1                                                             \
    }

const struct trial trials[TRIAL_SHAPES] = {
    SCANS(OPERATION_KNN),
    SCANS(OPERATION_SIMILARITY),
    {OPERATION_SCORE_CANDIDATES, 0, 1, 64, 0},
    {OPERATION_SCORE_CANDIDATES, 1, 1, 256, 0},
    {OPERATION_SCORE_CANDIDATES, 1, 1, 1024, 0},
    {OPERATION_SCORE_CANDIDATES, 2, 1, 1024, 0},
    {OPERATION_SCORE_CANDIDATES, 2, 1, 8192, 0},
    {OPERATION_SCORE_CANDIDATES, 2, 64, 64, 0},
    {OPERATION_SCORE_CANDIDATES, 3, 1, 1024, 0},
    {OPERATION_SCORE_CANDIDATES, 3, 1, 4096, 0},
    {OPERATION_SCORE_CANDIDATES, 3, 1, 16384, 0},
    {OPERATION_SCORE_CANDIDATES, 3, 8, 128, 0},
    {OPERATION_SCORE_CANDIDATES, 3, 64, 16, 0},
    {OPERATION_SCORE_CANDIDATES, 3, 64, 256, 0},
    {OPERATION_WEIGHTED_AVERAGE, 0, 0, 16, 0},
    {OPERATION_WEIGHTED_AVERAGE, 1, 0, 128, 0},
    {OPERATION_WEIGHTED_AVERAGE, 1, 0, 1024, 0},
    {OPERATION_WEIGHTED_AVERAGE, 2, 0, 64, 0},
    {OPERATION_WEIGHTED_AVERAGE, 2, 0, 1024, 0},
    {OPERATION_WEIGHTED_AVERAGE, 2, 0, 8192, 0},
    {OPERATION_WEIGHTED_AVERAGE, 3, 0, 256, 0},
    {OPERATION_WEIGHTED_AVERAGE, 3, 0, 1024, 0},
    {OPERATION_WEIGHTED_AVERAGE, 3, 0, 4096, 0},
    {OPERATION_WEIGHTED_AVERAGE, 3, 0, 16384, 0},
    SPREADS(OPERATION_SPREAD, 4, 3),
    SPREADS(OPERATION_SPREAD_ENGRAM, 16, 2),
    {OPERATION_BIND, 0, 0, 1, 0},
    {OPERATION_BIND, 0, 0, 8, 0},
    {OPERATION_BIND, 1, 0, 64, 0},
    {OPERATION_BIND, 1, 0, 512, 0},
    {OPERATION_BIND, 2, 0, 4096, 0},
    {OPERATION_COMPLETE, 0, 1, 0, 0},
    {OPERATION_COMPLETE, 1, 1, 0, 0},
    {OPERATION_COMPLETE, 1, 16, 0, 0},
    {OPERATION_COMPLETE, 2, 8, 0, 0},
    {OPERATION_COMPLETE, 3, 1, 0, 0},
    {OPERATION_COMPLETE, 3, 16, 0, 0},
    {OPERATION_COVARIANCE, 0, 0, 0, 0},
    {OPERATION_COVARIANCE, 1, 0, 0, 0},
    {OPERATION_COVARIANCE, 2, 0, 0, 0},
    {OPERATION_COVARIANCE, 3, 0, 0, 0},
    {OPERATION_CLUSTER, 0, 0, 0, 0},
    {OPERATION_CLUSTER, 1, 0, 0, 0},
};

/* ---------------------------------------------------------------- memory */

#define RANDOM_BYTES  ((uint64_t)CHUNK_ROWS * GROUND_DIMENSION * sizeof(float))
#define IDS_BYTES     ((uint64_t)GROUND_ROWS_MAX * sizeof(uint64_t))
#define WEIGHTS_BYTES ((uint64_t)GROUND_ROWS_MAX * sizeof(float))
#define OFFSETS_BYTES ((uint64_t)(TRIAL_QUERIES_MAX + 8) * sizeof(uint64_t))

uint64_t trial_memory_bytes(void)
{
    return RANDOM_BYTES + IDS_BYTES + WEIGHTS_BYTES + OFFSETS_BYTES;
}

/* A row has an id, a norm and a place in the index; so has a node, and each of its edges is stored
 * twice, with spare places. */
uint64_t trial_field_bytes(uint32_t shift)
{
    enum { ROW_BYTES = 64, EDGE_BYTES = 32 };
    uint64_t bytes = (TRIAL_RESULT_BYTES >> shift) + trial_memory_bytes();
    for (uint32_t i = 0; i < GROUNDS; i++) {
        const struct ground *g = &grounds[i];
        uint64_t rows = ground_rows(i, shift);
        bytes += rows * (g->dimension * sizeof(float) + ROW_BYTES + g->degree * EDGE_BYTES);
        if (g->degree) bytes += spread_workspace_bytes((uint32_t)rows);
    }
    return bytes;
}

static struct tensor tensor_of(enum dtype dtype, uint64_t rows, uint64_t columns, void *data)
{
    return (struct tensor){.dtype = dtype, .rows = rows, .columns = columns, .data = data};
}

/* ---------------------------------------------------------------- requests */

/* Spreads ids so that caches do not help, each one once (an odd factor modulo a power of 2). */
static void scatter_ids(uint64_t count, uint64_t rows, uint64_t *ids)
{
    for (uint64_t i = 0; i < count; i++)
        ids[i] = i * 40503 & (rows - 1);
}

/* Sets up a spread as a client does that names only hops and mode. */
static void set_spread(const struct trial *t, struct job *j)
{
    j->operation = OPERATION_SPREAD;
    j->request.k = 10;
    j->request.spread = (struct job_spread){
        .mode = t->operation == OPERATION_SPREAD ? SPREAD_LINEAR : SPREAD_ENGRAM,
        .fan = SPREAD_FAN_NONE,
        .decay = DECAY_EXPONENTIAL,
        .decay_parameter = 0.7f,
        .hops = t->hops,
        .thresholds = {0.01f, 0.05f, 0.1f},
    };
}

bool trial_request(const struct trial *t, uint32_t shift, void *memory, struct job *j)
{
    struct job_request *r = &j->request;
    uint32_t dimension = grounds[t->ground].dimension;
    uint64_t lists = t->queries ? t->queries : 1, listed = lists * t->listed;
    char *at = (char *)memory + RANDOM_BYTES;
    uint64_t *ids = (uint64_t *)at;
    float *weights = (float *)(at + IDS_BYTES);
    uint64_t *offsets = (uint64_t *)(at + IDS_BYTES + WEIGHTS_BYTES);
    if (listed > ground_rows(t->ground, shift)) return false;
    j->operation = t->operation;
    /* Not from the start of the block, where the last rows that were made still are. */
    float *queries = (float *)memory + 96;
    if (t->hops)
        set_spread(t, j);
    else if (t->queries)
        r->queries = tensor_of(DTYPE_FLOAT32, t->queries, dimension, queries);
    if (t->operation == OPERATION_KNN) r->k = 10;
    r->beta = 1;
    r->rounds = 1;
    r->cluster = (struct job_cluster){.rule = 1, .size_min = 3, .clusters_max = 100};
    if (t->operation == OPERATION_CLUSTER) r->threshold = r->cluster.threshold_second = 0.9f;
    if (!listed) return true;
    scatter_ids(listed, ground_rows(t->ground, shift), ids);
    r->ids = tensor_of(DTYPE_UINT64, listed, 1, ids);
    if (t->operation == OPERATION_BIND) {
        r->other_rows = tensor_of(DTYPE_FLOAT32, listed, dimension, queries);
        return true;
    }
    if (t->operation == OPERATION_WEIGHTED_AVERAGE) {
        for (uint64_t i = 0; i < listed; i++)
            weights[i] = 1;
        r->weights = tensor_of(DTYPE_FLOAT32, listed, 1, weights);
        return true;
    }
    for (uint64_t i = 0; i <= lists; i++)
        offsets[i] = i * t->listed;
    r->offsets = tensor_of(DTYPE_UINT64, lists + 1, 1, offsets);
    return true;
}

/* ---------------------------------------------------------------- rows, edges */

enum { WORD_FIRST, WORD_COUNT, WORD_MEMORY, WORD_ROWS, WORD_DEGREE };

void trial_set_fill(struct job *j, uint32_t ground, uint32_t shift, uint64_t first, uint64_t count,
                    void *memory)
{
    j->plan.words[WORD_ROWS] = ground_rows(ground, shift);
    j->plan.words[WORD_DEGREE] = grounds[ground].degree;
    j->plan.words[WORD_FIRST] = first;
    j->plan.words[WORD_COUNT] = count;
    j->plan.words[WORD_MEMORY] = (uintptr_t)memory;
}

static uint64_t state_of(uint64_t first)
{
    return 0x9e3779b97f4a7c15 * (first + 1);
}

static uint32_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 32);
}

/* Random numbers from -1 up to 1. */
static void fill_rows(struct job *j, uint64_t first, uint64_t count, float *rows)
{
    uint64_t *ids = (uint64_t *)((char *)rows + RANDOM_BYTES);
    uint64_t floats = count * collection_dimension(j->collection), state = state_of(first);
    for (uint64_t i = 0; i < floats; i++)
        rows[i] = (float)(int32_t)random_next(&state) * 0x1p-31f;
    for (uint64_t i = 0; i < count; i++)
        ids[i] = first + i;
    struct upsert_counts counts;
    (void)collection_upsert((struct collection *)j->resident, ids, rows, count, &counts,
                            &j->failure);
}

/* Edges to random nodes, with weights from 1/2 up to 1. They are made outside the part of the
 * block that queries are taken from, because an id is not a useful number of a query. */
static void fill_edges(struct job *j, uint64_t first, uint64_t count, void *memory)
{
    uint64_t rows = j->plan.words[WORD_ROWS], degree = j->plan.words[WORD_DEGREE];
    uint64_t edges = count * degree, state = state_of(first);
    uint64_t *sources = (uint64_t *)((char *)memory + RANDOM_BYTES / 2);
    uint64_t *targets = sources + edges;
    float *weights = (float *)(targets + edges);
    for (uint64_t i = 0; i < edges; i++) {
        sources[i] = first + i / degree;
        targets[i] = random_next(&state) & (rows - 1);
        weights[i] = 0.5f + (float)(random_next(&state) >> 8) * 0x1p-25f;
    }
    struct graph_counts counts;
    graph_add_edges((struct graph *)j->resident, sources, targets, weights, edges, false, &counts,
                    &j->failure);
}

void trial_fill(struct job *j)
{
    uint64_t first = j->plan.words[WORD_FIRST], count = j->plan.words[WORD_COUNT];
    void *memory = (void *)(uintptr_t)j->plan.words[WORD_MEMORY];
    if (j->graph)
        fill_edges(j, first, count, memory);
    else
        fill_rows(j, first, count, memory);
}

void trial_clear(struct job *j)
{
    if (j->graph)
        graph_clear((struct graph *)j->resident);
    else
        collection_clear((struct collection *)j->resident);
}
