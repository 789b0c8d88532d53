/* The tables that attractors begin with are jobs in line: charged to whoever created them, and
 * cancelled when nobody wants them any more; on a clock and over a CPU that the test plays. */
#include "daemon/request/tables.h"

#include <criterion/criterion.h>

#include "daemon/ops/operation.h"
#include "daemon/request/finish.h"
#include "daemon/request/jobs.h"
#include "daemon/request/turnstiles.h"
#include "daemon/sched/fair.h"
#include "daemon/store/attractor.h"
#include "daemon/store/dentate.h"
#include "tests/support/request_rig.h"

#define MS UINT64_C(1000000)
enum { DIMENSION = 40 };

static struct request_rig rig;
static struct rig_space *one;

static struct attractor *create_of(struct rig_space *s, const char *name, uint32_t dimension)
{
    struct attractor_shape shape = {dimension, 0.05F, 0.1F};
    struct failure f = {0};
    struct attractor *a;
    cr_assert_eq(store_attractor_create(rig.pipeline->store, s->space, name, &shape, &f, &a),
                 STATUS_OK, "%s", f.text);
    cr_assert(tables_make(rig.pipeline, s->tenancy, a));
    return a;
}

static struct attractor *create(struct rig_space *s, const char *name)
{
    return create_of(s, name, DIMENSION);
}

/* The job that makes a's tables. */
static struct job *maker_of(struct attractor *a)
{
    return attractor_resident(a)->turnstile.writer;
}

/* The CPU takes what is in line, and plans it. */
static void begin_all(void)
{
    uint64_t before = rig.taken_total;
    pipeline_tick(rig.pipeline);
    for (uint32_t i = rig.taken_count - (uint32_t)(rig.taken_total - before); i < rig.taken_count;
         i++)
        cr_assert_eq(rig.taken[i]->ops->plan(rig.taken[i]), STATUS_OK);
}

/* Its parts run, or those that are left are skipped. */
static void end(struct job *j, uint64_t took_ns)
{
    uint64_t began_ns = rig.now_ns;
    atomic_store(&j->skipped, atomic_load(&j->cancelled));
    for (uint32_t i = 0; i < j->plan.parts && !atomic_load(&j->cancelled); i++)
        j->plan.run_part(j, i, 0);
    rig.now_ns += took_ns;
    atomic_store(&j->worked_ns, took_ns * 2); /* both workers were at it */
    request_rig_end(&rig, j, began_ns);
}

static struct job *drop(struct rig_space *s, struct attractor *a)
{
    struct pipeline *p = rig.pipeline;
    struct job *j =
        job_take_own(p, s->space, OPERATION_ATTRACTOR_DROP, (struct job_owner){finish_on_done, p});
    cr_assert(j);
    store_attractor_unlink(p->store, s->space, a);
    tables_cancel(p, attractor_resident(a));
    attractor_resident(a)->ops->lend(attractor_resident(a), j);
    j->ticket.tenancy = s->tenancy;
    j->writer = true;
    turnstiles_enter(p, j);
    return j;
}

static void open_rig(void)
{
    request_rig_open(&rig, (const char *[]){"batch.requests=1", NULL});
    one = request_rig_space(&rig, "one");
}

TestSuite(tables, .init = open_rig);

Test(tables, are_made_in_line_and_open_the_attractor)
{
    struct attractor *a = create(one, "a");
    cr_assert_eq(rig.taken_count, 0, "nobody has started it yet");
    begin_all();
    cr_assert(rig.taken_count == 1 && rig.taken[0] == maker_of(a));
    cr_assert_eq(one->tenancy->jobs, 1, "it is counted as its creator's");
    end(rig.taken[0], 3 * MS);
    cr_assert(attractor_dentate(a)->made && !attractor_dentate(a)->maker);
    cr_assert_null(maker_of(a), "it may be used");
    cr_assert_eq(one->tenancy->jobs, 0);
}

/* As for any request, by the time that the workers took. */
Test(tables, are_charged_to_their_creator)
{
    const struct server *cpu = &rig.pipeline->scheduler.servers[SERVER_CPU];
    struct flow *flow = &one->tenancy->flows[SERVER_CPU];
    struct attractor *a = create_of(one, "a", 768);
    begin_all();
    int64_t begun = fair_deficit_ns(cpu, flow);
    struct job *j = maker_of(a);
    atomic_store(&j->cancelled, true); /* what it did until then counts */
    end(j, 70 * MS);
    cr_assert_lt(begun, -(int64_t)(20 * MS), "nothing was charged in advance: %lld",
                 (long long)begun);
    cr_assert_eq(fair_deficit_ns(cpu, flow), -(int64_t)(70 * MS));
}

Test(tables, of_what_is_dropped_in_line_are_not_made)
{
    struct attractor *a = create(one, "a");
    drop(one, a);
    pipeline_tick(rig.pipeline);
    cr_assert(rig.taken_count == 1 && rig.taken[0]->operation == OPERATION_ATTRACTOR_DROP);
    cr_assert_eq(one->tenancy->jobs, 0);
}

Test(tables, of_what_is_dropped_are_cancelled)
{
    struct attractor *a = create(one, "a");
    begin_all();
    struct job *maker = maker_of(a);
    drop(one, a);
    cr_assert(atomic_load(&maker->cancelled));
    end(maker, MS);
    pipeline_tick(rig.pipeline);
    cr_assert(rig.taken_count == 1 && rig.taken[0]->operation == OPERATION_ATTRACTOR_DROP);
}

Test(tables, are_made_for_those_that_wait_for_them_even_if_a_drop_comes)
{
    struct attractor *a = create(one, "a");
    begin_all();
    struct pipeline *p = rig.pipeline;
    struct job *reader = job_take_own(p, one->space, OPERATION_ATTRACTOR_FETCH,
                                      (struct job_owner){finish_on_done, p});
    attractor_resident(a)->ops->lend(attractor_resident(a), reader);
    reader->ticket.tenancy = one->tenancy;
    turnstiles_enter(p, reader);
    cr_assert_eq(reader->state, JOB_WAITING);
    drop(one, a);
    cr_assert_not(atomic_load(&maker_of(a)->cancelled));
    end(maker_of(a), MS);
    pipeline_tick(p);
    cr_assert(rig.taken_count == 1 && rig.taken[0] == reader, "it has what it asked for");
}

/* b waits for the matrix that a's job was making. */
Test(tables, of_others_are_made_by_them_when_who_made_them_is_cancelled)
{
    struct attractor *a = create(one, "a"), *b = create(one, "b");
    begin_all();
    struct job *makes = maker_of(a), *waits = maker_of(b);
    struct dentate *d = attractor_dentate(b);
    cr_assert(d == attractor_dentate(a) && d->maker == makes);
    end(waits, MS);
    cr_assert_eq(rig.taken_count, 1, "it has nothing to do but wait");
    drop(one, a);
    end(makes, MS);
    cr_assert_not(d->made);
    pipeline_tick(rig.pipeline);
    for (uint32_t i = 0; i < rig.taken_count; i++)
        if (rig.taken[i] == waits) cr_assert_eq(waits->ops->plan(waits), STATUS_OK);
    cr_assert_eq(d->maker, waits);
    end(waits, MS);
    cr_assert(d->made);
    cr_assert_null(maker_of(b));
}

/* Likewise one that is dropped while it waits for another's matrix. */
Test(tables, who_is_dropped_while_it_waits_for_the_matrix_goes)
{
    struct attractor *a = create(one, "a"), *b = create(one, "b");
    begin_all();
    end(maker_of(b), MS);
    drop(one, b);
    pipeline_tick(rig.pipeline);
    cr_assert(rig.taken_count == 2 && rig.taken[1]->operation == OPERATION_ATTRACTOR_DROP);
    end(maker_of(a), MS);
    cr_assert(attractor_dentate(a)->made);
}
