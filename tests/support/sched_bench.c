#include "tests/support/sched_bench.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "tests/bench/bench.h"

enum { LOAD_PART = 16384, SWITCH_S = 10, REPLICA_S = 30, READY_S = 20, CALIBRATED_S = 10 };

void sched_check(ea_status st, ea_client *c, const char *what)
{
    if (st) bench_fail(what, c ? ea_error_text(c) : ea_status_name(st));
}

/* ---------------------------------------------------------------- live settings */

static void write_config(const struct sched_daemon *d)
{
    char fresh[128];
    snprintf(fresh, sizeof fresh, "%s.new", d->config_path);
    FILE *f = fopen(fresh, "w");
    if (!f) bench_fail(fresh, strerror(errno));
    fprintf(f, "{\"gpu\": {\"force\": \"%s\"}, \"batch\": {\"queries\": %u}}\n", d->live.force,
            d->live.batch_queries);
    if (fclose(f) || rename(fresh, d->config_path)) bench_fail(d->config_path, strerror(errno));
}

/* Lines of its log with that text. */
static unsigned logged(const struct sched_daemon *d, const char *text)
{
    char line[1024];
    unsigned count = 0;
    FILE *f = fopen(d->process.log_path, "r");
    if (!f) bench_fail(d->process.log_path, strerror(errno));
    while (fgets(line, sizeof line, f))
        count += strstr(line, text) != NULL;
    fclose(f);
    return count;
}

void sched_daemon_set(struct sched_daemon *d, struct sched_live live)
{
    unsigned before = logged(d, "live settings changed");
    double end = bench_now_s() + SWITCH_S;
    d->live = live;
    write_config(d);
    kill(d->process.pid, SIGHUP);
    while (logged(d, "live settings changed") == before) {
        usleep(200);
        if (bench_now_s() > end) bench_fail("SIGHUP", "the daemon does not read its file");
    }
}

void sched_daemon_force(struct sched_daemon *d, const char *force)
{
    struct sched_live live = d->live;
    live.force = force;
    sched_daemon_set(d, live);
}

/* ---------------------------------------------------------------- the daemon */

ea_client *sched_daemon_client(const struct sched_daemon *d)
{
    ea_client *c;
    ea_options o = {.socket_path = d->process.socket_path};
    sched_check(ea_open(&o, &c), NULL, "ea_open");
    sched_check(ea_connect(c), c, "ea_connect");
    return c;
}

bool sched_daemon_gpu_ready(const struct sched_daemon *d)
{
    double end = bench_now_s() + READY_S;
    while (bench_now_s() < end) {
        static ea_info info;
        sched_check(ea_get_info(d->client, &info), d->client, "info");
        if (!info.gpu_count || info.gpus[0].state == EA_GPU_ABSENT) return false;
        if (info.gpus[0].state == EA_GPU_READY) return true;
        usleep(5000);
    }
    return false;
}

void sched_daemon_calibrated(const struct sched_daemon *d, const struct sched_bench *b)
{
    /* It measures while nobody asks for anything, so that we must not ask whether it is done. */
    unsigned halves = b->has_gpu ? 2 : 1, done = 0;
    double start = bench_now_s();
    while (done < halves && bench_now_s() < start + CALIBRATED_S) {
        usleep(20000);
        done = logged(d, "info    calibrated ");
    }
    printf("  %u of %u backends calibrated after %.1f s%s\n", done, halves, bench_now_s() - start,
           done < halves ? ": NOT as it should be" : "");
}

void sched_daemon_start(struct sched_daemon *d, const struct sched_bench *b, uint64_t rows,
                        const char *const *settings)
{
    *d = (struct sched_daemon){.live = {"none", 256}, .dimension = b->dimension};
    strcpy(d->directory, "/tmp/engram-bench-XXXXXX");
    if (!mkdtemp(d->directory)) bench_fail("mkdtemp", strerror(errno));
    snprintf(d->config_path, sizeof d->config_path, "%s/config.json", d->directory);
    write_config(d);

    /* Rows, padded, with their index; half of that again for what grows; requests and replies. */
    uint64_t row_bytes = (b->dimension + 31) / 32 * 128 + 64;
    uint64_t mib = (rows * row_bytes >> 20) * 3 / 2 + 3072;
    char config[128], memory[64], sim[64];
    snprintf(config, sizeof config, "--config=%s", d->config_path);
    snprintf(memory, sizeof memory, "memory.max_mib=%llu", (unsigned long long)mib);
    snprintf(sim, sizeof sim, "gpu.sim=vram_mib=%llu",
             (unsigned long long)(mib * 2 < 65536 ? mib * 2 : 65536));
    const char *all[2 * SCHED_SETTINGS_MAX + 8] = {config, memory, "sched.calibrate=true",
                                                   "sched.predict=true"};
    unsigned count = 4;
    all[count++] = b->simulated ? "gpu.devices=sim" : "gpu.devices=0";
    if (b->simulated) { /* it computes on this machine's processors: what takes long is no hang */
        all[count++] = sim;
        all[count++] = "gpu.job_ms=60000";
        all[count++] = "gpu.heartbeat_ms=10000";
    }
    for (unsigned i = 0; settings && settings[i] && i < SCHED_SETTINGS_MAX; i++)
        all[count++] = settings[i];
    for (unsigned i = 0; i < b->setting_count; i++)
        all[count++] = b->settings[i];
    daemon_start(&d->process, all);
    d->client = sched_daemon_client(d);
    if (b->has_gpu && !sched_daemon_gpu_ready(d)) bench_fail("gpu", "it does not become ready");
}

void sched_daemon_stop(struct sched_daemon *d)
{
    ea_close(d->client);
    int code = daemon_stop(&d->process);
    if (code) bench_fail("daemon", "it ended badly");
    unlink(d->config_path);
    rmdir(d->directory);
}

/* ---------------------------------------------------------------- rows */

float *sched_random_floats(uint64_t count, uint64_t seed)
{
    float *values = malloc(count * sizeof *values);
    if (!values) bench_fail("rows", "no memory");
    for (uint64_t i = 0; i < count; i++)
        values[i] = bench_random_float(&seed);
    return values;
}

void sched_name(uint64_t rows, char out[SCHED_ROWS_NAME])
{
    snprintf(out, SCHED_ROWS_NAME, "r%llu", (unsigned long long)rows);
}

void sched_load(const struct sched_daemon *d, uint64_t rows)
{
    char name[SCHED_ROWS_NAME];
    uint64_t part = rows < LOAD_PART ? rows : LOAD_PART, seed = rows;
    float *values = malloc(part * d->dimension * sizeof *values);
    uint64_t *ids = malloc(part * sizeof *ids);
    if (!values || !ids) bench_fail("rows", "no memory");
    sched_name(rows, name);
    sched_check(ea_collection_create(d->client, name, d->dimension, EA_COSINE, NULL), d->client,
                "create");
    for (uint64_t first = 0; first < rows; first += part) {
        uint64_t n = rows - first < part ? rows - first : part;
        for (uint64_t i = 0; i < n; i++)
            ids[i] = first + i;
        for (uint64_t i = 0; i < n * d->dimension; i++)
            values[i] = bench_random_float(&seed);
        sched_check(ea_upsert(d->client,
                              &(ea_rows){.collection = name,
                                         .ids = ids,
                                         .rows = values,
                                         .count = n,
                                         .dimension = d->dimension},
                              NULL),
                    d->client, "upsert");
    }
    free(values);
    free(ids);
}

bool sched_warm_replica(struct sched_daemon *d, uint64_t rows)
{
    char name[SCHED_ROWS_NAME];
    float *query = sched_random_floats(d->dimension, 7);
    ea_result r = {0};
    double end = bench_now_s() + REPLICA_S;
    sched_name(rows, name);
    sched_daemon_force(d, "gpu");
    bool there = false;
    const char *reason = "nothing was asked";
    while (!there && bench_now_s() < end) {
        sched_check(ea_knn(d->client,
                           &(ea_knn_question){.collection = name,
                                              .queries = query,
                                              .query_count = 1,
                                              .dimension = d->dimension,
                                              .k = 1},
                           &r),
                    d->client, "kNN");
        there = r.meta->backend == EA_BACKEND_GPU;
        reason = ea_reason_name(r.meta->reason);
        if (!there) usleep(500);
    }
    if (!there) fprintf(stderr, "  %s: no answer of the GPU, but of the CPU: %s\n", name, reason);
    sched_daemon_force(d, "none");
    ea_result_free(&r);
    free(query);
    return there;
}

/* ---------------------------------------------------------------- figures */

uint64_t sched_digest(const ea_result *r)
{
    uint64_t cells = r->rows * r->columns;
    uint64_t d = XXH3_64bits(r->scores, r->scores ? cells * sizeof *r->scores : 0);
    if (r->counts) {
        d = XXH3_64bits_withSeed(r->ids, cells * sizeof *r->ids, d);
        d = XXH3_64bits_withSeed(r->counts, r->rows * sizeof *r->counts, d);
    }
    return d;
}

struct sched_deciding sched_print_scheduler(const struct sched_daemon *d)
{
    static ea_stats stats;
    sched_check(ea_get_stats(d->client, &stats), d->client, "stats");
    const ea_scheduler_stats *s = &stats.scheduler;
    if (!s->decisions) {
        printf("  the daemon counts no decisions\n");
        return (struct sched_deciding){0};
    }
    printf(
        "  %llu decisions of p50 %.2f us, p99 %.2f us, at most %.1f us; %llu batches of %llu, %llu "
        "splits, %llu steals, %llu probes, %llu aged\n",
        (unsigned long long)s->decisions, (double)s->decide_p50_ns / 1e3,
        (double)s->decide_p99_ns / 1e3, (double)s->decide_max_ns / 1e3,
        (unsigned long long)s->batches, (unsigned long long)s->batched_requests,
        (unsigned long long)s->splits, (unsigned long long)s->steals, (unsigned long long)s->probes,
        (unsigned long long)s->aged);
    return (struct sched_deciding){(double)s->decide_p50_ns / 1e3, (double)s->decide_p99_ns / 1e3};
}

void sched_title(const char *name, const char *what, unsigned seconds_max)
{
    printf("\n%s: %s (at most %u s)\n", name, what, seconds_max);
    fflush(stdout);
}

void sched_verdict(struct sched_bench *b, const char *what, double value, const char *unit,
                   bool at_least, double target)
{
    bool met = at_least ? value >= target : value <= target;
    printf("  %-50s %11.3f %-8s target %s %-9.6g ratio %6.3f  %s\n", what, value, unit,
           at_least ? ">=" : "<=", target, value / target, met ? "PASS" : "miss");
    fflush(stdout);
    if (met)
        b->met++;
    else
        b->missed++;
}
