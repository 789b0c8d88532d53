/* Rows in int8 in a daemon, over a socket: the same answers with screen.memory = auto and off, and
 * what describe tells of them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/reference.h"
#include "tests/support/scene.h"

enum { ROWS = 5000, DIMENSION = 256, QUERIES = 24, K = 10 };

struct answers {
    uint64_t ids[QUERIES * K];
    float scores[QUERIES * K];
    ea_collection_info info;
};

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
        if (all) {
            cr_assert_eq(memcmp(out->ids, r.ids, sizeof out->ids), 0);
            cr_assert_eq(memcmp(out->scores, r.scores, sizeof out->scores), 0);
        }
        memcpy(out->ids + at, r.ids, q.query_count * K * sizeof *r.ids);
        memcpy(out->scores + at, r.scores, q.query_count * K * sizeof *r.scores);
        ea_result_free(&r);
    }
    cr_assert_eq(ea_collection_describe(c, "rows", &out->info), EA_OK);
}

static struct answers *run(const char *setting, const float *rows, const float *queries)
{
    struct scene s;
    struct answers *a = calloc(1, sizeof *a);
    uint64_t *ids = malloc(ROWS * sizeof *ids);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = 3 * i + 1;
    scene_open(&s, (const char *[]){setting, NULL});
    cr_assert_eq(ea_collection_create(s.witness, "rows", DIMENSION, EA_COSINE, NULL), EA_OK);
    cr_assert_eq(ea_upsert(s.witness,
                           &(ea_rows){.collection = "rows",
                                      .ids = ids,
                                      .rows = rows,
                                      .count = ROWS,
                                      .dimension = DIMENSION},
                           NULL),
                 EA_OK);
    ask(s.witness, queries, a);
    cr_assert_eq(ea_collection_drop(s.witness, "rows"), EA_OK);
    scene_close(&s);
    free(ids);
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
    free(rows), free(with), free(without), free(on_cards);
}
