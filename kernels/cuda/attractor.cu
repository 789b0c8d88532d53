/* attractor: what comes before and after the dentate's dot products, one block of threads a cue.
 * MASK: the cue in which what is not known is 0, and its norm. SETTLE: the greatest sums and what
 * the dentate gyrus gives, in shared memory, and CA3's rounds on it. Sizes, d = 768: the sums of a
 * cue are 30 KB; a round reads the columns of 38 numbers, 117 KB, the first one those of some 300;
 * all of it stays in the second level cache, W being 2.3 MB.
 *
 * An update gives each thread four rows of W and PARTS of the 32 partials, of which the tree is
 * made by recursion: partials in the order of their numbers with the five bits turned round are
 * neighbours in the tree. The numbers that are not 0 are listed in that order first. Threads that
 * have the same rows add their parts of the tree through shared memory. */
#include "kernels/cuda/attractor_mask.cuh"

/* Returns how many threads of the block before this one are counted, and *all. All threads call it;
 * warps is shared. */
template <int THREADS>
__device__ __forceinline__ uint32_t attractor_rank(bool counted, uint32_t *warps, uint32_t *all)
{
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t mine = __ballot_sync(WARP, counted);
    __syncthreads();
    if (lane == 0) warps[warp] = __popc(mine);
    __syncthreads();
    const uint32_t there = lane < THREADS / 32 ? warps[lane] : 0;
    *all = warp_total(there);
    return warp_total(lane < warp ? there : 0) + __popc(mine & ((1u << lane) - 1));
}

/* ---------------------------------------------------------------- which values stay */

/* Rises from the greatest value to the least; -0 and +0 tie (kernels/topk.h). */
__device__ __forceinline__ uint32_t attractor_key(float value)
{
    return sink_key(value, false);
}

/* Keys below `last` stay, and of those equal to it the ones up to index `end`. */
struct attractor_bound {
    uint32_t last, end;
};

__device__ __forceinline__ bool attractor_stays(const struct attractor_bound &b, uint32_t key,
                                                uint32_t index)
{
    return key < b.last || (key == b.last && index <= b.end);
}

/* What the threads of a block tell each other. */
template <int THREADS> struct attractor_board {
    uint32_t totals[2][THREADS / 32]; /* of each warp; a step's, and the next one's */
    uint32_t warps[THREADS / 32];
    uint32_t end;
    bool still;
};

/* Returns how many keys there are up to a bound. Two calls in a row have different slots, so that
 * one barrier is enough. */
template <int THREADS, int KEYS>
__device__ __forceinline__ uint32_t attractor_count(const uint32_t (&keys)[KEYS], uint32_t upto,
                                                    uint32_t *slot)
{
    const uint32_t lane = threadIdx.x % 32;
    if (KEYS == 1) return __syncthreads_count(keys[0] <= upto);
    uint32_t mine = 0;
#pragma unroll
    for (int n = 0; n < KEYS; n++)
        mine += keys[n] <= upto;
    mine = warp_total(mine);
    if (lane == 0) slot[threadIdx.x / 32] = mine;
    __syncthreads();
    return warp_total(lane < THREADS / 32 ? slot[lane] : 0);
}

/* Thread t has the keys of t, t + THREADS, ...: the index of the wanted-th of those that equal
 * `last`, from 1. Rare: more values tie at the bound than may stay. */
template <int THREADS, int KEYS>
__device__ void attractor_find_tie(const uint32_t (&keys)[KEYS], uint32_t last, uint32_t wanted,
                                   struct attractor_board<THREADS> *board)
{
    uint32_t before = 0; /* ties of smaller indices */
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        uint32_t all, rank = before + 1;
        rank += attractor_rank<THREADS>(keys[n] == last, board->warps, &all);
        if (keys[n] == last && rank == wanted) board->end = n * THREADS + threadIdx.x;
        before += all;
    }
    __syncthreads();
}

/* The bound of the `kept` smallest keys of all threads, kept >= 1, found bit by bit; places without
 * a value have the key ~0. All threads call it, and pass a barrier before the next time. */
template <int THREADS, int KEYS>
__device__ struct attractor_bound attractor_select(const uint32_t (&keys)[KEYS], uint32_t kept,
                                                   struct attractor_board<THREADS> *board)
{
    uint32_t last = 0, below = 0;
    for (int bit = 31; bit >= 0; bit--) {
        const uint32_t upto = last | ((1u << bit) - 1);
        const uint32_t found = attractor_count<THREADS, KEYS>(keys, upto, board->totals[bit & 1]);
        if (found == kept) return {upto, ~0u};
        if (found > kept) continue;
        last |= 1u << bit;
        below = found;
    }
    attractor_find_tie<THREADS, KEYS>(keys, last, kept - below, board);
    return {last, board->end};
}

/* ---------------------------------------------------------------- an update */

/* j with its five bits turned round: the tree's order. */
__device__ __forceinline__ uint32_t turned(uint32_t j)
{
    return __brev(j) >> 27;
}

struct attractor_list {
    uint32_t *column; /* where it begins, in quads of numbers */
    float *number;
    uint32_t *first; /* of each partial, in the tree's order, and behind the last */
};

/* Lists the numbers of a state that are not 0, by their partial in the tree's order and rising. */
template <int THREADS>
__device__ void attractor_list_state(const float *state, uint32_t stride,
                                     const struct attractor_list &list, uint32_t *warps)
{
    const uint32_t each = stride / ATTRACTOR_LANES;
    uint32_t before = 0;
    for (uint32_t base = 0; base < stride; base += THREADS) {
        const uint32_t place = base + threadIdx.x, partial = place / each;
        const uint32_t at = place % each * ATTRACTOR_LANES + turned(partial);
        const float number = place < stride ? state[at] : 0.0f;
        uint32_t all, to = before;
        to += attractor_rank<THREADS>(number != 0.0f, warps, &all);
        if (place < stride && place % each == 0) list.first[partial] = to;
        if (number != 0.0f) {
            list.column[to] = at * (stride / 4);
            list.number[to] = number;
        }
        before += all;
    }
    if (threadIdx.x == 0) list.first[ATTRACTOR_LANES] = before;
    __syncthreads();
}

template <bool COMPENSATED> struct attractor_sum {
    float4 p, c;
};

template <bool COMPENSATED>
__device__ __forceinline__ void attractor_take(struct attractor_sum<COMPENSATED> *s, float4 w,
                                               float x)
{
    float4 y = {x, x, x, x};
    sum_take_4<false, COMPENSATED>(&s->p, &s->c, w, y);
}

__device__ __forceinline__ float4 attractor_add(float4 a, float4 b)
{
    return make_float4(canonical_add(a.x, b.x), canonical_add(a.y, b.y), canonical_add(a.z, b.z),
                       canonical_add(a.w, b.w));
}

template <bool COMPENSATED>
__device__ __forceinline__ struct attractor_sum<COMPENSATED> attractor_join(
    const struct attractor_sum<COMPENSATED> &left, const struct attractor_sum<COMPENSATED> &right) {
    struct attractor_sum<COMPENSATED> s;
    s.p = attractor_add(left.p, right.p);
    if (COMPENSATED) s.c = attractor_add(left.c, right.c);
    return s;
}

/* COUNT neighbouring partials of four rows of W, and the tree over them. */
template <int COUNT, bool COMPENSATED>
struct attractor_tree {
    static __device__ __forceinline__ struct attractor_sum<COMPENSATED> of(
        const float4 *rows, const struct attractor_list &list, uint32_t first) {
        struct attractor_sum<COMPENSATED> left =
            attractor_tree<COUNT / 2, COMPENSATED>::of(rows, list, first);
        struct attractor_sum<COMPENSATED> right =
            attractor_tree<COUNT / 2, COMPENSATED>::of(rows, list, first + COUNT / 2);
        return attractor_join<COMPENSATED>(left, right);
    }
};

template <bool COMPENSATED> struct attractor_tree<1, COMPENSATED> {
    static __device__ __forceinline__ struct attractor_sum<COMPENSATED> of(
        const float4 *rows, const struct attractor_list &list, uint32_t first) {
        struct attractor_sum<COMPENSATED> s = {
        };
        const uint32_t end = list.first[first + 1];
#pragma unroll 4
        for (uint32_t i = list.first[first]; i < end; i++)
            attractor_take<COMPENSATED>(&s, __ldg(&rows[list.column[i]]), list.number[i]);
        return s;
    }
};

__device__ __forceinline__ void attractor_store(float *to, float4 value)
{
    *(float4 *)to = value;
}

/* next = logistic(W state); parts: 4 THREADS numbers, twice if compensated. */
template <int THREADS, int PARTS, bool COMPENSATED>
__device__ void attractor_update(const struct attractor_work &a, const struct attractor_list &list,
                                 float *parts, float *next)
{
    enum { SHARERS = ATTRACTOR_LANES / PARTS };
    const uint32_t quads = a.stride / 4, quad = threadIdx.x % quads, share = threadIdx.x / quads;
    const bool works = share < SHARERS;
    struct attractor_sum<COMPENSATED> s = {
    };
    if (works)
        s = attractor_tree<PARTS, COMPENSATED>::of((const float4 *)a.columns + quad, list,
                                                   share * PARTS);
    float4 *sums = (float4 *)parts, *corrections = sums + THREADS;
#pragma unroll
    for (uint32_t step = 1; step < SHARERS; step *= 2) {
        __syncthreads();
        if (works && share % (2 * step) == step) {
            sums[threadIdx.x] = s.p;
            if (COMPENSATED) corrections[threadIdx.x] = s.c;
        }
        __syncthreads();
        if (!works || share % (2 * step) != 0) continue;
        struct attractor_sum<COMPENSATED> right;
        right.p = sums[threadIdx.x + step * quads];
        if (COMPENSATED) right.c = corrections[threadIdx.x + step * quads];
        s = attractor_join<COMPENSATED>(s, right);
    }
    if (share > 0) return;
    const float p[4] = {s.p.x, s.p.y, s.p.z, s.p.w}, c[4] = {s.c.x, s.c.y, s.c.z, s.c.w};
    for (uint32_t i = 0; i < 4; i++) {
        float sum = COMPENSATED ? canonical_corrected(p[i], c[i]) : p[i];
        uint32_t row = 4 * quad + i;
        next[row] = row < a.dimension ? canonical_logistic(sum) : 0.0f;
    }
}

/* ---------------------------------------------------------------- settle */

/* Shared memory in front of the parts of an update, in floats; all multiples of 4. */
struct attractor_room {
    uint32_t state, next, change, column, number, parts, floats;
};

__host__ __device__ __forceinline__ struct attractor_room attractor_room_of(uint32_t stride,
                                                                            uint32_t parts)
{
    return {0, stride, 2 * stride, 3 * stride, 4 * stride, 5 * stride, 5 * stride + parts};
}

/* From the sums to what the dentate gyrus gives. */
template <int THREADS, int KEYS>
__device__ void attractor_dentate(const struct attractor_work &a, const float *sums, uint32_t kept,
                                  struct attractor_board<THREADS> *board, float *state)
{
    const uint32_t count = ATTRACTOR_SPREAD * a.dimension;
    uint32_t keys[KEYS];
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        uint32_t i = n * THREADS + threadIdx.x;
        keys[n] = i < count ? attractor_key(__ldg(&sums[i])) : ~0u;
    }
    const struct attractor_bound bound = attractor_select<THREADS, KEYS>(keys, kept, board);
    for (uint32_t i = threadIdx.x; i < a.stride; i += THREADS) {
        float sum = 0.0f;
        for (uint32_t k = i * ATTRACTOR_SPREAD; k < (i + 1) * ATTRACTOR_SPREAD && k < count; k++) {
            float value = __ldg(&sums[k]);
            sum =
                canonical_add(sum, attractor_stays(bound, attractor_key(value), k) ? value : 0.0f);
        }
        state[i] = canonical_divide(sum, (float)ATTRACTOR_SPREAD);
    }
    __syncthreads();
}

/* Sets all but the greatest to 0, and state to what stays; change: by how much it moved. */
template <int THREADS, int KEYS>
__device__ void attractor_keep_best(const struct attractor_work &a, const float *next,
                                    struct attractor_board<THREADS> *board, float *state,
                                    float *change)
{
    uint32_t keys[KEYS];
    __syncthreads();
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        uint32_t i = n * THREADS + threadIdx.x;
        keys[n] = i < a.dimension ? attractor_key(next[i]) : ~0u;
    }
    const struct attractor_bound bound = attractor_select<THREADS, KEYS>(keys, a.work.kept, board);
#pragma unroll
    for (int n = 0; n < KEYS; n++) {
        uint32_t i = n * THREADS + threadIdx.x;
        if (i >= a.stride) continue;
        float value = i < a.dimension && attractor_stays(bound, keys[n], i) ? next[i] : 0.0f;
        change[i] = canonical_subtract(value, state[i]);
        state[i] = value;
    }
    __syncthreads();
}

template <int THREADS, int KEYS, int PARTS, bool COMPENSATED>
__global__ void __launch_bounds__(THREADS)
    attractor_settle_kernel(const struct attractor_work a, uint32_t dentate_kept)
{
    enum { OWN = KEYS / ATTRACTOR_SPREAD };
    extern __shared__ __align__(16) float memory[];
    __shared__ uint32_t first[ATTRACTOR_LANES + 1];
    __shared__ struct attractor_board<THREADS> board;
    const uint64_t q = blockIdx.x;
    const struct attractor_room at = attractor_room_of(a.stride, 0);
    float *state = memory + at.state, *next = memory + at.next, *change = memory + at.change;
    const struct attractor_list list = {(uint32_t *)(memory + at.column), memory + at.number,
                                        first};
    attractor_dentate<THREADS, KEYS>(a, a.work.sums + q * ATTRACTOR_SPREAD * a.dimension,
                                     dentate_kept, &board, state);
    uint32_t rounds = 0;
    bool done = false;
    while (rounds < ATTRACTOR_ROUNDS_MAX && !done) {
        attractor_list_state<THREADS>(state, a.stride, list, board.warps);
        attractor_update<THREADS, PARTS, COMPENSATED>(a, list, memory + at.parts, next);
        attractor_keep_best<THREADS, OWN>(a, next, &board, state, change);
        if (threadIdx.x < 32) {
            float norm = attractor_norm(a.dimension, a.stride, change);
            if (threadIdx.x == 0) board.still = norm < 0.01f;
        }
        __syncthreads();
        done = board.still;
        rounds++;
    }
    for (uint32_t i = threadIdx.x; i < a.stride; i += THREADS) {
        a.work.states[q * a.stride + i] = state[i];
        if (i < a.dimension) a.work.settled[q * a.dimension + i] = state[i];
    }
    if (threadIdx.x >= 32) return;
    const float norm = attractor_norm(a.dimension, a.stride, state);
    if (threadIdx.x > 0) return;
    a.work.norms[q] = norm;
    a.work.ends[q].rounds = rounds;
    a.work.ends[q].converged = done;
}

template <int THREADS, int KEYS, int PARTS, bool COMPENSATED>
static int settle_launch(const struct attractor_work &a, cudaStream_t stream)
{
    const uint32_t parts = PARTS == ATTRACTOR_LANES ? 0 : (COMPENSATED ? 8 : 4) * THREADS;
    const uint32_t bytes = attractor_room_of(a.stride, parts).floats * sizeof(float);
    attractor_settle_kernel<THREADS, KEYS, PARTS, COMPENSATED>
        <<<(unsigned)a.work.count, THREADS, bytes, stream>>>(a,
                                                             attractor_dentate_kept(a.dimension));
    return cudaGetLastError();
}

/* Plain sums: up to 256 quads of rows. Few cues get as many threads as there are, four of which
 * share their rows; many get few threads each, so that several cues share a multiprocessor and the
 * barriers of one hide behind the others'. Compensated sums: up to 512 quads. */
enum {
    FEW_THREADS = 1024,
    FEW_PARTS = 8,
    FEW_MAX = 160,
    MANY_THREADS = 256,
    COMPENSATED_THREADS = 512,
    PLAIN_VALUES = ATTRACTOR_SPREAD * VECTOR_COMPENSATED_ABOVE,
    VALUES = ATTRACTOR_SPREAD * ATTRACTOR_DIMENSION_MAX
};

static int settle_all(const struct attractor_work &a, cudaStream_t stream)
{
    if (canonical_is_compensated(a.dimension))
        return settle_launch<COMPENSATED_THREADS, VALUES / COMPENSATED_THREADS, ATTRACTOR_LANES,
                             true>(a, stream);
    if (a.work.count <= FEW_MAX)
        return settle_launch<FEW_THREADS, PLAIN_VALUES / FEW_THREADS, FEW_PARTS, false>(a, stream);
    return settle_launch<MANY_THREADS, PLAIN_VALUES / MANY_THREADS, ATTRACTOR_LANES, false>(a,
                                                                                            stream);
}

extern "C" int cuda_attractor(const struct cuda_rows *columns, const struct cuda_attractor *work,
                              struct CUstream_st *stream)
{
    if (work->count == 0) return cudaSuccess;
    struct attractor_work a = {};
    a.work = *work;
    a.columns = columns->rows;
    a.dimension = columns->dimension;
    a.stride = (uint32_t)vector_stride(columns->dimension);
    if (a.dimension > ATTRACTOR_DIMENSION_MAX || work->count > UINT32_MAX >> 1 ||
        work->width > VECTOR_COMPENSATED_ABOVE)
        return cudaErrorInvalidValue;
    if (work->step == CUDA_ATTRACTOR_MASK) {
        attractor_mask_kernel<<<(unsigned)work->count, MASK_THREADS, 0, stream>>>(
            a, attractor_known_least(a.dimension));
        return cudaGetLastError();
    }
    if (work->step == CUDA_ATTRACTOR_GATHER) {
        const uint32_t rows = ATTRACTOR_SPREAD * a.dimension;
        attractor_gather_kernel<<<blocks_for(rows, GATHER_ROWS), MASK_THREADS, 0, stream>>>(
            a, a.columns + (uint64_t)a.dimension * a.stride);
        return cudaGetLastError();
    }
    return settle_all(a, stream);
}
