#include "daemon/request/expects.h"

#include <inttypes.h>

#include "daemon/request/find.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

enum status expects_state(const struct pipeline *p, const struct state_name *expect,
                          struct failure *f)
{
    const struct state_name *now = &p->state;
    bool same = (!expect->instance || expect->instance == now->instance) &&
                (!expect->generation || expect->generation == now->generation);
    if (same) return STATUS_OK;
    failure_set(f, STATUS_ABORTED, DETAIL_STATE_CHANGED,
                "instance %016" PRIx64 ", generation %" PRIu64 " is there, and %016" PRIx64
                ", %" PRIu64 " is expected (0: any)",
                now->instance, now->generation, expect->instance, expect->generation);
    f->instance = now->instance;
    f->generation = now->generation;
    return f->code;
}

static enum status compare(struct job *j, uint64_t now)
{
    uint64_t version = j->request.expect.version;
    if (version == now) return STATUS_OK;
    failure_set(&j->failure, STATUS_ABORTED, DETAIL_VERSION_CHANGED,
                "version %" PRIu64 " is there, and %" PRIu64 " is expected", now, version);
    j->failure.version = now;
    return j->failure.code;
}

/* What an operation that the loop answers is about. */
static enum object_kind answered_about(const struct job *j)
{
    if (j->operation == OPERATION_COLLECTION_DESCRIBE) return OBJECT_COLLECTION;
    if (j->operation == OPERATION_GRAPH_DESCRIBE) return OBJECT_GRAPH;
    if (j->operation == OPERATION_ATTRACTOR_DESCRIBE) return OBJECT_ATTRACTOR;
    if (j->operation == OPERATION_SWAP) return (enum object_kind)j->request.object;
    return OBJECT_NONE;
}

static enum status refuse_nothing(struct job *j)
{
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_UNKNOWN_VERSION,
                       "expect: a version of what? the request names nothing that is there");
}

enum status expects_begin(struct pipeline *p, struct job *j)
{
    const struct state_name *expect = &j->request.expect;
    enum status st = expects_state(p, expect, &j->failure);
    if (st || !expect->version) return st;
    if (!operation_row(j->operation)->answered)
        return j->request.names[0][0] ? STATUS_OK : refuse_nothing(j);
    enum object_kind kind = answered_about(j);
    if (kind == OBJECT_NONE) return refuse_nothing(j);
    const struct resident *r = find_resident(p, j, kind, j->request.names[0], &j->failure);
    return r ? compare(j, resident_version(r)) : j->failure.code;
}

enum status expects_version(struct job *j)
{
    const struct job_object *o = &j->objects[0];
    if (!j->request.expect.version || !o->resident) return STATUS_OK;
    if (o->writer) return compare(j, resident_version(o->resident));
    uint64_t now = o->collection ? collection_version(o->collection)
                   : o->graph    ? graph_version(o->graph)
                                 : attractor_version(o->attractor);
    return compare(j, now);
}
