/* The GPU process's server over the simulated device: states completed from the rows of a
 * replica. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/support/gpu_complete.h"

static struct completion ask(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o));
}

static void expect_right(struct gpu_peer *p, struct order o, const struct ask_rows *r)
{
    struct completion c = ask(p, o);
    cr_assert_eq(c.result, RESULT_OK, "dimension %u, %llu states, %u rounds: result %u",
                 o.run.dimension, (unsigned long long)o.run.query_count, o.run.k, c.result);
    cr_assert(complete_right(p, &o, r), "dimension %u, %llu states, %u rounds", o.run.dimension,
              (unsigned long long)o.run.query_count, o.run.k);
}

Test(server_complete, states_of_all_shapes)
{
    static const uint32_t dimensions[] = {1, 7, 32, 33, 100, 769};
    static const uint64_t counts[] = {40, 1, 1024, 2100, 1300, 60};
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        struct ask_rows r = ask_make(1, 10 + i, 3, dimensions[i], counts[i], i);
        cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, counts[i])).result, RESULT_OK);
        for (int form = 0; form < 4; form++) {
            expect_right(&p, complete_ask(&p, &r, 1, 1, form & 1, form & 2), &r);
            expect_right(&p, complete_ask(&p, &r, 13, 6, form & 1, form & 2), &r);
        }
        ask(&p, ask_forget(&r));
        ask_free(&r);
    }
    peer_close(&p);
}

/* What a mask leaves out may be anything, in few states, which are checked by one thread, and in
 * many, by the copiers; what it names may not. */
Test(server_complete, unknown_numbers_are_anything)
{
    enum { D = 100, MANY = 3000 };
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    struct ask_rows r = ask_make(1, 1, 1, D, 50, 7);
    cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 50)).result, RESULT_OK);
    for (uint64_t states = 3; states <= MANY; states += MANY - 3) {
        struct order o = complete_ask(&p, &r, states, 2, true, true);
        float *cues = peer_at(&p, o.run.queries);
        const uint8_t *known = peer_at(&p, o.run.weights);
        for (uint64_t i = 0; i < states * D; i++)
            if (!known[i % D]) cues[i] = i % 2 ? NAN : 3e38F;
        expect_right(&p, o, &r);
        o = complete_ask(&p, &r, states, 2, true, true);
        cues = peer_at(&p, o.run.queries), known = peer_at(&p, o.run.weights);
        cues[(states - 2) * D + 1] = NAN; /* not known */
        cues[(states - 1) * D + 3] = NAN;
        cr_assert(!known[1] && known[3]);
        struct completion c = ask(&p, o);
        cr_assert(c.result == RESULT_BAD_QUERY && c.number == states - 1, "%u, %llu", c.result,
                  (unsigned long long)c.number);
    }
    ask_free(&r);
    peer_close(&p);
}

/* More states than fit at once: groups, one after the other. */
Test(server_complete, in_groups)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows r = ask_make(1, 1, 1, 64, 3000, 7);
    cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 3000)).result, RESULT_OK);
    expect_right(&p, complete_ask(&p, &r, 300, 2, true, true), &r);
    ask_free(&r);
    peer_close(&p);
}

Test(server_complete, bad_states_and_orders)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows r = ask_make(1, 1, 1, 20, 50, 7);
    cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 50)).result, RESULT_OK);
    struct order o = complete_ask(&p, &r, 4, 2, true, true), bad = o;
    ((float *)peer_at(&p, o.run.queries))[2 * 20 + 6] = NAN; /* it is known */
    struct completion c = ask(&p, o);
    cr_assert(c.result == RESULT_BAD_QUERY && c.number == 2, "%u, %llu", c.result,
              (unsigned long long)c.number);
    bad.run.k = 0;
    cr_assert_eq(ask(&p, bad).result, RESULT_REFUSED);
    bad.run.k = 101;
    cr_assert_eq(ask(&p, bad).result, RESULT_REFUSED);
    bad = o, bad.run.threshold = NAN;
    cr_assert_eq(ask(&p, bad).result, RESULT_REFUSED);
    bad = o, bad.run.list_count = 3;
    cr_assert_eq(ask(&p, bad).result, RESULT_REFUSED);
    bad = o, bad.run.weights = UINT64_MAX / 2;
    cr_assert_eq(ask(&p, bad).result, RESULT_REFUSED);
    bad = o, bad.run.out_ids = PLACE_NONE;
    cr_assert_eq(ask(&p, bad).result, RESULT_REFUSED);
    bad = o, bad.run.row_count = 49;
    cr_assert_eq(ask(&p, bad).result, RESULT_REFUSED);
    bad = o, bad.run.query_count = 0;
    cr_assert_eq(ask(&p, bad).result, RESULT_REFUSED);
    o = complete_ask(&p, &r, 4, 2, true, true);
    expect_right(&p, o, &r);
    ask_free(&r);
    peer_close(&p);
}
