/* spread: spreads activation from seed sets along the edges of a graph. */
#include <inttypes.h>

#include "client/calls/calls.h"

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
    ea_take_number(o->threshold, &m.has_threshold, &m.threshold);
    ea_take_number(o->threshold_warm, &m.has_threshold_warm, &m.threshold_warm);
    ea_take_number(o->threshold_cold, &m.has_threshold_cold, &m.threshold_cold);
    return m;
}

/* Refuses what would make the library read past an array; the daemon refuses the rest. */
static ea_status check(ea_client *c, const ea_spread_options *o, const ea_seeds *s)
{
    ea_status st = ea_check_spread_options(c, o);
    if (st) return st;
    if (s->offsets ? s->sets < 1 || s->sets >= INT64_MAX / 64 : s->sets > 1)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS,
                       "offsets: %s for %" PRIu64 " sets", s->offsets ? "given" : "NULL", s->sets);
    return EA_OK;
}

static ea_status build(ea_client *c, const char *graph, const ea_spread_options *options,
                       const ea_seeds *seeds, struct client_request **out)
{
    if (!options || !seeds) return ea_fail_null(c, "options or seeds");
    EA_TAKE(c, spread_options, o, options);
    EA_TAKE(c, seeds, s, seeds);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_SPREAD);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_SpreadRequest m = message_of(&o);
    uint64_t allowed;
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st && o.embeddings) st = ea_check_name(c, "embeddings", o.embeddings, m.embeddings);
    if (!st) st = check(c, &o, &s);
    if (!st && s.offsets) st = TENSOR(m, seed_offsets, U64, s.offsets, s.sets + 1, 1);
    if (!st) st = TENSOR(m, seeds, U64, s.ids, s.count, 1);
    if (!st && s.activations) st = TENSOR(m, activations, F32, s.activations, s.count, 1);
    if (!st && o.decay_table)
        st = TENSOR(m, decay_table, F32, o.decay_table, o.hops ? o.hops : HOPS_DEFAULT, 1);
    if (!st) st = ea_request_filter(c, r, "within", o.within, &m.has_within, &m.within, &allowed);
    r->expect = (struct expectation){
        .queries = s.offsets ? s.sets : 1, .columns_max = o.k ? o.k : UINT64_MAX, .paths = o.paths};
    return ea_build_end(c, r, st, engram_accel_v1_SpreadRequest_fields, &m, out);
}

ea_status ea_spread(ea_client *c, const char *graph, const ea_spread_options *options,
                    const ea_seeds *seeds, ea_spread_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_spread_result_free(out);
    struct client_request *r;
    ea_status st = build(c, graph, options, seeds, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_spread_send(ea_client *c, const char *graph, const ea_spread_options *options,
                         const ea_seeds *seeds, const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build(c, graph, options, seeds, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
