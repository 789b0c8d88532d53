#include "tests/support/sched_mix_report.h"

#include <stdio.h>
#include <string.h>

enum { WORST = 10, REASONS = 32, MARGINS = 4 };

/* ---------------------------------------------------------------- the worst */

struct worst {
    unsigned index[WORST], pass[WORST];
    double lost_us[WORST];
    unsigned count;
};

static void worst_offer(struct worst *w, unsigned index, unsigned pass, double lost_us)
{
    unsigned at = w->count < WORST ? w->count++ : WORST;
    while (at > 0 && w->lost_us[at - 1] < lost_us) {
        if (at < WORST) {
            w->lost_us[at] = w->lost_us[at - 1];
            w->index[at] = w->index[at - 1];
            w->pass[at] = w->pass[at - 1];
        }
        at--;
    }
    if (at == WORST) return;
    w->lost_us[at] = lost_us;
    w->index[at] = index;
    w->pass[at] = pass;
}

static void worst_print(const struct worst *w, const struct mix_runs *r)
{
    if (!w->count) return;
    printf("  the worst of those that went the slower way, the first such pass of each (times in "
           "us):\n    %5s  %-10s %8s %7s %4s %6s %9s %9s %9s %9s %9s %9s %9s  %s\n",
           "no", "operation", "rows", "queries", "k", "listed", "cpu", "gpu", "took", "queued",
           "ran", "predicted", "other", "where, why");
    for (unsigned n = 0; n < w->count; n++) {
        unsigned i = w->index[n];
        const struct mix_request *q = &r->mix->requests[i];
        const struct mix_answer *a = &r->decided[w->pass[n]][i];
        printf(
            "    %5u  %-10s %8llu %7u %4u %6u %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f  %s, %s\n",
            i, mix_operation_name(q->operation), (unsigned long long)q->rows, q->queries,
            q->operation == MIX_SIMILARITY ? 0 : q->k, q->listed,
            mix_median_us(&r->cpu[i], MIX_BY_DAEMON, 0, 1),
            mix_median_us(&r->gpu[i], MIX_BY_DAEMON, 0, 1), a->time.daemon_us,
            (double)a->meta.queue_ns / 1e3, a->time.ran_us, (double)a->meta.predicted_ns / 1e3,
            (double)a->meta.other_ns / 1e3, ea_backend_name(a->meta.backend),
            ea_reason_name(a->meta.reason));
    }
}

/* ---------------------------------------------------------------- by how much */

/* Of those decided against the faster by more than MIX_NOISE_PERCENT. */
struct margins {
    unsigned count[REASONS][MARGINS];
    double lost_us[REASONS][MARGINS];
};

static void margins_add(struct margins *m, uint32_t reason, const struct mix_judged *j)
{
    static const double bounds[MARGINS - 1] = {1.1, 1.3, 2};
    unsigned at = 0;
    while (at < MARGINS - 1 && j->chosen_us > j->best_us * bounds[at])
        at++;
    if (reason >= REASONS) return;
    m->count[reason][at]++;
    m->lost_us[reason][at] += j->chosen_us - j->best_us;
}

static void margins_row(const char *name, const unsigned *count, const double *lost_us)
{
    unsigned all = 0;
    double all_us = 0;
    printf("    %-20s", name);
    for (unsigned n = 0; n < MARGINS; n++) {
        printf(" %6u %9.2f ms", count[n], lost_us[n] / 1e3);
        all += count[n];
        all_us += lost_us[n];
    }
    printf(" %6u %9.2f ms\n", all, all_us / 1e3);
}

static void margins_print(const struct margins *m)
{
    unsigned count[MARGINS] = {0};
    double lost_us[MARGINS] = {0};
    printf("  decided against the faster, and the time lost by it, by how much longer that is:\n"
           "    %-20s %19s %19s %19s %19s %19s\n",
           "reason", "3 to 10 %", "10 to 30 %", "30 to 100 %", "more than twice", "all");
    for (uint32_t reason = 0; reason < REASONS; reason++) {
        unsigned any = 0;
        for (unsigned n = 0; n < MARGINS; n++) {
            any += m->count[reason][n];
            count[n] += m->count[reason][n];
            lost_us[n] += m->lost_us[reason][n];
        }
        if (any) margins_row(ea_reason_name(reason), m->count[reason], m->lost_us[reason]);
    }
    margins_row("all", count, lost_us);
}

/* ---------------------------------------------------------------- all of them */

struct tally {
    unsigned judged, right, nearly, clearly_wrong, probes, both;
    unsigned cells[MIX_OPERATIONS][2][2]; /* operation, GPU is faster, nearly right */
    struct margins margins;
    double chosen_us, chosen_best_us; /* of every decision */
    double took_us, took_best_us;     /* of every request */
};

static void tally_decision(struct tally *t, const struct mix_runs *r, unsigned i, unsigned p,
                           const struct mix_judged *j)
{
    const ea_meta *meta = &r->decided[p][i].meta;
    t->judged++;
    t->right += j->right;
    t->nearly += j->nearly;
    t->clearly_wrong += j->clearly_wrong;
    t->probes += strcmp(ea_reason_name(meta->reason), "probe") == 0;
    t->both += meta->backend == EA_BACKEND_BOTH;
    t->cells[r->mix->requests[i].operation][j->gpu_is_faster][j->nearly]++;
    if (!j->nearly) margins_add(&t->margins, meta->reason, j);
    t->chosen_us += j->chosen_us;
    t->chosen_best_us += j->best_us;
}

static bool was_decided(const struct mix_runs *r, unsigned i, unsigned p)
{
    return r->decided[p][i].time.us > 0;
}

static struct tally tally_all(const struct mix_runs *r, unsigned first, enum mix_clock by,
                              struct worst *worst)
{
    struct tally t = {0};
    for (unsigned i = first; i < r->mix->count; i++) {
        bool offered = !worst, decided = false;
        double best_us = 0;
        if (!mix_is_measured(r, i)) continue;
        for (unsigned p = r->warm; p < r->passes; p++) {
            if (!was_decided(r, i, p)) continue;
            struct mix_judged j = mix_judge(r, i, p, by);
            tally_decision(&t, r, i, p, &j);
            if (!j.nearly && !offered) worst_offer(worst, i, p, j.chosen_us - j.best_us);
            offered = offered || !j.nearly;
            decided = true;
            best_us = j.best_us;
        }
        if (!decided) continue;
        t.took_us += mix_decided_us(r, i, by, 0);
        t.took_best_us += best_us;
    }
    return t;
}

static void print_passes(const struct mix_runs *r, unsigned first)
{
    for (unsigned p = 0; p < r->passes; p++) {
        unsigned judged = 0, right = 0, nearly = 0;
        double took_us = 0, best_us = 0;
        for (unsigned i = first; i < r->mix->count; i++) {
            if (!mix_is_measured(r, i) || !was_decided(r, i, p)) continue;
            struct mix_judged j = mix_judge(r, i, p, MIX_BY_DAEMON);
            judged++;
            right += j.right;
            nearly += j.nearly;
            took_us += r->decided[p][i].time.daemon_us;
            best_us += j.best_us;
        }
        if (!judged) continue;
        printf("    pass %u%s: %.2f %% the faster way within %d %%, %.2f %% strictly; single runs "
               "%.1f ms, / best of each %.3f x\n",
               p + 1, p < r->warm ? " (first touches, not judged)" : "", 100.0 * nearly / judged,
               MIX_NOISE_PERCENT, 100.0 * right / judged, took_us / 1e3, took_us / best_us);
    }
}

static void print_left_out(const struct mix_runs *r, unsigned first)
{
    unsigned unmeasured = 0, undecided = 0;
    for (unsigned i = first; i < r->mix->count; i++) {
        unmeasured += !mix_is_measured(r, i);
        for (unsigned p = r->warm; p < r->passes; p++)
            undecided += !was_decided(r, i, p);
    }
    printf("    left out for want of time: %u requests not measured on both backends, %u decisions "
           "not made\n",
           unmeasured, undecided);
}

static void tally_print(const struct tally *t, const struct mix_runs *r)
{
    for (int o = 0; o < MIX_OPERATIONS; o++)
        printf(
            "    %-10s CPU faster: %4u went right, %3u wrong; GPU faster: %4u right, %3u wrong\n",
            mix_operation_name((enum mix_operation)o), t->cells[o][0][1], t->cells[o][0][0],
            t->cells[o][1][1], t->cells[o][1][0]);
    printf("    %u probes (%.2f %%), %u on both at once, %u answers of all passes with other bits; "
           "as decided %.1f ms, the best of each %.1f ms\n",
           t->probes, 100.0 * t->probes / t->judged, t->both, r->mix->other_bits, t->took_us / 1e3,
           t->took_best_us / 1e3);
}

void mix_report(struct sched_bench *b, const struct mix_runs *r, unsigned first)
{
    struct worst worst = {.count = 0};
    struct tally t = tally_all(r, first, MIX_BY_DAEMON, &worst);
    struct tally wall = tally_all(r, first, MIX_BY_CLIENT, NULL);
    if (!t.judged) {
        printf("  nothing was both decided and measured: nothing to judge\n");
        return;
    }
    printf("  requests %u to %u, %u decisions of %u passes judged by the daemon's time\n", first,
           r->mix->count - 1, t.judged, r->passes - r->warm);
    print_left_out(r, first);
    print_passes(r, first);
    tally_print(&t, r);
    sched_verdict(b, "went the faster way, where all rounds agree",
                  100.0 * (t.judged - t.clearly_wrong) / t.judged, "%", true, 95);
    sched_verdict(b, "went the faster way, within 3 % of equal", 100.0 * t.nearly / t.judged, "%",
                  true, 95);
    sched_verdict(b, "went the faster way, strictly", 100.0 * t.right / t.judged, "%", true, 95);
    sched_verdict(b, "time as decided / best of each", t.took_us / t.took_best_us, "x", false,
                  1.05);
    sched_verdict(b, "medians of what was chosen / best of each", t.chosen_us / t.chosen_best_us,
                  "x", false, 1.05);
    printf(
        "  all of them by the client's time: %.3f %% within 3 %% of equal, %.3f %% strictly, time "
        "as decided / best %.3f x, medians / best %.3f x\n",
        100.0 * wall.nearly / wall.judged, 100.0 * wall.right / wall.judged,
        wall.took_us / wall.took_best_us, wall.chosen_us / wall.chosen_best_us);
    mix_print_noise(r, first);
    margins_print(&t.margins);
    worst_print(&worst, r);
    fflush(stdout);
}
