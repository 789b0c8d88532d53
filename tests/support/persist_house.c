#include "tests/support/persist_house.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/store/restore.h"

void persist_house_folder(char path[64])
{
    const char *where = getenv("TMPDIR"); /* /dev/shm: long campaigns wait for no disk */
    bool fits = where && strlen(where) < 32;
    snprintf(path, 64, "%s/engram-persist-XXXXXX", fits ? where : "/tmp");
    cr_assert_not_null(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *is, int kind, struct FTW *at)
{
    return remove(path);
}

void persist_house_remove(const char *path)
{
    cr_assert_eq(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void persist_house_open(struct persist_house *h, const char *path)
{
    memset(h, 0, sizeof *h);
    config_defaults(&h->config);
    strcpy(h->config.persist_dir, path);
    cr_assert_eq(heap_create(UINT64_C(256) << 20, &h->heap), STATUS_OK);
    cr_assert_eq(store_create(h->heap, vectors_variant(0), &h->store), STATUS_OK);
}

void persist_house_close(struct persist_house *h)
{
    store_destroy(h->store);
    cr_assert_eq(heap_usage(h->heap).blocks, 0);
    heap_destroy(h->heap);
}

/* ---------------------------------------------------------------- contents */

static uint32_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static float draw_float(uint64_t *state)
{
    return (float)(draw(state) % 20001) / 10000.0f - 1.0f;
}

static void add_rows(struct persist_house *h, struct space *space, const char *name, uint32_t d,
                     uint64_t n, uint64_t seed)
{
    struct collection *c = NULL;
    struct upsert_counts counts;
    uint64_t deleted, missing, *ids = malloc(n * sizeof *ids);
    float *rows = aligned_alloc(64, (n * d * sizeof *rows + 63) / 64 * 64);
    cr_assert_eq(store_collection_create(h->store, space, name, d, METRIC_DOT, NULL, &c),
                 STATUS_OK);
    for (uint64_t i = 0; i < n; i++)
        ids[i] = i * 7 + 1;
    for (uint64_t i = 0; i < n * d; i++)
        rows[i] = draw_float(&seed);
    cr_assert_eq(collection_upsert(c, ids, rows, n, &counts, NULL), STATUS_OK);
    collection_delete(c, ids + 1, n / 10, &deleted, &missing);
    free(ids);
    free(rows);
}

static void add_graph(struct persist_house *h, struct space *space, const char *name,
                      uint64_t nodes, uint64_t edges, uint64_t seed)
{
    struct graph *g = NULL;
    struct graph_counts counts;
    uint64_t *ids = malloc((nodes + 2 * edges) * sizeof *ids), *from = ids + nodes,
             *to = from + edges;
    uint8_t *kinds = malloc(nodes);
    float *factors = malloc((nodes + edges) * sizeof *factors), *weights = factors + nodes;
    cr_assert_eq(store_graph_create(h->store, space, name, NULL, &g), STATUS_OK);
    for (uint64_t i = 0; i < nodes; i++) {
        ids[i] = 1000 + i * 3;
        kinds[i] = (uint8_t)(draw(&seed) % 3);
        factors[i] = (float)(draw(&seed) % 5);
    }
    for (uint64_t i = 0; i < edges; i++) {
        from[i] = ids[draw(&seed) % nodes];
        to[i] = ids[draw(&seed) % nodes];
        weights[i] = draw_float(&seed);
    }
    cr_assert_eq(graph_set_nodes(g, ids, kinds, factors, nodes, &counts, NULL), STATUS_OK);
    cr_assert_eq(graph_add_edges(g, from, to, weights, edges, false, &counts, NULL), STATUS_OK);
    cr_assert_eq(graph_remove_nodes(g, ids, nodes / 8, &counts, NULL), STATUS_OK);
    /* Bounds that are larger than the contents need: an in-degree, a factor. */
    factors[0] = 0.5f;
    cr_assert_eq(graph_set_nodes(g, ids + nodes - 1, NULL, factors, 1, &counts, NULL), STATUS_OK);
    free(ids);
    free(kinds);
    free(factors);
}

static bool go_on(void *owner)
{
    return true;
}

static void add_attractor(struct persist_house *h, struct space *space, const char *name,
                          uint32_t d, uint64_t patterns)
{
    struct attractor *a = NULL;
    struct attractor_shape shape = {d, 0.25f, 0.01f};
    struct attractor_wish wish = {.goes_on = go_on};
    uint64_t seed = 5;
    float *rows = malloc((patterns + 1) * d * sizeof *rows);
    cr_assert_eq(store_attractor_create(h->store, space, name, &shape, NULL, &a), STATUS_OK);
    for (uint64_t i = 0; i < patterns * d; i++)
        rows[i] = draw_float(&seed);
    if (patterns) {
        struct resident *r = attractor_resident(a);
        struct attractor_patterns what = {.rows = rows, .n = patterns};
        attractor_make_all(a, attractor_choose(vectors_variant(0)->name));
        attractor_open(a);
        attractor_expect_write(a);
        cr_assert_eq(attractor_learn(a, vectors_variant(0), &what, &wish, NULL), STATUS_OK);
        attractor_publish(a);
        r->ops->free_gone(h->heap, r->ops->take_gone(r));
    }
    free(rows);
}

void persist_house_fill(struct persist_house *h, bool large)
{
    struct space *one = NULL, *two = NULL;
    cr_assert_eq(store_space(h->store, "one", &one), STATUS_OK);
    cr_assert_eq(store_space(h->store, "two", &two), STATUS_OK);
    add_rows(h, one, "three", 3, 12, 1);
    add_rows(h, one, "padded.not", 32, large ? 150000 : 2, 2);
    add_rows(h, two, "three", 3, 1, 3);
    add_graph(h, one, "web", large ? 5000 : 9, large ? 60000 : 14, 4);
    add_graph(h, two, "lone", 2, 0, 5);
    add_attractor(h, two, "taught", 4, 3);
    add_attractor(h, two, "fresh", 2, 0);
    store_space_release(h->store, one);
    store_space_release(h->store, two);
}

void persist_house_add_rows(struct persist_house *h, const char *space, const char *name,
                            uint32_t dimension, uint64_t rows)
{
    struct space *s = NULL;
    cr_assert_eq(store_space(h->store, space, &s), STATUS_OK);
    add_rows(h, s, name, dimension, rows, 6);
    store_space_release(h->store, s);
}

/* ---------------------------------------------------------------- comparing */

static struct space *space_named(const struct persist_house *h, const char *name)
{
    struct space *s = NULL;
    while ((s = store_space_next(h->store, s)))
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

static void compare_rows(struct persist_house *h, struct space *s, struct collection *a)
{
    struct collection *b = NULL;
    struct collection_info of = collection_info(a);
    cr_assert_eq(store_collection_find(h->store, s, of.name, NULL, &b), STATUS_OK);
    const struct edition *x = collection_now(a), *y = collection_now(b);
    cr_assert_eq(of.dimension, collection_info(b).dimension);
    cr_assert_eq(of.metric, collection_info(b).metric);
    cr_assert_eq(of.version, collection_info(b).version);
    cr_assert_eq(collection_version(x), collection_version(y));
    cr_assert_eq(collection_rows(x), collection_rows(y));
    for (uint32_t i = 0; i < collection_rows(x); i++) {
        cr_assert_eq(collection_id(x, i), collection_id(y, i));
        cr_assert_eq(collection_find_row(y, collection_id(x, i)), i);
        cr_assert_eq(memcmp(collection_row(x, i), collection_row(y, i), of.dimension * 4), 0);
        cr_assert(collection_norm(x, i) == collection_norm(y, i));
    }
}

static void compare_graphs(struct persist_house *h, struct space *s, struct graph *a)
{
    struct graph *b = NULL;
    struct graph_info of = graph_info(a);
    cr_assert_eq(store_graph_find(h->store, s, of.name, NULL, &b), STATUS_OK);
    cr_assert_eq(graph_info(b).version, of.version);
    cr_assert_eq(graph_info(b).nodes, of.nodes);
    cr_assert_eq(graph_info(b).edges, of.edges);
    cr_assert_eq(graph_info(b).in_count_max, of.in_count_max);
    cr_assert_eq(graph_info(b).out_count_max, of.out_count_max);
    struct spread_graph x = graph_view(graph_now(a)), y = graph_view(graph_now(b));
    if (of.edges) cr_assert(x.grid.high == y.grid.high && x.grid.low == y.grid.low);
    for (uint32_t i = 0; i < x.nodes; i++) {
        uint64_t id = x.ids[i];
        if (id == UINT64_MAX || graph_find(graph_now(a), id) != i) continue;
        uint32_t k = graph_find(graph_now(b), id);
        cr_assert_neq(k, SPREAD_NO_NODE);
        cr_assert_eq(x.kinds ? x.kinds[i] : 0, y.kinds ? y.kinds[k] : 0);
        cr_assert((x.factors ? x.factors[i] : 1) == (y.factors ? y.factors[k] : 1));
        const struct spread_list *p = spread_out_list(&x, i), *q = spread_out_list(&y, k);
        cr_assert_eq(p->count, q->count);
        for (uint32_t e = 0; e < p->count; e++) {
            struct spread_edge u = x.out_edges[p->first + e], v = y.out_edges[q->first + e];
            cr_assert_eq(x.ids[u.node], y.ids[v.node]);
            cr_assert(u.weight == v.weight);
        }
    }
}

static void compare_attractors(struct persist_house *h, struct space *s, struct attractor *a)
{
    struct attractor *b = NULL;
    struct attractor_info of = attractor_info(a);
    cr_assert_eq(store_attractor_find(h->store, s, of.name, NULL, &b), STATUS_OK);
    struct attractor_info is = attractor_info(b);
    cr_assert(is.dimension == of.dimension && is.kept == of.kept && is.version == of.version);
    cr_assert(is.sparsity == of.sparsity && is.rate == of.rate && is.patterns == of.patterns);
    size_t d = of.dimension, stride = vector_stride(d);
    const struct attractor_edition *x = attractor_now(a), *y = attractor_now(b);
    cr_assert_eq(attractor_version(x), attractor_version(y));
    cr_assert_eq(memcmp(attractor_columns(x), attractor_columns(y), d * stride * 4), 0);
    cr_assert_eq(memcmp(attractor_dentate_rows(x), attractor_dentate_rows(y),
                        ATTRACTOR_SPREAD * d * stride * 4),
                 0);
}

uint64_t persist_house_count(const struct persist_house *h)
{
    uint64_t count = 0;
    for (const struct space *s = NULL; (s = store_space_next(h->store, s));)
        count += s->collection_count + s->graph_count + s->attractor_count;
    return count;
}

void persist_house_compare(const struct persist_house *a, const struct persist_house *b)
{
    struct persist_house other = *b;
    bool more;
    cr_assert_eq(persist_house_count(a), persist_house_count(b));
    cr_assert_eq(store_last_version(a->store), store_last_version(b->store));
    for (struct space *s = NULL; (s = store_space_next(a->store, s));) {
        struct collection *rows[8];
        struct graph *graphs[8];
        struct attractor *attractors[8];
        struct space *t = space_named(b, s->name);
        cr_assert_not_null(t);
        cr_assert_eq(space_row_count(s), space_row_count(t));
        for (size_t i = store_collection_list(a->store, s, "", rows, 8, &more); i--;)
            compare_rows(&other, t, rows[i]);
        for (size_t i = store_graph_list(a->store, s, "", graphs, 8, &more); i--;)
            compare_graphs(&other, t, graphs[i]);
        for (size_t i = store_attractor_list(a->store, s, "", attractors, 8, &more); i--;)
            compare_attractors(&other, t, attractors[i]);
    }
}

/* ---------------------------------------------------------------- snapshots */

static enum status start(struct persist_house *h, struct persist **out, struct failure *f)
{
    struct persist_options options = {.config = &h->config,
                                      .heap = h->heap,
                                      .store = h->store,
                                      .kernels = vectors_variant(0),
                                      .save_threads = h->save_threads};
    struct persist *p = NULL;
    enum status st = persist_create(&options, &p, f);
    if (!st && (st = persist_load(p, f))) {
        persist_destroy(p);
        p = NULL;
    }
    *out = p;
    return st;
}

struct persist *persist_house_start(struct persist_house *h)
{
    struct persist *p;
    struct failure f = {0};
    cr_assert_eq(start(h, &p, &f), STATUS_OK, "%s", f.text);
    return p;
}

void persist_house_make_snapshot(const char *path, bool large)
{
    struct persist_house h;
    struct failure f = {0};
    persist_house_open(&h, path);
    struct persist *p = persist_house_start(&h);
    persist_house_fill(&h, large);
    cr_assert_eq(persist_save(p, true, &f), STATUS_OK, "%s", f.text);
    persist_destroy(p);
    persist_house_close(&h);
}

enum status persist_house_try(const char *path, const char *mode, uint64_t *objects,
                              struct failure *f)
{
    struct persist_house h;
    struct persist *p;
    persist_house_open(&h, path);
    strcpy(h.config.persist_load, mode);
    memset(f, 0, sizeof *f);
    enum status st = start(&h, &p, f);
    *objects = persist_house_count(&h);
    persist_destroy(p);
    persist_house_close(&h);
    return st;
}

bool persist_house_verify(const char *path, const char *key_file)
{
    FILE *nowhere = fopen("/dev/null", "w");
    bool whole = persist_verify(path, key_file, nowhere);
    fclose(nowhere);
    return whole;
}

char *persist_house_read(const char *path, const char *file, size_t *bytes)
{
    char name[512];
    snprintf(name, sizeof name, "%s/%s", path, file);
    FILE *in = fopen(name, "rb");
    cr_assert_not_null(in, "%s", name);
    cr_assert_eq(fseek(in, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(in);
    rewind(in);
    char *data = malloc(*bytes + 1);
    cr_assert_eq(fread(data, 1, *bytes, in), *bytes);
    fclose(in);
    return data;
}

void persist_house_write(const char *path, const char *file, const void *data, size_t bytes)
{
    char name[512];
    snprintf(name, sizeof name, "%s/%s", path, file);
    FILE *out = fopen(name, "wb");
    cr_assert_not_null(out, "%s", name);
    cr_assert_eq(fwrite(data, 1, bytes, out), bytes);
    cr_assert_eq(fclose(out), 0);
}
