/* Rows in int8 in a daemon, over a socket: the same answers with screen.memory = auto and off, and
 * what describe tells of them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/shadow_scan.h"
#include "tests/support/gpu_scene.h"
#include "tests/support/reference.h"
#include "tests/support/scene.h"

enum { ROWS = 12000, DIMENSION = 256, QUERIES = 24, K = 10 };

struct answers {
    ea_stats stats;
    ea_explanation explained;
    ea_meta first, last, together;
    uint64_t ids[QUERIES * K];
    float scores[QUERIES * K];
    ea_collection_info info;
};

/* What a reply says of rows in int8: the first blocks are scored to begin with, and of the others
 * few rows. */
static void expect_told(const ea_meta *m, uint64_t queries)
{
    const uint64_t code_bytes = DIMENSION + 12, row_bytes = DIMENSION * sizeof(float);
    uint64_t pairs = queries * ROWS, scored = pairs - m->screened + m->survived;
    cr_assert(m->screened > pairs / 2 && m->screened < pairs, "%llu of %llu",
              (unsigned long long)m->screened, (unsigned long long)pairs);
    cr_assert(m->survived > 0 && m->survived < m->screened / 4);
    cr_assert_leq(m->read_bytes, m->screened * code_bytes + scored * row_bytes);
    cr_assert_geq(m->read_bytes, ROWS * code_bytes + m->survived * row_bytes);
    if (queries == 1) cr_assert_eq(m->read_bytes, m->screened * code_bytes + scored * row_bytes);
}

/* Stats and explain say of the collection what describe does. */
static void expect_reported(const struct answers *a)
{
    cr_assert(a->stats.screens_count == 1 && a->explained.screens_count == 1);
    cr_assert(a->stats.screens_left_out == 0 && a->explained.screens_left_out == 0);
    const ea_collection_screens *s = a->stats.screens, *e = a->explained.screens;
    cr_assert_str_eq(s->name, "rows");
    cr_assert_str_eq(e->name, "rows");
    cr_assert_eq(memcmp(&s->cpu, &a->info.screens_cpu, sizeof s->cpu), 0);
    cr_assert_eq(memcmp(&s->gpu, &a->info.screens_gpu, sizeof s->gpu), 0);
    cr_assert_eq(memcmp(&e->cpu, &s->cpu, sizeof s->cpu), 0);
    cr_assert_eq(memcmp(&e->gpu, &s->gpu, sizeof s->gpu), 0);
}

/* What the last search, of all queries, was predicted from: coded rows are asked in int8, and these
 * alone (all of them, or none, are coded). */
static void expect_priced(const struct answers *a, bool coded)
{
    const ea_explanation *e = &a->explained;
    const uint64_t all = (uint64_t)ROWS * DIMENSION * sizeof(float);
    cr_assert_geq(e->decision_count, 1);
    cr_assert_eq(e->decisions[0].queries, QUERIES);
    if (!coded) {
        cr_assert_eq(e->row_bytes[0].cpu, all);
        return;
    }
    cr_assert_geq(e->row_bytes[0].cpu, (uint64_t)ROWS * DIMENSION);
    cr_assert_lt(e->row_bytes[0].cpu, all);
    cr_assert_lt(e->row_bytes[1].cpu, all / 2, "one query: %llu",
                 (unsigned long long)e->row_bytes[1].cpu);
    cr_assert_gt(e->screened[EA_BACKEND_CPU], 0);
}

static void expect_untold(const ea_meta *m)
{
    cr_assert_eq(m->screened + m->survived + m->read_bytes, 0);
}

/* Asks one query at a time, so that rows are coded on the way, then all at once. */
static void ask(ea_client *c, const float *queries, struct answers *out)
{
    for (uint64_t i = 0; i <= QUERIES; i++) {
        bool all = i == QUERIES;
        ea_knn_question q = {.collection = "rows",
                             .queries = queries + (all ? 0 : i * DIMENSION),
                             .query_count = all ? QUERIES : 1,
                             .dimension = DIMENSION,
                             .k = K};
        ea_result r = {0};
        uint64_t at = all ? 0 : i * K;
        cr_assert_eq(ea_knn(c, &q, &r), EA_OK, "%s", ea_error_text(c));
        *(all ? &out->together : i ? &out->last : &out->first) = *r.meta;
        if (all) {
            cr_assert_eq(memcmp(out->ids, r.ids, sizeof out->ids), 0);
            cr_assert_eq(memcmp(out->scores, r.scores, sizeof out->scores), 0);
        }
        memcpy(out->ids + at, r.ids, q.query_count * K * sizeof *r.ids);
        memcpy(out->scores + at, r.scores, q.query_count * K * sizeof *r.scores);
        ea_result_free(&r);
    }
    cr_assert_eq(ea_collection_describe(c, "rows", &out->info), EA_OK);
    cr_assert_eq(ea_get_stats(c, &out->stats), EA_OK);
    cr_assert_eq(ea_explain(c, 2, &out->explained), EA_OK);
}

static void fill(ea_client *c, const float *rows)
{
    uint64_t *ids = malloc(ROWS * sizeof *ids);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = 3 * i + 1;
    cr_assert_eq(ea_collection_create(c, "rows", DIMENSION, EA_COSINE, NULL), EA_OK);
    const ea_rows all = {
        .collection = "rows", .ids = ids, .rows = rows, .count = ROWS, .dimension = DIMENSION};
    cr_assert_eq(ea_upsert(c, &all, NULL), EA_OK);
    free(ids);
}

static struct answers *run(const char *setting, const float *rows, const float *queries)
{
    struct scene s;
    struct answers *a = calloc(1, sizeof *a);
    scene_open(&s, (const char *[]){setting, NULL});
    fill(s.witness, rows);
    ask(s.witness, queries, a);
    cr_assert_eq(ea_collection_drop(s.witness, "rows"), EA_OK);
    scene_close(&s);
    return a;
}

Test(shadow, answers_are_the_same_with_and_without, .timeout = 600)
{
    float *rows = malloc((ROWS + QUERIES) * DIMENSION * sizeof *rows);
    reference_fill(3, rows, (ROWS + QUERIES) * DIMENSION);
    const float *queries = rows + ROWS * DIMENSION;
    struct answers *with = run("screen.memory=auto", rows, queries);
    struct answers *without = run("screen.memory=off", rows, queries);
    struct answers *on_cards = run("screen.memory=gpu", rows, queries);
    cr_assert_eq(memcmp(with->ids, without->ids, sizeof with->ids), 0);
    cr_assert_eq(memcmp(with->scores, without->scores, sizeof with->scores), 0);
    cr_assert_eq(with->info.shadow_rows, ROWS);
    cr_assert_gt(with->info.shadow_bytes, (uint64_t)ROWS * DIMENSION);
    cr_assert(with->info.shadow_lost > 0.001 && with->info.shadow_lost < 0.02);
    cr_assert_gt(with->info.shadow_screened, 0);
    cr_assert_lt(with->info.shadow_passed, with->info.shadow_screened / 4);
    cr_assert_eq(without->info.shadow_rows + without->info.shadow_bytes, 0);
    cr_assert_eq(without->info.shadow_screened, 0);
    cr_assert_eq(on_cards->info.shadow_bytes, 0);
    expect_untold(&with->first); /* nothing was coded yet */
    expect_told(&with->last, 1);
    expect_told(&with->together, QUERIES);
    const ea_screens *cpu = &with->info.screens_cpu;
    cr_assert(cpu->searches > 1 && cpu->searches <= QUERIES + 1);
    cr_assert_eq(cpu->queries, cpu->searches - 1 + QUERIES);
    cr_assert(cpu->screened == with->info.shadow_screened);
    cr_assert(cpu->survived == with->info.shadow_passed && cpu->useless == 0);
    cr_assert_gt(cpu->read_bytes, with->last.read_bytes + with->together.read_bytes);
    cr_assert_eq(with->info.screens_gpu.searches, 0);
    expect_reported(with);
    expect_priced(with, shadow_choose("auto")->tiles);
    expect_priced(without, false);
    cr_assert_eq(without->stats.screens_count + without->explained.screens_count, 0);
    expect_untold(&without->last), expect_untold(&without->together);
    expect_untold(&on_cards->together);
    free(rows), free(with), free(without), free(on_cards);
}

/* The same of a card. */
Test(shadow, a_card_tells_what_it_scored, .timeout = 600)
{
    struct gpu_scene s;
    float *rows = malloc((ROWS + QUERIES) * DIMENSION * sizeof *rows);
    reference_fill(3, rows, (ROWS + QUERIES) * DIMENSION);
    gpu_scene_open(&s, "shadow_rows=1000", NULL);
    fill(s.a, rows);
    gpu_scene_await_answer(s.a, "rows", DIMENSION);
    for (uint64_t queries = 1; queries <= QUERIES; queries += QUERIES - 1) {
        ea_knn_question q = {.collection = "rows",
                             .queries = rows + ROWS * DIMENSION,
                             .query_count = queries,
                             .dimension = DIMENSION,
                             .k = K};
        ea_result r = {0};
        cr_assert_eq(ea_knn(s.a, &q, &r), EA_OK, "%s", ea_error_text(s.a));
        cr_assert_eq(r.meta->backend, EA_BACKEND_GPU);
        cr_assert_eq(r.meta->screened, queries * ROWS);
        cr_assert(r.meta->survived >= queries * K && r.meta->survived < r.meta->screened / 4);
        uint64_t scored = r.meta->survived * DIMENSION * sizeof(float);
        uint64_t codes = r.meta->read_bytes - scored; /* once a pass */
        cr_assert_eq(codes % (ROWS * (DIMENSION + 12)), 0);
        cr_assert(codes > 0 && (queries > 1 || codes == ROWS * (DIMENSION + 12)));
        ea_result_free(&r);
    }
    struct answers *a = calloc(1, sizeof *a);
    cr_assert_eq(ea_collection_describe(s.a, "rows", &a->info), EA_OK);
    cr_assert_eq(ea_get_stats(s.a, &a->stats), EA_OK);
    cr_assert_eq(ea_explain(s.a, 2, &a->explained), EA_OK);
    cr_assert_eq(a->info.vram_shadow_rows, ROWS);
    uint64_t priced = a->explained.row_bytes[1].gpu; /* one query */
    cr_assert(priced >= ROWS * DIMENSION && priced < ROWS * DIMENSION * sizeof(float), "%llu",
              (unsigned long long)priced);
    cr_assert_geq(a->info.vram_shadow_bytes, ROWS * (DIMENSION + 12));
    cr_assert(a->info.vram_gpu == 0 && a->info.vram_shadow_rests == 0);
    cr_assert_eq(a->info.screens_gpu.searches, 3); /* with that of gpu_scene_await_answer */
    cr_assert_eq(a->info.screens_gpu.queries, 2 + QUERIES);
    cr_assert_eq(a->info.screens_gpu.screened, (2 + QUERIES) * ROWS);
    expect_reported(a);
    cr_assert_eq(ea_get_stats(s.b, &a->stats), EA_OK); /* another space's, which learns nothing */
    cr_assert_eq(a->stats.screens_count, 0);
    free(a);
    cr_assert_eq(ea_collection_drop(s.a, "rows"), EA_OK);
    gpu_scene_close(&s);
    free(rows);
}

/* All rows are equal: no bound tells them apart, and most searches do without. */
Test(shadow, of_no_use_is_told, .timeout = 600)
{
    struct scene s;
    ea_collection_info info;
    float *rows = malloc((ROWS + QUERIES) * DIMENSION * sizeof *rows);
    struct answers *a = calloc(1, sizeof *a);
    for (uint64_t i = 0; i < (ROWS + QUERIES) * DIMENSION; i++)
        rows[i] = (float)(i % DIMENSION % 7) - 3.0F;
    scene_open(&s, (const char *[]){"screen.memory=auto", NULL});
    fill(s.witness, rows);
    ask(s.witness, rows + ROWS * DIMENSION, a);
    expect_reported(a);
    cr_assert_gt(a->info.screens_cpu.useless, 0);
    cr_assert_gt(a->info.screens_cpu.rested, 0);
    cr_assert_geq(a->info.screens_cpu.survived * 4, a->info.screens_cpu.screened);
    cr_assert_eq(ea_collection_describe(s.witness, "rows", &info), EA_OK);
    cr_assert_lt(info.shadow_rests, 64);
    cr_assert_eq(ea_collection_drop(s.witness, "rows"), EA_OK);
    scene_close(&s);
    free(rows), free(a);
}
