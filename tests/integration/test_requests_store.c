/* What changes a collection, through the C client: upload, replace, delete, fetch, versions,
 * spaces, lists, memory. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/sets.h"

static ea_collection_info describe(ea_client *c, const char *name)
{
    ea_collection_info info;
    cr_assert_eq(ea_collection_describe(c, name, &info), EA_OK, "%s", ea_error_text(c));
    return info;
}

Test(requests_store, upsert_replaces_and_versions_rise)
{
    enum { D = 12, N = 40 };
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    ea_collection_info info;
    cr_assert_eq(ea_collection_create(c, "rows", D, EA_DOT, &info), EA_OK);
    cr_assert_str_eq(info.name, "rows");
    cr_assert_eq(info.dimension, D);
    cr_assert_eq(info.metric, EA_DOT);
    cr_assert_eq(info.rows, 0);
    cr_assert_eq(ea_collection_create(c, "rows", D, EA_DOT, &info), EA_ALREADY_EXISTS);
    float rows[N * D];
    uint64_t ids[N];
    for (uint64_t i = 0; i < N; i++)
        ids[i] = 5 * i;
    reference_fill(1, rows, N * D);
    ea_upsert_counts counts;
    cr_assert_eq(
        ea_upsert(
            c,
            &(ea_rows){.collection = "rows", .ids = ids, .rows = rows, .count = N, .dimension = D},
            &counts),
        EA_OK);
    uint64_t version = describe(c, "rows").version;
    cr_assert_eq(counts.version, version);
    reference_fill(2, rows, 10 * D); /* the first ten anew, and ten more */
    for (uint64_t i = 10; i < 20; i++)
        ids[i] = 1000 + i;
    cr_assert_eq(
        ea_upsert(
            c,
            &(ea_rows){.collection = "rows", .ids = ids, .rows = rows, .count = 20, .dimension = D},
            &counts),
        EA_OK);
    cr_assert_eq(counts.replaced, 10);
    cr_assert_eq(counts.inserted, 10);
    cr_assert_eq(counts.rows, N + 10);
    cr_assert_eq(describe(c, "rows").version, version + 1);
    ea_result r = {0};
    uint64_t ask[4] = {0, 1010, 4, 5};
    cr_assert_eq(ea_fetch(c, "rows", ask, 4, &r), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(r.missing, 1);
    cr_assert(r.found[0] && r.found[1] && !r.found[2] && r.found[3]);
    cr_assert_eq(memcmp(r.vectors, rows, D * 4), 0);
    cr_assert_eq(memcmp(r.vectors + D, rows + 10 * D, D * 4), 0);
    static const float zeros[D];
    cr_assert_eq(memcmp(r.vectors + 2 * D, zeros, D * 4), 0);
    cr_assert_eq(memcmp(r.vectors + 3 * D, rows + D, D * 4), 0);
    cr_assert_eq(r.meta->version, version + 1);
    cr_assert_eq(r.meta->backend, EA_BACKEND_CPU);
    /* With a GPU, fetching is still the CPU's. */
    const char *why = getenv("ENGRAM_TEST_GPU") ? "chosen_faster" : "gpu_absent";
    cr_assert_str_eq(ea_reason_name(r.meta->reason), why);
    ea_result_free(&r);
    ea_close(c);
    scene_close(&s);
}

static void fetch_equals(ea_client *c, const float *rows, uint64_t count, uint32_t d)
{
    ea_result r = {0};
    cr_assert_eq(ea_fetch_range(c, "rows", 0, count, &r), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(r.rows, count);
    cr_assert_eq(memcmp(r.vectors, rows, count * d * sizeof *rows), 0);
    ea_result_free(&r);
}

/* One request with all rows of whole segments: they may stay where they came. */
Test(requests_store, upsert_of_all_rows_again_and_again)
{
    enum { D = 768, N = 1024, TIMES = 4 };
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    float *rows = malloc(sizeof *rows * N * D), one[D];
    uint64_t ids[N];
    for (uint64_t i = 0; i < N; i++)
        ids[i] = 7 * i;
    ea_rows all = {.collection = "rows", .ids = ids, .rows = rows, .count = N, .dimension = D};
    ea_rows last = {
        .collection = "rows", .ids = ids + N - 1, .rows = one, .count = 1, .dimension = D};
    cr_assert_eq(ea_collection_create(c, "rows", D, EA_DOT, NULL), EA_OK);
    for (uint64_t i = 0; i < TIMES; i++) {
        ea_upsert_counts counts;
        reference_fill(i, rows, N * D);
        cr_assert_eq(ea_upsert(c, &all, &counts), EA_OK, "%s", ea_error_text(c));
        cr_assert_eq(counts.replaced, i ? N : 0);
        fetch_equals(c, rows, N, D);
        reference_fill(TIMES + i, one, D);
        cr_assert_eq(ea_upsert(c, &last, NULL), EA_OK, "%s", ea_error_text(c));
        memcpy(rows + (N - 1) * D, one, sizeof one);
        fetch_equals(c, rows, N, D);
    }
    cr_assert_eq(ea_collection_drop(c, "rows"), EA_OK);
    free(rows);
    ea_close(c);
    scene_close(&s);
}

/* Deleting from both ends and the middle, then asking: the rows that stay are the right ones. */
Test(requests_store, delete_keeps_the_rest)
{
    enum { D = 20, N = 500 };
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    struct set t;
    set_make(&t, D, EA_COSINE, N, 6);
    set_send(&t, c);
    uint64_t gone[200];
    ea_delete_counts counts;
    size_t kept = 0, count = 0;
    for (size_t i = 0; i < N; i++) {
        if (i % 3 == 0 && count < 150) {
            gone[count++] = t.ids[i];
            continue;
        }
        memmove(t.rows + kept * D, t.rows + i * D, D * 4);
        t.ids[kept++] = t.ids[i];
    }
    gone[count++] = gone[0]; /* twice, and one that never was */
    gone[count++] = 77777777;
    uint64_t version = describe(c, t.name).version;
    cr_assert_eq(ea_delete(c, t.name, gone, count, &counts), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(counts.deleted, count - 2);
    cr_assert_eq(counts.missing, 2);
    cr_assert_eq(describe(c, t.name).version, version + 1);
    cr_assert_eq(describe(c, t.name).rows, kept);
    t.all.count = kept;
    set_expect_knn(&t, c, 20, NULL, NULL, NULL);
    ea_result r = {0}; /* every row once, by position */
    uint64_t seen = 0;
    for (uint64_t at = 0; at < kept; at += 100) {
        cr_assert_eq(ea_fetch_range(c, t.name, at, 100, &r), EA_OK, "%s", ea_error_text(c));
        for (uint64_t i = 0; i < r.rows; i++)
            for (size_t k = 0; k < kept; k++)
                if (t.ids[k] == r.ids[i])
                    seen += memcmp(r.vectors + i * D, t.rows + k * D, D * 4) == 0;
    }
    cr_assert_eq(seen, kept);
    cr_assert_eq(ea_fetch_range(c, t.name, kept + 5, 100, &r), EA_OK);
    cr_assert_eq(r.rows, 0);
    cr_assert_eq(ea_fetch_range(c, t.name, UINT64_MAX, UINT64_MAX, &r), EA_OK, "%s",
                 ea_error_text(c));
    cr_assert_eq(r.rows, 0);
    ea_result_free(&r);
    cr_assert_eq(ea_delete(c, t.name, t.ids, kept, &counts), EA_OK);
    cr_assert_eq(describe(c, t.name).rows, 0);
    t.all.count = 0;
    set_expect_knn(&t, c, 20, NULL, NULL, NULL);
    set_free(&t);
    ea_close(c);
    scene_close(&s);
}

static bool count_progress(uint64_t done, uint64_t total, void *user)
{
    uint64_t *last = user;
    cr_assert(done >= *last && done <= total);
    *last = done;
    return true;
}

/* 12 MiB through a limit of one: the library cuts it up, the rows arrive whole. */
Test(requests_store, upload_larger_than_a_request)
{
    enum { D = 256, N = 12000 };
    struct scene s;
    scene_open(&s, (const char *[]){"limits.request_body_mib=1", NULL});
    ea_client *c = scene_client(&s, "asker");
    struct set t;
    set_make(&t, D, EA_SQUARED_EUCLIDEAN, N, 2);
    cr_assert_eq(ea_collection_create(c, t.name, D, EA_SQUARED_EUCLIDEAN, NULL), EA_OK);
    ea_upsert_counts counts;
    uint64_t progress = 0;
    for (size_t i = 0; i < N; i++)
        t.ids[i] = i;
    cr_assert_eq(ea_upsert(c,
                           &(ea_rows){.collection = t.name,
                                      .ids = t.ids,
                                      .rows = t.rows,
                                      .count = N,
                                      .dimension = D,
                                      .progress = count_progress,
                                      .user = &progress},
                           &counts),
                 EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(counts.inserted, N);
    cr_assert_eq(progress, N);
    cr_assert_eq(describe(c, t.name).rows, N);
    set_expect_knn(&t, c, 10, NULL, NULL, NULL);
    cr_assert_eq(ea_collection_drop(c, t.name), EA_OK);
    set_free(&t);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- spaces and lists */

Test(requests_store, spaces_do_not_see_each_other)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *a = scene_client(&s, "space-a"), *b = scene_client(&s, "space-b");
    float row[4] = {1, 2, 3, 4}, other[4] = {4, 3, 2, 1};
    uint64_t id = 1;
    cr_assert_eq(ea_collection_create(a, "same", 4, EA_DOT, NULL), EA_OK);
    cr_assert_eq(ea_collection_describe(b, "same", &(ea_collection_info){0}), EA_NOT_FOUND);
    cr_assert_eq(ea_collection_drop(b, "same"), EA_NOT_FOUND);
    cr_assert_eq(ea_collection_create(b, "same", 4, EA_COSINE, NULL), EA_OK);
    cr_assert_eq(
        ea_upsert(
            a,
            &(ea_rows){.collection = "same", .ids = &id, .rows = row, .count = 1, .dimension = 4},
            NULL),
        EA_OK);
    cr_assert_eq(
        ea_upsert(
            b,
            &(ea_rows){.collection = "same", .ids = &id, .rows = other, .count = 1, .dimension = 4},
            NULL),
        EA_OK);
    ea_result r = {0};
    cr_assert_eq(ea_fetch(a, "same", &id, 1, &r), EA_OK);
    cr_assert_eq(memcmp(r.vectors, row, sizeof row), 0);
    cr_assert_eq(ea_fetch(b, "same", &id, 1, &r), EA_OK);
    cr_assert_eq(memcmp(r.vectors, other, sizeof other), 0);
    ea_result_free(&r);
    ea_collection_info *list;
    size_t count;
    cr_assert_eq(ea_collection_list(b, &list, &count), EA_OK);
    cr_assert_eq(count, 1);
    cr_assert_eq(list[0].metric, EA_COSINE);
    ea_collection_list_free(list);
    ea_stats stats;
    cr_assert_eq(ea_get_stats(a, &stats), EA_OK);
    cr_assert_eq(stats.collections, 1);
    cr_assert_eq(stats.rows, 1);
    cr_assert_eq(ea_collection_drop(a, "same"), EA_OK);
    cr_assert_eq(describe(b, "same").rows, 1);
    ea_close(a);
    ea_close(b);
    b = scene_client(&s, "space-b"); /* it outlives its connections */
    cr_assert_eq(describe(b, "same").rows, 1);
    cr_assert_eq(ea_collection_drop(b, "same"), EA_OK);
    ea_close(b);
    scene_close(&s);
}

Test(requests_store, a_list_of_many_pages)
{
    enum { COUNT = 300 };
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    ea_collection_info *list;
    size_t count = 9;
    cr_assert_eq(ea_collection_list(c, &list, &count), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(count, 0);
    ea_collection_list_free(list);
    char name[72];
    for (int i = 0; i < COUNT; i++) { /* every length up to the longest name */
        snprintf(name, sizeof name, "%03d%-*s", i * 7 % COUNT, i % 62, "");
        for (char *p = name; *p; p++)
            if (*p == ' ') *p = 'x';
        cr_assert_eq(ea_collection_create(c, name, 3, EA_DOT, NULL), EA_OK, "%s: %s", name,
                     ea_error_text(c));
    }
    cr_assert_eq(ea_collection_list(c, &list, &count), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(count, COUNT);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq((size_t)atoi(list[i].name), i, "by name");
        cr_assert_eq(ea_collection_drop(c, list[i].name), EA_OK, "%s", ea_error_text(c));
    }
    ea_collection_list_free(list);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- memory */

/* A collection's memory is what is promised, and all of it comes back. */
Test(requests_store, memory_of_a_collection)
{
    enum { D = 768, N = 20000 };
    struct scene s;
    scene_open(&s, NULL);
    struct set t;
    set_make(&t, D, EA_COSINE, N, 1);
    for (size_t i = 0; i < N; i++)
        t.ids[i] = i * 3;
    for (int round = 0; round < 3; round++) {
        ea_client *c = scene_client(&s, "asker");
        set_send(&t, c);
        ea_collection_info info = describe(c, t.name);
        uint64_t rows = (uint64_t)N * D * 4;
        cr_assert(info.row_bytes >= rows && info.row_bytes <= rows + rows / 10,
                  "%llu bytes for %llu", (unsigned long long)info.row_bytes,
                  (unsigned long long)rows);
        cr_assert(info.index_bytes <= 48ull * N, "%.1f bytes a row beside it",
                  (double)info.index_bytes / N);
        if (scaled_ms(1) == 1)
            cr_assert(process_resident_kib(s.daemon.pid) >= s.resident_kib + rows / 1024,
                      "the rows must be somewhere, else this test proves nothing");
        cr_assert_eq(ea_collection_drop(c, t.name), EA_OK);
        ea_close(c);
        scene_settle(&s);
    }
    set_free(&t);
    scene_close(&s);
}
