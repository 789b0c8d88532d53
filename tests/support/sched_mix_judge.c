#include "tests/support/sched_mix_judge.h"

#include "tests/bench/bench.h"

double mix_time_us(const struct mix_time *t, enum mix_clock by)
{
    return by == MIX_BY_DAEMON ? t->daemon_us : t->us;
}

/* Sorts values. Of an even number the middle of the two: one of them would be the slower one. */
static double median(double *values, unsigned count)
{
    if (!count) return 0;
    qsort(values, count, sizeof *values, bench_compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

double mix_median_us(const struct mix_series *s, enum mix_clock by, unsigned first, unsigned step)
{
    double values[MIX_ROUNDS_MAX];
    unsigned count = 0;
    for (unsigned n = first; n < s->count; n += step)
        values[count++] = mix_time_us(&s->runs[n], by);
    return median(values, count);
}

bool mix_is_measured(const struct mix_runs *r, unsigned i)
{
    return r->cpu[i].count && (r->gpu[i].count || r->gpu[i].elsewhere);
}

double mix_decided_us(const struct mix_runs *r, unsigned i, enum mix_clock by, ea_backend where)
{
    double values[MIX_PASSES_MAX];
    unsigned count = 0;
    for (unsigned p = r->warm; p < r->passes; p++) {
        const struct mix_answer *a = &r->decided[p][i];
        if (a->time.us > 0 && (!where || a->meta.backend == where))
            values[count++] = mix_time_us(&a->time, by);
    }
    return median(values, count);
}

/* Every run of a took longer than any of b. */
static bool always_slower(const struct mix_series *a, const struct mix_series *b)
{
    for (unsigned x = 0; x < a->count; x++)
        for (unsigned y = 0; y < b->count; y++)
            if (a->runs[x].daemon_us <= b->runs[y].daemon_us) return false;
    return a->count && b->count;
}

struct mix_judged mix_judge(const struct mix_runs *r, unsigned i, unsigned p, enum mix_clock by)
{
    const struct mix_series *c = &r->cpu[i], *g = &r->gpu[i];
    const struct mix_answer *a = &r->decided[p][i];
    double cpu = mix_median_us(c, by, 0, 1), gpu = mix_median_us(g, by, 0, 1);
    struct mix_judged j = {.best_us = cpu};
    if (gpu > 0 && gpu < cpu) {
        j.best_us = gpu;
        j.gpu_is_faster = true;
    }
    switch (a->meta.backend) {
    case EA_BACKEND_GPU:
        j.chosen_us = gpu;
        j.clearly_wrong = always_slower(g, c);
        break;
    case EA_BACKEND_CPU:
        j.chosen_us = cpu;
        j.clearly_wrong = always_slower(c, g);
        break;
    default: break; /* both at once: no forced pass has its median */
    }
    if (!(j.chosen_us > 0))
        j.chosen_us =
            p < r->warm ? mix_time_us(&a->time, by) : mix_decided_us(r, i, by, a->meta.backend);
    j.right = j.chosen_us <= j.best_us;
    j.nearly = j.chosen_us <= j.best_us * (1 + MIX_NOISE_PERCENT / 100.0);
    return j;
}
