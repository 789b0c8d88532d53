/* Mean and covariance through the socket: the bits of the definition, for any number of workers and
 * wherever the rows are; what a client wrote before; cancelling; what bad input gets. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/random.h"
#include "tests/kernels/covariance_reference.h"
#include "tests/support/cancels.h"
#include "tests/support/client_expect.h"
#include "tests/support/sets.h"

enum { D = 96, ROWS = 9000 };

static struct scene scene;
static ea_client *c;

static float rows[ROWS * D], weights[ROWS];
static uint64_t ids[ROWS];

/* Sent from the last row to the first, so that rows are stored against the order of their ids. */
static void begin(const char *const *settings)
{
    enum { PIECE = 500 };
    scene_open(&scene, settings);
    c = scene_client(&scene, "facts");
    random_scalar.normal(5, D, 0, ROWS, rows); /* D needs no padding */
    for (uint64_t i = 0; i < ROWS; i++) {
        ids[i] = 3 * i + 1;
        weights[i] = (float)(i % 17) / 4.0F;
    }
    OK(ea_collection_create(c, "rows", D, EA_DOT, NULL));
    for (uint64_t at = ROWS; at; at -= PIECE)
        OK(ea_upsert(c,
                     &(ea_rows){.collection = "rows",
                                .ids = ids + at - PIECE,
                                .rows = rows + (at - PIECE) * D,
                                .count = PIECE,
                                .dimension = D},
                     NULL));
}

static void end(void)
{
    OK(ea_collection_drop(c, "rows"));
    ea_close(c);
    scene_close(&scene);
}

static struct covariance_expected expected(uint64_t count, const float *w)
{
    return covariance_expect(&(struct covariance_input){
        .rows = rows, .weights = w, .stride = D, .count = count, .dimension = D});
}

static void assert_same(const ea_covariance_result *r, const struct covariance_expected *e)
{
    cr_assert_eq(r->dimension, D);
    cr_assert(r->total == e->total && r->divisor == e->divisor);
    cr_assert_eq(memcmp(r->mean, e->mean, D * sizeof(double)), 0);
    cr_assert_eq(memcmp(r->covariance, e->covariance, D * D * sizeof(double)), 0);
}

Test(covariance, has_the_bits_of_the_definition, .timeout = 120)
{
    static const char *const settings[][3] = {{"workers.count=1", NULL},
                                              {"workers.count=2", NULL},
                                              {"workers.count=5", "workers.inline=false", NULL}};
    random_scalar.normal(5, D, 0, ROWS, rows);
    for (uint64_t i = 0; i < ROWS; i++)
        weights[i] = (float)(i % 17) / 4.0F;
    struct covariance_expected plain = expected(ROWS, NULL), weighed = expected(ROWS, weights);
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        begin(settings[s]);
        ea_covariance_result r = {0};
        ea_covariance_question q = {.collection = "rows"};
        OK(ea_covariance(c, &q, &r));
        cr_assert(r.rows == ROWS && r.meta->version && r.meta->run_ns);
        assert_same(&r, &plain);
        q.weights = weights, q.count = ROWS;
        OK(ea_covariance(c, &q, &r));
        assert_same(&r, &weighed);
        q.ids = ids;
        OK(ea_covariance(c, &q, &r));
        assert_same(&r, &weighed);
        q = (ea_covariance_question){.rows = rows, .count = ROWS, .dimension = D};
        OK(ea_covariance(c, &q, &r));
        cr_assert_eq(r.meta->version, 0);
        assert_same(&r, &plain);
        ea_covariance_result_free(&r);
        end();
    }
    covariance_expected_destroy(&plain), covariance_expected_destroy(&weighed);
}

static uint64_t seen[2];

static void note(ea_client *client, const ea_answer *answer, void *user)
{
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(client));
    *(uint64_t *)user = answer->covariance->rows;
}

Test(covariance, sees_its_clients_writes)
{
    begin(NULL);
    const ea_covariance_question q = {.collection = "rows"};
    OK(ea_covariance_send(c, &q, &(ea_send_options){.callback = note, .user = &seen[0]}, NULL));
    OK(ea_delete_send(c, "rows", ids, 1000, NULL, NULL));
    OK(ea_covariance_send(c, &q, &(ea_send_options){.callback = note, .user = &seen[1]}, NULL));
    while (ea_pending(c))
        OK(ea_pump(c, -1));
    cr_assert(seen[0] == ROWS && seen[1] == ROWS - 1000);
    end();
}

static const ea_covariance_question weighted = {
    .collection = "rows", .weights = weights, .count = ROWS};

static ea_status send_weighted(ea_client *client, unsigned i, const ea_send_options *how,
                               uint64_t *id)
{
    (void)i;
    return ea_covariance_send(client, &weighted, how, id);
}

/* Whenever it is cancelled, it is answered once, and its memory comes back (scene_close). */
Test(covariance, cancelled_at_any_time, .timeout = 120)
{
    begin((const char *const[]){"workers.count=2", NULL});
    cancels_expect(c, 200, send_weighted);
    ea_covariance_result r = {0};
    OK(ea_covariance(c, &weighted, &r));
    struct covariance_expected e = expected(ROWS, weights);
    assert_same(&r, &e);
    covariance_expected_destroy(&e);
    ea_covariance_result_free(&r);
    end();
}

Test(covariance, bad_input)
{
    static const uint64_t unknown[] = {1, 2};
    static const float few[] = {1, -1, NAN};
    begin(NULL);
    ea_covariance_result r = {0};
    ea_covariance_question q = {.collection = "nothing"};
    FAILS(ea_covariance(c, &q, &r), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_COLLECTION, "nothing");
    q = (ea_covariance_question){.collection = "rows", .ids = unknown, .count = 2};
    FAILS(ea_covariance(c, &q, &r), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_ID, "no id 2 (row 1)");
    q.ids = ids, q.count = 1;
    FAILS(ea_covariance(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "ids: 1");
    q.count = 2, q.weights = few;
    FAILS(ea_covariance(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_WEIGHT, "weight 1 is -1");
    q.weights = few + 1;
    FAILS(ea_covariance(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_WEIGHT, "weight 0");
    q = (ea_covariance_question){.collection = "rows", .weights = few, .count = 3};
    FAILS(ea_covariance(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
          "weights: 3 rows, rows has 9000");
    q = (ea_covariance_question){.rows = few, .count = 3, .dimension = 1};
    FAILS(ea_covariance(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_NOT_FINITE, "row 2");
    OK(ea_collection_create(c, "empty", D, EA_DOT, NULL));
    q = (ea_covariance_question){.collection = "empty"};
    FAILS(ea_covariance(c, &q, &r), EA_FAILED_PRECONDITION, EA_DETAIL_NO_ROWS,
          "empty has 0 rows, a covariance needs 2");
    OK(ea_collection_drop(c, "empty"));
    q = (ea_covariance_question){.collection = "rows"};
    OK(ea_covariance(c, &q, &r));
    ea_covariance_result_free(&r);
    end();
}

/* As many dimensions as a reply has room for, and no more. */
Test(covariance, replies_are_bounded)
{
    static float wide[2 * 400];
    begin((const char *const[]){"limits.reply_body_mib=1", NULL});
    ea_covariance_result r = {0};
    ea_covariance_question q = {.rows = wide, .count = 2, .dimension = 361};
    OK(ea_covariance(c, &q, &r));
    q.dimension = 362;
    FAILS(ea_covariance(c, &q, &r), EA_RESOURCE_EXHAUSTED, EA_DETAIL_REPLY_TOO_LARGE,
          "the covariance of 362 dimensions is 1051248 bytes");
    ea_covariance_result_free(&r);
    end();
}
