/* The GPU backend with so many candidates that workers share finding and choosing them. */
#include "kernels/topk.h"
#include "tests/unit/cards/gpu_house.h"

enum { CANDIDATES = 100000, LISTS = 700, K = 4 };

struct request {
    struct heap_block block;
    uint64_t *ids, *offsets;
    float *queries;
};

/* Lists of uneven length, every seventh empty, and the last ones. */
static struct request make_request(struct house *h)
{
    struct request r;
    uint64_t bytes = CANDIDATES * 8 + (LISTS + 1) * 8 + LISTS * DIMENSION * 4;
    cr_assert_eq(heap_take(h->heap, bytes, 1, &r.block), STATUS_OK);
    r.ids = r.block.data;
    r.offsets = r.ids + CANDIDATES;
    r.queries = (float *)(r.offsets + LISTS + 1);
    unsigned seed = 3;
    for (uint32_t i = 0; i < CANDIDATES; i++)
        r.ids[i] = 7 + (uint64_t)rand_r(&seed) % ROWS * 3;
    uint64_t at = 0;
    for (uint32_t q = 0; q <= LISTS; q++) {
        r.offsets[q] = at;
        if (q % 7) at += (uint64_t)rand_r(&seed) % 500;
        if (at > CANDIDATES || q + 3 >= LISTS) at = CANDIDATES;
    }
    reference_fill(6, r.queries, LISTS * DIMENSION);
    return r;
}

static struct job *make_score(struct house *h, const struct request *r)
{
    struct job *j = make_job(h, OPERATION_SCORE_CANDIDATES);
    j->request.queries = (struct tensor){DTYPE_FLOAT32, LISTS, DIMENSION, r->queries};
    j->request.ids = (struct tensor){DTYPE_UINT64, CANDIDATES, 1, r->ids};
    j->request.offsets = (struct tensor){DTYPE_UINT64, LISTS + 1, 1, r->offsets};
    j->request.k = K;
    return j;
}

static struct order await_order(struct house *h)
{
    struct order o = {0};
    for (int i = 0; i < 3000000 && !o.kind; i++) {
        take_back(h);
        o = next_order(processes[0]);
        if (!o.kind) usleep(100);
    }
    cr_assert_eq(o.kind, ORDER_RUN);
    cr_assert_eq(o.run.operation, RUN_LISTS);
    return o;
}

/* As a GPU process would: candidate i scores i * 37 % 1009. */
static void score_all(struct house *h, const struct order *o, const struct request *r)
{
    const uint32_t *rows = at(h, o->run.positions);
    float *scores = (float *)at(h, o->run.out_scores);
    cr_assert_eq(o->run.list_count, CANDIDATES);
    for (uint32_t i = 0; i < CANDIDATES; i++) {
        cr_assert_eq(collection_id(collection_now(h->collection), rows[i]), r->ids[i], "%u", i);
        scores[i] = (float)(i * 37 % 1009);
    }
}

static void expect_best(const struct job *j, const struct request *r)
{
    static struct topk_entry all[CANDIDATES];
    const struct tensor *t = j->result.tensors;
    cr_assert(t[0].rows == LISTS && t[0].columns == K);
    for (uint32_t q = 0; q < LISTS; q++) {
        uint64_t first = r->offsets[q], count = r->offsets[q + 1] - first;
        for (uint64_t i = 0; i < count; i++) {
            float score = (float)((first + i) * 37 % 1009);
            all[i] = (struct topk_entry){r->ids[first + i], topk_key(score, false), score};
        }
        topk_sort(all, count);
        uint64_t kept = count < K ? count : K;
        cr_assert_eq(((uint32_t *)t[2].data)[q], kept, "%u", q);
        for (uint64_t i = 0; i < kept; i++) {
            cr_assert_eq(((uint64_t *)t[0].data)[q * K + i], all[i].id);
            cr_assert_eq(((float *)t[1].data)[q * K + i], all[i].score);
        }
    }
}

Test(gpu_score, parts_of_one_request)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    struct request r = make_request(&h);
    struct job *j = make_score(&h, &r);
    submit(&h, j);
    struct order o = await_order(&h);
    score_all(&h, &o, &r);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, j);
    cr_assert(!cards_gave_up(j) && !j->failure.code && j->finished_ns >= j->started_ns);
    cr_assert_null(j->plan.scratch.data);
    expect_best(j, &r);
    drop_job(j);
    heap_give(h.heap, &r.block);
    close_house(&h);
}

Test(gpu_score, an_unknown_id_in_any_part)
{
    static const uint32_t places[] = {0, 5000, CANDIDATES / 2, CANDIDATES - 1};
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    struct request r = make_request(&h);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint64_t kept = r.ids[places[i]];
        r.ids[places[i]] = 8;
        struct job *j = make_score(&h, &r);
        submit(&h, j);
        expect_gave_up(&h, j, REASON_CHOSEN_FASTER);
        cr_assert_eq(next_order(processes[0]).kind, 0);
        r.ids[places[i]] = kept;
    }
    heap_give(h.heap, &r.block);
    close_house(&h);
}

/* Before the first part, between two, behind the last; and so while its best are chosen. */
Test(gpu_score, cancelled_at_any_time)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    struct request r = make_request(&h);
    for (useconds_t wait_us = 0; wait_us < 3000; wait_us += 100) {
        struct job *j = make_score(&h, &r);
        submit(&h, j);
        usleep(wait_us);
        if (wait_us % 200) { /* rather when it is back */
            struct order o = await_order(&h);
            score_all(&h, &o, &r);
            answer(processes[0], &o, RESULT_OK, 0);
            cards_poll(h.gpu);
            usleep(wait_us / 10);
        }
        atomic_store(&j->cancelled, true);
        take_back(&h);
        for (struct order o; (o = next_order(processes[0])).kind;)
            answer(processes[0], &o, RESULT_OK, 0);
        expect_back(&h, j);
        cr_assert_not(cards_gave_up(j));
        cr_assert_eq(j->failure.code, STATUS_OK);
        cr_assert(!j->plan.scratch.data && !j->gpu.staging[0].data);
        drop_job(j);
    }
    cr_assert_eq(cards_in_flight(h.gpu), 0);
    heap_give(h.heap, &r.block);
    close_house(&h);
}

Test(gpu_score, the_process_goes_between_parts)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    struct request r = make_request(&h);
    struct job *j = make_score(&h, &r);
    submit(&h, j);
    gpu_process_kill(p->process, "a test asks for it");
    expect_gave_up(&h, j, REASON_GPU_DOWN);
    die(p);
    live(p);
    upload(&h, p);
    submit(&h, j = make_score(&h, &r));
    die(p);
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
    live(p);
    upload(&h, p);
    submit(&h, j = make_score(&h, &r));
    cards_stop(h.gpu);
    expect_gave_up(&h, j, REASON_GPU_DOWN);
    heap_give(h.heap, &r.block);
    close_house(&h);
}
