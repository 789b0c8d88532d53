#include "daemon/request/reply.h"

#include "daemon/request/jobs.h"
#include "daemon/request/line.h"
#include "daemon/request/records.h"
#include "daemon/request/slow.h"
#include "daemon/wire/encode.h"

void reply_error(struct pipeline *p, struct connection *c, uint8_t kind, uint64_t request_id,
                 const struct failure *f)
{
    p->stats.errors_total++;
    void *at = connection_reserve(c, ENCODE_ERROR_BYTES_MAX);
    if (at) connection_commit(c, encode_error(kind, request_id, f, at));
}

void reply_observe(struct pipeline *p, const struct job *j, enum backend_id backend,
                   uint64_t now_ns)
{
    if (!p->config->observe.enabled) return;
    stats_add(&p->stats, j->operation, backend, now_ns - j->received_ns, j->failure.code);
    space_counts_add(&p->spaces, j, now_ns);
    slow_note(p, j, now_ns);
}

void reply_send(struct pipeline *p, struct job *j)
{
    line_expect_no_more(j);
    if (records_hold(p, j, NULL, 0)) return;
    job_move(j, JOB_DONE);
    j->answered_ns = clock_read_ns(p->clock);
    if (j->token) tokens_end(&p->tokens, j, j->answered_ns);
    reply_observe(p, j, j->backend, j->answered_ns);
    struct connection *c = net_find(p->net, j->key.connection);
    if (!c) {
        job_give(p, j);
        return;
    }
    if (j->failure.code) {
        if (j->failure.detail == DETAIL_MEMORY && !j->failure.retry_after_ms)
            j->failure.retry_after_ms = RETRY_MEMORY_MS;
        reply_error(p, c, j->kind, j->key.request_id, &j->failure);
        job_give(p, j);
        return;
    }
    void *at = connection_reserve(c, ENCODE_RESULT_BYTES_MAX);
    if (!at) { /* there was no memory, and c is closed now */
        job_give(p, j);
        return;
    }
    connection_commit(c, encode_result(j, at));
    if (!j->result.body_bytes) {
        job_give(p, j);
        return;
    }
    job_move(j, JOB_REPLYING);
    connection_send_body(c, j, j->result.block.data, j->result.body_bytes);
}
