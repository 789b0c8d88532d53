#include "tests/support/sched_mix_pass.h"

#include <unistd.h>
#include <string.h>

#include "tests/bench/bench.h"

enum { LONG_MS = 50, LONG_ROUNDS = 2, ENDLESS_MS = 500 /* once */ };

void mix_runs_init(struct mix_runs *r, struct mix *m, const struct sched_bench *b)
{
    *r = (struct mix_runs){.mix = m, .rounds = b->rounds, .pause_us = b->pause_us};
    r->cpu = calloc(m->count, sizeof *r->cpu);
    r->gpu = calloc(m->count, sizeof *r->gpu);
    bool whole = r->cpu && r->gpu;
    for (unsigned p = 0; p < MIX_PASSES_MAX; p++) {
        r->decided[p] = calloc(m->count, sizeof *r->decided[p]);
        whole = whole && r->decided[p];
    }
    if (!whole) bench_fail("mix", "no memory");
}

void mix_forget_decided(struct mix_runs *r)
{
    for (unsigned p = 0; p < MIX_PASSES_MAX; p++)
        memset(r->decided[p], 0, r->mix->count * sizeof *r->decided[p]);
    r->passes = r->warm = 0;
}

static struct mix_answer ask(const struct mix_runs *r, const struct sched_daemon *d, unsigned i)
{
    if (r->pause_us) usleep(r->pause_us);
    return mix_ask(r->mix, d->client, i);
}

static void told(const char *what, unsigned pass, unsigned asked, unsigned of, double start,
                 bool cut)
{
    printf("  pass %u, %s: %u of %u requests in %.1f s%s\n", pass, what, asked, of,
           bench_now_s() - start, cut ? ": CUT, out of time" : "");
    fflush(stdout);
}

void mix_decide(struct mix_runs *r, struct sched_daemon *d, unsigned seconds_max)
{
    if (r->passes == MIX_PASSES_MAX) bench_fail("mix", "too many passes");
    struct mix_answer *out = r->decided[r->passes++];
    unsigned i = 0;
    sched_daemon_force(d, "none");
    double start = bench_now_s();
    for (; i < r->mix->count && bench_now_s() < start + seconds_max; i++)
        out[i] = ask(r, d, i);
    told("as decided", r->passes, i, r->mix->count, start, i < r->mix->count);
}

/* ---------------------------------------------------------------- forced */

static unsigned rounds_of(const struct mix_runs *r, const struct mix_series *s)
{
    unsigned most = s->first_us > ENDLESS_MS * 1e3 ? 1
                    : s->first_us > LONG_MS * 1e3  ? LONG_ROUNDS
                                                   : r->rounds;
    return most < r->rounds ? most : r->rounds;
}

static void shuffle(unsigned *values, unsigned count, uint64_t seed)
{
    for (unsigned i = count; i > 1; i--) {
        unsigned j = (unsigned)(bench_random(&seed) % i), kept = values[i - 1];
        values[i - 1] = values[j];
        values[j] = kept;
    }
}

static void force_one(struct mix_runs *r, struct sched_daemon *d, unsigned i, ea_backend where)
{
    struct mix_series *s = where == EA_BACKEND_GPU ? &r->gpu[i] : &r->cpu[i];
    struct mix_answer a = ask(r, d, i);
    if (!s->count && !s->elsewhere) s->first_us = a.time.us;
    if (a.meta.backend == where)
        s->runs[s->count++] = a.time;
    else
        s->elsewhere++;
}

/* In the order given, from 1 on. */
static void force_pass(struct mix_runs *r, struct sched_daemon *d, unsigned pass,
                       const unsigned *order, double end_s)
{
    ea_backend where = pass % 2 ? EA_BACKEND_CPU : EA_BACKEND_GPU;
    const struct mix_series *all = where == EA_BACKEND_GPU ? r->gpu : r->cpu;
    unsigned asked = 0, due = 0, round = (pass - 1) / 2;
    sched_daemon_force(d, ea_backend_name(where));
    double start = bench_now_s();
    for (unsigned n = 0; n < r->mix->count; n++) {
        if (rounds_of(r, &all[order[n]]) <= round) continue;
        due++;
        if (bench_now_s() > end_s) continue;
        force_one(r, d, order[n], where);
        asked++;
    }
    told(where == EA_BACKEND_GPU ? "forced to the GPU" : "forced to the CPU", pass, asked, due,
         start, asked < due);
}

static void print_series(const struct mix_runs *r, const char *name, const struct mix_series *all)
{
    unsigned longer = 0, endless = 0, elsewhere = 0, never = 0;
    for (unsigned i = 0; i < r->mix->count; i++) {
        bool once = all[i].first_us > ENDLESS_MS * 1e3;
        endless += once;
        longer += !once && all[i].first_us > LONG_MS * 1e3;
        elsewhere += all[i].elsewhere;
        never += !all[i].count && all[i].elsewhere;
    }
    printf("  forced to the %s: at most %u rounds; %u requests took more than %d ms the first time "
           "and ran in at most %d, %u more than %d ms and ran in one; %u runs were not there, %u "
           "requests never were\n",
           name, r->rounds, longer, LONG_MS, LONG_ROUNDS, endless, ENDLESS_MS, elsewhere, never);
}

void mix_force(struct mix_runs *r, struct sched_daemon *d, unsigned seconds_max)
{
    double end = bench_now_s() + seconds_max;
    unsigned *order = malloc(r->mix->count * sizeof *order);
    if (!order) bench_fail("mix", "no memory");
    for (unsigned i = 0; i < r->mix->count; i++)
        order[i] = i;
    for (unsigned pass = 1; pass <= 2 * r->rounds; pass++) {
        shuffle(order, r->mix->count, pass);
        force_pass(r, d, pass, order, end);
    }
    free(order);
    sched_daemon_force(d, "none");
    print_series(r, "CPU", r->cpu);
    print_series(r, "GPU", r->gpu);
    fflush(stdout);
}
