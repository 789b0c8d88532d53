#include "tests/support/fair_memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"

enum { SKIPPED_PART = 10 };

void memory_watch_init(struct memory_watch *m, const struct sched_daemon *d)
{
    char path[64];
    *m = (struct memory_watch){.daemon = d, .start_s = bench_now_s()};
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", d->process.pid, d->process.pid);
    FILE *f = fopen(path, "r");
    if (!f) return; /* a kernel without it: the GPU process is not watched */
    int child;
    if (fscanf(f, "%d", &child) == 1) m->gpu = child;
    fclose(f);
}

/* Without the daemon's heap, of which it sees more and more. 0: it has ended. */
static uint64_t private_bytes(pid_t pid)
{
    char path[64], line[256];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %llu kB", &kib) == 1) break;
    fclose(f);
    return kib << 10;
}

void memory_watch_look(struct memory_watch *m)
{
    static ea_stats stats;
    if (m->count == MEMORY_LOOKS) return;
    sched_check(ea_get_stats(m->daemon->client, &stats), m->daemon->client, "stats");
    struct memory_look *l = &m->looks[m->count++];
    *l = (struct memory_look){.at_s = bench_now_s() - m->start_s};
    l->bytes[MEMORY_DAEMON] = process_resident_kib(m->daemon->process.pid) << 10;
    l->bytes[MEMORY_HEAP] = stats.memory_bytes_used;
    if (m->gpu) l->bytes[MEMORY_GPU_PROCESS] = private_bytes(m->gpu);
    for (unsigned i = 0; i < stats.gpu_count; i++)
        l->bytes[MEMORY_VRAM] += stats.gpus[i].replica_bytes + stats.gpus[i].slab_bytes;
}

uint64_t memory_watch_now(const struct memory_watch *m, enum memory_kind kind)
{
    return m->count ? m->looks[m->count - 1].bytes[kind] : 0;
}

struct memory_trend memory_watch_trend(const struct memory_watch *m, enum memory_kind kind)
{
    static const char *const names[MEMORY_KINDS] = {"daemon resident", "heap used",
                                                    "GPU process, not shared", "VRAM taken"};
    double end = m->count ? m->looks[m->count - 1].at_s : 0, from = end / SKIPPED_PART;
    double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
    for (unsigned i = 0; i < m->count; i++) {
        double x = m->looks[i].at_s, y = (double)m->looks[i].bytes[kind] / 1048576;
        if (x < from) continue;
        n++;
        sum_x += x;
        sum_y += y;
        sum_xx += x * x;
        sum_xy += x * y;
    }
    double spread = n * sum_xx - sum_x * sum_x;
    double slope = spread > 0 ? (n * sum_xy - sum_x * sum_y) / spread : 0;
    struct memory_trend t = {.name = names[kind], .mib_per_minute = slope * 60};
    if (n > 0) t.mean_mib = sum_y / n;
    t.growth_mib = fmax(0, slope * (end - from));
    return t;
}
