/* The GPUs of a story: a host (cards/process_host.h) whose processes are the GPU process's own
 * server on the simulated device, stepped in the same thread. They start late or not at all, fail,
 * hang, slow down, die, and may stay when they are killed. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/cards/process_inside.h"
#include "daemon/gpu/server.h"
#include "tests/support/story.h"

#define MS      UINT64_C(1000000)
#define TURN_NS UINT64_C(3000)
#define NAP_NS  UINT64_C(20000)
#define BEAT_NS (50 * MS)

struct story_life {
    struct process_life life; /* first */
    struct story_card *card;
    struct gpu *server; /* NULL: not open yet, or no more */
    char settings[160];
    bool opened, exited, hung;
    int signal_number, code;
};

static struct story_card *card_of(const struct gpu_process *p)
{
    struct story *s = p->options.host_owner;
    return &s->cards[p->options.number];
}

/* ---------------------------------------------------------------- the end of a life */

static void exited(struct story *s, void *subject)
{
    struct story_life *l = subject;
    story_note(s, "card exited", (uint64_t)l->code, (uint64_t)l->signal_number);
    if (l->card->life == l) l->card->life = NULL;
    gpu_process_exited(&l->life, l->code, l->signal_number);
}

/* It runs no more; that becomes known after a while. */
static void end_process(struct story_life *l, int code, int signal_number, uint64_t after_ns)
{
    struct story *s = l->card->story;
    if (l->exited) return;
    l->exited = true;
    l->code = code;
    l->signal_number = signal_number;
    server_close(l->server);
    l->server = NULL;
    story_at(s, s->now_ns + story_about(s, after_ns), exited, l);
}

/* ---------------------------------------------------------------- turning */

static void turn(struct story *s, void *subject);

static void turn_at(struct story_card *c, uint64_t at_ns)
{
    if (c->turns && c->turn_ns <= at_ns) return;
    c->turns = true;
    c->turn_ns = at_ns;
    story_at(c->story, at_ns, turn, c);
}

static void turn(struct story *s, void *subject)
{
    struct story_card *c = subject;
    struct story_life *l = c->life;
    if (!c->turns || s->now_ns < c->turn_ns) return; /* it was put off, or brought forward */
    c->turns = false;
    if (!l || !l->server || l->hung) return;
    enum server_turn came = server_turn(l->server);
    if (came != SERVER_IDLE) story_note(s, "card turn", c->number, came);
    switch (came) {
    case SERVER_MOVED: turn_at(c, s->now_ns + story_about(s, TURN_NS)); break;
    case SERVER_WAITS: turn_at(c, s->now_ns + story_about(s, c->slow * NAP_NS)); break;
    case SERVER_IDLE: turn_at(c, s->now_ns + BEAT_NS); break;
    case SERVER_STOPPED: end_process(l, 0, 0, MS); return;
    case SERVER_BROKEN: end_process(l, 1, 0, MS); return;
    }
    if (came == SERVER_MOVED) gpu_process_woken(&l->life);
}

void story_cards_look(struct story *s)
{
    for (uint32_t i = 0; i < s->settings.cards; i++) {
        struct story_card *c = &s->cards[i];
        struct story_life *l = c->life;
        if (!l || !l->server || l->hung) continue;
        const struct ring_lines *orders = &l->life.share->order_lines;
        if (atomic_load(&orders->published) != atomic_load(&orders->released))
            turn_at(c, s->now_ns + story_about(s, c->slow * TURN_NS));
    }
}

/* ---------------------------------------------------------------- the beginning of a life */

static void open_server(struct story *s, void *subject)
{
    struct story_life *l = subject;
    struct story_card *c = l->card;
    if (l->exited) return;
    struct server_options options = {.ops = &device_sim,
                                     .clock = &s->clock,
                                     .device.which = l->settings,
                                     .share = l->life.share,
                                     .heap_fd = heap_read_fd(s->heap),
                                     .exchange_fd = heap_exchange_fd(s->heap),
                                     .orders_fd = l->life.orders_fd,
                                     .completions_fd = l->life.completions_fd,
                                     .lifeline_fd = -1,
                                     /* half of them watch for results, half ask events */
                                     .spin_us = story_chance(s, 500) ? 20 : 0,
                                     .streams = 4,
                                     .memory_percent = 75};
    struct failure f = {0};
    enum status st = server_open(&options, &l->server, &f);
    story_note(s, "card opens", c->number, st);
    struct share *share = l->life.share; /* it has more, so that nothing else fails for it */
    if (!st && s->settings.small_bytes)
        share->device.budget_bytes =
            atomic_load(&share->usage.slab_bytes) + s->settings.small_bytes;
    if (st)
        end_process(l, 1, 0, MS);
    else
        turn_at(c, s->now_ns);
}

/* What its device is like. */
static void choose_device(struct story *s, struct story_life *l)
{
    static const char *const kinds[] = {"error", "memory", "sticky", "absent"};
    static const char *const calls[] = {"@event_query", "@copy_in",      "@copy_out", "@topk",
                                        "@allocate",    "@event_record", "@direct",   "@cells",
                                        "@range_fork",  "@range_own",    "@spread",   ""};
    bool paced = story_chance(s, 500); /* kNN and spreads go in passes, between which writes come */
    int n = snprintf(l->settings, sizeof l->settings,
                     "vram_mib=%u latency_us=%u strict=0 vmm=%d multiply_adds=%u pass_sets=%u "
                     "shadow_rows=24",
                     s->settings.vram_mib, (unsigned)story_random(s, paced ? 4000 : 60),
                     story_chance(s, 700), paced ? 1 : 20000, (unsigned)story_random(s, 4));
    if (story_chance(s, s->settings.device_faults))
        snprintf(l->settings + n, sizeof l->settings - (size_t)n, " fail=%u%s:%s%s",
                 1 + (unsigned)story_random(s, 120), story_chance(s, 100) ? "+" : "",
                 kinds[story_random(s, 4)], calls[story_random(s, 12)]);
}

static int start(struct gpu_process *p, struct process_life **out)
{
    struct story_card *c = card_of(p);
    struct story *s = c->story;
    int fd;
    if (story_chance(s, s->settings.card_troubles / 4)) return -EAGAIN;
    struct story_life *l = calloc(1, sizeof *l);
    if (!l) abort();
    l->card = c;
    l->life.owner = p;
    if (share_create(heap_file_bytes(s->heap), ENGRAM_VERSION, &fd, &l->life.share)) {
        free(l);
        return -ENOMEM;
    }
    close(fd);
    snprintf(l->life.share->gpu_version, sizeof l->life.share->gpu_version, "%s", ENGRAM_VERSION);
    l->life.orders_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    l->life.completions_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    choose_device(s, l);
    c->life = l;
    c->slow = 1;
    story_note(s, "card starts", c->number, 0);
    story_at(s, s->now_ns + story_about(s, 2 * MS), open_server, l);
    *out = &l->life;
    return 0;
}

/* A few are in some call of their driver, and go only much later. */
static void kill_life(struct process_life *life)
{
    struct story_life *l = (struct story_life *)life;
    bool stays = story_chance(l->card->story, 50);
    story_note(l->card->story, "card killed", l->card->number, stays);
    end_process(l, 0, SIGKILL, stays ? 8000 * MS : MS);
}

static void end_life(struct process_life *life)
{
    close(life->orders_fd);
    close(life->completions_fd);
    if (!life->share_kept) share_unmap(life->share);
    free(life);
}

/* ---------------------------------------------------------------- time */

static void timed(struct story *s, void *subject)
{
    struct story_card *c = subject;
    if (!c->timer_set || s->now_ns < c->timer_ns) return;
    c->timer_set = c->timer_repeat_ns > 0;
    c->timer_ns = s->now_ns + c->timer_repeat_ns;
    if (c->timer_set) story_at(s, c->timer_ns, timed, c);
    gpu_process_timed(c->process);
}

static void set_timer(struct gpu_process *p, uint64_t ms, uint64_t repeat_ms)
{
    struct story_card *c = card_of(p);
    c->timer_set = true;
    c->timer_ns = c->story->now_ns + ms * MS;
    c->timer_repeat_ns = repeat_ms * MS;
    story_at(c->story, c->timer_ns, timed, c);
}

static void stop_timer(struct gpu_process *p)
{
    card_of(p)->timer_set = false;
}

static void begin(struct gpu_process *p)
{
    card_of(p)->process = p;
}

static void forget(struct gpu_process *p)
{
    card_of(p)->timer_set = false;
    free(p);
}

static void wait_for_it(struct gpu_process *p)
{
    story_step(p->options.host_owner);
}

static const struct process_host host = {
    .start = start,
    .kill = kill_life,
    .end = end_life,
    .set_timer = set_timer,
    .stop_timer = stop_timer,
    .begin = begin,
    .forget = forget,
    .wait = wait_for_it,
};

/* ---------------------------------------------------------------- what befalls them */

static void befall(struct story *s, void *subject)
{
    struct story_card *c = subject;
    struct story_life *l = c->life;
    if (s->over) return;
    story_at(s, s->now_ns + story_about(s, 20 * MS), befall, c);
    if (!l || !l->server || !story_chance(s, s->settings.card_troubles)) return;
    uint64_t what = story_random(s, 4);
    story_note(s, "card trouble", c->number, what);
    switch (what) {
    case 0: end_process(l, 0, SIGSEGV, MS); break;
    case 1: l->hung = true; break;
    case 2: c->slow = 40; break;
    case 3: c->slow = 4000; break;
    }
}

void story_cards_open(struct story *s)
{
    snprintf(s->config.gpu_devices, sizeof s->config.gpu_devices, "%s",
             s->settings.cards == 0   ? "none"
             : s->settings.cards == 1 ? "0"
                                      : "0,1");
    s->config.gpu_pairs_min = s->config.gpu_candidates_min = s->config.gpu_nodes_min = 1;
    s->config.speedup_percent = 100;
    s->config.probe_percent = 20;
    if (story_chance(s, 600))
        snprintf(s->config.gpu_force, sizeof s->config.gpu_force, "%s",
                 s->settings.many ? "both" : "gpu");
    struct cards_options options = {.config = &s->config,
                                    .heap = s->heap,
                                    .done = &s->done,
                                    .cpu = &s->cpu,
                                    .clock = &s->clock,
                                    .host = &host,
                                    .host_owner = s};
    for (uint32_t i = 0; i < s->settings.cards; i++) {
        s->cards[i] = (struct story_card){.story = s, .number = i, .slow = 1};
        story_at(s, s->now_ns + story_about(s, 20 * MS), befall, &s->cards[i]);
    }
    STORY_CHECK(s, !cards_create(&options, &s->gpu), "no memory for the cards");
}
