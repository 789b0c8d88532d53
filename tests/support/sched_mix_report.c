/* sched_mix_report: what the daemon decided, against what would have been best. Judged by the time
 * from the whole request to its reply being queued (Meta.total_ns): what is before and after is the
 * socket's and the client's, the same wherever it ran. Runs of one request differ by more than its
 * backends do, near the crossover: beside the medians it counts where one backend was faster in
 * every round, so that there is no doubt. The same shares by the client's time are printed too. */
#include <errno.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/support/sched_mix.h"

enum { WORST = 10, NOISE_PERCENT = 3, REASONS = 32 };

static const char *const operation_names[MIX_OPERATIONS] = {"knn", "similarity", "score"};

enum measure { BY_RULE, BY_WALL };

struct judged {
    double best_us, chosen_us, took_us; /* best, chosen: medians; chosen: of the daemon's choice */
    bool right, nearly;                 /* nearly: or within the noise */
    bool clearly_wrong;                 /* the other one was faster in every round */
};

static double time_us(const struct mix_time *t, bool daemons)
{
    return daemons ? t->daemon_us : t->us;
}

static struct judged judge(const struct mix *m, unsigned i, enum measure by)
{
    bool daemons = by == BY_RULE;
    double cpu = time_us(&m->cpu[i], daemons), gpu = time_us(&m->gpu[i], daemons);
    struct judged j = {.best_us = gpu > 0 && gpu < cpu ? gpu : cpu,
                       .took_us = time_us(&m->decided[i], daemons)};
    const struct mix_time *c = &m->cpu[i], *g = &m->gpu[i];
    switch (m->decided[i].meta.backend) {
    case EA_BACKEND_GPU:
        j.chosen_us = gpu;
        j.clearly_wrong = gpu > 0 && g->least_us > c->most_us;
        break;
    case EA_BACKEND_CPU:
        j.chosen_us = cpu;
        j.clearly_wrong = gpu > 0 && c->least_us > g->most_us;
        break;
    default: j.chosen_us = j.took_us; break; /* both at once: no pass has its median */
    }
    if (!(j.chosen_us > 0)) j.chosen_us = j.took_us;
    j.right = j.chosen_us <= j.best_us;
    j.nearly = j.chosen_us <= j.best_us * (1 + NOISE_PERCENT / 100.0);
    return j;
}

/* ---------------------------------------------------------------- the worst */

struct worst {
    unsigned index[WORST];
    double lost_us[WORST];
    unsigned count;
};

static void worst_offer(struct worst *w, unsigned index, double lost_us)
{
    unsigned at = w->count < WORST ? w->count++ : WORST;
    while (at > 0 && w->lost_us[at - 1] < lost_us) {
        if (at < WORST) {
            w->lost_us[at] = w->lost_us[at - 1];
            w->index[at] = w->index[at - 1];
        }
        at--;
    }
    if (at == WORST) return;
    w->lost_us[at] = lost_us;
    w->index[at] = index;
}

static void worst_print(const struct worst *w, const struct mix *m)
{
    if (!w->count) return;
    printf("  the worst of those that went the slower way (times in us):\n"
           "    %5s  %-10s %8s %7s %4s %6s %9s %9s %9s %9s %9s %9s %9s  %s\n",
           "no", "operation", "rows", "queries", "k", "listed", "cpu", "gpu", "took", "queued",
           "ran", "predicted", "other", "where, why");
    for (unsigned n = 0; n < w->count; n++) {
        unsigned i = w->index[n];
        const struct mix_request *q = &m->requests[i];
        const ea_meta *meta = &m->decided[i].meta;
        printf(
            "    %5u  %-10s %8llu %7u %4u %6u %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f  %s, %s\n",
            i, operation_names[q->operation], (unsigned long long)q->rows, q->queries,
            q->operation == MIX_SIMILARITY ? 0 : q->k, q->listed, m->cpu[i].daemon_us,
            m->gpu[i].daemon_us, m->decided[i].daemon_us, (double)meta->queue_ns / 1e3,
            (double)meta->run_ns / 1e3, (double)meta->predicted_ns / 1e3,
            (double)meta->other_ns / 1e3, ea_backend_name(meta->backend),
            ea_reason_name(meta->reason));
    }
}

/* ---------------------------------------------------------------- all of them */

struct tally {
    unsigned judged, right, nearly, clearly_wrong, probes, both, wrong_answers;
    unsigned cells[MIX_OPERATIONS][2][2]; /* operation, GPU is faster, right */
    unsigned wrong_by_reason[REASONS];
    double lost_by_reason_us[REASONS]; /* by medians */
    double took_us, chosen_us, best_us;
};

static void tally_add(struct tally *t, const struct mix *m, unsigned i, const struct judged *j)
{
    const struct mix_time *d = &m->decided[i];
    double gpu_us = m->gpu[i].daemon_us;
    bool gpu_faster = gpu_us > 0 && gpu_us < m->cpu[i].daemon_us;
    t->judged++;
    t->right += j->right;
    t->nearly += j->nearly;
    t->clearly_wrong += j->clearly_wrong;
    t->probes += strcmp(ea_reason_name(d->meta.reason), "probe") == 0;
    t->both += d->meta.backend == EA_BACKEND_BOTH;
    t->wrong_answers += d->digest != m->cpu[i].digest || d->digest != m->gpu[i].digest;
    t->cells[m->requests[i].operation][gpu_faster][j->nearly]++;
    if (!j->nearly && d->meta.reason < REASONS) {
        t->wrong_by_reason[d->meta.reason]++;
        t->lost_by_reason_us[d->meta.reason] += j->chosen_us - j->best_us;
    }
    t->took_us += j->took_us;
    t->chosen_us += j->chosen_us;
    t->best_us += j->best_us;
}

static void tally_print(const struct tally *t)
{
    for (int o = 0; o < MIX_OPERATIONS; o++)
        printf(
            "    %-10s CPU faster: %4u went right, %3u wrong; GPU faster: %4u right, %3u wrong\n",
            operation_names[o], t->cells[o][0][1], t->cells[o][0][0], t->cells[o][1][1],
            t->cells[o][1][0]);
    printf("    %u probes (%.2f %%), %u on both at once, %u answers with other bits; as decided "
           "%.1f ms, the best of each %.1f ms\n",
           t->probes, 100.0 * t->probes / t->judged, t->both, t->wrong_answers, t->took_us / 1e3,
           t->best_us / 1e3);
    for (uint32_t reason = 0; reason < REASONS; reason++)
        if (t->wrong_by_reason[reason])
            printf("    the slower way for %s: %u, %.1f ms longer together\n",
                   ea_reason_name(reason), t->wrong_by_reason[reason],
                   t->lost_by_reason_us[reason] / 1e3);
}

/* For whoever wants to fit a model of his own. */
static void dump(const char *path, const struct mix *m)
{
    FILE *out = fopen(path, "w");
    if (!out) bench_fail("--dump", strerror(errno));
    fprintf(out,
            "operation rows queries k listed cpu_us cpu_ran_us gpu_us gpu_ran_us took_us ran_us "
            "predicted_us other_us backend reason\n");
    for (unsigned i = 0; i < m->count; i++) {
        const struct mix_request *r = &m->requests[i];
        const ea_meta *d = &m->decided[i].meta;
        fprintf(out, "%d %llu %u %u %u %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %d %s\n",
                (int)r->operation, (unsigned long long)r->rows, r->queries, r->k, r->listed,
                m->cpu[i].us, m->cpu[i].daemon_us, m->gpu[i].us, m->gpu[i].daemon_us,
                m->decided[i].us, m->decided[i].daemon_us, (double)d->predicted_ns / 1e3,
                (double)d->other_ns / 1e3, (int)d->backend, ea_reason_name(d->reason));
    }
    fclose(out);
}

void mix_report(struct sched_bench *b, const struct mix *m, unsigned first)
{
    struct tally t = {0}, wall = {0};
    struct worst worst = {.count = 0};
    for (unsigned i = first; i < m->count; i++) {
        if (!(m->cpu[i].us > 0)) continue; /* there was no time left for it */
        struct judged j = judge(m, i, BY_RULE), by_wall = judge(m, i, BY_WALL);
        tally_add(&t, m, i, &j);
        tally_add(&wall, m, i, &by_wall);
        if (!j.nearly) worst_offer(&worst, i, j.chosen_us - j.best_us);
    }
    if (!t.judged) bench_fail("mix", "nothing was measured");
    if (b->dump) dump(b->dump, m);
    b->wrong += t.wrong_answers;
    printf("  requests %u to %u, %u judged by the daemon's time\n", first, m->count - 1, t.judged);
    tally_print(&t);
    sched_verdict(b, "went the faster way, where all rounds agree",
                  100.0 * (t.judged - t.clearly_wrong) / t.judged, "%", true, 95);
    sched_verdict(b, "went the faster way, within 3 % of equal", 100.0 * t.nearly / t.judged, "%",
                  true, 95);
    sched_verdict(b, "went the faster way, strictly", 100.0 * t.right / t.judged, "%", true, 95);
    sched_verdict(b, "time as decided / best of each", t.took_us / t.best_us, "x", false, 1.05);
    sched_verdict(b, "medians of what was chosen / best of each", t.chosen_us / t.best_us, "x",
                  false, 1.05);
    printf(
        "  all of them by the client's time: %.3f %% within 3 %% of equal, %.3f %% strictly, time "
        "as decided / best %.3f x, medians / best %.3f x\n",
        100.0 * wall.nearly / wall.judged, 100.0 * wall.right / wall.judged,
        wall.took_us / wall.best_us, wall.chosen_us / wall.best_us);
    worst_print(&worst, m);
    fflush(stdout);
}

/* ---------------------------------------------------------------- sections */

enum { MIX_SEED = 20260401, COLD_FIRST = 200, FORCED_S = 150, MIX_S = 240, COLD_S = 90 };

static struct mix shared; /* cold asks the same again; what was measured forced holds for both */
static bool shared_measured;

static void prepare(const struct sched_bench *b)
{
    if (!shared.requests) mix_init(&shared, b, MIX_SEED);
}

static void measure_once(struct sched_daemon *d)
{
    if (!shared_measured) mix_measure(&shared, d, FORCED_S);
    shared_measured = true;
}

void sched_mix(struct sched_bench *b)
{
    struct sched_daemon d;
    sched_title("mix", "requests one at a time: where they went, and where they had better gone",
                MIX_S);
    prepare(b);
    sched_daemon_start(&d, b, mix_rows(&shared), NULL);
    sched_daemon_calibrated(&d, b);
    mix_load(&shared, &d);
    for (unsigned i = 0; i < shared.set_count; i++)
        if (!sched_warm_replica(&d, shared.sets[i])) bench_fail("mix", "a replica is missing");
    mix_decide(&shared, &d);
    sched_print_scheduler(&d);
    measure_once(&d);
    mix_report(b, &shared, 0);
    sched_daemon_stop(&d);
}

void sched_cold(struct sched_bench *b)
{
    struct sched_daemon d;
    sched_title("cold", "the same without calibration, model or replicas; its first 200 not judged",
                shared_measured ? COLD_S : MIX_S);
    prepare(b);
    sched_daemon_start(&d, b, mix_rows(&shared),
                       (const char *const[]){"sched.calibrate=false", NULL});
    mix_load(&shared, &d);
    mix_decide(&shared, &d);
    sched_print_scheduler(&d);
    measure_once(&d);
    if (shared.count > COLD_FIRST)
        mix_report(b, &shared, COLD_FIRST);
    else
        printf("  too few requests to judge after the first %d\n", COLD_FIRST);
    sched_daemon_stop(&d);
}
