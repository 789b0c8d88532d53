/* The GPU process's server over the simulated device: rows bound to rows. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "tests/support/gpu_bind.h"

static struct completion ask(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o));
}

static void expect_right(struct gpu_peer *p, struct order o, const struct ask_rows *first,
                         const struct ask_rows *other)
{
    struct completion c = ask(p, o);
    cr_assert_eq(c.result, RESULT_OK, "dimension %u, form %u: result %u", o.run.dimension,
                 o.run.form, c.result);
    cr_assert(bind_right(p, &o, first, other),
              "dimension %u, form %u, normalized %u, %llu with %llu", o.run.dimension, o.run.form,
              o.run.normalize, (unsigned long long)o.run.list_count,
              (unsigned long long)o.run.other.count);
}

/* Both forms, in order and one against many. */
static void expect_all_forms(struct gpu_peer *p, const struct ask_rows *a, const struct ask_rows *b,
                             uint64_t count, bool a_comes, bool b_comes)
{
    for (int form = HRR_BIND; form <= HRR_UNBIND_EXACT; form++)
        for (int normalized = 0; normalized < 2; normalized++)
            for (int ones = 0; ones < 4 && hrr_has_form(a->dimension, (enum hrr_form)form);
                 ones++) {
                struct bind_side first = {a, ones & 1 ? 1 : count, a_comes};
                struct bind_side other = {b, ones & 2 ? 1 : count, b_comes};
                expect_right(p, bind_ask(p, &first, &other, (enum hrr_form)form, normalized), a, b);
            }
}

static const uint32_t dimensions[] = {1, 2, 7, 31, 32, 33, 64, 500, 768, 769, 1024};

Test(server_bind, rows_that_come)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        struct ask_rows a = ask_make(1, 0, 0, dimensions[i], 5, i);
        struct ask_rows b = ask_make(1, 0, 0, dimensions[i], 5, i + 100);
        memset(a.plain + a.dimension, 0, a.dimension * sizeof(float)); /* zeros stay zeros */
        expect_all_forms(&p, &a, &b, 5, true, true);
        ask_free(&a);
        ask_free(&b);
    }
    peer_close(&p);
}

Test(server_bind, rows_of_replicas)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        struct ask_rows a = ask_make(1, 10 + i, 3, dimensions[i], 40, i);
        struct ask_rows b = ask_make(1, 40 + i, 5, dimensions[i], 9, i + 100);
        cr_assert_eq(ask(&p, ask_upload(&p, &a, true, 0, 40)).result, RESULT_OK);
        cr_assert_eq(ask(&p, ask_upload(&p, &b, true, 0, 9)).result, RESULT_OK);
        expect_all_forms(&p, &a, &b, 30, false, false);
        expect_all_forms(&p, &a, &a, 30, false, false);
        expect_all_forms(&p, &a, &b, 9, false, true);
        expect_all_forms(&p, &b, &a, 9, true, false);
        ask(&p, ask_forget(&a));
        ask(&p, ask_forget(&b));
        ask_free(&a);
        ask_free(&b);
    }
    peer_close(&p);
}

/* Passes for want of memory and to be short; input and output in pieces. */
Test(server_bind, in_pieces_and_passes)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    for (uint32_t d = 769; d <= 1024; d += 255) {
        struct ask_rows a = ask_make(1, d, 1, d, 700, 1), b = ask_make(1, d + 1, 1, d, 700, 2);
        cr_assert_eq(ask(&p, ask_upload(&p, &a, true, 0, 700)).result, RESULT_OK);
        for (int normalized = 0; normalized < 2; normalized++) {
            struct bind_side first = {&a, 700, false}, other = {&b, 700, true};
            expect_right(&p, bind_ask(&p, &first, &other, HRR_UNBIND, normalized), &a, &b);
        }
        ask_free(&a);
        ask_free(&b);
    }
    peer_close(&p);
    peer_open(&p, "vram_mib=64 multiply_adds=100000000", 4); /* 6 MiB of it for requests */
    struct ask_rows a = ask_make(1, 3, 1, 1024, 100, 1);
    cr_assert_eq(ask(&p, ask_upload(&p, &a, true, 0, 100)).result, RESULT_OK);
    struct bind_side both = {&a, 1000, false};
    expect_right(&p, bind_ask(&p, &both, &both, HRR_BIND, true), &a, &a);
    cr_assert_gt(atomic_load(&p.share->usage.split), 0);
    ask_free(&a);
    peer_close(&p);
}

/* Others are run between the passes of a long one, and an upload makes a second version. */
Test(server_bind, others_pass_between)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256 multiply_adds=1000", 1);
    struct ask_rows a = ask_make(1, 1, 1, 512, 300, 1), next = ask_make(1, 1, 2, 512, 300, 2);
    cr_assert_eq(ask(&p, ask_upload(&p, &a, true, 0, 300)).result, RESULT_OK);
    struct bind_side many = {&a, 6000, false}, few = {&a, 3, true};
    struct order slow = bind_ask(&p, &many, &many, HRR_BIND, false);
    struct order quick = bind_ask(&p, &few, &few, HRR_BIND, false);
    uint64_t tokens[3] = {peer_order(&p, slow)};
    tokens[1] = peer_order(&p, ask_upload(&p, &next, false, 0, 300));
    tokens[2] = peer_order(&p, quick);
    for (int i = 0; i < 3; i++) {
        struct completion c = peer_completion(&p);
        cr_assert(c.result == RESULT_OK || (c.token == tokens[1] && c.result == RESULT_NO_VERSION));
    }
    cr_assert(bind_right(&p, &slow, &a, &a), "it read a later version");
    cr_assert(bind_right(&p, &quick, &a, &a));
    ask_free(&a);
    ask_free(&next);
    peer_close(&p);
}

static void expect_bad(struct gpu_peer *p, struct order o, uint64_t pair)
{
    struct completion c = ask(p, o);
    cr_assert_eq(c.result, RESULT_BAD_ROW, "result %u", c.result);
    cr_assert_eq(c.number, pair, "pair %llu, not %llu", (unsigned long long)c.number,
                 (unsigned long long)pair);
}

/* In few rows, which travel as one copy, and in many, which are bound in passes. */
Test(server_bind, names_a_pair_without_a_result)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    for (uint64_t n = 20; n <= 2000; n += 1980) {
        struct ask_rows a = ask_make(1, 0, 0, 96, n, 1), b = ask_make(1, 0, 0, 96, n, 2);
        struct bind_side first = {&a, n, true}, other = {&b, n, true}, one = {&b, 1, true};
        struct order o = bind_ask(&p, &first, &other, HRR_BIND, false);
        ((float *)peer_at(&p, o.run.rows))[(n - 1) * 96 + 95] = NAN;
        expect_bad(&p, o, n - 1);
        ((float *)peer_at(&p, o.run.other.rows))[(n - 3) * 96] = 3e38f;
        expect_bad(&p, o, n - 3);
        o = bind_ask(&p, &first, &one, HRR_UNBIND, false);
        ((float *)peer_at(&p, o.run.other.rows))[5] = INFINITY;
        expect_bad(&p, o, 0);
        o = bind_ask(&p, &first, &other, HRR_BIND, false); /* both are finite, the result is not */
        for (uint32_t i = 0; i < 96; i++) {
            ((float *)peer_at(&p, o.run.rows))[(n - 2) * 96 + i] = 1e18f;
            ((float *)peer_at(&p, o.run.other.rows))[(n - 2) * 96 + i] = 1e18f;
        }
        expect_right(&p, o, &a, &b);
        for (uint32_t i = 0; i < 96; i++) {
            ((float *)peer_at(&p, o.run.rows))[(n - 2) * 96 + i] = 1.5e18f;
            ((float *)peer_at(&p, o.run.other.rows))[(n - 2) * 96 + i] = 1e18f;
        }
        o.run.normalize = true; /* only its norm is not finite */
        expect_bad(&p, o, n - 2);
        ask_free(&a);
        ask_free(&b);
    }
    peer_close(&p);
}

Test(server_bind, refuses_what_makes_no_sense)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows a = ask_make(1, 1, 1, 64, 20, 1), b = ask_make(1, 2, 1, 64, 20, 2);
    struct ask_rows wide = ask_make(1, 3, 1, 65, 20, 3), alien = ask_make(2, 4, 1, 64, 20, 3);
    const struct ask_rows *all[] = {&a, &b, &wide, &alien};
    for (int i = 0; i < 4; i++)
        cr_assert_eq(ask(&p, ask_upload(&p, all[i], true, 0, 20)).result, RESULT_OK);
    struct bind_side first = {&a, 7, false}, other = {&b, 7, false}, sent = {&a, 7, true};
    const struct order sound = bind_ask(&p, &first, &other, HRR_BIND, false);
    const struct order comes = bind_ask(&p, &sent, &other, HRR_BIND, false);
    struct order bad[14];
    for (int i = 0; i < 14; i++)
        bad[i] = i < 9 ? sound : comes;
    bad[0].run.form = HRR_UNBIND_EXACT + 1;
    bad[1].run.list_count = 6;
    bad[2].run.other.count = 0;
    bad[3].run.other.positions = PLACE_NONE;
    bad[4].other_replica = wide.replica;
    bad[5].other_replica = alien.replica;
    bad[6].run.other.row_count = 21;
    bad[7].run.out_scores = PEER_HEAP_BYTES - 64;
    bad[8].run.other.positions = PEER_HEAP_BYTES - 4;
    bad[9].run.row_count = 8;
    bad[10].run.positions = bad[10].run.rows;
    bad[11].run.rows = PEER_HEAP_BYTES - 64;
    bad[12].replica = 1;
    bad[13].run.other.rows = bad[13].run.rows;
    for (int i = 0; i < 14; i++)
        cr_assert_eq(ask(&p, bad[i]).result, RESULT_REFUSED, "order %d", i);
    ((uint32_t *)peer_at(&p, sound.run.other.positions))[3] = 20;
    cr_assert_eq(ask(&p, sound).result, RESULT_REFUSED, "a position outside of its replica");
    ((uint32_t *)peer_at(&p, sound.run.other.positions))[3] = 1;
    struct order one = sound;
    one.run.other.count = 1;
    ((uint32_t *)peer_at(&p, one.run.other.positions))[0] = 20;
    cr_assert_eq(ask(&p, one).result, RESULT_REFUSED, "that of one row");
    ((uint32_t *)peer_at(&p, one.run.other.positions))[0] = 19;
    expect_right(&p, one, &a, &b);
    expect_right(&p, sound, &a, &b);
    for (int i = 0; i < 4; i++)
        ask_free((struct ask_rows *)all[i]);
    peer_close(&p);
}

static void expect_missing(struct gpu_peer *p, struct order o, uint64_t operand)
{
    struct completion c = ask(p, o);
    cr_assert_eq(c.result, RESULT_NO_REPLICA);
    cr_assert_eq(c.number, operand);
}

Test(server_bind, tells_which_replica_is_missing)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct ask_rows a = ask_make(1, 1, 4, 64, 20, 1), b = ask_make(1, 2, 6, 64, 20, 2);
    struct bind_side first = {&a, 7, false}, other = {&b, 7, false};
    struct order o = bind_ask(&p, &first, &other, HRR_BIND, false);
    expect_missing(&p, o, 0);
    cr_assert_eq(ask(&p, ask_upload(&p, &a, true, 0, 20)).result, RESULT_OK);
    expect_missing(&p, o, 1);
    cr_assert_eq(ask(&p, ask_upload(&p, &b, true, 0, 20)).result, RESULT_OK);
    expect_right(&p, o, &a, &b);
    o.other_version = 5;
    expect_missing(&p, o, 1);
    o.other_version = 6;
    ask(&p, ask_forget(&a));
    expect_missing(&p, o, 0);
    ask_free(&a);
    ask_free(&b);
    peer_close(&p);
}

/* More dimensions than tables are kept for. */
Test(server_bind, tables_of_many_dimensions)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    for (int round = 0; round < 2; round++)
        for (uint32_t d = 1; d <= 40; d++) {
            struct ask_rows a = ask_make(1, 0, 0, d, 3, d);
            struct bind_side side = {&a, 3, true};
            expect_right(&p, bind_ask(&p, &side, &side, HRR_BIND, false), &a, &a);
            ask_free(&a);
        }
    peer_close(&p);
}

Test(server_bind, that_never_fit_are_out_of_memory)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4); /* 6 MiB of it for requests */
    struct ask_rows a = ask_make(1, 0, 0, 1024, 2000, 3);
    struct bind_side many = {&a, 2000, true}, few = {&a, 20, true};
    cr_assert_eq(ask(&p, bind_ask(&p, &many, &few, HRR_BIND, false)).result, RESULT_REFUSED);
    cr_assert_eq(ask(&p, bind_ask(&p, &many, &many, HRR_BIND, false)).result, RESULT_NO_MEMORY);
    expect_right(&p, bind_ask(&p, &few, &few, HRR_BIND, false), &a, &a);
    ask_free(&a);
    peer_close(&p);
}

/* Host memory that is not there: the request is refused for want of memory, and the next has it. */
Test(server_bind, no_memory_for_tables)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    for (uint32_t d = 50; d < 53; d++) {
        struct ask_rows a = ask_make(1, 0, 0, d, 3, d);
        struct bind_side side = {&a, 3, true};
        struct order o = bind_ask(&p, &side, &side, HRR_BIND, false);
        fault_arm(d - 49); /* of an order's sites there are two */
        struct completion c = ask(&p, o);
        bool fired = fault_hits() >= d - 49;
        fault_arm(0);
        cr_assert_eq(fired, d < 52);
        cr_assert_eq(c.result, fired ? RESULT_NO_MEMORY : RESULT_OK);
        expect_right(&p, o, &a, &a);
        ask_free(&a);
    }
    peer_close(&p);
}
