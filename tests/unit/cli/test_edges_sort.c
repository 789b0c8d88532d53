/* Edges in order: what was between the same nodes stays in its order; who looks may stop it. */
#include "client/cli/files/edges_sort.h"

#include <criterion/criterion.h>
#include <stdlib.h>

struct looked {
    uint64_t times, stop_at, done, of;
};

static bool look(void *user, uint64_t done, uint64_t of)
{
    struct looked *l = user;
    cr_assert(done > l->done && done <= of && of > 0);
    cr_assert(!l->of || l->of == of);
    l->done = done;
    l->of = of;
    return ++l->times != l->stop_at;
}

/* Few nodes, so that many edges lie between the same; weights number them. */
static struct edge_list random_edges(uint64_t count, uint64_t nodes)
{
    struct edge_list e = {malloc((count + 1) * 8), malloc((count + 1) * 8), malloc((count + 1) * 4),
                          count};
    uint64_t state = count + 12345;
    for (uint64_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        e.sources[i] = (state >> 33) % nodes;
        e.targets[i] = UINT64_MAX - (state >> 13) % nodes;
        e.weights[i] = (float)i;
    }
    return e;
}

static void free_edges(struct edge_list *e)
{
    free(e->sources);
    free(e->targets);
    free(e->weights);
}

Test(edges_sort, is_stable)
{
    const uint64_t counts[] = {0, 1, 2, 3, 5, 8, 1000, 1 << 16, 300001};
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        struct edge_list e = random_edges(counts[n], 1 + counts[n] / 100);
        struct looked looked = {0};
        uint64_t sum = 0, count = counts[n];
        cr_assert_eq(edges_sort(&e, look, &looked), EDGES_SORTED);
        for (uint64_t i = 0; i < count; i++)
            sum += (uint64_t)e.weights[i];
        cr_assert_eq(sum, count ? count * (count - 1) / 2 : 0, "each is there");
        for (uint64_t i = 1; i < count; i++) {
            bool same = e.sources[i - 1] == e.sources[i];
            cr_assert(e.sources[i - 1] <= e.sources[i]);
            cr_assert(!same || e.targets[i - 1] <= e.targets[i]);
            if (same && e.targets[i - 1] == e.targets[i])
                cr_assert_lt(e.weights[i - 1], e.weights[i], "as they came");
        }
        cr_assert_eq(looked.times > 0, count >= 1 << 16);
        free_edges(&e);
    }
}

Test(edges_sort, stops_and_leaves_all_as_it_was)
{
    struct edge_list e = random_edges(200000, 1000), was = random_edges(200000, 1000);
    for (uint64_t at = 1;; at++) {
        struct looked looked = {.stop_at = at};
        if (edges_sort(&e, look, &looked) == EDGES_SORTED) {
            cr_assert(at > 10 && looked.times < at);
            break;
        }
        cr_assert_eq(looked.times, at);
        for (uint64_t i = 0; i < e.count; i++)
            cr_assert(e.sources[i] == was.sources[i] && e.weights[i] == was.weights[i]);
    }
    free_edges(&e);
    free_edges(&was);
}
