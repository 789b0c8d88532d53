/* What the client learns about replies that it may watch for; when it watches is foresight's. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>

#include "client/client.h"

enum { FORM_BYTES = 96 };

static ea_client *open_client(uint32_t percent)
{
    ea_client *c;
    cr_assert_eq(ea_open(&(ea_options){.socket_path = "/nowhere", .watch_percent = percent}, &c),
                 EA_OK);
    return c;
}

/* A request of that form, sent. */
static void make(ea_client *c, struct client_request *r, uint8_t form)
{
    memset(r, 0, sizeof *r);
    r->kind = engram_accel_v1_Kind_KIND_KNN;
    memset(r->head, form, FORM_BYTES);
    r->pieces[0] = (struct iovec){r->head, FORM_BYTES};
    r->piece_count = 1;
    ea_watch_sent(c, r);
}

/* How many ends of requests like r the client remembers. */
static uint32_t remembered(ea_client *c)
{
    uint32_t seen = 0;
    for (int i = 0; i < EA_WATCH_FORMS; i++)
        seen += c->watch.forms[i].ends.seen;
    return seen;
}

static void answered(ea_client *c, struct client_request *r, ea_backend by)
{
    ea_meta meta = {.backend = by};
    r->result.meta = &meta;
    ea_watch_learn(c, r);
    r->result.meta = NULL;
}

Test(watch, only_replies_of_a_gpu_are_learnt)
{
    ea_client *c = open_client(10);
    static struct client_request r;
    make(c, &r, 1);
    cr_assert_neq(r.sent_ns, 0);
    answered(c, &r, EA_BACKEND_CPU);
    cr_assert_eq(remembered(c), 0);
    answered(c, &r, EA_BACKEND_GPU);
    answered(c, &r, EA_BACKEND_GPU);
    cr_assert_eq(remembered(c), 2);
    answered(c, &r, EA_BACKEND_CPU);
    cr_assert_eq(remembered(c), 0, "it has changed sides");
    ea_watch_learn(c, &r);
    cr_assert_eq(remembered(c), 0, "a ping has no meta");
    ea_close(c);
}

Test(watch, requests_of_other_forms_are_learnt_apart)
{
    ea_client *c = open_client(100);
    static struct client_request r;
    for (uint8_t form = 0; form < 3; form++) {
        make(c, &r, form);
        answered(c, &r, EA_BACKEND_GPU);
    }
    for (int i = 0; i < EA_WATCH_FORMS; i++)
        cr_assert_leq(c->watch.forms[i].ends.seen, 1);
    ea_close(c);
}

Test(watch, never_means_never)
{
    ea_client *c = open_client(EA_WATCH_NEVER);
    static struct client_request r;
    make(c, &r, 1);
    cr_assert_eq(r.sent_ns, 0);
    answered(c, &r, EA_BACKEND_GPU);
    cr_assert_eq(remembered(c), 0);
    int64_t wake_ns = 0;
    cr_assert_not(ea_watch_reply(c, INT64_MAX, &wake_ns));
    cr_assert_eq(wake_ns, 0);
    ea_close(c);
}

static volatile sig_atomic_t slept_without_slack;

static void look_at_slack(int number)
{
    (void)number;
    slept_without_slack |= prctl(PR_GET_TIMERSLACK) == 1;
}

Test(watch, a_planned_sleep_has_no_slack_and_gives_the_caller_its_own_back)
{
    enum { OWN_NS = 123456 };
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = look_at_slack}, NULL);
    prctl(PR_SET_TIMERSLACK, (unsigned long)OWN_NS);
    setitimer(ITIMER_REAL,
              &(struct itimerval){.it_value.tv_usec = 1000, .it_interval.tv_usec = 1000}, NULL);
    for (int i = 0; i < 1000 && !slept_without_slack; i++)
        ea_watch_sleep(NULL, 0, NULL); /* a signal ends it */
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    cr_assert(slept_without_slack);
    cr_assert_eq(prctl(PR_GET_TIMERSLACK), OWN_NS);
    cr_assert_eq(ea_watch_sleep(NULL, 0, &(struct timespec){.tv_nsec = 1}), 0);
    cr_assert_eq(prctl(PR_GET_TIMERSLACK), OWN_NS);
}
