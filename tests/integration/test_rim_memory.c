/* Memory that is not the heap's own, as large as it gets: it counts towards the bound, so that
 * nobody can have a daemon of more than memory.max_mib by what the heap does not hold. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/scene.h"

enum { SPACES = 400, EMPTY = 4000, ROWS = 200000, MIB = 1 << 20 };

static uint64_t used(struct scene *s)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(s->witness, &stats), EA_OK);
    return stats.memory_bytes_used;
}

static ea_client *client_of(const struct scene *s, const char *space)
{
    ea_client *c = NULL;
    ea_options options = {.socket_path = s->daemon.socket_path, .space = space};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    return c;
}

struct growth {
    size_t resident_kib;
    uint64_t used;
};

static struct growth begin(struct scene *s)
{
    scene_settle(s);
    return (struct growth){process_resident_kib(s->daemon.pid), used(s)};
}

/* What the system says that it grew by is counted, but for a tenth and a few pools. */
static void expect_counted(struct scene *s, const struct growth *before, const char *what)
{
    size_t kib = process_resident_kib(s->daemon.pid);
    uint64_t grown = kib > before->resident_kib ? (kib - before->resident_kib) * 1024 : 0;
    uint64_t counted = used(s) - before->used;
    fprintf(stderr, "%s: %.1f MiB more are resident, %.1f counted\n", what, (double)grown / MIB,
            (double)counted / MIB);
    cr_expect_geq(counted + counted / 9 + (uint64_t)SCENE_GROWTH_KIB * 1024, grown, "%s", what);
}

Test(rim_memory, empty_collections_and_spaces)
{
    struct scene s;
    char name[32];
    scene_open(&s, (const char *[]){"limits.collections=100000", NULL});
    struct growth before = begin(&s);
    for (int i = 0; i < SPACES; i++) {
        snprintf(name, sizeof name, "space-%d", i);
        ea_client *c = client_of(&s, name);
        cr_assert_eq(ea_collection_create(c, "c", 8, EA_DOT, NULL), EA_OK);
        ea_close(c);
    }
    expect_counted(&s, &before, "400 spaces with a collection");
    ea_client *c = client_of(&s, "many");
    for (int i = 0; i < EMPTY; i++) {
        snprintf(name, sizeof name, "c%d", i);
        cr_assert_eq(i % 2 ? ea_collection_create(c, name, 8, EA_DOT, NULL)
                           : ea_graph_create(c, name, NULL),
                     EA_OK, "%s", ea_error_text(c));
    }
    expect_counted(&s, &before, "4,000 empty collections and graphs");
    for (int i = 0; i < EMPTY; i++) {
        snprintf(name, sizeof name, "c%d", i);
        cr_assert_eq(i % 2 ? ea_collection_drop(c, name) : ea_graph_drop(c, name), EA_OK);
    }
    ea_close(c);
    for (int i = 0; i < SPACES; i++) {
        snprintf(name, sizeof name, "space-%d", i);
        c = client_of(&s, name);
        cr_assert_eq(ea_collection_drop(c, "c"), EA_OK);
        ea_close(c);
    }
    int64_t until = give_up_ms();
    while (used(&s) != before.used && now_ms() < until)
        wait_ms(5);
    cr_assert_eq(used(&s), before.used, "what is gone does not count any more");
    ea_close(s.witness);
    cr_assert_eq(daemon_stop(&s.daemon), 0);
}

/* Rows of one number take 128 bytes in the heap, and ids, norms and an index beside it. */
static enum ea_status insert(ea_client *c, uint64_t first, uint64_t count)
{
    float *rows = calloc(count, sizeof *rows);
    uint64_t *ids = malloc(count * sizeof *ids);
    for (uint64_t i = 0; i < count; i++)
        ids[i] = first + i;
    enum ea_status st = (enum ea_status)ea_upsert(
        c,
        &(ea_rows){.collection = "thin", .ids = ids, .rows = rows, .count = count, .dimension = 1},
        NULL);
    free(rows);
    free(ids);
    return st;
}

Test(rim_memory, ids_and_indexes)
{
    struct scene s;
    scene_open(&s, (const char *[]){"memory.cache_mib=0", NULL});
    struct growth before = begin(&s);
    ea_client *c = client_of(&s, "thin");
    cr_assert_eq(ea_collection_create(c, "thin", 1, EA_DOT, NULL), EA_OK);
    for (uint64_t at = 0; at < ROWS; at += ROWS / 4)
        cr_assert_eq(insert(c, at, ROWS / 4), EA_OK, "%s", ea_error_text(c));
    expect_counted(&s, &before, "200,000 rows of one number");
    cr_assert_eq(ea_collection_drop(c, "thin"), EA_OK);
    ea_close(c);
    scene_close(&s);
}

/* With a quota of 8 MiB there is room for fewer rows than their numbers alone would say. */
Test(rim_memory, a_quota_counts_them)
{
    struct scene s;
    scene_open(&s, (const char *[]){"spaces.thin.host_mib=8", NULL});
    ea_client *c = client_of(&s, "thin");
    cr_assert_eq(ea_collection_create(c, "thin", 1, EA_DOT, NULL), EA_OK);
    enum ea_status st = EA_OK;
    uint64_t rows = 0;
    for (; !st && rows < ROWS; rows += 1000)
        st = insert(c, rows, 1000);
    cr_assert_eq(st, EA_RESOURCE_EXHAUSTED);
    cr_assert_eq(ea_error_detail(c), EA_DETAIL_QUOTA, "%s", ea_error_text(c));
    cr_assert_lt(rows * (128 + 12), (uint64_t)8 * MIB);
    cr_assert_eq(ea_collection_drop(c, "thin"), EA_OK);
    ea_close(c);
    scene_close(&s);
}
