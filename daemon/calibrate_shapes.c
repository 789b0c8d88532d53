#include "daemon/calibrate_shapes.h"

#include "daemon/store/collection.h"

/* Two widths, so that what a pair costs and what its floats cost can be told apart. */
const struct ground grounds[GROUNDS] = {{256, 64}, {256, 1024}, {32, 8192}, {256, 16384}};

uint32_t ground_rows(uint32_t ground, uint32_t shift)
{
    uint32_t rows = grounds[ground].rows;
    return rows > CHUNK_ROWS ? rows >> shift : rows;
}

/* The first on each ground also uploads it; the first of all wakes the device's code. */
#define SCANS(operation)                                                                          \
    {operation, 0, 1, 0}, {operation, 0, 8, 0}, {operation, 0, 64, 0}, {operation, 1, 1, 0},      \
        {operation, 1, 8, 0}, {operation, 1, 64, 0}, {operation, 2, 1, 0}, {operation, 2, 16, 0}, \
        {operation, 2, 64, 0}, {operation, 3, 1, 0}, {operation, 3, 2, 0}, {operation, 3, 8, 0},  \
    {                                                                                             \
        operation, 3, 64, 0                                                                       \
    }

const struct trial trials[TRIAL_SHAPES] = {
    SCANS(OPERATION_KNN),
    SCANS(OPERATION_SIMILARITY),
    {OPERATION_SCORE_CANDIDATES, 0, 1, 64},
    {OPERATION_SCORE_CANDIDATES, 1, 1, 256},
    {OPERATION_SCORE_CANDIDATES, 1, 1, 1024},
    {OPERATION_SCORE_CANDIDATES, 2, 1, 1024},
    {OPERATION_SCORE_CANDIDATES, 2, 1, 8192},
    {OPERATION_SCORE_CANDIDATES, 2, 64, 64},
    {OPERATION_SCORE_CANDIDATES, 3, 1, 1024},
    {OPERATION_SCORE_CANDIDATES, 3, 1, 4096},
    {OPERATION_SCORE_CANDIDATES, 3, 1, 16384},
    {OPERATION_SCORE_CANDIDATES, 3, 8, 128},
    {OPERATION_SCORE_CANDIDATES, 3, 64, 16},
    {OPERATION_SCORE_CANDIDATES, 3, 64, 256},
    {OPERATION_WEIGHTED_AVERAGE, 0, 0, 16},
    {OPERATION_WEIGHTED_AVERAGE, 1, 0, 128},
    {OPERATION_WEIGHTED_AVERAGE, 1, 0, 1024},
    {OPERATION_WEIGHTED_AVERAGE, 2, 0, 64},
    {OPERATION_WEIGHTED_AVERAGE, 2, 0, 1024},
    {OPERATION_WEIGHTED_AVERAGE, 2, 0, 8192},
    {OPERATION_WEIGHTED_AVERAGE, 3, 0, 256},
    {OPERATION_WEIGHTED_AVERAGE, 3, 0, 1024},
    {OPERATION_WEIGHTED_AVERAGE, 3, 0, 4096},
    {OPERATION_WEIGHTED_AVERAGE, 3, 0, 16384},
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

/* Rows, ids, norms, index and what the largest trial wants beside them. */
uint64_t trial_field_bytes(uint32_t shift)
{
    uint64_t bytes = (TRIAL_RESULT_BYTES >> shift) + trial_memory_bytes();
    for (uint32_t i = 0; i < GROUNDS; i++)
        bytes += (uint64_t)ground_rows(i, shift) * (grounds[i].dimension * sizeof(float) + 64);
    return bytes;
}

static struct tensor tensor_of(enum dtype dtype, uint64_t rows, uint64_t columns, void *data)
{
    return (struct tensor){.dtype = dtype, .rows = rows, .columns = columns, .data = data};
}

/* ---------------------------------------------------------------- requests */

/* In no order that a cache would like, none twice (an odd factor, a power of 2). */
static void scatter_ids(uint64_t count, uint64_t rows, uint64_t *ids)
{
    for (uint64_t i = 0; i < count; i++)
        ids[i] = i * 40503 & (rows - 1);
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
    /* Not from the block's start, where the last rows that were made still are. */
    float *queries = (float *)memory + 96;
    if (t->queries) r->queries = tensor_of(DTYPE_FLOAT32, t->queries, dimension, queries);
    if (t->operation == OPERATION_KNN) r->k = 10;
    if (!listed) return true;
    scatter_ids(listed, ground_rows(t->ground, shift), ids);
    r->ids = tensor_of(DTYPE_UINT64, listed, 1, ids);
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

/* ---------------------------------------------------------------- rows */

enum { WORD_FIRST, WORD_COUNT, WORD_MEMORY };

void trial_set_fill(struct job *j, uint64_t first, uint64_t count, void *memory)
{
    j->plan.words[WORD_FIRST] = first;
    j->plan.words[WORD_COUNT] = count;
    j->plan.words[WORD_MEMORY] = (uintptr_t)memory;
}

void trial_fill(struct job *j)
{
    uint64_t first = j->plan.words[WORD_FIRST], count = j->plan.words[WORD_COUNT];
    float *rows = (float *)(uintptr_t)j->plan.words[WORD_MEMORY];
    uint64_t *ids = (uint64_t *)((char *)rows + RANDOM_BYTES);
    uint64_t floats = count * collection_dimension(j->collection);
    uint64_t state = 0x9e3779b97f4a7c15 * (first + 1); /* xorshift: -1 up to 1 */
    for (uint64_t i = 0; i < floats; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        rows[i] = (float)(int32_t)(state >> 32) * 0x1p-31f;
    }
    for (uint64_t i = 0; i < count; i++)
        ids[i] = first + i;
    struct upsert_counts counts;
    (void)collection_upsert(j->collection, ids, rows, count, &counts, &j->failure);
}

void trial_clear(struct job *j)
{
    collection_clear(j->collection);
}
