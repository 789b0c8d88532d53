/* complete: the same states whoever asks, however rows are shared out and states grouped, as
 * kernels/complete.h says; what stops a state; what bad input gets. */
#include <math.h>

#include "daemon/base/fault.h"
#include "tests/kernels/complete_cases.h"
#include "tests/unit/ops/ops_bench.h"

enum { STATES_MAX = 70 };

static struct job job_on(struct bench *b, const float *cues, uint64_t count)
{
    struct job j = make_job(b, OPERATION_COMPLETE, false);
    j.ops = operation_find(OPERATION_COMPLETE);
    strcpy(j.request.names[0], "c");
    j.request.queries = floats(cues, count, b->dimension);
    j.request.beta = 4.0f;
    j.request.rounds = 3;
    return j;
}

static struct tensor bytes(const uint8_t *data, uint64_t rows, uint64_t columns)
{
    return (struct tensor){DTYPE_UINT8, rows, columns, (void *)data};
}

/* What a state becomes, by the scalar tables, one state at a time and rows all at once. */
struct expected {
    float *state;
    uint32_t rounds;
    uint8_t converged;
    float energy, cosine;
    uint64_t id;
};

static void begin_state(const struct job *j, uint64_t line, float *state)
{
    const struct tensor *q = &j->request.queries, *m = &j->request.mask;
    const float *cue = (const float *)q->data + line * q->columns;
    const uint8_t *known = m->data;
    for (uint64_t c = 0; c < q->columns; c++)
        state[c] = !known || known[(m->rows == 1 ? 0 : line * q->columns) + c] ? cue[c] : 0.0f;
}

static void keep_known(const struct job *j, uint64_t line, struct complete_case *c,
                       struct complete_round *r)
{
    const struct tensor *q = &j->request.queries, *m = &j->request.mask;
    const float *cue = (const float *)q->data + line * q->columns;
    const uint8_t *known = m->data;
    for (uint32_t k = 0; known && k < c->dimension; k++)
        if (known[(m->rows == 1 ? 0 : line * q->columns) + k]) {
            r->next[k] = cue[k];
            r->moved[k] = cue[k] - c->state[k];
        }
}

static void best_row(const struct bench *b, struct complete_case *c, struct expected *e)
{
    size_t best = SIZE_MAX;
    float most = -INFINITY;
    for (size_t i = 0; i < c->rows; i++) {
        float dot = canonical_dot(c->dimension, c->row + i * c->stride, c->state);
        float score = complete_score(dot, c->unit ? c->norm[i] : 1.0f);
        bool first = best == SIZE_MAX || score > most;
        if (first || (score == most && b->ids[i] < b->ids[best])) best = i;
        most = first ? score : most;
    }
    e->id = b->ids[best];
    e->cosine = (float)best; /* until the state is known */
}

static struct expected expect_state(const struct bench *b, const struct job *j, uint64_t line)
{
    struct complete_case c = {.dimension = b->dimension,
                              .stride = vector_stride(b->dimension),
                              .rows = b->rows,
                              .states = 1,
                              .unit = j->request.unit,
                              .beta = j->request.beta};
    struct expected e = {0};
    float largest = 0.0f;
    c.row = samples_allocate(c.rows * c.stride), c.norm = samples_allocate(c.rows);
    c.state = samples_allocate(c.stride);
    vectors_pad(c.dimension, b->data, c.rows, c.row);
    vectors_scalar.norms(c.dimension, c.row, c.rows, c.norm);
    for (size_t i = 0; i < c.rows; i++)
        largest = fmaxf(largest, c.unit ? (c.norm[i] != 0.0f) : c.norm[i]);
    memset(c.state, 0, c.stride * sizeof *c.state);
    begin_state(j, line, c.state);
    struct complete_round r = complete_round_create(&c);
    while (!e.converged && e.rounds < j->request.rounds) {
        float norm = canonical_norm(canonical_dot(c.dimension, c.state, c.state)), moved;
        best_row(b, &c, &e);
        complete_round_run(&c, "scalar", COMPLETE_BLOCK, &r);
        keep_known(j, line, &c, &r);
        e.energy = complete_energy(norm, largest, r.largest[0], r.totals[0], c.rows, c.beta);
        memset(r.moved + c.dimension, 0, (c.stride - c.dimension) * sizeof(float));
        memcpy(c.state, r.next, c.stride * sizeof *c.state);
        moved = canonical_norm(canonical_dot(c.dimension, r.moved, r.moved));
        e.converged = moved < 1e-4f;
        e.rounds++;
    }
    const float *best = c.row + (size_t)e.cosine * c.stride;
    e.cosine = canonical_cosine(canonical_dot(c.dimension, c.state, best),
                                canonical_norm(canonical_dot(c.dimension, c.state, c.state)),
                                c.norm[(size_t)e.cosine]);
    e.state = c.state;
    complete_round_destroy(&r);
    samples_free(c.row), samples_free(c.norm);
    return e;
}

static void assert_result(const struct bench *b, const struct job *j)
{
    const struct tensor *t = j->result.tensors;
    for (uint64_t q = 0; q < j->request.queries.rows; q++) {
        struct expected e = expect_state(b, j, q);
        const float *state = (const float *)t[RESULT_COMPLETE_STATES].data + q * b->dimension;
        cr_assert_eq(memcmp(state, e.state, b->dimension * sizeof *state), 0, "state %d", (int)q);
        cr_assert_eq(((uint32_t *)t[RESULT_COMPLETE_ROUNDS].data)[q], e.rounds);
        cr_assert_eq(((uint8_t *)t[RESULT_COMPLETE_CONVERGED].data)[q], e.converged);
        cr_assert_eq(((uint64_t *)t[RESULT_COMPLETE_IDS].data)[q], e.id);
        cr_assert_eq(memcmp((float *)t[RESULT_COMPLETE_ENERGIES].data + q, &e.energy, 4), 0);
        cr_assert_eq(memcmp((float *)t[RESULT_COMPLETE_COSINES].data + q, &e.cosine, 4), 0);
        samples_free(e.state);
    }
}

static void run_and_assert(struct bench *b, struct job *j)
{
    cr_assert_eq(operation_check(j), STATUS_OK, "%s", j->failure.text);
    run_all_ways(j);
    assert_result(b, j);
    run_job_reset(j);
}

Test(complete, equals_the_definition, .timeout = 120)
{
    static const struct {
        uint32_t dimension;
        uint64_t rows, states;
    } cases[] = {{24, 90, STATES_MAX}, {7, 1, 3}, {40, 1025, 2}, {100, 20000, 3}, {1100, 70, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench b = open_bench(cases[i].dimension, cases[i].rows);
        float *cues = make_floats(cases[i].states * cases[i].dimension, 3);
        for (int unit = 0; unit < 2; unit++) {
            struct job j = job_on(&b, cues, cases[i].states);
            j.request.unit = unit;
            j.request.beta = unit ? 30.0f : 0.5f;
            run_and_assert(&b, &j);
        }
        free(cues);
        close_bench(&b);
    }
}

Test(complete, keeps_what_a_mask_knows)
{
    enum { D = 24 };
    struct bench b = open_bench(D, 90);
    float *cues = make_floats(2 * D, 3);
    uint8_t masks[2 * D];
    for (int i = 0; i < 2 * D; i++)
        masks[i] = i % 3 == 0 ? (uint8_t)(i + 1) : 0;
    struct job j = job_on(&b, cues, 2);
    j.request.unit = true;
    for (uint64_t rows = 1; rows <= 2; rows++) {
        j.request.mask = bytes(masks, rows, D);
        run_and_assert(&b, &j);
    }
    for (int i = 0; i < 2 * D; i++) /* what is not known may be anything */
        if (!masks[i]) cues[i] = i % 2 ? NAN : i % 4 ? INFINITY : 3e38f;
    j.request.mask = bytes(masks, 2, D);
    run_and_assert(&b, &j);
    for (int i = D; i < 2 * D; i++)
        cues[i] = masks[i - D] ? 0.5f : NAN;
    j.request.mask = bytes(masks, 1, D);
    run_and_assert(&b, &j);
    free(cues);
    close_bench(&b);
}

Test(complete, refuses_what_a_mask_knows)
{
    enum { D = 33, STATES = 80 }; /* rows are padded, and checked in two groups */
    struct bench b = open_bench(D, 5);
    float *cues = make_floats(STATES * D, 3);
    uint8_t *masks = calloc(STATES, D);
    struct job j = job_on(&b, cues, STATES);
    j.request.mask = bytes(masks, STATES, D);
    cues[70 * D + 1] = NAN, cues[70 * D + 7] = INFINITY, masks[70 * D + 7] = 1;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "state 70: column 7 is");
    cues[69 * D + 1] = NAN, cues[69 * D + 2] = 3e38f, masks[69 * D + 2] = 1;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW, "state 69: its squared norm");
    free(cues), free(masks);
    close_bench(&b);
}

/* The states of one group stop after different rounds, and the others go on together. */
Test(complete, states_stop_one_by_one)
{
    enum { D = 24, STATES = 9 };
    struct bench b = open_bench(D, 90);
    float *cues = make_floats(STATES * D, 3);
    for (int q = 0; q < STATES; q++)
        memcpy(cues + q * D, b.data + q * D, (size_t)(D - 2 * q) * sizeof *cues);
    struct job j = job_on(&b, cues, STATES);
    uint32_t least = UINT32_MAX, most = 0;
    j.request.beta = 2.0f;
    j.request.rounds = COMPLETE_ROUNDS_MAX;
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    for (int q = 0; q < STATES; q++) {
        uint32_t rounds = ((uint32_t *)j.result.tensors[RESULT_COMPLETE_ROUNDS].data)[q];
        least = rounds < least ? rounds : least;
        most = rounds > most ? rounds : most;
    }
    cr_assert(least < most && most < COMPLETE_ROUNDS_MAX, "%u to %u", least, most);
    assert_result(&b, &j);
    run_job_reset(&j);
    run_and_assert(&b, &j);
    free(cues);
    close_bench(&b);
}

/* Of rows that are the same, the one with the smallest id. */
Test(complete, ties_go_to_the_smallest_id)
{
    enum { D = 8, ROWS = 3000 };
    struct bench b = open_bench(D, ROWS);
    float *same = make_floats(D, 4), *rows = malloc(ROWS * D * sizeof *rows);
    struct upsert_counts counts;
    for (int i = 0; i < ROWS; i++)
        memcpy(rows + i * D, same, D * sizeof *same);
    cr_assert_eq(collection_upsert(b.collection, b.ids, rows, ROWS, &counts, NULL), STATUS_OK);
    memcpy(b.data, rows, ROWS * D * sizeof *rows);
    struct job j = job_on(&b, same, 1);
    run_and_assert(&b, &j);
    cr_assert_eq(b.ids[0], 0);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert_eq(*(uint64_t *)j.result.tensors[RESULT_COMPLETE_IDS].data, 0);
    run_job_reset(&j);
    free(same), free(rows);
    close_bench(&b);
}

Test(complete, no_states_are_no_result)
{
    struct bench b = open_bench(8, 5);
    float none[8] = {0};
    struct job j = job_on(&b, none, 0);
    run_all_ways(&j);
    cr_assert_eq(j.result.tensors[RESULT_COMPLETE_STATES].rows, 0);
    run_job_reset(&j);
    close_bench(&b);
}

static void check_and(struct job *j, enum detail detail, const char *text)
{
    cr_assert_eq(operation_check(j), STATUS_INVALID_ARGUMENT, "%s: %s", text, j->failure.text);
    cr_assert_eq(j->failure.detail, detail);
    cr_assert_not_null(strstr(j->failure.text, text), "%s: %s", text, j->failure.text);
    memset(&j->failure, 0, sizeof j->failure);
}

Test(complete, refuses_what_a_request_alone_shows)
{
    enum { D = 8 };
    static const float betas[] = {0, -1, NAN, INFINITY, 2e6f, 1e-7f};
    struct bench b = open_bench(D, 5);
    float cues[2 * D] = {1};
    uint8_t mask[3 * D] = {1};
    struct job j = job_on(&b, cues, 2);
    for (size_t i = 0; i < sizeof betas / sizeof *betas; i++) {
        j.request.beta = betas[i];
        check_and(&j, DETAIL_BAD_BETA, "1e-06 to 1e+06 wanted");
    }
    j.request.beta = 1;
    j.request.rounds = 0;
    check_and(&j, DETAIL_BAD_ROUNDS, "rounds: 0, 1 to 100 wanted");
    j.request.rounds = 101;
    check_and(&j, DETAIL_BAD_ROUNDS, "rounds: 101");
    j.request.rounds = 100;
    j.request.mask = bytes(mask, 1, D - 1);
    check_and(&j, DETAIL_BAD_SHAPE, "mask: 7 columns, states have 8");
    j.request.mask = bytes(mask, 3, D);
    check_and(&j, DETAIL_BAD_SHAPE, "mask: 3 rows, 1 or as many as there are states wanted, 2");
    j.request.mask = bytes(mask, 0, D);
    check_and(&j, DETAIL_BAD_SHAPE, "mask: 0 rows");
    close_bench(&b);
}

Test(complete, refuses_what_the_collection_shows)
{
    enum { D = 8, STATES = 80 };
    struct bench b = open_bench(D, 5), empty = open_bench(D, 0);
    float cues[STATES * D] = {1};
    struct job j = job_on(&b, cues, STATES);
    j.request.queries.columns = 4;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "states have 4 columns");
    j.request.queries.columns = D;
    cues[77 * D + 2] = NAN;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "state 77");
    cues[66 * D + 1] = 3e38f;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW, "state 66");
    struct job e = job_on(&empty, cues, 1);
    expect(&e, STATUS_FAILED_PRECONDITION, DETAIL_NO_ROWS, "c has no rows");
    close_bench(&b), close_bench(&empty);
}

Test(complete, every_site_that_fails_leaves_nothing)
{
    enum { D = 24 };
    struct bench b = open_bench(D, 90);
    float *cues = make_floats(3 * D, 3);
    struct job j = job_on(&b, cues, 3);
    uint64_t blocks = heap_usage(b.heap).blocks;
    for (uint32_t nth = 1;; nth++) {
        fault_arm(nth);
        enum status st = run_job(&j, 1);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert_eq(st, fired ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK, "site %u", nth);
        run_job_reset(&j);
        cr_assert_eq(heap_usage(b.heap).blocks, blocks);
        if (!fired) break;
        cr_assert_lt(nth, 100);
    }
    free(cues);
    close_bench(&b);
}

Test(complete, a_cancelled_one_has_no_result)
{
    enum { D = 24 };
    struct bench b = open_bench(D, 90);
    float *cues = make_floats(3 * D, 3);
    struct job j = job_on(&b, cues, 3);
    uint64_t blocks = heap_usage(b.heap).blocks;
    atomic_store(&j.cancelled, true);
    run_job(&j, 1);
    cr_assert_null(j.result.block.data);
    cr_assert_eq(heap_usage(b.heap).blocks, blocks);
    free(cues);
    close_bench(&b);
}
