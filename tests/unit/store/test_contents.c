/* What a space holds: by number, over all three kinds, with what each needs and takes. */
#include "daemon/store/contents.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

#define MIB (UINT64_C(1) << 20)
enum { PAGE = 4096 };

static struct heap *heap;
static struct store *store;
static struct space *space;

static void open_house(void)
{
    cr_assert_eq(heap_create(64 * MIB, &heap), STATUS_OK);
    cr_assert_eq(store_create(heap, vectors_variant(0), &store), STATUS_OK);
    cr_assert_eq(store_space(store, "test", &space), STATUS_OK);
}

static void close_house(void)
{
    store_destroy(store);
    heap_destroy(heap);
}

static struct collection *make(const char *name, uint32_t dimension)
{
    struct collection *c;
    cr_assert_eq(store_collection_create(store, space, name, dimension, METRIC_DOT, NULL, &c),
                 STATUS_OK);
    return c;
}

static struct graph *make_graph(const char *name)
{
    struct graph *g;
    cr_assert_eq(store_graph_create(store, space, name, NULL, &g), STATUS_OK);
    return g;
}

static void add_rows(struct collection *c, uint64_t first, uint64_t count, uint32_t dimension)
{
    static float rows[70000];
    static uint64_t ids[70000];
    cr_assert_leq(count * dimension, 70000);
    for (uint64_t i = 0; i < count; i++)
        ids[i] = first + i;
    struct upsert_counts done;
    cr_assert_eq(collection_upsert(c, ids, rows, count, &done, NULL), STATUS_OK);
}

static struct content content_of(const char *name)
{
    struct content found[8];
    bool more;
    size_t count = store_contents(space, 0, found, 8, &more);
    for (size_t i = 0; i < count; i++)
        if (strcmp(found[i].resident->name, name) == 0) return found[i];
    cr_assert_fail("%s is not there", name);
    return found[0];
}

Test(contents, are_in_the_order_in_which_they_were_made)
{
    char name[16];
    struct content found[4];
    uint64_t after = 0, seen = 0;
    bool more = true;
    open_house();
    const struct attractor_shape shape = {4, 0.5f, 0.1f};
    struct attractor *a;
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "n%d", i);
        if (i % 3 == 0) make(name, 4);
        if (i % 3 == 1) make_graph(name);
        if (i % 3 == 2)
            cr_assert_eq(store_attractor_create(store, space, name, &shape, NULL, &a), STATUS_OK);
    }
    /* One that is gone between two pages, and its successor of that name, which comes last. */
    while (more) {
        size_t count = store_contents(space, after, found, 4, &more);
        cr_assert(count && (!more || count == 4));
        for (size_t i = 0; i < count; i++, seen++) {
            cr_assert_gt(found[i].resident->number, after);
            after = found[i].resident->number;
            snprintf(name, sizeof name, "n%d",
                     seen < 6    ? (int)seen
                     : seen == 8 ? 6
                                 : (int)seen + 1);
            cr_assert_str_eq(found[i].resident->name, name);
        }
        struct collection *c;
        if (seen != 4) continue;
        cr_assert_eq(store_collection_find(store, space, "n6", NULL, &c), STATUS_OK);
        store_collection_unlink(store, space, c);
        collection_destroy(c);
        make("n6", 4);
    }
    cr_assert_eq(seen, 9);
    cr_assert_eq(store_contents(space, after, found, 4, &more), 0);
    cr_assert(!more);
    close_house();
}

Test(contents, one_that_gets_another_name_comes_last)
{
    struct content found[4];
    bool more;
    open_house();
    struct collection *a = make("a", 4);
    make("b", 4);
    store_collection_rename(space, a, "c");
    cr_assert_eq(store_contents(space, 0, found, 4, &more), 2);
    cr_assert_str_eq(found[0].resident->name, "b");
    cr_assert_str_eq(found[1].resident->name, "c");
    cr_assert_lt(found[0].resident->number, found[1].resident->number);
    close_house();
}

Test(contents, a_collection_takes_padding_and_room)
{
    enum { D = 33, STRIDE = 64, ROWS = 100, COLUMNS = sizeof(uint64_t) + sizeof(float) };
    enum { STRUCTS = 8192 }; /* of the collection and its segments, which have no room to take */
    open_house();
    struct collection *c = make("rows", D);
    cr_assert(content_of("rows").needed_bytes == 0 && content_of("rows").taken_bytes == 0);
    add_rows(c, 0, ROWS, D);
    struct collection_info info = collection_info(c);
    uint64_t index = info.index_bytes - ROWS * COLUMNS;
    struct content m = content_of("rows");
    cr_assert_eq(m.needed_bytes, ROWS * (D * sizeof(float) + COLUMNS) + index);
    /* The first segment has room for a unit of the heap. */
    uint64_t room = HEAP_UNIT / (STRIDE * sizeof(float));
    cr_assert_eq(m.taken_bytes, HEAP_UNIT + room * COLUMNS + index);
    cr_assert_geq(m.taken_bytes + STRUCTS, heap_owner_bytes(heap, space->number));

    /* Several segments, of 2 MiB each. */
    uint64_t each = 2 * MIB / (STRIDE * sizeof(float)), rows = ROWS;
    for (; rows < 2 * each + 1; rows += 2000)
        add_rows(c, rows, 2000, D);
    m = content_of("rows");
    info = collection_info(c);
    index = info.index_bytes - rows * COLUMNS;
    cr_assert_eq(m.needed_bytes, rows * (D * sizeof(float) + COLUMNS) + index);
    cr_assert_eq(m.taken_bytes, 3 * (2 * MIB + each * COLUMNS) + index);
    uint64_t deleted, missing, ids[1] = {0};
    collection_delete(c, ids, 1, &deleted, &missing);
    cr_assert_eq(content_of("rows").needed_bytes,
                 (rows - 1) * (D * sizeof(float) + COLUMNS) + index);
    collection_clear(c);
    cr_assert(content_of("rows").needed_bytes == 0 && content_of("rows").taken_bytes == 0);
    close_house();
}

Test(contents, a_graph_takes_spare_places_and_holes)
{
    enum { NODES = 300 };
    uint64_t from[NODES], to[NODES];
    float weights[NODES];
    struct graph_counts done;
    open_house();
    struct graph *g = make_graph("g");
    for (uint64_t i = 0; i < NODES; i++)
        from[i] = i, to[i] = (i + 1) % NODES, weights[i] = 1;
    cr_assert_eq(graph_add_edges(g, from, to, weights, NODES, false, &done, NULL), STATUS_OK);
    struct content one = content_of("g");
    cr_assert(one.needed_bytes >= NODES * 2 * sizeof(uint64_t));
    cr_assert(one.taken_bytes >= one.needed_bytes);
    cr_assert_eq(graph_remove_edges(g, from, to, NODES / 2, &done, NULL), STATUS_OK);
    struct content less = content_of("g");
    cr_assert_eq(one.needed_bytes - less.needed_bytes, NODES / 2 * 2 * sizeof(uint64_t));
    cr_assert_leq(less.needed_bytes, less.taken_bytes);
    close_house();
}

Test(contents, an_attractor_shares_a_matrix)
{
    const struct attractor_shape shape = {40, 0.5f, 0.1f};
    struct attractor *a;
    open_house();
    cr_assert_eq(store_attractor_create(store, space, "a", &shape, NULL, &a), STATUS_OK);
    struct content m = content_of("a");
    cr_assert_eq(m.needed_bytes, 40 * 40 * sizeof(float));
    cr_assert_eq(m.taken_bytes, (40 * 64 * sizeof(float) + PAGE - 1) / PAGE * PAGE);
    cr_assert_eq(m.shared_bytes, attractor_info(a).dentate_bytes);
    close_house();
}
