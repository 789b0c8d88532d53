/* A shadow is made by a search that has just scored its rows exactly and finds that enough did so
 * before: coding takes as long as one query takes to score the rows. Segments want unlike numbers
 * of queries, so that no search codes them all. */
#include "daemon/store/shadow.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/job_screen.h"
#include "daemon/store/collection_inside.h"
#include "kernels/shadow_sum.h"

enum {
    ROWS_BYTES_MIN = 4 << 20, /* less lies in the caches, where int8 gains little */
    ASKED_MIN = 2,            /* exact scores of a row before it is coded */
    ASKED_SPREAD = 8,
    GROWN_SHARE = 8,   /* coded anew if so much of a segment is not coded */
    KEEP_SHARE = 8,    /* of a quota, and of all memory, that shadows leave free */
    MIDDLE_ROWS = 256, /* of which a centre is the mean */
    USELESS_SHARE = 4, /* a search was useless if more than one pair in so many passed */
    SKIP_MAX = 64,     /* searches that score exactly before the next try */
    SWEEP_BYTES = 256 << 10
};

/* what one search counts of those that passed of late */
static const double PASSED_LATE = 0.125;

static double shadow_share(float lost, float norm)
{
    return norm > 0 ? shadow_finite(lost) / (double)norm : 0;
}

/* ---- centres ---- */

/* The mean of some rows of an edition; one whose norm is too large is 0. NULL: no memory. */
static struct shadow_middle *middle_make(const struct edition *e)
{
    struct collection *c = e->of;
    uint64_t rows = rows_of(e), n = rows < MIDDLE_ROWS ? rows : MIDDLE_ROWS;
    size_t bytes = sizeof(struct shadow_middle) + c->stride * sizeof(float);
    bytes = (bytes + 63) / 64 * 64;
    struct shadow_middle *m = fault_here("store: shadow centre") ? NULL : aligned_alloc(64, bytes);
    if (!m) return NULL;
    memset(m, 0, bytes);
    for (uint64_t i = 0; i < n; i++) {
        const float *row = row_at(e, i * rows / n);
        for (size_t at = 0; at < c->stride; at++)
            m->row[at] += row[at] / (float)n;
    }
    c->kernels->norms(c->dimension, m->row, 1, &m->norm);
    if (!(m->norm <= SCREEN_NORM_MAX)) {
        memset(m->row, 0, c->stride * sizeof(float));
        m->norm = 0;
    }
    m->made_ns = clock_read_ns(NULL);
    return m;
}

uint64_t shadow_middle_checksum(uint32_t dimension, const struct shadow_middle *m)
{
    return shadow_sum_centre(dimension, m->row, m->norm);
}

/* True if another centre may lose less: the mean has grown by half since all rows were coded. Under
 * the lock. */
static bool has_aged(struct collection_shadow *c, uint64_t rows)
{
    if (c->rows < rows) return false;
    double mean = c->lost / (double)c->rows;
    if (c->lost_first == 0) c->lost_first = mean;
    return mean > 1.5 * c->lost_first && c->middle_count < SHADOW_MIDDLES_MAX;
}

static const struct shadow_middle *middle_of(struct shadows *all, const struct edition *e)
{
    struct collection_shadow *c = &e->of->shadow;
    pthread_mutex_lock(&all->lock);
    if (!c->middle || has_aged(c, rows_of(e))) {
        struct shadow_middle *m = middle_make(e);
        if (m) {
            c->middle = c->middles[c->middle_count++] = m;
            c->lost_first = 0;
        }
    }
    const struct shadow_middle *m = c->middle;
    pthread_mutex_unlock(&all->lock);
    return m;
}

void collection_shadow_clear(struct collection *c)
{
    struct collection_shadow *s = &c->shadow;
    if (s->rows || s->bytes) shadow_forget(c->shadows, c);
    for (uint32_t i = 0; i < s->middle_count; i++)
        free(s->middles[i]);
    s->middle_count = 0;
    s->middle = NULL;
    s->lost_first = 0;
}

/* ---- a search ---- */

enum shadow_begun collection_shadow_begin(const struct edition *e, struct shadow_use *out)
{
    struct collection *c = e->of;
    struct shadows *all = c->shadows;
    if (!all || !atomic_load_explicit(&all->allowed, memory_order_relaxed)) return SHADOW_NONE;
    if (rows_of(e) * row_bytes_of(c) < ROWS_BYTES_MIN) return SHADOW_NONE;
    uint32_t skip = atomic_load_explicit(&c->shadow.skip, memory_order_relaxed);
    if (skip && atomic_fetch_add_explicit(&c->shadow.skipped, 1, memory_order_relaxed) % skip)
        return SHADOW_RESTS;
    out->kernels = all->kernels;
    out->middle = middle_of(all, e);
    if (!out->middle) return SHADOW_NONE;
    out->centre = (struct shadow_centre){out->middle->row, out->middle->norm};
    return SHADOW_BEGUN;
}

struct shadow_outlook collection_shadow_outlook(const struct edition *e, uint64_t queries)
{
    const struct collection *c = e->of;
    const struct shadows *all = c->shadows;
    struct shadow_outlook look = {0};
    uint64_t rows = rows_of(e);
    if (!all || !atomic_load_explicit(&all->allowed, memory_order_relaxed)) return look;
    if (rows * row_bytes_of(c) < ROWS_BYTES_MIN || !shadow_takes(all->kernels, queries))
        return look;
    if (atomic_load_explicit(&c->shadow.skip, memory_order_relaxed)) return look;
    uint64_t coded = atomic_load_explicit(&c->shadow.rows, memory_order_relaxed);
    look.coded = coded < rows ? (double)coded / (double)rows : 1;
    look.passed = c->shadow.counts[SCREENS_CPU].passed;
    return look;
}

void collection_shadow_never(struct collection *c)
{
    c->shadows = NULL;
}

bool collection_shadow_is_barred(const struct collection *c)
{
    return !c->shadows;
}

bool collection_shadow_end(const struct edition *e, uint64_t screened, uint64_t passed)
{
    struct collection_shadow *c = &e->of->shadow;
    if (!screened) return true;
    atomic_fetch_add_explicit(&c->screened, screened, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->passed, passed, memory_order_relaxed);
    uint32_t skip = atomic_load_explicit(&c->skip, memory_order_relaxed);
    bool useless = passed > screened / USELESS_SHARE;
    skip = !useless ? 0 : !skip ? 2 : skip < SKIP_MAX ? 2 * skip : SKIP_MAX;
    atomic_store_explicit(&c->skip, skip, memory_order_relaxed);
    return !useless;
}

bool collection_shadow_hold(const struct edition *e, const struct shadow_use *use, uint64_t first,
                            size_t rows, struct shadow_rows *out)
{
    struct segment_shadow *s = &segment_of(e, first)->shadow;
    uint64_t from = row_in_segment(e, first);
    if (!shadow_hold(s)) return false;
    if (s->middle != use->middle ||
        from + rows > atomic_load_explicit(&s->rows, memory_order_relaxed)) {
        shadow_leave(s);
        return false;
    }
    const struct shadow_places *p = &s->places;
    *out = (struct shadow_rows){p->codes + from * shadow_stride(e->of->dimension), p->scales + from,
                                p->losts + from, p->lengths + from, rows};
    return true;
}

void collection_shadow_leave(const struct edition *e, uint64_t first)
{
    shadow_leave(&segment_of(e, first)->shadow);
}

/* ---- making one ---- */

/* Memory that nobody misses. */
static bool take_block(struct shadows *all, struct collection *c, uint64_t bytes,
                       struct heap_block *out)
{
    uint32_t owner = c->resident.space->number;
    uint64_t used = heap_owner_bytes(all->heap, owner);
    uint64_t most = heap_owner_bytes_max(all->heap, owner);
    if (used + bytes > most - most / KEEP_SHARE) return false;
    if (heap_room_bytes(all->heap) < bytes + heap_usage(all->heap).bytes_max / KEEP_SHARE)
        return false;
    return heap_take_quietly(all->heap, bytes, owner, out) == STATUS_OK;
}

/* Codes the rows that e sees of a segment, which the caller has seized. */
static bool fill(struct shadows *all, const struct edition *e, struct segment *segment,
                 const struct shadow_use *use, uint64_t rows)
{
    struct collection *c = e->of;
    struct segment_shadow *s = &segment->shadow;
    uint64_t most = segment->rows_max;
    if (!take_block(all, c, shadow_bytes(c->dimension, most), &s->block)) return false;
    float *beside = (float *)((char *)s->block.data + most * shadow_stride(c->dimension));
    s->places = (struct shadow_places){s->block.data, beside, beside + most, beside + 2 * most};
    s->of = c;
    s->all = all;
    s->owner = c->resident.space->number;
    s->middle = use->middle;
    use->kernels->measure(c->dimension, segment->rows.data, rows, &use->centre, &s->places);
    atomic_store_explicit(&s->rows, (uint32_t)rows, memory_order_relaxed);
    s->checksum =
        shadow_checksum(c->dimension, s, 0, rows) + shadow_middle_checksum(c->dimension, s->middle);
    s->lost = s->share = 0;
    for (uint64_t i = 0; i < rows; i++) {
        s->lost += shadow_finite(s->places.losts[i]);
        s->share += shadow_share(s->places.losts[i], segment->norms[i]);
    }
    return true;
}

/* Takes a shadow of an older centre, or of too few rows, away. */
static void drop_old(struct shadows *all, struct segment_shadow *s, const struct shadow_use *use,
                     uint64_t rows)
{
    if (!shadow_hold(s)) return;
    uint64_t coded = atomic_load_explicit(&s->rows, memory_order_relaxed);
    bool old = s->middle != use->middle || coded + rows / GROWN_SHARE < rows;
    shadow_leave(s);
    if (!old) return;
    pthread_mutex_lock(&all->lock);
    if (shadow_try_seize(s)) shadow_drop(all, s);
    pthread_mutex_unlock(&all->lock);
}

void collection_shadow_ask(const struct edition *e, const struct shadow_use *use, uint64_t first,
                           uint64_t queries)
{
    struct collection *c = e->of;
    struct shadows *all = c->shadows;
    if (row_in_segment(e, first)) return;
    uint64_t number = first >> c->segment_shift, rows = rows_of(e) - first;
    struct segment *segment = segment_of(e, first);
    struct segment_shadow *s = &segment->shadow;
    uint32_t more =
        queries < ASKED_MIN + ASKED_SPREAD ? (uint32_t)queries : ASKED_MIN + ASKED_SPREAD;
    uint32_t asked = atomic_fetch_add_explicit(&s->asked, more, memory_order_relaxed) + more;
    if (asked < ASKED_MIN + number % ASKED_SPREAD) return;
    if (rows > segment->rows_max) rows = segment->rows_max;
    if (rows > UINT64_C(1) << c->segment_shift) rows = UINT64_C(1) << c->segment_shift;
    drop_old(all, s, use, rows);
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong_explicit(&s->state, &none, SHADOW_BUSY,
                                                 memory_order_acquire, memory_order_relaxed))
        return;
    bool made = fill(all, e, segment, use, rows);
    atomic_store_explicit(&s->asked, 0, memory_order_relaxed);
    if (made) shadow_list(all, s);
    shadow_give_back(s, made);
}

/* ---- writers ---- */

/* What rows lose together has changed by so much. */
static void add_lost(struct collection *c, struct segment_shadow *s, double lost, double share)
{
    s->lost += lost;
    s->share += share;
    shadow_add(&c->shadow.lost, lost);
    shadow_add(&c->shadow.share, share);
}

void segment_shadow_write(struct collection *c, struct segment *segment, uint64_t row,
                          float norm_before)
{
    struct segment_shadow *s = &segment->shadow;
    if (!atomic_load_explicit(&s->state, memory_order_relaxed) || !shadow_seize(s)) return;
    uint64_t rows = atomic_load_explicit(&s->rows, memory_order_relaxed);
    if (row < rows) {
        const struct shadow_centre centre = {s->middle->row, s->middle->norm};
        const struct shadow_places *p = &s->places;
        struct shadow_places to = {p->codes + row * shadow_stride(c->dimension), p->scales + row,
                                   p->losts + row, p->lengths + row};
        float before = p->losts[row];
        s->checksum -= shadow_checksum(c->dimension, s, row, row + 1);
        c->shadows->kernels->measure(c->dimension, (float *)segment->rows.data + row * c->stride, 1,
                                     &centre, &to);
        s->checksum += shadow_checksum(c->dimension, s, row, row + 1);
        add_lost(c, s, shadow_finite(p->losts[row]) - shadow_finite(before),
                 shadow_share(p->losts[row], segment->norms[row]) -
                     shadow_share(before, norm_before));
    }
    shadow_give_back(s, true);
}

void segment_shadow_cut(struct segment *segment, uint64_t row)
{
    struct segment_shadow *s = &segment->shadow;
    if (!atomic_load_explicit(&s->state, memory_order_relaxed) || !shadow_seize(s)) return;
    uint64_t rows = atomic_load_explicit(&s->rows, memory_order_relaxed);
    if (row < rows) {
        struct collection *c = s->of;
        double lost = 0, share = 0;
        for (uint64_t i = row; i < rows; i++) {
            lost += shadow_finite(s->places.losts[i]);
            share += shadow_share(s->places.losts[i], segment->norms[i]);
        }
        s->checksum -= shadow_checksum(c->dimension, s, row, rows);
        atomic_store_explicit(&s->rows, (uint32_t)row, memory_order_relaxed);
        c->shadow.rows -= rows - row;
        add_lost(c, s, -lost, -share);
    }
    shadow_give_back(s, true);
}

static void add_screen(struct screen_counts *to, const struct job_screen *did)
{
    to->rested += did->rested;
    if (!did->screened) return;
    to->searches++;
    to->queries += did->queries;
    to->screened += did->screened;
    to->survived += did->survived;
    to->read_bytes += did->read_bytes;
    to->useless += did->useless;
    double passed = (double)did->survived / (double)did->screened;
    to->passed += (to->searches > 1 ? PASSED_LATE : 1) * (passed - to->passed);
}

void collection_count_screen(const struct edition *e, int where, const struct job_screen *did)
{
    add_screen(&e->of->shadow.counts[where], did);
    if (e->of->shadows) add_screen(&e->of->shadows->counts[where], did);
}

uint64_t shadows_bytes(const struct shadows *all)
{
    return atomic_load_explicit(&all->bytes, memory_order_relaxed);
}

struct screen_counts shadows_screens(const struct shadows *all, int where)
{
    return all->counts[where];
}

const struct screen_counts *collection_screens_of(const struct edition *e, int where)
{
    return &e->of->shadow.counts[where];
}

const struct screen_counts *collection_screens(const struct collection *c, int where)
{
    return &c->shadow.counts[where];
}

struct shadow_info collection_shadow_info(const struct collection *collection)
{
    const struct collection_shadow *c = &collection->shadow;
    struct shadow_info info = {0};
    struct shadows *all = collection->shadows;
    if (!all) return info;
    pthread_mutex_lock(&all->lock);
    info.rows = c->rows;
    info.bytes = c->bytes;
    info.lost = c->rows ? c->share / (double)c->rows : 0;
    info.age_ns = c->rows ? clock_read_ns(NULL) - c->middle->made_ns : 0;
    pthread_mutex_unlock(&all->lock);
    info.screened = atomic_load_explicit(&c->screened, memory_order_relaxed);
    info.passed = atomic_load_explicit(&c->passed, memory_order_relaxed);
    uint32_t skip = atomic_load_explicit(&c->skip, memory_order_relaxed);
    uint32_t skipped = atomic_load_explicit(&c->skipped, memory_order_relaxed);
    if (skip) info.rests = (skip - skipped % skip) % skip;
    return info;
}
