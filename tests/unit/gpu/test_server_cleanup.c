/* The GPU process's server over the simulated device: rows unbound, and the best rows of a codebook
 * for each. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "kernels/topk.h"
#include "tests/support/gpu_bind.h"

static struct completion ask(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o));
}

/* Three replicas of one dimension. */
struct shelf {
    struct ask_rows codebook, cues, roles;
};

static struct shelf shelf_make(struct gpu_peer *p, uint32_t d, uint64_t count)
{
    struct shelf s = {ask_make(1, 1, 3, d, count, d + 1), ask_make(1, 2, 4, d, 40, d + 2),
                      ask_make(1, 3, 5, d, 50, d + 3)};
    const struct ask_rows *all[] = {&s.codebook, &s.cues, &s.roles};
    for (int i = 0; i < 3; i++)
        cr_assert_eq(ask(p, ask_upload(p, all[i], true, 0, all[i]->count)).result, RESULT_OK);
    return s;
}

static void shelf_free(struct gpu_peer *p, struct shelf *s)
{
    struct ask_rows *all[] = {&s->codebook, &s->cues, &s->roles};
    for (int i = 0; i < 3; i++) {
        ask(p, ask_forget(all[i]));
        ask_free(all[i]);
    }
}

static void expect_right(struct gpu_peer *p, const struct order *o, const struct shelf *s,
                         const struct bind_side *cue, const struct bind_side *other)
{
    struct completion c = ask(p, *o);
    cr_assert_eq(c.result, RESULT_OK, "dimension %u: result %u", o->run.dimension, c.result);
    cr_assert(cleanup_right(p, o, &s->codebook, cue->of, other->of),
              "dimension %u, metric %u, k %u, %llu pairs", o->run.dimension, o->run.metric,
              o->run.k, (unsigned long long)o->run.query_count);
}

/* Each operand comes, or is rows of a replica, the codebook among them; one beside many. */
Test(server_cleanup, all_operands)
{
    static const uint32_t dimensions[] = {1, 7, 33, 64, 500, 1024};
    static const float threshold = 0.01f;
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    for (size_t n = 0; n < sizeof dimensions / sizeof *dimensions; n++) {
        struct shelf s = shelf_make(&p, dimensions[n], 70);
        for (int way = 0; way < 32; way++) {
            const struct ask_rows *cues = way & 16 ? &s.codebook : &s.cues;
            struct bind_side cue = {cues, way & 1 ? 1 : 20, way & 2};
            struct bind_side other = {&s.roles, way & 4 ? 1 : 20, way & 8};
            struct cleanup_asked asked = {.codebook = &s.codebook,
                                          .metric = (enum metric)(METRIC_COSINE + way % 4),
                                          .k = way % 3 ? 5 : 100,
                                          .threshold = way % 5 ? NULL : &threshold};
            if (asked.metric > METRIC_SQUARED_EUCLIDEAN) asked.metric = METRIC_COSINE;
            struct order o = cleanup_ask(&p, &asked, &cue, &other);
            expect_right(&p, &o, &s, &cue, &other);
        }
        shelf_free(&p, &s);
    }
    peer_close(&p);
}

/* A slow device makes passes of few pairs. */
Test(server_cleanup, in_passes)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256 multiply_adds=100", 4);
    struct shelf s = shelf_make(&p, 96, 300);
    struct bind_side cue = {&s.cues, 100, false}, sent = {&s.roles, 50, true};
    struct bind_side listed = {&s.roles, 1, false};
    struct cleanup_asked asked = {.codebook = &s.codebook, .metric = METRIC_COSINE, .k = 3};
    struct order o = cleanup_ask(&p, &asked, &cue, &listed);
    expect_right(&p, &o, &s, &cue, &listed);
    cue.count = 50;
    o = cleanup_ask(&p, &asked, &cue, &sent);
    expect_right(&p, &o, &s, &cue, &sent);
    shelf_free(&p, &s);
    peer_close(&p);
}

static void expect_missing(struct gpu_peer *p, struct order o, uint64_t number)
{
    struct completion c = ask(p, o);
    cr_assert_eq(c.result, RESULT_NO_REPLICA);
    cr_assert_eq(c.number, number, "replica %llu", (unsigned long long)c.number);
}

Test(server_cleanup, tells_which_replica_is_missing)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct shelf s = shelf_make(&p, 64, 20);
    struct bind_side cue = {&s.cues, 7, false}, other = {&s.roles, 7, false};
    struct cleanup_asked asked = {.codebook = &s.codebook, .metric = METRIC_DOT, .k = 2};
    struct order o = cleanup_ask(&p, &asked, &cue, &other);
    expect_right(&p, &o, &s, &cue, &other);
    o.third_version++;
    expect_missing(&p, o, 2);
    o.other_version++;
    expect_missing(&p, o, 1);
    o.version++;
    expect_missing(&p, o, 0);
    shelf_free(&p, &s);
    peer_close(&p);
}

/* What comes and is not finite, and what is unbound and has no norm. */
Test(server_cleanup, names_a_pair_without_a_result)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 multiply_adds=100", 4);
    struct shelf s = shelf_make(&p, 96, 40);
    struct bind_side cue = {&s.cues, 30, true}, other = {&s.roles, 30, true};
    struct cleanup_asked asked = {.codebook = &s.codebook, .metric = METRIC_COSINE, .k = 2};
    for (int bad = 0; bad < 3; bad++) {
        struct order o = cleanup_ask(&p, &asked, &cue, &other);
        float *left = peer_at(&p, o.run.cue.rows), *with = peer_at(&p, o.run.other.rows);
        for (uint32_t i = 0; i < 96 && bad == 2; i++)
            left[28 * 96 + i] = 1.5e18f, with[28 * 96 + i] = 1e18f;
        if (bad == 0) left[25 * 96] = NAN;
        if (bad == 1) with[29 * 96 + 3] = INFINITY;
        struct completion c = ask(&p, o);
        cr_assert_eq(c.result, RESULT_BAD_ROW, "result %u", c.result);
        cr_assert_eq(c.number, bad == 0 ? 25 : bad == 1 ? 29 : 28);
    }
    shelf_free(&p, &s);
    peer_close(&p);
}

Test(server_cleanup, refuses_what_makes_no_sense)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct shelf s = shelf_make(&p, 64, 20);
    struct bind_side cue = {&s.cues, 7, false}, other = {&s.roles, 7, false};
    struct cleanup_asked asked = {.codebook = &s.codebook, .metric = METRIC_DOT, .k = 2};
    const struct order sound = cleanup_ask(&p, &asked, &cue, &other);
    struct order bad[12];
    for (int i = 0; i < 12; i++)
        bad[i] = sound;
    bad[0].run.form = HRR_BIND;
    bad[1].run.form = HRR_UNBIND_EXACT + 1;
    bad[2].run.k = 0;
    bad[3].run.k = TOPK_K_MAX + 1;
    bad[4].run.query_count = 6;
    bad[5].run.query_count = 8;
    bad[6].run.cue.row_count = 41;
    bad[7].run.other.row_count = 49;
    bad[8].run.row_count = 21;
    bad[9].run.out_ids = PEER_HEAP_BYTES - 64;
    bad[10].run.cue.positions = PEER_HEAP_BYTES - 4;
    bad[11].run.rows = sound.run.out_ids;
    for (int i = 0; i < 12; i++)
        cr_assert_eq(ask(&p, bad[i]).result, RESULT_REFUSED, "order %d", i);
    ((uint32_t *)peer_at(&p, sound.run.cue.positions))[3] = 40;
    cr_assert_eq(ask(&p, sound).result, RESULT_REFUSED, "a position outside of its replica");
    ((uint32_t *)peer_at(&p, sound.run.cue.positions))[3] = 1;
    expect_right(&p, &sound, &s, &cue, &other);
    shelf_free(&p, &s);
    peer_close(&p);
}
