/* Completion by the modern rule through the socket: what it recalls, the same bits for any number
 * of workers and any batch, together with writes, and what bad input gets. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/random.h"
#include "tests/support/client_expect.h"
#include "tests/support/sets.h"

enum { D = 96, ROWS = 5000, CUES = 70 };

static struct scene scene;
static ea_client *c;

static float rows[ROWS * D];
static uint64_t ids[ROWS];
static uint8_t mask[D]; /* the first third is known */

static void begin(const char *const *settings)
{
    scene_open(&scene, settings);
    c = scene_client(&scene, "facts");
    random_scalar.normal(5, D, 0, ROWS, rows); /* D needs no padding */
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = 3 * i + 1;
    memset(mask, 1, D / 3);
    OK(ea_collection_create(c, "rows", D, EA_COSINE, NULL));
    OK(ea_upsert(
        c,
        &(ea_rows){.collection = "rows", .ids = ids, .rows = rows, .count = ROWS, .dimension = D},
        NULL));
}

static void end(void)
{
    OK(ea_collection_drop(c, "rows"));
    ea_close(c);
    scene_close(&scene);
}

static ea_complete_question ask(uint64_t count)
{
    return (ea_complete_question){.collection = "rows",
                                  .states = rows,
                                  .state_count = count,
                                  .dimension = D,
                                  .mask = mask,
                                  .mask_rows = 1,
                                  .beta = 32,
                                  .rounds = 20,
                                  .unit = true};
}

Test(complete, recalls_rows_from_a_third_of_their_numbers)
{
    begin(NULL);
    ea_completed r = {0};
    ea_complete_question q = ask(CUES);
    OK(ea_complete(c, &q, &r));
    cr_assert(r.rows == CUES && r.columns == D && r.meta->version && r.meta->run_ns);
    for (uint64_t i = 0; i < CUES; i++) {
        cr_assert_eq(r.ids[i], ids[i], "state %d", (int)i);
        cr_assert(r.converged[i] && r.cosines[i] > 0.99F, "%g", (double)r.cosines[i]);
        cr_assert_eq(memcmp(r.states + i * D, rows + i * D, D / 3 * sizeof *rows), 0);
        cr_assert(r.rounds[i] >= 2 && r.rounds[i] <= 20);
        cr_assert(r.energies[i] > -1e-3F && r.energies[i] < 2.0F);
    }
    q.state_count = 0;
    q.mask = NULL, q.mask_rows = 0;
    OK(ea_complete(c, &q, &r));
    cr_assert(r.rows == 0 && !r.states);
    ea_completed_free(&r);
    end();
}

/* Each state alone, all together, and with any number of workers. */
Test(complete, bits_do_not_depend_on_who_asks_with_whom)
{
    static const char *const settings[][3] = {{"workers.count=1", NULL},
                                              {"workers.count=2", NULL},
                                              {"workers.count=5", "workers.inline=false", NULL}};
    static float states[CUES * D];
    static float energies[CUES];
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        begin(settings[s]);
        ea_completed r = {0};
        ea_complete_question q = ask(CUES);
        q.rounds = 2, q.beta = 5;
        OK(ea_complete(c, &q, &r));
        if (s == 0) memcpy(states, r.states, sizeof states);
        if (s == 0) memcpy(energies, r.energies, sizeof energies);
        cr_assert_eq(memcmp(states, r.states, sizeof states), 0);
        cr_assert_eq(memcmp(energies, r.energies, sizeof energies), 0);
        q.state_count = 1;
        for (uint64_t i = 0; i < CUES; i += 9) {
            q.states = rows + i * D;
            OK(ea_complete(c, &q, &r));
            cr_assert_eq(memcmp(states + i * D, r.states, D * sizeof *states), 0);
        }
        ea_completed_free(&r);
        end();
    }
}

static unsigned answered;

static void note(ea_client *client, const ea_answer *answer, void *user)
{
    (void)client;
    if (user && answer->completed) *(uint64_t *)user = answer->completed->ids[0];
    answered += answer->status == EA_OK;
}

/* A completion sees the write that its client sent before it, and not the one after it. */
Test(complete, sees_its_clients_writes)
{
    static float turned[D];
    static const uint64_t added = 2;
    begin(NULL);
    uint64_t before = 0, after = 0;
    for (int i = 0; i < D; i++)
        turned[i] = i < D / 3 ? rows[i] : -rows[i];
    ea_complete_question q = ask(1);
    ea_send_options how = {.callback = note, .user = &before};
    answered = 0;
    OK(ea_complete_send(c, &q, &how, NULL));
    how.user = NULL;
    OK(ea_delete_send(c, "rows", ids, 1, &how, NULL));
    OK(ea_upsert_send(
        c,
        &(ea_rows){.collection = "rows", .ids = &added, .rows = turned, .count = 1, .dimension = D},
        &how, NULL));
    how.user = &after;
    OK(ea_complete_send(c, &q, &how, NULL));
    while (ea_pending(c))
        OK(ea_pump(c, -1));
    cr_assert_eq(answered, 4);
    cr_assert_eq(before, ids[0]);
    cr_assert_eq(after, added);
    end();
}

Test(complete, bad_input)
{
    static float bad[2 * D];
    begin(NULL);
    ea_completed r = {0};
    ea_complete_question q = ask(2);
    const ea_complete_question good = q;
    q.beta = 0;
    FAILS(ea_complete(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_BETA, "beta: 0, 1e-06 to");
    q.beta = NAN;
    FAILS(ea_complete(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_BETA, "beta: nan");
    q = good, q.rounds = 0;
    FAILS(ea_complete(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_ROUNDS, "rounds: 0");
    q.rounds = EA_COMPLETE_ROUNDS_MAX + 1;
    FAILS(ea_complete(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_ROUNDS, "1 to 100 wanted");
    q = good, q.mask_rows = 3;
    q.mask = (const uint8_t *)rows;
    FAILS(ea_complete(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "mask: 3 rows, 1 or");
    q = good, q.dimension = D / 2;
    FAILS(ea_complete(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_DIMENSION,
          "states have 48 columns");
    q = good, q.collection = "nothing";
    FAILS(ea_complete(c, &q, &r), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_COLLECTION, "nothing");
    q = good, q.states = bad;
    bad[D + 4] = INFINITY;
    FAILS(ea_complete(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_NOT_FINITE, "state 1");
    OK(ea_collection_create(c, "empty", D, EA_DOT, NULL));
    q = good, q.collection = "empty";
    FAILS(ea_complete(c, &q, &r), EA_FAILED_PRECONDITION, EA_DETAIL_NO_ROWS, "empty has no rows");
    OK(ea_collection_drop(c, "empty"));
    OK(ea_complete(c, &good, &r));
    ea_completed_free(&r);
    end();
}
