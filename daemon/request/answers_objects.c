#include "daemon/request/answers_objects.h"

#include "daemon/request/drops.h"
#include "daemon/request/find.h"
#include "daemon/request/writes.h"
#include "daemon/sched/turnstile.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "daemon/wire/encode.h"

static void rename_to(struct space *space, struct resident *r, const char *name)
{
    switch (r->ops->kind) {
    case RESIDENT_COLLECTION: store_collection_rename(space, (struct collection *)r, name); break;
    case RESIDENT_GRAPH: store_graph_rename(space, (struct graph *)r, name); break;
    case RESIDENT_ATTRACTOR: store_attractor_rename(space, (struct attractor *)r, name); break;
    case RESIDENT_KINDS: break;
    }
}

/* What takes the other's place, once it is there and whole. */
static struct resident *find_with(struct pipeline *p, struct job *j)
{
    const struct job_request *q = &j->request;
    struct resident *r = find_resident(p, j, (enum object_kind)q->object, q->names[1], &j->failure);
    if (!r || !turnstile_has_writers(&r->turnstile)) return r;
    failure_set(&j->failure, STATUS_UNAVAILABLE, DETAIL_BEING_WRITTEN,
                "with: '%s' is still being written", q->names[1]);
    j->failure.retry_after_ms = RETRY_QUEUE_MS;
    return NULL;
}

static void swap(struct pipeline *p, struct job *j)
{
    const struct job_request *q = &j->request;
    struct failure none = {0};
    struct resident *with = find_with(p, j);
    if (!with) return;
    struct resident *there = find_resident(p, j, (enum object_kind)q->object, q->names[0], &none);
    if (!writes_swap(p, j, there)) return;
    uint64_t before = there ? resident_version(there) : 0;
    if (there && !drops_begin(p, there, j->ticket.tenancy)) {
        failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUEUE_FULL,
                    "too many requests in flight (limits.requests_total)");
        j->failure.retry_after_ms = RETRY_QUEUE_MS;
        return;
    }
    rename_to(j->space, with, q->names[0]);
    with->maker = 0;
    with->ops->renumber(with);
    j->result.version = resident_version(with);
    j->result.counts[0] = before;
}

size_t answer_swap(struct pipeline *p, struct job *j, void *at)
{
    if (!writes_recall(p, j)) swap(p, j);
    writes_end(p, j);
    return j->failure.code ? 0 : encode_swap(j, at);
}
