/* spread_places: where the state of a node is stored. The grid has arrays over all nodes: a node's
 * place is its number. A block has room for few nodes: a hash table gives places to nodes in the
 * order in which they are met, so that only used places cost anything. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_PLACES_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_PLACES_CUH

#include "kernels/cuda/spread_group.cuh"

/* table: 2 * room entries, with node + 1 in the upper half and the place in the lower; 0: empty. */
struct spread_hash {
    unsigned long long *table;
    uint32_t *nodes; /* `room` of them, by place; SPREAD_NO_NODE: the place was given up */
    uint32_t room;   /* a power of two */
};

/* SIMILAR: the run has embeddings (spread_similar.cuh). */
struct spread_dense_places {
    static const bool SIMILAR = false;
    __device__ static uint32_t take(uint32_t node)
    {
        return node;
    }
    __device__ static uint32_t find(uint32_t node)
    {
        return node;
    }
    __device__ static uint32_t node(uint32_t place)
    {
        return place;
    }
};

struct spread_hash_places {
    static const bool SIMILAR = false;
    struct spread_hash hash;
    unsigned *count; /* places in use */
    uint32_t capacity, shift;

    __device__ uint32_t slot(uint32_t node) const
    {
        return node * 0x9e3779b1u >> shift;
    }
    __device__ uint32_t node(uint32_t place) const
    {
        return hash.nodes[place];
    }

    /* Returns the node's place, or gives it one. Many threads may call it at once, for nodes of
     * less than half of the capacity. */
    __device__ uint32_t take(uint32_t node)
    {
        const unsigned long long key = (unsigned long long)(node + 1) << 32;
        uint32_t own = SPREAD_NO_NODE;
        for (uint32_t at = slot(node);; at = (at + 1) & (capacity - 1)) {
            unsigned long long there = *(volatile unsigned long long *)&hash.table[at];
            if (there == 0) {
                if (own == SPREAD_NO_NODE) {
                    own = atomicAdd(count, 1u);
                    hash.nodes[own] = node;
                }
                there = atomicCAS(&hash.table[at], 0ull, key | own);
                if (there == 0) return own;
            }
            if (there >> 32 == key >> 32) {
                if (own != SPREAD_NO_NODE) hash.nodes[own] = SPREAD_NO_NODE;
                return (uint32_t)there;
            }
        }
    }

    /* Returns the node's place; SPREAD_NO_NODE: it has none. Not while other threads call take. */
    __device__ uint32_t find(uint32_t node) const
    {
        for (uint32_t at = slot(node);; at = (at + 1) & (capacity - 1)) {
            unsigned long long there = hash.table[at];
            if (there == 0) return SPREAD_NO_NODE;
            if ((uint32_t)(there >> 32) == node + 1) return (uint32_t)there;
        }
    }

    /* Makes room for this many places; all threads of the block call it, with a sync before and
     * after. */
    __device__ void grow(uint32_t places)
    {
        if (capacity >= 2 * places && capacity > 0) return;
        uint32_t bits = 8;
        while (1u << bits < 2 * places)
            bits++;
        capacity = 1u << bits;
        shift = 32 - bits;
        spread_clear<spread_block_group>(hash.table, (uint64_t)capacity * sizeof *hash.table);
        __syncthreads();
        uint32_t given = *count;
        for (uint32_t p = threadIdx.x; p < given; p += SPREAD_THREADS) {
            uint32_t node = hash.nodes[p];
            if (node == SPREAD_NO_NODE) continue;
            unsigned long long entry = (unsigned long long)(node + 1) << 32 | p;
            uint32_t at = slot(node);
            while (atomicCAS(&hash.table[at], 0ull, entry) != 0)
                at = (at + 1) & (capacity - 1);
        }
        __syncthreads();
    }
};

#endif
