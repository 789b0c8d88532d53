/* The pipeline over a backend that the test plays and a connection of its making: what real ones
 * hardly ever do, and never at the same moment. */
#include "daemon/request/pipeline.h"

#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/fault.h"
#include "daemon/exec/batch.h"
#include "daemon/heap/heap_inside.h"
#include "daemon/ops/operation.h"
#include "daemon/request/finish.h"
#include "daemon/request/groups.h"
#include "daemon/request/jobs.h"
#include "daemon/request/line.h"
#include "daemon/request/quotas.h"
#include "daemon/request/turnstiles.h"
#include "daemon/sched/turnstile.h"
#include "daemon/store/collection.h"
#include "tests/support/sample_requests.h"
#include "tests/support/unheard.h"

enum { D = 16, SUBMITTED_MAX = 16 };

static struct pipeline *p;
static struct done done;
static struct net net;
static struct config config;
static struct space *space;
static struct collection *rows;
static struct connection *client;
static struct job *submitted[SUBMITTED_MAX];
static uint32_t submitted_count;

/* Needs so much scratch. */
static const struct job *needy;
enum { NEEDED_BYTES = 40 << 20 };

static enum status take_it(struct backend *b, struct job *j)
{
    if (j == needy && operation_take_scratch(j, NEEDED_BYTES)) return j->failure.code;
    submitted[submitted_count++] = j;
    return STATUS_OK;
}

static const struct backend_ops played_ops = {.name = "played", .submit = take_it};
static struct backend played = {&played_ops};

static void nobody(void *owner) {}

static struct transport unheard;

static struct connection *connect_client(void)
{
    const struct peer_key who = peer_key_of_user(1000);
    struct connection *c = connection_attach(&net, &who, &unheard, NULL);
    cr_assert(c);
    c->greeted = true;
    c->space = space;
    c->owner = space->number;
    struct failure f;
    cr_assert_eq(quotas_admit_connection(p, c, &f), STATUS_OK);
    return c;
}

static void begin(void)
{
    struct pipeline_options options = {
        .config = &config,
        .net = &net,
        .kernels = vectors_choose("scalar"),
        .done = &done,
        .cpu = &played,
        .worker_count = 2,
    };
    config_defaults(&config);
    unheard = unheard_transport(unheard_stops);
    done.wake = nobody;
    cr_assert_eq(heap_create(64 << 20, &options.heap), STATUS_OK);
    cr_assert_eq(store_create(options.heap, options.kernels, &options.store), STATUS_OK);
    store_limit_collections(options.store, 10);
    cr_assert_eq(pipeline_create(&options, &p), STATUS_OK);
    struct net_events events = pipeline_net_events(p);
    cr_assert_eq(net_init(&net, NULL, NULL, p->heap, &config, &events), STATUS_OK);
    cr_assert_eq(store_space(p->store, "alpha", &space), STATUS_OK);
    cr_assert_eq(store_collection_create(p->store, space, "rows", D, METRIC_COSINE, NULL, &rows),
                 STATUS_OK);
    client = connect_client();
}

TestSuite(pipeline, .init = begin);

/* One query; the collection is empty, which is the played backend's concern. */
static struct job *ask(uint64_t request_id)
{
    static _Alignas(64) float query[D];
    struct frame_header header = {.kind = OPERATION_KNN, .request_id = request_id};
    struct frame frame = {.header = &header};
    struct job *j = job_take(p, client, &frame, (struct job_owner){finish_on_done, p});
    cr_assert(j);
    j->operation = OPERATION_KNN;
    j->ops = operation_find(OPERATION_KNN);
    j->resident = collection_resident(rows);
    j->request.queries =
        (struct tensor){.dtype = DTYPE_FLOAT32, .rows = 1, .columns = D, .data = query};
    j->request.k = 3;
    turnstiles_enter(p, j);
    return j;
}

static void cpu_takes(bool now)
{
    scheduler_set_server(&p->scheduler, SERVER_CPU, now, 4, 0);
}

/* The first answer finds no memory, so that its connection closes, and with it goes the request
 * that was to be answered next. */
Test(pipeline, two_are_late_and_the_first_answer_closes_their_connection)
{
    cpu_takes(false);
    struct job *late[] = {ask(1), ask(2), ask(3)};
    pipeline_tick(p);
    cr_assert_eq(p->in_line, 3);
    late[0]->deadline_ns = late[2]->deadline_ns = 1;
    cpu_takes(true);
    fault_arm(1);
    pipeline_tick(p);
    cr_expect_str_eq(fault_fired(), "output: page");
    fault_arm(0);
    cr_assert(client->closing);
    pipeline_tick(p);
    cr_assert_eq(p->in_line, 0);
    cr_assert_eq(submitted_count, 0, "nobody wants any");
    cr_assert_eq(p->job_count, 0);
}

/* Three in a batch: one of them was refused, and the others were not run. */
static void refuse_one(struct job *carrier)
{
    cr_assert_eq(carrier->operation, OPERATION_KNN_BATCH);
    struct job *bad = carrier->members;
    failure_set(&bad->failure, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "bad");
    carrier->backend = BACKEND_GPU;
    carrier->gpu.again = true;
}

/* With bad company that keeps coming nobody would ever get through. */
Test(pipeline, bad_company_is_left_after_the_second_time)
{
    cpu_takes(false);
    ask(1), ask(2);
    struct job *good = ask(3);
    pipeline_tick(p);
    for (uint32_t round = 0; round < 2; round++) {
        struct dispatch d;
        enum batch_end end;
        cpu_takes(true);
        cr_assert(scheduler_next(&p->scheduler, UINT64_MAX / 2, &d));
        cr_assert_eq(d.count, 3 - round);
        for (struct ticket *t = d.first; t; t = t->next)
            line_leave(p, job_of(t));
        struct job *carrier = groups_carrier(p, d.first);
        struct ticket stood = *d.first;
        refuse_one(carrier);
        scheduler_finish(&p->scheduler, d.first, END_REFUSED, NULL);
        cpu_takes(false);
        for (struct job *m; (m = groups_next_member(p, carrier, &stood, &end));) {
            if (end == BATCH_DONE) {
                finish_job(p, m);
                continue;
            }
            cr_assert_eq(m->alone, round == 1);
            turnstiles_leave(p, m);
            m->resident = collection_resident(rows);
            m->state = JOB_RECEIVED;
            turnstiles_enter(p, m);
        }
        pipeline_tick(p);
    }
    cpu_takes(true);
    pipeline_tick(p);
    cr_assert_eq(submitted_count, 1);
    cr_assert_eq(submitted[0], good);
    cr_assert_eq(good->batch, 0, "it runs alone, and its reply says so");
}

/* ---------------------------------------------------------------- memory on its way */

static void post(void *semaphore)
{
    sem_post(semaphore);
}

/* The heap's thread is played until it is started. */
static void send_memory_on_its_way(uint64_t bytes)
{
    struct heap_block b;
    cr_assert_eq(heap_take(p->heap, bytes, 1, &b), STATUS_OK);
    p->heap->releaser.runs = true;
    heap_release(p->heap, &b);
}

/* A request that needs memory which is on its way back to the system neither holds up the loop nor
 * those behind it, and is not refused. */
Test(pipeline, large_request_waits_for_memory_and_others_pass)
{
    enum { PATIENCE_S = 60 };
    sem_t freed;
    struct timespec end;
    sem_init(&freed, 0, 0);
    heap_never_wait(p->heap, post, &freed);
    send_memory_on_its_way(48 << 20);
    struct job *large = ask(1), *small = ask(2);
    large->alone = small->alone = true;
    needy = large;
    pipeline_tick(p);
    cr_assert(submitted_count == 1 && submitted[0] == small, "%u", submitted_count);
    cr_assert(p->in_line == 1 && large->in_line && !large->failure.code);
    pipeline_tick(p);
    cr_assert_eq(submitted_count, 1, "nothing has changed");
    p->heap->releaser.runs = false;
    cr_assert_eq(heap_start_releaser(p->heap), STATUS_OK);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    cr_assert_eq(sem_timedwait(&freed, &end), 0, "nobody was told");
    cr_assert(heap_freed(p->heap));
    pipeline_memory_freed(p);
    pipeline_tick(p);
    cr_assert(submitted_count == 2 && submitted[1] == large && large->plan.scratch.data);
    cr_assert_eq(p->in_line, 0);
    heap_never_wait(p->heap, NULL, NULL);
}

/* ---------------------------------------------------------------- quotas.queue */

static void send_knn(uint64_t request_id)
{
    char message[SAMPLE_BYTES_MAX] = {0};
    struct sample s;
    sample_find("knn_plain", &s);
    struct frame_header header = {
        .kind = OPERATION_KNN,
        .request_id = request_id,
        .message_bytes = sample_message(&s, message, sizeof message),
        .body_bytes = s.body_bytes,
    };
    struct frame frame = {.header = &header, .message = message, .body = s.body};
    net.events.on_frame(net.events.owner, client, &frame);
}

/* In front of a collection that is being written, or all in one read: one space could have all the
 * jobs there are. */
Test(pipeline, requests_that_wait_for_their_collection_count_as_well)
{
    space->tenant->quotas.queue_max = 4;
    struct job *writer = ask(1);
    turnstile_leave(writer);
    writer->writer = true;
    cr_assert(turnstile_enter(writer));
    for (uint64_t id = 2; id < 12; id++)
        send_knn(id);
    cr_assert_eq(p->job_count, 5, "%u", p->job_count);
    cr_assert_eq(space->tenant->refused_queue, 6);
    pipeline_tick(p);
    cr_assert_eq(submitted[0], writer);
    done_add(&done, writer);
    pipeline_tick(p);
    cr_assert_eq(submitted_count, 2, "the others run as one");
    for (uint64_t id = 20; id < 25; id++)
        send_knn(id);
    cr_assert_eq(space->tenant->refused_queue, 7, "as many as before, all in one read");
    connection_close(client);
    cr_assert_eq(p->arrivals.depth, 0);
    cr_assert_eq(space->tenant->coming, 0);
}

/* ---------------------------------------------------------------- limits.requests_in_flight */

/* The client sends these requests at once; they lie in its connection's buffer. */
static void receive_questions(uint64_t first_id, uint64_t count)
{
    uint8_t bytes[SAMPLE_BYTES_MAX];
    struct sample s;
    sample_find("knn_plain", &s);
    for (uint64_t id = first_id; id < first_id + count; id++) {
        size_t n = sample_frame(&s, id, bytes);
        uv_buf_t room = receive_buffer(client);
        cr_assert_geq(room.len, n);
        memcpy(room.base, bytes, n);
        receive_bytes(client, (ssize_t)n);
    }
}

/* One at a time: the end of one lets the next in, in the same turn of the loop, though nothing more
 * comes from the client and no timer fires. */
Test(pipeline, a_connection_at_its_bound_goes_on_when_a_request_ends)
{
    config.in_flight_max = 1;
    cpu_takes(true);
    receive_questions(1, 3);
    pipeline_tick(p);
    cr_assert_eq(submitted_count, 1);
    cr_assert(client->paused);
    for (uint32_t round = 1; round < 3; round++) {
        done_add(&done, submitted[round - 1]);
        pipeline_tick(p);
        cr_assert_eq(submitted_count, round, "it is not read before it is flushed");
        net_flush(&net);
        cr_assert(pipeline_has_arrivals(p), "the loop would sleep now");
        pipeline_tick(p);
        cr_assert_eq(submitted_count, round + 1);
        cr_assert_eq(client->paused, round < 2);
    }
}
