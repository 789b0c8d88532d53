#include "daemon/gpu/sim_covariance.h"

#include <string.h>

static const char *const name = "covariance";

enum { TILE = CUDA_COVARIANCE_TILE, NUMBERS = CUDA_COVARIANCE_TILE_NUMBERS };

uint64_t sim_covariance_scratch_bytes(void)
{
    return (2 * COVARIANCE_PACK_NUMBERS + COVARIANCE_TILE_NUMBERS) * sizeof(double);
}

/* ---- what it may touch ---- */

static void check(const struct sim_memory *m, const void *address, uint64_t count, uint64_t size,
                  uint64_t alignment)
{
    sim_device_check_array(m, name, address, count, size, alignment);
}

static void check_rows(const struct device_call *call, const struct sim_memory *m)
{
    const struct cuda_covariance *w = &call->covariance;
    check(m, call->rows.rows, call->rows.count * vector_stride(call->rows.dimension), sizeof(float),
          64);
    if (w->positions) check(m, w->positions, w->count, sizeof *w->positions, 4);
    if (w->weights) check(m, w->weights, w->count, sizeof *w->weights, 4);
    if (!w->positions && w->count > call->rows.count)
        sim_misuse(name, "%llu rows of %llu", (unsigned long long)w->count,
                   (unsigned long long)call->rows.count);
}

static void check_add(const struct device_call *call, const struct sim_memory *m)
{
    const struct cuda_covariance *w = &call->covariance;
    uint64_t run = w->blocks, first = w->first_block, blocks = covariance_blocks(w->count);
    while (run & (run - 1))
        run += run & -run;
    if (!w->blocks || run > CUDA_COVARIANCE_BLOCKS_MAX || first % run || first + w->blocks > blocks)
        sim_misuse(name, "blocks %llu + %llu of %llu", (unsigned long long)first,
                   (unsigned long long)w->blocks, (unsigned long long)blocks);
    check_rows(call, m);
    if (w->blocks > 1) check(m, w->nodes, w->blocks * w->tiles * NUMBERS, sizeof *w->nodes, 16);
    check(m, w->part, w->tiles * NUMBERS, sizeof *w->part, 16);
}

void sim_covariance_check(const struct device_call *call, const struct sim_memory *m)
{
    const struct cuda_covariance *w = &call->covariance;
    uint64_t d = call->rows.dimension, stride = vector_stride(call->rows.dimension);
    if (w->first_tile + w->tiles > cuda_covariance_tiles(call->rows.dimension))
        sim_misuse(name, "tiles %llu + %llu of %u dimensions", (unsigned long long)w->first_tile,
                   (unsigned long long)w->tiles, (unsigned)d);
    check(m, w->mean, stride, sizeof *w->mean, 8);
    switch (w->stage) {
    case CUDA_COVARIANCE_SUM: check_rows(call, m); break;
    case CUDA_COVARIANCE_MEAN: break;
    case CUDA_COVARIANCE_ADD: check_add(call, m); return;
    case CUDA_COVARIANCE_WRITE:
        check(m, w->part, w->parts * w->tiles * NUMBERS, sizeof *w->part, 16);
        check(m, w->covariance, d * d, sizeof *w->covariance, 8);
        return;
    }
    check(m, w->sums, covariance_blocks(w->count) * stride, sizeof *w->sums, 8);
}

/* ---- doing it ---- */

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Rows [first, first + count), count <= COVARIANCE_DEPTH. */
static struct covariance_rows rows_at(const struct device_call *call, uint64_t first, size_t count,
                                      const float **pointers)
{
    const struct cuda_covariance *w = &call->covariance;
    uint64_t stride = vector_stride(call->rows.dimension);
    for (size_t i = 0; i < count; i++) {
        uint64_t row = w->positions ? w->positions[first + i] : first + i;
        if (row >= call->rows.count) sim_misuse(name, "position %llu", (unsigned long long)row);
        pointers[i] = call->rows.rows + row * stride;
    }
    return (struct covariance_rows){pointers, w->weights ? w->weights + first : NULL, count};
}

static void sum(const struct device_call *call, const struct covariance_kernels *kernels)
{
    const float *pointers[COVARIANCE_DEPTH];
    const struct cuda_covariance *w = &call->covariance;
    uint64_t stride = vector_stride(call->rows.dimension), blocks = covariance_blocks(w->count);
    memset(w->sums, 0, blocks * stride * sizeof *w->sums);
    for (uint64_t block = 0; block < blocks; block++) {
        uint64_t at = block * COVARIANCE_BLOCK, end = smaller(at + COVARIANCE_BLOCK, w->count);
        for (; at < end; at += COVARIANCE_DEPTH) {
            size_t count = (size_t)smaller(COVARIANCE_DEPTH, end - at);
            struct covariance_rows rows = rows_at(call, at, count, pointers);
            kernels->sum(&rows, 0, stride, w->sums + block * stride);
        }
    }
}

static struct covariance_columns columns_of(uint64_t side, uint32_t dimension)
{
    uint64_t first = side * TILE;
    return (struct covariance_columns){first, (size_t)smaller(TILE, dimension - first)};
}

static void find_tile(const struct device_call *call, uint64_t number,
                      struct covariance_columns *left, struct covariance_columns *right)
{
    uint64_t sides = (call->rows.dimension + TILE - 1) / TILE, i = 0;
    for (; number >= sides - i; i++)
        number -= sides - i;
    *left = columns_of(i, call->rows.dimension);
    *right = columns_of(i + number, call->rows.dimension);
}

static void add_block(const struct device_call *call, const struct covariance_kernels *kernels,
                      uint64_t number, uint64_t block, double *scratch, double *node)
{
    const float *pointers[COVARIANCE_DEPTH];
    const struct cuda_covariance *w = &call->covariance;
    double *left = scratch, *right = left + COVARIANCE_PACK_NUMBERS;
    double *tile = right + COVARIANCE_PACK_NUMBERS;
    struct covariance_columns i, j;
    uint64_t at = block * COVARIANCE_BLOCK, end = smaller(at + COVARIANCE_BLOCK, w->count);
    find_tile(call, number, &i, &j);
    memset(tile, 0, COVARIANCE_TILE_NUMBERS * sizeof *tile);
    for (; at < end; at += kernels->depth) {
        size_t count = (size_t)smaller(kernels->depth, end - at);
        struct covariance_rows rows = rows_at(call, at, count, pointers);
        kernels->pack_left(&rows, i, w->mean, left);
        kernels->pack_right(&rows, j, w->mean, right);
        kernels->add(left, i.count, right, j.count, count, i.first == j.first, tile);
    }
    for (size_t line = 0; line < TILE; line++)
        memcpy(node + line * TILE, tile + line * COVARIANCE_TILE, TILE * sizeof *node);
}

static void add(const struct device_call *call, const struct covariance_kernels *kernels,
                double *scratch)
{
    const struct cuda_covariance *w = &call->covariance;
    double *nodes = w->blocks == 1 ? w->part : w->nodes;
    for (uint64_t block = 0; block < w->blocks; block++)
        for (uint64_t tile = 0; tile < w->tiles; tile++)
            add_block(call, kernels, w->first_tile + tile, w->first_block + block, scratch,
                      nodes + (block * w->tiles + tile) * NUMBERS);
    if (w->blocks == 1) return;
    covariance_fold(nodes, w->tiles * NUMBERS, w->tiles * NUMBERS, (size_t)w->blocks);
    memcpy(w->part, nodes, w->tiles * NUMBERS * sizeof *w->part);
}

static void write_tile(const struct device_call *call, uint64_t tile)
{
    const struct cuda_covariance *w = &call->covariance;
    const double *node = w->part + tile * NUMBERS;
    uint64_t d = call->rows.dimension;
    struct covariance_columns left, right;
    find_tile(call, w->first_tile + tile, &left, &right);
    for (size_t j = 0; j < right.count; j++)
        for (size_t i = 0; i < left.count && left.first + i <= right.first + j; i++) {
            double value = node[j * TILE + i] / w->divisor;
            w->covariance[(right.first + j) * d + left.first + i] = value;
            w->covariance[(left.first + i) * d + right.first + j] = value;
        }
}

void sim_covariance_run(const struct device_call *call, const struct vector_kernels *kernels,
                        void *scratch)
{
    const struct covariance_kernels *table = covariance_choose(kernels->name);
    const struct cuda_covariance *w = &call->covariance;
    uint64_t stride = vector_stride(call->rows.dimension), line = w->tiles * NUMBERS;
    switch (w->stage) {
    case CUDA_COVARIANCE_SUM: sum(call, table); break;
    case CUDA_COVARIANCE_MEAN:
        covariance_fold(w->sums, stride, stride, (size_t)covariance_blocks(w->count));
        for (uint64_t c = 0; c < stride; c++)
            w->mean[c] = w->sums[c] / w->total;
        break;
    case CUDA_COVARIANCE_ADD: add(call, table, scratch); break;
    case CUDA_COVARIANCE_WRITE:
        covariance_fold(w->part, line, line, (size_t)w->parts);
        for (uint64_t tile = 0; tile < w->tiles; tile++)
            write_tile(call, tile);
        break;
    }
}
