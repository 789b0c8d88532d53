/* Requests that are sent and answered later: order, callbacks, thousands at once, the end. */
#include <stdlib.h>

#include "tests/unit/client/client_rig.h"

static const float matrix[40] = {1, 2, 3, 4, 5, 6, 7, 8};
static const uint64_t ids[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

TestSuite(async, .init = begin_served, .fini = end, .timeout = 900);

static unsigned callbacks, errors;
static void count_callback(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status st = answer->status;
    ea_result *r = answer->result;
    callbacks++;
    errors += st != EA_OK;
    if (user && r) {
        *(ea_result *)user = *r; /* keep it */
        *r = (ea_result){0};
    }
}

static void send_again(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status st = answer->status;
    unsigned *left = user;
    callbacks++;
    if (st == EA_OK && --*left)
        cr_assert_eq(
            ea_ping_send(c, &(ea_send_options){.callback = send_again, .user = left}, NULL), EA_OK);
}

Test(async, asynchronous_calls)
{
    ea_result kept = {0};
    const uint64_t offsets[] = {0, 2, 5};
    uint64_t id = 0;
    callbacks = errors = 0;
    OK(ea_ping_send(client, &(ea_send_options){.callback = count_callback}, &id));
    cr_assert(id != 0);
    OK(ea_knn_send(
        client,
        &(ea_knn_question){
            .collection = "rows", .queries = matrix, .query_count = 2, .dimension = 4, .k = 2},
        &(ea_send_options){.callback = count_callback, .user = &kept}, NULL));
    OK(ea_similarity_send(
        client,
        &(ea_similarity_question){
            .collection = "rows", .queries = matrix, .query_count = 2, .dimension = 4},
        &(ea_send_options){.callback = count_callback}, NULL));
    OK(ea_score_send(client,
                     &(ea_score_question){.collection = "rows",
                                          .queries = matrix,
                                          .query_count = 2,
                                          .dimension = 4,
                                          .offsets = offsets,
                                          .ids = ids,
                                          .count = 5},
                     &(ea_send_options){.callback = count_callback}, NULL));
    OK(ea_upsert_send(
        client,
        &(ea_rows){.collection = "rows", .ids = ids, .rows = matrix, .count = 10, .dimension = 4},
        &(ea_send_options){.callback = count_callback}, NULL));
    OK(ea_knn_send(client,
                   &(ea_knn_question){
                       .collection = "rows", .queries = matrix, .query_count = 2, .dimension = 4},
                   &(ea_send_options){.callback = count_callback}, NULL));
    cr_assert_eq(ea_pending(client), 6);
    cr_assert_eq(callbacks, 0, "never from inside a send");
    OK(ea_ping(client)); /* blocking calls in between run no callbacks */
    cr_assert_eq(callbacks, 0);
    while (ea_pending(client))
        OK(ea_pump(client, -1));
    cr_assert_eq(callbacks, 6);
    cr_assert_eq(errors, 1);
    cr_assert(kept.rows == 2 && kept.columns == 2 && kept.ids[1] == 1);
    ea_result_free(&kept);
    OK(ea_pump(client, -1)); /* nothing to wait for */
    OK(ea_pump(client, 1000));
}

Test(async, thousands_in_the_pipe)
{
    callbacks = errors = 0;
    for (unsigned i = 0; i < 5000; i++)
        OK(i % 3 ? ea_ping_send(client, &(ea_send_options){.callback = count_callback}, NULL)
                 : ea_knn_send(client,
                               &(ea_knn_question){.collection = "rows",
                                                  .queries = matrix,
                                                  .query_count = 1,
                                                  .dimension = 4,
                                                  .k = 3},
                               &(ea_send_options){.callback = count_callback}, NULL));
    while (ea_pending(client))
        OK(ea_pump(client, 100000));
    cr_assert_eq(callbacks, 5000);
    cr_assert_eq(errors, 0);
    unsigned left = 50;
    callbacks = 0;
    OK(ea_ping_send(client, &(ea_send_options){.callback = send_again, .user = &left}, NULL));
    while (ea_pending(client))
        OK(ea_pump(client, -1));
    cr_assert_eq(callbacks, 50);
}

Test(async, close_answers_everyone)
{
    callbacks = errors = 0;
    for (unsigned i = 0; i < 10; i++)
        OK(ea_ping_send(client, &(ea_send_options){.callback = count_callback}, NULL));
    ea_close(client);
    cr_assert_eq(callbacks, 10);
    cr_assert_eq(errors, 10);
    client = NULL;
}

Test(async, cancel)
{
    uint64_t id;
    callbacks = errors = 0;
    OK(ea_ping_send(client, &(ea_send_options){.callback = count_callback}, &id));
    OK(ea_cancel(client, id)); /* still here: it never leaves */
    OK(ea_pump(client, -1));
    cr_assert(callbacks == 1 && errors == 1);
    cr_assert_eq(ea_cancel(client, id), EA_NOT_FOUND);
    cr_assert_eq(ea_cancel(client, 12345), EA_NOT_FOUND);
    OK(ea_ping_send(client, &(ea_send_options){.callback = count_callback}, &id));
    OK(ea_pump(client, 0));
    if (ea_pending(client)) OK(ea_cancel(client, id)); /* on its way: the answer comes */
    while (ea_pending(client))
        OK(ea_pump(client, -1));
    cr_assert_eq(callbacks, 2);
    OK(ea_ping(client));
}
