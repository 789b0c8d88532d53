#include "daemon/request/answers_attractor.h"

#include "daemon/request/drops.h"
#include "daemon/request/records.h"
#include "daemon/request/tables.h"
#include "daemon/request/writes.h"
#include "daemon/store/attractor.h"
#include "daemon/wire/encode.h"

static struct attractor_shape shape_of(const struct job *j)
{
    const struct job_request *q = &j->request;
    return (struct attractor_shape){q->dimension, q->attractor.sparsity, q->attractor.rate};
}

static void create(struct pipeline *p, struct job *j)
{
    const char *name = j->request.names[0];
    struct attractor_shape shape = shape_of(j);
    struct failure none = {0};
    struct attractor *a;
    bool there = !store_attractor_find(p->store, j->space, name, &none, &a);
    if (!writes_create(p, j, there)) return;
    if (store_attractor_create(p->store, j->space, name, &shape, &j->failure, &a)) return;
    j->result.version = attractor_info(a).version;
    if (tables_make(p, j->ticket.tenancy, a)) {
        drops_note_made(net_find(p->net, j->key.connection), attractor_resident(a));
        records_made(p, j, attractor_resident(a));
        return;
    }
    store_attractor_unlink(p->store, j->space, a);
    attractor_destroy(a);
    failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUEUE_FULL,
                "too many requests in flight (limits.requests_total)");
    j->failure.retry_after_ms = RETRY_QUEUE_MS;
}

/* What is made is empty; a repetition is told so, too, whatever became of it. */
size_t answer_attractor_create(struct pipeline *p, struct job *j, void *at)
{
    struct attractor_shape shape = shape_of(j);
    struct attractor_info info = attractor_info_at_first(j->request.names[0], &shape);
    if (!writes_recall(p, j)) create(p, j);
    writes_end(p, j);
    if (j->failure.code) return 0;
    info.version = j->result.version;
    return encode_attractor(j->operation, j->key.request_id, j, &info, at);
}

size_t answer_attractor_describe(struct pipeline *p, struct job *j, void *at)
{
    struct attractor *a;
    if (store_attractor_find(p->store, j->space, j->request.names[0], &j->failure, &a)) return 0;
    struct attractor_info info = attractor_info(a);
    return encode_attractor(j->operation, j->key.request_id, NULL, &info, at);
}

size_t answer_attractor_list(struct pipeline *p, const struct job *j, void *at)
{
    struct attractor *found[64];
    struct attractor_info infos[64];
    bool more;
    size_t count = store_attractor_list(p->store, j->space, j->request.names[0], found, 64, &more);
    for (size_t i = 0; i < count; i++)
        infos[i] = attractor_info(found[i]);
    return encode_attractor_list(j->key.request_id, infos, count, more, at);
}
