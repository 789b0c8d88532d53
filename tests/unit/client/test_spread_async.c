/* Spreads that are answered through a callback: kept, refused, late, cancelled, in any order and in
 * pieces. */
#include "client/engram_accel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tests/support/fake_daemon.h"

enum { FRAME_MAX = 1 << 20 };

static struct fake_daemon daemon_;
static ea_client *client;

#define OK(call)  cr_assert_eq((call), EA_OK, "%s", ea_error_text(client))
#define BAD(call) cr_assert_eq((call), EA_INVALID_ARGUMENT)

static const uint64_t ids[5] = {1, 2, 3, 4, 5};
static const uint64_t offsets[3] = {0, 2, 5};
static const float weights[5] = {0.5F, 1, 1, 1, 1};

static void begin(void (*script)(struct fake_daemon *d, int fd), uint32_t timeout_ms)
{
    daemon_ = (struct fake_daemon){0};
    fake_start(&daemon_, script);
    ea_options o = {.socket_path = daemon_.path, .timeout_us = timeout_ms * UINT64_C(1000)};
    cr_assert_eq(ea_open(&o, &client), EA_OK);
}

static void end(void)
{
    ea_close(client);
    fake_stop(&daemon_);
}

/* What came of one. */
struct answer {
    unsigned calls;
    uint64_t id;
    ea_status status;
    char text[256];
    uint64_t sets, count;
    bool keep;
    ea_spread_result kept;
};

static uint64_t order[8];
static unsigned callbacks;

static void note(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status st = answer->status;
    ea_spread_result *r = answer->spread;
    struct answer *a = user;
    order[callbacks++ % 8] = answer->request_id;
    if (!a) return;
    a->calls++;
    a->id = answer->request_id;
    a->status = st;
    if (st) {
        snprintf(a->text, sizeof a->text, "%s", ea_error_text(c));
        cr_assert_null(r, "a failure brings nothing");
        return;
    }
    a->sets = r->sets;
    a->count = r->count;
    if (!a->keep) return;
    a->kept = *r;
    *r = (ea_spread_result){0};
}

static void await_all(void)
{
    while (ea_pending(client))
        (void)ea_pump(client, -1);
}

static ea_status send_two_sets(struct answer *a, const ea_spread_options *o, uint32_t timeout_ms,
                               uint64_t *id)
{
    return ea_spread_send(
        client, "links", o,
        &(ea_seeds){.offsets = offsets, .sets = 2, .ids = ids, .activations = weights, .count = 5},
        &(ea_send_options){.callback = note, .user = a, .timeout_us = timeout_ms * UINT64_C(1000)},
        id);
}

TestSuite(spread_async, .timeout = 900);

Test(spread_async, is_answered_and_kept)
{
    struct answer a = {.keep = true}, b = {0};
    uint64_t id = 0;
    begin(fake_serve, 5000);
    callbacks = 0;
    ea_spread_options o = {.mode = EA_LINEAR, .paths = true, .k = 1};
    OK(send_two_sets(&a, &o, 0, &id));
    memset(&o, 0xff, sizeof o); /* it was copied */
    o = (ea_spread_options){.mode = EA_ENGRAM};
    OK(ea_spread_send(client, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 3},
                      &(ea_send_options){.callback = note, .user = &b}, NULL));
    OK(ea_spread_send(client, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, NULL,
                      NULL));
    cr_assert_eq(ea_pending(client), 3);
    OK(ea_ping(client)); /* a blocking call in between runs no callbacks */
    cr_assert_eq(callbacks, 0);
    await_all();
    cr_assert(a.calls == 1 && b.calls == 1 && id != 0 && a.id == id);
    const ea_spread_result *r = &a.kept;
    cr_assert(r->sets == 2 && r->count == 2 && r->offsets[2] == 2 && r->meta->version == 7);
    cr_assert(r->activations[0] == 0.5F && r->confidences[1] == 0.5F && r->tier_sums[5] == 0.5F);
    cr_assert(r->path_offsets[2] == 2 && r->path_ids[1] == 1 && r->memory);
    cr_assert(b.sets == 1 && b.count == 1);
    ea_spread_result_free(&a.kept);
    end();
}

Test(spread_async, is_refused_before_it_is_sent)
{
    struct answer a = {0};
    begin(fake_serve, 5000);
    ea_spread_options o = {.mode = EA_LINEAR};
    BAD(ea_spread_send(NULL, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 1},
                       &(ea_send_options){.callback = note, .user = &a}, NULL));
    BAD(ea_spread_send(client, "links", NULL, &(ea_seeds){.sets = 1, .ids = ids, .count = 1},
                       &(ea_send_options){.callback = note, .user = &a}, NULL));
    BAD(ea_spread_send(client, NULL, &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 1},
                       &(ea_send_options){.callback = note, .user = &a}, NULL));
    BAD(ea_spread_send(client, "links", &o, &(ea_seeds){.sets = 2, .ids = ids, .count = 1},
                       &(ea_send_options){.callback = note, .user = &a}, NULL));
    BAD(ea_spread_send(client, "links", &o, &(ea_seeds){.sets = 1, .count = 1},
                       &(ea_send_options){.callback = note, .user = &a}, NULL));
    o.hops = 101;
    BAD(send_two_sets(&a, &o, 0, NULL));
    cr_assert(strstr(ea_error_text(client), "hops: 101"));
    cr_assert_eq(ea_pending(client), 0);
    cr_assert_eq(a.calls, 0);
    /* What only the daemon refuses comes through the callback. */
    o = (ea_spread_options){.mode = EA_LINEAR, .paths = true, .last_hop = true};
    OK(send_two_sets(&a, &o, 0, NULL));
    await_all();
    cr_assert(a.calls == 1 && a.status == EA_INVALID_ARGUMENT);
    cr_assert(strstr(a.text, "paths: not together with last_hop"), "%s", a.text);
    end();
}

Test(spread_async, replies_in_any_order)
{
    struct answer a[3] = {0};
    uint64_t sent[3];
    const ea_spread_options o = {.mode = EA_ENGRAM, .k = 1};
    begin(fake_serve_backwards, 5000);
    callbacks = 0;
    for (uint32_t i = 0; i < 3; i++)
        OK(ea_spread_send(client, "links", &o,
                          &(ea_seeds){.offsets = offsets,
                                      .sets = i % 2 + 1,
                                      .ids = ids,
                                      .activations = weights,
                                      .count = offsets[i % 2 + 1]},
                          &(ea_send_options){.callback = note, .user = &a[i]}, &sent[i]));
    await_all();
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(a[i].calls == 1 && a[i].status == EA_OK && a[i].id == sent[i]);
        cr_assert_eq(a[i].sets, i % 2 + 1);
        cr_assert_eq(order[i], sent[2 - i]);
    }
    end();
}

Test(spread_async, replies_cut_at_every_byte)
{
    const ea_spread_options o = {.mode = EA_ENGRAM, .paths = true};
    begin(fake_serve_split, 5000);
    for (unsigned i = 0; i < 1200; i++) {
        struct answer a = {.keep = true};
        OK(send_two_sets(&a, &o, 0, NULL));
        await_all();
        cr_assert(a.calls == 1 && a.status == EA_OK, "%s", a.text);
        cr_assert(a.kept.offsets[2] == 2 && a.kept.path_ids[1] == 1);
        ea_spread_result_free(&a.kept);
    }
    end();
}

/* Answers when it has the next request. */
static void answer_late(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    uint8_t *frame = malloc(FRAME_MAX);
    size_t n = 0;
    if (fake_hello(d, fd))
        while (fake_read(fd, r)) {
            if (r->header.kind == OPERATION_CANCEL) continue;
            if (n && !fake_write(fd, frame, n)) break;
            n = fake_answer(r, frame, FRAME_MAX);
            if (r->header.kind != OPERATION_PING) continue;
            if (!fake_write(fd, frame, n)) break;
            n = 0;
        }
    free(r->body);
    free(frame);
    free(r);
}

Test(spread_async, out_of_time)
{
    const ea_spread_options o = {.mode = EA_LINEAR, .paths = true};
    begin(answer_late, 5000);
    for (unsigned i = 0; i < 20; i++) {
        struct answer a = {0};
        OK(send_two_sets(&a, &o, 5, NULL));
        await_all();
        cr_assert(a.calls == 1 && a.status == EA_DEADLINE_EXCEEDED, "%s", a.text);
        OK(ea_ping(client)); /* behind the answer that nobody wants */
    }
    end();
}

Test(spread_async, cancelled_or_closed)
{
    struct answer a = {0}, b = {0};
    uint64_t id;
    const ea_spread_options o = {.mode = EA_LINEAR};
    begin(answer_late, 5000);
    OK(send_two_sets(&a, &o, 0, &id));
    OK(ea_cancel(client, id)); /* still here */
    await_all();
    cr_assert(a.calls == 1 && a.status == EA_CANCELLED);
    OK(send_two_sets(&b, &o, 0, &id));
    OK(ea_pump(client, 0));
    cr_assert_eq(b.calls, 0);
    ea_close(client);
    cr_assert(b.calls == 1 && b.status == EA_CANCELLED);
    fake_stop(&daemon_);
}

/* Offsets that lead out of the answer. */
static void answer_nonsense(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    uint8_t *frame = malloc(FRAME_MAX);
    if (fake_hello(d, fd) && fake_read(fd, r)) {
        size_t n = fake_answer(r, frame, FRAME_MAX);
        struct frame_header h;
        memcpy(&h, frame, sizeof h);
        uint64_t wrong = UINT64_MAX / 2;
        memcpy(frame + n - h.body_bytes + sizeof wrong, &wrong, sizeof wrong);
        fake_write(fd, frame, n);
    }
    free(r->body);
    free(frame);
    free(r);
}

Test(spread_async, gives_nothing_of_a_lie)
{
    struct answer a = {0};
    const ea_spread_options o = {.mode = EA_LINEAR};
    begin(answer_nonsense, 5000);
    OK(send_two_sets(&a, &o, 0, NULL));
    await_all();
    cr_assert(a.calls == 1 && a.status == EA_DATA_LOSS, "%u: %s", a.status, a.text);
    end();
}
