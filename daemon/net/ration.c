#include "daemon/net/ration.h"

#include "daemon/base/clock.h"

/* ---------------------------------------------------------------- the line of peers */

static void line_append(struct net *n, struct peer *p)
{
    p->is_behind = true;
    p->behind_next = NULL;
    p->behind_previous = n->last_behind;
    if (n->last_behind)
        n->last_behind->behind_next = p;
    else
        n->first_behind = p;
    n->last_behind = p;
    n->behind_count++;
}

static void line_remove(struct net *n, struct peer *p)
{
    p->is_behind = false;
    if (p->behind_previous)
        p->behind_previous->behind_next = p->behind_next;
    else
        n->first_behind = p->behind_next;
    if (p->behind_next)
        p->behind_next->behind_previous = p->behind_previous;
    else
        n->last_behind = p->behind_previous;
    p->behind_next = p->behind_previous = NULL;
    n->behind_count--;
}

/* ---------------------------------------------------------------- wrong tokens */

void ration_guessed(struct connection *c)
{
    struct peer *p = c->peer;
    uint64_t now_ns = clock_read_ns(c->net->clock);
    if (p->guesses_until_ns < now_ns) p->guesses_until_ns = now_ns;
    p->guesses_until_ns += RATION_GUESS_NS;
    if (p->stranger_ns < now_ns + RATION_GUESS_NS) p->stranger_ns = now_ns + RATION_GUESS_NS;
}

/* True if c's Hello must wait, since its peer has said so many wrong tokens. */
static bool is_stranger(const struct connection *c)
{
    uint64_t until_ns = c->peer->guesses_until_ns;
    if (c->greeted || c->finishing || !until_ns) return false;
    return until_ns > clock_read_ns(c->net->clock) + (RATION_GUESSES - 1) * RATION_GUESS_NS;
}

/* ---------------------------------------------------------------- a peer's connections */

static void append(struct waiting *w, struct connection *c)
{
    c->waits_in = w;
    c->ration_next = NULL;
    c->ration_previous = w->last;
    if (w->last)
        w->last->ration_next = c;
    else
        w->first = c;
    w->last = c;
}

static void take_out(struct connection *c)
{
    struct waiting *w = c->waits_in;
    c->waits_in = NULL;
    if (c->ration_previous)
        c->ration_previous->ration_next = c->ration_next;
    else
        w->first = c->ration_next;
    if (c->ration_next)
        c->ration_next->ration_previous = c->ration_previous;
    else
        w->last = c->ration_previous;
    c->ration_next = c->ration_previous = NULL;
}

/* Which of its peer's lines c joins. */
static struct waiting *line_of(const struct connection *c)
{
    struct peer *p = c->peer;
    if (is_stranger(c)) return &p->strangers;
    return c->was_refused && p->stands_aside ? &p->refused : &p->waiting;
}

void ration_wait(struct connection *c)
{
    struct peer *p = c->peer;
    if (c->waits_in) return;
    receive_stop(c);
    c->waits_since_ns = c->net->now_ns;
    append(line_of(c), c);
    if (!p->is_behind) line_append(c->net, p);
}

void ration_leave(struct connection *c)
{
    struct peer *p = c->peer;
    if (!c->waits_in) return;
    take_out(c);
    if (!p->waiting.first && !p->refused.first && !p->strangers.first) line_remove(c->net, p);
}

/* ---------------------------------------------------------------- refusals */

void ration_took(struct connection *c, bool taken)
{
    struct peer *p = c->peer;
    c->was_refused = !taken;
    if (taken) return;
    uint64_t now_ns = clock_read_ns(c->net->clock);
    if (p->refusals_until_ns < now_ns) p->refusals_until_ns = now_ns;
    p->refusals_until_ns += RATION_REFUSAL_NS;
    if (p->refusals_until_ns > now_ns + RATION_CREDIT_NS) p->stands_aside = true;
}

/* When p's refusals are paid for again, if they are not. */
static uint64_t paid_ns(const struct peer *p)
{
    return p->refusals_until_ns - (RATION_CREDIT_NS - RATION_PAUSE_NS);
}

/* When the first of p's strangers, which waited for wrong tokens to be paid, is to be called. */
static uint64_t due_ns(const struct peer *p)
{
    uint64_t paid_ns = p->guesses_until_ns - (RATION_GUESSES - 1) * RATION_GUESS_NS;
    return paid_ns < p->stranger_ns ? paid_ns : p->stranger_ns;
}

/* The connection of p that is to be called next. NULL: none in this turn. */
static struct connection *next_of(struct peer *p, uint64_t now_ns)
{
    if (p->strangers.first && now_ns >= due_ns(p)) return p->strangers.first;
    if (p->stands_aside && now_ns >= paid_ns(p)) p->stands_aside = false;
    return p->refused.first && !p->stands_aside ? p->refused.first : p->waiting.first;
}

uint64_t ration_wake_ns(const struct net *n)
{
    uint64_t wake_ns = UINT64_MAX;
    for (const struct peer *p = n->first_behind; p; p = p->behind_next) {
        if (p->waiting.first || (p->refused.first && !p->stands_aside)) return 0;
        if (p->refused.first && paid_ns(p) < wake_ns) wake_ns = paid_ns(p);
        if (p->strangers.first && due_ns(p) < wake_ns) wake_ns = due_ns(p);
    }
    return wake_ns;
}

/* ---------------------------------------------------------------- a turn */

void ration_begin(struct net *n)
{
    n->turn++;
    if (n->first_behind) n->turn_ns = clock_read_ns(n->clock);
    n->ration_left = n->ration_bytes;
    n->accepted = 0;
}

/* What a connection may send before the next one of its peer is called. */
static uint32_t go_of(const struct net *n)
{
    return n->ration_bytes / RATION_GOES;
}

/* What each peer has in this turn if the ones in line share with `others` more. */
static uint32_t share_of(const struct net *n, uint32_t others)
{
    uint32_t count = n->behind_count + others;
    uint32_t share = n->ration_bytes / (count ? count : 1);
    return share > go_of(n) ? share : go_of(n);
}

static void give(struct peer *p, uint64_t turn, uint32_t bytes)
{
    p->turn = turn;
    p->turn_left = bytes;
}

/* Gives c, which was called, its part of what its peer has: what it is to read may come later in
 * this turn than what others have sent. */
static void hand_on(const struct net *n, struct peer *p, struct connection *c)
{
    uint32_t part = p->waiting.first && p->turn_left > go_of(n) ? go_of(n) : p->turn_left;
    p->turn_left -= part;
    c->turn_left = part;
    c->called_turn = n->turn;
}

/* True if p, which is in line, may have connections called in this turn. */
static bool may_call(struct net *n, struct peer *p)
{
    if (p->turn == n->turn) return p->turn_left > 0;
    uint32_t share = share_of(n, 0);
    if (share > n->ration_left) share = n->ration_left;
    n->ration_left -= share;
    give(p, n->turn, share);
    return share > 0;
}

struct connection *ration_call(struct net *n)
{
    for (struct peer *p; (p = n->first_behind);) {
        struct connection *c = next_of(p, n->turn_ns);
        if (c && may_call(n, p)) {
            if (c->waits_in == &p->strangers) p->stranger_ns = n->turn_ns + RATION_GUESS_NS;
            ration_leave(c);
            hand_on(n, p, c);
            /* its client did not lose this time */
            if (c->frame_started_ns) c->frame_started_ns += n->now_ns - c->waits_since_ns;
            return c;
        }
        if (p->passed == n->turn || (c && !n->ration_left)) return NULL;
        p->passed = n->turn; /* the next one's turn */
        line_remove(n, p);
        line_append(n, p);
    }
    return NULL;
}

bool ration_allows(struct connection *c)
{
    struct net *n = c->net;
    struct peer *p = c->peer;
    if (c->waits_in || (c->was_refused && p->stands_aside)) return false;
    if (c->called_turn == n->turn) return c->turn_left > 0;
    if (is_stranger(c)) return false;
    if (p->waiting.first) return false;
    if (p->turn != n->turn) give(p, n->turn, share_of(n, 1));
    return p->turn_left > 0;
}

void ration_spend(struct connection *c, uint64_t bytes)
{
    uint32_t *left = c->called_turn == c->net->turn ? &c->turn_left : &c->peer->turn_left;
    *left = bytes < *left ? *left - (uint32_t)bytes : 0;
}
