#include "daemon/request/principals.h"

/* How many tenancies a principal keeps that nobody uses; more are forgotten with their debts. */
enum { IDLE_TENANCIES_MAX = 64 };

/* How many requests a peer may have in line. */
static uint32_t queue_max_of(const struct pipeline *p)
{
    uint32_t half = p->config->job_max / 2;
    return p->config->peers.queue ? p->config->peers.queue : half ? half : 1;
}

static struct principal *principal_of(struct pipeline *p, struct peer *peer)
{
    if (peer->principal) return peer->principal;
    struct principal *made = principal_create();
    if (!made) return NULL;
    made->queue_max = queue_max_of(p);
    made->next = p->principals;
    if (made->next) made->next->previous = made;
    p->principals = made;
    return peer->principal = made;
}

static struct tenancy *tenancy_of(struct principal *owner, struct tenant *t)
{
    for (struct tenancy *l = t->tenancies; l; l = l->space_next)
        if (l->principal == owner) return l;
    return tenancy_create(owner, t);
}

static bool is_idle(const struct tenancy *l)
{
    return !l->connections && !l->jobs;
}

/* Notes since when l is idle. Keeps the newest of the idle ones only. */
static void rest(struct pipeline *p, struct tenancy *l)
{
    if (!is_idle(l)) return;
    struct principal *owner = l->principal;
    l->left_ns = clock_read_ns(p->clock);
    uint32_t idle = 0;
    struct tenancy *oldest = l;
    for (struct tenancy *at = owner->tenancies; at; at = at->next) {
        if (!is_idle(at)) continue;
        idle++;
        if (at->left_ns < oldest->left_ns) oldest = at;
    }
    if (idle > IDLE_TENANCIES_MAX) tenancy_destroy(oldest);
}

enum status principals_enter(struct pipeline *p, struct connection *c, struct space *space,
                             struct failure *f)
{
    struct principal *owner = principal_of(p, c->peer);
    struct tenancy *l = owner ? tenancy_of(owner, space->tenant) : NULL;
    if (!l) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a peer");
    l->connections++;
    c->tenancy = l;
    return STATUS_OK;
}

void principals_leave(struct pipeline *p, struct connection *c)
{
    struct tenancy *l = c->tenancy;
    c->tenancy = NULL;
    l->connections--;
    rest(p, l);
}

void principals_count_job(struct job *j, struct tenancy *l)
{
    j->ticket.tenancy = l;
    l->jobs++;
    l->principal->jobs++;
}

void principals_discount_job(struct pipeline *p, struct job *j)
{
    struct tenancy *l = j->ticket.tenancy;
    j->ticket.tenancy = NULL;
    l->jobs--;
    l->principal->jobs--;
    rest(p, l);
}

/* ---------------------------------------------------------------- the end of them */

static void principal_forget(struct pipeline *p, struct principal *owner)
{
    while (owner->tenancies)
        tenancy_destroy(owner->tenancies);
    if (owner->previous)
        owner->previous->next = owner->next;
    else
        p->principals = owner->next;
    if (owner->next) owner->next->previous = owner->previous;
    principal_destroy(owner);
}

bool principals_forget(struct pipeline *p, struct peer *peer)
{
    struct principal *owner = peer->principal;
    if (!owner) return true;
    /* No debt is older than age_ns (fair_charge), or longer than what ran last. */
    uint64_t now_ns = clock_read_ns(p->clock), kept_ns = p->scheduler.settings.age_ns;
    for (const struct tenancy *l = owner->tenancies; l; l = l->next)
        if (!is_idle(l) || now_ns < l->left_ns + kept_ns) return false;
    principal_forget(p, owner);
    peer->principal = NULL;
    return true;
}

void principals_forget_tenant(struct tenant *t)
{
    while (t->tenancies)
        tenancy_destroy(t->tenancies);
}

void principals_refresh(struct pipeline *p)
{
    for (struct principal *owner = p->principals; owner; owner = owner->next)
        owner->queue_max = queue_max_of(p);
}

void principals_finish(struct pipeline *p)
{
    while (p->principals)
        principal_forget(p, p->principals);
}
