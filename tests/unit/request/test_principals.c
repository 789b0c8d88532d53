/* What each peer may have of the daemon's jobs, in all its spaces together. */
#include "daemon/request/principals.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/net/net.h"
#include "daemon/request/finish.h"
#include "daemon/request/jobs.h"
#include "daemon/request/pipeline.h"
#include "daemon/request/quotas.h"
#include "daemon/store/collection.h"
#include "tests/support/sample_requests.h"
#include "tests/support/unheard.h"

enum { D = 16, JOBS = 8, CONNECTIONS = 16, STRANGER = 77000, VICTIM = 77001 };

static struct pipeline *p;
static struct done done;
static struct net net;
static struct config config;
static uint64_t now_ns = 1000000000;
static uint64_t next_id;

static uint64_t read_now(void *owner)
{
    return now_ns;
}

static const struct clock clock_set = {read_now, NULL};

static enum status take_it(struct backend *b, struct job *j)
{
    return STATUS_OK;
}

static const struct backend_ops played_ops = {.name = "played", .submit = take_it};
static struct backend played = {&played_ops};

static void nobody(void *owner) {}

static struct transport unheard;

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
    config.job_max = JOBS;
    config.connection_max = CONNECTIONS;
    unheard = unheard_transport(connection_closed);
    done.wake = nobody;
    cr_assert_eq(heap_create(64 << 20, &options.heap), STATUS_OK);
    cr_assert_eq(store_create(options.heap, options.kernels, &options.store), STATUS_OK);
    store_limit_collections(options.store, 10);
    cr_assert_eq(pipeline_create(&options, &p), STATUS_OK);
    struct net_events events = pipeline_net_events(p);
    cr_assert_eq(net_init(&net, NULL, &clock_set, p->heap, &config, &events), STATUS_OK);
    scheduler_set_server(&p->scheduler, SERVER_CPU, false, 4, 0); /* all stay in line */
}

TestSuite(principals, .init = begin);

static struct connection *connect_as(uint32_t uid, const char *space)
{
    const struct peer_key who = peer_key_of_user(uid);
    struct connection *c = connection_attach(&net, &who, &unheard, NULL);
    cr_assert(c);
    struct failure f;
    cr_assert_eq(store_space(p->store, space, &c->space), STATUS_OK);
    cr_assert_eq(quotas_admit_connection(p, c, &f), STATUS_OK);
    c->owner = c->space->number;
    c->greeted = true;
    struct collection *rows;
    if (store_collection_find(p->store, c->space, "rows", &f, &rows))
        cr_assert_eq(
            store_collection_create(p->store, c->space, "rows", D, METRIC_COSINE, NULL, &rows),
            STATUS_OK);
    return c;
}

/* True: the request was taken; it stays in line. */
static bool ask(struct connection *c)
{
    char message[SAMPLE_BYTES_MAX] = {0};
    struct sample s;
    sample_find("knn_plain", &s);
    struct frame_header header = {
        .kind = OPERATION_KNN,
        .request_id = ++next_id,
        .message_bytes = sample_message(&s, message, sizeof message),
        .body_bytes = s.body_bytes,
    };
    struct frame frame = {.header = &header, .message = message, .body = s.body};
    uint32_t before = c->in_flight;
    net.events.on_frame(net.events.owner, c, &frame);
    pipeline_tick(p);
    return c->in_flight > before;
}

static uint32_t ask_often(struct connection *c, uint32_t times)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < times; i++)
        taken += ask(c);
    return taken;
}

/* Invented names share what the peer may have in line: half of limits.requests_total. */
Test(principals, spaces_of_a_peer_share_its_part_of_the_line)
{
    uint32_t taken = 0;
    struct connection *c[4];
    for (uint32_t i = 0; i < 4; i++) {
        const char *names[] = {"one", "two", "three", "four"};
        c[i] = connect_as(STRANGER, names[i]);
        taken += ask_often(c[i], 10);
    }
    cr_expect_eq(taken, JOBS / 2);
    cr_expect_eq(c[0]->tenancy->principal->refused_queue, 40 - JOBS / 2);
    config.peers.queue = 6; /* live */
    pipeline_configure(p);
    scheduler_set_server(&p->scheduler, SERVER_CPU, false, 4, 0);
    cr_expect_eq(ask_often(c[3], 10), 2);
    cr_expect_eq(ask_often(connect_as(VICTIM, "mine"), 10), JOBS - 6);
}

/* Whoever has nothing gets in while others fill limits.requests_total. */
Test(principals, who_has_nothing_is_always_accepted)
{
    config.peers.queue = 1000;
    struct connection *stranger = connect_as(STRANGER, "hers");
    struct connection *second = connect_as(STRANGER, "another");
    struct connection *victim = connect_as(VICTIM, "mine");
    struct connection *again = connect_as(VICTIM, "mine");
    cr_expect_eq(ask_often(stranger, 100), JOBS);
    cr_expect_eq(ask_often(second, 100), 1);
    cr_expect_eq(ask_often(victim, 100), 1);
    cr_expect_eq(ask_often(again, 100), 0); /* the same space of the same peer */
    cr_expect_eq(p->job_count, JOBS + 2);
    cr_expect_eq(ask_often(connect_as(VICTIM + 1, "hers"), 100), 1); /* in a space that is full */
    connection_close(victim);
    cr_expect_eq(ask_often(again, 100), 1);
}

/* A queue that others fill is not closed to a peer that has nothing there. */
Test(principals, a_shared_space_stays_open)
{
    config.quotas.queue = 3;
    struct connection *stranger = connect_as(STRANGER, "ours");
    struct connection *victim = connect_as(VICTIM, "ours");
    cr_expect_eq(ask_often(stranger, 100), 3);
    cr_expect_eq(ask_often(victim, 100), 1);
    cr_expect_eq(stranger->space->tenant->queued, 4);
}

Test(principals, are_kept_as_long_as_debts_and_no_longer)
{
    struct connection *c = connect_as(STRANGER, "hers");
    cr_expect(ask(c));
    struct principal *owner = c->tenancy->principal;
    cr_expect(owner->jobs == 1 && owner->queued == 1 && c->tenancy->jobs == 1);
    connection_close(c);
    cr_expect(owner->jobs == 0 && owner->queued == 0);
    now_ns += 1000000;
    net_sweep(&net);
    cr_expect_eq(p->principals, owner);
    c = connect_as(STRANGER, "hers");
    cr_expect_eq(c->tenancy->principal, owner, "it comes back to its debts");
    connection_close(c);
    now_ns += p->scheduler.settings.age_ns;
    net_sweep(&net);
    cr_expect_null(p->principals);
    cr_expect_null(store_space_next(p->store, NULL)->tenant->tenancies);
}

/* Names that come and go leave a bounded number of tenancies. */
Test(principals, names_invented_leave_little_behind)
{
    struct connection *stays = connect_as(STRANGER, "stays");
    for (uint32_t i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "name-%u", i);
        now_ns++;
        connection_close(connect_as(STRANGER, name));
    }
    uint32_t count = 0;
    for (const struct tenancy *t = stays->tenancy->principal->tenancies; t; t = t->next)
        count++;
    cr_expect_leq(count, 65);
}

Test(principals, no_memory_is_said_and_leaves_nothing)
{
    struct space *space;
    const struct peer_key who = peer_key_of_user(STRANGER);
    cr_assert_eq(store_space(p->store, "hers", &space), STATUS_OK);
    cr_assert(quotas_tenant(p, space));
    for (uint32_t nth = 1; nth <= 2; nth++) { /* the principal, its tenancy */
        struct connection *c = connection_attach(&net, &who, &unheard, NULL);
        struct failure f;
        c->space = space;
        fault_arm(nth);
        cr_expect_eq(quotas_admit_connection(p, c, &f), STATUS_RESOURCE_EXHAUSTED);
        fault_arm(0);
        cr_expect_eq(f.detail, DETAIL_MEMORY);
        cr_expect(!c->tenancy && !space->tenant->connections);
        c->space = NULL;
        connection_close(c);
    }
}

/* What is destroyed goes in either order. */
Test(principals, end_with_the_pipeline_or_with_the_space)
{
    struct connection *c = connect_as(STRANGER, "hers");
    struct space *space = c->space;
    store_collection_unlink(p->store, space, space->collections);
    connection_close(c);
    cr_expect_null(p->principals->tenancies, "the space is forgotten");
    connect_as(STRANGER, "hers");
    net_close(&net);
    pipeline_destroy(p);
}
