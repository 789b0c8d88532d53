/* spread: from seed sets along the edges of a graph. */
#include "client/client.h"

#include <inttypes.h>
#include <stdlib.h>

#define F32 engram_accel_v1_Dtype_DTYPE_FLOAT32
#define U64 engram_accel_v1_Dtype_DTYPE_UINT64
#define TENSOR(message, member, dtype, data, rows)                                                \
    ea_request_tensor(c, r, #member, &(message).has_##member, &(message).member, (dtype), (data), \
                      (rows), 1)

enum { HOPS_DEFAULT = 4, HOPS_MAX = 100 };

static void take_threshold(const float *from, bool *present, float *value)
{
    *present = from != NULL;
    if (from) *value = *from;
}

static engram_accel_v1_SpreadRequest message_of(const ea_spread_options *o)
{
    engram_accel_v1_SpreadRequest m = {
        .mode = (engram_accel_v1_SpreadMode)o->mode,
        .hops = o->hops,
        .decay = (engram_accel_v1_DecayLaw)o->decay,
        .decay_parameter = o->decay_parameter,
        .fan = (engram_accel_v1_FanEffect)o->fan,
        .ignore_kinds = o->ignore_kinds,
        .last_hop = o->last_hop,
        .paths = o->paths,
        .k = o->k,
        .touched_max = o->touched_max,
        .time_max_us = o->time_max_us,
    };
    take_threshold(o->threshold, &m.has_threshold, &m.threshold);
    take_threshold(o->threshold_warm, &m.has_threshold_warm, &m.threshold_warm);
    take_threshold(o->threshold_cold, &m.has_threshold_cold, &m.threshold_cold);
    return m;
}

/* What would make us read past an array. The rest the daemon refuses. */
static ea_status check(ea_client *c, const ea_spread_options *o, const uint64_t *offsets,
                       uint64_t sets)
{
    if (o->hops > HOPS_MAX)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_HOPS,
                       "hops: %" PRIu32 ", 1 to %d wanted, or 0 for %d", o->hops, HOPS_MAX,
                       HOPS_DEFAULT);
    if ((o->decay == EA_DECAY_TABLE) != (o->decay_table != NULL))
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_DECAY, "decay_table: %s",
                       o->decay_table ? "only with the law table" : "NULL for the law table");
    if (offsets ? sets < 1 || sets >= INT64_MAX / 64 : sets > 1)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS,
                       "offsets: %s for %" PRIu64 " sets", offsets ? "given" : "NULL", sets);
    return EA_OK;
}

ea_status ea_build_spread(ea_client *c, const char *graph, const ea_spread_options *o,
                          const uint64_t *offsets, uint64_t sets, const uint64_t *seeds,
                          const float *activations, uint64_t n, struct client_request **out)
{
    if (!o) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "options: NULL");
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_SPREAD);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_SpreadRequest m = message_of(o);
    uint64_t allowed;
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = check(c, o, offsets, sets);
    if (!st && offsets) st = TENSOR(m, seed_offsets, U64, offsets, sets + 1);
    if (!st) st = TENSOR(m, seeds, U64, seeds, n);
    if (!st && activations) st = TENSOR(m, activations, F32, activations, n);
    if (!st && o->decay_table)
        st = TENSOR(m, decay_table, F32, o->decay_table, o->hops ? o->hops : HOPS_DEFAULT);
    if (!st) st = ea_request_filter(c, r, "within", o->within, &m.has_within, &m.within, &allowed);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_SpreadRequest_fields, &m);
    r->expect = (struct expectation){
        .queries = offsets ? sets : 1, .columns_max = o->k ? o->k : UINT64_MAX, .paths = o->paths};
    if (st)
        ea_request_release(c, r);
    else
        *out = r;
    return st;
}

void ea_spread_result_free(ea_spread_result *r)
{
    if (!r) return;
    free(r->memory);
    *r = (ea_spread_result){0};
}

ea_status ea_spread(ea_client *c, const char *graph, const ea_spread_options *options,
                    const uint64_t *offsets, uint64_t sets, const uint64_t *seeds,
                    const float *activations, uint64_t n, ea_spread_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out: NULL");
    ea_spread_result_free(out);
    struct client_request *r;
    ea_status st = ea_build_spread(c, graph, options, offsets, sets, seeds, activations, n, &r);
    if (st) return st;
    ea_spread_result spread;
    ea_result result = {0};
    r->out = &spread;
    st = ea_call(c, r, &result);
    if (st) return st;
    *out = spread;
    out->memory = result.memory;
    return EA_OK;
}
