/* drive: waiting, deadlines, callbacks. A blocking call is a request and this loop. */
#include "client/client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

/* Ends requests past their deadlines and finds the next deadline. */
static void expire(ea_client *c)
{
    if (!c->pending.first) {
        c->nearest_deadline_ns = INT64_MAX; /* so that nobody reads the clock for it */
        return;
    }
    int64_t now_ns = ea_now_ns();
    if (now_ns < c->nearest_deadline_ns) return;
    c->nearest_deadline_ns = INT64_MAX;
    struct client_request *next;
    for (struct client_request *r = c->pending.first; r; r = next) {
        next = r->next;
        if (!r->deadline_ns) continue;
        if (r->deadline_ns > now_ns) {
            if (r->deadline_ns < c->nearest_deadline_ns) c->nearest_deadline_ns = r->deadline_ns;
            continue;
        }
        uint64_t losses = c->losses;
        ea_note_set(&r->note, EA_DEADLINE_EXCEEDED, EA_DETAIL_DEADLINE,
                    "no answer before the deadline");
        ea_abandon(c, r);
        if (c->losses != losses) return; /* all pending requests have ended */
    }
}

/* Returns when something must be done even without an event of the socket; INT64_MAX: never. */
static int64_t next_ns(const ea_client *c)
{
    int64_t link_ns = ea_connect_next_ns(c);
    return link_ns < c->nearest_deadline_ns ? link_ns : c->nearest_deadline_ns;
}

static void wait_socket(ea_client *c, int64_t until_ns)
{
    if (next_ns(c) < until_ns) until_ns = next_ns(c);
    struct timespec t, *timeout = NULL;
    int64_t wake_ns = 0;
    if (ea_watch_reply(c, until_ns, &wake_ns)) return;
    if (wake_ns) until_ns = wake_ns;
    if (until_ns != INT64_MAX) {
        int64_t left_ns = until_ns - ea_now_ns();
        if (left_ns < 0) left_ns = 0;
        t = (struct timespec){left_ns / 1000000000, left_ns % 1000000000};
        timeout = &t;
    }
    struct pollfd p[] = {{.fd = ea_fd(c), .events = ea_events(c)},
                         {.fd = c->cancels.wake_fd, .events = POLLIN}};
    /* a timeout or a signal: the caller checks what to do */
    int ready = wake_ns ? ea_watch_sleep(p, 2, timeout) : ppoll(p, 2, timeout, NULL);
    if (!ready && wake_ns) ea_watch_woke(c, wake_ns);
    if (ready <= 0) return;
    c->watch.blind = false;
    if (c->link < LINK_HELLO) return;
    if (p[0].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) ea_fill(c);
    if (p[0].revents & POLLOUT) ea_flush(c);
}

void ea_step(ea_client *c, int64_t until_ns)
{
    uint64_t completions = c->completions;
    if (atomic_load_explicit(&c->cancels.waiting, memory_order_acquire)) ea_cancels_take(c);
    ea_connect_continue(c);
    ea_flush(c);
    if (c->link != LINK_NONE) {
        if (until_ns && c->completions == completions)
            wait_socket(c, until_ns);
        else
            ea_fill(c);
    }
    if (c->nearest_deadline_ns != INT64_MAX) expire(c);
    if (c->reports) ea_progress_tell(c);
}

void ea_wait(ea_client *c, struct client_request *r)
{
    while (!r->done)
        ea_step(c, INT64_MAX);
}

/* Finds out now whether the connection has died meanwhile, not in the middle of a request that
 * cannot be repeated. */
static void look_before(ea_client *c, const struct client_request *r)
{
    if (!r->repeatable && c->link == LINK_READY) ea_fill(c);
}

bool ea_await_successor(ea_client *c, const struct client_request *r)
{
    if (r->note.code != EA_UNAVAILABLE || r->note.detail != EA_DETAIL_RESTARTING) return false;
    int64_t until_ns = r->deadline_ns ? r->deadline_ns : INT64_MAX;
    while (c->link != LINK_NONE && c->losses == r->losses && ea_now_ns() < until_ns)
        ea_step(c, until_ns);
    return c->link == LINK_NONE || c->losses != r->losses;
}

ea_status ea_run(ea_client *c, struct client_request *r, int64_t deadline_ns, uint64_t instance)
{
    r->deadline_ns = deadline_ns;
    bool outermost = ea_call_begin(c);
    ea_status st = ea_answer_prepare(c, r);
    for (bool repeated = false; !st; repeated = true) {
        look_before(c, r);
        st = ea_connect_until(c, r->deadline_ns);
        if (!st && instance && c->instance != instance)
            st = ea_fail(c, EA_UNAVAILABLE, 0,
                         "the daemon was restarted in the middle: send everything again");
        if (!st) st = ea_submit(c, r);
        if (st) break;
        ea_wait(c, r);
        st = r->note.code;
        if (st) ea_fail_note(c, &r->note);
        /* it may have been applied */
        if (r->lost && r->begun && !r->repeatable) c->error.retryable = false;
        if (!st || !r->repeatable || repeated) break;
        if (!r->lost && !ea_await_successor(c, r)) break;
        ea_request_rewind(r);
        st = EA_OK;
    }
    ea_call_end(c, outermost);
    return st;
}

ea_status ea_call(ea_client *c, struct client_request *r, void *out)
{
    ea_status st = ea_run(c, r, ea_deadline_after(c->timeout_us), 0);
    if (!st) ea_answer_give(c, r, out);
    ea_request_release(c, r);
    return st;
}

enum { FLUSH_EVERY = 64 };

ea_status ea_send(ea_client *c, struct client_request *r, const ea_send_options *how,
                  uint64_t *request_id)
{
    ea_send_options o = {0};
    if (how) ea_copy_struct(&o, sizeof o, how, c->sizes.send_options);
    r->owner = OWNER_CALLBACK;
    r->callback = o.callback;
    r->progress = o.progress;
    r->user = o.user;
    r->deadline_ns = ea_deadline_after(o.timeout_us ? o.timeout_us : c->timeout_us);
    ea_status st = ea_request_write(c, r, o.write);
    if (!st && o.expect) {
        EA_TAKE(c, state, state, o.expect);
        st = ea_request_expect(c, r, &state);
    }
    if (!st) st = ea_answer_prepare(c, r);
    if (!st) st = ea_connect_start(c);
    if (!st) st = ea_submit(c, r);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    uint64_t id = r->id;
    if (request_id) *request_id = id;
    /* Heads are collected until a pump writes them together, but not too many. */
    if (id % FLUSH_EVERY == 0) ea_flush(c);
    return EA_OK;
}

/* ---- callbacks ---- */

static size_t run_callbacks(ea_client *c)
{
    size_t count = 0;
    /* requests that callbacks complete wait for the next turn */
    struct client_request *last = c->done.last;
    while (c->done.first && last) {
        struct client_request *r = c->done.first;
        c->done.first = r->next;
        if (r->next)
            r->next->previous = NULL;
        else
            c->done.last = NULL;
        c->callback_count--;
        if (r->note.code) ea_fail_note(c, &r->note);
        if (r->callback) ea_answer_callback(c, r);
        bool was_last = r == last;
        ea_request_release(c, r);
        count++;
        if (was_last) break;
    }
    return count;
}

ea_status ea_pump(ea_client *c, int64_t timeout_us)
{
    if (!c) return EA_INVALID_ARGUMENT;
    uint64_t losses = c->losses;
    int64_t until_ns = timeout_us < 0    ? INT64_MAX
                       : timeout_us == 0 ? 0
                                         : ea_deadline_after((uint64_t)timeout_us);
    size_t ran = run_callbacks(c);
    for (;;) {
        ea_step(c, ran || !c->callback_count ? 0 : until_ns);
        ran += run_callbacks(c);
        if (ran || c->losses != losses || c->link == LINK_NONE || !c->callback_count) break;
        if (until_ns != INT64_MAX && ea_now_ns() >= until_ns) break;
    }
    return c->losses == losses || c->closing ? EA_OK : ea_fail_note(c, &c->loss);
}

int ea_fd(const ea_client *c)
{
    return c && c->link != LINK_RETRY ? c->fd : -1;
}

short ea_events(const ea_client *c)
{
    return (short)(POLLIN | (c && ea_output_waits(c) ? POLLOUT : 0));
}

int64_t ea_wait_us(const ea_client *c)
{
    if (!c) return -1;
    if (c->done.first) return 0;
    int64_t at_ns = next_ns(c);
    if (at_ns == INT64_MAX) return -1;
    int64_t left_ns = at_ns - ea_now_ns();
    return left_ns > 0 ? (left_ns + 999) / 1000 : 0;
}

size_t ea_pending(const ea_client *c)
{
    return c ? c->callback_count : 0;
}
