#include "tests/support/fair_bench.h"

#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"

enum { LOAD_PART = 16384, LOAD_THREADS = 6, REPLICA_S = 30, CALIBRATED_S = 10, SETTINGS = 14 };

void fair_daemon_start(struct sched_daemon *d, const struct fair_bench *b, uint64_t rows,
                       const char *const *settings)
{
    const char *all[SETTINGS + 2] = {"sched.calibrate=true"};
    for (unsigned i = 0; settings && settings[i] && i < SETTINGS; i++)
        all[i + 1] = settings[i];
    double start = bench_now_s();
    sched_daemon_start(d, &b->run, rows, all);
    /* The GPU comes last; nobody may ask for anything meanwhile. */
    const char *last = b->run.has_gpu ? "calibrated the GPUs" : "calibrated the CPU";
    double end = bench_now_s() + CALIBRATED_S;
    while (!daemon_logged(&d->process, last) && bench_now_s() < end)
        usleep(20000);
    printf("  a daemon after %.1f s%s\n", bench_now_s() - start,
           bench_now_s() < end ? "" : ": NOT calibrated");
    fflush(stdout);
}

ea_client *fair_client(const struct sched_daemon *d, unsigned space)
{
    ea_client *c;
    char name[16];
    snprintf(name, sizeof name, "space%u", space);
    ea_options o = {.socket_path = d->process.socket_path, .space = name};
    sched_check(ea_open(&o, &c), NULL, "ea_open");
    sched_check(ea_connect(c), c, "ea_connect");
    return c;
}

/* ---------------------------------------------------------------- rows */

struct loading {
    ea_client *const *clients;
    unsigned count;
    const struct fair_rows *each;
    unsigned each_count;
    uint32_t dimension;
    _Atomic unsigned next;
};

static void load_one(ea_client *c, const struct fair_rows *r, uint32_t dimension, uint64_t seed)
{
    uint64_t part = r->rows < LOAD_PART ? r->rows : LOAD_PART;
    float *values = malloc(part * dimension * sizeof *values);
    uint64_t *ids = malloc(part * sizeof *ids);
    if (!values || !ids) bench_fail("rows", "no memory");
    sched_check(ea_collection_create(c, r->name, dimension, EA_COSINE, NULL), c, "create");
    for (uint64_t first = 0; first < r->rows; first += part) {
        uint64_t n = r->rows - first < part ? r->rows - first : part;
        for (uint64_t i = 0; i < n; i++)
            ids[i] = first + i;
        for (uint64_t i = 0; i < n * dimension; i++)
            values[i] = bench_random_float(&seed);
        sched_check(ea_upsert(c,
                              &(ea_rows){.collection = r->name,
                                         .ids = ids,
                                         .rows = values,
                                         .count = n,
                                         .dimension = dimension},
                              NULL),
                    c, "upsert");
    }
    free(values);
    free(ids);
}

static void *load_some(void *argument)
{
    struct loading *l = argument;
    unsigned i;
    while ((i = atomic_fetch_add(&l->next, 1)) < l->count)
        for (unsigned j = 0; j < l->each_count; j++)
            load_one(l->clients[i], &l->each[j], l->dimension, (i * 64ull + j) << 40);
    return NULL;
}

void fair_load(ea_client *const *clients, unsigned count, const struct fair_rows *each,
               unsigned each_count, uint32_t dimension)
{
    struct loading l = {clients, count, each, each_count, dimension, 0};
    pthread_t threads[LOAD_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned running = processors >= 2 * LOAD_THREADS ? LOAD_THREADS : 1;
    double start = bench_now_s();
    if (running > count) running = count;
    for (unsigned i = 0; i < running; i++)
        if (pthread_create(&threads[i], NULL, load_some, &l)) bench_fail("thread", "refused");
    for (unsigned i = 0; i < running; i++)
        pthread_join(threads[i], NULL);
    for (unsigned j = 0; count > 1 && j < each_count; j++)
        printf("  %u spaces of %llu rows x %u\n", count, (unsigned long long)each[j].rows,
               dimension);
    if (count > 1) printf("  loaded in %.1f s\n", bench_now_s() - start);
    fflush(stdout);
}

/* ---------------------------------------------------------------- the daemon's figures */

bool fair_warm(ea_client *c, const struct crowd_question *q)
{
    double end = bench_now_s() + REPLICA_S;
    ea_meta meta;
    do {
        crowd_ask(c, q, &meta);
        if (meta.backend == EA_BACKEND_GPU) return true;
        usleep(500);
    } while (bench_now_s() < end);
    return false;
}

uint64_t fair_busy_ns(ea_client *c)
{
    static ea_stats stats;
    sched_check(ea_get_stats(c, &stats), c, "stats");
    uint64_t ns = 0;
    for (unsigned i = 0; i < EA_BACKENDS; i++)
        ns += stats.space.use[i].busy_ns;
    return ns;
}

uint64_t fair_print_pressure(ea_client *c)
{
    static ea_stats stats;
    sched_check(ea_get_stats(c, &stats), c, "stats");
    const ea_pressure *p = &stats.pressure;
    printf(
        "  pressure: %llu batches and %llu requests shrunk, %llu in passes, %llu evictions, %llu "
        "on the CPU for want of VRAM, %s now\n",
        (unsigned long long)p->shrunk_batches, (unsigned long long)p->shrunk_runs,
        (unsigned long long)p->split_runs, (unsigned long long)p->evictions,
        (unsigned long long)p->cpu, p->low ? "LOW" : "not low");
    for (unsigned i = 0; i < stats.gpu_count; i++)
        printf(
            "  gpu%u: %s, %llu MiB of replicas, %llu of %llu MiB for requests, budget %llu, free "
            "%llu; %llu uploads, %llu without memory, %llu errors, %llu restarts\n",
            stats.gpus[i].number, ea_gpu_state_name(stats.gpus[i].state),
            (unsigned long long)stats.gpus[i].replica_bytes >> 20,
            (unsigned long long)stats.gpus[i].request_bytes >> 20,
            (unsigned long long)stats.gpus[i].slab_bytes >> 20,
            (unsigned long long)stats.gpus[i].budget_bytes >> 20,
            (unsigned long long)stats.gpus[i].free_bytes >> 20,
            (unsigned long long)stats.gpus[i].uploads, (unsigned long long)stats.gpus[i].no_memory,
            (unsigned long long)stats.gpus[i].errors, (unsigned long long)stats.gpus[i].restarts);
    for (unsigned i = 0; i < stats.route_count; i++)
        printf("    %llu on %s: %s\n", (unsigned long long)stats.routes[i].requests,
               ea_backend_name(stats.routes[i].backend), ea_reason_name(stats.routes[i].reason));
    fflush(stdout);
    return p->evictions;
}

bool fair_needs_gpu(const struct fair_bench *b)
{
    if (!b->run.has_gpu) printf("  SKIP: no GPU\n");
    return b->run.has_gpu;
}
