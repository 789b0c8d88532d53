/* The GPU process's server: orders that follow each other closely, orders that fail, orders with
 * numbers that make no sense, and more work than there is memory for. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_ask.h"
#include "tests/support/reference.h"
#include "tests/support/sweep.h"

static uint32_t result_of(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o)).result;
}

/* The rows change while passes over them are still to come. */
Test(server_order, a_request_of_many_passes_sees_one_version, .timeout = 900)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=16 granularity_kib=64 latency_us=200", 2); /* the slab: 1 MiB */
    struct ask_rows before = ask_make(1, 1, 5, 3, 20000, 1), after = ask_make(1, 1, 6, 3, 20000, 2);
    cr_assert_eq(result_of(&p, ask_upload(&p, &before, true, 0, before.count)), RESULT_OK);
    struct order scores = ask_scores(&p, &before, METRIC_DOT, 30, true, 3);
    struct order upload = ask_upload(&p, &after, false, 0, after.count);
    struct order knn = ask_knn(&p, &after, METRIC_COSINE, 3, 5, 4);
    peer_order(&p, scores);
    peer_order(&p, upload);
    peer_order(&p, knn);
    for (int i = 0; i < 3; i++) /* in which order they end is open */
        cr_assert_eq(peer_completion(&p).result, RESULT_OK);
    cr_assert(ask_right(&p, &scores, &before));
    cr_assert(ask_right(&p, &knn, &after));
    /* The ids alone are read late, too. */
    scores = ask_scores(&p, &after, METRIC_DOT, 1, true, 5);
    peer_order(&p, scores);
    peer_order(&p, ask_upload(&p, &before, false, 0, before.count));
    for (int i = 0; i < 2; i++)
        cr_assert_eq(peer_completion(&p).result, RESULT_OK);
    cr_assert(ask_right(&p, &scores, &after));
    ask_free(&before);
    ask_free(&after);
    peer_close(&p);
}

/* The second is small and overtakes the last pieces of the first where it can. */
Test(server_order, uploads_of_the_same_rows_keep_their_order, .timeout = 900)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 2);
    enum { ROWS = 600000, LAST = 10 };
    struct ask_rows first = ask_make(1, 1, 2, 4, ROWS, 1), last = ask_make(1, 1, 2, 4, LAST, 2);
    struct order fresh = ask_upload(&p, &first, true, 0, ROWS);
    struct order on_top = ask_upload(&p, &last, true, 0, LAST);
    struct order scores = ask_scores(&p, &first, METRIC_DOT, 1, false, 3);
    memcpy(first.plain + (ROWS - LAST) * 4, last.plain, LAST * 4 * sizeof(float));
    fresh.version = 0;
    on_top.upload.fresh = 0;
    on_top.upload.row_count = ROWS;
    on_top.upload.first = ROWS - LAST;
    for (uint64_t round = 0; round < 5; round++) {
        uint64_t one = peer_order(&p, fresh), two = peer_order(&p, on_top);
        cr_assert_eq(peer_done(&p, one).result, RESULT_OK);
        cr_assert_eq(peer_done(&p, two).result, RESULT_OK);
        cr_assert_eq(result_of(&p, scores), RESULT_OK);
        cr_assert(ask_right(&p, &scores, &first));
    }
    ask_free(&first);
    ask_free(&last);
    peer_close(&p);
}

/* However early it failed: what follows must not stand on what was there before. */
Test(server_order, nothing_stands_on_an_upload_that_failed, .timeout = 900)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 granularity_kib=64", 2);
    struct ask_rows r = ask_make(1, 1, 1, 8, 1000, 1);
    cr_assert_eq(result_of(&p, ask_upload(&p, &r, true, 0, 1000)), RESULT_OK);
    struct order good = ask_upload(&p, &r, false, 500, 500), bad = good;
    bad.upload.rows = PLACE_NONE;
    good.version = bad.version = 2;
    uint64_t one = peer_order(&p, bad), two = peer_order(&p, good);
    cr_assert_eq(peer_done(&p, one).result, RESULT_REFUSED);
    cr_assert_eq(peer_done(&p, two).result, RESULT_NO_REPLICA);
    r.version = 2;
    cr_assert_eq(result_of(&p, ask_knn(&p, &r, METRIC_DOT, 1, 1, 1)), RESULT_NO_REPLICA);
    r.version = 1;
    cr_assert_eq(result_of(&p, ask_knn(&p, &r, METRIC_DOT, 1, 1, 1)), RESULT_NO_REPLICA);
    /* Another space's nonsense tears nothing. */
    cr_assert_eq(result_of(&p, ask_upload(&p, &r, true, 0, 1000)), RESULT_OK);
    bad.space = 2;
    cr_assert_eq(result_of(&p, bad), RESULT_REFUSED);
    struct order o = ask_knn(&p, &r, METRIC_DOT, 1, 1, 1);
    cr_assert_eq(result_of(&p, o), RESULT_OK);
    cr_assert(ask_right(&p, &o, &r));
    ask_free(&r);
    peer_close(&p);
}

Test(server_order, refuses_numbers_that_lead_outside, .timeout = 900)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=1024 granularity_kib=64", 2);
    struct ask_rows r = ask_make(1, 1, 1, 4, 100, 1);
    cr_assert_eq(result_of(&p, ask_upload(&p, &r, true, 0, 100)), RESULT_OK);
    struct order o = ask_knn(&p, &r, METRIC_DOT, 1, 1, 1);
    o.space = 0;
    cr_assert_eq(result_of(&p, o), RESULT_REFUSED);
    o.space = UINT32_MAX;
    cr_assert_eq(result_of(&p, o), RESULT_REFUSED);
    /* One copy, and pieces. */
    for (uint64_t listed = 50; listed <= 3000000; listed *= 60000) {
        for (int own_lists = 0; own_lists <= 1; own_lists++) {
            o = ask_listed(&p, &r, METRIC_DOT, 2, listed, own_lists, 2);
            uint32_t *positions = peer_at(&p, o.run.positions);
            positions[listed - 1] = 100;
            cr_assert_eq(result_of(&p, o), RESULT_REFUSED);
            positions[listed - 1] = 99;
            cr_assert_eq(result_of(&p, o), RESULT_OK);
            cr_assert(ask_right(&p, &o, &r));
        }
        uint64_t *offsets = peer_at(&p, o.run.offsets);
        offsets[2] = listed + 1;
        cr_assert_eq(result_of(&p, o), RESULT_REFUSED);
        offsets[2] = listed;
        offsets[0] = offsets[1] + 1;
        cr_assert_eq(result_of(&p, o), RESULT_REFUSED);
        o = ask_average(&p, &r, listed, 3);
        ((uint32_t *)peer_at(&p, o.run.positions))[listed / 2] = UINT32_MAX;
        cr_assert_eq(result_of(&p, o), RESULT_REFUSED);
    }
    /* Offsets in pieces, wrong where two of them meet. */
    o = ask_listed(&p, &r, METRIC_DOT, 600000, 10, true, 4);
    uint64_t *offsets = peer_at(&p, o.run.offsets);
    offsets[(4 << 20) / 8] = offsets[(4 << 20) / 8 - 1] - 1;
    cr_assert_eq(result_of(&p, o), RESULT_REFUSED);
    ask_free(&r);
    peer_close(&p);
}

Test(server_order, answers_what_is_empty, .timeout = 900)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 granularity_kib=64", 2);
    struct ask_rows r = ask_make(1, 1, 1, 4, 100, 1), none = ask_make(1, 2, 1, 4, 0, 1);
    cr_assert_eq(result_of(&p, ask_upload(&p, &r, true, 0, 100)), RESULT_OK);
    cr_assert_eq(result_of(&p, ask_upload(&p, &none, true, 0, 0)), RESULT_OK);
    struct order orders[] = {
        ask_knn(&p, &r, METRIC_DOT, 0, 3, 1),
        ask_scores(&p, &r, METRIC_DOT, 0, true, 1),
        ask_listed(&p, &r, METRIC_DOT, 3, 0, 0, 1),
        ask_listed(&p, &r, METRIC_DOT, 3, 0, 1, 1),
        ask_average(&p, &r, 0, 1),
        ask_knn(&p, &none, METRIC_COSINE, 2, 3, 1),
        ask_scores(&p, &none, METRIC_DOT, 2, 1, 1),
    };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct order *o = &orders[i];
        if (!o->run.query_count) o->run.queries = PLACE_NONE;
        if (!o->run.query_count && o->run.operation == RUN_KNN)
            o->run.out_ids = o->run.out_scores = o->run.out_counts = PLACE_NONE;
        cr_assert_eq(result_of(&p, *o), RESULT_OK, "%zu", i);
        cr_assert(o->run.queries == PLACE_NONE || ask_right(&p, o, i < 5 ? &r : &none), "%zu", i);
    }
    ask_free(&r);
    ask_free(&none);
    peer_close(&p);
}

/* Small input, large output: pinned memory for the one must not keep the other waiting for ever. */
Test(server_order, many_results_at_once_do_not_lock_each_other_out, .timeout = 900)
{
    enum { SPACES = 16, EACH = 16, QUERIES = 400, K = 60 };
    struct gpu_peer p = {0};
    const char *slow = "vram_mib=1536 granularity_kib=64 latency_us=400000";
    const char *less_slow = "vram_mib=1536 granularity_kib=64 latency_us=50000";
    peer_open(&p, sweep_is_quick() ? less_slow : slow, SPACES);
    struct ask_rows r[SPACES];
    static struct order orders[SPACES * EACH];
    for (uint32_t s = 0; s < SPACES; s++) {
        r[s] = ask_make(s + 1, s + 1, 1, 64, 80, s);
        cr_assert_eq(result_of(&p, ask_upload(&p, &r[s], true, 0, r[s].count)), RESULT_OK);
    }
    for (uint32_t i = 0; i < SPACES * EACH; i++)
        orders[i] = ask_knn(&p, &r[i % SPACES], METRIC_COSINE, QUERIES, K, i);
    uint64_t first = p.token + 1;
    uint32_t count = SPACES * EACH / sweep_stride(4);
    for (uint32_t i = 0; i < count; i++)
        peer_order(&p, orders[i]);
    for (uint32_t i = 0; i < count; i++) {
        struct completion c = peer_completion(&p);
        cr_assert_eq(c.result, RESULT_OK);
        if (i % (16 * sweep_stride(8)) == 0) {
            const struct order *o = &orders[c.token - first];
            cr_assert(ask_right(&p, o, &r[o->space - 1]));
        }
    }
    for (uint32_t s = 0; s < SPACES; s++)
        ask_free(&r[s]);
    peer_close(&p);
}

/* What never fits is answered at once, and what fits only alone is not overtaken for ever. */
Test(server_order, large_requests_get_their_turn, .timeout = 900)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=44 granularity_kib=64 latency_us=300", 8); /* the slab: 4 MiB */
    struct ask_rows r[4];
    for (uint32_t s = 0; s < 4; s++) {
        r[s] = ask_make(s + 1, s + 1, 1, 16, 200, s);
        cr_assert_eq(result_of(&p, ask_upload(&p, &r[s], true, 0, r[s].count)), RESULT_OK);
    }
    struct order never = ask_knn(&p, &r[0], METRIC_DOT, 3000, 10, 1);
    struct order large = ask_knn(&p, &r[1], METRIC_DOT, 1500, 10, 1);
    struct order small[2] = {ask_knn(&p, &r[2], METRIC_DOT, 300, 1, 1),
                             ask_knn(&p, &r[3], METRIC_DOT, 300, 1, 1)};
    uint64_t under_way = 0, sent = 0, asked_never = 0, asked_large = 0;
    bool never_told = false, large_told = false;
    while (!never_told || !large_told || under_way) {
        while (under_way < 16 && (!never_told || !large_told)) {
            cr_assert(sent++ < 20000, "never %d, large %d", never_told, large_told);
            peer_order(&p, small[sent % 2]);
            under_way++;
            if (sent == 40) asked_never = peer_order(&p, never), under_way++;
            if (sent == 40) asked_large = peer_order(&p, large), under_way++;
        }
        struct completion c = peer_completion(&p);
        under_way--;
        cr_assert_eq(c.result, c.token == asked_never ? RESULT_NO_MEMORY : RESULT_OK, "%u: %d %d",
                     c.result, c.token == asked_never, c.token == asked_large);
        never_told |= c.token == asked_never;
        large_told |= c.token == asked_large;
    }
    cr_assert(ask_right(&p, &large, &r[1]));
    for (uint32_t s = 0; s < 4; s++)
        ask_free(&r[s]);
    peer_close(&p);
}
