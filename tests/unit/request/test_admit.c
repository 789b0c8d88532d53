/* Requests that name several collections, on their way into the lines of all of them. */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/request/cancel.h"
#include "daemon/request/jobs.h"
#include "daemon/request/pipeline_inside.h"
#include "daemon/sched/turnstile.h"
#include "daemon/store/collection.h"
#include "tests/support/request_rig.h"
#include "tests/support/sample_requests.h"

static struct request_rig rig;
static struct rig_space *one;
static struct pipeline *p;
static struct collection *more, *into;

static struct collection *create(const char *name)
{
    struct collection *c;
    cr_assert_eq(
        store_collection_create(p->store, one->space, name, RIG_DIMENSION, METRIC_COSINE, NULL, &c),
        STATUS_OK);
    return c;
}

static void begin(void)
{
    request_rig_open(&rig, NULL);
    one = request_rig_space(&rig, "one");
    p = rig.pipeline;
    more = create("more");
    into = create("into");
}

TestSuite(admit, .init = begin);

static void put(bool *has, engram_accel_v1_Tensor *t)
{
    *has = true;
    *t = sample_tensor(DTYPE_UINT64, 1, 1);
}

/* Sends: into <- bind(a, b), of one row each. */
static void send_bind(uint64_t request_id, const char *a, const char *b, const char *c)
{
    struct sample s = {
        .kind = OPERATION_BIND, .fields = engram_accel_v1_BindRequest_fields, .body_bytes = 192};
    engram_accel_v1_BindRequest *m = &s.message.bind;
    char message[SAMPLE_BYTES_MAX] = {0};
    strcpy(m->a, a);
    strcpy(m->b, b);
    strcpy(m->into, c);
    put(&m->has_a_ids, &m->a_ids);
    put(&m->has_b_ids, &m->b_ids);
    put(&m->has_into_ids, &m->into_ids);
    struct frame_header header = {.kind = OPERATION_BIND,
                                  .request_id = request_id,
                                  .message_bytes = sample_message(&s, message, sizeof message),
                                  .body_bytes = s.body_bytes};
    struct frame frame = {.header = &header, .message = message, .body = s.body};
    struct net_events events = pipeline_net_events(p);
    events.on_frame(events.owner, one->client, &frame);
}

static struct job *find(uint64_t request_id)
{
    for (struct job *j = one->client->jobs; j; j = j->connection_next)
        if (j->key.request_id == request_id) return j;
    return NULL;
}

static void expect_idle(void)
{
    struct collection *all[] = {one->rows, more, into};
    for (int i = 0; i < 3; i++)
        cr_assert(turnstile_idle(collection_turnstile(all[i])), "%d", i);
}

static void expect_error(uint32_t nth, uint64_t request_id, uint32_t code, uint32_t detail)
{
    struct rig_error errors[8];
    cr_assert_eq(request_rig_hear(&rig, one, errors, 8), nth + 1);
    cr_assert_eq(errors[nth].request_id, request_id);
    cr_assert(errors[nth].code == code && errors[nth].detail == detail);
}

Test(admit, every_name_is_looked_up)
{
    const char *names[3] = {"rows", "more", "into"};
    for (uint32_t missing = 0; missing < 3; missing++) {
        const char *use[3];
        for (uint32_t i = 0; i < 3; i++)
            use[i] = i == missing ? "nobody" : names[i];
        send_bind(1 + missing, use[0], use[1], use[2]);
        expect_error(missing, 1 + missing, STATUS_NOT_FOUND, DETAIL_UNKNOWN_COLLECTION);
        cr_assert_eq(p->job_count, 0);
        expect_idle();
    }
    send_bind(9, "rows", "more", "into");
    struct job *j = find(9);
    cr_assert(j && j->holds_turnstile);
    cr_assert_eq(job_written(j), &j->objects[2]);
    cr_assert_eq(collection_turnstile(into)->writer, j);
    connection_close(one->client);
    cr_assert_eq(p->job_count, 0);
    expect_idle();
}

/* Who leaves early lets those behind it pass, in whichever line they stand. */
Test(admit, who_waits_in_several_lines_can_leave)
{
    send_bind(1, "rows", "more", "into");
    send_bind(2, "rows", "more", "into");
    send_bind(3, "into", "more", "rows");
    struct job *first = find(1), *second = find(2), *third = find(3);
    cr_assert(first->holds_turnstile && second->state == JOB_WAITING);
    cr_assert_eq(third->state, JOB_WAITING, "it reads what the others of its client write");
    cancel_job(p, second);
    expect_error(0, 2, STATUS_CANCELLED, DETAIL_CANCELLED_BY_CLIENT);
    cr_assert_eq(third->state, JOB_WAITING);
    cancel_job(p, first);
    cr_assert(third->holds_turnstile);
    connection_close(one->client);
    cr_assert_eq(p->job_count, 0);
    expect_idle();
}
