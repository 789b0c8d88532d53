/* The GPU backend when something goes wrong: no job is lost, none fails, nothing is kept. */
#include <poll.h>

#include "tests/unit/cards/gpu_house.h"

/* ---------------------------------------------------------------- what goes wrong */

Test(gpu_failures, every_other_result_is_for_the_cpu)
{
    static const struct {
        enum order_result result;
        enum reason why;
    } cases[] = {
        {RESULT_NO_MEMORY, REASON_VRAM_PRESSURE},
        {RESULT_ERROR, REASON_FALLBACK_AFTER_ERROR},
        {RESULT_REFUSED, REASON_FALLBACK_AFTER_ERROR},
        {RESULT_NO_REPLICA, REASON_FALLBACK_AFTER_ERROR},
    };
    struct house h;
    open_house(&h, "sim");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        upload(&h, processes[0]);
        struct job *j = make_knn(&h);
        submit(&h, j);
        struct order o = expect_run(processes[0], RUN_KNN);
        answer(processes[0], &o, cases[i].result, 0);
        expect_gave_up(&h, j, cases[i].why);
        cr_assert_eq(cards_in_flight(h.gpu), 0);
        cr_assert_eq(processes[0]->process->failures, 1);
    }
    cr_assert_not(replica_is_ready(h.gpu, collection_resident(h.collection)),
                  "NO_REPLICA: it is gone");
    close_house(&h);
}

Test(gpu_failures, a_bad_query_is_refused_in_the_cpus_words)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    h.queries[2 * DIMENSION + 5] = 1.0F / 0.0F;
    struct job *j = make_knn(&h);
    submit(&h, j);
    struct order o = expect_run(processes[0], RUN_KNN);
    answer(processes[0], &o, RESULT_BAD_QUERY, 2);
    expect_back(&h, j);
    cr_assert_not(cards_gave_up(j));
    cr_assert_eq(j->failure.code, STATUS_INVALID_ARGUMENT);
    cr_assert_eq(j->failure.detail, DETAIL_NOT_FINITE);
    cr_assert_str_eq(j->failure.text, "query 2: column 5 is not a finite number");
    drop_job(j);

    j = make_knn(&h);
    submit(&h, j);
    o = expect_run(processes[0], RUN_KNN);
    answer(processes[0], &o, RESULT_BAD_QUERY, QUERIES); /* there is no such query */
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
    close_house(&h);
}

Test(gpu_failures, a_process_that_dies_takes_nothing_along)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    uint64_t replica = upload(&h, p);
    struct job *first = make_knn(&h), *second = make_knn(&h),
               *third = make_job(&h, OPERATION_UPLOAD);
    submit(&h, first);
    upsert(&h, 0, ROWS);
    submit(&h, second);
    upsert(&h, 0, ROWS);
    submit(&h, third);
    struct order o = expect_run(p, RUN_KNN);
    answer(p, &o, RESULT_OK, 0); /* its last word counts */
    die(p);
    expect_back(&h, first);
    cr_assert_not(cards_gave_up(first));
    drop_job(first);
    expect_gave_up(&h, second, REASON_FALLBACK_AFTER_ERROR);
    expect_back(&h, third);
    drop_job(third);
    cr_assert_eq(cards_state(h.gpu), GPU_DOWN);
    cr_assert_not(replica_is_ready(h.gpu, collection_resident(h.collection)));
    struct job *j = make_knn(&h);
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE, "nobody is there");
    drop_job(j);
    live(p);
    cr_assert_neq(upload(&h, p), replica, "it returns when it is wanted");
    close_house(&h);
}

/* Nobody waits for what cannot be killed. */
Test(gpu_failures, a_process_that_is_stuck_keeps_nobody)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    struct job *j = make_knn(&h);
    submit(&h, j);
    gpu_process_kill(p->process, "a test asks for it");
    p->process->options.events.on_stuck(p->process->options.events.owner);
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
    cr_assert_not(replica_is_ready(h.gpu, collection_resident(h.collection)));
    die(p);
    live(p);
    upload(&h, p);
    submit(&h, j = make_knn(&h));
    p->stuck = true;
    cards_stop(h.gpu);
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
    close_house(&h);
}

Test(gpu_failures, an_answer_that_nobody_asked_for_is_madness)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    struct job *j = make_knn(&h);
    submit(&h, j);
    struct order o = expect_run(p, RUN_KNN), strange = o;
    strange.token ^= UINT64_C(1) << 40;
    answer(p, &strange, RESULT_OK, 0);
    answer(p, &o, RESULT_OK, 0); /* nothing after that is believed */
    expect_none_back(&h);
    cr_assert_neq(p->killed[0], 0);
    die(p);
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);

    live(p);
    upload(&h, p);
    j = make_knn(&h);
    submit(&h, j);
    o = expect_run(p, RUN_KNN);
    answer(p, &o, RESULT_OK, 0);
    answer(p, &o, RESULT_OK, 0); /* twice */
    expect_back(&h, j);
    cr_assert_not(cards_gave_up(j));
    cr_assert_neq(p->killed[0], 0);
    drop_job(j);
    die(p);
    close_house(&h);
}

Test(gpu_failures, an_answer_from_an_evicted_replica_does_not_count)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    uint64_t replica = upload(&h, p);
    struct job *j = make_knn(&h);
    submit(&h, j);
    struct order o = expect_run(p, RUN_KNN);
    struct completion *c = ring_reserve(&p->peer_completions);
    *c = (struct completion){.kind = COMPLETION_EVICTED, .replica = replica};
    ring_publish(&p->peer_completions);
    answer(p, &o, RESULT_OK, 0);
    expect_gave_up(&h, j, REASON_VRAM_PRESSURE);
    cr_assert(replica_was_refused(h.gpu, collection_resident(h.collection)));
    o = next_order(p);
    cr_assert(o.kind == ORDER_FORGET && o.replica == replica);
    close_house(&h);
}

Test(gpu_failures, a_cancelled_job_stays_until_its_orders_are_done)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    struct job *j = make_knn(&h);
    submit(&h, j);
    atomic_store(&j->cancelled, true);
    struct order o = expect_run(p, RUN_KNN);
    expect_none_back(&h);
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    cr_assert(!cards_gave_up(j) && atomic_load(&j->skipped) && !j->result.block.data);
    drop_job(j);
    close_house(&h);
}

/* The number that says that it lives changes, for as long as gpu.heartbeat_ms it may not; but who
 * was paused, as a machine is, does not take the other's silence for its death. */
Test(gpu_failures, a_standstill_of_ours_is_no_silence)
{
    enum { LIMIT_MS = 400, CHECK_NS = 20000000 };
    const uint64_t limit_ns = LIMIT_MS * UINT64_C(1000000);
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    h.config.gpu_heartbeat_ms = LIMIT_MS;
    uint64_t now_ns = clock_now_ns();
    for (int round = 0; round < 3; round++) {
        atomic_fetch_add(&p->share->heartbeat_ns, 1);
        cards_check(h.gpu, now_ns);
        now_ns += 5 * limit_ns; /* nobody looked, and the process may have stood still, too */
        cards_check(h.gpu, now_ns);
        for (uint64_t end_ns = now_ns + limit_ns; now_ns < end_ns; now_ns += CHECK_NS)
            cards_check(h.gpu, now_ns);
        cr_assert_str_eq(p->killed, "", "it was given its whole time again");
    }
    for (int i = 0; i < 100; i++, now_ns += limit_ns / 2) { /* late, and alive */
        atomic_fetch_add(&p->share->heartbeat_ns, 1);
        cards_check(h.gpu, now_ns);
    }
    cr_assert_str_eq(p->killed, "");
    for (uint64_t end_ns = now_ns + 2 * limit_ns; now_ns < end_ns && !p->killed[0];
         now_ns += CHECK_NS)
        cards_check(h.gpu, now_ns);
    cr_assert(strstr(p->killed, "no sign of life"), "'%s'", p->killed);
    die(p);
    close_house(&h);
}

Test(gpu_failures, a_job_that_hangs_costs_the_process_its_life)
{
    struct house h;
    open_house(&h, "sim");
    h.config.gpu_job_ms = 50;
    struct played_card *p = processes[0];
    upload(&h, p);
    struct job *j = make_knn(&h);
    submit(&h, j);
    cards_check(h.gpu, clock_now_ns() + 20000000);
    cr_assert_eq(p->killed[0], 0);
    cards_check(h.gpu, clock_now_ns() + 200000000);
    cr_assert_neq(p->killed[0], 0);
    die(p);
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
    close_house(&h);
}

/* A paused machine, a stopped daemon: the process may have answered, or have had no time to. */
Test(gpu_failures, a_standstill_of_ours_is_no_hang)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    struct job *answered = make_knn(&h), *late = make_knn(&h);
    uint64_t now_ns = clock_now_ns(), limit_ns = h.config.gpu_job_ms * UINT64_C(1000000);
    cards_check(h.gpu, now_ns);
    submit(&h, answered);
    struct order o = expect_run(p, RUN_KNN);
    answer(p, &o, RESULT_OK, 0);
    now_ns += limit_ns + UINT64_C(100000000);
    cards_check(h.gpu, now_ns);
    cr_assert_str_eq(p->killed, "", "its answer has come");
    expect_back(&h, answered);
    drop_job(answered);

    cards_check(h.gpu, clock_now_ns());
    submit(&h, late);
    now_ns = clock_now_ns() + UINT64_C(3600000000000);
    cards_check(h.gpu, now_ns);
    cr_assert_str_eq(p->killed, "", "nobody looked");
    uint64_t end_ns = now_ns + limit_ns + UINT64_C(1000000000);
    for (; now_ns < end_ns && !p->killed[0]; now_ns += UINT64_C(100000000))
        cards_check(h.gpu, now_ns);
    cr_assert_neq(p->killed[0], 0, "and then it hangs indeed");
    die(p);
    expect_gave_up(&h, late, REASON_FALLBACK_AFTER_ERROR);
    close_house(&h);
}

/* Killed while a worker prepared the request: it does not say that a replica is on its way. */
Test(gpu_failures, a_process_that_went_meanwhile_is_down)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    for (uint64_t i = 0; i < 1000; i++)
        h.ids[i] = 7 + i * 6;
    struct job *j = make_knn(&h);
    j->request.filter_ids = (struct tensor){DTYPE_UINT64, 1000, 1, h.ids};
    submit(&h, j);
    gpu_process_kill(p->process, "a test asks for it");
    expect_gave_up(&h, j, REASON_GPU_DOWN);
    die(p);
    close_house(&h);
}

Test(gpu_failures, more_than_it_takes_is_for_the_cpu)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    struct job *jobs[GPU_JOBS_MAX];
    for (int i = 0; i < GPU_JOBS_MAX; i++)
        submit(&h, jobs[i] = make_knn(&h));
    struct job *j = make_knn(&h);
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
    cr_assert_eq(j->gpu.gave_up, REASON_QUEUE_FULL);
    drop_job(j);
    for (struct order o; (o = next_order(p)).kind;)
        answer(p, &o, RESULT_OK, 0);
    for (int i = 0; i < GPU_JOBS_MAX; i++) {
        expect_back(&h, jobs[i]);
        drop_job(jobs[i]);
    }
    close_house(&h);
}

/* With jobs everywhere: with a worker, in the ring, and answered but not yet taken. */
Test(gpu_failures, stopping_gives_everything_back)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    h.ids[0] = 7;
    struct job *jobs[6];
    for (int i = 0; i < 6; i++) {
        jobs[i] = make_knn(&h);
        if (i % 2) jobs[i]->request.filter_bitmap = (struct tensor){DTYPE_UINT8, 8000, 1, h.ids};
        submit(&h, jobs[i]);
    }
    struct order o = next_order(p);
    answer(p, &o, RESULT_OK, 0);
    cards_stop(h.gpu);
    for (int i = 0; i < 6; i++) {
        expect_back(&h, jobs[i]);
        cr_assert_eq(cards_gave_up(jobs[i]), i != 0, "%d: what was answered is taken at the end",
                     i);
        drop_job(jobs[i]);
    }
    close_house(&h);
}

/* ---------------------------------------------------------------- sleeping */

Test(gpu_failures, watching_ends_with_news_or_asleep)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    int fd = eventfd(0, EFD_NONBLOCK);
    upload(&h, p);
    cr_assert_not(cards_watch(h.gpu, fd));
    cr_assert_eq(atomic_load(&p->process->completions.lines->sleeping), 1);
    struct job *j = make_knn(&h);
    submit(&h, j);
    struct order o = expect_run(p, RUN_KNN);
    cr_assert_not(cards_watch(h.gpu, fd), "nothing came");
    answer(p, &o, RESULT_OK, 0);
    struct pollfd woken = {.fd = p->completions_fd, .events = POLLIN};
    cr_assert_eq(poll(&woken, 1, 0), 1, "asleep, it is woken");
    cr_assert(cards_watch(h.gpu, fd), "and there it is");
    expect_back(&h, j);
    drop_job(j);
    h.config.gpu_spin_us = UINT32_MAX; /* an hour: whoever spins on never gets here */
    submit(&h, j = make_knn(&h));
    o = expect_run(p, RUN_KNN);
    eventfd_write(fd, 1);
    cr_assert_not(cards_watch(h.gpu, fd), "the loop has work");
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);
    close(fd);
    close_house(&h);
}

/* Killed and not gone yet: its orders are out, but no news will come of them soon. */
Test(gpu_failures, nobody_watches_the_dead)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    int fd = eventfd(0, EFD_NONBLOCK);
    upload(&h, p);
    struct job *j = make_knn(&h);
    submit(&h, j);
    gpu_process_kill(p->process, "a test asks for it");
    h.config.gpu_spin_us = UINT32_MAX; /* whoever spins on never gets here */
    cr_assert_not(cards_watch(h.gpu, fd));
    die(p);
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
    close(fd);
    close_house(&h);
}

/* What is lost again soon after it came back waits longer each time. */
Test(gpu_failures, rivals_do_not_chase_each_other_for_ever)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    static const uint64_t waits_ns[] = {500000000, 1000000000, 2000000000};
    h.stopped_ns = clock_now_ns();
    for (int i = 0; i < 3; i++) {
        struct completion gone = {.kind = COMPLETION_EVICTED, .replica = upload(&h, p)};
        *(struct completion *)ring_reserve(&p->peer_completions) = gone;
        ring_publish(&p->peer_completions);
        take_back(&h);
        for (struct order o; (o = next_order(p)).kind;)
            answer(p, &o, RESULT_OK, 0);
        h.stopped_ns += waits_ns[i] - 1;
        cr_assert_not(replica_wants_upload(h.gpu, collection_resident(h.collection)), "time %d", i);
        h.stopped_ns += 1;
        cr_assert(replica_wants_upload(h.gpu, collection_resident(h.collection)), "time %d", i);
    }
    close_house(&h);
}

Test(gpu_failures, every_want_of_memory)
{
    for (uint32_t nth = 1;; nth++) {
        struct house h;
        open_house(&h, "none");
        struct cards_options options = {.loop = &h.loop,
                                        .config = &h.config,
                                        .heap = h.heap,
                                        .done = &h.done,
                                        .cpu = h.cpu,
                                        .host = &played_host};
        strcpy(h.config.gpu_devices, "sim,sim");
        struct backend *b = NULL;
        fault_arm(nth);
        enum status st = cards_create(&options, &b);
        bool fired = fault_fired() != NULL;
        fault_arm(0);
        cr_assert(st ? fired && st == STATUS_RESOURCE_EXHAUSTED && !b : b != NULL, "%u", nth);
        if (b) b->ops->destroy(b);
        close_house(&h);
        if (!fired) return;
    }
}

Test(gpu_failures, want_of_memory_sends_a_job_to_the_cpu)
{
    bool fired = true;
    for (uint32_t nth = 1; fired; nth++) {
        struct house h;
        open_house(&h, "sim");
        struct job *j = make_job(&h, OPERATION_UPLOAD);
        fault_arm(nth);
        enum status st = h.gpu->ops->submit(h.gpu, j);
        fired = fault_fired() != NULL;
        fault_arm(0);
        cr_assert_eq(st, fired ? STATUS_UNAVAILABLE : STATUS_OK, "%u", nth);
        if (st) drop_job(j);
        if (st) upload(&h, processes[0]);
        for (struct order o; (o = next_order(processes[0])).kind;)
            answer(processes[0], &o, RESULT_OK, 0);
        if (!st) expect_back(&h, j);
        if (!st) drop_job(j);
        j = make_knn(&h);
        fault_arm(nth);
        st = h.gpu->ops->submit(h.gpu, j);
        fired |= fault_fired() != NULL;
        bool hit = fault_fired() != NULL;
        fault_arm(0);
        cr_assert_eq(st, hit ? STATUS_UNAVAILABLE : STATUS_OK, "%u", nth);
        cr_assert(!hit || j->gpu.gave_up == REASON_QUEUE_FULL);
        for (struct order o; (o = next_order(processes[0])).kind;)
            answer(processes[0], &o, RESULT_OK, 0);
        if (!st) expect_back(&h, j);
        drop_job(j);
        close_house(&h);
    }
}
