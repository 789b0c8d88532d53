#include "daemon/request/admit.h"

#include "daemon/request/answers.h"
#include "daemon/request/jobs.h"
#include "daemon/request/reply.h"
#include "daemon/request/turnstiles.h"
#include "daemon/request/uploads.h"
#include "daemon/request/writes.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

static enum status find(struct pipeline *p, struct job *j, enum needs needs)
{
    const char *name = j->request.collection;
    struct collection *c;
    struct graph *g;
    enum status st = needs == NEEDS_GRAPH
                         ? store_graph_find(p->store, j->space, name, &j->failure, &g)
                         : store_collection_find(p->store, j->space, name, &j->failure, &c);
    if (!st) j->resident = needs == NEEDS_GRAPH ? graph_resident(g) : collection_resident(c);
    return st;
}

/* What j drops is not found any more. */
static void unlink_resident(struct pipeline *p, struct job *j)
{
    switch (j->resident->ops->kind) {
    case RESIDENT_GRAPH: store_graph_unlink(p->store, j->space, (struct graph *)j->resident); break;
    case RESIDENT_COLLECTION:
        store_collection_unlink(p->store, j->space, (struct collection *)j->resident);
        break;
    case RESIDENT_KINDS: break;
    }
    uploads_cancel(p, job_resident(j));
}

/* Looks up what the request names; j then stands in line for it. */
enum status admit_job(struct pipeline *p, struct job *j)
{
    const struct operation_row *row = operation_row(j->operation);
    if (!j->request.collection[0] && row->needs == NEEDS_ROWS) {
        turnstiles_pass(p, j);
        return STATUS_OK;
    }
    enum status st = find(p, j, row->needs);
    if (st) return tokens_refuse_busy(&p->tokens, j) ? j->failure.code : st;
    j->writer = row->access != ACCESS_READ;
    if (job_drops(j)) {
        if (!writes_begin(p, j)) {
            j->resident = NULL;
            return j->failure.code;
        }
        unlink_resident(p, j);
    }
    turnstiles_enter(p, j);
    return STATUS_OK;
}

static void refuse_frame(struct pipeline *p, struct connection *c, const struct frame *f,
                         enum status code, enum detail detail, const char *text)
{
    struct failure why;
    failure_set(&why, code, detail, "%s", text);
    if (code == STATUS_RESOURCE_EXHAUSTED) why.retry_after_ms = RETRY_QUEUE_MS;
    reply_error(p, c, f->header->kind, f->header->request_id, &why);
}

static bool request_id_in_use(struct pipeline *p, struct connection *c, uint64_t request_id)
{
    struct job_key key = {c->id, request_id};
    struct job *j;
    HASH_FIND(hh, p->in_flight, &key, sizeof key, j);
    return j != NULL;
}

bool admit_no_job(struct pipeline *p, struct connection *c, const struct frame *f)
{
    if (!c->greeted) {
        answer_hello(p, c, f);
    } else if (p->draining) {
        refuse_frame(p, c, f, STATUS_UNAVAILABLE, DETAIL_SHUTTING_DOWN, "the daemon is stopping");
    } else if (f->header->kind == OPERATION_PING && !f->header->body_bytes) {
        answer_ping(p, c, f);
    } else if (request_id_in_use(p, c, f->header->request_id)) {
        refuse_frame(p, c, f, STATUS_INVALID_ARGUMENT, DETAIL_REQUEST_ID_IN_USE,
                     "a request with this id is still in flight");
    } else {
        return false;
    }
    return true;
}

void admit_refuse_full(struct pipeline *p, struct connection *c, const struct frame *f)
{
    ration_took(c, false);
    refuse_frame(p, c, f, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUEUE_FULL,
                 "too many requests in flight (limits.requests_total)");
}
