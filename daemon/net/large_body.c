#include "daemon/net/large_body.h"

#include <stdio.h>
#include <string.h>

enum {
    STEP_BYTES = 131072,   /* as much is taken ahead of what came, at least */
    STEP_PART = 4,         /* and this part of what came: large bodies grow in larger steps */
    ROUNDING_BYTES = 4096, /* what the heap adds at most */
};

/* ---------------------------------------------------------------- rank */

static void list_add(struct connection *c)
{
    struct net *n = c->net;
    c->body_next = NULL;
    c->body_previous = n->newest_body;
    if (n->newest_body)
        n->newest_body->body_next = c;
    else
        n->oldest_body = c;
    n->newest_body = c;
}

static void list_remove(struct connection *c)
{
    struct net *n = c->net;
    if (n->oldest_body != c && !c->body_previous) return; /* it is not there */
    if (c->body_previous)
        c->body_previous->body_next = c->body_next;
    else
        n->oldest_body = c->body_next;
    if (c->body_next)
        c->body_next->body_previous = c->body_previous;
    else
        n->newest_body = c->body_previous;
    c->body_next = c->body_previous = NULL;
}

/* True if no older body of c's peer is being received. */
static bool is_first(const struct connection *c)
{
    for (const struct connection *o = c->body_previous; o; o = o->body_previous)
        if (o->peer == c->peer) return false;
    return true;
}

/* What each peer that sends bodies could have if they shared what there is for bodies: what they
 * have and what is free. */
static uint64_t share_of_peers(struct net *n)
{
    uint64_t bytes = heap_room_bytes(n->bodies.heap), peers = 0, round = ++n->body_round;
    for (struct connection *o = n->oldest_body; o; o = o->body_next) {
        if (o->direct) bytes += o->direct->counted;
        o->body_is_other = o->peer->body_round == round; /* its peer was met before */
        o->peer->body_round = round;
        peers += !o->body_is_other;
    }
    return peers ? bytes / peers : bytes;
}

/* True if c's body, its peer's first, is no larger than its share. Together such bodies fit. */
static bool is_sure(const struct connection *c, uint64_t share)
{
    return c->header.body_bytes + ROUNDING_BYTES <= share;
}

/* Returns the body of the lowest rank, if that is lower than c's: the newest one that is not its
 * peer's first, or else the newest first that is larger than a peer's share: newer than c, unless
 * c is not larger than that. */
static struct connection *lowest_below(const struct connection *c)
{
    struct connection *lowest = NULL;
    uint64_t share = share_of_peers(c->net);
    bool first = is_first(c), sure = first && is_sure(c, share), newer = false;
    for (struct connection *o = c->net->oldest_body; o; o = o->body_next) {
        if (o == c) {
            newer = true;
            continue;
        }
        bool below =
            o->body_is_other ? first || newer : first && !is_sure(o, share) && (sure || newer);
        if (below && (o->body_is_other || !lowest || !lowest->body_is_other)) lowest = o;
    }
    return lowest;
}

/* ---------------------------------------------------------------- refusing */

static uint64_t peer_bytes_max(const struct net *n)
{
    uint64_t mib = n->config->peers.body_mib;
    return mib ? mib << 20 : heap_usage(n->bodies.heap).bytes_max / 2;
}

/* True if c's peer may have so many bytes more. One body is always taken. */
static bool peer_may_have(const struct connection *c, uint64_t more)
{
    uint64_t most = peer_bytes_max(c->net), bytes = c->peer->body_bytes;
    return !bytes || (bytes <= most && more <= most - bytes) || (c->direct && is_first(c));
}

/* Says why c's body has no memory: a take failed with st; STATUS_ABORTED: its peer has too much. */
static void say_why(const struct connection *c, enum status st, struct failure *f)
{
    char what[48];
    snprintf(what, sizeof what, "a body of %llu bytes", (unsigned long long)c->header.body_bytes);
    if (st == STATUS_ABORTED)
        failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUOTA,
                    "no memory for %s: the peer has %llu bytes of bodies, and may have %llu "
                    "(peers.body_mib)",
                    what, (unsigned long long)c->peer->body_bytes,
                    (unsigned long long)peer_bytes_max(c->net));
    else
        heap_refuse(c->net->bodies.heap, st, c->owner, what, f);
    f->retry_after_ms = RETRY_MEMORY_MS;
}

/* Refuses c's body, whether it has begun or not. */
static void refuse(struct connection *c, enum status st)
{
    struct failure f;
    c->peer->refused_bodies++;
    say_why(c, st, &f);
    c->discard = c->header.body_bytes - c->direct_filled;
    c->begin = c->end =
        (uint32_t)frame_align(c->end); /* where frames begin, also after some of it */
    c->has_header = false;
    body_drop(large_body_end(c));
    connection_refuse_frame(c, &c->header, &f);
    if (c->paused) connection_wake(c); /* what is to be ignored has to be read */
}

/* Takes the memory of a body of lower rank. False: there is none. */
static bool take_from_lower(struct connection *c)
{
    struct connection *lowest = lowest_below(c);
    if (!lowest) return false;
    refuse(lowest, STATUS_RESOURCE_EXHAUSTED);
    return true;
}

/* ---------------------------------------------------------------- receiving */

/* How many bytes of the body should be taken when so many have come. */
static uint64_t wanted(const struct connection *c)
{
    uint64_t came = c->direct_filled, part = came / STEP_PART;
    uint64_t most = came + STEP_BYTES + (part > STEP_BYTES ? part : STEP_BYTES);
    return most < c->header.body_bytes ? most : c->header.body_bytes;
}

/* What cannot be taken as things are is refused before it comes. */
static enum status may_begin(struct connection *c)
{
    uint64_t bytes = c->header.body_bytes;
    if (!peer_may_have(c, bytes)) return STATUS_ABORTED;
    enum status st = heap_fits(c->net->bodies.heap, bytes, c->owner);
    return st == STATUS_RESOURCE_EXHAUSTED && lowest_below(c) ? STATUS_OK : st;
}

bool large_body_begin(struct connection *c, const void *data, uint32_t have)
{
    struct body *b = NULL;
    c->direct_filled = have;
    list_add(c);
    enum status st = may_begin(c);
    while (!st && !b) {
        st = body_begin(&c->net->bodies, c->header.body_bytes, wanted(c), c->owner, &b);
        if (st == STATUS_RESOURCE_EXHAUSTED && take_from_lower(c)) st = STATUS_OK;
    }
    c->direct = b;
    if (st) {
        refuse(c, st);
        return false;
    }
    body_count(b, c->peer, wanted(c));
    memcpy(b->block.data, data, have);
    return true;
}

uv_buf_t large_body_room(const struct connection *c)
{
    /* One read of a client that goes on sending would last as long as there is room; libuv makes
     * up to 32 of them before it looks at others. */
    enum { READ_BYTES = 128 << 10 };
    uint64_t left = c->direct->counted - c->direct_filled;
    return uv_buf_init((char *)c->direct->block.data + c->direct_filled,
                       left < READ_BYTES ? left : READ_BYTES);
}

void large_body_came(struct connection *c, uint64_t bytes)
{
    c->direct_filled += bytes;
}

/* Takes memory for the first `bytes` of c's body; from lower ones only if it has none left. */
static enum status grow_to(struct connection *c, uint64_t bytes, bool has_room)
{
    struct body *b = c->direct;
    if (!peer_may_have(c, bytes - b->counted)) return STATUS_ABORTED;
    enum status st;
    do {
        st = body_grow(b, bytes);
    } while (st == STATUS_RESOURCE_EXHAUSTED && !has_room && take_from_lower(c));
    if (!st) body_count(b, c->peer, bytes);
    return st;
}

/* True if c has waited for memory as long as a client may. */
static bool has_waited(struct connection *c)
{
    const struct net *n = c->net;
    if (!c->waiting_ns) c->waiting_ns = n->now_ns;
    return n->now_ns - c->waiting_ns > net_allowance_ns(n->config->stall_ms_max);
}

bool large_body_grow(struct connection *c)
{
    const struct body *b = c->direct;
    bool has_room = c->direct_filled < b->counted;
    if (b->counted == c->header.body_bytes || b->counted - c->direct_filled >= STEP_BYTES)
        return true;
    enum status st = grow_to(c, wanted(c), has_room);
    if (st && has_room) return true; /* tried again when that is filled */
    if (st == STATUS_PERMISSION_DENIED || (st && has_waited(c))) refuse(c, st);
    if (!st) c->waiting_ns = 0;
    return !st;
}

bool large_body_is_whole(const struct connection *c)
{
    return c->direct_filled == c->header.body_bytes;
}

struct body *large_body_end(struct connection *c)
{
    struct body *b = c->direct;
    c->direct = NULL;
    c->waiting_ns = 0;
    list_remove(c);
    return b;
}
