/* Decodes requests on graphs, and spreads. */
#include <inttypes.h>
#include <math.h>

#include "daemon/wire/decode_inside.h"
#include "kernels/spread.h"

enum { HOPS_DEFAULT = 4, SETS_MAX = 65536 };
#define SPREAD_K_MAX    (UINT32_C(1) << 31)
#define DECAY_PARAMETER 0.7F /* of the law that is used if none is named */

static const float thresholds[SPREAD_TIERS] = {0.01F, 0.05F, 0.1F};

/* ---- graphs ---- */

static enum status decode_create(const struct decode_request *r)
{
    engram_accel_v1_GraphCreateRequest m;
    enum status st = decode_named(r, "name", engram_accel_v1_GraphCreateRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.name);
    return decode_place(r, NULL, 0);
}

static enum status decode_drop(const struct decode_request *r)
{
    engram_accel_v1_GraphDropRequest m;
    enum status st = decode_named(r, "name", engram_accel_v1_GraphDropRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.name);
    return decode_place(r, NULL, 0);
}

static enum status decode_list(const struct decode_request *r)
{
    engram_accel_v1_GraphListRequest m;
    enum status st = decode_named(r, "after", engram_accel_v1_GraphListRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.after);
    return decode_place(r, NULL, 0);
}

static enum status decode_describe(const struct decode_request *r)
{
    engram_accel_v1_GraphDescribeRequest m;
    enum status st = decode_named(r, "name", engram_accel_v1_GraphDescribeRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.name);
    return decode_place(r, NULL, 0);
}

static enum status decode_add_edges(const struct decode_request *r)
{
    engram_accel_v1_GraphAddEdgesRequest m;
    enum status st = decode_named(r, "graph", engram_accel_v1_GraphAddEdgesRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.graph);
    struct job_request *q = r->out;
    q->replace = m.replace;
    const struct body_field fields[] = {
        FIELD(m, "sources", sources, true, DTYPE_UINT64, false, q->ids),
        FIELD(m, "targets", targets, true, DTYPE_UINT64, false, q->targets),
        FIELD(m, "weights", weights, true, DTYPE_FLOAT32, false, q->weights),
    };
    st = decode_place(r, fields, COUNT(fields));
    if (!st) st = decode_same_rows(r, "targets", &q->targets, "sources", &q->ids);
    if (!st) st = decode_same_rows(r, "weights", &q->weights, "sources", &q->ids);
    return st;
}

/* The number of rows follows from ids and offsets. */
static enum status check_matrix_rows(const struct decode_request *r)
{
    const struct tensor *ids = &r->out->ids, *offsets = &r->out->offsets;
    if (offsets->rows == 0)
        return decode_bad(r->f, DETAIL_BAD_OFFSETS, "offsets: 0, one more than rows wanted");
    if (ids->dtype == DTYPE_NONE || ids->rows == offsets->rows - 1) return STATUS_OK;
    return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                       "offsets: %" PRIu64 " for %" PRIu64 " ids, one more wanted", offsets->rows,
                       ids->rows);
}

static enum status decode_add_csr(const struct decode_request *r)
{
    engram_accel_v1_GraphAddCsrRequest m;
    enum status st = decode_named(r, "graph", engram_accel_v1_GraphAddCsrRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.graph);
    struct job_request *q = r->out;
    q->replace = m.replace;
    const struct body_field fields[] = {
        FIELD(m, "ids", ids, false, DTYPE_UINT64, false, q->ids),
        FIELD(m, "offsets", offsets, true, DTYPE_UINT64, false, q->offsets),
        FIELD(m, "columns", columns, true, DTYPE_UINT64, false, q->targets),
        FIELD(m, "weights", weights, true, DTYPE_FLOAT32, false, q->weights),
    };
    st = decode_place(r, fields, COUNT(fields));
    if (!st) st = check_matrix_rows(r);
    if (!st) st = decode_same_rows(r, "weights", &q->weights, "columns", &q->targets);
    return st;
}

static enum status decode_remove_edges(const struct decode_request *r)
{
    engram_accel_v1_GraphRemoveEdgesRequest m;
    enum status st = decode_named(r, "graph", engram_accel_v1_GraphRemoveEdgesRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.graph);
    struct job_request *q = r->out;
    const struct body_field fields[] = {
        FIELD(m, "sources", sources, true, DTYPE_UINT64, false, q->ids),
        FIELD(m, "targets", targets, true, DTYPE_UINT64, false, q->targets),
    };
    st = decode_place(r, fields, COUNT(fields));
    if (!st) st = decode_same_rows(r, "targets", &q->targets, "sources", &q->ids);
    return st;
}

static enum status decode_set_nodes(const struct decode_request *r)
{
    engram_accel_v1_GraphSetNodesRequest m;
    enum status st = decode_named(r, "graph", engram_accel_v1_GraphSetNodesRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.graph);
    struct job_request *q = r->out;
    const struct body_field fields[] = {
        FIELD(m, "ids", ids, true, DTYPE_UINT64, false, q->ids),
        FIELD(m, "kinds", kinds, false, DTYPE_UINT8, false, q->kinds),
        FIELD(m, "factors", factors, false, DTYPE_FLOAT32, false, q->factors),
    };
    st = decode_place(r, fields, COUNT(fields));
    if (!st && m.has_kinds) st = decode_same_rows(r, "kinds", &q->kinds, "ids", &q->ids);
    if (!st && m.has_factors) st = decode_same_rows(r, "factors", &q->factors, "ids", &q->ids);
    return st;
}

static enum status decode_remove_nodes(const struct decode_request *r)
{
    engram_accel_v1_GraphRemoveNodesRequest m;
    enum status st = decode_named(r, "graph", engram_accel_v1_GraphRemoveNodesRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.graph);
    const struct body_field fields[] = {
        FIELD(m, "ids", ids, true, DTYPE_UINT64, false, r->out->ids),
    };
    return decode_place(r, fields, COUNT(fields));
}

static enum status decode_fetch_nodes(const struct decode_request *r)
{
    engram_accel_v1_GraphFetchNodesRequest m;
    enum status st = decode_named(r, "graph", engram_accel_v1_GraphFetchNodesRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.graph);
    r->out->edges = m.edges;
    const struct body_field fields[] = {
        FIELD(m, "ids", ids, true, DTYPE_UINT64, false, r->out->ids),
    };
    return decode_place(r, fields, COUNT(fields));
}

/* ---- spread ---- */

static enum status check_mode(const struct decode_request *r,
                              const engram_accel_v1_SpreadRequest *m)
{
    struct job_spread *s = &r->out->spread;
    unsigned mode = (unsigned)m->mode, fan = (unsigned)m->fan;
    if (mode < SPREAD_LINEAR || mode > SPREAD_ENGRAM)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MODE,
                           "mode: %u, 1 (linear) or 2 (engram) wanted", mode);
    if (fan > SPREAD_FAN_DIVIDE)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MODE,
                           "fan: %u, 0 to %d wanted", fan, SPREAD_FAN_DIVIDE);
    if (mode == SPREAD_LINEAR && fan)
        return decode_bad(r->f, DETAIL_BAD_MODE, "fan: only in mode engram");
    if (mode == SPREAD_LINEAR && m->ignore_kinds)
        return decode_bad(r->f, DETAIL_BAD_MODE, "ignore_kinds: only in mode engram");
    if (mode == SPREAD_ENGRAM && m->last_hop)
        return decode_bad(r->f, DETAIL_BAD_MODE, "last_hop: only in mode linear");
    /* a path leads to a node's first touch, not to its activation after the last hop */
    if (m->last_hop && m->paths)
        return decode_bad(r->f, DETAIL_BAD_MODE, "paths: not together with last_hop");
    s->mode = mode;
    s->fan = fan;
    s->ignore_kinds = m->ignore_kinds;
    s->last_hop = m->last_hop;
    return STATUS_OK;
}

static enum status check_hops(const struct decode_request *r, uint32_t hops)
{
    if (hops > SPREAD_HOPS_MAX)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_HOPS,
                           "hops: %" PRIu32 ", 1 to %d wanted, or 0 for %d", hops, SPREAD_HOPS_MAX,
                           HOPS_DEFAULT);
    r->out->spread.hops = hops ? hops : HOPS_DEFAULT;
    return STATUS_OK;
}

/* Checks f(1) .. f(hops), which the caller has computed. */
static enum status check_table(const struct decode_request *r)
{
    const struct tensor *t = &r->out->table;
    uint32_t hops = r->out->spread.hops;
    if (t->dtype == DTYPE_NONE || t->rows != hops)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DECAY,
                           "decay_table: %" PRIu64 " values for %" PRIu32 " hops", t->rows, hops);
    const float *values = t->data;
    for (uint32_t i = 0; i < hops; i++)
        if (!isfinite(values[i]) || values[i] < 0)
            return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DECAY,
                               "decay_table: value %" PRIu32 " is %g, finite and at least 0 wanted",
                               i, (double)values[i]);
    return STATUS_OK;
}

static enum status check_decay(const struct decode_request *r,
                               const engram_accel_v1_SpreadRequest *m)
{
    struct job_spread *s = &r->out->spread;
    unsigned law = (unsigned)m->decay;
    float parameter = m->decay_parameter;
    bool named = law != engram_accel_v1_DecayLaw_DECAY_UNSPECIFIED;
    bool takes_one = law >= DECAY_EXPONENTIAL && law <= DECAY_LINEAR;
    if (law > DECAY_CONSTANT)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DECAY,
                           "decay: %u, 0 to %d wanted", law, DECAY_CONSTANT);
    if (takes_one ? !isfinite(parameter) || parameter < 0 : parameter != 0)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DECAY,
                           "decay_parameter: %g, %s", (double)parameter,
                           takes_one ? "finite and at least 0 wanted"
                           : named   ? "this law takes none"
                                     : "but no law is named");
    s->decay = named ? law : DECAY_EXPONENTIAL;
    s->decay_parameter = named ? parameter : DECAY_PARAMETER;
    if (law == DECAY_TABLE) return check_table(r);
    if (r->out->table.dtype != DTYPE_NONE)
        return decode_bad(r->f, DETAIL_BAD_DECAY, "decay_table: only with the law table");
    return STATUS_OK;
}

static enum status check_threshold(const struct decode_request *r, const char *name, bool present,
                                   float value, enum spread_tier tier)
{
    r->out->spread.thresholds[tier] = present ? value : thresholds[tier];
    if (!present || (isfinite(value) && value >= 0)) return STATUS_OK;
    return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD,
                       "%s: %g, finite and at least 0 wanted", name, (double)value);
}

static enum status check_sets(const struct decode_request *r)
{
    const struct tensor *t = &r->out->offsets;
    if (t->dtype == DTYPE_NONE) return STATUS_OK;
    if (t->rows < 2 || t->rows - 1 > SETS_MAX)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "seed_offsets: %" PRIu64 ", one more than 1 to %d sets wanted", t->rows,
                           SETS_MAX);
    return decode_rising(r, "seed_offsets", t, r->out->ids.rows, "seeds");
}

static enum status check_bounds(const struct decode_request *r,
                                const engram_accel_v1_SpreadRequest *m)
{
    if (m->k > SPREAD_K_MAX)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K,
                           "k: %" PRIu32 ", 0 to %" PRIu32 " wanted", m->k, SPREAD_K_MAX);
    r->out->k = m->k;
    r->out->spread.paths = m->paths;
    r->out->spread.touched_max = m->touched_max;
    r->out->spread.time_max_us = m->time_max_us;
    return STATUS_OK;
}

static enum status decode_spread(const struct decode_request *r)
{
    engram_accel_v1_SpreadRequest m;
    enum status st = decode_named(r, "graph", engram_accel_v1_SpreadRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.graph);
    struct job_request *q = r->out;
    q->filter_bitmap_first = m.within.bitmap_first;
    const struct body_field fields[] = {
        FIELD(m, "seed_offsets", seed_offsets, false, DTYPE_UINT64, false, q->offsets),
        FIELD(m, "seeds", seeds, true, DTYPE_UINT64, false, q->ids),
        FIELD(m, "activations", activations, false, DTYPE_FLOAT32, false, q->weights),
        FIELD(m, "decay_table", decay_table, false, DTYPE_FLOAT32, false, q->table),
        FIELD(m.within, "within.ids", ids, false, DTYPE_UINT64, false, q->filter_ids),
        FIELD(m.within, "within.bitmap", bitmap, false, DTYPE_UINT8, false, q->filter_bitmap),
    };
    st = decode_place(r, fields, COUNT(fields));
    if (!st) st = check_mode(r, &m);
    if (!st) st = check_hops(r, m.hops);
    if (!st) st = check_decay(r, &m);
    if (!st) st = check_threshold(r, "threshold", m.has_threshold, m.threshold, SPREAD_HOT);
    if (!st)
        st = check_threshold(r, "threshold_warm", m.has_threshold_warm, m.threshold_warm,
                             SPREAD_WARM);
    if (!st)
        st = check_threshold(r, "threshold_cold", m.has_threshold_cold, m.threshold_cold,
                             SPREAD_COLD);
    if (!st) st = check_bounds(r, &m);
    if (!st) st = decode_filter(r, "within");
    if (!st) st = check_sets(r);
    if (!st && m.has_activations)
        st = decode_same_rows(r, "activations", &q->weights, "seeds", &q->ids);
    return st;
}

enum status decode_graph(const struct decode_request *r, enum operation operation)
{
    switch (operation) {
    case OPERATION_SPREAD: return decode_spread(r);
    case OPERATION_GRAPH_CREATE: return decode_create(r);
    case OPERATION_GRAPH_DROP: return decode_drop(r);
    case OPERATION_GRAPH_LIST: return decode_list(r);
    case OPERATION_GRAPH_DESCRIBE: return decode_describe(r);
    case OPERATION_GRAPH_ADD_EDGES: return decode_add_edges(r);
    case OPERATION_GRAPH_ADD_CSR: return decode_add_csr(r);
    case OPERATION_GRAPH_REMOVE_EDGES: return decode_remove_edges(r);
    case OPERATION_GRAPH_SET_NODES: return decode_set_nodes(r);
    case OPERATION_GRAPH_REMOVE_NODES: return decode_remove_nodes(r);
    default: return decode_fetch_nodes(r);
    }
}
