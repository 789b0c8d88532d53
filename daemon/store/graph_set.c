#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "daemon/store/graph_inside.h"

/* Sets kinds and factors of nodes. Their arrays are made once a node differs from the default. */
struct setting {
    struct graph_edition *g;
    const uint64_t *ids;
    const uint8_t *kinds;
    const float *factors;
    uint64_t n;
    struct heap_block block;
    uint32_t *numbers;
    uint32_t made;
    struct graph_piece *new_kinds, *new_factors;
};

/* ---- look ---- */

static enum status refuse_node(const struct setting *s, uint64_t i, const char *what,
                               struct failure *f)
{
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE,
                       "node %" PRIu64 " (id %" PRIu64 "): %s", i, s->ids[i], what);
}

static enum status check(const struct setting *s, struct failure *f)
{
    for (uint64_t i = 0; i < s->n; i++) {
        if (s->ids[i] == GRAPH_NOBODY) return refuse_node(s, i, "2^64 - 1 is no node's id", f);
        if (s->kinds && s->kinds[i] > SPREAD_CONCEPT)
            return refuse_node(s, i, "there is no such kind", f);
        if (s->factors && !(s->factors[i] >= 0 && s->factors[i] <= GRAPH_FACTOR_MAX))
            return refuse_node(s, i, "its factor is not in 0 to 65536", f);
    }
    return STATUS_OK;
}

static enum status refuse_twice(const struct setting *s, uint64_t i, struct failure *f)
{
    uint64_t before = 0;
    while (s->numbers[before] != s->numbers[i])
        before++;
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE,
                       "id %" PRIu64 " is given twice, in nodes %" PRIu64 " and %" PRIu64,
                       s->ids[i], before, i);
}

static enum status check_twice(struct setting *s, struct failure *f)
{
    uint64_t *marks = s->g->of->marks, i = 0;
    enum status st = STATUS_OK;
    for (; i < s->n && !st; i++) {
        uint64_t *word = &marks[s->numbers[i] / 64], bit = UINT64_C(1) << s->numbers[i] % 64;
        if (*word & bit) st = refuse_twice(s, i, f);
        *word |= bit;
    }
    while (i-- > 0)
        marks[s->numbers[i] / 64] = 0;
    return st;
}

static bool all_plain(const struct setting *s)
{
    for (uint64_t i = 0; s->kinds && i < s->n; i++)
        if (s->kinds[i] != SPREAD_PLAIN) return false;
    return true;
}

static bool all_one(const struct setting *s)
{
    for (uint64_t i = 0; s->factors && i < s->n; i++)
        if (s->factors[i] != 1) return false;
    return true;
}

static enum status take_array(struct setting *s, enum graph_part part, struct graph_piece **out,
                              struct failure *f)
{
    uint64_t bytes = (uint64_t)graph_numbers_with(s->g, s->made) * graph_element_bytes[part];
    enum status st = graph_piece_take(s->g, heap_take_fresh, bytes, out);
    return st ? graph_refuse(s->g, st, "kinds and factors of nodes", f) : STATUS_OK;
}

static enum status reserve(struct setting *s, struct failure *f)
{
    struct graph_edition *g = s->g;
    enum status st = graph_make_nodes(g, s->ids, s->n, s->numbers, &s->made, f);
    if (!st) st = graph_reserve_nodes(g, s->made, f);
    if (!st) st = check_twice(s, f);
    if (!st && !g->parts[GRAPH_KINDS] && !all_plain(s))
        st = take_array(s, GRAPH_KINDS, &s->new_kinds, f);
    if (!st && !g->parts[GRAPH_FACTORS] && !all_one(s))
        st = take_array(s, GRAPH_FACTORS, &s->new_factors, f);
    return st;
}

/* ---- set ---- */

/* What is of the nodes becomes the edition's own. */
static bool install(struct setting *s)
{
    struct graph_edition *g = s->g;
    if (s->new_kinds) {
        g->parts[GRAPH_KINDS] = s->new_kinds;
        graph_mark(g, GRAPH_KINDS, 0, g->numbers);
    }
    if (s->new_factors) {
        g->parts[GRAPH_FACTORS] = s->new_factors;
        float *factors = part_of(g, GRAPH_FACTORS);
        for (uint32_t i = 0; i < g->numbers; i++)
            factors[i] = 1;
        graph_mark(g, GRAPH_FACTORS, 0, g->numbers);
    }
    return (!s->kinds || graph_part_own(g, GRAPH_KINDS, g->numbers)) &&
           (!s->factors || graph_part_own(g, GRAPH_FACTORS, g->numbers));
}

static void set(struct setting *s)
{
    struct graph_edition *g = s->g;
    uint8_t *kinds = s->kinds ? part_of(g, GRAPH_KINDS) : NULL;
    float *factors = s->factors ? part_of(g, GRAPH_FACTORS) : NULL, most = 1;
    for (uint64_t i = 0; kinds && i < s->n; i++) {
        uint8_t *kind = &kinds[s->numbers[i]];
        g->kinds[*kind]--;
        *kind = s->kinds[i];
        g->kinds[*kind]++;
        graph_mark(g, GRAPH_KINDS, s->numbers[i], 1);
    }
    for (uint64_t i = 0; factors && i < s->n; i++) {
        factors[s->numbers[i]] = s->factors[i];
        most = s->factors[i] > most ? s->factors[i] : most;
        graph_mark(g, GRAPH_FACTORS, s->numbers[i], 1);
    }
    int exponent = graph_exponent(most);
    if (exponent > g->factor_exponent) g->factor_exponent = exponent;
}

static enum status change(struct graph_edition *g, void *write, struct failure *f)
{
    struct setting *s = write;
    s->g = g;
    s->made = 0;
    s->new_kinds = s->new_factors = NULL;
    enum status st = graph_scratch(g, s->n * sizeof *s->numbers, &s->block);
    if (st) return graph_refuse(g, st, "the nodes", f);
    s->numbers = s->block.data;
    st = reserve(s, f);
    if (st) {
        graph_piece_free(g->of->heap, s->new_kinds);
        graph_piece_free(g->of->heap, s->new_factors);
        graph_unmake_nodes(g, s->made);
    } else {
        graph_keep_nodes(g, s->made);
        if (install(s)) set(s);
        graph_complete(g);
    }
    heap_give(g->of->heap, &s->block);
    return st;
}

enum status graph_set_nodes(struct graph *g, const uint64_t *ids, const uint8_t *kinds,
                            const float *factors, uint64_t n, struct graph_counts *out,
                            struct failure *f)
{
    struct setting s = {.ids = ids, .kinds = kinds, .factors = factors, .n = n};
    enum status st = STATUS_OK;
    if (n > GRAPH_NODES_MAX)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_NODES,
                           "%" PRIu64 " nodes in one request", n);
    if (n) st = check(&s, f);
    if (n && !st) st = graph_write_run(g, n, change, &s, f);
    if (!st) *out = (struct graph_counts){.nodes_added = s.made};
    return st;
}
