/* Spaces and names. */
#include "daemon/store/space.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/job_screen.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

static struct heap *heap;

static struct store *open_store(void)
{
    struct store *s = NULL;
    cr_assert_eq(heap_create(1 << 24, &heap), STATUS_OK);
    cr_assert_eq(store_create(heap, vectors_variant(0), &s), STATUS_OK);
    return s;
}

static void close_store(struct store *s)
{
    store_destroy(s);
    heap_destroy(heap);
}

/* Those with the most searches come first; searches that did without count, too. */
Test(space, lists_what_became_of_rows_in_int8)
{
    struct store *s = open_store();
    struct space *space;
    struct collection *c[5];
    const struct collection *found[5];
    size_t left_out = 99;
    cr_assert_eq(store_space(s, "test", &space), STATUS_OK);
    cr_assert_eq(store_collection_screens(space, found, 5, &left_out), 0);
    cr_assert_eq(left_out, 0);
    static const unsigned searches[5] = {2, 0, 5, 1, 4}, order[4] = {2, 4, 0, 3};
    const struct job_screen did = {.queries = 3, .screened = 90, .survived = 4, .read_bytes = 50};
    for (uint32_t i = 0; i < 5; i++) {
        const char name[] = {(char)('a' + i), 0};
        cr_assert_eq(store_collection_create(s, space, name, 4, METRIC_DOT, NULL, &c[i]), 0);
        for (unsigned n = 0; n < searches[i]; n++)
            collection_count_screen(collection_now(c[i]), n % 2 ? SCREENS_GPU : SCREENS_CPU,
                                    i == 4 ? &(struct job_screen){.rested = true} : &did);
    }
    for (size_t max = 0; max <= 5; max++) {
        size_t count = max < 4 ? max : 4;
        cr_assert_eq(store_collection_screens(space, found, max, &left_out), count);
        cr_assert_eq(left_out, 4 - count);
        for (size_t i = 0; i < count; i++)
            cr_assert_eq(found[i], c[order[i]]);
    }
    const struct screen_counts *cpu = collection_screens(c[2], SCREENS_CPU);
    cr_assert(cpu->searches == 3 && cpu->queries == 9 && cpu->screened == 270);
    cr_assert(cpu->survived == 12 && cpu->read_bytes == 150 && cpu->useless + cpu->rested == 0);
    cr_assert_eq(collection_screens(c[2], SCREENS_GPU)->searches, 2);
    cr_assert_eq(collection_screens(c[4], SCREENS_GPU)->rested, 2);
    cr_assert_eq(collection_screens(c[4], SCREENS_GPU)->searches, 0);
    close_store(s);
}

Test(space, parses_names)
{
    char name[SPACE_NAME_MAX + 1];
    struct failure f = {0};
    cr_assert_eq(space_name_parse("", name, &f), STATUS_OK);
    cr_assert_str_eq(name, "default");
    cr_assert_eq(space_name_parse(" \t ", name, &f), STATUS_OK);
    cr_assert_str_eq(name, "default");
    cr_assert_eq(space_name_parse(" \tab-_9\t ", name, &f), STATUS_OK);
    cr_assert_str_eq(name, "ab-_9");
    char longest[70] = {0};
    memset(longest, 'x', 64);
    cr_assert_eq(space_name_parse(longest, name, &f), STATUS_OK);
    longest[64] = 'x';
    const char *bad[] = {"ab", "Abc", "a b", "a.b", "abc\n", "\xc3\xa4\xc3\xb6", longest};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(name, "kept", 5);
        cr_assert_eq(space_name_parse(bad[i], name, &f), STATUS_INVALID_ARGUMENT);
        cr_assert_eq(f.detail, DETAIL_BAD_SPACE);
        cr_assert_str_eq(name, "kept");
    }
}

struct forgotten {
    unsigned count;
    char last[SPACE_NAME_MAX + 1];
};

static void note_forgotten(void *owner, struct space *space)
{
    struct forgotten *f = owner;
    f->count++;
    strcpy(f->last, space->name);
}

Test(space, are_walked_and_say_when_they_are_forgotten)
{
    struct store *s = open_store();
    struct forgotten f = {0};
    struct space *a, *b;
    struct collection *c;
    cr_assert_null(store_space_next(s, NULL));
    store_on_forget(s, note_forgotten, &f);
    cr_assert_eq(store_space(s, "aaa", &a), STATUS_OK);
    cr_assert_eq(store_space(s, "bbb", &b), STATUS_OK);
    unsigned seen = 0;
    for (struct space *at = NULL; (at = store_space_next(s, at));)
        seen |= at == a ? 1 : at == b ? 2 : 4;
    cr_assert_eq(seen, 3);
    cr_assert_eq(store_collection_create(s, b, "c", 8, METRIC_DOT, NULL, &c), STATUS_OK);
    store_space_release(s, b);
    cr_assert_eq(f.count, 0, "it has a collection");
    store_space_release(s, a);
    cr_assert_eq(f.count, 1);
    cr_assert_str_eq(f.last, "aaa");
    cr_assert_eq(store_space_next(s, NULL), b);
    close_store(s);
    cr_assert_eq(f.count, 2);
    cr_assert_str_eq(f.last, "bbb");
}

Test(space, finds_or_makes_spaces)
{
    struct store *s = open_store();
    struct space *a, *b, *again;
    cr_assert_eq(store_space(s, "aaa", &a), STATUS_OK);
    cr_assert_eq(store_space(s, "bbb", &b), STATUS_OK);
    cr_assert_eq(store_space(s, "aaa", &again), STATUS_OK);
    cr_assert(a == again && a != b && a->number >= 1 && a->number != b->number);

    /* The same name in two spaces is two collections. */
    struct collection *ca, *cb, *found;
    cr_assert_eq(store_collection_create(s, a, "c", 4, METRIC_COSINE, NULL, &ca), STATUS_OK);
    struct failure f = {0};
    cr_assert_eq(store_collection_find(s, b, "c", &f, &found), STATUS_NOT_FOUND);
    cr_assert_eq(f.detail, DETAIL_UNKNOWN_COLLECTION);
    cr_assert_eq(store_collection_create(s, b, "c", 8, METRIC_DOT, NULL, &cb), STATUS_OK);
    cr_assert_eq(store_collection_find(s, a, "c", NULL, &found), STATUS_OK);
    cr_assert_eq(found, ca);
    cr_assert_eq(collection_dimension(collection_now(cb)), 8);
    cr_assert_eq(collection_space(cb), b);
    close_store(s);
}

Test(space, checks_what_it_creates)
{
    struct store *s = open_store();
    struct space *a;
    struct collection *c = NULL;
    struct failure f = {0};
    cr_assert_eq(store_space(s, "aaa", &a), STATUS_OK);
    const uint32_t dimensions[] = {0, 16385, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(store_collection_create(s, a, "c", dimensions[i], 1, &f, &c),
                     STATUS_INVALID_ARGUMENT);
        cr_assert_eq(f.detail, DETAIL_BAD_DIMENSION);
    }
    const uint32_t metrics[] = {0, 4, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(store_collection_create(s, a, "c", 3, metrics[i], &f, &c),
                     STATUS_INVALID_ARGUMENT);
        cr_assert_eq(f.detail, DETAIL_BAD_METRIC);
    }
    char longest[70] = {0};
    memset(longest, 'x', 65);
    const char *bad[] = {"", "a b", "a/b", "\xff", longest};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(store_collection_create(s, a, bad[i], 3, 1, &f, &c), STATUS_INVALID_ARGUMENT);
        cr_assert_eq(f.detail, DETAIL_BAD_NAME);
        cr_assert_eq(store_collection_find(s, a, bad[i], &f, &c), STATUS_INVALID_ARGUMENT);
    }
    cr_assert_null(c);
    cr_assert_eq(store_collection_create(s, a, "A.b_-9", 3, 1, &f, &c), STATUS_OK);
    cr_assert_eq(store_collection_create(s, a, "A.b_-9", 3, 1, &f, &c), STATUS_ALREADY_EXISTS);
    cr_assert_eq(f.detail, DETAIL_COLLECTION_EXISTS);
    cr_assert_eq(a->collection_count, 1);

    /* A name is free again at once; the old rows live on until destroyed. */
    struct collection *other;
    store_collection_unlink(s, a, c);
    cr_assert_eq(store_collection_create(s, a, "A.b_-9", 5, 1, &f, &other), STATUS_OK);
    cr_assert_eq(collection_dimension(collection_now(c)), 3);
    collection_destroy(c);
    collection_destroy(NULL);
    close_store(s);
}

Test(space, lists_by_name)
{
    struct store *s = open_store();
    struct space *a;
    cr_assert_eq(store_space(s, "aaa", &a), STATUS_OK);
    for (int i = 0; i < 150; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%03d", i * 67 % 150);
        struct collection *c;
        cr_assert_eq(store_collection_create(s, a, name, 1, 1, NULL, &c), STATUS_OK);
    }
    struct collection *page[64];
    char after[16] = "";
    bool more = true;
    int seen = 0;
    while (more) {
        size_t count = store_collection_list(s, a, after, page, 64, &more);
        cr_assert_eq(count, seen < 128 ? 64 : 22);
        for (size_t i = 0; i < count; i++) {
            snprintf(after, sizeof after, "c%03d", seen++);
            cr_assert_str_eq(collection_info(page[i]).name, after);
        }
    }
    cr_assert_eq(seen, 150);
    cr_assert_eq(store_collection_list(s, a, "c149", page, 64, &more), 0);
    cr_assert_eq(store_collection_list(s, a, "c148", page, 1, &more), 1);
    cr_assert(!more);
    close_store(s);
}

Test(space, collections_have_a_bound)
{
    struct heap *h = NULL;
    struct store *s = NULL;
    struct space *a, *b;
    struct collection *c, *last = NULL;
    struct failure f = {0};
    cr_assert_eq(heap_create(1 << 22, &h), STATUS_OK);
    cr_assert_eq(store_create(h, vectors_variant(0), &s), STATUS_OK);
    cr_assert_eq(store_space(s, "aaa", &a), STATUS_OK);
    cr_assert_eq(store_space(s, "bbb", &b), STATUS_OK);
    store_limit_collections(s, 2);
    cr_assert_eq(store_collection_create(s, a, "one", 4, 1, &f, &c), STATUS_OK);
    cr_assert_eq(store_collection_create(s, a, "two", 4, 1, &f, &last), STATUS_OK);
    cr_assert_eq(store_collection_create(s, a, "three", 4, 1, &f, &c), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(f.detail, DETAIL_TOO_MANY_COLLECTIONS);
    cr_assert_eq(store_collection_create(s, b, "three", 4, 1, &f, &c), STATUS_OK, "another space");
    store_collection_unlink(s, a, last);
    collection_destroy(last);
    cr_assert_eq(store_collection_create(s, a, "three", 4, 1, &f, &c), STATUS_OK, "room again");
    store_destroy(s);
    heap_destroy(h);
}

Test(space, every_failure_leaves_nothing_behind)
{
    for (uint32_t nth = 1;; nth++) {
        struct heap *h = NULL;
        struct store *s = NULL;
        struct space *a = NULL;
        struct collection *c = NULL;
        fault_arm(nth);
        enum status st = heap_create(1 << 22, &h);
        if (!st) st = store_create(h, vectors_variant(0), &s);
        if (!st) st = store_space(s, "aaa", &a);
        if (!st) st = store_collection_create(s, a, "c", 4, 1, NULL, &c);
        bool fired = fault_fired() != NULL;
        fault_arm(0);
        cr_assert(fired ? st != STATUS_OK && !c : st == STATUS_OK);
        if (a) cr_assert_eq(a->collection_count, c ? 1 : 0);
        store_destroy(s);
        heap_destroy(h);
        if (!fired) break;
        cr_assert(nth < 100);
    }
}

/* ---- versions ---- */

Test(versions, one_counter_gives_them_all)
{
    struct store *s = open_store();
    struct space *a, *b;
    struct failure f = {0};
    struct collection *c;
    struct graph *g;
    cr_assert_eq(store_space(s, "alpha", &a), STATUS_OK);
    cr_assert_eq(store_space(s, "beta", &b), STATUS_OK);
    cr_assert_eq(store_collection_create(s, a, "rows", 2, METRIC_DOT, &f, &c), STATUS_OK);
    cr_assert_eq(store_graph_create(s, b, "rows", &f, &g), STATUS_OK);
    cr_assert(collection_version(collection_now(c)) == 1 && graph_info(g).version == 2);
    const uint64_t id = 7;
    const float row[2] = {1, 2};
    struct upsert_counts counts;
    cr_assert_eq(collection_upsert(c, &id, row, 1, &counts, &f), STATUS_OK);
    cr_assert_eq(collection_version(collection_now(c)), 3);
    /* A drop and a create of the same name do not repeat a version. */
    store_collection_unlink(s, a, c);
    collection_destroy(c);
    uint64_t last = space_last_version(a);
    cr_assert_eq(store_collection_create(s, a, "rows", 2, METRIC_DOT, &f, &c), STATUS_OK);
    cr_assert(collection_version(collection_now(c)) > last &&
              collection_version(collection_now(c)) == space_last_version(b));
    store_destroy(s);
    heap_destroy(heap);
}

/* Each of them is found under its new name alone, whoever else is there; want of memory does not
 * matter. */
Test(space, renames_what_it_has)
{
    enum { MANY = 300 };
    struct store *s = open_store();
    struct space *a;
    struct collection *c, *found, *list[MANY];
    struct graph *g, *found_graph;
    bool more;
    char name[COLLECTION_NAME_MAX + 1];
    cr_assert_eq(store_space(s, "aaa", &a), STATUS_OK);
    cr_assert_eq(store_collection_create(s, a, "~alone", 4, METRIC_DOT, NULL, &c), STATUS_OK);
    cr_assert_eq(store_graph_create(s, a, "~alone", NULL, &g), STATUS_OK);
    fault_arm(1);
    store_collection_rename(a, c, "alone");
    store_graph_rename(a, g, "alone");
    cr_assert_eq(fault_hits(), 0);
    fault_arm(0);
    cr_assert_eq(store_collection_find(s, a, "alone", NULL, &found), STATUS_OK);
    cr_assert_eq(found, c);
    cr_assert_eq(store_collection_find(s, a, "~alone", NULL, &found), STATUS_NOT_FOUND);
    cr_assert_eq(store_graph_find(s, a, "alone", NULL, &found_graph), STATUS_OK);
    cr_assert_eq(found_graph, g);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "~%d", i);
        cr_assert_eq(store_collection_create(s, a, name, 4, METRIC_DOT, NULL, &list[i]), STATUS_OK);
        if (i % 2) continue;
        snprintf(name, sizeof name, "%d", i);
        store_collection_rename(a, list[i], name);
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, i % 2 ? "~%d" : "%d", i);
        cr_assert_eq(store_collection_find(s, a, name, NULL, &found), STATUS_OK, "%s", name);
        cr_assert_eq(found, list[i]);
    }
    cr_assert_eq(a->collection_count, MANY + 1);
    size_t seen = store_collection_list(s, a, "", list, MANY, &more);
    cr_assert(seen == MANY / 2 + 1 && !more, "those that are not hidden: %zu", seen);
    close_store(s);
}

Test(space, has_names_that_are_hidden)
{
    const char *good[] = {"~a", "~-._9Z", "a", "-"}, *bad[] = {"~", "", "a~", "~~", "~a~", "~ "};
    char longest[COLLECTION_NAME_MAX + 2] = "~";
    memset(longest + 1, 'x', COLLECTION_NAME_MAX - 1);
    cr_assert_eq(collection_name_check(longest, NULL), STATUS_OK);
    longest[COLLECTION_NAME_MAX] = 'x';
    cr_assert_eq(collection_name_check(longest, NULL), STATUS_INVALID_ARGUMENT);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_assert_eq(collection_name_check(good[i], NULL), STATUS_OK, "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_eq(collection_name_check(bad[i], NULL), STATUS_INVALID_ARGUMENT, "%s", bad[i]);
}
