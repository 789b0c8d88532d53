/* Attractors by name, what is refused, and writes in their order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/attractor_reference.h"
#include "tests/support/attractor_twin.h"

Test(attractor_requests, is_created_described_listed_and_dropped)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "names");
    const float sparsity = 0.25f, rate = 0.5f;
    ea_attractor_shape shape = {.dimension = 10, .sparsity = &sparsity, .rate = &rate};
    ea_attractor_info info, *list;
    size_t count;
    OK(ea_attractor_create(c, "b", &shape, &info));
    cr_assert(strcmp(info.name, "b") == 0 && info.kept == 3 && info.rate == 0.5f && info.version);
    attractor_refused(c, ea_attractor_create(c, "b", &shape, NULL), EA_ALREADY_EXISTS,
                      EA_DETAIL_ATTRACTOR_EXISTS, "attractor 'b' exists");
    OK(ea_attractor_create(c, "a", &(ea_attractor_shape){.dimension = 2048}, NULL));
    OK(ea_attractor_describe(c, "a", &info));
    cr_assert(info.dimension == 2048 && info.sparsity == 0.05f && info.rate == 0.01f);
    cr_assert(info.weight_bytes == 2048 * 2048 * 4 && info.patterns == 0);
    cr_assert_eq(info.dentate_bytes, 10 * info.weight_bytes);
    OK(ea_attractor_list(c, &list, &count));
    cr_assert(count == 2 && strcmp(list[0].name, "a") == 0 && strcmp(list[1].name, "b") == 0);
    ea_attractor_list_free(list);
    OK(ea_attractor_drop(c, "a"));
    attractor_refused(c, ea_attractor_describe(c, "a", &info), EA_NOT_FOUND,
                      EA_DETAIL_UNKNOWN_ATTRACTOR, "'a'");
    attractor_refused(c, ea_attractor_drop(c, "a"), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_ATTRACTOR,
                      "'a'");
    attractor_end(&s, c);
}

/* What is dropped while its tables are made, or while another one makes them for it, goes. */
Test(attractor_requests, is_dropped_at_any_time)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "drops");
    const char *const names[] = {"a", "b", "c"};
    for (int round = 0; round < 12; round++) {
        ea_send_options how = {0};
        for (int i = 0; i < 3; i++)
            OK(ea_attractor_create_send(
                c, names[i], &(ea_attractor_shape){.dimension = round % 2 ? 700 : 64}, &how, NULL));
        for (int i = 0; i < 3; i++)
            OK(ea_attractor_drop_send(c, names[(i + round) % 3], &how, NULL));
        while (ea_pending(c))
            cr_assert_eq(ea_pump(c, -1), EA_OK);
    }
    ea_attractor_info *list;
    size_t count;
    OK(ea_attractor_list(c, &list, &count));
    cr_assert_eq(count, 0);
    ea_attractor_list_free(list);
    attractor_end(&s, c);
}

/* Two of a dimension share a matrix, and each has weights of its own. */
Test(attractor_requests, shares_its_dentate_matrix)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "shared");
    struct attractor_twin a = attractor_twin_create(c, "a", 64, 0),
                          b = attractor_twin_create(c, "b", 64, 0);
    attractor_twin_learn(c, "a", &a);
    attractor_twin_weights(c, "a", &a);
    attractor_twin_weights(c, "b", &b);
    OK(ea_attractor_drop(c, "a"));
    attractor_twin_complete(c, "b", &b, 3, 1, true);
    attractor_twin_finish(&a);
    attractor_twin_finish(&b);
    attractor_end(&s, c);
}

/* ---------------------------------------------------------------- what is refused */

static uint64_t version_of(ea_client *c, const char *name)
{
    ea_attractor_info info;
    OK(ea_attractor_describe(c, name, &info));
    return info.version;
}

Test(attractor_requests, bad_input_is_refused_and_changes_nothing)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "bad");
    struct attractor_twin t = attractor_twin_create(c, "a", 6, 3);
    float rows[12] = {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, w[36] = {0};
    uint64_t version = version_of(c, "a");
    const float zero = 0.0f, nan = NAN, two = 2.0f;
    const uint64_t unknown[] = {1000, 7};
    ea_attractor_shape shape = {.dimension = 2049};
    const uint32_t bad = EA_INVALID_ARGUMENT;
    attractor_refused(c, ea_attractor_create(c, "x", &shape, NULL), bad, EA_DETAIL_BAD_DIMENSION,
                      "2049");
    shape.dimension = 0;
    attractor_refused(c, ea_attractor_create(c, "x", &shape, NULL), bad, EA_DETAIL_BAD_DIMENSION,
                      "0");
    shape = (ea_attractor_shape){.dimension = 4, .sparsity = &zero};
    attractor_refused(c, ea_attractor_create(c, "x", &shape, NULL), bad, EA_DETAIL_BAD_SPARSITY,
                      "sparsity");
    shape = (ea_attractor_shape){.dimension = 4, .rate = &nan};
    attractor_refused(c, ea_attractor_create(c, "x", &shape, NULL), bad, EA_DETAIL_BAD_SPARSITY,
                      "rate");
    shape = (ea_attractor_shape){.dimension = 4, .rate = &two};
    attractor_refused(c, ea_attractor_create(c, "x", &shape, NULL), bad, EA_DETAIL_BAD_SPARSITY,
                      "2");

    ea_learn_question learn = {.attractor = "a", .rows = rows, .count = 2, .dimension = 6};
    rows[8] = INFINITY;
    attractor_refused(c, ea_attractor_learn(c, &learn, NULL), bad, EA_DETAIL_NOT_FINITE,
                      "pattern 1: number 2");
    rows[8] = 3e38f;
    attractor_refused(c, ea_attractor_learn(c, &learn, NULL), bad, EA_DETAIL_NORM_OVERFLOW,
                      "pattern 1");
    rows[8] = 1e16f;
    rows[9] = -1e16f;
    learn.rows = rows + 6, learn.count = 1;
    OK(ea_attractor_learn(c, &learn, NULL)); /* all is divided by the greatest weight */
    reference_learn(6, 0.01f, rows + 6, t.w);
    attractor_twin_weights(c, "a", &t);
    version = version_of(c, "a");
    learn = (ea_learn_question){.attractor = "a", .rows = rows, .count = 1, .dimension = 5};
    attractor_refused(c, ea_attractor_learn(c, &learn, NULL), bad, EA_DETAIL_BAD_DIMENSION, "5");
    learn = (ea_learn_question){.attractor = "a", .collection = "a", .ids = unknown, .count = 2};
    attractor_refused(c, ea_attractor_learn(c, &learn, NULL), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_ID,
                      "no id 7 (pattern 1)");
    learn.attractor = "nobody";
    attractor_refused(c, ea_attractor_learn(c, &learn, NULL), EA_NOT_FOUND,
                      EA_DETAIL_UNKNOWN_ATTRACTOR, "nobody");

    attractor_refused(c, ea_attractor_set(c, "a", w, 5, NULL), bad, EA_DETAIL_BAD_DIMENSION, "5");
    w[13] = NAN;
    attractor_refused(c, ea_attractor_set(c, "a", w, 6, NULL), bad, EA_DETAIL_BAD_WEIGHTS,
                      "row 2, column 1");
    w[13] = 1.5f;
    attractor_refused(c, ea_attractor_set(c, "a", w, 6, NULL), bad, EA_DETAIL_BAD_WEIGHTS, "1.5");
    w[13] = -2e12f;
    attractor_refused(c, ea_attractor_set(c, "a", w, 6, NULL), bad, EA_DETAIL_BAD_WEIGHTS,
                      "-2e+12");
    attractor_twin_weights(c, "a", &t);
    cr_assert_eq(version_of(c, "a"), version);
    attractor_twin_finish(&t);
    attractor_end(&s, c);
}

Test(attractor_requests, bad_cues_are_refused)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "cues");
    struct attractor_twin t = attractor_twin_create(c, "a", 9, 2);
    OK(ea_collection_create(c, "other", 8, EA_COSINE, NULL));
    float *cues = attractor_numbers(18);
    uint8_t mask[18];
    memset(mask, 1, sizeof mask);
    ea_engine_completed r = {0};
    const uint32_t bad = EA_INVALID_ARGUMENT;
    const ea_engine_question sound = {.attractor = "a",
                                      .cues = cues,
                                      .count = 2,
                                      .dimension = 9,
                                      .mask = mask,
                                      .mask_rows = 2,
                                      .collection = "a"};
    ea_engine_question q = sound;
    q.mask_rows = 3;
    uint8_t longer[27] = {0};
    q.mask = longer;
    attractor_refused(c, ea_complete_engine(c, &q, &r), bad, EA_DETAIL_BAD_MASK, "3 x 9");
    q = sound;
    memset(mask + 9, 0, 9);
    mask[9] = mask[10] = 1;
    attractor_refused(c, ea_complete_engine(c, &q, &r), bad, EA_DETAIL_TOO_FEW_KNOWN,
                      "cue 1: 2 numbers are known, at least 3");
    mask[11] = 1;
    OK(ea_complete_engine(c, &q, &r));
    cues[10] = INFINITY;
    attractor_refused(c, ea_complete_engine(c, &q, &r), bad, EA_DETAIL_NOT_FINITE,
                      "cue 1: column 1");
    cues[10] = 3e38f;
    attractor_refused(c, ea_complete_engine(c, &q, &r), bad, EA_DETAIL_NORM_OVERFLOW, "cue 1");
    cues[10] = 1.0f;
    q.collection = "other";
    attractor_refused(c, ea_complete_engine(c, &q, &r), bad, EA_DETAIL_BAD_DIMENSION,
                      "8 dimensions");
    q.collection = "nobody";
    attractor_refused(c, ea_complete_engine(c, &q, &r), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_COLLECTION,
                      "nobody");
    q = sound;
    q.attractor = "nobody";
    attractor_refused(c, ea_complete_engine(c, &q, &r), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_ATTRACTOR,
                      "nobody");
    q = sound;
    q.dimension = 6, q.count = 3, q.mask = NULL;
    attractor_refused(c, ea_complete_engine(c, &q, &r), bad, EA_DETAIL_BAD_DIMENSION, "6 columns");
    q = sound;
    q.count = 0, q.mask = NULL;
    OK(ea_complete_engine(c, &q, &r));
    cr_assert(r.rows == 0 && r.meta);
    ea_engine_completed_free(&r);
    free(cues);
    attractor_twin_finish(&t);
    attractor_end(&s, c);
}

/* ---------------------------------------------------------------- writes */

Test(attractor_requests, weights_that_were_fetched_can_be_set)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "weights");
    struct attractor_twin a = attractor_twin_create(c, "a", 70, 0),
                          b = attractor_twin_create(c, "b", 70, 0);
    attractor_twin_learn(c, "a", &a);
    ea_result w = {0};
    ea_learned set;
    OK(ea_attractor_fetch(c, "a", &w));
    uint64_t version = version_of(c, "b");
    OK(ea_attractor_set(c, "b", w.vectors, 70, &set));
    cr_assert(set.version > version && set.patterns == 0);
    cr_assert_eq(version_of(c, "b"), set.version);
    attractor_twin_weights(c, "b", &a);
    attractor_twin_complete(c, "b", &a, 4, 1, false);
    ea_result_free(&w);
    attractor_twin_finish(&a);
    attractor_twin_finish(&b);
    attractor_end(&s, c);
}

Test(attractor_requests, writes_find_the_version_that_they_expect)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "conditions");
    struct attractor_twin t = attractor_twin_create(c, "a", 20, 0);
    float *row = attractor_numbers(20);
    ea_write write = {.version = version_of(c, "a")};
    ea_learn_question q = {
        .attractor = "a", .rows = row, .count = 1, .dimension = 20, .write = &write};
    ea_learned learned, again;
    OK(ea_attractor_learn(c, &q, &learned));
    cr_assert_eq(ea_attractor_learn(c, &q, NULL), EA_ABORTED);
    cr_assert_eq(ea_error_version(c), learned.version);
    /* a repetition with its token is told what the first one was */
    write = (ea_write){.token = {1, 2, 3}};
    OK(ea_attractor_learn(c, &q, &learned));
    OK(ea_attractor_learn(c, &q, &again));
    cr_assert(again.version == learned.version && again.patterns == 2 && again.learned == 1);
    reference_learn(20, 0.01f, row, t.w);
    reference_learn(20, 0.01f, row, t.w);
    attractor_twin_weights(c, "a", &t);
    q.count = 0, q.write = NULL;
    OK(ea_attractor_learn(c, &q, &again));
    cr_assert(again.version == learned.version && again.learned == 0);
    free(row);
    attractor_twin_finish(&t);
    attractor_end(&s, c);
}

static void note_version(ea_client *c, const ea_answer *answer, void *user)
{
    (void)c;
    cr_assert_eq(answer->status, EA_OK);
    *(uint64_t *)user = answer->engine_completed ? answer->engine_completed->attractor_version
                                                 : answer->learned->version;
}

/* Pipelined on one connection: each completion sees the patterns that were learned before it. */
Test(attractor_requests, a_connection_sees_what_it_has_learned)
{
    enum { TIMES = 20 };
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "order");
    OK(ea_attractor_create(c, "a", &(ea_attractor_shape){.dimension = 50}, NULL));
    float *row = attractor_numbers(50);
    uint64_t learned[TIMES] = {0}, seen[TIMES] = {0};
    ea_learn_question q = {.attractor = "a", .rows = row, .count = 1, .dimension = 50};
    ea_engine_question ask = {.attractor = "a", .cues = row, .count = 1, .dimension = 50};
    for (int i = 0; i < TIMES; i++) {
        ea_send_options to_learned = {.callback = note_version, .user = &learned[i]};
        ea_send_options to_seen = {.callback = note_version, .user = &seen[i]};
        OK(ea_attractor_learn_send(c, &q, &to_learned, NULL));
        OK(ea_complete_engine_send(c, &ask, &to_seen, NULL));
    }
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    for (int i = 0; i < TIMES; i++)
        cr_assert(learned[i] && seen[i] == learned[i]);
    free(row);
    attractor_end(&s, c);
}

/* A daemon that is told to stop while it makes large tables ends as it should. */
Test(attractor_requests, a_daemon_stops_while_it_makes_tables)
{
    for (int waits = 0; waits < 2; waits++) {
        struct scene s;
        daemon_start(&s.daemon, NULL);
        ea_client *c = scene_client(&s, "stops");
        ea_attractor_shape shape = {.dimension = 2048};
        float *row = attractor_numbers(2048);
        OK(ea_attractor_create(c, "a", &shape, NULL));
        OK(ea_attractor_create(c, "b", &shape, NULL));
        const ea_learn_question q = {.attractor = "b", .rows = row, .count = 1, .dimension = 2048};
        if (waits) OK(ea_attractor_learn_send(c, &q, NULL, NULL));
        if (waits) cr_assert_eq(ea_pump(c, 0), EA_OK);
        cr_assert_eq(daemon_stop(&s.daemon), 0);
        ea_close(c);
        free(row);
    }
}

/* A deadline passes while a request waits for tables; the attractor is there afterwards. */
Test(attractor_requests, a_deadline_passes_while_tables_are_made)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "late");
    float *row = attractor_numbers(2048);
    OK(ea_attractor_create(c, "a", &(ea_attractor_shape){.dimension = 2048}, NULL));
    const ea_learn_question q = {.attractor = "a", .rows = row, .count = 1, .dimension = 2048};
    ea_set_timeout(c, 1);
    cr_assert_eq(ea_attractor_learn(c, &q, NULL), EA_DEADLINE_EXCEEDED);
    ea_set_timeout(c, EA_NO_TIMEOUT);
    ea_learned learned;
    OK(ea_attractor_learn(c, &q, &learned));
    cr_assert_geq(learned.patterns, 1);
    free(row);
    attractor_end(&s, c);
}
