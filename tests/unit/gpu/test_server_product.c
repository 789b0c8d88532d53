/* The GPU process's server over the simulated device: products of lists of rows. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/support/gpu_bind.h"

static struct completion ask(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o));
}

static void expect_right(struct gpu_peer *p, struct order o, const struct ask_rows *r)
{
    struct completion c = ask(p, o);
    cr_assert_eq(c.result, RESULT_OK, "dimension %u: result %u", o.run.dimension, c.result);
    cr_assert(product_right(p, &o, r), "dimension %u, normalized %u, %llu lists", o.run.dimension,
              o.run.normalize, (unsigned long long)o.run.query_count);
}

static const uint32_t dimensions[] = {1, 7, 32, 33, 500, 768, 769, 1024};

Test(server_product, rows_that_come_and_of_replicas)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        struct ask_rows r = ask_make(1, 10 + i, 3, dimensions[i], 40, i);
        cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 40)).result, RESULT_OK);
        for (int way = 0; way < 8; way++) {
            struct bind_side side = {&r, way & 4 ? 1 : 40, way & 1};
            expect_right(&p, product_ask(&p, &side, way & 2), &r);
        }
        ask(&p, ask_forget(&r));
        ask_free(&r);
    }
    peer_close(&p);
}

/* A slow device, and one with little memory, make passes of few lists. */
Test(server_product, in_passes)
{
    static const char *const settings[] = {"vram_mib=256 multiply_adds=100", "vram_mib=64"};
    for (int i = 0; i < 2; i++) {
        struct gpu_peer p = {0};
        peer_open(&p, settings[i], 4);
        struct ask_rows r = ask_make(1, 1, 3, 1000, 60, 5);
        cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 60)).result, RESULT_OK);
        struct bind_side side = {&r, 900, false};
        expect_right(&p, product_ask(&p, &side, true), &r);
        expect_right(&p, product_ask(&p, &side, false), &r);
        ask_free(&r);
        peer_close(&p);
    }
}

Test(server_product, names_what_has_no_result)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 multiply_adds=100", 4);
    struct ask_rows r = ask_make(1, 1, 3, 96, 60, 5);
    struct bind_side side = {&r, 60, true};
    for (int bad = 0; bad < 3; bad++) {
        struct order o = product_ask(&p, &side, bad == 2);
        const uint64_t *offsets = peer_at(&p, o.run.offsets);
        float *rows = peer_at(&p, o.run.rows);
        for (uint64_t n = offsets[18] * 96; n < offsets[19] * 96 && bad; n++)
            rows[n] = bad == 1 ? 1e18f : 1e9f; /* four of them overflow, or their norm */
        if (bad == 0) rows[55 * 96 + 3] = NAN;
        struct completion c = ask(&p, o);
        if (bad == 2 && c.result == RESULT_OK) continue; /* 1e36 times 96 has a norm */
        cr_assert_eq(c.result, RESULT_BAD_ROW, "way %d: result %u", bad, c.result);
        cr_assert_eq(c.number, bad == 0 ? 55 : 18, "way %d: %llu", bad,
                     (unsigned long long)c.number);
    }
    ask_free(&r);
    peer_close(&p);
}

Test(server_product, refuses_what_makes_no_sense)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows r = ask_make(1, 1, 3, 64, 20, 5);
    cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 20)).result, RESULT_OK);
    struct bind_side listed = {&r, 20, false}, sent = {&r, 20, true};
    const struct order sound = product_ask(&p, &listed, false),
                       comes = product_ask(&p, &sent, false);
    struct order bad[9];
    for (int i = 0; i < 9; i++)
        bad[i] = i < 6 ? sound : comes;
    bad[0].run.k = 0;
    bad[1].run.query_count = 0;
    bad[2].run.positions = PLACE_NONE;
    bad[3].run.offsets = PEER_HEAP_BYTES - 8;
    bad[4].run.row_count = 21;
    bad[5].run.out_scores = PEER_HEAP_BYTES - 64;
    bad[6].run.list_count = 19;
    bad[7].run.positions = bad[7].run.rows;
    bad[8].replica = 1;
    for (int i = 0; i < 9; i++)
        cr_assert_eq(ask(&p, bad[i]).result, RESULT_REFUSED, "order %d", i);
    uint64_t *offsets = peer_at(&p, sound.run.offsets), kept = offsets[2];
    offsets[2] = 21;
    cr_assert_eq(ask(&p, sound).result, RESULT_REFUSED, "an offset past the rows");
    offsets[2] = offsets[1] - 1;
    cr_assert_eq(ask(&p, sound).result, RESULT_REFUSED, "offsets that fall");
    offsets[2] = kept;
    expect_right(&p, sound, &r);
    ask_free(&r);
    peer_close(&p);
}
