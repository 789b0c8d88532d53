/* How completions are taken: in each turn of the loop, and watched for before it sleeps. When the
 * oldest order of a card should end is predicted (proto/foresight.h): the loop sleeps until shortly
 * before, in naps towards the end, and watches from then on. Where nothing is predicted it watches
 * at once. */
#include <poll.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/cards/cards_inside.h"

static bool take_all(struct cards *g, uint64_t now_ns)
{
    bool came = false;
    for (uint32_t i = 0; i < g->card_count; i++)
        if (card_is_ready(&g->cards[i])) came |= card_take(&g->cards[i]);
    g->looked_ns = now_ns;
    if (g->condemned) replicas_flush(g);
    return came;
}

void cards_poll(struct backend *b)
{
    struct cards *g = (struct cards *)b;
    take_all(g, clock_read_ns(g->options.clock));
}

/* ---- what is expected ---- */

/* An order begins when the one before it has ended. Only the oldest order's time is known. */
static uint64_t began_ns(const struct card *card, const struct card_slot *slot)
{
    return slot->sent_ns > card->ended_ns ? slot->sent_ns : card->ended_ns;
}

void card_learn(struct card *card, const struct card_slot *slot, bool well)
{
    struct cards *g = card->gpu;
    uint64_t now_ns = clock_read_ns(g->options.clock), from_ns = began_ns(card, slot);
    uint64_t took_ns = now_ns > from_ns ? now_ns - from_ns : 0;
    uint64_t blind_ns = now_ns > g->looked_ns ? now_ns - g->looked_ns : 0;
    bool oldest = &card->slots[card->oldest] == slot;
    card->ended_ns = now_ns;
    if (!well || !oldest || !slot->foreseen_ns || !took_ns) return;
    foresight_learn(foresight_of(&g->ends, slot->foreseen_ns), slot->foreseen_ns, took_ns,
                    slot->overdue || foresight_watched(took_ns, blind_ns));
}

/* Plans the wait for the card's oldest order; false: its end is not foreseen. */
static bool plan_card(struct card *card, uint64_t now_ns, struct foresight_plan *out)
{
    struct cards *g = card->gpu;
    struct card_slot *slot = &card->slots[card->oldest];
    const struct foresight *f = foresight_of(&g->ends, slot->foreseen_ns);
    uint64_t takes_ns = foresight_ns(f, slot->foreseen_ns);
    if (!takes_ns) return false;
    *out = foresight_plan(began_ns(card, slot), takes_ns, foresight_doubt_ns(f, slot->foreseen_ns),
                          &g->sleep, now_ns);
    slot->overdue |= now_ns >= out->until_ns;
    return true;
}

/* Plans the wait for whatever ends first. wake_ns 0: watch now, until until_ns. */
static struct foresight_plan plan_all(struct cards *g, uint64_t now_ns)
{
    uint64_t spin_ns = g->options.config->gpu_spin_us * UINT64_C(1000);
    struct foresight_plan all = {0}, one;
    bool first = true;
    for (uint32_t i = 0; i < g->card_count; i++) {
        struct card *card = &g->cards[i];
        if (!card->out || !card_is_ready(card)) continue;
        if (!plan_card(card, now_ns, &one))
            one = (struct foresight_plan){.until_ns = now_ns + spin_ns};
        if (first || one.wake_ns < all.wake_ns) {
            all.wake_ns = one.wake_ns;
            all.early = one.early;
        }
        if (one.until_ns > all.until_ns) all.until_ns = one.until_ns;
        first = false;
    }
    return all;
}

/* ---- watching ---- */

/* True if the loop has nothing to do; asked every 2 us or so, because it is a system call. */
static bool loop_is_idle(int loop_fd)
{
    struct pollfd look = {.fd = loop_fd, .events = POLLIN};
    return poll(&look, 1, 0) == 0;
}

static bool spin(struct cards *g, int loop_fd, uint64_t now_ns, uint64_t until_ns)
{
    enum { LOOK_NS = 2000 };
    for (uint64_t look_ns = now_ns; now_ns < until_ns; now_ns = clock_read_ns(g->options.clock)) {
        if (take_all(g, now_ns)) return true;
        if (now_ns < look_ns) continue;
        if (!loop_is_idle(loop_fd)) return false;
        look_ns = now_ns + LOOK_NS;
    }
    return false;
}

/* Completions that are watched for need not wake the loop. */
static void wake_all(struct cards *g)
{
    for (uint32_t i = 0; i < g->card_count; i++) {
        struct card *card = &g->cards[i];
        if (!card->asleep || !card->out || !card_is_ready(card)) continue;
        ring_wake(gpu_process_completions(card->process));
        card->asleep = false;
    }
}

/* Watches, or plans to be called again when it is time to. */
static bool watch(struct cards *g, int loop_fd)
{
    uint64_t now_ns = clock_read_ns(g->options.clock);
    if (g->wake_ns && !g->naps && now_ns >= g->wake_ns)
        foresight_slept(&g->sleep, g->wake_ns, now_ns);
    g->wake_ns = 0;
    if (!g->options.config->gpu_spin_us || !g->budget.percent) return false;
    struct foresight_plan plan = plan_all(g, now_ns);
    g->wake_ns = plan.wake_ns;
    g->naps = plan.early;
    if (plan.wake_ns) return false;
    uint64_t left_ns = foresight_budget_left(&g->budget, now_ns);
    if (plan.until_ns > now_ns + left_ns) plan.until_ns = now_ns + left_ns;
    if (now_ns >= plan.until_ns) return false;
    wake_all(g);
    bool came = spin(g, loop_fd, now_ns, plan.until_ns);
    uint64_t watched_ns = clock_read_ns(g->options.clock) - now_ns;
    foresight_budget_spend(&g->budget, watched_ns);
    if (!came) plan_all(g, now_ns + watched_ns); /* what is overdue now */
    return came;
}

/* Whoever is answered often asks again at once: the loop would hardly sleep, and wake with cold
 * caches. Where nothing came, more and more answers are not followed by a look. */
static void watch_for_next(struct cards *g, int loop_fd)
{
    enum { FOLLOW_UP_NS = 60000, MISSED_MAX = 6 };
    struct follow_up *f = &g->follow_up;
    uint64_t now_ns = clock_read_ns(g->options.clock), start_ns = now_ns;
    uint64_t most_ns = g->options.config->gpu_spin_us * UINT64_C(1000);
    uint64_t left_ns = foresight_budget_left(&g->budget, now_ns);
    f->answered = false;
    if (f->skips) {
        f->skips--;
        return;
    }
    if (most_ns > FOLLOW_UP_NS) most_ns = FOLLOW_UP_NS;
    if (most_ns > left_ns) most_ns = left_ns;
    if (!most_ns) return;
    bool came = false;
    while (!came && now_ns - start_ns < most_ns) {
        came = !loop_is_idle(loop_fd);
        now_ns = clock_read_ns(g->options.clock);
    }
    foresight_budget_spend(&g->budget, now_ns - start_ns);
    f->missed = came ? 0 : f->missed < MISSED_MAX ? f->missed + 1 : MISSED_MAX;
    f->skips = (1U << f->missed) - 1;
}

bool cards_watch(struct backend *b, int loop_fd)
{
    struct cards *g = (struct cards *)b;
    uint32_t out = 0;
    for (uint32_t i = 0; i < g->card_count; i++)
        if (card_is_ready(&g->cards[i])) out += g->cards[i].out;
    if (!out) g->wake_ns = 0;
    if (out && watch(g, loop_fd)) return true;
    bool came = false;
    for (uint32_t i = 0; i < g->card_count; i++) {
        struct card *card = &g->cards[i];
        if (card->asleep || !card_is_ready(card)) continue;
        card->asleep = ring_sleep(gpu_process_completions(card->process));
        if (!card->asleep) came |= card_take(card);
    }
    if (!out && !came && g->follow_up.answered) watch_for_next(g, loop_fd);
    return came;
}

uint64_t cards_wake_ns(const struct backend *b)
{
    uint64_t wake_ns = ((const struct cards *)b)->wake_ns;
    return wake_ns ? wake_ns : UINT64_MAX;
}

void cards_check(struct backend *b, uint64_t now_ns)
{
    struct cards *g = (struct cards *)b;
    take_all(g, now_ns); /* if this process stood still, the answers may have come meanwhile */
    for (uint32_t i = 0; i < g->card_count; i++) {
        card_check(&g->cards[i], now_ns);
        gpu_process_check(g->cards[i].process, now_ns);
    }
}
