/* device_spread: graphs, and spreads over them, on the device: what gpu_spread and gpu_spread_bench
 * share. Everything is static inline.
 * Owner:  the program; device_graph_free, device_spread_free.
 * Thread: one.
 * Errors: printed, exit 2. */
#ifndef ENGRAM_TESTS_GPU_DEVICE_SPREAD_H
#define ENGRAM_TESTS_GPU_DEVICE_SPREAD_H

#include "kernels/cuda/spread_cuda.h"
#include "tests/gpu/device.h"
#include "tests/support/spread_graphs.h"

/* Edges up to the end of the last list. */
static inline uint64_t device_edges_end(const struct spread_list *lists, uint32_t nodes)
{
    uint64_t end = 0;
    for (uint32_t n = 0; n < nodes; n++)
        if (lists[n].first + lists[n].room > end) end = lists[n].first + lists[n].room;
    return end;
}

static inline struct spread_graph device_graph_of(const struct spread_graph *g)
{
    struct spread_graph d = *g;
    const size_t n = g->nodes, out = device_edges_end(g->out, g->nodes);
    const size_t in = device_edges_end(g->in, g->nodes);
    d.out = device_copy_of(g->out, n * sizeof *g->out);
    d.in = device_copy_of(g->in, n * sizeof *g->in);
    d.out_edges = device_copy_of(g->out_edges, out * sizeof *g->out_edges);
    d.in_edges = device_copy_of(g->in_edges, in * sizeof *g->in_edges);
    d.ids = device_copy_of(g->ids, n * sizeof *g->ids);
    d.order = device_copy_of(g->order, n * sizeof *g->order);
    d.kinds = g->kinds ? device_copy_of(g->kinds, n) : NULL;
    d.factors = g->factors ? device_copy_of(g->factors, n * sizeof *g->factors) : NULL;
    return d;
}

static inline void device_graph_free(const struct spread_graph *d)
{
    cudaFree((void *)d->out), cudaFree((void *)d->in);
    cudaFree((void *)d->out_edges), cudaFree((void *)d->in_edges);
    cudaFree((void *)d->ids), cudaFree((void *)d->order);
    cudaFree((void *)d->kinds), cudaFree((void *)d->factors);
}

/* A call and all that it reads and writes, with room for all records that there can be. q: of the
 * host; its seeds are those of all sets. */
static inline struct cuda_spread device_spread_of(const struct spread_graph *device,
                                                  const struct spread_question *q,
                                                  const uint64_t *offsets, uint32_t sets,
                                                  uint64_t scratch_bytes)
{
    struct cuda_spread s = {.graph = *device, .question = *q, .set_count = sets};
    const uint64_t room = device->nodes < q->touched_max ? device->nodes : q->touched_max;
    s.question.decay = device_copy_of(q->decay, (q->hops + 1) * sizeof *q->decay);
    s.question.seeds = device_copy_of(q->seeds, offsets[sets] * sizeof *q->seeds);
    s.question.seed_count = offsets[sets];
    if (q->allowed)
        s.question.allowed =
            device_copy_of(q->allowed, ((size_t)device->nodes / 64 + 1) * sizeof *q->allowed);
    s.set_offsets = device_copy_of(offsets, (sets + 1) * sizeof *offsets);
    s.record_room = sets * room;
    s.out_records = device_allocate(s.record_room * sizeof *s.out_records);
    s.out_sets = device_allocate(sets * sizeof *s.out_sets);
    s.scratch = device_allocate(scratch_bytes);
    s.scratch_bytes = scratch_bytes;
    return s;
}

static inline void device_spread_free(const struct cuda_spread *s)
{
    cudaFree((void *)s->question.decay), cudaFree((void *)s->question.seeds);
    cudaFree((void *)s->question.allowed), cudaFree((void *)s->set_offsets);
    cudaFree(s->out_records), cudaFree(s->out_sets), cudaFree(s->scratch);
}

/* Runs all sets, at once or in as many calls as they can be cut into; returns how many. A call that
 * runs no set ends the program. */
static inline uint32_t device_spread_run(const struct cuda_spread *whole, bool passes)
{
    struct cuda_spread s = *whole;
    struct cuda_spread_set *sets = calloc(s.set_count, sizeof *sets);
    if (!sets) abort();
    s.pass_ns = passes;
    for (uint32_t calls = 1, before = s.set_count, left = 0;; calls++, before = left) {
        DEVICE(cuda_spread(&s, NULL));
        DEVICE(cudaDeviceSynchronize());
        device_read(sets, s.out_sets, s.set_count * sizeof *sets);
        left = 0;
        for (uint32_t i = 0; i < s.set_count; i++)
            left += sets[i].no_memory >= CUDA_SPREAD_LEFT;
        if (left >= before || (left && !passes)) {
            printf("FAIL: a call leaves %u of %u sets\n", left, before);
            exit(2);
        }
        s.again = true;
        if (left) continue;
        free(sets);
        return calls;
    }
}

/* Of all sets, on the host, by rising node number; free the records of each. Records beyond the
 * room, or two sets' in one place, end the program. */
static inline void device_spread_answers(const struct cuda_spread *s, struct spread_answer *answers,
                                         struct cuda_spread_set *sets)
{
    device_read(sets, s->out_sets, s->set_count * sizeof *sets);
    unsigned char *whose = calloc(s->record_room + 1, 1);
    if (!whose) abort();
    for (uint32_t i = 0; i < s->set_count; i++) {
        const uint64_t first = sets[i].first_record, count = sets[i].record_count;
        bool inside = first <= s->record_room && count <= s->record_room - first;
        for (uint64_t at = first; inside && at < first + count; at++)
            inside = !whose[at]++;
        if (!inside) {
            printf("FAIL: set %u has %llu records from %llu on, room for %llu\n", i,
                   (unsigned long long)count, (unsigned long long)first,
                   (unsigned long long)s->record_room);
            exit(2);
        }
        answers[i] = (struct spread_answer){.records = calloc(count + 1, sizeof *s->out_records),
                                            .count = count,
                                            .cycles = sets[i].cycles,
                                            .hops_done = sets[i].hops_done,
                                            .truncated = sets[i].truncated};
        if (!answers[i].records) abort();
        if (count)
            device_read(answers[i].records, s->out_records + first, count * sizeof *s->out_records);
        spread_answer_sort(&answers[i]);
    }
    free(whose);
}

#endif
