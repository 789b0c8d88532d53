#include <errno.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/support/sched_mix_report.h"

/* Lists have commas and no spaces; "-": nothing there. */
enum field { CLIENT_US, DAEMON_US, RAN_US, PREDICTED_US, OTHER_US, QUEUED_US };

static double field_us(const struct mix_time *t, enum field f)
{
    return f == CLIENT_US ? t->us : f == DAEMON_US ? t->daemon_us : t->ran_us;
}

static double meta_us(const ea_meta *m, enum field f)
{
    return (double)(f == PREDICTED_US ? m->predicted_ns
                    : f == OTHER_US   ? m->other_ns
                                      : m->queue_ns) /
           1e3;
}

static void put_series(FILE *out, const struct mix_series *s)
{
    for (enum field f = CLIENT_US; f <= RAN_US; f++) {
        fputs(s->count ? " " : " -", out);
        for (unsigned n = 0; n < s->count; n++)
            fprintf(out, "%s%.1f", n ? "," : "", field_us(&s->runs[n], f));
    }
}

/* One value a pass, 0 and "-" for those that were cut before it. */
static void put_decided(FILE *out, const struct mix_runs *r, unsigned i)
{
    for (enum field f = CLIENT_US; f <= QUEUED_US; f++)
        for (unsigned p = 0; p < r->passes; p++) {
            const struct mix_answer *a = &r->decided[p][i];
            double us = f <= RAN_US ? field_us(&a->time, f) : meta_us(&a->meta, f);
            fprintf(out, "%s%.1f", p ? "," : " ", us);
        }
    for (unsigned p = 0; p < r->passes; p++) {
        const struct mix_answer *a = &r->decided[p][i];
        fprintf(out, "%s%s", p ? "," : " ",
                a->time.us > 0 ? ea_backend_name(a->meta.backend) : "-");
    }
    for (unsigned p = 0; p < r->passes; p++) {
        const struct mix_answer *a = &r->decided[p][i];
        fprintf(out, "%s%s", p ? "," : " ", a->time.us > 0 ? ea_reason_name(a->meta.reason) : "-");
    }
}

void mix_dump(const char *path, const char *section, const struct mix_runs *r)
{
    static bool begun;
    FILE *out = fopen(path, begun ? "a" : "w");
    if (!out) bench_fail("--dump", strerror(errno));
    if (!begun)
        fputs("section no operation rows queries k listed cpu_us cpu_daemon_us cpu_ran_us gpu_us "
              "gpu_daemon_us gpu_ran_us gpu_elsewhere warm_passes decided_us decided_daemon_us "
              "decided_ran_us predicted_us other_us queued_us backend reason\n",
              out);
    begun = true;
    for (unsigned i = 0; i < r->mix->count; i++) {
        const struct mix_request *q = &r->mix->requests[i];
        fprintf(out, "%s %u %s %llu %u %u %u", section, i, mix_operation_name(q->operation),
                (unsigned long long)q->rows, q->queries, q->k, q->listed);
        put_series(out, &r->cpu[i]);
        put_series(out, &r->gpu[i]);
        fprintf(out, " %u %u", r->gpu[i].elsewhere, r->warm);
        put_decided(out, r, i);
        fputc('\n', out);
    }
    if (fclose(out)) bench_fail("--dump", strerror(errno));
}
