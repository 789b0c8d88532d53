#include "daemon/sched/scheduler.h"

#include <assert.h>
#include <string.h>

#include "daemon/sched/fair.h"
#include "daemon/sched/forecast.h"
#include "daemon/sched/flows.h"

#define PROBE_SHARE 0.02 /* until the pipeline sets it, as CPU_SLOTS */

enum { CPU_SLOTS = 16 };

void scheduler_init(struct scheduler *s, const struct scheduler_settings *settings,
                    uint32_t workers)
{
    memset(s, 0, sizeof *s);
    s->settings = *settings;
    s->wake_ns = UINT64_MAX;
    s->put_off_round = 1;
    cost_init(&s->model, workers);
    probes_init(&s->probes, PROBE_SHARE);
    scheduler_set_server(s, SERVER_CPU, true, CPU_SLOTS, 0);
}

void scheduler_set_server(struct scheduler *s, uint32_t server, bool usable, uint32_t slots_max,
                          uint64_t room_bytes)
{
    assert(server < SERVERS_MAX);
    struct server *sv = &s->servers[server];
    sv->usable = usable;
    sv->slots_max = slots_max;
    sv->room_bytes = room_bytes;
    if (server >= s->server_count) s->server_count = server + 1;
}

struct ticket *scheduler_evacuate(struct scheduler *s)
{
    for (uint32_t i = 0; i < s->server_count; i++) {
        struct server *sv = &s->servers[i];
        if (sv->usable || !sv->flow_count) continue;
        struct ticket *t = fair_first(sv)->head;
        flows_remove(s, t);
        return t;
    }
    return NULL;
}

/* ---------------------------------------------------------------- the way in */

/* The size that is compared with the minimum for the GPU: scores, or nodes likely to be touched. */
static uint64_t counted(const struct work *w)
{
    if (work_measure(w) == MEASURE_NOTHING) return w->rows;
    if (work_measure(w) != MEASURE_NODES) return w->pairs;
    uint64_t nodes;
    return __builtin_mul_overflow(w->rows, w->queries, &nodes) ? UINT64_MAX : nodes + 1;
}

static uint64_t floor_of(const struct scheduler *s, const struct work *w)
{
    /* Few candidates for each of many queries are enough work together. */
    if (w->listed && w->queries >= s->settings.candidates_min) return 0;
    if (w->listed) return s->settings.candidates_min;
    switch (work_measure(w)) {
    case MEASURE_CANDIDATES: return s->settings.candidates_min;
    case MEASURE_NODES: return s->settings.nodes_min;
    case MEASURE_NOTHING:
    case MEASURE_PAIRS: return s->settings.pairs_min;
    }
    return s->settings.pairs_min;
}

/* Asks how certain the predictions are only where it matters: the GPU is predicted to end sooner,
 * but by less than is required of a guess. */
static void predict_surely(const struct scheduler *s, const struct work *w, struct pick_input *in)
{
    double cpu = (double)(in->cpu_wait_ns + in->cpu.ns), run = (double)in->gpu.ns;
    double before = (double)(in->gpu_wait_ns + (in->replica_ready ? in->upload_ns : 0));
    if (before + run > cpu || before + run * s->settings.speedup_min <= cpu) return;
    in->cpu.confidence = cost_predict(&s->model, BACKEND_CPU, w).confidence;
    in->gpu.confidence = cost_predict(&s->model, BACKEND_GPU, w).confidence;
}

/* Who joins others in line ends with them: its own run is only what it adds to theirs, whose time
 * is among what it waits for. Returns what it adds to the queue. */
static uint64_t join(const struct scheduler *s, const struct ticket *t, uint32_t server,
                     struct prediction *run)
{
    uint64_t added_ns = forecast_added_ns(s, t, server, run->busy_ns);
    if (added_ns < run->busy_ns) run->ns = added_ns < run->ns ? added_ns : run->ns;
    return added_ns;
}

/* Predicts what t would take and wait on both backends, and stores that in t. */
static void predict(const struct scheduler *s, struct ticket *t, const struct situation *known,
                    uint32_t gpu, struct pick_input *in, uint64_t adds[2], uint64_t now_ns)
{
    const struct work *w = &t->work;
    const struct flow *flows = t->tenancy->flows;
    in->cpu = forecast_work(s, SERVER_CPU, w);
    /* A ticket that the GPU gave up has waited before: it goes to the front of its queue. */
    uint64_t own_ns = known->gave_up ? 0 : flows[SERVER_CPU].queued_ns;
    in->cpu_wait_ns = forecast_wait_ns(s, t, SERVER_CPU, own_ns, in->cpu.busy_ns, now_ns);
    t->cpu_ns = in->cpu.ns;
    t->gpu_ns = t->upload_ns = 0;
    adds[SERVER_CPU] = join(s, t, SERVER_CPU, &in->cpu);
    if (gpu == SERVER_CPU || !w->gpu_able) return;
    in->gpu = forecast_work(s, gpu, w);
    in->upload_ns = known->dirty_bytes ? cost_upload_ns(&s->model, known->dirty_bytes) : 0;
    in->gpu_wait_ns = forecast_wait_ns(s, t, gpu, flows[gpu].queued_ns, in->gpu.busy_ns, now_ns);
    in->success_rate = cost_success_rate(&s->model, BACKEND_GPU, w->operation);
    t->upload_ns = in->upload_ns;
    t->gpu_ns = in->gpu.ns + in->upload_ns;
    adds[1] = join(s, t, gpu, &in->gpu) + in->upload_ns;
    predict_surely(s, w, in);
}

/* Moves t to the backend that was not chosen, if a probe is due. Only the difference of the waits
 * counts as its cost, since the waits themselves are the time of the tickets ahead. */
static void probe(struct scheduler *s, const struct ticket *t, const struct pick_input *in,
                  struct pick *p)
{
    uint64_t cpu_run_ns = in->cpu.ns, gpu_run_ns = in->gpu.ns + in->upload_ns;
    uint64_t cpu_ns = cpu_run_ns + in->cpu_wait_ns, gpu_ns = gpu_run_ns + in->gpu_wait_ns;
    bool on_gpu = p->backend == BACKEND_GPU;
    enum backend_id other = on_gpu ? BACKEND_CPU : BACKEND_GPU;
    uint64_t run_ns = on_gpu ? gpu_run_ns : cpu_run_ns;
    uint64_t chosen_ns = on_gpu ? gpu_ns : cpu_ns, other_ns = on_gpu ? cpu_ns : gpu_ns;
    uint64_t extra_ns = other_ns > chosen_ns ? other_ns - chosen_ns : 0;
    if (!probes_due(&s->probes, other, t->work.operation, run_ns, run_ns + extra_ns)) return;
    p->backend = other;
    p->reason = REASON_PROBE;
    s->counters.probes++;
}

/* If the model wrongly predicts that the GPU is slower, no run can correct it while there is no
 * replica. So now and then a replica is made as a probe, at the cost of its upload. */
static bool may_want_replica(struct scheduler *s, const struct ticket *t,
                             const struct pick_input *in, const struct pick *p)
{
    if (p->reason != REASON_PREDICTED_SLOWER || in->replica_ready || p->wants_replica) return false;
    uint64_t other_ns = t->cpu_ns + in->upload_ns;
    return in->gpu.ns &&
           probes_due(&s->probes, BACKEND_GPU, t->work.operation, t->cpu_ns, other_ns);
}

bool scheduler_enqueue(struct scheduler *s, struct ticket *t, const struct situation *now_known,
                       uint64_t now_ns)
{
    uint32_t gpu = now_known->server;
    /* there is no usable GPU */
    if (gpu >= s->server_count || !s->servers[gpu].usable) gpu = SERVER_CPU;
    struct pick_input in = {
        .force = s->settings.force,
        .gave_up = now_known->gave_up,
        .gpu_absent = now_known->gpu_absent,
        .gpu_down = now_known->gpu_down || gpu == SERVER_CPU,
        .gpu_full = now_known->gpu_full,
        .replica_ready = now_known->replica_ready,
        .replica_refused = now_known->replica_refused,
        .vram_low = now_known->vram_low,
        .pairs = t->work.gpu_able ? counted(&t->work) : 0,
        .pairs_min = floor_of(s, &t->work),
        .speedup_min = s->settings.speedup_min,
        .success_rate = 1,
        .success_min = s->settings.success_min,
    };
    t->members = 0;
    t->lead_ns = 0;
    t->put_off = 0;
    uint64_t adds[2] = {0};
    predict(s, t, now_known, gpu, &in, adds, now_ns);
    if (s->settings.floors_only) in.cpu.ns = in.gpu.ns = 0;
    struct pick p = pick_backend(&in);
    if (p.open) probe(s, t, &in, &p);
    if (may_want_replica(s, t, &in, &p)) p.wants_replica = true;
    bool on_gpu = p.backend == BACKEND_GPU;
    t->server = on_gpu ? gpu : SERVER_CPU;
    t->other = SERVERS_MAX;
    if (p.open && (p.reason == REASON_CHOSEN_FASTER || p.reason == REASON_PREDICTED_SLOWER))
        t->other = on_gpu ? SERVER_CPU : gpu;
    t->reason = p.reason;
    t->wait_ns = on_gpu ? in.gpu_wait_ns : in.cpu_wait_ns;
    t->charge_ns = adds[on_gpu];
    s->counters.decisions++;
    if (now_known->gave_up)
        flows_push_front(s, t, now_ns);
    else
        flows_push(s, t, now_ns);
    return p.wants_replica;
}

void scheduler_withdraw(struct scheduler *s, struct ticket *t)
{
    flows_remove(s, t);
}

/* ---------------------------------------------------------------- bounds */

/* When half of what is queued will be done, over all servers. */
struct drain {
    double halves_ns, rate; /* rate: the share of a server's time */
    uint64_t ahead_ns;
};

/* Adds what is queued for one server: half of it is done after until_ns. */
static void drain_add(struct drain *d, const struct server *sv, uint64_t half_ns, uint64_t until_ns)
{
    d->halves_ns += (double)half_ns;
    d->rate += until_ns ? (double)half_ns / (double)until_ns : 1;
    if (sv->charged_ns < d->ahead_ns) d->ahead_ns = sv->charged_ns;
}

static uint64_t drain_ns(const struct drain *d)
{
    return d->rate > 0 ? d->ahead_ns + (uint64_t)(d->halves_ns / d->rate) : 0;
}

uint64_t scheduler_drain_ns(const struct scheduler *s, const struct tenant *t)
{
    struct drain d = {.ahead_ns = UINT64_MAX};
    for (uint32_t i = 0; i < s->server_count; i++) {
        for (const struct tenancy *l = t->tenancies; l; l = l->space_next) {
            const struct flow *f = &l->flows[i];
            uint64_t half_ns = f->queued_ns / 2;
            /* Others take their share only as long as they have work. */
            if (f->depth)
                drain_add(&d, &s->servers[i], half_ns,
                          fair_ahead_ns(&s->servers[i], f, half_ns, 0));
        }
    }
    return drain_ns(&d);
}

static uint64_t drain_of_principal_ns(const struct scheduler *s, const struct principal *p)
{
    struct drain d = {.ahead_ns = UINT64_MAX};
    for (uint32_t i = 0; i < s->server_count; i++) {
        const struct server *sv = &s->servers[i];
        const struct stake *own = &p->stakes[i];
        uint64_t half_ns = own->queued_ns / 2, others_ns = sv->queued_ns - own->queued_ns;
        if (own->flows.count)
            drain_add(&d, sv, half_ns,
                      half_ns + round_ahead_ns(&sv->principals, &own->turn, half_ns, others_ns));
    }
    return drain_ns(&d);
}

static enum status refuse(struct failure *f, const char *who, uint32_t waiting, const char *key,
                          uint64_t after_ns)
{
    enum status st =
        failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUEUE_FULL,
                    "%s has %u requests in line, as many as it may (%s)", who, waiting, key);
    uint64_t ms = after_ns / 1000000 + 1;
    if (f) f->retry_after_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
    return st;
}

enum status scheduler_admit(struct scheduler *s, const struct tenancy *l, struct failure *f)
{
    struct principal *p = l->principal;
    struct tenant *t = l->tenant;
    uint32_t waiting = p->queued + p->coming;
    if (p->queue_max && waiting >= p->queue_max) {
        p->refused_queue++;
        return refuse(f, "the peer", waiting, "peers.queue", drain_of_principal_ns(s, p));
    }
    waiting = t->queued + t->coming;
    if (!t->quotas.queue_max || waiting < t->quotas.queue_max) return STATUS_OK;
    if (!l->queued && !l->coming) return STATUS_OK; /* others fill the queue */
    t->refused_queue++;
    return refuse(f, "the space", waiting, "quotas.queue", scheduler_drain_ns(s, t));
}
