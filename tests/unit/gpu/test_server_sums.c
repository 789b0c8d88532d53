/* The GPU process's server over the simulated device: sums of lists of rows. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/support/gpu_sums.h"

static struct completion ask(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o));
}

static void expect_right(struct gpu_peer *p, const struct sums *s)
{
    struct order o = sums_ask(p, s);
    struct completion c = ask(p, o);
    cr_assert_eq(c.result, RESULT_OK, "dimension %u: result %u", o.run.dimension, c.result);
    cr_assert(sums_right(p, &o, s->of),
              "dimension %u, %llu rows in %llu lists, weighted %d, unit %d", o.run.dimension,
              (unsigned long long)s->rows, (unsigned long long)s->lists, s->weighted, s->unit);
}

/* Short lists, and some of several pieces. */
Test(server_sums, every_shape)
{
    static const uint32_t dimensions[] = {1, 31, 32, 100, 1024};
    static const struct {
        uint64_t rows, lists;
    } shapes[] = {{1, 1}, {40, 7}, {256, 1}, {257, 1}, {1500, 3}, {600, 600}};
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++) {
        struct ask_rows r = ask_make(1, 1 + d, 1, dimensions[d], 1500, d);
        cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 1500)).result, RESULT_OK);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int way = 0; way < 8; way++)
                expect_right(&p, &(struct sums){.of = &r,
                                                .rows = shapes[i].rows,
                                                .lists = shapes[i].lists,
                                                .comes = way & 1,
                                                .weighted = way & 2,
                                                .unit = way & 4});
        ask_free(&r);
    }
    peer_close(&p);
}

Test(server_sums, name_what_has_no_sum)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows r = ask_make(1, 0, 0, 40, 600, 1);
    const struct sums s = {.of = &r, .rows = 600, .lists = 60, .comes = true};
    struct order o = sums_ask(&p, &s);
    float *rows = peer_at(&p, o.run.rows);
    rows[77 * 40 + 3] = NAN;
    struct completion c = ask(&p, o);
    cr_assert(c.result == RESULT_BAD_ROW && c.number == 77, "%u, %llu", c.result,
              (unsigned long long)c.number);
    for (uint32_t i = 0; i < 40; i++) /* each has a norm, and not their sum */
        rows[77 * 40 + i] = rows[78 * 40 + i] = 2e18f;
    c = ask(&p, o);
    cr_assert(c.result == RESULT_BAD_ROW && c.number == 7, "%u, %llu", c.result,
              (unsigned long long)c.number);
    expect_right(&p, &s);
    ask_free(&r);
    peer_close(&p);
}

Test(server_sums, refuses_what_makes_no_sense)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows r = ask_make(1, 1, 1, 64, 600, 1);
    cr_assert_eq(ask(&p, ask_upload(&p, &r, true, 0, 600)).result, RESULT_OK);
    const struct sums s = {.of = &r, .rows = 600, .lists = 2, .weighted = true};
    const struct order sound = sums_ask(&p, &s);
    struct order bad[10];
    for (int i = 0; i < 10; i++)
        bad[i] = sound;
    bad[0].run.query_count = 0;
    bad[1].run.k = 0;
    bad[2].run.k = 5;
    bad[3].run.firsts = PLACE_NONE;
    bad[4].run.firsts = PEER_HEAP_BYTES - 8;
    bad[5].run.offsets = PEER_HEAP_BYTES - 8;
    bad[6].run.list_count = 599; /* the last offset is behind it */
    bad[7].run.weights = PEER_HEAP_BYTES - 64;
    bad[8].run.positions = PLACE_NONE;
    bad[9].run.out_scores = PEER_HEAP_BYTES - 64;
    for (int i = 0; i < 10; i++)
        cr_assert_eq(ask(&p, bad[i]).result, RESULT_REFUSED, "order %d", i);
    ((uint32_t *)peer_at(&p, sound.run.positions))[599] = 600;
    cr_assert_eq(ask(&p, sound).result, RESULT_REFUSED);
    ((uint32_t *)peer_at(&p, sound.run.positions))[599] = 0;
    ((uint64_t *)peer_at(&p, sound.run.firsts))[1] = 5;
    cr_assert_eq(ask(&p, sound).result, RESULT_REFUSED);
    expect_right(&p, &s);
    ask_free(&r);
    peer_close(&p);
}
