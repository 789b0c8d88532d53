/* Whether an error is one that the model allows. */
#include <string.h>

#include "tests/support/story_check.h"
#include "tests/support/story_complete.h"
#include "tests/support/story_consolidate.h"

bool check_misses_id(const struct story_request *r, const struct story_state *seen)
{
    for (uint64_t i = 0; i < r->id_count; i++)
        if (story_place(seen, r->ids[i]) == seen->count) return true;
    return false;
}

bool check_names_ids(const struct story_request *r)
{
    return r->operation == OPERATION_SCORE_CANDIDATES ||
           r->operation == OPERATION_WEIGHTED_AVERAGE || r->operation == OPERATION_CLUSTER ||
           r->operation == OPERATION_COVARIANCE;
}

/* Whether it is answered with that, or may be. */
static bool unknown_id(const struct story_request *r)
{
    if (!check_names_ids(r) || r->name == STORY_NAMES || !r->resident) return false;
    if (!story_reads_version(r)) return check_misses_id(r, story_seen(r));
    for (const struct story_state *at = r->resident->last; at; at = at->before)
        if (story_may_see(r, at) && check_misses_id(r, at)) return true;
    return false;
}

enum status check_seeds(const struct story_request *r, const struct story_state *seen)
{
    for (uint64_t i = 0; r->list && i < r->filter_count; i++)
        if (story_place(seen, r->filter[i]) == seen->count) return STATUS_NOT_FOUND;
    for (uint64_t i = 0; r->bitmap && i < r->filter_count * 8; i++) {
        uint64_t id = r->filter_first + i;
        if (check_passes(r, id) && story_place(seen, id) == seen->count) return STATUS_NOT_FOUND;
    }
    for (uint64_t i = 0; i < r->id_count; i++) {
        if (story_place(seen, r->ids[i]) == seen->count) return STATUS_NOT_FOUND;
        if (!check_passes(r, r->ids[i])) return STATUS_INVALID_ARGUMENT;
    }
    return STATUS_OK;
}

enum status check_fate(const struct story_request *r)
{
    if (story_creates(r)) return r->resident ? STATUS_ALREADY_EXISTS : STATUS_OK;
    if (r->name != STORY_NAMES && !r->resident) return STATUS_NOT_FOUND;
    if (r->operation == OPERATION_BIND && !story_bind_finds_all(r)) return STATUS_NOT_FOUND;
    if (r->embedded && !r->reads[0].resident) return STATUS_NOT_FOUND;
    if (r->operation == OPERATION_RECALL && r->reads[0].resident->metric != METRIC_COSINE)
        return STATUS_INVALID_ARGUMENT;
    enum status st = r->expected ? story_version_fate(r) : STATUS_OK;
    if (!st) st = story_engine_fate(r);
    if (st) return st;
    if (r->operation == OPERATION_GRAPH_ADD_WEIGHTS) return story_weights_fate(r);
    /* What a reader of versions saw is known from its answer alone. */
    if (story_reads_version(r)) return STATUS_OK;
    return unknown_id(r) ? STATUS_NOT_FOUND : STATUS_OK;
}

/* Whether a spread's seeds come to that in a state that it may have seen. */
static bool seeds_may(const struct story_request *r, enum status code)
{
    if (r->operation != OPERATION_SPREAD || !r->resident) return false;
    for (const struct story_state *at = r->resident->last; at; at = at->before)
        if (story_may_see(r, at) && check_seeds(r, at) == code) return true;
    return false;
}

/* What a write that was done before, and is only to be answered again, can still meet with. */
static bool is_of_an_answer(enum status code)
{
    return code == STATUS_DEADLINE_EXCEEDED || code == STATUS_CANCELLED ||
           code == STATUS_RESOURCE_EXHAUSTED;
}

static bool is_allowed(struct story *s, const struct story_request *r, enum status code,
                       enum detail detail)
{
    if (r->done_before && !is_of_an_answer(code)) return false;
    switch (code) {
    case STATUS_DEADLINE_EXCEEDED: return r->deadline_ns && s->now_ns >= r->deadline_ns;
    case STATUS_CANCELLED: return r->cancelled;
    case STATUS_RESOURCE_EXHAUSTED:
        if (detail == DETAIL_QUOTA) return s->bytes_limited && !story_drops(r);
        return s->settings.memory_short || detail == DETAIL_QUEUE_FULL;
    case STATUS_NOT_FOUND:
        if (r->operation == OPERATION_BIND && story_bind_may_miss(r)) return true;
        return code == check_fate(r) || (story_reads_version(r) && unknown_id(r)) ||
               seeds_may(r, code) || story_learn_may(r, code);
    case STATUS_UNAVAILABLE: return r->token && detail == DETAIL_TOKEN_BUSY;
    case STATUS_ABORTED:
        if (story_drops(r)) return r->expected; /* others may have been about to write */
        return code == check_fate(r);
    case STATUS_INVALID_ARGUMENT:
        if (r->operation == OPERATION_BIND && detail == DETAIL_NORM_OVERFLOW)
            return story_bind_may_overflow(r);
        if (story_few_rows_may(r, code)) return true;
        return code == check_fate(r) || seeds_may(r, code) || story_learn_may(r, code);
    case STATUS_FAILED_PRECONDITION:
        if (story_complete_may_be_empty(r) || story_few_rows_may(r, code)) return true;
        return code == check_fate(r);
    case STATUS_ALREADY_EXISTS: return code == check_fate(r);
    default: return false;
    }
}

void check_error(struct story *s, struct story_request *r, const struct story_reply *reply)
{
    engram_accel_v1_Error e = engram_accel_v1_Error_init_zero;
    check_decode(s, r, reply, engram_accel_v1_Error_fields, &e);
    if (!is_allowed(s, r, (enum status)e.code, (enum detail)e.detail))
        WRONG(s, r, "%s, %s: %s", status_name((enum status)e.code),
              detail_name((enum detail)e.detail), e.message);
    if (e.code == STATUS_ABORTED && !story_drops(r) && e.version != story_seen(r)->version)
        WRONG(s, r, "%s; the version is %llu", e.message,
              (unsigned long long)story_seen(r)->version);
    if (r->applied) WRONG(s, r, "it was refused (%s), but has been done", e.message);
    if (r->made) WRONG(s, r, "it was refused (%s), but the name has changed", e.message);
    s->errors++;
    s->by_code[e.code % 17]++;
}
