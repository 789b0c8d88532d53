/* The state of the data has a name: who expects one gets answers of that, or is told what is there.
 * test-run: timeout=300 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/sets.h"

TestSuite(state, .timeout = 280);

enum { ROWS = 240, DIMENSION = 4, PARTS = 12 };

static void put(ea_client *c, const char *name, uint64_t first, uint64_t count, ea_status *st)
{
    static _Thread_local uint64_t ids[ROWS];
    static _Thread_local float rows[ROWS * DIMENSION];
    for (uint64_t i = 0; i < count; i++)
        ids[i] = first + i;
    for (uint64_t i = 0; i < count * DIMENSION; i++)
        rows[i] = 1;
    *st = ea_upsert(
        c,
        &(ea_rows){
            .collection = name, .ids = ids, .rows = rows, .count = count, .dimension = DIMENSION},
        NULL);
}

static void load(ea_client *c, const char *name)
{
    ea_status st = ea_collection_create(c, name, DIMENSION, EA_DOT, NULL);
    for (uint64_t part = 0; !st && part < PARTS; part++)
        put(c, name, part * (ROWS / PARTS), ROWS / PARTS, &st);
    cr_assert_eq(st, EA_OK, "%s", ea_error_text(c));
}

static ea_state state_of(ea_client *c)
{
    return (ea_state){.instance = ea_instance(c), .generation = ea_generation(c)};
}

/* ---------------------------------------------------------------- what is expected */

Test(state, every_request_may_expect_it)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "state");
    ea_collection_info info;
    ea_result result = {0};
    ea_state there, now;
    ea_info about;
    load(c, "rows");
    cr_assert_eq(ea_collection_describe(c, "rows", &info), EA_OK);
    there = state_of(c);
    cr_assert_neq(there.instance, 0);
    there.version = info.version;
    cr_assert_eq(ea_expect(c, &there), EA_OK);
    cr_assert_eq(ea_collection_describe(c, "rows", &info), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(ea_fetch_range(c, "rows", 0, 3, &result), EA_OK, "%s", ea_error_text(c));
    cr_assert(result.meta->instance == there.instance && result.meta->version == there.version &&
              result.meta->generation == there.generation);

    const ea_state wrong[] = {{.instance = there.instance + 1},
                              {.generation = there.generation + 1},
                              {.instance = there.instance, .generation = 99},
                              {.instance = there.instance, .version = info.version - 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const bool by_version = wrong[i].version;
        cr_assert_eq(ea_expect(c, &wrong[i]), EA_OK);
        ea_status statuses[] = {ea_collection_describe(c, "rows", &info),
                                ea_fetch_range(c, "rows", 0, 3, &result),
                                ea_delete(c, "rows", (const uint64_t[]){1}, 1, NULL),
                                ea_collection_drop(c, "rows"),
                                by_version ? EA_ABORTED : ea_ping(c),
                                by_version ? EA_ABORTED : ea_get_info(c, &about)};
        for (size_t n = 0; n < sizeof statuses / sizeof *statuses; n++)
            cr_assert_eq(statuses[n], EA_ABORTED, "%zu, %zu: %d", i, n, statuses[n]);
        cr_assert_eq(ea_collection_drop(c, "rows"), EA_ABORTED);
        cr_assert_eq(ea_error_detail(c),
                     by_version ? EA_DETAIL_VERSION_CHANGED : EA_DETAIL_STATE_CHANGED);
        cr_assert_not(ea_error_retryable(c));
        ea_error_state(c, &now);
        if (by_version)
            cr_assert_eq(now.version, there.version);
        else
            cr_assert(now.instance == there.instance && now.generation == there.generation);
    }
    /* A version of nothing; one of what is not there. */
    cr_assert_eq(ea_expect(c, &there), EA_OK);
    cr_assert_eq(ea_ping(c), EA_INVALID_ARGUMENT, "a version of what?");
    cr_assert_eq(ea_collection_describe(c, "none", &info), EA_NOT_FOUND);
    cr_assert_eq(ea_expect(c, NULL), EA_OK);
    ea_status st;
    put(c, "rows", 0, 1, &st);
    cr_assert_eq(st, EA_OK);
    cr_assert_eq(ea_collection_describe(c, "rows", &info), EA_OK);
    cr_assert(info.version > there.version && info.rows == ROWS, "nothing of it was done");
    ea_result_free(&result);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- after kill -9 */

struct asking {
    const struct scene *scene;
    bool expects;
    atomic_uint rounds, partial, aborted, whole;
    atomic_bool stop;
};

/* A keeper that asks on, over connections that come back by themselves: it takes every answer that
 * is OK for one of the collection that it was told of. */
static void *ask_on(void *user)
{
    struct asking *a = user;
    ea_client *c = scene_client(a->scene, "state");
    ea_result result = {0};
    cr_assert_eq(ea_connect(c), EA_OK);
    const ea_state known = state_of(c);
    if (a->expects) cr_assert_eq(ea_expect(c, &known), EA_OK);
    while (!atomic_load(&a->stop)) {
        ea_status st = ea_fetch_range(c, "rows", 0, 2 * ROWS, &result);
        if (st == EA_OK) atomic_fetch_add(result.rows == ROWS ? &a->whole : &a->partial, 1);
        if (st == EA_ABORTED) atomic_fetch_add(&a->aborted, 1);
        atomic_fetch_add(&a->rounds, 1);
    }
    ea_result_free(&result);
    ea_close(c);
    return NULL;
}

static void wait_rounds(struct asking *a, unsigned more)
{
    for (unsigned from = atomic_load(&a->rounds); atomic_load(&a->rounds) - from < more;)
        wait_ms(1);
}

/* Kills the daemon and loads again, while another asks after each part; swaps: under a hidden
 * name. */
static void load_after_kill(struct asking *a, bool expects, bool swaps)
{
    struct scene s;
    pthread_t thread;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "state");
    load(c, "rows");
    *a = (struct asking){.scene = &s, .expects = expects};
    cr_assert_eq(pthread_create(&thread, NULL, ask_on, a), 0);
    wait_rounds(a, 2);
    daemon_kill(&s.daemon);
    daemon_restart(&s.daemon, NULL);
    const char *name = swaps ? "~next" : "rows";
    cr_assert_eq(ea_ping(c), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(ea_collection_create(c, name, DIMENSION, EA_DOT, NULL), EA_OK);
    for (uint64_t part = 0; part < PARTS; part++) {
        ea_status st;
        put(c, name, part * (ROWS / PARTS), ROWS / PARTS, &st);
        cr_assert_eq(st, EA_OK, "%s", ea_error_text(c));
        wait_rounds(a, 2);
    }
    if (swaps) cr_assert_eq(ea_swap(c, EA_COLLECTION, "rows", "~next", NULL), EA_OK);
    wait_rounds(a, 2);
    atomic_store(&a->stop, true);
    pthread_join(thread, NULL);
    ea_close(c);
    ea_close(s.witness);
    cr_assert_eq(daemon_stop(&s.daemon), 0);
}

Test(state, who_neither_expects_nor_swaps_takes_parts_for_the_whole)
{
    struct asking a;
    load_after_kill(&a, false, false);
    cr_assert(atomic_load(&a.partial) > 0, "else the trials below show nothing");
}

Test(state, who_expects_it_never_takes_a_part)
{
    struct asking a;
    load_after_kill(&a, true, false);
    cr_assert_eq(atomic_load(&a.partial), 0);
    cr_assert(atomic_load(&a.aborted) >= PARTS && atomic_load(&a.whole) > 0);
}

Test(state, what_is_swapped_in_is_never_seen_in_part)
{
    struct asking a;
    load_after_kill(&a, false, true);
    cr_assert_eq(atomic_load(&a.partial), 0);
    cr_assert(atomic_load(&a.whole) > 2);
}

/* ---------------------------------------------------------------- changes */

Test(state, changes_since_a_version)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "state");
    ea_object_version *list;
    size_t count;
    uint64_t now, total, later;
    char name[32];
    cr_assert_eq(ea_changes(c, 0, &list, &count, &now, &total), EA_OK);
    cr_assert(count == 0 && total == 0);
    ea_changes_free(list);
    for (int i = 0; i < 150; i++) {
        snprintf(name, sizeof name, "c%03d", i);
        cr_assert_eq(ea_collection_create(c, name, 4, EA_DOT, NULL), EA_OK);
    }
    cr_assert_eq(ea_graph_create(c, "c000", NULL), EA_OK);
    cr_assert_eq(ea_graph_create(c, "~hidden", NULL), EA_OK);
    cr_assert_eq(ea_attractor_create(c, "memory", &(ea_attractor_shape){.dimension = 4}, NULL),
                 EA_OK);
    cr_assert_eq(ea_changes(c, 0, &list, &count, &now, &total), EA_OK, "%s", ea_error_text(c));
    cr_assert(count == 152 && total == 152, "%zu", count);
    for (size_t i = 0; i < 150; i++) {
        snprintf(name, sizeof name, "c%03zu", i);
        cr_assert(list[i].object == EA_COLLECTION && strcmp(list[i].name, name) == 0);
        cr_assert(list[i].version > 0 && list[i].version <= now);
    }
    cr_assert(list[150].object == EA_GRAPH && list[151].object == EA_ATTRACTOR);
    ea_changes_free(list);

    ea_status st;
    put(c, "c149", 0, 3, &st);
    cr_assert_eq(st, EA_OK);
    cr_assert_eq(ea_collection_drop(c, "c001"), EA_OK);
    cr_assert_eq(ea_changes(c, now, &list, &count, &later, &total), EA_OK);
    cr_assert(count == 1 && total == 151 && strcmp(list[0].name, "c149") == 0);
    cr_assert(list[0].version > now && list[0].version <= later);
    ea_changes_free(list);
    cr_assert_eq(ea_changes(c, later, &list, &count, NULL, NULL), EA_OK);
    cr_assert_eq(count, 0);
    ea_changes_free(list);
    ea_close(c);
    scene_close(&s);
}
