/* spread_similar: finds the row of each node of a graph in a collection, by id: an index of the
 * collection's ids, which is made first and thrown away with the spread's scratch. */
#include "kernels/cuda/spread_launch.cuh"

enum { THREADS = 256 };

struct similar_index {
    uint32_t *entries; /* 1 + the row; 0: empty */
    uint32_t bits;
};

__host__ __device__ static uint32_t similar_home(uint64_t id, uint32_t bits)
{
    return (uint32_t)(id * 0x9e3779b97f4a7c15u >> (64 - bits));
}

__global__ void __launch_bounds__(THREADS)
    similar_insert_kernel(struct similar_index index, const uint64_t *ids, uint32_t count)
{
    const uint32_t row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= count) return;
    const uint32_t mask = (uint32_t)((1ull << index.bits) - 1);
    uint32_t at = similar_home(ids[row], index.bits);
    while (atomicCAS(&index.entries[at], 0u, row + 1) != 0)
        at = (at + 1) & mask;
}

__global__ void __launch_bounds__(THREADS)
    similar_find_kernel(struct similar_index index, const uint64_t *ids, const uint64_t *nodes,
                        uint32_t count, uint32_t *rows)
{
    const uint32_t node = blockIdx.x * THREADS + threadIdx.x;
    if (node >= count) return;
    const uint32_t mask = (uint32_t)((1ull << index.bits) - 1);
    const uint64_t id = nodes[node];
    uint32_t found = SPREAD_NO_NODE;
    for (uint32_t at = similar_home(id, index.bits);; at = (at + 1) & mask) {
        const uint32_t entry = index.entries[at];
        if (entry && ids[entry - 1] != id) continue;
        if (entry) found = entry - 1;
        break;
    }
    rows[node] = found;
}

struct spread_similar spread_similar_of(const struct cuda_spread *s)
{
    const struct cuda_embeddings *e = &s->embeddings;
    struct spread_similar similar = {};
    if (!e->rows) return similar;
    char *at = (char *)e->tables + (sizeof(uint32_t) << cuda_embeddings_bits(e->count));
    similar.rows = e->rows;
    similar.norms = e->norms;
    similar.dimension = e->dimension;
    similar.node_rows = (uint32_t *)at;
    similar.replaced = (uint8_t *)(at + (uint64_t)s->graph.nodes * sizeof(uint32_t));
    return similar;
}

int spread_similar_launch(const struct cuda_spread *s, cudaStream_t stream)
{
    const struct cuda_embeddings *e = &s->embeddings;
    const uint32_t count = (uint32_t)e->count, nodes = s->graph.nodes;
    if (!e->rows || !nodes) return cudaSuccess;
    struct similar_index index = {(uint32_t *)e->tables, cuda_embeddings_bits(e->count)};
    const int error = cudaMemsetAsync(index.entries, 0, sizeof(uint32_t) << index.bits, stream);
    if (error) return error;
    if (count)
        similar_insert_kernel<<<blocks_for(count, THREADS), THREADS, 0, stream>>>(index, e->ids,
                                                                                  count);
    similar_find_kernel<<<blocks_for(nodes, THREADS), THREADS, 0, stream>>>(
        index, e->ids, s->graph.ids, nodes, spread_similar_of(s).node_rows);
    return cudaGetLastError();
}
