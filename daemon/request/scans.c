#include "daemon/request/scans.h"

#include "daemon/request/jobs.h"
#include "daemon/request/turnstiles.h"
#include "daemon/sched/turnstile.h"
#include "daemon/store/resident.h"

static struct scan_cursor *scan_of(struct pipeline *p, const struct job *j)
{
    for (uint32_t i = 0; i < SCANS_MAX; i++) {
        struct scan_cursor *s = &p->scans.list[i];
        if (s->holder && s->number == j->request.cursor && s->connection == j->key.connection)
            return s;
    }
    return NULL;
}

static void end(struct pipeline *p, struct scan_cursor *s)
{
    struct job *holder = s->holder;
    *s = (struct scan_cursor){0};
    p->scans.count--;
    turnstiles_leave(p, holder);
    job_move(holder, JOB_DONE);
    job_give(p, holder);
}

static enum status refuse_ended(struct job *j)
{
    return failure_set(&j->failure, STATUS_ABORTED, DETAIL_CURSOR_ENDED,
                       "cursor: it has ended, with what it kept: unused for %d s, at its end, "
                       "what it read was dropped, or another daemon took over",
                       (int)(SCAN_IDLE_NS / 1000000000));
}

struct resident *scans_find(struct pipeline *p, struct job *j, enum object_kind kind)
{
    const struct scan_cursor *s = scan_of(p, j);
    struct resident *r = s ? s->holder->objects[0].resident : NULL;
    enum resident_kind wanted = kind == OBJECT_GRAPH ? RESIDENT_GRAPH : RESIDENT_COLLECTION;
    if (r && r->ops->kind == wanted) return r;
    refuse_ended(j);
    return NULL;
}

enum status scans_begin(struct pipeline *p, struct job *j)
{
    if (!j->request.cursor) return STATUS_OK;
    struct scan_cursor *s = scan_of(p, j);
    if (!s) return refuse_ended(j);
    s->until_ns = clock_read_ns(p->clock) + SCAN_IDLE_NS;
    turnstile_adopt(j, s->holder);
    return STATUS_OK;
}

/* *of_one: how many j's connection has. NULL: no place. */
static struct scan_cursor *free_place(struct pipeline *p, const struct job *j, uint32_t *of_one)
{
    struct scan_cursor *place = NULL;
    for (uint32_t i = 0; i < SCANS_MAX; i++) {
        struct scan_cursor *s = &p->scans.list[i];
        if (!s->holder)
            place = s;
        else
            *of_one += s->connection == j->key.connection;
    }
    return place;
}

static void keep(struct pipeline *p, struct job *j)
{
    uint32_t of_one = 0;
    struct scan_cursor *s = free_place(p, j, &of_one);
    struct job *holder = NULL;
    if (s && of_one < SCANS_OF_ONE)
        holder = job_take_own(p, j->space, OPERATION_NONE, (struct job_owner){0});
    if (!holder) {
        failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUEUE_FULL,
                    "keep: too many cursors (%u of this connection's, %u of all)", of_one,
                    p->scans.count);
        j->failure.retry_after_ms = RETRY_CONNECTION_MS;
        return;
    }
    /* Not the numbers of a daemon that was here before. */
    if (!p->scans.number_last) p->scans.number_last = clock_read_ns(p->clock);
    turnstile_share(holder, j);
    *s = (struct scan_cursor){.number = ++p->scans.number_last,
                              .connection = j->key.connection,
                              .holder = holder,
                              .until_ns = clock_read_ns(p->clock) + SCAN_IDLE_NS};
    p->scans.count++;
    j->result.cursor = s->number;
}

void scans_end_page(struct pipeline *p, struct job *j)
{
    const struct job_request *q = &j->request;
    bool reads = j->operation == OPERATION_FETCH || j->operation == OPERATION_GRAPH_FETCH_NODES;
    if (!reads || (!q->keep && !q->cursor) || j->failure.code || atomic_load(&j->cancelled)) return;
    uint64_t read = j->result.tensors[0].rows, at = q->offset + read;
    bool at_end = at < q->offset || at >= j->result.positions;
    struct scan_cursor *s = q->cursor ? scan_of(p, j) : NULL;
    if (s && at_end)
        end(p, s);
    else if (s)
        j->result.cursor = s->number;
    else if (!q->cursor && !at_end && !p->draining)
        keep(p, j);
}

/* ---------------------------------------------------------------- ends */

void scans_leave(struct pipeline *p, const struct connection *c)
{
    for (uint32_t i = 0; p->scans.count && i < SCANS_MAX; i++) {
        struct scan_cursor *s = &p->scans.list[i];
        if (s->holder && s->connection == c->id) end(p, s);
    }
}

void scans_drop(struct pipeline *p, const struct resident *r)
{
    for (uint32_t i = 0; p->scans.count && i < SCANS_MAX; i++) {
        struct scan_cursor *s = &p->scans.list[i];
        if (s->holder && s->holder->objects[0].resident == r) end(p, s);
    }
}

void scans_finish(struct pipeline *p)
{
    for (uint32_t i = 0; p->scans.count && i < SCANS_MAX; i++)
        if (p->scans.list[i].holder) end(p, &p->scans.list[i]);
}

void scans_expire(struct pipeline *p, uint64_t now_ns)
{
    for (uint32_t i = 0; p->scans.count && i < SCANS_MAX; i++) {
        struct scan_cursor *s = &p->scans.list[i];
        if (s->holder && now_ns >= s->until_ns) end(p, s);
    }
}

uint64_t scans_wake_ns(const struct pipeline *p)
{
    uint64_t first_ns = UINT64_MAX;
    for (uint32_t i = 0; p->scans.count && i < SCANS_MAX; i++) {
        const struct scan_cursor *s = &p->scans.list[i];
        if (s->holder && s->until_ns < first_ns) first_ns = s->until_ns;
    }
    return first_ns;
}
