/* When calibration measures and when it does not, on a clock that the test sets: the runner is
 * played, and so is what clients do meanwhile. */
#include "daemon/learn/calibrate.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "kernels/vectors.h"

#define MS         UINT64_C(1000000)
#define CHECK_NS   (100 * MS)
#define GIVE_UP_NS UINT64_C(30000000000)
#define TRIAL_NS   UINT64_C(50000)

static uint64_t now_ns;
static struct config config;
static const struct vector_kernels *kernels;
static struct store *store;
static struct heap *heap;
static struct cost_model model;
static struct model_keeper *keeper;
static struct calibrate *c;
static struct job *running; /* a trial */
static uint64_t requests, taken, given, trials_run;
static bool is_busy;

static uint64_t read_now(void *owner)
{
    return now_ns;
}

static const struct clock clock_set = {.now_ns = read_now};

/* ---------------------------------------------------------------- the runner */

static struct job *take(void *owner, struct space *space, struct job_owner back)
{
    struct job *j = calloc(1, sizeof *j);
    cr_assert(j);
    j->owner = back;
    j->space = space;
    j->heap = heap;
    j->clock = &clock_set;
    j->kernels = kernels;
    j->worker_count = 2;
    taken++;
    return j;
}

static void give(void *owner, struct job *j)
{
    given++;
    free(j);
}

static bool run_trial(void *owner, struct job *j, enum backend_id backend)
{
    cr_assert(!running && backend == BACKEND_CPU);
    running = j;
    trials_run++;
    return true;
}

static void run_step(void *owner, struct job *j, void (*step)(struct job *j))
{
    step(j);
    j->owner.done(j->owner.owner, j);
}

static uint64_t count_requests(void *owner)
{
    return requests;
}

static bool is_idle(void *owner)
{
    return !is_busy;
}

static void begin(void)
{
    kernels = vectors_choose("auto");
    now_ns = CHECK_NS;
    config_defaults(&config);
    cost_init(&model, 2);
    cr_assert_eq(heap_create(256 << 20, &heap), STATUS_OK);
    cr_assert_eq(store_create(heap, kernels, &store), STATUS_OK);
    struct model_keeper_options kept = {
        .workers = 2, .kernels = kernels, .model = &model, .path = "", .now_ns = now_ns};
    cr_assert_eq(model_keeper_create(&kept, &keeper), STATUS_OK);
    struct calibrate_options options = {
        .config = &config,
        .clock = &clock_set,
        .store = store,
        .heap = heap,
        .model = &model,
        .keeper = keeper,
        .runner = {.take = take,
                   .give = give,
                   .run = run_trial,
                   .run_step = run_step,
                   .requests = count_requests,
                   .is_idle = is_idle},
    };
    cr_assert_eq(calibrate_create(&options, &c), STATUS_OK);
}

static void end(void)
{
    calibrate_destroy(c);
    model_keeper_destroy(keeper);
    store_destroy(store);
    heap_destroy(heap);
    cr_assert_eq(taken, given, "jobs are left");
}

TestSuite(calibrate, .init = begin, .fini = end);

static void check(void)
{
    now_ns += CHECK_NS;
    calibrate_check(c, now_ns);
}

static void end_trial(void)
{
    struct job *j = running;
    running = NULL;
    now_ns += TRIAL_NS;
    j->owner.done(j->owner.owner, j);
}

static bool is_measured(void)
{
    return model_keeper_calibrated(keeper, HALF_CPU);
}

static void measure(void)
{
    while (running)
        end_trial();
}

/* ---------------------------------------------------------------- clients */

Test(calibrate, begins_when_nobody_asks_and_measures_once)
{
    check();
    cr_assert(running, "nobody asks, and it waits");
    measure();
    cr_assert(is_measured());
    uint64_t before = taken;
    for (int i = 0; i < 100; i++)
        check();
    cr_assert_eq(taken, before, "it is measured again");
}

Test(calibrate, clients_go_first)
{
    for (int i = 0; i < 250; i++) {
        requests++;
        check();
    }
    is_busy = true; /* one request, which lasts */
    for (int i = 0; i < 40; i++)
        check();
    cr_assert_eq(taken, 0, "it measures while clients ask");
    is_busy = false;
    check();
    cr_assert(running, "they have paused, and it waits");
    measure();
    cr_assert(is_measured());
}

Test(calibrate, who_leaves_no_pause_is_not_disturbed_ever)
{
    for (uint64_t waited_ns = 0; waited_ns <= GIVE_UP_NS + CHECK_NS; waited_ns += CHECK_NS) {
        requests++;
        check();
    }
    for (int i = 0; i < 10; i++)
        check();
    cr_assert_eq(taken, 0, "it has not given up");
    cr_assert(!is_measured());
}

/* The time of a trial that ran beside a request says nothing: it is run again, when they pause. */
Test(calibrate, a_trial_that_was_disturbed_is_run_again)
{
    check();
    measure();
    uint64_t in_peace = trials_run;
    end();
    taken = given = trials_run = 0;
    begin();
    check();
    for (uint64_t disturbed = 1; disturbed <= 5; disturbed++) {
        requests++;
        end_trial();
        cr_assert_null(running, "it goes on beside clients");
        requests++;
        check();
        cr_assert_null(running, "it goes on beside clients");
        check();
        cr_assert(running, "they have paused, and it waits");
        cr_assert_eq(trials_run, disturbed + 1);
    }
    measure();
    cr_assert(is_measured());
    cr_assert_eq(trials_run, in_peace + 5);
}

Test(calibrate, clients_that_come_back_end_it)
{
    check();
    for (uint64_t waited_ns = 0; waited_ns <= GIVE_UP_NS + CHECK_NS; waited_ns += CHECK_NS) {
        requests++;
        if (running) end_trial();
        check();
    }
    cr_assert_null(running);
    for (int i = 0; i < 10; i++)
        check();
    cr_assert_null(running);
    cr_assert(!is_measured());
    cr_assert_eq(heap_usage(heap).bytes_used, 0, "it holds its grounds");
}

/* ---------------------------------------------------------------- settings */

Test(calibrate, off_means_off)
{
    config.calibrate = false;
    for (int i = 0; i < 100; i++)
        check();
    cr_assert_eq(taken, 0);
}

Test(calibrate, what_is_known_is_not_measured)
{
    model_keeper_set_calibrated(keeper, HALF_CPU);
    for (int i = 0; i < 100; i++)
        check();
    cr_assert_eq(taken, 0);
}

Test(calibrate, too_little_memory_is_tried_once)
{
    struct heap_block most;
    uint64_t bytes = heap_usage(heap).bytes_max - (2 << 20);
    cr_assert_eq(heap_take(heap, bytes, 1, &most), STATUS_OK);
    check();
    heap_release(heap, &most);
    for (int i = 0; i < 100; i++)
        check();
    cr_assert_eq(taken, 0);
    cr_assert_eq(heap_usage(heap).bytes_used, 0);
}

/* One that has to stop does not begin another trial, and gives back what it has. */
Test(calibrate, stops_in_the_middle)
{
    check();
    for (int i = 0; i < 10; i++)
        end_trial();
    calibrate_stop(c);
    cr_assert(atomic_load(&running->cancelled));
    uint64_t before = trials_run;
    end_trial();
    check();
    cr_assert_eq(trials_run, before);
    cr_assert_null(running);
    cr_assert(!is_measured());
    cr_assert_eq(heap_usage(heap).bytes_used, 0, "it holds its grounds");
}
