#include "tests/support/graph_model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model ---- */

static struct model_node *find_node(struct graph_model *m, uint64_t id)
{
    for (uint64_t i = 0; i < m->node_count; i++)
        if (m->nodes[i].id == id) return &m->nodes[i];
    return NULL;
}

static struct model_node *have_node(struct graph_model *m, uint64_t id, struct graph_counts *counts)
{
    struct model_node *node = find_node(m, id);
    if (node) return node;
    cr_assert(m->node_count < MODEL_NODES_MAX);
    node = &m->nodes[m->node_count++];
    *node = (struct model_node){.id = id, .kind = SPREAD_PLAIN, .factor = 1};
    counts->nodes_added++;
    return node;
}

static uint64_t drop_edges(struct graph_model *m, uint64_t source, uint64_t target)
{
    uint64_t kept = 0, before = m->edge_count;
    for (uint64_t i = 0; i < before; i++)
        if (m->edges[i].source != source || m->edges[i].target != target)
            m->edges[kept++] = m->edges[i];
    m->edge_count = kept;
    return before - kept;
}

struct graph_counts model_add(struct graph_model *m, const uint64_t *sources,
                              const uint64_t *targets, const float *weights, uint64_t n,
                              bool replace)
{
    struct graph_counts counts = {.edges_added = n};
    for (uint64_t i = 0; replace && i < n; i++)
        counts.edges_removed += drop_edges(m, sources[i], targets[i]);
    for (uint64_t i = 0; i < n; i++) {
        have_node(m, sources[i], &counts);
        have_node(m, targets[i], &counts);
        cr_assert(m->edge_count < MODEL_EDGES_MAX);
        m->edges[m->edge_count++] = (struct model_edge){sources[i], targets[i], weights[i]};
    }
    m->version += n > 0;
    return counts;
}

static struct model_edge *find_edge(struct graph_model *m, uint64_t source, uint64_t target,
                                    uint64_t *count)
{
    struct model_edge *found = NULL;
    *count = 0;
    for (uint64_t i = 0; i < m->edge_count; i++)
        if (m->edges[i].source == source && m->edges[i].target == target) {
            found = &m->edges[i];
            ++*count;
        }
    return found;
}

enum status model_add_weights(struct graph_model *m, const struct graph_deltas *d, float *weights,
                              struct graph_counts *out, uint64_t *bad)
{
    uint64_t count;
    for (*bad = 0; *bad < d->n; ++*bad) {
        find_edge(m, d->sources[*bad], d->targets[*bad], &count);
        if (count > 1) return STATUS_FAILED_PRECONDITION;
        if (!count && !d->create) return STATUS_NOT_FOUND;
    }
    *out = (struct graph_counts){0};
    for (uint64_t i = 0; i < d->n; i++) {
        struct model_edge *edge = find_edge(m, d->sources[i], d->targets[i], &count);
        if (!edge) {
            const float nothing = 0;
            struct graph_counts did =
                model_add(m, &d->sources[i], &d->targets[i], &nothing, 1, false);
            out->edges_added++;
            out->nodes_added += did.nodes_added;
            m->version--;
            edge = find_edge(m, d->sources[i], d->targets[i], &count);
        }
        float sum = edge->weight + d->deltas[i];
        edge->weight = sum < d->low ? d->low : sum > d->high ? d->high : sum;
        weights[i] = edge->weight;
    }
    m->version += d->n > 0;
    return STATUS_OK;
}

enum status model_scale(struct graph_model *m, float factor)
{
    for (uint64_t i = 0; i < m->edge_count; i++)
        if (!isfinite(m->edges[i].weight * factor)) return STATUS_INVALID_ARGUMENT;
    for (uint64_t i = 0; i < m->edge_count; i++)
        m->edges[i].weight *= factor;
    m->version += m->edge_count > 0;
    return STATUS_OK;
}

struct graph_counts model_prune(struct graph_model *m, float below)
{
    uint64_t kept = 0, before = m->edge_count;
    for (uint64_t i = 0; i < before; i++)
        if (m->edges[i].weight >= below) m->edges[kept++] = m->edges[i];
    m->edge_count = kept;
    m->version += kept < before;
    return (struct graph_counts){.edges_removed = before - kept};
}

struct graph_counts model_remove(struct graph_model *m, const uint64_t *sources,
                                 const uint64_t *targets, uint64_t n)
{
    struct graph_counts counts = {0};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t dropped = drop_edges(m, sources[i], targets[i]);
        counts.edges_removed += dropped;
        counts.missing += dropped == 0;
    }
    m->version += counts.edges_removed > 0;
    return counts;
}

struct graph_counts model_set(struct graph_model *m, const uint64_t *ids, const uint8_t *kinds,
                              const float *factors, uint64_t n)
{
    struct graph_counts counts = {0};
    for (uint64_t i = 0; i < n; i++) {
        struct model_node *node = have_node(m, ids[i], &counts);
        if (kinds) node->kind = kinds[i];
        if (factors) node->factor = factors[i];
    }
    m->version += n > 0;
    return counts;
}

struct graph_counts model_remove_nodes(struct graph_model *m, const uint64_t *ids, uint64_t n)
{
    struct graph_counts counts = {0};
    for (uint64_t i = 0; i < n; i++) {
        struct model_node *node = find_node(m, ids[i]);
        if (!node) {
            counts.missing++;
            continue;
        }
        *node = m->nodes[--m->node_count];
        counts.nodes_removed++;
        uint64_t kept = 0, before = m->edge_count;
        for (uint64_t e = 0; e < before; e++)
            if (m->edges[e].source != ids[i] && m->edges[e].target != ids[i])
                m->edges[kept++] = m->edges[e];
        m->edge_count = kept;
        counts.edges_removed += before - kept;
    }
    m->version += counts.nodes_removed > 0;
    return counts;
}

uint64_t model_count_doubled(const struct graph_model *m, const uint64_t *sources,
                             const uint64_t *targets, uint64_t n)
{
    uint64_t doubled = 0;
    for (uint64_t i = 0; i < n; i++) {
        bool found = false;
        for (uint64_t e = 0; e < m->edge_count && !found; e++)
            found = m->edges[e].source == sources[i] && m->edges[e].target == targets[i];
        for (uint64_t e = 0; e < i && !found; e++)
            found = sources[e] == sources[i] && targets[e] == targets[i];
        doubled += found;
    }
    return doubled;
}

bool counts_equal(struct graph_counts a, struct graph_counts b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* ---- against the model ---- */

static int compare_edges(const void *a, const void *b)
{
    const struct model_edge *x = a, *y = b;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    if (x->target != y->target) return x->target < y->target ? -1 : 1;
    uint32_t p, q;
    memcpy(&p, &x->weight, 4);
    memcpy(&q, &y->weight, 4);
    return p < q ? -1 : p > q;
}

/* Lists begin on even places, inside the array, and none reaches into another. */
static const struct spread_list *list_seen(const struct spread_graph *v, bool in, uint32_t node)
{
    return in ? spread_in_list(v, node) : spread_out_list(v, node);
}

static void check_places(const struct spread_graph *v, bool in, uint64_t places)
{
    char *taken = calloc(places + 1, 1);
    for (uint32_t i = 0; i < v->nodes; i++) {
        struct spread_list list = *list_seen(v, in, i);
        cr_assert(list.first % 2 == 0 && list.count <= list.room);
        cr_assert(list.room == 0 || list.first + list.room <= places);
        for (uint32_t e = 0; e < list.room; e++)
            cr_assert(!taken[list.first + e]++);
    }
    free(taken);
}

static void check_edges(const struct graph_model *m, const struct model_edge *sorted,
                        const struct spread_graph *v, bool in)
{
    const struct spread_edge *edges = in ? v->in_edges : v->out_edges;
    struct model_edge *found = malloc((m->edge_count + 1) * sizeof *found);
    uint64_t count = 0;
    for (uint32_t i = 0; i < v->nodes; i++) {
        const struct spread_list *list = list_seen(v, in, i);
        for (uint32_t e = 0; e < list->count; e++) {
            const struct spread_edge *edge = &edges[list->first + e];
            cr_assert(edge->node < v->nodes);
            uint64_t here = v->ids[i], there = v->ids[edge->node];
            cr_assert(count < m->edge_count);
            found[count++] =
                (struct model_edge){in ? there : here, in ? here : there, edge->weight};
        }
    }
    cr_assert_eq(count, m->edge_count);
    qsort(found, count, sizeof *found, compare_edges);
    for (uint64_t i = 0; i < count; i++)
        cr_assert_eq(compare_edges(&found[i], &sorted[i]), 0);
    free(found);
}

static void check_nodes(const struct graph_model *m, const struct graph_edition *g,
                        const struct spread_graph *v)
{
    uint64_t nobodies = 0, *ids = malloc((m->node_count + 1) * sizeof *ids);
    uint32_t *numbers = malloc((m->node_count + 1) * sizeof *numbers);
    for (uint32_t i = 0; i < v->nodes; i++) {
        if (v->ids[i] != UINT64_MAX) {
            cr_assert_eq(graph_find(g, v->ids[i]), i);
            continue;
        }
        nobodies++;
        cr_assert(spread_in_list(v, i)->count == 0 && spread_out_list(v, i)->count == 0);
    }
    cr_assert_eq(v->nodes - nobodies, m->node_count);
    cr_assert_eq(graph_find(g, UINT64_MAX), SPREAD_NO_NODE);
    uint64_t kinds[3] = {0};
    for (uint64_t i = 0; i < m->node_count; i++) {
        uint32_t number = graph_find(g, m->nodes[i].id);
        cr_assert(number < v->nodes);
        cr_assert_eq(v->kinds ? v->kinds[number] : SPREAD_PLAIN, m->nodes[i].kind);
        cr_assert_eq(v->factors ? v->factors[number] : 1, m->nodes[i].factor);
        kinds[m->nodes[i].kind]++;
        ids[i] = m->nodes[i].id;
    }
    cr_assert_eq(graph_find_many(g, ids, m->node_count, numbers), m->node_count);
    for (uint64_t i = 0; i < m->node_count; i++)
        cr_assert_eq(v->ids[numbers[i]], ids[i]);
    uint64_t seen[3] = {0};
    for (uint32_t i = 0; i < v->nodes; i++)
        if (v->ids[i] != UINT64_MAX) seen[v->kinds ? v->kinds[i] : SPREAD_PLAIN]++;
    for (int kind = 0; kind < 3; kind++)
        cr_assert_eq(seen[kind], kinds[kind]);
    free(ids);
    free(numbers);
}

void model_check_order(const struct spread_graph *v)
{
    char *seen = calloc(v->nodes + 1, 1);
    for (uint32_t i = 0; i < v->nodes; i++) {
        cr_assert_eq(v->order[i] / SPREAD_WINDOW, i / SPREAD_WINDOW);
        cr_assert(v->order[i] < v->nodes && !seen[v->order[i]]++);
    }
    free(seen);
}

/* The grid is wide enough for what is there. */
static void check_grid(const struct graph_model *m, const struct spread_graph *v, uint64_t in_most)
{
    float weight = 0, factor = 1;
    for (uint64_t i = 0; i < m->edge_count; i++)
        weight = fmaxf(weight, fabsf(m->edges[i].weight));
    for (uint64_t i = 0; i < m->node_count; i++)
        factor = fmaxf(factor, m->nodes[i].factor);
    int weight_exponent = 0, factor_exponent = 0;
    while (weight && ldexp(1, weight_exponent - 1) >= weight)
        weight_exponent--;
    while (ldexp(1, weight_exponent) < weight)
        weight_exponent++;
    while (ldexp(1, factor_exponent) < factor)
        factor_exponent++;
    if (weight == 0) return;
    struct spread_grid least = spread_grid_of(weight_exponent, factor_exponent, in_most);
    cr_assert(v->grid.high >= least.high && v->grid.low >= least.low);
}

static uint64_t nodes_of_kind(const struct graph_model *m, int kind)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < m->node_count; i++)
        count += m->nodes[i].kind == kind;
    return count;
}

void model_check(const struct graph_model *m, const struct graph *g)
{
    struct graph_info info = graph_info(g);
    cr_assert_eq(info.version, m->version + 1); /* the first of its store was its making */
    cr_assert(info.nodes == m->node_count && info.edges == m->edge_count);
    for (int kind = 0; kind < 3; kind++)
        cr_assert_eq(info.kinds[kind], nodes_of_kind(m, kind));
    model_check_edition(m, graph_now(g));
}

void model_check_edition(const struct graph_model *m, const struct graph_edition *g)
{
    struct spread_graph v = graph_view(g);
    cr_assert(graph_nodes(g) == m->node_count && graph_edges(g) == m->edge_count);
    cr_assert_eq(v.edges, m->edge_count);
    struct model_edge *sorted = malloc((m->edge_count + 1) * sizeof *sorted);
    memcpy(sorted, m->edges, m->edge_count * sizeof *sorted);
    qsort(sorted, m->edge_count, sizeof *sorted, compare_edges);
    check_edges(m, sorted, &v, false);
    check_edges(m, sorted, &v, true);
    free(sorted);
    check_places(&v, false, graph_part_bytes(g, GRAPH_OUT_EDGES) / sizeof *v.out_edges);
    check_places(&v, true, graph_part_bytes(g, GRAPH_IN_EDGES) / sizeof *v.in_edges);
    uint64_t out_most = 0, in_most = 0;
    for (uint32_t i = 0; i < v.nodes; i++) {
        out_most =
            spread_out_list(&v, i)->count > out_most ? spread_out_list(&v, i)->count : out_most;
        in_most = spread_in_list(&v, i)->count > in_most ? spread_in_list(&v, i)->count : in_most;
    }
    cr_assert(graph_out_count_max(g) >= out_most);
    check_nodes(m, g, &v);
    model_check_order(&v);
    check_grid(m, &v, in_most);
}

/* ---- the shadow ---- */

/* The bytes of a part that begin at `first`; of lists, those of one node. */
static const char *part_data(const struct graph *g, enum graph_part part, uint64_t first)
{
    struct spread_graph v = graph_view(graph_now(g));
    uint32_t node = (uint32_t)(first / sizeof(struct spread_list));
    if (part == GRAPH_OUT || part == GRAPH_IN)
        return (const char *)list_seen(&v, part == GRAPH_IN, node);
    const void *data[GRAPH_PARTS] = {NULL,  NULL,    v.out_edges, v.in_edges,
                                     v.ids, v.order, v.kinds,     v.factors};
    return (const char *)data[part] + first;
}

/* Also where no list is: a GPU process refuses what leads nowhere. */
static void expect_edges_to_nodes(const struct graph_shadow *s)
{
    uint64_t nodes = s->bytes[GRAPH_OUT] / sizeof(struct spread_list);
    for (int part = GRAPH_OUT_EDGES; part <= GRAPH_IN_EDGES; part++) {
        const struct spread_edge *edges = (const struct spread_edge *)s->parts[part];
        for (uint64_t i = 0; i < s->bytes[part] / sizeof *edges; i++)
            cr_assert(edges[i].node < nodes, "place %zu of %zu nodes leads to %u", (size_t)i,
                      (size_t)nodes, edges[i].node);
    }
}

uint64_t shadow_follow(struct graph_shadow *s, struct graph *g, uint64_t bytes_max)
{
    struct resident *r = graph_resident(g);
    cr_assert(resident_track(r));
    uint64_t dirty = resident_dirty_bytes(r), told = 0, total = 0;
    uint64_t runs = graph_dirty_runs(g), given = 0;
    for (int part = 0; part < GRAPH_PARTS; part++) {
        uint64_t bytes = graph_part_bytes(graph_now(g), part);
        char *larger = realloc(s->parts[part], bytes + 1);
        /* What comes anew is wrong until told. */
        if (bytes > s->bytes[part]) memset(larger + s->bytes[part], 0xa5, bytes - s->bytes[part]);
        s->parts[part] = larger;
        s->bytes[part] = bytes;
        total += bytes;
    }
    cr_assert_eq(resident_bytes(r), total);
    for (struct graph_run run; graph_next_dirty(g, bytes_max, &run);) {
        cr_assert(run.bytes && run.first + run.bytes <= s->bytes[run.part]);
        cr_assert(!bytes_max || run.bytes <= bytes_max);
        cr_assert_eq(run.data, part_data(g, run.part, run.first));
        memcpy(s->parts[run.part] + run.first, run.data, run.bytes);
        graph_clean(g, &run);
        told += run.bytes;
        given++;
    }
    cr_assert(bytes_max ? given >= runs : given == runs);
    cr_assert_eq(graph_dirty_runs(g), 0);
    cr_assert_eq(told, dirty);
    cr_assert_eq(resident_dirty_bytes(r), 0);
    for (int part = 0; part < GRAPH_PARTS; part++)
        for (uint64_t at = 0; at < s->bytes[part]; at += GRAPH_PAGE_BYTES) {
            uint64_t n = s->bytes[part] - at;
            if (n > GRAPH_PAGE_BYTES) n = GRAPH_PAGE_BYTES;
            cr_assert_eq(memcmp(s->parts[part] + at, part_data(g, part, at), n), 0);
        }
    expect_edges_to_nodes(s);
    return told;
}

void shadow_finish(struct graph_shadow *s)
{
    for (int part = 0; part < GRAPH_PARTS; part++)
        free(s->parts[part]);
}
