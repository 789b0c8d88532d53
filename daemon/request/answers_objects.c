#include "daemon/request/answers_objects.h"

#include <string.h>

#include "daemon/request/drops.h"
#include "daemon/request/find.h"
#include "daemon/request/records.h"
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
    if (!records_have_all(p, j, with) || !writes_swap(p, j, there)) return;
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
    records_swapped(p, j, with, q->names[1]);
}

size_t answer_swap(struct pipeline *p, struct job *j, void *at)
{
    if (!writes_recall(p, j)) swap(p, j);
    writes_end(p, j);
    return j->failure.code ? 0 : encode_swap(j, at);
}

/* ---------------------------------------------------------------- changes */

enum { PAGE = ENCODE_OBJECTS_MAX };

/* The next names of a kind behind `after`; returns how many. */
static size_t list_kind(struct pipeline *p, struct space *space, enum object_kind kind,
                        const char *after, struct resident **out, bool *more)
{
    struct collection *collections[PAGE];
    struct graph *graphs[PAGE];
    struct attractor *attractors[PAGE];
    size_t count = 0;
    switch (kind) {
    case OBJECT_COLLECTION:
        count = store_collection_list(p->store, space, after, collections, PAGE, more);
        for (size_t i = 0; i < count; i++)
            out[i] = collection_resident(collections[i]);
        break;
    case OBJECT_GRAPH:
        count = store_graph_list(p->store, space, after, graphs, PAGE, more);
        for (size_t i = 0; i < count; i++)
            out[i] = graph_resident(graphs[i]);
        break;
    case OBJECT_ATTRACTOR:
        count = store_attractor_list(p->store, space, after, attractors, PAGE, more);
        for (size_t i = 0; i < count; i++)
            out[i] = attractor_resident(attractors[i]);
        break;
    case OBJECT_NONE: break;
    }
    return count;
}

struct change_page {
    uint64_t since, total;
    struct wire_object found[PAGE];
    size_t count;
    bool more;
    enum object_kind from; /* the page begins behind this */
    const char *after;
};

/* What is behind the place where the page begins, and has changed, as far as there is room. */
static void note_change(struct change_page *c, enum object_kind kind, const struct resident *r)
{
    bool behind = kind > c->from || (kind == c->from && strcmp(r->name, c->after) > 0);
    uint64_t version = resident_version(r);
    c->total++;
    if (!behind || version <= c->since) return;
    if (c->count == PAGE)
        c->more = true;
    else
        c->found[c->count++] = (struct wire_object){kind, r->name, version};
}

size_t answer_changes(struct pipeline *p, struct job *j, void *at)
{
    struct change_page c = {.since = j->request.offset,
                            .from = (enum object_kind)j->request.object,
                            .after = j->request.names[0]};
    for (uint32_t kind = OBJECT_COLLECTION; kind <= OBJECT_ATTRACTOR; kind++) {
        struct resident *page[PAGE];
        const char *after = "";
        for (bool more = true; more;) {
            size_t n = list_kind(p, j->space, (enum object_kind)kind, after, page, &more);
            for (size_t i = 0; i < n; i++)
                note_change(&c, (enum object_kind)kind, page[i]);
            if (n) after = page[n - 1]->name;
        }
    }
    j->result.version = space_last_version(j->space);
    return encode_changes(j, c.found, c.count, c.more, c.total, at);
}
