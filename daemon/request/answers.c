#include "daemon/request/answers.h"

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/cards/cards.h"
#include "daemon/report/cards_report.h"
#include "daemon/report/explain.h"
#include "daemon/report/info.h"
#include "daemon/report/look.h"
#include "daemon/report/screens_report.h"
#include "daemon/report/spaces_report.h"
#include "daemon/report/stats_report.h"
#include "daemon/request/answers_attractor.h"
#include "daemon/request/answers_graph.h"
#include "daemon/request/answers_memory.h"
#include "daemon/request/answers_objects.h"
#include "daemon/request/answers_settings.h"
#include "daemon/request/cancel.h"
#include "daemon/request/drops.h"
#include "daemon/request/expects.h"
#include "daemon/request/jobs.h"
#include "daemon/request/journals.h"
#include "daemon/request/saves_count.h"
#include "daemon/request/loads.h"
#include "daemon/request/quotas.h"
#include "daemon/request/records.h"
#include "daemon/request/reply.h"
#include "daemon/request/writes.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "daemon/wire/decode.h"
#include "daemon/wire/encode.h"
#include "kernels/topk.h"

static struct wire_limits limits_of(const struct pipeline *p)
{
    return (struct wire_limits){
        .body_bytes_max = p->config->body_mib_max << 20,
        .reply_bytes_max = p->config->reply_mib_max << 20,
        .dimension_max = VECTOR_DIMENSION_MAX,
        .k_max = TOPK_K_MAX,
        .in_flight_max = p->config->in_flight_max,
    };
}

/* ---------------------------------------------------------------- hello */

static enum status check_token(struct pipeline *p, struct connection *c, const struct hello *hello,
                               struct failure *why)
{
    if (!p->wants_token || secret_matches(&p->token, hello->token, hello->token_bytes))
        return STATUS_OK;
    ration_guessed(c);
    return failure_set(why, STATUS_UNAUTHENTICATED, DETAIL_BAD_TOKEN,
                       "the token is missing or wrong (auth.token_file)");
}

static enum status greet(struct pipeline *p, struct connection *c, const struct frame *f,
                         uint64_t *features, struct failure *why)
{
    struct hello hello;
    char name[SPACE_NAME_MAX + 1];
    if (f->header->kind != OPERATION_HELLO)
        return failure_set(why, STATUS_FAILED_PRECONDITION, DETAIL_HELLO_REQUIRED,
                           "the first request must be Hello");
    if (f->header->body_bytes)
        return failure_set(why, STATUS_INVALID_ARGUMENT, DETAIL_BODY_MISMATCH,
                           "Hello has no body, %llu bytes came",
                           (unsigned long long)f->header->body_bytes);
    if (!frame_is_padded(f->header, f->message))
        return failure_set(why, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MESSAGE, FRAME_NOT_PADDED);
    enum status st = decode_hello(f->message, f->header->message_bytes, &hello, why);
    if (st) return st;
    if (hello.version_min > FRAME_VERSION || hello.version_max < FRAME_VERSION)
        return failure_set(why, STATUS_FAILED_PRECONDITION, DETAIL_BAD_VERSION,
                           "this daemon speaks version %d, the client %u to %u", FRAME_VERSION,
                           hello.version_min, hello.version_max);
    st = check_token(p, c, &hello, why);
    if (!st) st = space_name_parse(hello.space, name, why);
    if (!st) st = expects_state(p, &hello.expect, why);
    if (st) return st;
    st = store_space(p->store, name, &c->space);
    if (st) return failure_set(why, st, DETAIL_MEMORY, "no memory for another space");
    st = quotas_admit_connection(p, c, why);
    if (st) {
        store_space_release(p->store, c->space);
        c->space = NULL;
        return st;
    }
    c->owner = c->space->number;
    c->greeted = true;
    *features = hello.features & FEATURE_PROGRESS;
    log_debug("net: hello from %s (%s), space %s", hello.client_name, c->from, name);
    return STATUS_OK;
}

void answer_hello(struct pipeline *p, struct connection *c, const struct frame *f)
{
    struct failure why = {0};
    uint64_t features = 0;
    if (greet(p, c, f, &features, &why)) {
        connection_log(c, "net: refused %s: %s", c->from, why.text);
        reply_error(p, c, f->header->kind, f->header->request_id, &why);
        connection_finish(c);
        return;
    }
    struct wire_hello hello = {
        .version = FRAME_VERSION,
        .features = features,
        .instance = p->state.instance,
        .generation = p->state.generation,
        .server_version = ENGRAM_VERSION,
        .space = c->space->name,
        .limits = limits_of(p),
    };
    void *at = connection_reserve(c, ENCODE_BYTES_MAX);
    if (at) connection_commit(c, encode_hello(f->header->request_id, &hello, at));
}

void answer_goodbye(struct pipeline *p, struct connection *c)
{
    if (!c->space) return;
    quotas_release_connection(p, c);
    store_space_release(p->store, c->space);
    c->space = NULL;
}

void answer_ping(struct pipeline *p, struct connection *c, const struct frame *f)
{
    void *at = connection_reserve(c, ENCODE_PING_BYTES);
    if (at) connection_commit(c, encode_ping(f->header->request_id, at));
    if (p->config->observe.enabled) p->stats.operations[OPERATION_PING].requests++;
}

/* ---------------------------------------------------------------- info, stats, explain, cancel */

static struct report_sources sources_of(const struct pipeline *p)
{
    return (struct report_sources){
        .heap = p->heap,
        .kernels = p->kernels,
        .net = &p->net->counters,
        .peers = &p->net->peers,
        .scheduler = &p->scheduler,
        .stats = &p->stats,
        .reloads = p->reloads,
        .gpu = p->gpu,
        .in_flight = p->in_flight,
        .workers = p->worker_count,
        .queue_depth = p->in_line,
        .jobs_in_flight = jobs_of_clients(p),
        .observed = p->config->observe.enabled,
        .slow = p->slow.count,
        .instance = p->state.instance,
        .started_ns = p->started_ns,
        .now_ns = clock_read_ns(p->clock),
        .limits = limits_of(p),
        .journal = journals_seen(p, clock_read_ns(p->clock)),
        .snapshots = saves_seen(p, clock_read_ns(p->clock)),
    };
}

void pipeline_keep_memory(struct pipeline *p)
{
    const struct observe_settings *o = &p->config->observe;
    if (!o->enabled || !o->memory_s || clock_read_ns(p->clock) < p->memory.next_ns) return;
    struct report_sources sources = sources_of(p);
    memory_history_keep(&p->memory, &sources, o->memory_s * UINT64_C(1000000000));
}

void pipeline_look(struct pipeline *p, struct look *out)
{
    struct report_sources sources = sources_of(p);
    switch (out->kind) {
    case LOOK_METRICS: metrics_look(&sources, &p->spaces, p->store, &out->metrics); break;
    case LOOK_SLOW: slow_log_copy(&p->slow, sources.now_ns, &out->slow); break;
    }
}

static size_t answer_info(const struct pipeline *p, const struct report_sources *sources,
                          const struct job *j, void *at)
{
    struct wire_info info;
    info_report(sources, &info);
    loads_report(p, j, sources->asking->is_operator, &info);
    return encode_info(j->key.request_id, &info, at);
}

static size_t answer_stats(const struct report_sources *sources, const struct job *j, void *at)
{
    struct wire_stats stats;
    stats_report(sources, j->space, &stats);
    return encode_stats(j->key.request_id, &stats, at);
}

static size_t answer_explain(const struct pipeline *p, const struct job *j, void *at)
{
    struct wire_explain explain;
    explain_report(&p->scheduler, j->space->number, j->request.last, clock_read_ns(p->clock),
                   &explain);
    explain_report_cards(p->gpu, &explain);
    explain.screen_count = screens_report(j->space, explain.screens, &explain.screens_left_out);
    return encode_explain(j->key.request_id, &explain, at);
}

static size_t answer_spaces(const struct pipeline *p, const struct report_sources *sources,
                            const struct job *j, void *at)
{
    struct wire_space found[ENCODE_SPACES_MAX];
    bool more;
    size_t count = spaces_report(sources, p->store, j->space, j->request.names[0], found,
                                 ENCODE_SPACES_MAX, &more);
    return encode_spaces(j->key.request_id, found, count, more, at);
}

static size_t answer_slowlog(const struct pipeline *p, const struct connection *c,
                             const struct job *j, void *at)
{
    struct wire_slowlog page = {.now_ns = clock_read_ns(p->clock),
                                .slow_ms = p->config->observe.slow_ms};
    const struct slow_log_view view = {j->space->name, c->peer->name, c->peer->is_operator};
    slow_log_page(&p->slow, &view, j->request.offset, &page);
    return encode_slowlog(j->key.request_id, &page, at);
}

/* *target: the job to cancel, or NULL. */
static size_t answer_cancel(struct pipeline *p, const struct job *j, void *at, struct job **target)
{
    struct job_key key = {j->key.connection, j->request.cancel_request_id};
    HASH_FIND(hh, p->in_flight, &key, sizeof key, *target);
    if (*target && (*target == j || (*target)->state == JOB_REPLYING || job_drops(*target)))
        *target = NULL;
    return encode_cancel(j->key.request_id, *target != NULL, at);
}

/* ---------------------------------------------------------------- collections */

static void create(struct pipeline *p, struct job *j)
{
    const struct job_request *q = &j->request;
    struct failure none = {0};
    struct collection *c;
    bool there = !store_collection_find(p->store, j->space, q->names[0], &none, &c);
    if (!writes_create(p, j, there) ||
        store_collection_create(p->store, j->space, q->names[0], q->dimension, q->metric,
                                &j->failure, &c))
        return;
    j->result.version = collection_info(c).version;
    drops_note_made(net_find(p->net, j->key.connection), collection_resident(c));
    records_made(p, j, collection_resident(c));
}

/* What is made is empty; a repetition is told so, too, whatever became of it. */
static size_t answer_create(struct pipeline *p, struct job *j, void *at)
{
    struct collection_info info = {.name = j->request.names[0],
                                   .dimension = j->request.dimension,
                                   .metric = j->request.metric};
    if (!writes_recall(p, j)) create(p, j);
    writes_end(p, j);
    if (j->failure.code) return 0;
    info.version = j->result.version;
    return encode_collection(j->operation, j->key.request_id, j, &info, at);
}

static size_t answer_describe(struct pipeline *p, struct job *j, void *at)
{
    struct collection *c;
    if (store_collection_find(p->store, j->space, j->request.names[0], &j->failure, &c)) return 0;
    struct collection_info info = cards_report_collection(p->gpu, c);
    return encode_collection(j->operation, j->key.request_id, NULL, &info, at);
}

static size_t answer_list(struct pipeline *p, const struct job *j, void *at)
{
    struct collection *found[64];
    struct collection_info infos[64];
    bool more;
    size_t count = store_collection_list(p->store, j->space, j->request.names[0], found, 64, &more);
    for (size_t i = 0; i < count; i++)
        infos[i] = cards_report_collection(p->gpu, found[i]);
    return encode_collection_list(j->key.request_id, infos, count, more, at);
}

bool answer_now(struct pipeline *p, struct connection *c, struct job *j)
{
    if (!operation_row(j->operation)->answered) return false;
    void *at = connection_reserve(c, ENCODE_BYTES_MAX);
    if (!at) return true;
    size_t bytes = 0;
    struct job *target = NULL;
    struct report_sources sources = sources_of(p);
    sources.asking = c->peer;
    switch (j->operation) {
    case OPERATION_PING: bytes = encode_ping(j->key.request_id, at); break;
    case OPERATION_INFO: bytes = answer_info(p, &sources, j, at); break;
    case OPERATION_STATS: bytes = answer_stats(&sources, j, at); break;
    case OPERATION_EXPLAIN: bytes = answer_explain(p, j, at); break;
    case OPERATION_CONFIG_GET: bytes = answer_config_get(p, c, j, at); break;
    case OPERATION_CONFIG_SET: bytes = answer_config_set(p, c, j, at); break;
    case OPERATION_CONFIG_RELOAD: bytes = answer_config_reload(p, c, j, at); break;
    case OPERATION_SPACES: bytes = answer_spaces(p, &sources, j, at); break;
    case OPERATION_MEMORY: bytes = answer_memory(p, &sources, j, at); break;
    case OPERATION_MEMORY_HISTORY: bytes = answer_memory_history(p, &sources, j, at); break;
    case OPERATION_SLOWLOG: bytes = answer_slowlog(p, c, j, at); break;
    case OPERATION_CANCEL: bytes = answer_cancel(p, j, at, &target); break;
    case OPERATION_SWAP: bytes = answer_swap(p, j, at); break;
    case OPERATION_CHANGES: bytes = answer_changes(p, j, at); break;
    case OPERATION_COLLECTION_CREATE: bytes = answer_create(p, j, at); break;
    case OPERATION_COLLECTION_LIST: bytes = answer_list(p, j, at); break;
    case OPERATION_COLLECTION_DESCRIBE: bytes = answer_describe(p, j, at); break;
    case OPERATION_GRAPH_CREATE: bytes = answer_graph_create(p, j, at); break;
    case OPERATION_GRAPH_LIST: bytes = answer_graph_list(p, j, at); break;
    case OPERATION_GRAPH_DESCRIBE: bytes = answer_graph_describe(p, j, at); break;
    case OPERATION_ATTRACTOR_CREATE: bytes = answer_attractor_create(p, j, at); break;
    case OPERATION_ATTRACTOR_LIST: bytes = answer_attractor_list(p, j, at); break;
    case OPERATION_ATTRACTOR_DESCRIBE: bytes = answer_attractor_describe(p, j, at); break;
    case OPERATION_SAVE: /* when it is done: saves.c */
    case OPERATION_NONE:
    case OPERATION_HELLO: /* a connection's first frame alone */
#define OPERATION(NAME, ...) case OPERATION_##NAME:
#define INTERNAL(NAME, ...)  case OPERATION_##NAME:
#include "proto/operations.def"
        break;
    }
    bool held = bytes && records_hold(p, j, at, bytes);
    if (j->failure.code) bytes = 0;
    reply_observe(p, j, BACKEND_NONE, clock_read_ns(p->clock));
    if (held) return true;
    if (bytes)
        connection_commit(c, bytes);
    else
        reply_error(p, c, (uint8_t)j->operation, j->key.request_id, &j->failure);
    if (target && !c->closing) cancel_job(p, target); /* its answer follows ours */
    return true;
}
