/* Scans: all pages are of one version, whatever others write meanwhile, until the cursor ends.
 * test-run: timeout=300 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/sets.h"

TestSuite(scan, .timeout = 280);

enum { ROWS = 1000, DIMENSION = 4, PAGE = 64 };

static ea_status put(ea_client *c, const char *name, uint64_t first, uint64_t count, float value)
{
    static uint64_t ids[ROWS];
    static float rows[ROWS * DIMENSION];
    for (uint64_t i = 0; i < count; i++) {
        ids[i] = first + i;
        for (int k = 0; k < DIMENSION; k++)
            rows[i * DIMENSION + (uint64_t)k] = value + (float)(first + i);
    }
    return ea_upsert(
        c,
        &(ea_rows){
            .collection = name, .ids = ids, .rows = rows, .count = count, .dimension = DIMENSION},
        NULL);
}

static void make(ea_client *c, const char *name, float value)
{
    cr_assert_eq(ea_collection_create(c, name, DIMENSION, EA_DOT, NULL), EA_OK);
    cr_assert_eq(put(c, name, 0, ROWS, value), EA_OK, "%s", ea_error_text(c));
}

/* A page is of what `make` made. */
static void check_page(const ea_result *page, const ea_cursor *at, uint64_t from, float value)
{
    cr_assert_eq(page->rows, at->position - from);
    for (uint64_t i = 0; i < page->rows; i++) {
        cr_assert_eq(page->ids[i], from + i);
        cr_assert_eq(page->vectors[i * DIMENSION], value + (float)(from + i));
    }
}

Test(scan, is_of_one_version)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "scan"), *writer = scene_client(&s, "scan");
    ea_cursor at = {0};
    ea_result page = {0};
    make(c, "rows", 0);
    for (uint64_t from = 0, n = 0; !at.at_end; from = at.position, n++) {
        cr_assert_eq(ea_scan_rows(c, "rows", &at, PAGE, &page), EA_OK, "%s", ea_error_text(c));
        cr_assert_eq(at.positions, ROWS);
        check_page(&page, &at, from, 0);
        cr_assert_eq(page.meta->version, at.version);
        /* Replaced, deleted and added, large and small, while it goes on. */
        cr_assert_eq(put(writer, "rows", n % 2 ? 0 : 7 * n, n % 2 ? ROWS : 3, 5000), EA_OK);
        cr_assert_eq(ea_delete(writer, "rows", (const uint64_t[]){n * 20}, 1, NULL), EA_OK);
        cr_assert_eq(put(writer, "rows", ROWS + n, 1, 1), EA_OK);
        if (n == 0) cr_assert_eq(ea_scan_rows(writer, "rows", &(ea_cursor){0}, 3, &page), EA_OK);
    }
    cr_assert_eq(at.position, ROWS);
    cr_assert_eq(at.number, 0);
    ea_result_free(&page);
    ea_close(c);
    ea_close(writer);
    scene_settle(&s);
    scene_close(&s);
}

Test(scan, a_swap_leaves_it_and_a_drop_ends_it)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "scan"), *other = scene_client(&s, "scan");
    ea_cursor at = {0}, next = {0};
    ea_result page = {0};
    make(c, "rows", 0);
    make(other, "~new", 10000);
    cr_assert_eq(ea_scan_rows(c, "rows", &at, PAGE, &page), EA_OK);
    cr_assert_eq(ea_swap(other, EA_COLLECTION, "rows", "~new", NULL), EA_OK);
    for (uint64_t from = at.position; !at.at_end; from = at.position) {
        cr_assert_eq(ea_scan_rows(c, "rows", &at, PAGE, &page), EA_OK, "%s", ea_error_text(c));
        check_page(&page, &at, from, 0);
    }
    at = (ea_cursor){0};
    cr_assert_eq(ea_scan_rows(c, "rows", &at, PAGE, &page), EA_OK);
    check_page(&page, &at, 0, 10000);
    cr_assert_eq(ea_collection_drop(other, "rows"), EA_OK, "it does not wait for the scan");
    next = at;
    cr_assert_eq(ea_scan_rows(c, "rows", &next, PAGE, &page), EA_ABORTED);
    cr_assert_eq(ea_error_detail(c), EA_DETAIL_CURSOR_ENDED);
    cr_assert_not(ea_error_retryable(c));
    cr_assert_eq(next.position, at.position, "it stays where it was");
    ea_result_free(&page);
    ea_close(c);
    ea_close(other);
    scene_settle(&s);
    scene_close(&s);
}

Test(scan, has_bounds)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "scan"), *other = scene_client(&s, "scan");
    ea_cursor at[6] = {{0}};
    ea_result page = {0};
    make(c, "rows", 0);
    make(c, "more", 0);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(ea_scan_rows(c, "rows", &at[i], 1, &page), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(ea_scan_rows(c, "rows", &at[4], 1, &page), EA_RESOURCE_EXHAUSTED);
    cr_assert_eq(ea_error_detail(c), EA_DETAIL_QUEUE_FULL);
    cr_assert_eq(ea_scan_rows(other, "rows", &at[4], 1, &page), EA_OK, "another connection may");
    /* Somebody else's cursor, one of something else, none at all. */
    ea_cursor stolen = at[0], wrong = {.number = 12345};
    cr_assert_eq(ea_scan_rows(other, "rows", &stolen, 1, &page), EA_ABORTED);
    cr_assert_eq(ea_scan_rows(other, "rows", &wrong, 1, &page), EA_ABORTED);
    cr_assert_eq(ea_scan_nodes(c, "rows", &at[0], 1, true, &(ea_nodes){0}), EA_ABORTED);
    cr_assert_eq(ea_scan_rows(c, "rows", &at[0], ROWS, &page), EA_OK, "to its end");
    cr_assert(at[0].at_end && page.rows == ROWS - 1);
    cr_assert_eq(ea_scan_rows(c, "more", &at[5], 1, &page), EA_OK, "so there is room again");
    cr_assert_eq(ea_scan_rows(c, "none", &(ea_cursor){0}, 1, &page), EA_NOT_FOUND);
    ea_cursor whole = {0};
    cr_assert_eq(ea_scan_rows(other, "rows", &whole, 2 * ROWS, &page), EA_OK);
    cr_assert(whole.at_end && whole.number == 0 && page.rows == ROWS, "none was needed");

    /* They go with their connection, of which all together have 64. */
    ea_client *many[16];
    ea_close(c);
    for (int i = 0; i < 16; i++) {
        many[i] = scene_client(&s, "scan");
        for (int n = 0; n < 4; n++)
            while (ea_scan_rows(many[i], "rows", &(ea_cursor){0}, 1, &page) != EA_OK)
                cr_assert(n == 3 && i == 15, "%s", ea_error_text(many[i])); /* until c has left */
        if (i == 14) {
            cr_assert_eq(ea_scan_rows(other, "rows", &at[4], ROWS, &page), EA_OK);
            cr_assert(at[4].at_end);
        }
    }
    cr_assert_eq(ea_scan_rows(other, "rows", &(ea_cursor){0}, 1, &page), EA_RESOURCE_EXHAUSTED);
    ea_close(many[0]);
    while (ea_scan_rows(other, "rows", &(ea_cursor){0}, 1, &page) != EA_OK)
        wait_ms(1);
    for (int i = 1; i < 16; i++)
        ea_close(many[i]);
    cr_assert_eq(ea_collection_drop(other, "rows"), EA_OK);
    cr_assert_eq(ea_collection_drop(other, "more"), EA_OK);
    ea_result_free(&page);
    ea_close(other);
    scene_close(&s);
}

Test(scan, nodes_in_storage_order)
{
    enum { NODES = 300 };
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "scan");
    uint64_t sources[NODES], targets[NODES], count = 0, edges = 0, seen[NODES] = {0};
    float weights[NODES];
    ea_cursor at = {0};
    ea_nodes page = {0};
    for (uint64_t i = 0; i < NODES; i++) {
        sources[i] = i;
        targets[i] = (i * 7 + 1) % NODES;
        weights[i] = (float)i;
    }
    cr_assert_eq(ea_graph_create(c, "links", NULL), EA_OK);
    const ea_graph_edges all = {
        .sources = sources, .targets = targets, .weights = weights, .count = NODES};
    cr_assert_eq(ea_graph_add_edges(c, "links", &all, NULL), EA_OK);
    cr_assert_eq(ea_graph_remove_nodes(c, "links", sources + 10, 20, NULL), EA_OK);
    while (!at.at_end) {
        cr_assert_eq(ea_scan_nodes(c, "links", &at, 17, true, &page), EA_OK, "%s",
                     ea_error_text(c));
        for (uint64_t i = 0; i < page.count; i++) {
            if (!page.found[i]) continue;
            uint64_t id = page.ids[i];
            cr_assert(id < NODES && (id < 10 || id >= 30) && !seen[id]++);
            count++;
            for (uint64_t e = page.offsets[i]; e < page.offsets[i + 1]; e++, edges++)
                cr_assert(page.targets[e] == targets[id] && page.weights[e] == weights[id]);
        }
        if (at.position == 17) /* all of it is another after the first page */
            cr_assert_eq(ea_graph_scale(c, "links", 0.5f, NULL), EA_OK);
    }
    cr_assert_eq(count, NODES - 20);
    ea_graph_info info;
    cr_assert_eq(ea_graph_describe(c, "links", &info), EA_OK);
    cr_assert_eq(edges, info.edges);
    cr_assert_neq(at.version, info.version);
    ea_nodes_free(&page);
    cr_assert_eq(ea_graph_fetch_nodes(c, "links", sources, 3, false, &page), EA_OK);
    cr_assert(page.ids == NULL && page.positions == 0, "by id all is as before");
    ea_nodes_free(&page);
    ea_close(c);
    scene_close(&s);
}
