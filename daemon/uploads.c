#include "daemon/uploads.h"

#include "daemon/exec/gpu.h"
#include "daemon/jobs.h"
#include "daemon/sched/turnstile.h"

/* A drop stands last in line, for its collection is no longer found. */
static bool is_leaving(struct collection *c)
{
    const struct job *last = collection_turnstile(c)->waiting_tail;
    return last && last->operation == OPERATION_COLLECTION_DROP;
}

/* Where to note another one, or NULL. Two pieces of a collection follow each other without a gap.
 * Who has none and finds no place is remembered. */
static struct job **free_place(struct pipeline *p, struct collection *c)
{
    enum { AT_ONCE = 2 };
    struct job **place = NULL;
    uint32_t under_way = 0;
    for (uint32_t i = 0; i < UPLOADS_MAX; i++) {
        if (!p->uploads[i])
            place = &p->uploads[i];
        else if (p->uploads[i]->collection == c)
            under_way++;
    }
    if (!place && !under_way && !p->upload_next) p->upload_next = c;
    return under_way < AT_ONCE ? place : NULL;
}

void uploads_start(struct pipeline *p, struct collection *c)
{
    if (p->draining || is_leaving(c) || !gpu_wants_upload(p->gpu, c)) return;
    struct job **place = free_place(p, c);
    struct job *j = place ? job_take_own(p, collection_space(c), OPERATION_UPLOAD) : NULL;
    if (!j) return;
    j->collection = c;
    j->backend = BACKEND_GPU;
    *place = j;
    pipeline_enter(p, j);
}

static void end(struct pipeline *p, struct job *j)
{
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        if (p->uploads[i] == j) p->uploads[i] = NULL;
    pipeline_leave(p, j);
    job_move(j, JOB_DONE);
    job_give(p, j);
}

void uploads_submit(struct pipeline *p, struct job *j)
{
    if (p->draining || atomic_load(&j->cancelled) || p->gpu->ops->submit(p->gpu, j)) {
        end(p, j);
        return;
    }
    job_move(j, JOB_RUNNING);
    uploads_start(p, j->collection);
}

/* A place is free: whoever always has more would take it again before anyone could ask. */
static void start_next(struct pipeline *p)
{
    struct collection *c = p->upload_next;
    p->upload_next = NULL;
    if (c) uploads_start(p, c);
}

void uploads_done(struct pipeline *p, struct job *j)
{
    struct collection *c = j->collection;
    bool last =
        p->draining || atomic_load(&j->cancelled) || is_leaving(c) || !gpu_wants_upload(p->gpu, c);
    end(p, j);
    start_next(p);
    if (!last) uploads_start(p, c);
}

void uploads_cancel(struct pipeline *p, const struct collection *c)
{
    if (p->upload_next == c) p->upload_next = NULL;
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        if (p->uploads[i] && p->uploads[i]->collection == c)
            atomic_store(&p->uploads[i]->cancelled, true);
}
