#include "client/cli/commands/bench.h"

#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define DRAIN_NS UINT64_C(10000000000) /* for replies after the last send */
#define NEVER_NS UINT64_MAX
#define IDLE_NS  UINT64_C(100000000)
#define SHOW_NS  UINT64_C(200000000)

struct bench_connection;

/* A request that may be in flight. Free slots form a list. */
struct bench_slot {
    struct bench_connection *connection;
    uint64_t intended_ns;
    struct bench_slot *next_free;
};

struct bench_connection {
    struct drive *drive;
    ea_client *client;
    struct bench_slot *slots, *free;
};

struct drive {
    const struct bench_options *o;
    const struct bench_data *d;
    struct bench_result *out;
    struct bench_connection *connections;
    struct pollfd *polls;
    uint64_t start_ns, end_ns;
    uint64_t turn; /* the connection that sends next */
    uint64_t drawn_ns;
    bool lost;
};

static void note_error(struct drive *v, ea_client *c, ea_status status)
{
    if (v->out->errors++ == 0)
        snprintf(v->out->error, sizeof v->out->error, "%s", ea_error_text(c));
    v->out->errors_of[status <= EA_UNAUTHENTICATED ? status : EA_UNKNOWN]++;
    if (status == EA_UNAVAILABLE) v->lost = true;
}

static void on_reply(ea_client *c, const ea_answer *answer, void *user)
{
    struct bench_slot *s = user;
    struct drive *v = s->connection->drive;
    uint64_t now_ns = clock_ns();
    s->next_free = s->connection->free;
    s->connection->free = s;
    if (answer->status) {
        note_error(v, c, answer->status);
        return;
    }
    v->out->done++;
    v->out->elapsed_ns = now_ns - v->start_ns;
    latency_add(&v->out->latency, now_ns - s->intended_ns);
    if (v->o->operation != BENCH_PING) meta_total_add(&v->out->meta, answer->result->meta);
}

static ea_status send_request(struct drive *v, struct bench_slot *s)
{
    const struct bench_options *o = v->o;
    const struct bench_data *d = v->d;
    ea_client *c = s->connection->client;
    uint64_t number = v->out->sent;
    if (o->operation == BENCH_PING)
        return ea_ping_send(c, &(ea_send_options){.callback = on_reply, .user = s}, NULL);

    const float *queries = d->vectors + number * o->batch % d->count * d->dimension;
    switch (o->operation) {
    case BENCH_KNN:
        return ea_knn_send(c,
                           &(ea_knn_question){.collection = d->name,
                                              .queries = queries,
                                              .query_count = o->batch,
                                              .dimension = d->dimension,
                                              .k = (uint32_t)o->k},
                           &(ea_send_options){.callback = on_reply, .user = s}, NULL);
    case BENCH_SIMILARITY:
        return ea_similarity_send(c,
                                  &(ea_similarity_question){.collection = d->name,
                                                            .queries = queries,
                                                            .query_count = o->batch,
                                                            .dimension = d->dimension},
                                  &(ea_send_options){.callback = on_reply, .user = s}, NULL);
    case BENCH_PING:
    case BENCH_SCORE: break;
    }
    uint64_t n = o->batch * o->candidates;
    const uint64_t *ids = d->candidates + number * 997 % (d->candidate_count - n);
    return ea_score_send(c,
                         &(ea_score_question){.collection = d->name,
                                              .queries = queries,
                                              .query_count = o->batch,
                                              .dimension = d->dimension,
                                              .offsets = d->offsets,
                                              .ids = ids,
                                              .count = n,
                                              .k = (uint32_t)o->k},
                         &(ea_send_options){.callback = on_reply, .user = s}, NULL);
}

/* The next connection in turn that has a slot; NULL when all are taken. */
static struct bench_slot *take_slot(struct drive *v)
{
    for (uint64_t tried = 0; tried < v->o->connections; tried++) {
        struct bench_connection *c = &v->connections[v->turn++ % v->o->connections];
        struct bench_slot *s = c->free;
        if (!s) continue;
        c->free = s->next_free;
        return s;
    }
    return NULL;
}

static uint64_t intended_ns(const struct drive *v, uint64_t number)
{
    return v->start_ns + (uint64_t)((double)number / v->o->rate * 1e9);
}

/* Sends all that is due and finds a slot. With a rate, a request that waits for a slot keeps the
 * time at which it should have been sent. Gives the time of the next one. */
static uint64_t send_due(struct drive *v, uint64_t now_ns)
{
    bool paced = v->o->rate > 0;
    while (!v->lost && now_ns < v->end_ns && !interrupt_seen()) {
        uint64_t due_ns = paced ? intended_ns(v, v->out->sent) : now_ns;
        if (due_ns > now_ns) return due_ns;
        struct bench_slot *s = take_slot(v);
        if (!s) return NEVER_NS; /* a reply will wake us */
        s->intended_ns = paced ? due_ns : clock_ns();
        ea_status status = send_request(v, s);
        v->out->sent++;
        if (status) {
            s->next_free = s->connection->free;
            s->connection->free = s;
            note_error(v, s->connection->client, status);
            if (!paced) break; /* a refusal must not spin */
        }
        if (!paced) now_ns = s->intended_ns;
    }
    return NEVER_NS;
}

static uint64_t pending(const struct drive *v)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < v->o->connections; i++)
        sum += ea_pending(v->connections[i].client);
    return sum;
}

/* Waits until `until_ns` at the latest, and moves bytes of whoever is ready. */
static void wait_and_pump(struct drive *v, uint64_t until_ns)
{
    uint64_t now_ns = clock_ns(), wait_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    if (wait_ns > IDLE_NS) wait_ns = IDLE_NS;
    struct timespec wait = {(time_t)(wait_ns / 1000000000), (long)(wait_ns % 1000000000)};
    for (uint64_t i = 0; i < v->o->connections; i++)
        v->polls[i] = (struct pollfd){.fd = ea_fd(v->connections[i].client),
                                      .events = ea_events(v->connections[i].client)};
    int ready = ppoll(v->polls, v->o->connections, &wait, NULL);
    for (uint64_t i = 0; i < v->o->connections; i++) {
        /* Also now and then without an event: deadlines pass, and a lost socket has none. */
        if (ready > 0 && v->polls[i].fd >= 0 && !v->polls[i].revents) continue;
        if (ea_pending(v->connections[i].client) == 0) continue;
        if (ea_pump(v->connections[i].client, 0) == EA_UNAVAILABLE) v->lost = true;
    }
}

static int open_connections(struct drive *v, const struct cli *cli)
{
    const struct bench_options *o = v->o;
    v->connections = calloc(o->connections, sizeof *v->connections);
    v->polls = calloc(o->connections, sizeof *v->polls);
    if (!v->connections || !v->polls) return cli_error(CLI_NO_MEMORY, "out of memory");
    for (uint64_t i = 0; i < o->connections; i++) {
        struct bench_connection *c = &v->connections[i];
        c->drive = v;
        c->slots = calloc(o->depth, sizeof *c->slots);
        ea_status status = c->slots ? cli_open(cli, &c->client) : EA_RESOURCE_EXHAUSTED;
        if (!c->client) return cli_error(CLI_NO_MEMORY, "out of memory");
        if (!status) status = ea_connect(c->client);
        if (status)
            return cli_error(cli_exit_of(status), "connection %llu of %llu: %s",
                             (unsigned long long)i + 1, (unsigned long long)o->connections,
                             ea_error_text(c->client));
        for (uint64_t k = o->depth; k-- > 0;) {
            c->slots[k] = (struct bench_slot){.connection = c, .next_free = c->free};
            c->free = &c->slots[k];
        }
    }
    return CLI_OK;
}

/* "knn: 12,345 requests, 4,115/s, 2 s left", on a terminal. */
static void show(struct drive *v, uint64_t now_ns)
{
    struct text done, rate, left;
    if (!v->drawn_ns || now_ns - v->drawn_ns < SHOW_NS) return;
    double seconds = (double)(now_ns - v->start_ns) / 1e9;
    v->drawn_ns = now_ns;
    fprintf(stderr, "\r%s%s: %s, %s/s, %s left\033[K", v->o->label ? v->o->label : "",
            bench_operation_names[v->o->operation], format_many(&done, v->out->done, "request"),
            format_count(&rate, (uint64_t)((double)v->out->done / seconds)),
            format_ns(&left, v->end_ns > now_ns ? v->end_ns - now_ns : 0));
    fflush(stderr);
}

static void run(struct drive *v)
{
    v->start_ns = clock_ns();
    v->drawn_ns = isatty(STDERR_FILENO) ? v->start_ns : 0;
    v->end_ns = v->start_ns + (uint64_t)(v->o->seconds * 1e9);
    uint64_t now_ns = v->start_ns;
    while (now_ns < v->end_ns && !v->lost && !interrupt_seen()) {
        uint64_t next_ns = send_due(v, now_ns);
        wait_and_pump(v, next_ns < v->end_ns ? next_ns : v->end_ns);
        now_ns = clock_ns();
        show(v, now_ns);
    }
    if (v->drawn_ns) fputs("\r\033[K", stderr);
    uint64_t stop_ns = now_ns < v->end_ns ? now_ns : v->end_ns;
    if (v->o->rate > 0)
        while (intended_ns(v, v->out->sent + v->out->unsent) < stop_ns)
            v->out->unsent++;
    uint64_t drain_ns = clock_ns() + DRAIN_NS;
    while (pending(v) && !v->lost && clock_ns() < drain_ns)
        wait_and_pump(v, drain_ns);
}

int bench_drive(const struct cli *cli, const struct bench_options *o, const struct bench_data *d,
                struct bench_result *out)
{
    struct drive v = {.o = o, .d = d, .out = out};
    int code = open_connections(&v, cli);
    if (!code) run(&v);
    for (uint64_t i = 0; v.connections && i < o->connections; i++) {
        ea_close(v.connections[i].client); /* what is unanswered counts as cancelled */
        free(v.connections[i].slots);
    }
    free(v.connections);
    free(v.polls);
    if (!code && v.lost) code = cli_error(CLI_UNREACHABLE, "%s", out->error);
    return code;
}
