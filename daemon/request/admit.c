#include "daemon/request/admit.h"

#include <string.h>

#include "daemon/request/answers.h"
#include "daemon/request/drops.h"
#include "daemon/request/expects.h"
#include "daemon/request/find.h"
#include "daemon/request/jobs.h"
#include "daemon/request/records.h"
#include "daemon/request/reply.h"
#include "daemon/request/scans.h"
#include "daemon/request/turnstiles.h"
#include "daemon/request/writes.h"

static void name_nothing(struct job *j)
{
    memset(j->objects, 0, sizeof j->objects);
}

/* Looks up all that j names. *any: it names something. */
static enum status find_all(struct pipeline *p, struct job *j, bool *any)
{
    const struct operation_object *named = operation_row(j->operation)->objects;
    *any = false;
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++) {
        const char *name = j->request.names[i];
        if (!named[i].kind || (!name[0] && !named[i].needed)) continue;
        struct job_object *o = &j->objects[i];
        o->resident = j->request.cursor ? scans_find(p, j, named[i].kind)
                                        : find_resident(p, j, named[i].kind, name, &j->failure);
        o->writer = named[i].access != ACCESS_READ;
        if (!o->resident) {
            name_nothing(j);
            return j->failure.code;
        }
        o->resident->asked++;
        *any = true;
    }
    return STATUS_OK;
}

enum status admit_job(struct pipeline *p, struct connection *c, struct job *j)
{
    bool any;
    enum status st = find_all(p, j, &any);
    if (st) return tokens_refuse_busy(&p->tokens, j) ? j->failure.code : st;
    if (!any) {
        turnstiles_pass(p, j);
        return STATUS_OK;
    }
    if (job_drops(j)) {
        if (expects_version(j) || !writes_begin(p, j)) {
            name_nothing(j);
            return j->failure.code;
        }
        scans_drop(p, j->resident);
        records_dropped(p, j);
        drops_unlink(p, j->resident);
    }
    c->writes += job_written(j) != NULL;
    j->after_writes = c->writes;
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
        struct failure why;
        job_fail_stopping(p, &why);
        refuse_frame(p, c, f, why.code, why.detail, why.text);
    } else if (!frame_is_padded(f->header, f->message)) {
        refuse_frame(p, c, f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MESSAGE, FRAME_NOT_PADDED);
    } else if (f->header->kind == OPERATION_PING && !f->header->body_bytes &&
               !f->header->message_bytes) {
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
    if (p->config->observe.enabled) {
        struct space_counts *counts = space_counts_of(&p->spaces, c->space);
        counts->requests++;
        counts->errors++;
        counts->refused++;
    }
    ration_took(c, false);
    refuse_frame(p, c, f, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUEUE_FULL,
                 "too many requests in flight (limits.requests_total)");
}
