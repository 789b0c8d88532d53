#include "tests/support/story.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/ops/hrr_plans.h"
#include "daemon/store/space.h"
#include "tests/support/story_calibrate.h"

#define BEGIN_NS UINT64_C(1000000000)
#define TURN_NS  UINT64_C(1000)
#define SWEEP_NS (SWEEP_MS * UINT64_C(1000000))
/* Longer than any deadline, timeout and backoff together: what is not answered by then is lost. */
#define PATIENCE_NS UINT64_C(400000000000)

/* ---------------------------------------------------------------- chance */

uint64_t story_random(struct story *s, uint64_t below)
{
    uint64_t z = (s->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

bool story_chance(struct story *s, uint32_t permille)
{
    return story_random(s, 1000) < permille;
}

uint64_t story_about(struct story *s, uint64_t ns)
{
    return ns / 10 + story_random(s, ns * 19 / 10 + 1);
}

/* ---------------------------------------------------------------- what happened */

void story_hash(struct story *s, const void *bytes, uint64_t count)
{
    s->hash = XXH3_64bits_withSeed(bytes, count, s->hash);
}

void story_note(struct story *s, const char *what, uint64_t a, uint64_t b)
{
    const uint64_t said[] = {s->now_ns, a, b, (uint64_t)what[0] << 8 | (uint8_t)what[1]};
    story_hash(s, said, sizeof said);
    if (s->settings.trace)
        fprintf(s->settings.trace, "%14llu %-12s %llu %llu\n", (unsigned long long)s->now_ns, what,
                (unsigned long long)a, (unsigned long long)b);
}

void story_fail(const struct story *s, const char *format, ...)
{
    char text[512], where[128] = "";
    const char *site = s->fault ? s->fault : fault_fired();
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (site) snprintf(where, sizeof where, ", fault %u (%s)", s->settings.fault_nth, site);
    fflush(stdout);
    fprintf(stderr, "seed %llu: at %llu ns%s: %s\n", (unsigned long long)s->settings.seed,
            (unsigned long long)s->now_ns, where, text);
    if (s->settings.trace) fflush(s->settings.trace);
    abort();
}

/* ---------------------------------------------------------------- events */

static bool is_sooner(const struct story_event *a, const struct story_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

void story_at(struct story *s, uint64_t at_ns, void (*happen)(struct story *s, void *subject),
              void *subject)
{
    if (s->event_count == s->event_room) {
        s->event_room = s->event_room ? 2 * s->event_room : 256;
        s->events = realloc(s->events, s->event_room * sizeof *s->events);
        if (!s->events) abort();
    }
    struct story_event e = {at_ns, s->event_number++, happen, subject};
    uint32_t at = s->event_count++;
    for (uint32_t up; at && is_sooner(&e, &s->events[up = (at - 1) / 2]); at = up)
        s->events[at] = s->events[up];
    s->events[at] = e;
}

static struct story_event pop(struct story *s)
{
    struct story_event first = s->events[0], last = s->events[--s->event_count];
    uint32_t at = 0;
    for (uint32_t down; (down = 2 * at + 1) < s->event_count; at = down) {
        if (down + 1 < s->event_count && is_sooner(&s->events[down + 1], &s->events[down])) down++;
        if (!is_sooner(&s->events[down], &last)) break;
        s->events[at] = s->events[down];
    }
    if (s->event_count) s->events[at] = last;
    return first;
}

/* ---------------------------------------------------------------- the daemon */

static uint64_t now(void *owner)
{
    return ((struct story *)owner)->now_ns;
}

static void nobody(void *owner) {}

/* What the pipeline is told, the model hears as well. */
static void on_frame(void *owner, struct connection *c, const struct frame *f)
{
    struct story *s = owner;
    struct story_request *r = story_request_of(s, c->id, f->header->request_id);
    if (r) story_admitting(s, r);
    s->behind.on_frame(s->behind.owner, c, f);
    if (r) story_admitted(s, r);
}

static void on_bad_frame(void *owner, struct connection *c, const struct frame_header *h,
                         const struct failure *why)
{
    struct story *s = owner;
    struct story_request *r = story_request_of(s, c->id, h->request_id);
    if (r) story_admitting(s, r); /* its body found no memory */
    s->behind.on_bad_frame(s->behind.owner, c, h, why);
}

static void on_close(void *owner, struct connection *c)
{
    struct story *s = owner;
    s->behind.on_close(s->behind.owner, c);
}

static void on_written(void *owner, struct job *j)
{
    struct story *s = owner;
    s->behind.on_written(s->behind.owner, j);
}

static bool on_idle_peer(void *owner, struct peer *peer)
{
    struct story *s = owner;
    return s->behind.on_idle_peer(s->behind.owner, peer);
}

static void build(struct story *s)
{
    const struct vector_kernels *kernels = vectors_choose("auto");
    bool well = !heap_create(s->settings.memory_mib << 20, &s->heap) &&
                !store_create(s->heap, kernels, &s->store);
    STORY_CHECK(s, well, "no memory for the daemon");
    heap_limit_cache(s->heap, s->config.cache_mib_max << 20);
    heap_reserve(s->heap, (s->settings.memory_mib << 20) / 16, RECEIVE_BYTES);
    store_limit_collections(s->store, s->config.collection_max);
    s->done.wake = nobody;
    story_cpu_open(s);
    story_cards_open(s);
    struct pipeline_options options = {.config = &s->config,
                                       .clock = &s->clock,
                                       .heap = s->heap,
                                       .store = s->store,
                                       .net = &s->net,
                                       .kernels = kernels,
                                       .done = &s->done,
                                       .cpu = &s->cpu,
                                       .gpu = s->gpu,
                                       .worker_count = s->settings.workers,
                                       .instance = s->settings.seed};
    STORY_CHECK(s, !pipeline_create(&options, &s->pipeline), "no memory for the pipeline");
    story_calibrate_open(s, kernels);
    s->behind = pipeline_net_events(s->pipeline);
    struct net_events events = {.owner = s,
                                .on_frame = on_frame,
                                .on_bad_frame = on_bad_frame,
                                .on_close = on_close,
                                .on_written = on_written,
                                .on_idle_peer = on_idle_peer};
    STORY_CHECK(s, !net_init(&s->net, NULL, &s->clock, s->heap, &s->config, &events),
                "no memory for net");
    if (s->settings.ration) s->net.ration_bytes = s->settings.ration;
}

struct story *story_open(const struct story_settings *settings)
{
    struct story *s = calloc(1, sizeof *s);
    if (!s) abort();
    s->settings = *settings;
    s->random = settings->seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
    s->now_ns = s->swept_ns = BEGIN_NS;
    s->clock = (struct clock){now, s};
    log_set_level_name("error");
    story_settings_open(s);
    build(s);
    hrr_plans_finish(); /* what an earlier story left would save this one steps */
    story_model_open(s);
    story_clients_open(s);
    story_reload_now_and_then(s);
    return s;
}

/* ---------------------------------------------------------------- running */

/* What the engine does each time that its loop turns. */
static void turn(struct story *s)
{
    net_turn(&s->net);
    do {
        pipeline_tick(s->pipeline);
        net_flush(&s->net);
    } while (pipeline_has_arrivals(s->pipeline));
    story_cards_look(s);
}

static void keep_house(struct story *s)
{
    s->swept_ns = s->now_ns;
    pipeline_expire(s->pipeline, s->now_ns);
    cards_check(s->gpu, s->now_ns);
    net_sweep(&s->net);
    story_calibrate_check(s);
}

void story_step(struct story *s)
{
    uint64_t wake_ns = pipeline_wake_ns(s->pipeline), sweep_ns = s->swept_ns + SWEEP_NS;
    uint64_t event_ns = s->event_count ? s->events[0].at_ns : UINT64_MAX;
    uint64_t first_ns = event_ns < wake_ns ? event_ns : wake_ns;
    if (sweep_ns < first_ns) first_ns = sweep_ns;
    uint64_t behind_ns = net_wake_ns(&s->net);
    if (behind_ns < s->now_ns + TURN_NS) behind_ns = s->now_ns + TURN_NS;
    if (behind_ns < first_ns) {
        story_note(s, "behind", 0, 0);
        s->now_ns = behind_ns;
        turn(s);
        return;
    }
    if (first_ns > s->now_ns) s->now_ns = first_ns;
    if (first_ns == event_ns) {
        struct story_event e = pop(s);
        e.happen(s, e.subject);
    } else if (first_ns == sweep_ns) {
        keep_house(s);
    } else {
        story_note(s, "wake", 0, 0);
    }
    if (story_chance(s, s->settings.scribbles)) story_scribble(s);
    turn(s);
}

static bool is_over(const struct story *s)
{
    if (s->sent < s->settings.requests) return false;
    if (s->settings.abrupt) return true;
    for (uint32_t i = 0; i < s->settings.clients; i++)
        if (s->clients[i].open) return false;
    return true;
}

void story_run(struct story *s)
{
    uint64_t answered = s->answered + s->vanished, since_ns = s->now_ns;
    fault_arm(s->settings.fault_nth);
    while (!is_over(s)) {
        story_step(s);
        if (s->answered + s->vanished != answered) {
            answered = s->answered + s->vanished;
            since_ns = s->now_ns;
        }
        STORY_CHECK(s, s->now_ns - since_ns < PATIENCE_NS, "a request is never answered");
    }
    s->fault = fault_fired();
}

/* VRAM of spaces in which nothing is left. */
static uint64_t vram_of_none(struct story *s)
{
    uint64_t bytes = 0;
    for (struct space *of = store_space_next(s->store, NULL); of;
         of = store_space_next(s->store, of))
        if (!of->collection_count && !of->graph_count && !of->attractor_count)
            bytes += replicas_space_bytes(s->gpu, of);
    return bytes;
}

/* What can be dropped goes, and what the cards had of it. */
static void drop_all(struct story *s)
{
    uint64_t until_ns = s->now_ns + PATIENCE_NS;
    bool asked = false, open = true;
    for (uint32_t i = 0; i < s->settings.clients; i++) {
        struct story_client *c = &s->clients[i];
        if (!c->connection || c->closing || !c->greeted) continue;
        story_ask_drops(c);
        asked = true;
    }
    while (asked && (open || vram_of_none(s))) {
        STORY_CHECK(s, s->now_ns < until_ns, "%llu bytes of VRAM hold what is gone",
                    (unsigned long long)vram_of_none(s));
        story_step(s);
        open = false;
        for (uint32_t i = 0; i < s->settings.clients; i++)
            open |= s->clients[i].open > 0;
    }
}

/* Every answer was given, and everybody leaves. */
static void end_quietly(struct story *s)
{
    drop_all(s);
    for (uint32_t i = 0; i < s->settings.clients; i++)
        story_vanish(&s->clients[i]);
    uint64_t until_ns = s->now_ns + PATIENCE_NS;
    for (uint32_t jobs; (jobs = pipeline_count(s->pipeline).jobs) || s->net.counters.open;) {
        STORY_CHECK(s, s->now_ns < until_ns, "%u connections and %u jobs are left",
                    s->net.counters.open, jobs);
        story_step(s);
    }
}

/* As the engine stops, in the middle of everything or not. */
static void stop(struct story *s)
{
    uint64_t until_ns = s->now_ns + PATIENCE_NS;
    story_calibrate_stop(s);
    pipeline_drain(s->pipeline);
    for (uint32_t i = 0; i < s->settings.clients; i++)
        s->clients[i].leaving = true;
    net_close(&s->net);
    cards_begin_stop(s->gpu);
    while (pipeline_count(s->pipeline).stopping || s->net.counters.open) {
        STORY_CHECK(s, s->now_ns < until_ns, "the daemon does not stop");
        story_step(s);
    }
    cards_stop(s->gpu);
    while (story_cpu_jobs(s))
        story_step(s);
    pipeline_abandon(s->pipeline);
    story_calibrate_close(s);
    s->gpu->ops->destroy(s->gpu);
    STORY_CHECK(s, !pipeline_count(s->pipeline).jobs, "jobs are left");
}

uint64_t story_close(struct story *s)
{
    s->over = true;
    fault_arm(0);
    if (!s->settings.abrupt) end_quietly(s);
    stop(s);
    net_finish(&s->net);
    pipeline_destroy(s->pipeline);
    store_destroy(s->store);
    struct heap_usage usage = heap_usage(s->heap);
    STORY_CHECK(s, !usage.blocks && !usage.bytes_used, "%llu blocks were not given back",
                (unsigned long long)usage.blocks);
    heap_destroy(s->heap);
    uint64_t hash = s->hash;
    story_model_close(s);
    if (s->twin_space) store_space_release(s->twins, s->twin_space);
    store_destroy(s->twins);
    heap_destroy(s->twin_heap);
    for (uint32_t i = 0; i < STORY_CLIENTS_MAX; i++) {
        free(s->clients[i].out);
        free(s->clients[i].in);
    }
    free(s->events);
    free(s);
    return hash;
}
