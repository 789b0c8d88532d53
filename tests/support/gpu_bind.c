#include "tests/support/gpu_bind.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct order_operand side_of(struct gpu_peer *p, const struct bind_side *side)
{
    const struct ask_rows *r = side->of;
    struct order_operand o = {
        .rows = PLACE_NONE, .positions = PLACE_NONE, .row_count = r->count, .count = side->count};
    if (side->comes) {
        uint64_t bytes = side->count * r->dimension * sizeof(float);
        o.row_count = side->count;
        o.rows = peer_take(p, bytes);
        memcpy(peer_at(p, o.rows), r->plain, bytes);
        return o;
    }
    o.positions = peer_take(p, side->count * sizeof(uint32_t));
    for (uint64_t i = 0; i < side->count; i++)
        ((uint32_t *)peer_at(p, o.positions))[i] = (uint32_t)((i * 37 + 11) % r->count);
    return o;
}

struct order bind_ask(struct gpu_peer *p, const struct bind_side *first,
                      const struct bind_side *other, enum hrr_form form, bool normalize)
{
    const struct ask_rows *r = first->of;
    uint64_t pairs = first->count == 1 ? other->count : first->count;
    uint64_t bytes = pairs * r->dimension * sizeof(float);
    struct order_operand a = side_of(p, first);
    struct order o = {.kind = ORDER_RUN, .space = r->space, .run = order_run_of(RUN_BIND)};
    if (!first->comes) o.replica = r->replica, o.version = r->version;
    if (!other->comes) o.other_replica = other->of->replica, o.other_version = other->of->version;
    o.run.metric = METRIC_DOT;
    o.run.dimension = r->dimension;
    o.run.rows = a.rows;
    o.run.row_count = a.row_count;
    o.run.positions = a.positions;
    o.run.list_count = a.count;
    o.run.other = side_of(p, other);
    o.run.form = form;
    o.run.normalize = normalize;
    o.run.out_scores = peer_take(p, bytes + 4);
    memset(peer_at(p, o.run.out_scores), 0xee, bytes + 4); /* nothing may be written behind */
    return o;
}

static const float *row_of(struct gpu_peer *p, const struct order_operand *o, uint64_t i,
                           const struct ask_rows *r)
{
    uint64_t at = o->count == 1 ? 0 : i;
    if (o->rows != PLACE_NONE) return (const float *)peer_at(p, o->rows) + at * r->dimension;
    return r->plain + (size_t)((const uint32_t *)peer_at(p, o->positions))[at] * r->dimension;
}

static void normalize(uint32_t d, float *row)
{
    float *padded = aligned_alloc(64, vector_stride(d) * sizeof *padded), norm;
    cr_assert(padded);
    vectors_pad(d, row, 1, padded);
    vectors_scalar.norms(d, padded, 1, &norm);
    vectors_scalar.normalize(d, padded, &norm, 1);
    memcpy(row, padded, d * sizeof *row);
    free(padded);
}

/* The scalar kernels, and what they need. */
struct scalar_hrr {
    const struct hrr_plan *plan;
    void *memory, *scratch;
    float *want; /* a row */
};

static struct scalar_hrr scalar_open(uint32_t d)
{
    struct scalar_hrr s = {.memory = aligned_alloc(64, hrr_plan_bytes(d)),
                           .scratch = aligned_alloc(64, hrr_scratch_bytes(d)),
                           .want = malloc(d * sizeof *s.want)};
    cr_assert(s.memory && s.scratch && s.want);
    s.plan = hrr_plan_make(d, s.memory);
    return s;
}

static void scalar_close(struct scalar_hrr *s)
{
    free(s->memory);
    free(s->scratch);
    free(s->want);
}

static bool scalar_pair(const struct scalar_hrr *s, const struct order_run *run, const float *left,
                        const float *with, float *out)
{
    struct hrr_pairs one = {.plan = s->plan,
                            .scratch = s->scratch,
                            .form = (enum hrr_form)run->form,
                            .a = &left,
                            .b = &with,
                            .count = 1,
                            .out = out,
                            .out_step = run->dimension};
    return hrr_scalar.pairs(&one).status == HRR_OK;
}

/* Whether the row wanted, normalized if the order says so, is there. */
static bool is_wanted(const struct scalar_hrr *s, const struct order_run *run, const float *got)
{
    if (run->normalize) normalize(run->dimension, s->want);
    return memcmp(got, s->want, run->dimension * sizeof *got) == 0;
}

bool bind_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *first,
                const struct ask_rows *other)
{
    static const uint32_t untouched = 0xeeeeeeee;
    const struct order_run *run = &o->run;
    struct order_operand a = {run->rows, run->row_count, run->positions, run->list_count};
    uint64_t pairs = a.count == 1 ? run->other.count : a.count;
    uint32_t d = run->dimension;
    struct scalar_hrr s = scalar_open(d);
    const float *got = peer_at(p, run->out_scores);
    bool right = memcmp(got + pairs * d, &untouched, sizeof untouched) == 0;
    for (uint64_t i = 0; i < pairs && right; i++, got += d) {
        const float *left = row_of(p, &a, i, first), *with = row_of(p, &run->other, i, other);
        right = scalar_pair(&s, run, left, with, s.want) && is_wanted(&s, run, got);
    }
    scalar_close(&s);
    return right;
}

struct order cleanup_ask(struct gpu_peer *p, const struct cleanup_asked *asked,
                         const struct bind_side *cue, const struct bind_side *other)
{
    const struct ask_rows *r = asked->codebook;
    uint64_t pairs = cue->count == 1 ? other->count : cue->count, places = pairs * asked->k;
    struct order o = {.kind = ORDER_RUN,
                      .space = r->space,
                      .replica = r->replica,
                      .version = r->version,
                      .run = order_run_of(RUN_CLEANUP)};
    if (!cue->comes) o.reads[1] = (struct order_replica){cue->of->replica, cue->of->version};
    if (!other->comes) o.reads[2] = (struct order_replica){other->of->replica, other->of->version};
    o.run.metric = asked->metric;
    o.run.dimension = r->dimension;
    o.run.row_count = r->count;
    o.run.cue = side_of(p, cue);
    o.run.other = side_of(p, other);
    o.run.form = asked->exact ? HRR_UNBIND_EXACT : HRR_UNBIND;
    o.run.k = asked->k;
    o.run.has_threshold = asked->threshold != NULL;
    if (asked->threshold) o.run.threshold = *asked->threshold;
    o.run.query_count = pairs;
    o.run.out_ids = peer_take(p, places * sizeof(uint64_t));
    o.run.out_scores = peer_take(p, places * sizeof(float));
    o.run.out_counts = peer_take(p, pairs * sizeof(uint32_t));
    return o;
}

/* What is unbound, by the scalar kernels. */
static float *unbound(struct gpu_peer *p, const struct order_run *run, const struct ask_rows *cue,
                      const struct ask_rows *other)
{
    uint32_t d = run->dimension;
    struct scalar_hrr s = scalar_open(d);
    float *rows = malloc(run->query_count * d * sizeof *rows);
    cr_assert(rows);
    for (uint64_t i = 0; i < run->query_count; i++) {
        const float *left = row_of(p, &run->cue, i, cue);
        const float *with = row_of(p, &run->other, i, other);
        cr_assert(scalar_pair(&s, run, left, with, rows + i * d));
    }
    scalar_close(&s);
    return rows;
}

bool cleanup_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *codebook,
                   const struct ask_rows *cue, const struct ask_rows *other)
{
    float *rows = unbound(p, &o->run, cue, other);
    struct order found = *o;
    found.run.operation = RUN_KNN;
    found.run.queries = peer_take(p, o->run.query_count * o->run.dimension * sizeof *rows);
    memcpy(peer_at(p, found.run.queries), rows,
           o->run.query_count * o->run.dimension * sizeof *rows);
    free(rows);
    return ask_right(p, &found, codebook);
}

enum { LIST_ROWS = 5 };

struct order product_ask(struct gpu_peer *p, const struct bind_side *of, bool normalize)
{
    const struct ask_rows *r = of->of;
    struct order_operand a = side_of(p, of);
    struct order o = {.kind = ORDER_RUN, .space = r->space, .run = order_run_of(RUN_PRODUCT)};
    if (!of->comes) o.replica = r->replica, o.version = r->version;
    o.run.metric = METRIC_DOT;
    o.run.dimension = r->dimension;
    o.run.rows = a.rows;
    o.run.row_count = a.row_count;
    o.run.positions = a.positions;
    o.run.list_count = a.count;
    o.run.k = LIST_ROWS;
    o.run.normalize = normalize;
    o.run.offsets = peer_take(p, (of->count + 1) * sizeof(uint64_t));
    uint64_t *offsets = peer_at(p, o.run.offsets), lists = 0;
    for (offsets[0] = 0; offsets[lists] < of->count; lists++) {
        uint64_t end = offsets[lists] + 1 + lists % LIST_ROWS;
        offsets[lists + 1] = end < of->count ? end : of->count;
    }
    o.run.query_count = lists;
    o.run.out_scores = peer_take(p, lists * r->dimension * sizeof(float));
    return o;
}

bool product_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r)
{
    const struct order_run *run = &o->run;
    struct order_operand a = {run->rows, run->row_count, run->positions, run->list_count};
    const uint64_t *offsets = peer_at(p, run->offsets);
    const float *got = peer_at(p, run->out_scores);
    uint32_t d = run->dimension;
    struct scalar_hrr s = scalar_open(d);
    bool right = true;
    for (uint64_t i = 0; i < run->query_count && right; i++, got += d) {
        const float *rows[LIST_ROWS];
        uint64_t count = offsets[i + 1] - offsets[i];
        for (uint64_t n = 0; n < count; n++) {
            uint64_t at = offsets[i] + n;
            rows[n] = row_of(p, &a, at, r);
        }
        struct hrr_product one = {
            .plan = s.plan, .scratch = s.scratch, .rows = rows, .count = count, .out = s.want};
        right = hrr_scalar.many(&one).status == HRR_OK && is_wanted(&s, run, got);
    }
    scalar_close(&s);
    return right;
}
