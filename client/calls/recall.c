/* recall: the nearest rows of cues, and what a spread from them lights up. */
#include <inttypes.h>

#include "client/calls/calls.h"

enum { RESULTS_DEFAULT = 100 };

static engram_accel_v1_RecallRequest message_of(const ea_recall_question *q,
                                                const ea_spread_options *o)
{
    engram_accel_v1_RecallRequest m = {
        .results = q->results,
        .k = q->k,
        .has_time_max_us = q->time_max_us != NULL,
        .time_max_us = q->time_max_us ? *q->time_max_us : 0,
        .mode = (engram_accel_v1_SpreadMode)o->mode,
        .hops = o->hops,
        .decay = (engram_accel_v1_DecayLaw)o->decay,
        .decay_parameter = o->decay_parameter,
        .fan = (engram_accel_v1_FanEffect)o->fan,
        .ignore_kinds = o->ignore_kinds,
        .last_hop = o->last_hop,
        .paths = o->paths,
        .touched_max = o->touched_max,
        .ignore_embeddings = q->ignore_embeddings,
    };
    ea_take_number(q->threshold, &m.has_threshold, &m.threshold);
    ea_take_number(q->width, &m.has_width, &m.width);
    ea_take_number(q->activation_min, &m.has_activation_min, &m.activation_min);
    ea_take_number(q->boost, &m.has_boost, &m.boost);
    ea_take_number(o->threshold, &m.has_threshold_hot, &m.threshold_hot);
    ea_take_number(o->threshold_warm, &m.has_threshold_warm, &m.threshold_warm);
    ea_take_number(o->threshold_cold, &m.has_threshold_cold, &m.threshold_cold);
    return m;
}

/* Refuses what would make the library read past an array, or has no place in the message; the
 * daemon refuses the rest. */
static ea_status check(ea_client *c, const ea_recall_question *q, const ea_spread_options *o)
{
    if (q->cues && q->cue_ids)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                       "cues and cue_ids exclude each other");
    if (q->cue_offsets ? q->lists < 1 || q->lists >= INT64_MAX / 64 : q->lists > 0)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS,
                       "cue_offsets: %s for %" PRIu64 " lists", q->cue_offsets ? "given" : "NULL",
                       q->lists);
    if (o->k || o->time_max_us)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_NONE,
                       "spread: %s is said by the question itself", o->k ? "k" : "time_max_us");
    return ea_check_spread_options(c, o);
}

static ea_status build(ea_client *c, const ea_recall_question *question,
                       struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, recall_question, q, question);
    ea_spread_options o = {0};
    if (q.spread) ea_copy_struct(&o, sizeof o, q.spread, c->sizes.spread_options);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_RECALL);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_RecallRequest m = message_of(&q, &o);
    uint64_t allowed;
    ea_status st = ea_check_name(c, "graph", q.graph, m.graph);
    if (!st) st = ea_check_name(c, "collection", q.collection, m.collection);
    if (!st && o.embeddings) st = ea_check_name(c, "embeddings", o.embeddings, m.embeddings);
    if (!st) st = check(c, &q, &o);
    if (!st && !q.cue_ids) st = ea_check_dimension(c, q.dimension);
    if (!st && !q.cue_ids) st = TENSOR(m, cues, F32, q.cues, q.cue_count, q.dimension);
    if (!st && q.cue_ids) st = TENSOR(m, cue_ids, U64, q.cue_ids, q.cue_count, 1);
    if (!st && q.cue_offsets) st = TENSOR(m, cue_offsets, U64, q.cue_offsets, q.lists + 1, 1);
    if (!st && o.decay_table)
        st = TENSOR(m, decay_table, F32, o.decay_table, o.hops ? o.hops : HOPS_DEFAULT, 1);
    if (!st) st = ea_request_filter(c, r, "within", o.within, &m.has_within, &m.within, &allowed);
    r->expect = (struct expectation){.queries = q.cue_offsets ? q.lists : q.cue_count,
                                     .columns_max = q.results ? q.results : RESULTS_DEFAULT,
                                     .paths = o.paths};
    return ea_build_end(c, r, st, engram_accel_v1_RecallRequest_fields, &m, out);
}

ea_status ea_recall(ea_client *c, const ea_recall_question *question, ea_recall_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_recall_result_free(out);
    struct client_request *r;
    ea_status st = build(c, question, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_recall_send(ea_client *c, const ea_recall_question *question,
                         const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build(c, question, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
