#include <math.h>

#include "tests/bench/bench.h"
#include "tests/support/sched_mix_report.h"

struct oracle {
    unsigned asked, right, nearly, disagree;
    double chosen_us, best_us;
};

/* Chooses by the rounds with that parity and is judged by the others. */
static void choose(struct oracle *o, const struct mix_runs *r, unsigned i, unsigned parity)
{
    const struct mix_series *c = &r->cpu[i], *g = &r->gpu[i];
    bool gpu =
        mix_median_us(g, MIX_BY_DAEMON, parity, 2) < mix_median_us(c, MIX_BY_DAEMON, parity, 2);
    double cpu_us = mix_median_us(c, MIX_BY_DAEMON, 1 - parity, 2);
    double gpu_us = mix_median_us(g, MIX_BY_DAEMON, 1 - parity, 2);
    double chosen_us = gpu ? gpu_us : cpu_us, best_us = fmin(cpu_us, gpu_us);
    o->asked++;
    o->right += chosen_us <= best_us;
    o->nearly += chosen_us <= best_us * (1 + MIX_NOISE_PERCENT / 100.0);
    o->disagree += parity == 0 && chosen_us > best_us;
    o->chosen_us += chosen_us;
    o->best_us += best_us;
}

/* A pass that asks one backend alone finds it more awake, or less, than one that goes to and
 * fro. */
static void print_company(const struct mix_runs *r, unsigned first, ea_backend where)
{
    double *ratios = malloc(r->mix->count * sizeof *ratios);
    unsigned count = 0;
    if (!ratios) bench_fail("mix", "no memory");
    for (unsigned i = first; i < r->mix->count; i++) {
        const struct mix_series *s = where == EA_BACKEND_GPU ? &r->gpu[i] : &r->cpu[i];
        double decided_us = mix_decided_us(r, i, MIX_BY_DAEMON, where);
        if (s->count && decided_us > 0)
            ratios[count++] = decided_us / mix_median_us(s, MIX_BY_DAEMON, 0, 1);
    }
    if (count)
        printf("  decided for the %s / forced there, %u requests: p10 %.3f x, p50 %.3f x, p90 %.3f "
               "x\n",
               where == EA_BACKEND_GPU ? "GPU" : "CPU", count, bench_percentile(ratios, count, 10),
               bench_percentile(ratios, count, 50), bench_percentile(ratios, count, 90));
    free(ratios);
}

void mix_print_noise(const struct mix_runs *r, unsigned first)
{
    struct oracle o = {0};
    unsigned halved = 0, once = 0;
    for (unsigned i = first; i < r->mix->count; i++) {
        if (!mix_is_measured(r, i)) continue;
        if (r->cpu[i].count < 2 || r->gpu[i].count < 2) {
            once++;
            continue;
        }
        choose(&o, r, i, 0);
        choose(&o, r, i, 1);
        halved++;
    }
    print_company(r, first, EA_BACKEND_CPU);
    print_company(r, first, EA_BACKEND_GPU);
    if (!halved) {
        printf("  noise of the measure: no request has two rounds on both backends\n");
        return;
    }
    printf(
        "  noise of the measure: odd and even rounds disagree on the faster backend for %u of %u "
        "requests (%.2f %%); %u more have no two rounds on both\n"
        "  an oracle that knows one half of the rounds, judged by the other: %.3f %% within %d %% "
        "of equal, %.3f %% strictly, time / best of each %.3f x\n",
        o.disagree, halved, 100.0 * o.disagree / halved, once, 100.0 * o.nearly / o.asked,
        MIX_NOISE_PERCENT, 100.0 * o.right / o.asked, o.chosen_us / o.best_us);
}
