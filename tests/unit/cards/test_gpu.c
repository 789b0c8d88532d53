/* The GPU backend: replicas, and what the orders for each operation say. */
#include "tests/unit/cards/gpu_house.h"

/* ---------------------------------------------------------------- replicas */

Test(gpu, none_is_absent)
{
    struct house h;
    open_house(&h, "none");
    cr_assert_eq(cards_state(h.gpu), GPU_ABSENT);
    cr_assert_null(cards_process_at(h.gpu, 0));
    cr_assert_not(replica_wants_upload(h.gpu, collection_resident(h.collection)));
    cr_assert_not(cards_watch(h.gpu, uv_backend_fd(&h.loop)));
    close_house(&h);
}

Test(gpu, auto_takes_all_that_the_first_one_sees)
{
    struct house h;
    devices_shown = 3;
    open_house(&h, "auto");
    cr_assert_eq(process_count, 3);
    cr_assert_str_eq(processes[0]->process->options.which, "0");
    cr_assert_str_eq(processes[2]->process->options.which, "2");
    cr_assert_eq(cards_process_at(h.gpu, 2), processes[2]->process);
    close_house(&h);
    open_house(&h, "sim, 5");
    cr_assert_eq(process_count, 2, "a list is a list");
    cr_assert_str_eq(processes[1]->process->options.which, "5");
    close_house(&h);
}

Test(gpu, a_first_upload_and_what_follows)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    cr_assert_not(replica_is_ready(h.gpu, collection_resident(h.collection)));
    struct job *j = make_job(&h, OPERATION_UPLOAD);
    submit(&h, j);
    uint64_t rows = 0;
    struct order o = next_order(p), last = o;
    cr_assert_eq(o.upload.fresh, 1);
    for (; o.kind; o = next_order(p)) {
        cr_assert_eq(last.version, rows ? last.version : o.version);
        check_upload(&h, &o);
        rows += o.upload.count;
        last = o;
        answer(p, &o, RESULT_OK, 0);
    }
    cr_assert_eq(rows, ROWS);
    cr_assert_eq(last.version, collection_version(collection_now(h.collection)),
                 "the last one completes it");
    expect_back(&h, j);
    drop_job(j);
    cr_assert_not(replica_wants_upload(h.gpu, collection_resident(h.collection)));
    cr_assert_eq(replica_info(h.gpu, collection_resident(h.collection)).version, last.version);

    upsert(&h, 100, 3); /* a block of rows, on the way of the next request */
    cr_assert(replica_is_ready(h.gpu, collection_resident(h.collection)));
    j = make_knn(&h);
    submit(&h, j);
    o = next_order(p);
    check_upload(&h, &o);
    cr_assert_eq(o.upload.fresh, 0);
    cr_assert_leq(o.upload.first, 100);
    cr_assert_lt(o.upload.count, ROWS);
    cr_assert_eq(o.version, collection_version(collection_now(h.collection)));
    answer(p, &o, RESULT_OK, 0);
    expect_none_back(&h);
    o = next_order(p);
    cr_assert_eq(o.kind, ORDER_RUN);
    cr_assert_eq(o.version, collection_version(collection_now(h.collection)));
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);

    uint64_t ids[] = {7 + (ROWS - 1) * 3}, deleted, missing; /* the last row: nothing is dirty */
    collection_delete(h.collection, ids, 1, &deleted, &missing);
    j = make_knn(&h);
    submit(&h, j);
    o = next_order(p);
    check_upload(&h, &o);
    cr_assert_eq(o.upload.count, 0);
    answer(p, &o, RESULT_OK, 0);
    o = next_order(p);
    cr_assert_eq(o.run.row_count, ROWS - 1);
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);
    close_house(&h);
}

Test(gpu, a_failed_upload_is_forgotten_and_tried_again_later)
{
    struct house h;
    open_house(&h, "sim");
    h.stopped_ns = clock_now_ns();
    struct played_card *p = processes[0];
    struct job *j = make_job(&h, OPERATION_UPLOAD);
    submit(&h, j);
    struct order o = next_order(p), other;
    uint64_t replica = o.replica;
    answer(p, &o, RESULT_NO_MEMORY, 0);
    while ((other = next_order(p)).kind)
        answer(p, &other, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);
    o = next_order(p);
    cr_assert_eq(o.kind, ORDER_FORGET);
    cr_assert_eq(o.replica, replica);
    answer(p, &o, RESULT_OK, 0);
    cr_assert_not(replica_is_ready(h.gpu, collection_resident(h.collection)));
    cr_assert(replica_was_refused(h.gpu, collection_resident(h.collection)));
    cr_assert_not(replica_wants_upload(h.gpu, collection_resident(h.collection)));
    h.stopped_ns += 1000000000 - 1;
    cr_assert(replica_was_refused(h.gpu, collection_resident(h.collection)));
    h.stopped_ns += 1;
    cr_assert_not(replica_was_refused(h.gpu, collection_resident(h.collection)));
    cr_assert_neq(upload(&h, p), replica, "a new build has a new name");
    close_house(&h);
}

Test(gpu, a_card_that_is_too_small_is_not_asked)
{
    struct house h;
    open_house(&h, "sim");
    processes[0]->share->device.budget_bytes = ROWS * STRIDE; /* not even the rows' codes fit */
    struct job *j = make_job(&h, OPERATION_UPLOAD);
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
    cr_assert_eq(j->gpu.gave_up, REASON_VRAM_PRESSURE);
    cr_assert(replica_was_refused(h.gpu, collection_resident(h.collection)));
    cr_assert_eq(next_order(processes[0]).kind, 0);
    drop_job(j);
    close_house(&h);
}

Test(gpu, forgetting_a_collection_says_so)
{
    struct house h;
    open_house(&h, "sim");
    uint64_t replica = upload(&h, processes[0]);
    replica_forget(h.gpu, collection_resident(h.collection));
    struct order o = next_order(processes[0]);
    cr_assert_eq(o.kind, ORDER_FORGET);
    cr_assert_eq(o.replica, replica);
    answer(processes[0], &o, RESULT_OK, 0);
    cards_poll(h.gpu);
    cr_assert_str_eq(processes[0]->killed, "");
    close_house(&h);
}

/* ---------------------------------------------------------------- requests */

/* One query to a device that runs such requests directly lies beside its order, as long as the
 * process has not fallen behind. */
Test(gpu, a_query_beside_its_order)
{
    enum { ORDERS = SHARE_QUERIES + 2 };
    struct house h;
    open_house(&h, "sim");
    struct played_card *c = processes[0];
    upload(&h, c);
    c->share->device.direct_dimension = DIMENSION;
    struct job *jobs[ORDERS];
    for (uint32_t i = 0; i < ORDERS; i++) {
        jobs[i] = make_knn(&h);
        jobs[i]->request.queries = (struct tensor){DTYPE_FLOAT32, 1, DIMENSION, h.queries + i};
        submit(&h, jobs[i]);
    }
    for (uint32_t i = 0; i < ORDERS; i++) {
        const float *query = share_query(c->share, &c->peer_orders);
        const float *sent = h.queries + i;
        bool is_beside = i < SHARE_QUERIES;
        if (is_beside) cr_assert_eq(memcmp(query, sent, DIMENSION * sizeof *sent), 0, "%u", i);
        struct order o = expect_run(c, RUN_KNN);
        cr_assert_eq(o.run.queries == PLACE_WITH_ORDER, is_beside, "%u", i);
        if (!is_beside) cr_assert_eq(at(&h, o.run.queries), sent);
        answer(c, &o, RESULT_OK, 0);
        expect_back(&h, jobs[i]);
        drop_job(jobs[i]);
    }
    close_house(&h);
}

Test(gpu, an_order_for_knn)
{
    struct house h;
    open_house(&h, "sim");
    uint64_t replica = upload(&h, processes[0]);
    struct job *j = make_knn(&h);
    j->request.has_threshold = true;
    j->request.threshold = 0.25F;
    submit(&h, j);
    cr_assert_eq(cards_in_flight(h.gpu), 1);
    struct order o = expect_run(processes[0], RUN_KNN);
    cr_assert_eq(o.replica, replica);
    cr_assert_eq(o.run.k, 10);
    cr_assert(o.run.has_threshold && o.run.threshold == 0.25F);
    cr_assert_eq(at(&h, o.run.queries), h.queries);
    cr_assert_eq(o.run.query_count, QUERIES);
    cr_assert_eq(o.run.allowed, PLACE_NONE);
    cr_assert_eq(at(&h, o.run.out_ids), j->result.tensors[0].data);
    cr_assert_eq(at(&h, o.run.out_scores), j->result.tensors[1].data);
    cr_assert_eq(at(&h, o.run.out_counts), j->result.tensors[2].data);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, j);
    cr_assert_not(cards_gave_up(j));
    cr_assert_eq(processes[0]->process->failures, 0);
    cr_assert(j->received_ns <= j->started_ns && j->started_ns <= j->finished_ns);
    cr_assert_leq(j->copy_ns, j->finished_ns - j->started_ns);
    cr_assert_eq(cards_in_flight(h.gpu), 0);
    drop_job(j);
    close_house(&h);
}

/* A replica's rows in int8 as its process tells of them, which may be nonsense. */
Test(gpu, tells_of_a_replicas_rows_in_int8)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    struct resident *of = collection_resident(h.collection);
    struct job *j = make_knn(&h);
    submit(&h, j);
    struct order o = expect_run(processes[0], RUN_KNN);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);
    struct share_shadow *s = &processes[0]->share->shadow_of[o.replica % SHARE_SHADOWS];
    cr_assert_eq(replica_info(h.gpu, of).shadow.rows, 0);
    const uint64_t without = replica_info(h.gpu, of).bytes;
    const double losts[] = {0.004, -1, NAN, INFINITY, 1e300};
    for (size_t i = 0; i < sizeof losts / sizeof *losts; i++) {
        uint64_t bits;
        memcpy(&bits, &losts[i], sizeof bits);
        atomic_store(&s->replica, o.replica);
        atomic_store(&s->rows, 90);
        atomic_store(&s->bytes, 4096);
        atomic_store(&s->made_ns, i ? UINT64_MAX : 1);
        atomic_store(&s->lost, bits);
        atomic_store(&s->rests, 64);
        struct shadow_info told = replica_info(h.gpu, of).shadow;
        cr_assert(told.rows == 90 && told.bytes == 4096 && told.rests == 64);
        cr_assert_eq(replica_info(h.gpu, of).bytes, without + 4096);
        cr_assert_eq(replicas_space_bytes(h.gpu, h.space), without + 4096);
        cr_assert(i ? told.age_ns == 0 : told.age_ns > 0);
        cr_assert_eq(told.lost, i ? 0 : 0.004);
    }
    atomic_store(&s->rows, 0); /* it was evicted, and that without an upload */
    cr_assert_eq(replica_info(h.gpu, of).shadow.bytes, 0);
    cr_assert_eq(replica_info(h.gpu, of).bytes, without);
    cr_assert_eq(replicas_space_bytes(h.gpu, h.space), without);
    atomic_store(&s->rows, 90);
    atomic_store(&s->replica, o.replica + SHARE_SHADOWS); /* another's */
    cr_assert_eq(replica_info(h.gpu, of).shadow.rows, 0);
    close_house(&h);
}

/* What a process says of rows in int8 is believed as far as it can be. */
Test(gpu, says_what_became_of_rows_in_int8)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    const uint64_t pairs = QUERIES * collection_rows(collection_now(h.collection)),
                   most = UINT64_MAX;
    const uint64_t row_bytes = vector_stride(DIMENSION) * sizeof(float);
    const struct {
        unsigned screen;
        uint64_t number, read_bytes;
        struct job_screen told;
    } cases[] = {
        {0, 12, 99, {0}},
        {SCREEN_RESTED, 12, 99, {.rested = true}},
        {SCREEN_ASKED, 12, 99, {QUERIES, pairs, 12, 99, false, false}},
        {SCREEN_ASKED | SCREEN_USELESS, 12, 99, {QUERIES, pairs, 12, 99, true, false}},
        {SCREEN_ASKED, most, most, {QUERIES, pairs, pairs, 2 * row_bytes * pairs, false, false}},
        {UINT16_MAX, 0, 0, {QUERIES, pairs, 0, 0, true, true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *j = make_knn(&h);
        submit(&h, j);
        struct order o = expect_run(processes[0], RUN_KNN);
        answer_screened(processes[0], &o, RESULT_OK, cases[i].number, cases[i].screen,
                        cases[i].read_bytes);
        expect_back(&h, j);
        const struct job_screen *did = &j->screen, *told = &cases[i].told;
        cr_assert_eq(did->queries, told->queries);
        cr_assert_eq(did->screened, told->screened);
        cr_assert_eq(did->survived, told->survived);
        cr_assert_eq(did->read_bytes, told->read_bytes);
        cr_assert(did->useless == told->useless && did->rested == told->rested);
        drop_job(j);
    }
    close_house(&h);
}

Test(gpu, a_filter_is_a_bitmap_or_not_for_the_gpu)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    for (uint64_t i = 0; i < 1000; i++)
        h.ids[i] = 7 + i * 6; /* every other row */
    struct job *j = make_knn(&h);
    j->request.filter_ids = (struct tensor){DTYPE_UINT64, 1000, 1, h.ids};
    submit(&h, j);
    struct order o = {0};
    for (int i = 0; i < 3000000 && !o.kind; i++) { /* a worker prepares it */
        struct job *done = done_take(&h.done);
        if (done) cr_assert(cards_resume(h.gpu, done));
        if (done) o = expect_run(processes[0], RUN_KNN);
        usleep(100);
    }
    const uint64_t *allowed = at(&h, o.run.allowed);
    for (uint32_t row = 0; row < ROWS; row++)
        cr_assert_eq(allowed[row / 64] >> row % 64 & 1, row % 2 == 0 && row < 2000, "%u", row);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);

    j = make_knn(&h);
    j->request.filter_ids = (struct tensor){DTYPE_UINT64, 5, 1, h.ids};
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE, "its shape says it");
    cr_assert_eq(j->gpu.gave_up, REASON_CHOSEN_FASTER);
    drop_job(j);

    memset(h.ids, 0, 1000);
    ((uint8_t *)h.ids)[3] = 1; /* one id */
    j = make_knn(&h);
    j->request.filter_bitmap = (struct tensor){DTYPE_UINT8, 1000, 1, h.ids};
    submit(&h, j);
    expect_gave_up(&h, j, REASON_CHOSEN_FASTER);
    close_house(&h);
}

Test(gpu, orders_for_scores_lists_and_averages)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    struct job *j = make_job(&h, OPERATION_SIMILARITY);
    j->request.queries = (struct tensor){DTYPE_FLOAT32, QUERIES, DIMENSION, h.queries};
    j->request.metric = METRIC_DOT;
    submit(&h, j);
    struct order o = expect_run(p, RUN_SCORES);
    cr_assert_eq(o.run.metric, METRIC_DOT);
    cr_assert_eq(o.run.positions, PLACE_NONE);
    cr_assert_eq(o.run.out_ids, PLACE_NONE, "so few ids the front writes");
    for (uint32_t i = 0; i < ROWS; i++)
        cr_assert_eq(((uint64_t *)j->result.tensors[0].data)[i],
                     collection_id(collection_now(h.collection), i));
    cr_assert_eq(at(&h, o.run.out_scores), j->result.tensors[1].data);
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);

    for (uint64_t i = 0; i < 6; i++) {
        h.ids[i] = collection_id(collection_now(h.collection), (uint32_t)(i * 11));
        h.weights[i] = (float)i;
    }
    j = make_job(&h, OPERATION_SCORE_CANDIDATES);
    uint64_t *offsets = h.ids + 100;
    memcpy(offsets, (uint64_t[]){0, 4, 4, 6}, 32);
    j->request.queries = (struct tensor){DTYPE_FLOAT32, QUERIES, DIMENSION, h.queries};
    j->request.ids = (struct tensor){DTYPE_UINT64, 6, 1, h.ids};
    j->request.offsets = (struct tensor){DTYPE_UINT64, QUERIES + 1, 1, offsets};
    j->request.k = 2;
    submit(&h, j);
    o = expect_run(p, RUN_LISTS);
    cr_assert_eq(o.run.list_count, 6);
    cr_assert_eq(at(&h, o.run.offsets), offsets);
    for (uint32_t i = 0; i < 6; i++) {
        cr_assert_eq(((const uint32_t *)at(&h, o.run.positions))[i], i * 11);
        ((float *)at(&h, o.run.out_scores))[i] = (float)i; /* as the process would */
    }
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    const uint64_t *best = j->result.tensors[0].data;
    cr_assert(best[0] == h.ids[3] && best[1] == h.ids[2] && best[4] == h.ids[5]);
    cr_assert_eq(((uint32_t *)j->result.tensors[2].data)[1], 0);
    drop_job(j);

    j = make_job(&h, OPERATION_WEIGHTED_AVERAGE);
    j->request.ids = (struct tensor){DTYPE_UINT64, 6, 1, h.ids};
    j->request.weights = (struct tensor){DTYPE_FLOAT32, 6, 1, h.weights};
    submit(&h, j);
    o = expect_run(p, RUN_AVERAGE);
    cr_assert(o.run.total == 15 && o.run.list_count == 6);
    cr_assert_eq(at(&h, o.run.weights), h.weights);
    cr_assert_eq(at(&h, o.run.out_scores), j->result.tensors[0].data);
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);

    h.ids[3] = 1; /* unknown: the CPU says so */
    j = make_job(&h, OPERATION_WEIGHTED_AVERAGE);
    j->request.ids = (struct tensor){DTYPE_UINT64, 6, 1, h.ids};
    j->request.weights = (struct tensor){DTYPE_FLOAT32, 6, 1, h.weights};
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
    cr_assert_eq(j->gpu.gave_up, REASON_CHOSEN_FASTER);
    drop_job(j);
    close_house(&h);
}

/* Few candidates, but many lists to walk: that is not for the loop. */
Test(gpu, many_empty_lists_are_a_workers)
{
    enum { LISTS = 3000 };
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    struct heap_block block;
    cr_assert_eq(heap_take(h.heap, LISTS * DIMENSION * 4 + (LISTS + 1) * 8, 1, &block), STATUS_OK);
    uint64_t *offsets = block.data;
    float *queries = (float *)(offsets + LISTS + 1);
    memset(offsets, 0, (LISTS + 1) * 8);
    offsets[LISTS] = 1;
    reference_fill(6, queries, LISTS * DIMENSION);
    h.ids[0] = collection_id(collection_now(h.collection), 11);
    struct job *j = make_job(&h, OPERATION_SCORE_CANDIDATES);
    j->request.queries = (struct tensor){DTYPE_FLOAT32, LISTS, DIMENSION, queries};
    j->request.ids = (struct tensor){DTYPE_UINT64, 1, 1, h.ids};
    j->request.offsets = (struct tensor){DTYPE_UINT64, LISTS + 1, 1, offsets};
    j->request.k = 1;
    submit(&h, j);
    cr_assert(j->gpu.prepare_is_long && j->gpu.finish_is_long);
    struct order o = {0};
    for (int i = 0; i < 3000000 && !o.kind; i++) {
        struct job *done = done_take(&h.done);
        if (done) cr_assert(cards_resume(h.gpu, done));
        if (done) o = expect_run(p, RUN_LISTS);
        usleep(100);
    }
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    cr_assert_not(cards_gave_up(j));

    /* Lists that are wrong are the CPU's to refuse. */
    const struct job_request request = j->request;
    drop_job(j);
    j = make_job(&h, OPERATION_SCORE_CANDIDATES);
    j->request = request;
    offsets[7] = 1;
    submit(&h, j);
    struct job *done = NULL;
    for (int i = 0; i < 3000000 && !(done = done_take(&h.done)); i++)
        usleep(100);
    cr_assert(done == j && !cards_resume(h.gpu, done));
    cr_assert(cards_gave_up(j) && !j->failure.code);
    drop_job(j);
    heap_give(h.heap, &block);
    close_house(&h);
}
