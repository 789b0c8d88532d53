#include "daemon/request/slow.h"

#include <inttypes.h>

#include "daemon/base/log.h"

static const char *const backend_names[] = {"nothing", "cpu", "gpu", "both"};

static void say(const struct wire_slow *s)
{
    const struct log_field fields[] = {
        {"operation", operation_row(s->operation)->text, 0},
        {"space", s->space, 0},
        {"name", s->name, 0},
        {"peer", s->peer, 0},
        {"request_id", NULL, s->request_id},
        {"status", status_name(s->code), 0},
        {"detail", detail_name(s->detail), 0},
        {"backend", backend_names[s->backend], 0},
        {"reason", NULL, s->reason},
        {"total_us", NULL, s->total_ns / 1000},
        {"queue_us", NULL, s->queue_ns / 1000},
        {"run_us", NULL, s->run_ns / 1000},
        {"copy_us", NULL, s->copy_ns / 1000},
        {"predicted_us", NULL, s->predicted_ns / 1000},
        {"other_us", NULL, s->other_ns / 1000},
        {"wait_us", NULL, s->wait_ns / 1000},
        {"batch", NULL, s->batch},
        {"queries", NULL, s->queries},
        {"rows", NULL, s->rows},
        {"dimension", NULL, s->dimension},
        {"k", NULL, s->k},
        {"request_bytes", NULL, s->request_bytes},
        {"reply_bytes", NULL, s->reply_bytes},
        {"version", NULL, s->version},
    };
    _Static_assert(sizeof fields / sizeof *fields <= LOG_FIELDS_MAX, "a line has all of them");
    log_write_fields(LOG_LEVEL_INFO, fields, sizeof fields / sizeof *fields,
                     "slow: %s%s%s of %s, space %s: %" PRIu64 ".%03" PRIu64 " ms, in line %" PRIu64
                     " us, ran %" PRIu64 " us on %s, %" PRIu64 " us foreseen; %" PRIu64
                     " queries, %" PRIu64 " rows, %" PRIu64 " and %" PRIu64 " bytes; %s",
                     operation_row(s->operation)->text, s->name[0] ? " " : "", s->name, s->peer,
                     s->space, s->total_ns / 1000000, s->total_ns / 1000 % 1000, s->queue_ns / 1000,
                     s->run_ns / 1000, backend_names[s->backend], s->predicted_ns / 1000,
                     s->queries, s->rows, s->request_bytes, s->reply_bytes, status_name(s->code));
}

void slow_note(struct pipeline *p, const struct job *j, uint64_t now_ns)
{
    if (now_ns - j->received_ns < p->slow.over_ns[j->operation] || now_ns < j->received_ns) return;
    const struct connection *c = net_find(p->net, j->key.connection);
    const struct wire_slow *s =
        slow_log_add(&p->slow, j, c ? c->peer->name : "one that left", now_ns);
    if (log_level_now >= LOG_LEVEL_INFO) say(s);
}
