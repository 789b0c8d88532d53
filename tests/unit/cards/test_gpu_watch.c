/* When the loop watches for completions: around the time when an order should end. */
#include <poll.h>
#include <sys/eventfd.h>

#include "daemon/cards/cards_inside.h"
#include "proto/foresight.h"
#include "tests/unit/cards/gpu_house.h"

enum { RUN_NS = 1000000, LOOK_NS = 10000, ENDS = 12 };

/* The loop always has something else to do, so that watching ends at once; the clock stands. */
struct watched {
    struct house house;
    struct played_card *card;
    int loop_fd;
};

static void open_watched(struct watched *w)
{
    open_house(&w->house, "sim");
    w->card = processes[0];
    w->loop_fd = eventfd(1, EFD_NONBLOCK);
    upload(&w->house, w->card);
    w->house.stopped_ns = clock_now_ns();
}

static void close_watched(struct watched *w)
{
    w->house.stopped_ns = 0;
    close(w->loop_fd);
    close_house(&w->house);
}

static struct job *give(struct watched *w, struct order *o)
{
    struct job *j = make_knn(&w->house);
    j->foreseen_ns = RUN_NS;
    submit(&w->house, j);
    *o = expect_run(w->card, RUN_KNN);
    cr_assert_eq(o->foreseen_ns, RUN_NS, "the GPU process is told");
    return j;
}

static void end(struct watched *w, struct job *j, const struct order *o)
{
    answer(w->card, o, RESULT_OK, 0);
    expect_back(&w->house, j);
    drop_job(j);
}

/* Orders that take just twice as long as predicted, and are seen to end. */
static void learn(struct watched *w)
{
    struct order o;
    for (int i = 0; i < ENDS; i++) {
        struct job *j = give(w, &o);
        w->house.stopped_ns += 2 * RUN_NS - LOOK_NS;
        cards_poll(w->house.gpu);
        w->house.stopped_ns += LOOK_NS;
        end(w, j, &o);
    }
}

Test(gpu_watch, loop_is_called_again_shortly_before_the_end)
{
    struct watched w;
    struct order o;
    open_watched(&w);
    cr_assert_eq(cards_wake_ns(w.house.gpu), UINT64_MAX);
    learn(&w);
    struct job *j = give(&w, &o);
    uint64_t end_ns = w.house.stopped_ns + 2 * RUN_NS;
    cr_assert_not(cards_watch(w.house.gpu, w.loop_fd));
    uint64_t wake_ns = cards_wake_ns(w.house.gpu);
    cr_assert(wake_ns < end_ns - FORESIGHT_DEEP_NS && wake_ns > end_ns - RUN_NS, "%lld ns before",
              (long long)(end_ns - wake_ns));
    int naps = 0;
    for (uint64_t next_ns; naps < 10; naps++, wake_ns = next_ns) {
        w.house.stopped_ns = wake_ns;
        cr_assert_not(cards_watch(w.house.gpu, w.loop_fd));
        next_ns = cards_wake_ns(w.house.gpu);
        if (next_ns == UINT64_MAX) break; /* it is to be watched for now, but the loop has work */
        cr_assert_leq(next_ns, wake_ns + FORESIGHT_DOZE_NS + FORESIGHT_NAP_NS);
    }
    cr_assert(naps >= 3 && naps < 10, "%d", naps);
    cr_assert(wake_ns < end_ns && wake_ns > end_ns - RUN_NS / 4, "%lld ns before",
              (long long)(end_ns - wake_ns));
    end(&w, j, &o);
    close_watched(&w);
}

Test(gpu_watch, second_order_begins_when_the_first_has_ended)
{
    struct watched w;
    struct order first, second;
    open_watched(&w);
    learn(&w);
    struct job *one = give(&w, &first), *two = give(&w, &second);
    w.house.stopped_ns += 2 * RUN_NS;
    end(&w, one, &first);
    uint64_t end_ns = w.house.stopped_ns + 2 * RUN_NS;
    cr_assert_not(cards_watch(w.house.gpu, w.loop_fd));
    uint64_t wake_ns = cards_wake_ns(w.house.gpu);
    cr_assert(wake_ns < end_ns && wake_ns > end_ns - RUN_NS, "%lld ns before",
              (long long)(end_ns - wake_ns));
    w.house.stopped_ns += 2 * RUN_NS;
    end(&w, two, &second);
    cr_assert_not(cards_watch(w.house.gpu, w.loop_fd));
    cr_assert_eq(cards_wake_ns(w.house.gpu), UINT64_MAX, "nothing is out");
    close_watched(&w);
}

/* Orders last longer all at once: the loop looks when they should have ended, and is told of the
 * end by an event, late. That must not count as having overslept. */
Test(gpu_watch, order_that_was_looked_for_in_vain_is_expected_later)
{
    struct watched w;
    struct order o;
    open_watched(&w);
    learn(&w);
    const struct cards *g = (struct cards *)w.house.gpu;
    const struct foresight *f = foresight_of((struct foresight_table *)&g->ends, RUN_NS);
    float before = f->ratio;
    for (int i = 0; i < 4 * ENDS; i++) {
        struct job *j = give(&w, &o);
        w.house.stopped_ns += 5 * (uint64_t)RUN_NS / 2;
        cr_assert_not(cards_watch(w.house.gpu, w.loop_fd));
        w.house.stopped_ns += RUN_NS / 2;
        end(&w, j, &o);
    }
    cr_assert_gt(f->ratio, before * 1.2F, "%f, before %f", (double)f->ratio, (double)before);
    close_watched(&w);
}

Test(gpu_watch, spin_of_0_means_never)
{
    struct watched w;
    struct order o;
    open_watched(&w);
    learn(&w);
    w.house.config.gpu_spin_us = 0;
    struct job *j = give(&w, &o);
    cr_assert_not(cards_watch(w.house.gpu, w.loop_fd));
    cr_assert_eq(cards_wake_ns(w.house.gpu), UINT64_MAX);
    end(&w, j, &o);
    close_watched(&w);
}

/* A request is answered, and the loop is about to sleep. */
static struct follow_up answered(struct watched *w)
{
    struct order o;
    struct job *j = give(w, &o);
    end(w, j, &o);
    cr_assert_not(cards_watch(w->house.gpu, w->loop_fd));
    struct follow_up f = ((struct cards *)w->house.gpu)->follow_up;
    cr_assert_not(f.answered);
    return f;
}

/* The loop looks for the next request after an answer, ever more seldom while none comes. */
Test(gpu_watch, next_request_is_watched_for_if_it_uses_to_come)
{
    struct watched w;
    uint64_t events;
    open_watched(&w);
    w.house.stopped_ns = 0;
    for (int i = 0; i < 3; i++)
        cr_assert_eq(answered(&w).skips, 0, "it has come");
    cr_assert_eq(read(w.loop_fd, &events, sizeof events), sizeof events);
    cr_assert_eq(answered(&w).skips, 1);
    cr_assert_eq(answered(&w).skips, 0, "no look");
    struct follow_up f = answered(&w);
    cr_assert(f.missed == 2 && f.skips == 3);
    events = 1;
    cr_assert_eq(write(w.loop_fd, &events, sizeof events), sizeof events);
    for (uint32_t i = 3; i-- > 0;)
        cr_assert_eq(answered(&w).skips, i);
    f = answered(&w);
    cr_assert(f.missed == 0 && f.skips == 0, "it has come again");
    close_watched(&w);
}

Test(gpu_watch, next_request_is_not_watched_for_without_a_share)
{
    struct watched w;
    uint64_t events;
    open_watched(&w);
    cr_assert_eq(read(w.loop_fd, &events, sizeof events), sizeof events);
    w.house.config.gpu_spin_us = 0;
    cr_assert_eq(answered(&w).missed, 0, "the clock stands: a look would not end");
    w.house.config.gpu_spin_us = 150;
    foresight_budget_init(&((struct cards *)w.house.gpu)->budget, 0, w.house.stopped_ns);
    cr_assert_eq(answered(&w).missed, 0);
    close_watched(&w);
}
