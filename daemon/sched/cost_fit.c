#include "daemon/sched/cost_inside.h"

#include <math.h>
#include <string.h>

enum {
    SAMPLES_MAX = 256,
    SAMPLES_MIN = 4,
    SWEEPS = 400,
    OUTLIERS = 2, /* at most this many samples are left out */
};

/* Samples determine coefficients as far as they can tell them apart. A weak pull towards the
 * built-in figure, this part of a sample, decides the rest. The result is the figure of the next
 * round, so that a machine that differs much from the built-in figures is not pulled back. */
static const double PULL = 0.01;
enum { ROUNDS = 6 };
static const double NOISE_LEAST = 0.08;
/* the error of an affine form is not independent from run to run */
static const double MISFIT = 10;

struct fit {
    /* of the time seen, with the coefficients of the start */
    double part[SAMPLES_MAX][COST_FEATURES];
    double scale[COST_FEATURES];  /* the result: factors of these coefficients */
    double anchor[COST_FEATURES]; /* where the pull leads */
    bool out[SAMPLES_MAX];
    uint32_t count;
};

static double miss_of(const struct fit *f, uint32_t s)
{
    double sum = 0;
    for (uint32_t i = 0; i < COST_FEATURES; i++)
        sum += f->part[s][i] * f->scale[i];
    return sum - 1;
}

/* Lowers the sum of (predicted / seen - 1)^2 + PULL * (scale / anchor - 1)^2 over scale >= 0, one
 * coordinate after the other. */
static void sweep(struct fit *f)
{
    for (uint32_t i = 0; i < COST_FEATURES; i++) {
        double pull = PULL / (f->anchor[i] * f->anchor[i]);
        double slope = pull * (f->scale[i] - f->anchor[i]), curve = pull;
        for (uint32_t s = 0; s < f->count; s++) {
            if (f->out[s]) continue;
            slope += f->part[s][i] * miss_of(f, s);
            curve += f->part[s][i] * f->part[s][i];
        }
        double next = f->scale[i] - slope / curve;
        f->scale[i] = next > 0 ? next : 0;
    }
}

static void descend(struct fit *f)
{
    for (uint32_t i = 0; i < COST_FEATURES; i++)
        f->scale[i] = f->anchor[i] = 1;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t n = 0; n < SWEEPS; n++)
            sweep(f);
        for (uint32_t i = 0; i < COST_FEATURES; i++)
            f->anchor[i] = f->scale[i] > 0.1 * f->anchor[i] ? f->scale[i] : 0.1 * f->anchor[i];
    }
}

/* Root mean square of ln(predicted / seen) over the samples in use; worst: the one farthest off. */
static double spread_of(const struct fit *f, uint32_t *worst, double *worst_off)
{
    double sum = 0, most = 0;
    uint32_t in = 0;
    for (uint32_t s = 0; s < f->count; s++) {
        if (f->out[s]) continue;
        double ratio = 1 + miss_of(f, s), off = fabs(log(ratio > 1e-6 ? ratio : 1e-6));
        sum += off * off;
        in++;
        if (off < most) continue;
        most = off;
        *worst = s;
    }
    *worst_off = most;
    return sqrt(sum / in);
}

/* Fits, and fits again without samples that look like accidents beside the others. */
static double fit_robustly(struct fit *f)
{
    descend(f);
    uint32_t worst = 0;
    double off = 0, spread = spread_of(f, &worst, &off);
    for (uint32_t left_out = 0;
         left_out < OUTLIERS && f->count - left_out > SAMPLES_MIN && off > 0.4; left_out++) {
        f->out[worst] = true;
        descend(f);
        uint32_t next = 0;
        double next_off = 0, without = spread_of(f, &next, &next_off);
        if (without > spread * 0.85) { /* not an accident: the affine form does not fit this work */
            f->out[worst] = false;
            descend(f);
            break;
        }
        spread = without;
        worst = next;
        off = next_off;
    }
    return spread;
}

static void take_over(struct cost_line *l, const struct fit *f, double spread)
{
    double noise = spread > NOISE_LEAST ? spread : NOISE_LEAST;
    /* A coefficient of 0 could never change again; a thousandth of the built-in figure can. */
    for (uint32_t i = 0; i < COST_FEATURES; i++)
        l->coefficients[i] *= f->scale[i] > 1e-3 ? f->scale[i] : 1e-3;
    cost_doubt_all(l);
    for (uint32_t s = 0; s < f->count; s++) {
        double shares[COST_FEATURES], along[COST_FEATURES];
        if (f->out[s]) continue;
        for (uint32_t i = 0; i < COST_FEATURES; i++)
            shares[i] = f->part[s][i] * f->scale[i] / (1 + miss_of(f, s));
        cost_doubt_along(l, shares, along);
        cost_doubt_less(l, along, cost_doubt(l, shares) + MISFIT * noise * noise);
    }
    cost_clear(l, noise);
}

void cost_fit(struct cost_model *m, enum backend_id b, uint32_t operation,
              const struct cost_sample *samples, uint32_t count)
{
    struct cost_line *l = cost_line_at(m, b, operation);
    struct fit f = {0};
    for (uint32_t s = 0; s < count && f.count < SAMPLES_MAX; s++) {
        if (!samples[s].ns) continue;
        double *part = f.part[f.count++];
        cost_features(m, &samples[s].work, b, part);
        for (uint32_t i = 0; i < COST_FEATURES; i++)
            part[i] *= l->coefficients[i] / (double)samples[s].ns;
    }
    if (f.count < SAMPLES_MIN) return;
    take_over(l, &f, fit_robustly(&f));
    m->calibrated = true;
}
