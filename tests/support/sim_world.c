#include "tests/support/sim_world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_SEND, EVENT_END, EVENT_CANCEL, EVENT_GPU_DOWN, EVENT_GPU_UP, EVENT_LOOK };
enum { RETRY_NS = 20000, ROW_FLOATS = 32, SPLIT_QUERIES_MIN = 64 };

/* ---------------------------------------------------------------- chance */

static uint64_t next_random(struct sim_world *w) /* splitmix64 */
{
    uint64_t z = w->random += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint64_t sim_random(struct sim_world *w, uint64_t below)
{
    return next_random(w) % below;
}

static double uniform(struct sim_world *w)
{
    return (double)(next_random(w) >> 11) / 9007199254740992.0;
}

bool sim_chance(struct sim_world *w, double probability)
{
    return probability > 0 && uniform(w) < probability;
}

static uint64_t within(struct sim_world *w, struct sim_range r)
{
    if (r.least >= r.most) return r.least;
    double span = log((double)r.most / (double)r.least);
    return (uint64_t)((double)r.least * exp(span * uniform(w)));
}

/* ---------------------------------------------------------------- time */

static bool earlier(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void event_add(struct sim_world *w, uint64_t at_ns, uint32_t kind, uint32_t subject,
                      uint32_t generation)
{
    if (w->event_count == w->event_room) {
        w->event_room = w->event_room ? w->event_room * 2 : 256;
        w->events = realloc(w->events, w->event_room * sizeof *w->events);
        SIM_CHECK(w, w->events, "no memory");
    }
    struct sim_event e = {at_ns, w->event_number++, kind, subject, generation};
    uint32_t i = w->event_count++;
    for (; i && earlier(&e, &w->events[(i - 1) / 2]); i = (i - 1) / 2)
        w->events[i] = w->events[(i - 1) / 2];
    w->events[i] = e;
}

static struct sim_event event_take(struct sim_world *w)
{
    struct sim_event first = w->events[0], last = w->events[--w->event_count];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < w->event_count; i = child) {
        if (child + 1 < w->event_count && earlier(&w->events[child + 1], &w->events[child]))
            child++;
        if (!earlier(&w->events[child], &last)) break;
        w->events[i] = w->events[child];
    }
    w->events[i] = last;
    return first;
}

static void trace(struct sim_world *w, const char *what, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t said[] = {w->now_ns, (uint64_t)what[0] << 8 | (uint8_t)what[1], a, b, c};
    for (uint32_t i = 0; i < 5; i++)
        w->hash = (w->hash ^ said[i]) * 0x100000001B3u + (w->hash >> 29);
    if (w->settings.trace)
        fprintf(w->settings.trace, "%12llu %-9s %llu %llu %llu\n", (unsigned long long)w->now_ns,
                what, (unsigned long long)a, (unsigned long long)b, (unsigned long long)c);
}

/* ---------------------------------------------------------------- requests */

static uint32_t number_of(const struct sim_world *w, const struct sim_job *j)
{
    return (uint32_t)(j - w->jobs);
}

static struct sim_job *job_of(struct ticket *t)
{
    return (struct sim_job *)t;
}

static struct sim_job *job_take(struct sim_world *w, uint32_t client)
{
    SIM_CHECK(w, w->free_count, "the world is full of jobs");
    struct sim_job *j = &w->jobs[w->free_jobs[--w->free_count]];
    uint32_t generation = j->generation + 1;
    *j = (struct sim_job){.generation = generation, .client = client};
    w->jobs_used++;
    return j;
}

static void job_give(struct sim_world *w, struct sim_job *j)
{
    SIM_CHECK(w, j->state != SIM_FREE, "job %u ended twice", number_of(w, j));
    j->state = SIM_FREE;
    j->generation++;
    w->free_jobs[w->free_count++] = number_of(w, j);
    w->jobs_used--;
}

static void keep(struct sim_client *c, uint64_t ns)
{
    if (c->latency_count == c->latency_room) {
        c->latency_room = c->latency_room ? c->latency_room * 2 : 1024;
        c->latency_ns = realloc(c->latency_ns, c->latency_room * sizeof *c->latency_ns);
        if (!c->latency_ns) abort();
    }
    c->latency_ns[c->latency_count++] = ns;
}

/* The request, or a part of one, is over. */
static void end_request(struct sim_world *w, struct sim_job *j, const char *how)
{
    trace(w, how, number_of(w, j), j->ticket.server, j->client);
    struct sim_job *whole = j->whole;
    if (whole) {
        job_give(w, j);
        SIM_CHECK(w, whole->state == SIM_SPLIT && whole->parts_left, "a part without its whole");
        if (--whole->parts_left == 0) end_request(w, whole, how);
        return;
    }
    struct sim_client *c = &w->clients[j->client];
    c->ended++;
    w->done += how[0] == 'd';
    w->cancelled += how[0] == 'c';
    w->refused += how[0] == 'r';
    w->done_on[j->ticket.server] += how[0] == 'd';
    if (w->keep_latency && how[0] == 'd') keep(c, w->now_ns - j->ticket.arrived_ns);
    uint64_t think_ns = c->think_ns ? c->think_ns / 2 + sim_random(w, c->think_ns) : 0;
    event_add(w, w->now_ns + think_ns, EVENT_SEND, j->client, 0);
    job_give(w, j);
}

static void enqueue(struct sim_world *w, struct sim_job *j, enum reason gave_up)
{
    struct ticket *t = &j->ticket;
    uint32_t gpus = w->settings.gpus;
    uint32_t gpu = gpus ? SERVER_GPU + t->tenancy->tenant->space % gpus : 0;
    struct situation known = {
        .gave_up = gave_up,
        .gpu_absent = !gpus,
        .gpu_down = gpus && !w->up[gpu],
        .replica_ready = !sim_chance(w, w->settings.no_replica),
        .server = gpu,
        .dirty_bytes = sim_chance(w, w->settings.no_replica) ? sim_random(w, 1 << 20) : 0,
    };
    uint32_t depths[SIM_SERVERS];
    for (uint32_t i = 0; i < SIM_SERVERS; i++)
        depths[i] = t->tenancy->flows[i].depth;
    scheduler_enqueue(&w->scheduler, t, &known, w->now_ns);
    j->state = SIM_LINE;
    trace(w, "line", number_of(w, j), t->server, t->reason);
    sim_check_joined(w, j, !depths[t->server]);
}

static void send(struct sim_world *w, uint32_t client)
{
    struct sim_client *c = &w->clients[client];
    if (c->sent == c->requests) return;
    struct sim_job *j = job_take(w, client);
    c->sent++;
    w->sent++;
    uint64_t queries = within(w, c->queries), rows = within(w, c->rows);
    uint32_t key = c->random_key ? (uint32_t)sim_random(w, SIM_KEYS + 1) : c->key;
    struct ticket *t = &j->ticket;
    t->tenancy = w->tenancies[c->tenant];
    t->batch_key = key < SIM_KEYS ? &w->keys[w->settings.shared_keys ? 0 : c->tenant][key] : NULL;
    t->arrived_ns = w->now_ns;
    t->work = (struct work){
        .operation = OPERATION_KNN,
        .stride = ROW_FLOATS,
        .k = (uint32_t)within(w, c->k),
        .filtered = sim_chance(w, w->settings.filter),
        .gpu_able = true,
        .queries = queries,
        .rows = rows,
        .pairs = queries * rows,
    };
    t->splits = queries >= SPLIT_QUERIES_MIN && !t->work.filtered;
    if (scheduler_admit(&w->scheduler, t->tenancy, NULL)) {
        j->state = SIM_LINE;
        end_request(w, j, "refused");
        return;
    }
    enqueue(w, j, REASON_NONE);
    bool cancel = sim_chance(w, w->settings.cancel);
    if (!cancel && !sim_chance(w, w->settings.deadline)) return;
    uint64_t after_ns = sim_random(w, t->cpu_ns * 4 + 1);
    if (!cancel) t->deadline_ns = w->now_ns + after_ns; /* the pipeline withdraws it then */
    event_add(w, w->now_ns + after_ns, EVENT_CANCEL, number_of(w, j), j->generation);
}

static void cancel(struct sim_world *w, struct sim_job *j)
{
    trace(w, "withdraw", number_of(w, j), j->state, 0);
    j->cancelled = true;
    if (j->state != SIM_LINE) return; /* a part, or in flight: what comes of it is dropped */
    scheduler_withdraw(&w->scheduler, &j->ticket);
    end_request(w, j, "cancelled");
}

/* ---------------------------------------------------------------- servers */

static uint64_t true_ns(struct sim_world *w, uint32_t server, const struct work *work)
{
    const struct sim_truth *t = &w->settings.truth[server != SERVER_CPU];
    double ns = t->fixed + t->per_row * (double)work->rows + t->per_pair * (double)work->pairs;
    double factor = 1 + w->settings.noise * uniform(w);
    if (next_random(w) & 1) factor = 1 / factor;
    ns *= factor * w->slow[server];
    return ns < 1 ? 1 : (uint64_t)ns;
}

static void start(struct sim_world *w, struct sim_job *first)
{
    struct ticket *t = &first->ticket;
    uint32_t server = t->server;
    uint64_t took_ns = true_ns(w, server, &t->whole);
    uint64_t from_ns = w->now_ns + (server != SERVER_CPU ? w->settings.enqueue_ns : 0);
    first->run = (struct scheduler_run){.enqueued_ns = from_ns};
    if (from_ns < w->free_at_ns[server]) from_ns = w->free_at_ns[server];
    first->end = END_WELL;
    first->run.started_ns = from_ns;
    first->run.ended_ns = w->free_at_ns[server] = from_ns + took_ns;
    w->busy_ns[server] += took_ns;
    w->dispatches++;
    if (took_ns > w->longest_ns) w->longest_ns = took_ns;
    uint64_t told_ns = first->run.ended_ns;
    if (w->settings.scramble > 0) told_ns += sim_random(w, (uint64_t)w->settings.scramble);
    if (server != SERVER_CPU && sim_chance(w, w->settings.let_down)) first->end = END_LET_DOWN;
    if (server != SERVER_CPU && sim_chance(w, w->settings.give_back)) {
        first->end = END_REFUSED; /* at once, unrun */
        w->free_at_ns[server] = from_ns;
        w->busy_ns[server] -= took_ns;
        first->run = (struct scheduler_run){0};
        told_ns = w->now_ns + 1;
    }
    for (struct ticket *m = t; m; m = m->next) {
        SIM_CHECK(w, job_of(m)->state == SIM_LINE, "job %u starts twice", number_of(w, job_of(m)));
        job_of(m)->state = SIM_FLIGHT;
    }
    event_add(w, told_ns, EVENT_END, number_of(w, first), first->generation);
}

static void end(struct sim_world *w, struct sim_job *first)
{
    enum scheduler_end how = first->end;
    struct ticket *t = &first->ticket, *after;
    if (how == END_WELL && first->cancelled && t->members == 1) how = END_REFUSED;
    scheduler_finish(&w->scheduler, t, how, first->run.ended_ns ? &first->run : NULL);
    trace(w, "end", number_of(w, first), how, t->server);
    bool again = first->end != END_WELL;
    for (; t; t = after) {
        struct sim_job *j = job_of(t);
        after = t->next;
        SIM_CHECK(w, j->state == SIM_FLIGHT, "job %u ends, not in flight", number_of(w, j));
        if (j->cancelled) {
            end_request(w, j, "cancelled");
        } else if (again) {
            w->gave_up++;
            enqueue(w, j,
                    first->end == END_LET_DOWN ? REASON_FALLBACK_AFTER_ERROR
                                               : REASON_VRAM_PRESSURE);
        } else {
            end_request(w, j, "done");
        }
    }
}

static void split(struct sim_world *w, struct sim_job *whole, const struct dispatch *d)
{
    struct ticket *t = &whole->ticket;
    if (w->free_count < 2 || sim_chance(w, w->settings.no_split)) {
        scheduler_place(&w->scheduler, t, t->server, d->reason, w->now_ns);
        start(w, whole);
        return;
    }
    whole->state = SIM_SPLIT;
    whole->parts_left = 2;
    for (uint32_t i = 0; i < 2; i++) {
        struct sim_job *part = job_take(w, whole->client);
        uint64_t queries = i ? t->work.queries - d->split_queries : d->split_queries;
        part->whole = whole;
        part->ticket.tenancy = t->tenancy;
        part->ticket.arrived_ns = t->arrived_ns;
        part->ticket.work = t->work;
        part->ticket.work.queries = queries;
        part->ticket.work.pairs = queries * t->work.rows;
        part->state = SIM_LINE;
        scheduler_place(&w->scheduler, &part->ticket, i ? SERVER_CPU : d->server, d->reason,
                        w->now_ns);
        start(w, part);
    }
}

/* All that may start now. */
static void pump(struct sim_world *w)
{
    struct dispatch d;
    w->stalled = false;
    while (scheduler_next(&w->scheduler, w->now_ns, &d)) {
        struct sim_job *first = job_of(d.first);
        trace(w, "next", number_of(w, first), d.server, d.count);
        trace(w, "why", d.reason, d.split_queries, d.first->charge_ns);
        sim_check_dispatch(w, &d);
        if (sim_chance(w, w->settings.put_back)) {
            w->put_backs++;
            scheduler_put_back(&w->scheduler, d.first);
            sim_check_put_back(w, first);
            w->stalled = true;
            event_add(w, w->now_ns + RETRY_NS, EVENT_LOOK, 0, 0);
            return;
        }
        if (d.split_queries)
            split(w, first, &d);
        else
            start(w, first);
    }
    uint64_t wake_ns = scheduler_wake_ns(&w->scheduler);
    SIM_CHECK(w, wake_ns > w->now_ns, "asks to be woken in the past");
    if (wake_ns != UINT64_MAX) event_add(w, wake_ns, EVENT_LOOK, 0, 0);
    sim_check_resting(w);
}

/* ---------------------------------------------------------------- a card that goes and comes */

static void gpu_down(struct sim_world *w, uint32_t server)
{
    trace(w, "down", server, 0, 0);
    w->up[server] = false;
    scheduler_set_server(&w->scheduler, server, false, 0, 0);
    w->free_at_ns[server] = w->now_ns;
    for (uint32_t i = 0; i < w->job_count; i++) {
        struct sim_job *j = &w->jobs[i];
        if (j->state != SIM_FLIGHT || j->ticket.server != server || !j->ticket.members) continue;
        j->end = END_LET_DOWN;
        if (j->run.ended_ns > w->now_ns) j->run.ended_ns = w->now_ns;
        if (j->run.started_ns > w->now_ns) j->run.started_ns = w->now_ns;
        j->generation++; /* the end that was to come will not */
        end(w, j);
    }
    struct ticket *t;
    while ((t = scheduler_evacuate(&w->scheduler)))
        enqueue(w, job_of(t), REASON_NONE);
    uint64_t ns = w->settings.gpu_down_ns;
    event_add(w, w->now_ns + 1 + sim_random(w, ns * 2), EVENT_GPU_UP, server, 0);
}

static void gpu_up(struct sim_world *w, uint32_t server, bool first_time)
{
    trace(w, "up", server, 0, 0);
    w->up[server] = true;
    uint32_t slots = 2 + (uint32_t)sim_random(w, 15);
    uint64_t room = sim_chance(w, 0.5) ? 0 : 1 << 16;
    scheduler_set_server(&w->scheduler, server, true, w->settings.check ? slots : 16,
                         w->settings.check ? room : 0);
    uint64_t ns = w->settings.gpu_up_ns;
    if (!ns || (!first_time && w->jobs_used == 0)) return;
    event_add(w, w->now_ns + 1 + sim_random(w, ns * 2), EVENT_GPU_DOWN, server, 0);
}

/* ---------------------------------------------------------------- the world */

static void model_set(struct sim_world *w, uint32_t side)
{
    const struct sim_truth *t = &w->settings.truth[side];
    for (uint32_t i = 0; i < COST_OPERATIONS; i++) {
        struct cost_line *l = &w->scheduler.model.lines[side][i];
        memset(l->coefficients, 0, sizeof l->coefficients);
        l->coefficients[0] = t->fixed;
        l->coefficients[1] = t->per_row / (ROW_FLOATS * sizeof(float));
        l->coefficients[5] = t->per_pair;
    }
}

struct sim_world *sim_open(const struct sim_settings *settings)
{
    struct sim_world *w = calloc(1, sizeof *w);
    if (!w) abort();
    w->settings = *settings;
    w->random = settings->seed;
    scheduler_init(&w->scheduler, &settings->scheduler, 4);
    for (uint32_t side = 0; side < 2; side++)
        model_set(w, side);
    for (uint32_t i = 0; i < SIM_SERVERS; i++)
        w->slow[i] = 1;
    w->up[SERVER_CPU] = true;
    scheduler_set_server(&w->scheduler, SERVER_CPU, true, 8, 0);
    for (uint32_t i = 0; i < settings->gpus; i++)
        gpu_up(w, SERVER_GPU + i, true);
    for (uint32_t i = 0; i < settings->tenants; i++) {
        const struct quotas quotas = {.weight = settings->weights[i] ? settings->weights[i] : 1,
                                      .queue_max = settings->queue_max};
        w->tenants[i] = tenant_create(i + 1, &quotas);
        uint32_t principal = settings->principals[i] ? settings->principals[i] - 1 : i;
        if (!w->principals[principal]) w->principals[principal] = principal_create();
        SIM_CHECK(w, w->tenants[i] && w->principals[principal], "no memory");
        w->tenancies[i] = tenancy_create(w->principals[principal], w->tenants[i]);
        SIM_CHECK(w, w->tenancies[i], "no memory");
    }
    return w;
}

void sim_close(struct sim_world *w)
{
    for (uint32_t i = 0; i < w->settings.clients; i++)
        w->clients[i].requests = w->clients[i].sent;
    sim_run(w, UINT64_MAX);
    sim_check_end(w);
    for (uint32_t i = 0; i < w->settings.tenants; i++) {
        tenancy_destroy(w->tenancies[i]);
        tenant_destroy(w->tenants[i]);
    }
    for (uint32_t i = 0; i < SIM_TENANTS_MAX; i++)
        principal_destroy(w->principals[i]);
    for (uint32_t i = 0; i < w->settings.clients; i++)
        free(w->clients[i].latency_ns);
    free(w->jobs);
    free(w->free_jobs);
    free(w->events);
    free(w);
}

/* As many jobs as clients may have at once, each in two parts. */
static void people(struct sim_world *w)
{
    for (uint32_t i = 0; i < w->settings.clients; i++) {
        w->job_count += w->clients[i].outstanding * 3;
        for (uint32_t n = 0; n < w->clients[i].outstanding; n++)
            event_add(w, w->now_ns + sim_random(w, w->clients[i].think_ns + 1000), EVENT_SEND, i,
                      0);
    }
    w->jobs = calloc(w->job_count, sizeof *w->jobs);
    w->free_jobs = calloc(w->job_count, sizeof *w->free_jobs);
    SIM_CHECK(w, w->jobs && w->free_jobs, "no memory");
    for (uint32_t i = 0; i < w->job_count; i++)
        w->free_jobs[w->free_count++] = w->job_count - 1 - i;
}

static void happen(struct sim_world *w, const struct sim_event *e)
{
    struct sim_job *j = &w->jobs[e->subject];
    switch (e->kind) {
    case EVENT_SEND: send(w, e->subject); break;
    case EVENT_END:
        if (j->generation == e->generation) end(w, j);
        break;
    case EVENT_CANCEL:
        if (j->generation == e->generation && j->state != SIM_FREE) cancel(w, j);
        break;
    case EVENT_GPU_DOWN: gpu_down(w, e->subject); break;
    case EVENT_GPU_UP: gpu_up(w, e->subject, false); break;
    default: break;
    }
}

void sim_run(struct sim_world *w, uint64_t until_ns)
{
    if (!w->jobs) people(w);
    while (w->event_count && w->events[0].at_ns <= until_ns) {
        struct sim_event e = event_take(w);
        SIM_CHECK(w, e.at_ns >= w->now_ns, "time runs backwards");
        w->now_ns = e.at_ns;
        happen(w, &e);
        pump(w);
        if (w->settings.check && ++w->checks % 8 == 0) sim_check_sums(w);
    }
    if (w->now_ns < until_ns && until_ns != UINT64_MAX) w->now_ns = until_ns;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

uint64_t sim_latency_ns(struct sim_client *c, double q)
{
    if (!c->latency_count) return 0;
    qsort(c->latency_ns, c->latency_count, sizeof *c->latency_ns, by_size);
    return c->latency_ns[(uint64_t)(q * (double)(c->latency_count - 1))];
}
