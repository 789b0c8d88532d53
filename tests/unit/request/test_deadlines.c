/* Time in the pipeline: it is the clock's that the test sets, and nobody else's. */
#include "daemon/request/pipeline.h"

#include <criterion/criterion.h>

#include "daemon/request/finish.h"
#include "daemon/request/jobs.h"
#include "daemon/request/quotas.h"
#include "daemon/request/turnstiles.h"
#include "daemon/store/collection.h"

enum { D = 16, ENDED_MAX = 8 };
#define START_NS UINT64_C(1000000)

static struct pipeline *p;
static struct net net;
static struct config config;
static struct done done;
static struct space *space;
static struct tenancy *tenancy;
static struct collection *rows;
static uint64_t now_ns = START_NS;
static struct job *taken[ENDED_MAX];
static uint32_t taken_count;
static bool cpu_refuses;

static uint64_t read_now(void *owner)
{
    return now_ns;
}

static const struct clock clock_set = {.now_ns = read_now};

static enum status take_it(struct backend *b, struct job *j)
{
    if (cpu_refuses)
        return failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory");
    taken[taken_count++] = j;
    return STATUS_OK;
}

static const struct backend_ops played_ops = {.name = "played", .submit = take_it};
static struct backend played = {&played_ops};

static void nobody(void *owner) {}

static void begin(void)
{
    struct pipeline_options options = {
        .config = &config,
        .clock = &clock_set,
        .net = &net,
        .kernels = vectors_choose("scalar"),
        .done = &done,
        .cpu = &played,
        .worker_count = 2,
    };
    config_defaults(&config);
    config.worker_inline = false;
    done.wake = nobody;
    cr_assert_eq(heap_create(64 << 20, &options.heap), STATUS_OK);
    cr_assert_eq(store_create(options.heap, options.kernels, &options.store), STATUS_OK);
    store_limit_collections(options.store, 10);
    cr_assert_eq(pipeline_create(&options, &p), STATUS_OK);
    struct net_events events = pipeline_net_events(p);
    cr_assert_eq(net_init(&net, NULL, &clock_set, p->heap, &config, &events), STATUS_OK);
    cr_assert_eq(store_space(p->store, "alpha", &space), STATUS_OK);
    cr_assert(quotas_tenant(p, space));
    tenancy = tenancy_create(principal_create(), space->tenant);
    cr_assert(tenancy);
    cr_assert_eq(store_collection_create(p->store, space, "rows", D, METRIC_COSINE, NULL, &rows),
                 STATUS_OK);
}

TestSuite(deadlines, .init = begin);

/* One query of nobody's, which ends without a reply. */
static struct job *ask_as(uint64_t deadline_ns, bool writer)
{
    static _Alignas(64) float query[D];
    struct job *j = job_take_own(p, space, OPERATION_KNN, (struct job_owner){finish_on_done, p});
    cr_assert(j);
    j->ticket.tenancy = tenancy;
    j->resident = collection_resident(rows);
    j->request.queries =
        (struct tensor){.dtype = DTYPE_FLOAT32, .rows = 1, .columns = D, .data = query};
    j->request.k = 3;
    j->deadline_ns = deadline_ns;
    j->writer = writer;
    cr_assert_eq(j->received_ns, now_ns, "the pipeline's clock is the one that it was given");
    turnstiles_enter(p, j);
    return j;
}

static struct job *ask(uint64_t deadline_ns)
{
    return ask_as(deadline_ns, false);
}

static void end(struct job *j)
{
    j->started_ns = now_ns;
    j->finished_ns = now_ns + 1;
    done_push(&done, j);
    pipeline_tick(p);
}

Test(deadlines, a_job_that_has_not_started_is_answered_when_its_time_is_up)
{
    scheduler_set_server(&p->scheduler, SERVER_CPU, false, 4, 0);
    ask(START_NS + 100), ask(START_NS + 200), ask(0);
    pipeline_tick(p);
    pipeline_expire(p, START_NS + 99);
    cr_assert_eq(p->in_line, 3, "none is late");
    now_ns = START_NS + 100;
    pipeline_expire(p, now_ns);
    cr_assert_eq(p->in_line, 2);
    now_ns = START_NS + 5000;
    pipeline_expire(p, now_ns);
    cr_assert_eq(p->in_line, 1, "one has no deadline");
    cr_assert_eq(p->stats.deadline_exceeded_total, 2);
    pipeline_abandon(p);
    cr_assert_eq(p->job_count, 0);
}

Test(deadlines, a_job_that_runs_is_told_to_stop)
{
    struct job *j = ask(START_NS + 100);
    pipeline_tick(p);
    cr_assert(taken_count == 1 && taken[0] == j);
    now_ns = START_NS + 100;
    pipeline_expire(p, now_ns);
    cr_assert(atomic_load(&j->cancelled) && j->state == JOB_RUNNING, "the backend still has it");
    cr_assert_eq(p->job_count, 1);
    end(j);
    cr_assert_eq(p->job_count, 0);
    cr_assert_eq(p->stats.deadline_exceeded_total, 1);
}

Test(deadlines, a_late_read_is_refused_and_a_late_write_says_what_it_wrote)
{
    for (int writer = 0; writer < 2; writer++) {
        struct job *j = ask_as(now_ns + 100, writer);
        pipeline_tick(p);
        now_ns += 100;
        end(j);
        cr_assert_eq(p->stats.deadline_exceeded_total, 1, "the read alone");
    }
    cr_assert_eq(p->stats.operations[OPERATION_KNN].requests, 2);
}

/* ---------------------------------------------------------------- a job's owner */

struct notes {
    uint32_t done;
    bool refused;
};

static void note_done(void *owner, struct job *j)
{
    struct notes *n = owner;
    n->done++;
    n->refused = j->refused;
    finish_on_done(p, j);
}

Test(job_owner, is_told_once_of_a_run_and_of_a_refusal, .init = begin)
{
    for (int refuses = 0; refuses < 2; refuses++) {
        struct notes notes = {0};
        cpu_refuses = refuses;
        struct job *j = ask(0);
        j->owner = (struct job_owner){note_done, &notes};
        pipeline_tick(p);
        cr_assert_eq(p->running, !refuses);
        if (!refuses) end(j);
        cr_assert_eq(notes.done, 1);
        cr_assert_eq(notes.refused, refuses);
        cr_assert(p->running == 0 && p->job_count == 0 && p->in_line == 0);
        cr_assert_eq(p->stats.operations[OPERATION_KNN].errors, (uint64_t)refuses);
    }
    cr_assert_eq(p->scheduler.servers[SERVER_CPU].in_flight, 0);
}
