/* gpu_graph_house: gpu_house with a graph in it, and a process's end of its uploads.
 * Owner:  one test program each.
 * Thread: as gpu_house.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_UNIT_CARDS_GPU_GRAPH_HOUSE_H
#define ENGRAM_TESTS_UNIT_CARDS_GPU_GRAPH_HOUSE_H

#include "daemon/store/graph.h"
#include "tests/unit/cards/gpu_house.h"

enum { NODES = 5000, DEGREE = 3 };

static struct graph *graph;

static inline struct resident *it(void)
{
    return graph_resident(graph);
}

static inline void add_edges(uint64_t first, uint64_t count)
{
    uint64_t n = count * DEGREE, *sources = calloc(n, 8), *targets = calloc(n, 8);
    float *weights = calloc(n, 4);
    struct graph_counts counts;
    struct failure f;
    for (uint64_t i = 0; i < n; i++) {
        sources[i] = 10 + first + i / DEGREE;
        targets[i] = 10 + (first + i * 7919) % (first + count);
        weights[i] = (float)(1 + i % 9) / 10.0f;
    }
    cr_assert_eq(graph_add_edges(graph, sources, targets, weights, n, false, &counts, &f),
                 STATUS_OK);
    free(sources), free(targets), free(weights);
}

static inline void open_with_graph(struct house *h)
{
    open_house(h, "0");
    atomic_store(&processes[0]->share->usage.slab_bytes, 64 << 20);
    cr_assert_eq(store_graph_create(h->store, h->space, "g", NULL, &graph), STATUS_OK);
    add_edges(0, NODES);
}

static inline struct job *graph_job(struct house *h, enum operation operation)
{
    struct job *j = make_job(h, operation);
    j->collection = NULL;
    graph_resident(graph)->ops->lend(graph_resident(graph), j);
    return j;
}

/* ---- uploads ---- */

/* The bytes of a part that begin at `first`, which begins a page. */
static inline const char *part_data(enum graph_part part, uint64_t first)
{
    struct spread_graph v = graph_view(graph_now(graph));
    uint32_t node = (uint32_t)(first / sizeof(struct spread_list));
    if (part == GRAPH_OUT) return (const char *)spread_out_list(&v, node);
    if (part == GRAPH_IN) return (const char *)spread_in_list(&v, node);
    const void *const data[GRAPH_PARTS] = {NULL,  NULL,    v.out_edges, v.in_edges,
                                           v.ids, v.order, v.kinds,     v.factors};
    return (const char *)data[part] + first;
}

static inline void check_part(struct house *h, const struct order *o)
{
    const struct order_upload_part *p = &o->part;
    cr_assert_eq(o->kind, ORDER_UPLOAD_PART, "%u", o->kind);
    cr_assert_eq(o->space, h->space->number);
    for (int part = 0; part < GRAPH_PARTS; part++)
        cr_assert_eq(p->part_bytes[part],
                     graph_part_bytes(graph_now(graph), (enum graph_part)part));
    cr_assert_leq(p->first + p->count, p->part_bytes[p->part]);
    if (!p->count) return;
    const char *told = at(h, p->bytes);
    for (uint64_t done = 0, n; done < p->count; done += n) {
        n = p->count - done < GRAPH_PAGE_BYTES ? p->count - done : GRAPH_PAGE_BYTES;
        const char *is = part_data((enum graph_part)p->part, p->first + done);
        cr_assert_eq(memcmp(told + done, is, n), 0);
    }
}

struct told {
    uint64_t replica, bytes, orders, fresh, versions, jobs;
};

/* As the pipeline does, all pieces of it. */
static inline struct told upload_graph(struct house *h, enum order_result result)
{
    struct told t = {0};
    while (replica_wants_upload(h->gpu, it())) {
        struct job *j = graph_job(h, OPERATION_UPLOAD);
        submit(h, j);
        t.jobs++;
        for (struct order o; (o = next_order(processes[0])).kind;) {
            if (o.kind == ORDER_UPLOAD_PART) {
                check_part(h, &o);
                cr_assert(!t.replica || t.replica == o.replica);
                t.replica = o.replica;
                t.bytes += o.part.count;
                t.orders++;
                t.fresh += o.part.fresh;
                t.versions += o.version != 0;
                cr_assert(!o.version || o.version == resident_version(it()));
            }
            answer(processes[0], &o, result, result ? 0 : 12345);
        }
        expect_back(h, j);
        drop_job(j);
    }
    return t;
}

#endif
