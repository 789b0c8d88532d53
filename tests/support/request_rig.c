#include "tests/support/request_rig.h"

#include <criterion/criterion.h>
#include <string.h>
#include <pb_decode.h>

#include "daemon/base/frame.h"
#include "daemon/ops/operation.h"
#include "daemon/request/finish.h"
#include "daemon/request/jobs.h"
#include "daemon/request/pipeline_inside.h"
#include "daemon/request/quotas.h"
#include "daemon/request/turnstiles.h"
#include "daemon/store/collection.h"
#include "proto/engram_accel.pb.h"
#include "tests/support/unheard.h"

#define BEGIN_NS UINT64_C(1000000)

/* ---------------------------------------------------------------- the played CPU */

static enum status take_it(struct backend *b, struct job *j)
{
    struct request_rig *r = (struct request_rig *)((char *)b - offsetof(struct request_rig, cpu));
    if (r->cpu_refuses)
        return failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory");
    cr_assert_lt(r->taken_count, RIG_TAKEN_MAX);
    r->taken[r->taken_count++] = j;
    r->taken_total++;
    return STATUS_OK;
}

static const struct backend_ops played = {.name = "played", .submit = take_it};

void request_rig_end(struct request_rig *r, struct job *j, uint64_t started_ns)
{
    uint32_t at = 0;
    while (at < r->taken_count && r->taken[at] != j)
        at++;
    cr_assert_lt(at, r->taken_count, "the CPU has no such job");
    memmove(&r->taken[at], &r->taken[at + 1], (--r->taken_count - at) * sizeof *r->taken);
    j->started_ns = started_ns;
    j->finished_ns = r->now_ns;
    done_push(&r->done, j);
    pipeline_tick(r->pipeline);
}

/* ---------------------------------------------------------------- the client's end */

static int hear(struct connection *c, const uv_buf_t *bufs, unsigned count)
{
    struct rig_space *s = c->carrier;
    size_t before = s->heard_bytes;
    for (unsigned i = 0; i < count; i++) {
        cr_assert_leq(s->heard_bytes + bufs[i].len, sizeof s->heard);
        memcpy(s->heard + s->heard_bytes, bufs[i].base, bufs[i].len);
        s->heard_bytes += bufs[i].len;
    }
    return (int)(s->heard_bytes - before);
}

static struct transport client_end;

uint32_t request_rig_hear(struct request_rig *r, struct rig_space *s, struct rig_error *errors,
                          uint32_t most)
{
    uint32_t count = 0;
    net_flush(&r->net);
    for (size_t at = 0; at < s->heard_bytes; count++) {
        struct frame_header h;
        struct failure f;
        unsigned char head[FRAME_HEADER_BYTES];
        memcpy(head, s->heard + at, sizeof head);
        uint16_t flags = (uint16_t)(head[6] | head[7] << 8);
        head[6] = head[7] = 0; /* flags, which a request has none of */
        cr_assert_eq(frame_parse(head, UINT64_MAX, &h, &f), STATUS_OK, "%s", f.text);
        cr_assert_eq(flags, FRAME_FLAG_REPLY | FRAME_FLAG_ERROR, "a reply that is no error");
        engram_accel_v1_Error error = engram_accel_v1_Error_init_zero;
        pb_istream_t in =
            pb_istream_from_buffer(s->heard + at + FRAME_HEADER_BYTES, h.message_bytes);
        cr_assert(pb_decode(&in, engram_accel_v1_Error_fields, &error));
        if (count < most)
            errors[count] = (struct rig_error){h.request_id, error.code, error.detail};
        at += frame_body_offset(&h) + h.body_bytes;
    }
    return count;
}

/* ---------------------------------------------------------------- requests */

static void set_up(struct job *j, const struct rig_space *s)
{
    static _Alignas(64) float query[RIG_DIMENSION];
    j->operation = OPERATION_KNN;
    j->ops = operation_find(OPERATION_KNN);
    j->resident = collection_resident(s->rows);
    j->request.queries =
        (struct tensor){.dtype = DTYPE_FLOAT32, .rows = 1, .columns = RIG_DIMENSION, .data = query};
    j->request.k = 3;
}

struct job *request_rig_ask(struct request_rig *r, const struct rig_space *s, uint64_t deadline_ns,
                            bool writer)
{
    struct pipeline *p = r->pipeline;
    struct job *j = job_take_own(p, s->space, OPERATION_KNN, (struct job_owner){finish_on_done, p});
    cr_assert(j);
    cr_assert_eq(j->received_ns, r->now_ns, "the pipeline's clock is the one that it was given");
    j->ticket.tenancy = s->tenancy;
    j->deadline_ns = deadline_ns;
    j->writer = writer;
    set_up(j, s);
    turnstiles_enter(p, j);
    return j;
}

static struct job *ask_as(struct request_rig *r, struct rig_space *s, struct frame_header header)
{
    struct pipeline *p = r->pipeline;
    struct frame frame = {.header = &header};
    struct job *j = job_take(p, s->client, &frame, (struct job_owner){finish_on_done, p});
    cr_assert(j);
    set_up(j, s);
    turnstiles_enter(p, j);
    return j;
}

struct job *request_rig_ask_as(struct request_rig *r, struct rig_space *s, uint64_t request_id,
                               uint32_t deadline_us)
{
    return ask_as(r, s,
                  (struct frame_header){
                      .kind = OPERATION_KNN, .request_id = request_id, .deadline_us = deadline_us});
}

struct job *request_rig_ask_with(struct request_rig *r, struct rig_space *s, uint64_t request_id,
                                 uint16_t flags)
{
    return ask_as(
        r, s,
        (struct frame_header){.kind = OPERATION_KNN, .request_id = request_id, .flags = flags});
}

/* ---------------------------------------------------------------- made */

static uint64_t read_now(void *owner)
{
    return ((struct request_rig *)owner)->now_ns;
}

static void nobody(void *owner) {}

void request_rig_open(struct request_rig *r, const char *const *settings)
{
    struct pipeline_options options = {
        .config = &r->config,
        .clock = &r->clock,
        .net = &r->net,
        .kernels = vectors_choose("scalar"),
        .done = &r->done,
        .cpu = &r->cpu,
        .worker_count = 2,
    };
    struct failure f;
    memset(r, 0, sizeof *r);
    r->now_ns = BEGIN_NS;
    r->clock = (struct clock){.now_ns = read_now, .owner = r};
    r->cpu.ops = &played;
    r->done.wake = nobody;
    client_end = unheard_transport(unheard_stops);
    client_end.try_write = hear;
    config_defaults(&r->config);
    r->config.worker_inline = false;
    for (size_t i = 0; settings && settings[i]; i++)
        cr_assert_eq(config_set(&r->config, settings[i], &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(heap_create(64 << 20, &options.heap), STATUS_OK);
    cr_assert_eq(store_create(options.heap, options.kernels, &options.store), STATUS_OK);
    store_limit_collections(options.store, 10);
    cr_assert_eq(pipeline_create(&options, &r->pipeline), STATUS_OK);
    struct net_events events = pipeline_net_events(r->pipeline);
    cr_assert_eq(net_init(&r->net, NULL, &r->clock, options.heap, &r->config, &events), STATUS_OK);
}

struct rig_space *request_rig_space(struct request_rig *r, const char *name)
{
    const struct peer_key who = peer_key_of_user(1000);
    struct store *store = r->pipeline->store;
    struct rig_space *s = r->spaces;
    struct failure f;
    while (s->space)
        s++;
    cr_assert_lt(s - r->spaces, RIG_SPACES_MAX);
    cr_assert_eq(store_space(store, name, &s->space), STATUS_OK);
    cr_assert(quotas_tenant(r->pipeline, s->space));
    s->tenancy = tenancy_create(principal_create(), s->space->tenant);
    cr_assert(s->tenancy);
    cr_assert_eq(store_collection_create(store, s->space, "rows", RIG_DIMENSION, METRIC_COSINE,
                                         NULL, &s->rows),
                 STATUS_OK);
    s->client = connection_attach(&r->net, &who, &client_end, s);
    cr_assert(s->client);
    s->client->greeted = true;
    s->client->space = s->space;
    s->client->owner = s->space->number;
    cr_assert_eq(quotas_admit_connection(r->pipeline, s->client, &f), STATUS_OK);
    return s;
}
