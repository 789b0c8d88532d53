/* hrr: holographic operations: binding, sums, permutations, random vectors. */
#include <inttypes.h>
#include <string.h>

#include "client/calls/calls.h"

/* Where an operand, or a destination, goes in a message, and what its name is there. */
struct operand_fields {
    const char *name;
    char *collection;
    bool *has_rows, *has_ids;
    engram_accel_v1_Tensor *rows, *ids;
};
#define OPERAND(m, x)                                                                           \
    ((struct operand_fields){#x, (m).x, &(m).has_##x##_rows, &(m).has_##x##_ids, &(m).x##_rows, \
                             &(m).x##_ids})
#define INTO(m) \
    ((struct operand_fields){"into", (m).into, NULL, &(m).has_into_ids, NULL, &(m).into_ids})

static ea_status add_operand(ea_client *c, struct client_request *r, const ea_operand *o,
                             uint32_t dimension, struct operand_fields to)
{
    if (o->collection ? o->rows != NULL : o->ids != NULL)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                       "%s: ids are of a collection, rows are sent along without one", to.name);
    if (o->collection) {
        ea_status st = ea_check_name(c, to.name, o->collection, to.collection);
        return st ? st
                  : ea_request_tensor(c, r, to.name, to.has_ids, to.ids, U64, o->ids, o->count, 1);
    }
    ea_status st = ea_check_dimension(c, dimension);
    return st ? st
              : ea_request_tensor(c, r, to.name, to.has_rows, to.rows, F32, o->rows, o->count,
                                  dimension);
}

/* Also says what is expected of the reply: `count` results, of `dimension` if that is not 0. */
static ea_status add_into(ea_client *c, struct client_request *r, const ea_into *into,
                          uint64_t count, uint32_t dimension, struct operand_fields to)
{
    r->expect = (struct expectation){
        .rows = count, .dimension = dimension, .stored = into->collection || into->ids};
    if (!r->expect.stored) return EA_OK;
    ea_status st = ea_check_name(c, to.name, into->collection, to.collection);
    return st ? st
              : ea_request_tensor(c, r, "into_ids", to.has_ids, to.ids, U64, into->ids, count, 1);
}

static ea_into take_into(const ea_client *c, const ea_into *given)
{
    ea_into into = {0};
    if (given) ea_copy_struct(&into, sizeof into, given, c->sizes.into);
    return into;
}

/* A repetition would read what the first one has written. */
static bool same(const char *into, const char *read)
{
    return into[0] && strcmp(into, read) == 0;
}

/* ---- pairs ---- */

/* The two messages differ in `exact` alone, which is encoded only where it is true. */
static ea_status build_pairs(ea_client *c, const ea_bind_question *question, bool unbind,
                             struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, bind_question, q, question);
    if (!q.a || !q.b) return ea_fail_null(c, q.a ? "b" : "a");
    EA_TAKE(c, operand, a, q.a);
    EA_TAKE(c, operand, b, q.b);
    const ea_into into = take_into(c, q.into);
    if (!unbind && q.exact)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_NONE, "exact: only ea_unbind has it");
    struct client_request *r = ea_request_take(c, unbind ? engram_accel_v1_Kind_KIND_UNBIND
                                                         : engram_accel_v1_Kind_KIND_BIND);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_UnbindRequest m = {.normalize = q.normalize, .exact = q.exact};
    uint32_t dimension = a.collection && b.collection ? 0 : q.dimension;
    ea_status st = add_operand(c, r, &a, q.dimension, OPERAND(m, a));
    if (!st) st = add_operand(c, r, &b, q.dimension, OPERAND(m, b));
    if (!st) st = add_into(c, r, &into, a.count == 1 ? b.count : a.count, dimension, INTO(m));
    if (same(m.into, m.a) || same(m.into, m.b)) r->repeatable = false;
    return ea_build_write(c, r, st, engram_accel_v1_UnbindRequest_fields, &m, into.write, out);
}

ea_status ea_bind(ea_client *c, const ea_bind_question *question, ea_hrr_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_hrr_result_free(out);
    struct client_request *r;
    ea_status st = build_pairs(c, question, false, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_bind_send(ea_client *c, const ea_bind_question *question, const ea_send_options *how,
                       uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_pairs(c, question, false, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

ea_status ea_unbind(ea_client *c, const ea_bind_question *question, ea_hrr_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_hrr_result_free(out);
    struct client_request *r;
    ea_status st = build_pairs(c, question, true, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_unbind_send(ea_client *c, const ea_bind_question *question, const ea_send_options *how,
                         uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_pairs(c, question, true, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- lists ---- */

/* What would make the library read past an array; the daemon refuses the rest. */
static ea_status check_lists(ea_client *c, const ea_list_question *q)
{
    if (q->offsets ? q->lists >= 1 && q->lists < INT64_MAX / 64 : q->lists <= 1) return EA_OK;
    return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS,
                   "offsets: %s for %" PRIu64 " lists", q->offsets ? "given" : "NULL", q->lists);
}

/* The two messages differ in `weights` alone, which is encoded only where there are some. */
static ea_status build_lists(ea_client *c, const ea_list_question *question, bool superpose,
                             struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, list_question, q, question);
    if (!q.a) return ea_fail_null(c, "a");
    EA_TAKE(c, operand, a, q.a);
    const ea_into into = take_into(c, q.into);
    if (!superpose && q.weights)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_WEIGHT,
                       "weights: only ea_superpose has them");
    struct client_request *r = ea_request_take(c, superpose ? engram_accel_v1_Kind_KIND_SUPERPOSE
                                                            : engram_accel_v1_Kind_KIND_BIND_MANY);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_SuperposeRequest m = {.normalize = q.normalize};
    uint64_t lists = q.offsets ? q.lists : 1;
    ea_status st = check_lists(c, &q);
    if (!st) st = add_operand(c, r, &a, q.dimension, OPERAND(m, a));
    if (!st && q.offsets) st = TENSOR(m, offsets, U64, q.offsets, lists + 1, 1);
    if (!st && q.weights) st = TENSOR(m, weights, F32, q.weights, a.count, 1);
    if (!st) st = add_into(c, r, &into, lists, a.collection ? 0 : q.dimension, INTO(m));
    if (same(m.into, m.a)) r->repeatable = false;
    return ea_build_write(c, r, st, engram_accel_v1_SuperposeRequest_fields, &m, into.write, out);
}

ea_status ea_bind_many(ea_client *c, const ea_list_question *question, ea_hrr_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_hrr_result_free(out);
    struct client_request *r;
    ea_status st = build_lists(c, question, false, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_bind_many_send(ea_client *c, const ea_list_question *question,
                            const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_lists(c, question, false, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

ea_status ea_superpose(ea_client *c, const ea_list_question *question, ea_hrr_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_hrr_result_free(out);
    struct client_request *r;
    ea_status st = build_lists(c, question, true, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_superpose_send(ea_client *c, const ea_list_question *question,
                            const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_lists(c, question, true, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- permutations and random vectors ---- */

static ea_status build_permute(ea_client *c, const ea_permute_question *question,
                               struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, permute_question, q, question);
    if (!q.a) return ea_fail_null(c, "a");
    EA_TAKE(c, operand, a, q.a);
    const ea_into into = take_into(c, q.into);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_PERMUTE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_PermuteRequest m = {.normalize = q.normalize, .shift = q.shift};
    ea_status st = add_operand(c, r, &a, q.dimension, OPERAND(m, a));
    if (!st) st = add_into(c, r, &into, a.count, a.collection ? 0 : q.dimension, INTO(m));
    if (same(m.into, m.a)) r->repeatable = false;
    return ea_build_write(c, r, st, engram_accel_v1_PermuteRequest_fields, &m, into.write, out);
}

ea_status ea_permute(ea_client *c, const ea_permute_question *question, ea_hrr_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_hrr_result_free(out);
    struct client_request *r;
    ea_status st = build_permute(c, question, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_permute_send(ea_client *c, const ea_permute_question *question,
                          const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_permute(c, question, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_random(ea_client *c, const ea_random_question *question,
                              struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, random_question, q, question);
    const ea_into into = take_into(c, q.into);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_RANDOM);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_RandomRequest m = {.seed = q.seed,
                                       .first = q.first,
                                       .count = q.count,
                                       .dimension = q.dimension,
                                       .normalize = q.normalize};
    ea_status st = ea_check_dimension(c, q.dimension);
    if (!st) st = add_into(c, r, &into, q.count, q.dimension, INTO(m));
    return ea_build_write(c, r, st, engram_accel_v1_RandomRequest_fields, &m, into.write, out);
}

ea_status ea_random(ea_client *c, const ea_random_question *question, ea_hrr_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_hrr_result_free(out);
    struct client_request *r;
    ea_status st = build_random(c, question, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_random_send(ea_client *c, const ea_random_question *question,
                         const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_random(c, question, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- cleanup ---- */

static ea_status build_cleanup(ea_client *c, const ea_cleanup_question *question,
                               struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, cleanup_question, q, question);
    if (!q.a || !q.b) return ea_fail_null(c, q.a ? "b" : "a");
    EA_TAKE(c, operand, a, q.a);
    EA_TAKE(c, operand, b, q.b);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_CLEANUP);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_CleanupRequest m = {
        .k = q.k, .exact = q.exact, .has_threshold = q.threshold != NULL};
    if (q.threshold) m.threshold = *q.threshold;
    ea_status st = ea_check_name(c, "codebook", q.codebook, m.codebook);
    if (!st) st = add_operand(c, r, &a, q.dimension, OPERAND(m, a));
    if (!st) st = add_operand(c, r, &b, q.dimension, OPERAND(m, b));
    r->expect =
        (struct expectation){.queries = a.count == 1 ? b.count : a.count, .columns_max = q.k};
    return ea_build_end(c, r, st, engram_accel_v1_CleanupRequest_fields, &m, out);
}

ea_status ea_cleanup(ea_client *c, const ea_cleanup_question *question, ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_result_free(out);
    struct client_request *r;
    ea_status st = build_cleanup(c, question, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_cleanup_send(ea_client *c, const ea_cleanup_question *question,
                          const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_cleanup(c, question, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
