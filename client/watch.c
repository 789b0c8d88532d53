/* watch: a reply is watched for around the time when it should come, because waking from a sleep
 * takes as long as a short request. Questions of the same form take about as long; what watching
 * costs is bounded by a share of a core (proto/foresight.h). Only replies from a GPU: while the CPU
 * computes one, the core that watches would be missing there. */
#include <sched.h>
#include <sys/prctl.h>

#include "client/client.h"

/* Where there are fewer processors, the daemon and the GPU process need them at the same time. */
enum { WATCH_PERCENT = 10, PROCESSORS_MIN = 4 };

/* Predictions are the mean of what came before: a foresight of so much alone. */
#define UNIT_NS UINT64_C(1000000)

static uint32_t percent_here(void)
{
    cpu_set_t set;
    bool few = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) < PROCESSORS_MIN;
    return few ? EA_WATCH_NEVER : WATCH_PERCENT;
}

void ea_watch_init(ea_client *c, uint32_t percent)
{
    if (!percent) percent = percent_here();
    if (percent > 100) percent = 0;
    foresight_budget_init(&c->watch.budget, percent, (uint64_t)ea_now_ns());
}

/* A number for requests of r's form: its kind, its message, and the size of its body. */
static uint64_t form_of(const struct client_request *r)
{
    uint64_t form = r->kind ^ r->body_bytes << 8;
    for (size_t at = EA_HEADER_BYTES; at + 8 <= r->pieces[0].iov_len; at += 8) {
        uint64_t word;
        memcpy(&word, r->head + at, sizeof word);
        form = (form ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        form ^= form >> 29;
    }
    return form;
}

/* The place of r's form, which it may have taken from another. */
static struct watch_form *place_of(ea_client *c, const struct client_request *r)
{
    uint64_t form = form_of(r);
    struct watch_form *f = &c->watch.forms[form % EA_WATCH_FORMS];
    if (f->form != form) *f = (struct watch_form){.form = form};
    return f;
}

void ea_watch_sent(ea_client *c, struct client_request *r)
{
    if (c->watch.budget.percent) r->sent_ns = ea_now_ns();
}

void ea_watch_learn(ea_client *c, const struct client_request *r)
{
    const ea_meta *meta = r->result.meta;
    if (!r->sent_ns || r->note.code || !meta) return;
    struct watch_form *f = place_of(c, r);
    if (meta->backend != EA_BACKEND_GPU) {
        f->ends = (struct foresight){0};
        return;
    }
    int64_t took_ns = ea_now_ns() - r->sent_ns;
    foresight_learn(&f->ends, UNIT_NS, took_ns > 0 ? (uint64_t)took_ns : 1, !c->watch.blind);
}

/* Plans the wait for the only request that is out; false: there are others, or when its reply comes
 * is not foreseen, or the share of a core is used up. */
static bool plan(ea_client *c, uint64_t now_ns, struct foresight_plan *out)
{
    const struct client_request *r = c->pending.first;
    if (!c->watch.budget.percent || c->link != LINK_READY || !r || r->next || !r->sent_ns ||
        c->body_left)
        return false;
    const struct foresight *f = &place_of(c, r)->ends;
    uint64_t takes_ns = foresight_ns(f, UNIT_NS);
    if (!takes_ns) return false;
    *out = foresight_plan((uint64_t)r->sent_ns, takes_ns, foresight_doubt_ns(f, UNIT_NS),
                          &c->watch.sleep, now_ns);
    return now_ns < out->until_ns &&
           out->until_ns - out->watch_ns <= foresight_budget_left(&c->watch.budget, now_ns);
}

bool ea_watch_reply(ea_client *c, int64_t until_ns, int64_t *wake_ns)
{
    if (!c->watch.budget.percent || !c->pending.first) return false;
    uint64_t start_ns = (uint64_t)ea_now_ns(), now_ns = start_ns, completions = c->completions;
    struct foresight_plan p;
    if (!plan(c, now_ns, &p)) return false;
    if (p.wake_ns) {
        if ((int64_t)p.wake_ns < until_ns) *wake_ns = (int64_t)p.wake_ns;
        c->watch.naps = p.early;
        return false;
    }
    if (until_ns < (int64_t)p.until_ns) p.until_ns = (uint64_t)until_ns;
    while (now_ns < p.until_ns && c->completions == completions && c->link == LINK_READY &&
           !c->body_left && !atomic_load_explicit(&c->cancels.waiting, memory_order_relaxed)) {
        ea_fill(c);
        c->watch.blind = false;
        now_ns = (uint64_t)ea_now_ns();
    }
    foresight_budget_spend(&c->watch.budget, now_ns - start_ns);
    return true;
}

/* The slack of timers is the thread's, which is the caller's: it gets its own value back. */
int ea_watch_sleep(struct pollfd *p, nfds_t count, const struct timespec *timeout)
{
    int slack_ns = prctl(PR_GET_TIMERSLACK);
    if (slack_ns > 1) prctl(PR_SET_TIMERSLACK, 1UL);
    int ready = ppoll(p, count, timeout, NULL);
    if (slack_ns > 1) prctl(PR_SET_TIMERSLACK, (unsigned long)slack_ns);
    return ready;
}

void ea_watch_woke(ea_client *c, int64_t wake_ns)
{
    if (!c->watch.naps) foresight_slept(&c->watch.sleep, (uint64_t)wake_ns, (uint64_t)ea_now_ns());
    c->watch.blind = true;
}
