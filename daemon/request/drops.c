#include "daemon/request/drops.h"

#include "daemon/cards/cards.h"
#include "daemon/request/jobs.h"
#include "daemon/request/line.h"
#include "daemon/request/principals.h"
#include "daemon/request/sweep.h"
#include "daemon/request/tables.h"
#include "daemon/request/turnstiles.h"
#include "daemon/request/uploads.h"
#include "daemon/sched/turnstile.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

void drops_unlink(struct pipeline *p, struct resident *r)
{
    switch (r->ops->kind) {
    case RESIDENT_GRAPH: store_graph_unlink(p->store, r->space, (struct graph *)r); break;
    case RESIDENT_COLLECTION:
        store_collection_unlink(p->store, r->space, (struct collection *)r);
        break;
    case RESIDENT_ATTRACTOR:
        store_attractor_unlink(p->store, r->space, (struct attractor *)r);
        break;
    case RESIDENT_KINDS: break;
    }
    uploads_cancel(p, r);
    tables_cancel(p, r);
}

static enum operation operation_of(const struct resident *r)
{
    switch (r->ops->kind) {
    case RESIDENT_GRAPH: return OPERATION_GRAPH_DROP;
    case RESIDENT_COLLECTION: return OPERATION_COLLECTION_DROP;
    case RESIDENT_ATTRACTOR: return OPERATION_ATTRACTOR_DROP;
    case RESIDENT_KINDS: break;
    }
    return OPERATION_NONE;
}

/* The turnstile lets go of what is dropped, which frees the rest of it. */
static void end(struct pipeline *p, struct job *j)
{
    job_move(j, JOB_DONE);
    turnstiles_leave(p, j);
    principals_discount_job(p, j);
    job_give(p, j);
}

static void dropped_on_done(void *owner, struct job *j)
{
    line_end(owner, j);
    end(owner, j);
}

bool drops_begin(struct pipeline *p, struct resident *r, struct tenancy *by)
{
    struct job *j =
        job_take_own(p, r->space, operation_of(r), (struct job_owner){dropped_on_done, p});
    if (!j) return false;
    principals_count_job(j, by);
    drops_unlink(p, r);
    r->ops->lend(r, j);
    j->writer = true;
    turnstiles_enter(p, j);
    return true;
}

bool drops_own(const struct job *j)
{
    return j->owner.done == dropped_on_done;
}

void drops_withdraw(struct pipeline *p, struct job *j)
{
    end(p, j);
}

/* ---------------------------------------------------------------- what goes with its maker */

#define NOBODY UINT64_MAX /* a maker that is gone */

void drops_note_made(struct connection *c, struct resident *r)
{
    if (!name_is_hidden(r->name)) return;
    r->maker = c->id;
    c->hides = true;
}

static struct resident *made_by(const struct space *space, uint64_t maker)
{
    struct resident *r = store_collection_made_by(space, maker);
    if (!r) r = store_graph_made_by(space, maker);
    return r ? r : store_attractor_made_by(space, maker);
}

void drops_leave(struct pipeline *p, struct connection *c)
{
    if (!c->hides || p->draining) return;
    for (struct resident *r; (r = made_by(c->space, c->id));) {
        if (drops_begin(p, r, c->tenancy)) continue;
        r->maker = NOBODY;
        p->orphans = true;
    }
}

/* There is no job, and nobody to charge it to: r is freed here, once nobody has it. */
static void drop_here(struct pipeline *p, struct resident *r)
{
    if (!turnstile_idle(&r->turnstile)) {
        p->orphans = true;
        return;
    }
    drops_unlink(p, r);
    if (p->gpu) replica_forget(p->gpu, r);
    sweep_gone(p, r);
    sweep_resident(r);
}

void drops_go_on(struct pipeline *p)
{
    if (!p->orphans || p->draining) return;
    p->orphans = false;
    for (struct space *s = store_space_next(p->store, NULL), *next; s; s = next) {
        next = store_space_next(p->store, s);
        s->users++;
        for (struct resident *r; !p->orphans && (r = made_by(s, NOBODY));)
            drop_here(p, r);
        store_space_release(p->store, s);
    }
}
