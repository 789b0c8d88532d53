/* How many rows pass is not known beforehand; as in screening.c it is watched: a block that lets
 * too many pass is followed by blocks that are scored exactly, twice as many each time. */
#include "daemon/ops/shadowing.h"

#include <sched.h>

#include "daemon/ops/grid.h"
#include "daemon/ops/operation_inside.h"

enum {
    USEFUL_SHARE_ALONE = 3,  /* useful while less than one row in so many passes */
    USEFUL_SHARE_TILED = 16, /* in a tile an exact score costs less */
    K_SHARE = 8,
    EXACT_BLOCKS_MAX = 32,
    GROUPS = GRID_GROUP_MAX / SHADOW_GROUP
};

struct shadowing_state {
    uint32_t exact_left, exact_next; /* as in struct screening_state */
    float floors[ROWS_BLOCK], above[ROWS_BLOCK];
    const float *rows[ROWS_BLOCK];
    float norms[ROWS_BLOCK];
    uint64_t ids[ROWS_BLOCK];
    uint32_t positions[ROWS_BLOCK + 16];
    uint32_t alone[ROWS_BLOCK + 16];
    uint32_t counts[SHADOW_GROUP];
    uint32_t lists[SHADOW_GROUP][ROWS_BLOCK];
    uint32_t masks[GROUPS * ROWS_BLOCK];
    float scales[GRID_GROUP_MAX], offsets[GRID_GROUP_MAX];
};

/* One query's planes. */
struct planes {
    struct shadow_query query;
    int8_t codes[] __attribute__((aligned(64)));
};

enum { UNPACKED, PACKING, PACKED };

bool shadowing_pays(uint32_t dimension, uint64_t query_count, uint64_t k, uint64_t row_count)
{
    enum { DIMENSION_MIN = 64 }; /* a code is padded to as many bytes */
    return dimension >= DIMENSION_MIN && query_count && row_count > 4 * ROWS_BLOCK &&
           row_count / K_SHARE > k;
}

struct work_screen shadowing_outlook(const struct edition *e, uint64_t query_count, uint64_t k)
{
    uint64_t rows = collection_rows(e);
    if (!shadowing_pays(collection_dimension(e), query_count, k, rows))
        return (struct work_screen){0};
    struct shadow_outlook look = collection_shadow_outlook(e, query_count);
    return (struct work_screen){(float)look.coded, (float)look.passed};
}

static uint64_t planes_bytes(uint32_t dimension)
{
    return sizeof(struct planes) + 2 * shadow_stride(dimension);
}

void shadowing_layout(struct shadowing *s, uint64_t groups, uint64_t group_queries,
                      uint32_t worker_count, uint64_t *bytes)
{
    uint64_t alone = smaller(group_queries, SHADOW_ALONE_MAX) * planes_bytes(s->dimension);
    uint64_t tiled = shadow_pack_bytes(s->dimension, (size_t)group_queries);
    s->groups = groups;
    s->group_queries = group_queries;
    s->pack_bytes = pieces_of(alone > tiled ? alone : tiled, 64) * 64;
    s->packs = layout_add(bytes, groups * s->pack_bytes);
    s->packed = layout_add(bytes, groups * sizeof(atomic_uint));
    s->states = layout_add(bytes, worker_count * sizeof(struct shadowing_state));
}

void shadowing_begin(struct shadowing *s, const struct job *j)
{
    enum shadow_begun begun =
        s->groups ? collection_shadow_begin(s->collection, &s->use) : SHADOW_NONE;
    s->on = begun == SHADOW_BEGUN;
    s->rests = begun == SHADOW_RESTS;
    if (s->on && !shadow_takes(s->use.kernels, s->group_queries)) s->on = false;
    atomic_init(&s->screened, 0);
    atomic_init(&s->passed, 0);
    atomic_init(&s->read_bytes, 0);
    if (!s->on) return;
    memset(scratch_at(j, s->packed), 0, s->groups * sizeof(atomic_uint));
    for (uint32_t worker = 0; worker < j->worker_count; worker++) {
        struct shadowing_state *state = (struct shadowing_state *)scratch_at(j, s->states) + worker;
        state->exact_left = state->exact_next = 0;
    }
}

struct job_screen shadowing_end(struct shadowing *s, uint64_t query_count)
{
    struct job_screen did = {.rested = s->rests};
    if (!s->on) return did;
    did.useless = !collection_shadow_end(s->collection, s->screened, s->passed);
    did.screened = s->screened;
    did.survived = s->passed;
    if (did.screened) did.read_bytes = s->read_bytes;
    if (did.screened) did.queries = query_count;
    return did;
}

/* ---- queries ---- */

static void code_queries(const struct shadowing *s, const struct query_set *queries, char *at)
{
    size_t stride = vector_stride(s->dimension);
    const struct shadow_kernels *k = s->use.kernels;
    if (queries->count > SHADOW_ALONE_MAX) {
        k->pack(s->dimension, queries->rows, queries->norms, queries->count, &s->use.centre, at);
        return;
    }
    for (size_t q = 0; q < queries->count; q++) {
        struct planes *p = (struct planes *)(at + q * planes_bytes(s->dimension));
        k->prepare(s->dimension, queries->rows + q * stride, queries->norms[q], &s->use.centre,
                   p->codes, &p->query);
    }
}

/* Returns the codes of a group's queries, which whoever needs them first makes; others wait for it,
 * some microseconds. */
static char *codes_of(struct shadowing *s, const struct job *j, uint64_t group,
                      const struct query_set *queries)
{
    char *at = (char *)scratch_at(j, s->packs) + group * s->pack_bytes;
    atomic_uint *packed = (atomic_uint *)scratch_at(j, s->packed) + group;
    if (atomic_load_explicit(packed, memory_order_acquire) == PACKED) return at;
    unsigned was = UNPACKED;
    if (atomic_compare_exchange_strong(packed, &was, PACKING)) {
        code_queries(s, queries, at);
        atomic_store_explicit(packed, PACKED, memory_order_release);
    }
    while (atomic_load_explicit(packed, memory_order_acquire) != PACKED)
        sched_yield();
    return at;
}

/* ---- a block ---- */

static bool worth_trying(struct shadowing_state *state, const struct screening_block *b)
{
    if (state->exact_left) {
        state->exact_left--;
        return false;
    }
    size_t without = 0;
    for (size_t q = 0; q < b->queries->count; q++)
        without += !b->tops[q].selective;
    return without * USEFUL_SHARE_TILED <= b->queries->count;
}

static void count_read(struct shadowing *s, uint64_t bytes)
{
    atomic_fetch_add_explicit(&s->read_bytes, bytes, memory_order_relaxed);
}

static uint64_t float_bytes(const struct shadowing *s, uint64_t rows)
{
    return rows * vector_stride(s->dimension) * sizeof(float);
}

static void offer_exact(struct shadowing *s, struct shadowing_state *state,
                        const struct screening_block *b)
{
    const struct query_set *queries = b->queries;
    count_read(s, float_bytes(s, b->rows.count));
    enum metric metric = s->screen.metric;
    if (queries->count == 1)
        s->kernels->scan(metric, s->dimension, queries->rows, queries->norms[0], b->rows,
                         b->scores);
    else
        s->kernels->tile(metric, s->dimension, &queries->pack, b->rows, b->scores, ROWS_BLOCK);
    for (size_t q = 0; q < queries->count; q++) {
        topk_offer(&b->tops[q], s->kernels, b->scores + q * ROWS_BLOCK, b->ids, b->rows.count,
                   b->allowed[q], b->first_row, state->positions);
        topk_tighten(&b->tops[q]);
    }
}

/* Offers the canonical scores of the rows at `positions`. */
static void offer_passed(const struct shadowing *s, struct shadowing_state *state,
                         const struct screening_block *b, size_t query, const uint32_t *positions,
                         size_t passed)
{
    size_t stride = vector_stride(s->dimension), count = 0;
    const uint64_t *allowed = b->allowed[query];
    for (size_t i = 0; i < passed; i++) {
        size_t at = positions[i], row = b->first_row + at;
        if (allowed && !(allowed[row / 64] >> row % 64 & 1)) continue;
        state->rows[count] = b->rows.rows + at * stride;
        state->norms[count] = b->rows.norms[at];
        state->ids[count++] = b->ids[at];
        __builtin_prefetch(b->rows.rows + at * stride);
        __builtin_prefetch(b->rows.rows + at * stride + 16);
    }
    if (!count) return;
    s->kernels->gather(s->screen.metric, s->dimension, b->queries->rows + query * stride,
                       b->queries->norms[query], state->rows, state->norms, count, b->scores);
    topk_offer(&b->tops[query], s->kernels, b->scores, state->ids, count, NULL, 0,
               state->positions);
    topk_tighten(&b->tops[query]);
}

static size_t offer_alone(const struct shadowing *s, struct shadowing_state *state,
                          const struct screening_block *b, const char *codes,
                          const struct shadow_rows *rows)
{
    size_t passed = 0;
    for (size_t q = 0; q < b->queries->count; q++) {
        const struct planes *p = (const struct planes *)(codes + q * planes_bytes(s->dimension));
        struct screen_line line = screen_line(&s->screen, b->queries->norms[q], b->tops[q].bound);
        s->use.kernels->scan(s->dimension, &p->query, p->codes, rows, state->above);
        size_t n = s->kernels->screen_pass(state->above, state->floors, rows->count, line.scale,
                                           line.offset, state->alone);
        if (n) offer_passed(s, state, b, q, state->alone, n);
        passed += n;
    }
    return passed;
}

/* The rows that pass, by query of one group. */
static void sort_out(struct shadowing_state *state, const uint32_t *masks, size_t rows)
{
    memset(state->counts, 0, sizeof state->counts);
    for (size_t r = 0; r < rows; r++)
        for (uint32_t mask = masks[r]; mask; mask &= mask - 1) {
            int q = __builtin_ctz(mask);
            state->lists[q][state->counts[q]++] = (uint32_t)r;
        }
}

static size_t offer_tiled(const struct shadowing *s, struct shadowing_state *state,
                          const struct screening_block *b, const char *codes,
                          const struct shadow_rows *rows)
{
    size_t passed = 0, count = b->queries->count;
    const struct shadow_lines lines = {state->scales, state->offsets};
    for (size_t q = 0; q < count; q++) {
        struct screen_line line = screen_line(&s->screen, b->queries->norms[q], b->tops[q].bound);
        state->scales[q] = line.scale;
        state->offsets[q] = line.offset;
    }
    for (size_t q = count; q < shadow_padded(count); q++)
        state->scales[q] = state->offsets[q] = 0.0f;
    s->use.kernels->tile(s->dimension, codes, count, &lines, rows, state->floors, state->masks);
    for (size_t q = 0; q < count; q++) {
        if (q % SHADOW_GROUP == 0)
            sort_out(state, state->masks + q / SHADOW_GROUP * rows->count, rows->count);
        size_t n = state->counts[q % SHADOW_GROUP];
        if (n) offer_passed(s, state, b, q, state->lists[q % SHADOW_GROUP], n);
        passed += n;
    }
    return passed;
}

static void watch(struct shadowing *s, struct shadowing_state *state,
                  const struct screening_block *b, size_t passed)
{
    uint64_t pairs = (uint64_t)b->queries->count * b->rows.count;
    bool alone = b->queries->count <= SHADOW_ALONE_MAX;
    atomic_fetch_add_explicit(&s->screened, pairs, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->passed, passed, memory_order_relaxed);
    count_read(s, shadow_bytes(s->dimension, b->rows.count) + float_bytes(s, passed));
    if (passed * (alone ? USEFUL_SHARE_ALONE : USEFUL_SHARE_TILED) <= pairs) {
        state->exact_next = 0;
        return;
    }
    state->exact_next = state->exact_next ? 2 * state->exact_next : 1;
    if (state->exact_next > EXACT_BLOCKS_MAX) state->exact_next = EXACT_BLOCKS_MAX;
    state->exact_left = state->exact_next;
}

void shadowing_offer(struct shadowing *s, const struct job *j, uint64_t group, uint32_t worker,
                     const struct screening_block *b)
{
    struct shadowing_state *state = (struct shadowing_state *)scratch_at(j, s->states) + worker;
    struct shadow_rows rows;
    size_t passed;
    if (!worth_trying(state, b)) {
        offer_exact(s, state, b);
        collection_shadow_ask(s->collection, &s->use, b->first_row, b->queries->count);
        return;
    }
    const char *codes = codes_of(s, j, group, b->queries);
    if (!collection_shadow_hold(s->collection, &s->use, b->first_row, b->rows.count, &rows)) {
        offer_exact(s, state, b);
        collection_shadow_ask(s->collection, &s->use, b->first_row, b->queries->count);
        return;
    }
    screen_floors(&s->screen, b->rows.norms, b->rows.count, state->floors);
    if (b->queries->count > SHADOW_ALONE_MAX)
        passed = offer_tiled(s, state, b, codes, &rows);
    else
        passed = offer_alone(s, state, b, codes, &rows);
    collection_shadow_leave(s->collection, b->first_row);
    watch(s, state, b, passed);
}
