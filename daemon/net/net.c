#include "daemon/net/net.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/net/connection.h"
#include "daemon/net/listener.h"
#include "daemon/net/ration.h"

static void give_up_greeting(struct connection *c)
{
    struct failure f;
    if (c->waits_in == &c->peer->strangers) {
        failure_set(&f, STATUS_RESOURCE_EXHAUSTED, DETAIL_BAD_TOKEN,
                    "too many wrong tokens came from here (auth.token_file): the next one waits");
        f.retry_after_ms = RETRY_GUESS_MS;
    } else {
        failure_set(&f, STATUS_DEADLINE_EXCEEDED, DETAIL_HELLO_REQUIRED,
                    "no Hello in time (limits.handshake_ms)");
    }
    connection_give_up(c, &f);
}

static void give_up_frame(struct connection *c)
{
    struct failure f;
    failure_set(&f, STATUS_DEADLINE_EXCEEDED, DETAIL_DEADLINE,
                "half a request and no more (limits.stall_ms)");
    connection_give_up(c, &f);
}

/* Drops a connection that is past one of its time limits; else frees what it does not need. */
static void watch(struct connection *c, uint64_t now_ns)
{
    const struct config *cfg = c->net->config;
    if (c->finishing) {
        uint64_t linger_ns = (uint64_t)CONNECTION_LINGER_MS * 1000000;
        if (now_ns - c->finishing_ns > linger_ns) connection_close(c);
    } else if (!c->greeted && now_ns - c->opened_ns > net_allowance_ns(cfg->handshake_ms_max)) {
        give_up_greeting(c);
    } else if (receive_stalled(c, now_ns)) {
        give_up_frame(c);
    } else if (output_stalled(c, now_ns)) {
        connection_drop(c, "it does not read its replies (limits.stall_ms)");
    } else if (output_excessive(c)) {
        connection_drop(c, "too much unread output (limits.output_mib)");
    } else if (c->net->draining && !c->in_flight && !c->output_head) {
        connection_close(c);
    } else {
        receive_relax(c);
        output_relax(c);
        if (c->paused) connection_wake(c);
    }
}

static void begin_later(uint64_t *since_ns, uint64_t by_ns)
{
    if (*since_ns) *since_ns += by_ns;
}

/* What a client takes too long for began that much later. */
static void forgive(struct connection *c, uint64_t lost_ns)
{
    c->opened_ns += lost_ns;
    begin_later(&c->frame_started_ns, lost_ns);
    begin_later(&c->finishing_ns, lost_ns);
    begin_later(&c->waiting_ns, lost_ns);
    begin_later(&c->waits_since_ns, lost_ns);
    begin_later(&c->output_progress_ns, lost_ns);
}

static void forgive_standstill(struct net *n, uint64_t now_ns)
{
    uint64_t lost_ns = now_ns - n->now_ns;
    if (now_ns < n->now_ns || lost_ns <= (uint64_t)STANDSTILL_MS * 1000000) return;
    for (uint32_t i = 0; i < n->config->connection_max; i++)
        if (n->slots[i]) forgive(n->slots[i], lost_ns);
}

void net_pace(uv_timer_t *timer, bool quiet)
{
    uint64_t repeat_ms = quiet ? SWEEP_QUIET_MS : SWEEP_MS;
    if (repeat_ms == uv_timer_get_repeat(timer)) return;
    uv_timer_set_repeat(timer, repeat_ms);
    uv_timer_again(timer); /* libuv has set the next turn by the old one */
}

void net_sweep(struct net *n)
{
    uint64_t now_ns = clock_read_ns(n->clock);
    forgive_standstill(n, now_ns);
    n->now_ns = now_ns;
    for (uint32_t i = 0; i < n->config->connection_max; i++)
        if (n->slots[i] && !n->slots[i]->closing) watch(n->slots[i], now_ns);
    for (struct listener *l = n->listeners; l; l = l->next)
        listener_retry(l);
    peers_sweep(&n->peers, n->events.on_idle_peer, n->events.owner, now_ns);
}

enum status net_init(struct net *n, uv_loop_t *loop, const struct clock *clock, struct heap *heap,
                     const struct config *config, const struct net_events *events)
{
    *n = (struct net){.loop = loop, .clock = clock, .config = config, .events = *events};
    body_pool_init(&n->bodies, heap);
    peers_init(&n->peers);
    uint32_t max = config->connection_max;
    bool fail = fault_here("net: tables");
    n->slots = fail ? NULL : calloc(max, sizeof *n->slots);
    n->generations = fail ? NULL : calloc(max, sizeof *n->generations);
    n->free_slots = fail ? NULL : calloc(max, sizeof *n->free_slots);
    if (!n->slots || !n->generations || !n->free_slots) return STATUS_RESOURCE_EXHAUSTED;
    for (uint32_t i = 0; i < max; i++) {
        n->generations[i] = 1;
        n->free_slots[i] = max - 1 - i;
    }
    n->free_count = max;
    n->now_ns = clock_read_ns(clock);
    n->ration_bytes = RATION_BYTES;
    ration_begin(n);
    return STATUS_OK;
}

static bool has_listener(const struct net *n, bool tcp)
{
    for (const struct listener *l = n->listeners; l; l = l->next)
        if (l->is_tcp == tcp) return true;
    return false;
}

enum status net_listen(struct net *n, int inherited_fd, struct failure *f)
{
    const struct config *cfg = n->config;
    bool has_unix = has_listener(n, false), has_tcp = has_listener(n, true);
    enum status st = STATUS_OK;
    if (inherited_fd >= 0)
        st = listener_open_inherited(n, inherited_fd, f);
    else if (cfg->socket_path[0] && !has_unix)
        st = listener_open_unix(n, cfg->socket_path, cfg->socket_mode, f);
    if (!st && cfg->tcp_enabled && !has_tcp)
        st = listener_open_tcp(n, cfg->tcp_host, cfg->tcp_port, f);
    return st;
}

/* Whether the config wants just this one. */
static bool is_wanted(const struct config *c, const struct handed_listener *l)
{
    switch (l->kind) {
    case HANDED_NONE: return false;
    case HANDED_UNIX: return strcmp(c->socket_path, l->file.path) == 0;
    case HANDED_INHERITED: return true;
    case HANDED_TCP:
        return c->tcp_enabled && strcmp(c->tcp_host, l->host) == 0 && c->tcp_port == l->port;
    }
    return false;
}

enum status net_listen_handed(struct net *n, struct handed_listeners *from, struct failure *f)
{
    enum status st = STATUS_OK;
    for (uint32_t i = 0; i < from->count && !st; i++)
        if (is_wanted(n->config, &from->all[i])) st = listener_open_handed(n, &from->all[i], f);
    return st;
}

void net_leave_handed(struct net *n)
{
    for (struct listener *l = n->listeners; l; l = l->next)
        listener_leave(l);
}

void net_hand_listeners(struct net *n, struct handed_listeners *out)
{
    for (struct listener *l = n->listeners; l && out->count < HANDED_LISTENERS_MAX; l = l->next)
        if (listener_hand(l, &out->all[out->count])) out->count++;
}

uint16_t net_tcp_port(const struct net *n)
{
    for (const struct listener *l = n->listeners; l; l = l->next)
        if (l->is_tcp) return l->port;
    return 0;
}

void net_turn(struct net *n)
{
    ration_begin(n);
    if (n->accepts_wait) {
        n->accepts_wait = false;
        for (struct listener *l = n->listeners; l; l = l->next)
            listener_retry(l);
    }
    for (struct connection *c; (c = ration_call(n));) {
        if (c->finishing)
            receive_start(c);
        else
            receive_parse(c);
    }
}

uint64_t net_wake_ns(const struct net *n)
{
    return n->accepts_wait ? 0 : ration_wake_ns(n);
}

void net_flush(struct net *n)
{
    while (n->dirty) {
        struct connection *c = n->dirty;
        n->dirty = c->dirty_next;
        c->is_dirty = false;
        output_flush(c);
        if (!c->closing && !c->finishing && c->paused && receive_allowed(c)) receive_parse(c);
        if (!c->closing && n->draining && !c->in_flight && !c->output_head) connection_close(c);
    }
}

void net_memory_freed(struct net *n)
{
    for (struct connection *c = n->oldest_body; c; c = c->body_next)
        if (c->paused) connection_wake(c);
}

struct connection *net_find(struct net *n, uint64_t id)
{
    uint32_t slot = (uint32_t)id;
    if (slot >= n->config->connection_max) return NULL;
    struct connection *c = n->slots[slot];
    return c && c->id == id && !c->closing ? c : NULL;
}

static void close_listeners(struct net *n)
{
    while (n->listeners) {
        struct listener *l = n->listeners;
        n->listeners = l->next;
        listener_close(l);
    }
}

void net_drain(struct net *n)
{
    n->draining = true;
    close_listeners(n);
    for (uint32_t i = 0; i < n->config->connection_max; i++)
        if (n->slots[i]) connection_wake(n->slots[i]);
}

void net_close(struct net *n)
{
    close_listeners(n);
    if (n->slots)
        for (uint32_t i = 0; i < n->config->connection_max; i++)
            if (n->slots[i]) connection_close(n->slots[i]);
}

void net_finish(struct net *n)
{
    assert(n->counters.open == 0);
    output_finish_pool(n);
    body_pool_finish(&n->bodies);
    peers_finish(&n->peers);
    free(n->slots);
    free(n->generations);
    free(n->free_slots);
}
