/* How completions are taken: in each turn of the loop, and watched for before it sleeps. */
#include <poll.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/cards/cards_inside.h"

static bool take_all(struct cards *g)
{
    bool came = false;
    for (uint32_t i = 0; i < g->card_count; i++)
        if (card_is_ready(&g->cards[i])) came |= card_take(&g->cards[i]);
    if (g->condemned) replicas_flush(g);
    return came;
}

void cards_poll(struct backend *b)
{
    take_all((struct cards *)b);
}

/* True if the loop has nothing to do; asked every 2 us or so, because it is a system call. */
static bool loop_is_idle(int loop_fd)
{
    struct pollfd look = {.fd = loop_fd, .events = POLLIN};
    return poll(&look, 1, 0) == 0;
}

static bool spin(struct cards *g, int loop_fd)
{
    enum { LOOK_NS = 2000 };
    uint64_t now_ns = clock_read_ns(g->options.clock);
    uint64_t until_ns = now_ns + g->options.config->gpu_spin_us * UINT64_C(1000);
    for (uint64_t look_ns = now_ns; now_ns < until_ns; now_ns = clock_read_ns(g->options.clock)) {
        if (take_all(g)) return true;
        if (now_ns < look_ns) continue;
        if (!loop_is_idle(loop_fd)) return false;
        look_ns = now_ns + LOOK_NS;
    }
    return false;
}

bool cards_watch(struct backend *b, int loop_fd)
{
    struct cards *g = (struct cards *)b;
    uint32_t out = 0;
    for (uint32_t i = 0; i < g->card_count; i++) {
        struct card *card = &g->cards[i];
        if (!card_is_ready(card)) continue;
        out += card->out;
        if (!card->asleep || !card->out) continue;
        ring_wake(gpu_process_completions(card->process));
        card->asleep = false;
    }
    if (out && spin(g, loop_fd)) return true;
    bool came = false;
    for (uint32_t i = 0; i < g->card_count; i++) {
        struct card *card = &g->cards[i];
        if (card->asleep || !card_is_ready(card)) continue;
        card->asleep = ring_sleep(gpu_process_completions(card->process));
        if (!card->asleep) came |= card_take(card);
    }
    return came;
}

void cards_check(struct backend *b, uint64_t now_ns)
{
    struct cards *g = (struct cards *)b;
    take_all(g); /* if this process stood still, the answers may have come meanwhile */
    for (uint32_t i = 0; i < g->card_count; i++) {
        card_check(&g->cards[i], now_ns);
        gpu_process_check(g->cards[i].process, now_ns);
    }
}
