/* A kNN request in two parts: the bytes, and the words for what is wrong, of the whole. */
#include <math.h>

#include "tests/unit/cards/gpu_house.h"
#include "daemon/exec/parts.h"
#include "tests/support/run_job.h"

enum { MANY = 100, MANY_FLOATS = MANY * DIMENSION };

static struct job *make_whole(struct house *h)
{
    struct job *j = make_knn(h);
    reference_fill(9, h->queries, MANY_FLOATS);
    j->request.queries.rows = MANY;
    j->request.k = 30;
    return j;
}

static struct job *make_part(struct house *h, struct job *whole, uint64_t first, uint64_t count)
{
    struct job *part = make_job(h, OPERATION_KNN);
    parts_make_request(whole, part, first, count);
    return part;
}

/* What the whole is alone. */
static struct job *run_alone(struct house *h)
{
    struct job *j = make_whole(h);
    cr_assert_eq(run_job(j, 1), STATUS_OK);
    return j;
}

static void check_same(const struct job *is, const struct job *wanted)
{
    const struct job_result *a = &is->result, *b = &wanted->result;
    cr_assert_eq(is->failure.code, STATUS_OK);
    cr_assert(a->body_bytes == b->body_bytes && a->version == b->version && a->rows == b->rows);
    cr_assert_eq(memcmp(a->block.data, b->block.data, a->body_bytes), 0);
    for (int i = 0; i < 3; i++) {
        const struct tensor *t = &a->tensors[i], *u = &b->tensors[i];
        cr_assert(t->dtype == u->dtype && t->rows == u->rows && t->columns == u->columns);
    }
}

Test(parts, are_the_whole_in_any_order)
{
    struct house h;
    open_house(&h, "none");
    struct job *alone = NULL;
    for (uint64_t cut = 1; cut < MANY; cut += 33) {
        struct job *whole = make_whole(&h);
        if (!alone) alone = run_alone(&h);
        struct job *first = make_part(&h, whole, 0, cut);
        struct job *second = make_part(&h, whole, cut, MANY - cut);
        cr_assert_eq(whole->parts_out, 2);
        struct job *early = cut % 2 ? second : first, *late = cut % 2 ? first : second;
        early->started_ns = 5;
        early->finished_ns = 50;
        late->started_ns = 7;
        late->finished_ns = 20;
        late->copy_ns = 3;
        cr_assert_eq(run_job(early, 1), STATUS_OK);
        early->screen = (struct job_screen){5, 100, 7, 50, false, false};
        cr_assert_null(early->result.block.data);
        cr_assert_not(parts_take(whole, early));
        drop_job(early);
        cr_assert_eq(run_job(late, 2), STATUS_OK);
        late->screen = (struct job_screen){1, 20, 1, 5, false, false};
        cr_assert(parts_take(whole, late));
        drop_job(late);
        const struct job_screen *did = &whole->screen;
        cr_assert(did->screened == 120 && did->survived == 8 && did->read_bytes == 55);
        cr_assert(whole->started_ns == 5 && whole->finished_ns == 50 && whole->copy_ns == 3);
        check_same(whole, alone);
        drop_job(whole);
    }
    drop_job(alone);
    close_house(&h);
}

Test(parts, name_queries_as_the_whole_counts_them)
{
    struct house h;
    open_house(&h, "none");
    for (int bad = 0; bad < 3; bad++) { /* in the first, in the second, in both */
        struct job *whole = make_whole(&h);
        if (bad != 1) h.queries[9 * DIMENSION + 4] = NAN;
        if (bad != 0) h.queries[77 * DIMENSION] = 1e30F;
        struct job *parts[2] = {make_part(&h, whole, 0, 40), make_part(&h, whole, 40, 60)};
        for (int i = 1; i >= 0; i--) {
            run_job(parts[i], 1);
            cr_assert_eq(parts_take(whole, parts[i]), i == 0);
            drop_job(parts[i]);
        }
        cr_assert_eq(whole->failure.code, STATUS_INVALID_ARGUMENT);
        cr_assert_str_eq(whole->failure.text, bad == 1
                                                  ? "query 77: its squared norm overflows float32"
                                                  : "query 9: column 4 is not a finite number");
        cr_assert_null(whole->result.block.data);
        drop_job(whole);
    }
    close_house(&h);
}

Test(parts, one_on_each_backend)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    struct job *whole = make_whole(&h), *alone = run_alone(&h);
    struct job *first = make_part(&h, whole, 0, 64), *second = make_part(&h, whole, 64, 36);
    submit(&h, first);
    cr_assert_eq(run_job(second, 1), STATUS_OK);
    cr_assert_not(parts_take(whole, second));
    drop_job(second);
    struct order o = expect_run(p, RUN_KNN);
    cr_assert_eq(o.run.query_count, 64);
    cr_assert_eq(at(&h, o.run.queries), h.queries);
    cr_assert_eq(at(&h, o.run.out_ids), whole->result.tensors[0].data);
    cr_assert_eq(at(&h, o.run.out_counts), whole->result.tensors[2].data);
    const struct tensor *good = alone->result.tensors; /* as the process would */
    memcpy((void *)at(&h, o.run.out_ids), good[0].data, 64 * 30 * 8);
    memcpy((void *)at(&h, o.run.out_scores), good[1].data, 64 * 30 * 4);
    memcpy((void *)at(&h, o.run.out_counts), good[2].data, 64 * 4);
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, first);
    cr_assert(parts_take(whole, first));
    check_same(whole, alone);
    drop_job(first);
    drop_job(whole);

    whole = make_whole(&h); /* let down, then refused */
    first = make_part(&h, whole, 0, 30);
    second = make_part(&h, whole, 30, 70);
    submit(&h, second);
    cr_assert_eq(run_job(first, 1), STATUS_OK);
    cr_assert_not(parts_take(whole, first));
    drop_job(first);
    o = expect_run(p, RUN_KNN);
    cr_assert_eq(at(&h, o.run.queries), h.queries + 30 * DIMENSION);
    cr_assert_eq(at(&h, o.run.out_scores), (float *)whole->result.tensors[1].data + 30 * 30);
    answer(p, &o, RESULT_ERROR, 0);
    expect_back(&h, second);
    cr_assert(cards_gave_up(second) && whole->result.block.data);
    cr_assert_eq(run_job(second, 1), STATUS_OK);
    cr_assert(parts_take(whole, second));
    check_same(whole, alone);
    drop_job(second);
    drop_job(whole);

    whole = make_whole(&h);
    first = make_part(&h, whole, 0, 30);
    second = make_part(&h, whole, 30, 70);
    h.queries[50 * DIMENSION + 2] = NAN;
    submit(&h, second);
    o = expect_run(p, RUN_KNN);
    answer(p, &o, RESULT_BAD_QUERY, 20);
    expect_back(&h, second);
    cr_assert_str_eq(second->failure.text, "query 50: column 2 is not a finite number");
    cr_assert_not(parts_take(whole, second));
    atomic_store(&first->cancelled, true); /* no use any more */
    cr_assert_eq(run_job(first, 1), STATUS_OK);
    cr_assert(parts_take(whole, first) && whole->failure.code && !whole->result.block.data);
    drop_job(first);
    drop_job(second);
    drop_job(whole);
    drop_job(alone);
    close_house(&h);
}

Test(parts, every_want_of_memory)
{
    struct house h;
    open_house(&h, "none");
    bool fired = true;
    struct job *alone = run_alone(&h);
    for (uint32_t nth = 1; fired; nth++) {
        struct job *whole = make_whole(&h);
        struct job *parts[] = {make_part(&h, whole, 0, 50), make_part(&h, whole, 50, 50)};
        fault_arm(nth);
        for (int i = 0; i < 2; i++) {
            run_job(parts[i], 1);
            parts_take(whole, parts[i]);
            drop_job(parts[i]);
        }
        fired = fault_fired() != NULL;
        fault_arm(0);
        cr_assert_eq(whole->failure.detail, fired ? DETAIL_MEMORY : DETAIL_NONE, "%u", nth);
        cr_assert_eq(whole->result.block.data == NULL, fired);
        parts_forget(whole);
        cr_assert_eq(run_job(whole, 1), STATUS_OK, "alone after all");
        check_same(whole, alone);
        drop_job(whole);
    }
    drop_job(alone);
    close_house(&h);
}

Test(parts, a_reply_is_as_large_as_the_whole)
{
    struct house h;
    open_house(&h, "none");
    struct job *whole = make_whole(&h), *part = make_part(&h, whole, 0, 10);
    whole->reply_bytes_max = 20 * 30 * 12;
    cr_assert_eq(run_job(part, 1), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(part->failure.detail, DETAIL_REPLY_TOO_LARGE);
    cr_assert(parts_take(whole, part) && whole->failure.detail == DETAIL_REPLY_TOO_LARGE);
    drop_job(part);
    drop_job(whole);
    close_house(&h);
}
