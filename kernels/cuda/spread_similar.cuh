/* spread_similar: similarity in the place of weights (kernels/spread.h), for mode engram's kernel.
 * Which row is a node's is looked up for all nodes before the kernel runs (spread_similar.cu);
 * whether all that a node's edges lead to have rows, for the nodes that send in the level, by a
 * warp each; and similarities are sums by whole warps. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_SIMILAR_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_SIMILAR_CUH

#include "kernels/cuda/spread_job.cuh"
#include "kernels/cuda/sums.cuh"

/* Runs with embeddings are a kernel of their own, so that they cost others nothing. */
struct similar_dense_places : spread_dense_places {
    static const bool SIMILAR = true;
};
struct similar_hash_places : spread_hash_places {
    static const bool SIMILAR = true;
};

__device__ __forceinline__ bool similar_has_row(const struct spread_similar *s, uint32_t node)
{
    return __ldg(&s->node_rows[node]) != SPREAD_NO_NODE;
}

/* Notes whether similarity takes the place of a node's weights. All lanes of the warp call it. */
__device__ __forceinline__ void similar_note(const struct spread_similar *s,
                                             const struct spread_graph *g, uint32_t node)
{
    const struct spread_list list = spread_list_of(g->out, node);
    bool all = list.count >= SPREAD_SIMILAR_EDGES && similar_has_row(s, node);
    for (uint32_t k0 = 0; k0 < list.count && all; k0 += 32) {
        const uint32_t k = k0 + spread_lane();
        const bool has = k >= list.count ||
                         similar_has_row(s, spread_edge_at(g->out_edges, list.first + k).node);
        all = __all_sync(SPREAD_ALL, has);
    }
    /* sets that run at once may write the same */
    if (spread_lane() == 0) s->replaced[node] = all;
}

/* The same for each node that sends in r's level. Ends with a sync. */
template <class Group, class Run> __device__ void similar_note_all(Run *r)
{
    for (uint32_t i = spread_warp<Group>(); i < r->active; i += spread_warps<Group>())
        similar_note(&r->base->similar, &r->base->graph, r->places.node(r->slot->gains[i].place));
    Group::sync();
}

/* By eight neighbouring lanes; all lanes of the warp call it. */
__device__ __forceinline__ float similar_cosine(const struct spread_similar *s, uint32_t source,
                                                uint32_t target)
{
    const uint32_t stride = (uint32_t)vector_stride(s->dimension);
    const uint32_t a = __ldg(&s->node_rows[source]), b = __ldg(&s->node_rows[target]);
    const float *x = s->rows + (uint64_t)a * stride, *y = s->rows + (uint64_t)b * stride;
    const float dot = canonical_is_compensated(s->dimension)
                          ? sum_rows<8, false, true>(x, y, stride)
                          : sum_rows<8, false, false>(x, y, stride);
    return canonical_cosine(dot, __ldg(&s->norms[a]), __ldg(&s->norms[b]));
}

/* Returns the cosine of the lane's source and target, if the lane wants it: four lanes' at once,
 * each by eight of them. All lanes of the warp call it. */
__device__ __forceinline__ float similar_cosines(const struct spread_similar *s, uint32_t source,
                                                 uint32_t target, bool wants)
{
    const unsigned group = spread_lane() / 8, wanting = __ballot_sync(SPREAD_ALL, wants);
    const int many = __popc(wanting);
    float own = 0.0f;
    for (int done = 0; done < many; done += 4) {
        /* a group beyond the last does what that one does */
        const int number = done + (int)group < many ? done + (int)group : many - 1;
        const int lane = (int)__fns(wanting, 0, number + 1);
        const float cosine = similar_cosine(s, __shfl_sync(SPREAD_ALL, source, lane),
                                            __shfl_sync(SPREAD_ALL, target, lane));
        const int mine = __popc(wanting & ((1u << spread_lane()) - 1)) - done;
        const float given = __shfl_sync(SPREAD_ALL, cosine, mine >= 0 && mine < 4 ? mine * 8 : 0);
        if (wants && mine >= 0 && mine < 4) own = given;
    }
    return own;
}

#endif
