#include "daemon/report/explain.h"

#include <math.h>
#include <string.h>

#include "daemon/ops/operation.h"
#include "daemon/report/cards_report.h"
#include "daemon/sched/work.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The work for which crossovers are reported; rows up to what a card of 192 GiB could hold. */
enum { DIMENSION = 768, K = 10, TYPICAL_ROWS = 100000, DEGREE = 8, SPREAD_ENTRY_BYTES = 24 };
static const uint64_t rows_max = UINT64_C(1) << 26;
static const uint32_t query_counts[WIRE_CROSSOVERS_MAX] = {1, 8, 64, 512};

_Static_assert((int)COST_KINDS <= (int)WIRE_COSTS_MAX,
               "each kind of work has a place in the reply");

/* The work of a spread with `sets` seed sets, each of which reaches `nodes` nodes and follows
 * their edges once. */
static struct work spread_work(enum operation operation, uint64_t sets, uint64_t nodes)
{
    return (struct work){
        .operation = operation,
        .stride = 2,
        .gpu_able = true,
        .unbounded = true,
        .k = K,
        .queries = sets,
        .rows = nodes,
        .pairs = sets * nodes * DEGREE,
        .bytes_in = sets * sizeof(uint64_t),
        .bytes_out = sets * K * SPREAD_ENTRY_BYTES,
    };
}

/* The work of a plain request, as operation_work would compute it. */
static struct work plain_work(enum operation operation, uint64_t queries, uint64_t rows)
{
    enum cost_kind kind = cost_line_of(operation);
    if (cost_rows[kind].measure == MEASURE_NODES) return spread_work(operation, queries, rows);
    struct work w = {
        .operation = operation,
        .stride = DIMENSION,
        .gpu_able = true,
        .queries = queries,
        .rows = rows,
        .pairs = queries * rows,
        .bytes_in = queries * DIMENSION * sizeof(float),
    };
    uint64_t best = queries * (K * (sizeof(uint64_t) + sizeof(float)) + sizeof(uint32_t));
    switch (kind) {
    case COST_SIMILARITY: w.bytes_out = w.pairs * sizeof(float) + rows * sizeof(uint64_t); break;
    case COST_SCORE_CANDIDATES: /* lists of ids, of this length together */
        w.k = K;
        w.listed = true;
        w.pairs = rows;
        w.bytes_in += (queries + 1 + rows) * sizeof(uint64_t);
        w.bytes_out = best;
        break;
    case COST_WEIGHTED_AVERAGE: /* ids and weights come in, one row goes out */
        w.listed = true;
        w.pairs = rows;
        w.bytes_in = rows * (sizeof(uint64_t) + sizeof(float));
        w.bytes_out = DIMENSION * sizeof(float);
        break;
    case COST_BIND:      /* rows that come, pair by pair */
        w.listed = true; /* more of them are more bytes */
        w.pairs = rows * 20;
        w.queries = 1;
        w.bytes_in = 2 * rows * DIMENSION * sizeof(float);
        w.bytes_out = w.bytes_in / 2;
        break;
    case COST_COMPLETE: /* one round */ w.bytes_out = w.bytes_in + queries * 21; break;
    case COST_COMPLETE_ENGINE: w.bytes_out = w.bytes_in + queries * 24; break;
    case COST_COVARIANCE: /* of all rows */
        w.queries = 1;
        w.pairs = rows * (DIMENSION / 2 + 1);
        w.bytes_in = 0;
        w.bytes_out = (DIMENSION + 1) * DIMENSION * sizeof(double);
        break;
    case COST_CLUSTER: /* rows of a collection */
        w.pairs = rows * rows;
        w.rows = w.pairs / 2;
        w.queries = 1;
        w.bytes_in = 0;
        w.bytes_out = rows * sizeof(uint32_t);
        w.gpu_able = false;
        break;
    case COST_BYTES:
    case COST_SPREAD:
    case COST_SPREAD_ENGRAM:
    case COST_KNN:
        w.k = K;
        w.bytes_out = best;
        break;
    }
    return w;
}

static void tell_backend(const struct scheduler *s, enum backend_id b, enum operation operation,
                         struct wire_backend_cost *out)
{
    const struct cost_line *l = &s->model.lines[b == BACKEND_GPU][cost_line_of(operation)];
    const struct probe_line *p = &s->probes.lines[b == BACKEND_GPU][cost_line_of(operation)];
    struct work typical = plain_work(operation, 1, TYPICAL_ROWS);
    *out = (struct wire_backend_cost){
        .fixed_ns = l->coefficients[0],
        .row_byte_ns = l->coefficients[1],
        .product_ns = l->coefficients[2],
        .query_ns = l->coefficients[3],
        .moved_byte_ns = l->coefficients[4],
        .pair_ns = l->coefficients[5],
        .handed_ns = l->coefficients[6],
        .drift = expf(l->drift),
        .screened = expf(l->screened.bias),
        .spread = l->spread,
        .confidence = cost_predict(&s->model, b, &typical).confidence,
        .success_permille = (uint32_t)(1000 * cost_success_rate(&s->model, b, operation) + 0.5),
        .outcomes = l->outcome_count,
        .seen = l->seen,
        .probes = p->probes,
        .surprises = p->surprising,
    };
}

static void tell_crossover(const struct cost_model *m, enum operation operation, uint32_t queries,
                           struct wire_crossover *out)
{
    struct work like = plain_work(operation, queries, TYPICAL_ROWS);
    uint64_t rows = cost_crossover_rows(m, &like, rows_max);
    struct work there = plain_work(operation, queries, rows ? rows : rows_max);
    *out = (struct wire_crossover){
        .queries = queries,
        .rows = rows,
        .cpu_ns = cost_predict(m, BACKEND_CPU, &there).ns,
        .gpu_ns = cost_predict(m, BACKEND_GPU, &there).ns,
    };
}

static void tell_operation(const struct scheduler *s, enum operation operation,
                           struct wire_operation_cost *out)
{
    out->operation = operation;
    tell_backend(s, BACKEND_CPU, operation, &out->backends[0]);
    tell_backend(s, BACKEND_GPU, operation, &out->backends[1]);
    bool one_query = operation == OPERATION_WEIGHTED_AVERAGE || operation == OPERATION_BIND ||
                     operation == OPERATION_COVARIANCE;
    out->crossover_count = one_query ? 1 : COUNT(query_counts);
    for (uint32_t i = 0; i < out->crossover_count; i++)
        tell_crossover(&s->model, operation, query_counts[i], &out->crossovers[i]);
}

/* True if a GPU can run it: otherwise there is nothing to compare. */
static bool has_choice(enum operation operation)
{
    const struct operation_ops *ops = operation_find(operation);
    return !ops || ops->gpu_plan; /* a spread in mode engram is one as work alone */
}

static struct wire_scheduler_settings settings_of(const struct scheduler *s)
{
    const struct scheduler_settings *in = &s->settings;
    return (struct wire_scheduler_settings){
        .force = in->force_split          ? BACKEND_BOTH
                 : in->force == FORCE_CPU ? BACKEND_CPU
                 : in->force == FORCE_GPU ? BACKEND_GPU
                                          : BACKEND_NONE,
        .pairs_min = in->pairs_min,
        .candidates_min = in->candidates_min,
        .nodes_min = in->nodes_min,
        .window_ns = in->window_ns,
        .quantum_ns = in->quantum_ns,
        .age_ns = in->age_ns,
        .batch_wait_ns = in->batch_wait_ns,
        .batch_queries_max = in->batch_queries_max,
        .batch_requests_max = in->batch_requests_max,
        .speedup_percent = (uint32_t)(100 * in->speedup_min + 0.5),
        .success_percent = (uint32_t)(100 * in->success_min + 0.5),
        .probe_percent = (uint32_t)(100 * s->probes.share + 0.5),
        .split = in->split,
    };
}

static uint64_t row_bytes_of(const struct work *w, enum backend_id b)
{
    double bytes = work_row_bytes(w, b);
    return bytes < 1e18 ? (uint64_t)bytes : UINT64_C(1000000000000000000);
}

static void tell_decision(const struct decision *d, uint64_t now_ns, struct wire_decision *out)
{
    *out = (struct wire_decision){
        .work = d->work,
        .server = d->server,
        .members = d->members,
        .reason = d->reason,
        .ago_ns = now_ns > d->ended_ns ? now_ns - d->ended_ns : 0,
        .cpu_ns = d->cpu_ns,
        .gpu_ns = d->gpu_ns,
        .wait_ns = d->wait_ns,
        .took_ns = d->took_ns,
        .cpu_row_bytes = d->cpu_ns ? row_bytes_of(&d->work, BACKEND_CPU) : 0,
        .gpu_row_bytes = d->gpu_ns ? row_bytes_of(&d->work, BACKEND_GPU) : 0,
        .well = d->well,
    };
    if (d->work.operation == OPERATION_KNN_BATCH) out->work.operation = OPERATION_KNN;
    if (d->work.operation == OPERATION_RECALL_BATCH) out->work.operation = OPERATION_RECALL;
}

void explain_report(const struct scheduler *s, uint32_t space, uint32_t last, uint64_t now_ns,
                    struct wire_explain *out)
{
    memset(out, 0, sizeof *out);
    out->calibrated = s->model.calibrated;
    out->workers = s->model.workers;
    out->upload_byte_ns = s->model.upload_ns_per_byte;
    out->upload_ns = s->model.upload_ns;
    out->settings = settings_of(s);
    out->decisions_total = s->decisions.count;
    for (size_t i = 0; i < COST_KINDS; i++)
        if (cost_rows[i].operation && has_choice(cost_rows[i].operation))
            tell_operation(s, cost_rows[i].operation, &out->costs[out->cost_count++]);

    struct decision found[WIRE_DECISIONS_MAX];
    out->decision_count = decisions_of(&s->decisions, space, found,
                                       last < WIRE_DECISIONS_MAX ? last : WIRE_DECISIONS_MAX);
    for (uint32_t i = 0; i < out->decision_count; i++)
        tell_decision(&found[i], now_ns, &out->decisions[i]);
}

void explain_report_cards(const struct backend *gpu, struct wire_explain *out)
{
    struct cards_seen seen;
    struct wire_info info;
    cards_look(gpu, &seen);
    cards_report_info(&seen, 0, &info);
    memcpy(out->gpu, info.gpu, sizeof out->gpu);
}
