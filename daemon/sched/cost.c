#include "daemon/sched/cost_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/work.h"

/* Variances of natural logarithms. */
/* a built-in coefficient may be wrong by a factor of 2 or so */
static const double DOUBT_FRESH = 0.42;
static const double DOUBT_CELL = 0.02; /* a new cell: the error of the affine form for such work */
/* how far a pass through int8 may be from as many bytes of float32, on a processor not known */
static const double DOUBT_SCREENED = 0.2;
static const double NOISE = 0.08 * 0.08;   /* of a single run */
static const double DRIFT_SLOW = 0.1;      /* the drift takes at least this part of NOISE */
static const double DRIFT_SETTLES = 0.001; /* this part of the drift leaves it with each run */
static const double DRIFT_SHARE = 0.6;     /* the drift takes at most this part of a surprise */
/* bounds a cell's weight, so that it never stops to learn */
static const double CELL_WEIGHT_MAX = 40, SCREENED_WEIGHT_MAX = 400;
/* Correlation of a cell with one this many octaves away: 2^-0.7 an octave. */
enum { CELL_REACH = 3 };
static const double CELL_ALIKE[CELL_REACH + 1] = {1, 0.616, 0.379, 0.233};
static const double BOUND = 9.2; /* ln 10,000: the bound of a bias and of the drift */
static const double SURE = 0.2;  /* a prediction with this variance has confidence 1/2 */

enum cost_kind cost_line_of(uint32_t operation)
{
    return operation_row(operation)->cost;
}

struct cost_line *cost_line_at(struct cost_model *m, enum backend_id b, uint32_t operation)
{
    return &m->lines[b == BACKEND_GPU][cost_line_of(operation)];
}

static const struct cost_line *line_of(const struct cost_model *m, enum backend_id b,
                                       uint32_t operation)
{
    return &m->lines[b == BACKEND_GPU][cost_line_of(operation)];
}

void cost_clear(struct cost_line *l, double spread)
{
    l->drift = l->lean = 0;
    l->spread = (float)spread;
    l->overlap = 1;
    l->seen = 0;
    memset(l->cells, 0, sizeof l->cells);
    l->screened = (struct cost_cell){0};
}

void cost_doubt_all(struct cost_line *l)
{
    memset(l->doubt, 0, sizeof l->doubt);
    for (uint32_t i = 0; i < COST_FEATURES; i++)
        l->doubt[i][i] = (float)DOUBT_FRESH;
}

/* ---------------------------------------------------------------- where work stands */

/* The coefficients are of all cores together; brief work has one of them, which reads twice its
 * share, since it is alone and little is read. */
void cost_features(const struct cost_model *m, const struct work *w, enum backend_id b,
                   double features[COST_FEATURES])
{
    bool brief = work_is_brief(w);
    double cores = brief && b == BACKEND_CPU ? m->workers : 1;
    double readers = cores < (double)COST_READERS_MAX ? cores : (double)COST_READERS_MAX;
    features[0] = 1;
    features[1] = work_row_bytes(w, b) * (readers < 2 ? 1 : readers / 2);
    features[2] = (work_measure(w) == MEASURE_NODES ? (double)w->rows * (double)w->queries
                                                    : work_products(w, b)) *
                  cores;
    features[3] = (double)w->queries;
    features[4] = (double)w->bytes_in + (double)w->bytes_out;
    features[5] = (double)w->pairs;
    features[6] = brief ? 0 : 1;
}

static uint32_t octave_of(const struct work *w, enum backend_id b)
{
    double size = w->pairs ? work_products(w, b) : (double)w->bytes_in + (double)w->bytes_out;
    if (size < 1) return 0;
    uint64_t bits;
    memcpy(&bits, &size, sizeof bits);
    uint32_t exponent = (uint32_t)(bits >> 52) - 1023; /* the exponent of the double */
    return exponent < COST_SIZES ? exponent : COST_SIZES - 1;
}

/* The most queries of each class but the last. A card's kernels take 32 queries at once: over
 * 1,000,000 rows 33 take 1.6 times as long. */
static const uint64_t width_ends[COST_WIDTHS - 1] = {1, 3, 8, 32, 128};

static uint32_t width_of(const struct work *w)
{
    uint32_t width = 0;
    while (width + 1 < COST_WIDTHS && w->queries > width_ends[width])
        width++;
    return width;
}

uint64_t cost_width_below(uint64_t queries)
{
    uint64_t below = 0;
    for (uint32_t i = 0; i < COST_WIDTHS - 1 && width_ends[i] < queries; i++)
        below = width_ends[i];
    return below;
}

/* The prediction of a line for some work, and the uncertainty of each of its parts. */
struct view {
    uint32_t octave, width;
    double shares[COST_FEATURES]; /* of the affine part */
    double affine;                /* ns */
    double bias;                  /* of the cell, and of what is asked in int8 */
    double asked;                 /* struct work_screen's */
    double coefficients_variance, cell_variance, screened_variance;
};

double cost_doubt(const struct cost_line *l, const double shares[COST_FEATURES])
{
    double variance = 0;
    for (uint32_t i = 0; i < COST_FEATURES; i++) { /* symmetric, so half of it twice */
        double along = 0.5 * l->doubt[i][i] * shares[i];
        for (uint32_t j = 0; j < i; j++)
            along += l->doubt[i][j] * shares[j];
        variance += 2 * along * shares[i];
    }
    return variance > 0 ? variance : 0;
}

/* The uncertainty of coefficients never grows again: those that are not observed would become mere
 * guesses, and coefficients would wander. Later changes are learnt by the cells and the drift. */
void cost_doubt_less(struct cost_line *l, const double along[COST_FEATURES], double all)
{
    for (uint32_t i = 0; i < COST_FEATURES; i++)
        for (uint32_t j = 0; j < COST_FEATURES; j++)
            l->doubt[i][j] -= (float)(along[i] * along[j] / all);
}

void cost_doubt_along(const struct cost_line *l, const double shares[COST_FEATURES],
                      double along[COST_FEATURES])
{
    for (uint32_t i = 0; i < COST_FEATURES; i++) {
        along[i] = 0;
        for (uint32_t j = 0; j < COST_FEATURES; j++)
            along[i] += l->doubt[i][j] * shares[j];
    }
}

static void view_time(const struct cost_model *m, enum backend_id b, const struct work *w,
                      struct view *v)
{
    const struct cost_line *l = line_of(m, b, w->operation);
    double features[COST_FEATURES], sum = 0;
    cost_features(m, w, b, features);
    for (uint32_t i = 0; i < COST_FEATURES; i++) {
        v->shares[i] = l->coefficients[i] * features[i];
        sum += v->shares[i];
    }
    v->affine = sum < 1 ? 1 : sum;
    v->octave = octave_of(w, b);
    v->width = width_of(w);
    v->asked = work_screen_on(w, b).asked;
    v->bias = l->cells[v->octave][v->width].bias + v->asked * l->screened.bias;
}

static void view_doubt(const struct cost_line *l, struct view *v)
{
    for (uint32_t i = 0; i < COST_FEATURES; i++)
        v->shares[i] *= 1 / v->affine;
    v->coefficients_variance = cost_doubt(l, v->shares);
    v->cell_variance = DOUBT_CELL / (1 + l->cells[v->octave][v->width].weight);
    v->screened_variance = v->asked * v->asked * DOUBT_SCREENED / (1 + l->screened.weight);
}

static void view_of(const struct cost_model *m, enum backend_id b, const struct work *w,
                    struct view *v)
{
    view_time(m, b, w, v);
    view_doubt(line_of(m, b, w->operation), v);
}

static double view_ns(const struct cost_line *l, const struct view *v)
{
    double ns = v->affine * (double)expf((float)v->bias + l->drift);
    return ns < 1 ? 1 : ns > 1e18 ? 1e18 : ns;
}

static struct prediction time_of(const struct cost_line *l, const struct view *v)
{
    double ns = view_ns(l, v), busy = ns * l->overlap;
    return (struct prediction){.ns = (uint64_t)ns, .busy_ns = busy < 1 ? 1 : (uint64_t)busy};
}

/* What follows in the same job, as work of its own. */
static struct work after_of(const struct work *w)
{
    return (struct work){.operation = w->after.operation,
                         .stride = w->after.stride,
                         .queries = w->after.queries,
                         .rows = w->after.rows,
                         .pairs = w->after.pairs,
                         .unbounded = w->unbounded};
}

static struct prediction add(struct prediction a, struct prediction b)
{
    return (struct prediction){.ns = a.ns + b.ns,
                               .busy_ns = a.busy_ns + b.busy_ns,
                               .confidence =
                                   a.confidence < b.confidence ? a.confidence : b.confidence};
}

static struct prediction stage_time(const struct cost_model *m, enum backend_id b,
                                    const struct work *w)
{
    const struct cost_line *l = line_of(m, b, w->operation);
    struct view v;
    view_time(m, b, w, &v);
    return time_of(l, &v);
}

struct prediction cost_time(const struct cost_model *m, enum backend_id b, const struct work *w)
{
    struct prediction p = stage_time(m, b, w);
    if (!w->after.operation) return p;
    const struct work after = after_of(w);
    return add(p, stage_time(m, b, &after));
}

static struct prediction predict_stage(const struct cost_model *m, enum backend_id b,
                                       const struct work *w)
{
    const struct cost_line *l = line_of(m, b, w->operation);
    struct view v;
    view_of(m, b, w, &v);
    struct prediction p = time_of(l, &v);
    /* Differences between runs are no uncertainty of their mean, once there were enough runs. */
    double noise = (double)l->spread * l->spread / (1 + l->cells[v.octave][v.width].weight);
    double doubt = (v.coefficients_variance + v.cell_variance + v.screened_variance + noise) / SURE;
    p.confidence = (float)(1 / (1 + doubt * doubt));
    return p;
}

struct prediction cost_predict(const struct cost_model *m, enum backend_id b, const struct work *w)
{
    struct prediction p = predict_stage(m, b, w);
    if (!w->after.operation) return p;
    const struct work after = after_of(w);
    return add(p, predict_stage(m, b, &after));
}

uint64_t cost_upload_ns(const struct cost_model *m, uint64_t bytes)
{
    return bytes ? (uint64_t)(m->upload_ns + (double)bytes * m->upload_ns_per_byte) : 0;
}

/* ---------------------------------------------------------------- learning */

static double between(double low, double x, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* The cell that many octaves from that of v; NULL: there is none. */
static struct cost_cell *cell_near(struct cost_line *l, const struct view *v, int off)
{
    uint32_t octave = v->octave + (uint32_t)off; /* below 0 it wraps around */
    return octave < COST_SIZES ? &l->cells[octave][v->width] : NULL;
}

static void move_bias(struct cost_cell *cell, double by)
{
    cell->bias = (float)between(-BOUND, cell->bias + by, BOUND);
}

/* The factor of all work of which int8 is asked. It is known as well after a tenth of the runs that
 * a cell wants, so that it does not follow what is noise. */
static void learn_screened(struct cost_cell *c, const struct view *v, double part, double clear)
{
    double gain = v->screened_variance / v->asked * part;
    move_bias(c, gain);
    c->weight += (float)(v->asked * v->asked * clear * DOUBT_SCREENED / DOUBT_CELL);
    if (c->weight > SCREENED_WEIGHT_MAX) c->weight = (float)SCREENED_WEIGHT_MAX;
}

/* What stays is no matter of the whole backend, as far as work of this size can tell: its cell and
 * those beside it take it over, and work of other sizes is predicted as before. */
static void settle(struct cost_line *l, const struct view *v)
{
    double part = l->drift * DRIFT_SETTLES;
    for (int off = -CELL_REACH; off <= CELL_REACH; off++) {
        struct cost_cell *cell = cell_near(l, v, off);
        if (cell) move_bias(cell, CELL_ALIKE[abs(off)] * part);
    }
    l->drift -= (float)part;
}

/* Divides a surprise among the parts of a prediction by their uncertainty (a Kalman step). */
static void line_learn(struct cost_line *l, const struct view *v, double surprise, double noise)
{
    double lean = fabs((double)l->lean) - l->spread;
    if (lean < 0) lean = 0;
    double others = v->coefficients_variance + v->cell_variance + v->screened_variance + noise;
    double drift = lean * lean > DRIFT_SLOW * NOISE ? lean * lean : DRIFT_SLOW * NOISE;
    /* Several surprises in one direction mean that the backend has changed, which the drift learns
     * fast; but one run alone never does. */
    drift = between(0, drift, others * DRIFT_SHARE / (1 - DRIFT_SHARE));
    double all = others + drift;

    double along[COST_FEATURES];
    cost_doubt_along(l, v->shares, along);
    for (uint32_t i = 0; i < COST_FEATURES; i++)
        l->coefficients[i] *= (double)expf((float)between(-1, along[i] * surprise / all, 1));
    cost_doubt_less(l, along, all);
    for (int off = -CELL_REACH; off <= CELL_REACH; off++) {
        struct cost_cell *cell = cell_near(l, v, off);
        if (!cell) continue;
        double alike = CELL_ALIKE[abs(off)], variance = DOUBT_CELL / (1 + cell->weight);
        double gain = alike * sqrt(v->cell_variance * variance) / all;
        move_bias(cell, surprise * gain);
        cell->weight += (float)(alike * alike * NOISE / noise);
        if (cell->weight > CELL_WEIGHT_MAX) cell->weight = (float)CELL_WEIGHT_MAX;
    }
    if (v->asked > 0) learn_screened(&l->screened, v, surprise / all, NOISE / noise);
    l->drift = (float)between(-BOUND, l->drift + surprise * drift / all, BOUND);
    settle(l, v);
}

static void observe_stage(struct cost_model *m, enum backend_id b, const struct work *w,
                          uint64_t low_ns, uint64_t high_ns)
{
    if (!high_ns || low_ns > high_ns) return;
    struct cost_line *l = cost_line_at(m, b, w->operation);
    struct view v;
    view_of(m, b, w, &v);
    double predicted = view_ns(l, &v);
    double low = low_ns ? (double)low_ns : 1, high = (double)high_ns;
    bool alone = low_ns == high_ns;
    l->seen++;
    if (!alone) /* how long the run kept the backend from others, relative to its predicted time */
        l->overlap += 0.05F * ((float)between(0.02, low / predicted, 1) - l->overlap);

    double surprise = log(between(low, predicted, high) / predicted);
    if (!alone && surprise == 0) return; /* the prediction may well be right */
    /* One run far off is an accident; if more follow, spread and lean have grown meanwhile. */
    double limit = 3 * (double)l->spread + 0.15;
    line_learn(l, &v, between(-limit, surprise, limit), alone ? NOISE : 4 * NOISE);
    float bounded = (float)between(-2.5, surprise, 2.5);
    l->spread += 0.1F * (fabsf(bounded) - l->spread);
    l->lean += 0.3F * (bounded - l->lean);
}

/* Of a job in stages nobody says how long each took: each line learns from its share of the time as
 * predicted, so that both are corrected by one factor. */
void cost_observe(struct cost_model *m, enum backend_id b, const struct work *w, uint64_t low_ns,
                  uint64_t high_ns)
{
    if (!w->after.operation) {
        observe_stage(m, b, w, low_ns, high_ns);
        return;
    }
    struct work first = *w;
    const struct work after = after_of(w);
    first.after.operation = 0;
    double a = (double)stage_time(m, b, &first).ns, z = (double)stage_time(m, b, &after).ns;
    double share = a / (a + z);
    uint64_t low = (uint64_t)((double)low_ns * share), high = (uint64_t)((double)high_ns * share);
    observe_stage(m, b, &first, low, low_ns == high_ns ? low : high);
    observe_stage(m, b, &after, low_ns - low, low_ns == high_ns ? low_ns - low : high_ns - high);
}

void cost_observe_upload(struct cost_model *m, uint64_t bytes, uint64_t ns)
{
    if (!bytes || !ns) return;
    /* Corrects both figures, each by its part in the prediction. */
    double per_byte = (double)bytes * m->upload_ns_per_byte, fixed = m->upload_ns;
    double predicted = fixed + per_byte;
    double surprise = between(-1, log((double)ns / predicted), 1);
    m->upload_ns *= exp(0.2 * surprise * fixed / predicted);
    m->upload_ns_per_byte *= exp(0.2 * surprise * per_byte / predicted);
}

/* ---------------------------------------------------------------- how runs end */

void cost_outcome(struct cost_model *m, enum backend_id b, uint32_t operation, bool well)
{
    struct cost_line *l = cost_line_at(m, b, operation);
    for (uint32_t i = COST_WINDOW_MAX / 64 - 1; i; i--)
        l->outcomes[i] = l->outcomes[i] << 1 | l->outcomes[i - 1] >> 63;
    l->outcomes[0] = l->outcomes[0] << 1 | well;
    if (l->outcome_count < COST_WINDOW_MAX) l->outcome_count++;
    if (l->outcome_count > m->window) l->outcome_count = m->window;
    const uint64_t anew = (UINT64_C(1) << COST_OUTCOMES_ANEW) - 1;
    if ((l->outcomes[0] & anew) == anew) l->outcome_count = COST_OUTCOMES_ANEW;
}

/* How many of the newest `count` outcomes were good. */
static uint32_t count_good(const struct cost_line *l, uint32_t count)
{
    uint32_t good = 0;
    for (uint32_t i = 0; count; i++) {
        uint32_t here = count < 64 ? count : 64;
        good += (uint32_t)__builtin_popcountll(l->outcomes[i] << (64 - here));
        count -= here;
    }
    return good;
}

double cost_success_rate(const struct cost_model *m, enum backend_id b, uint32_t operation)
{
    const struct cost_line *l = line_of(m, b, operation);
    uint32_t count = l->outcome_count < m->window ? l->outcome_count : m->window;
    if (count < COST_OUTCOMES_MIN) return 1;
    double n = count, rate = count_good(l, count) / n;
    double wide = 3 * sqrt(rate * (1 - rate) / n + 9 / (4 * n * n));
    double high = (rate + 9 / (2 * n) + wide) / (1 + 9 / n);
    return high < 1 ? high : 1;
}
