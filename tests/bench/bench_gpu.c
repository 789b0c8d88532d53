/* bench_gpu: the whole road to the GPU and back: latency through the Unix socket, uploads, a GPU
 * process killed under load, VRAM that returns. Needs a GPU (exit 77 without); --sim runs the same
 * over the simulated device, whose times mean nothing. --quick shortens it. --pinned GB/S: the rate
 * that uploads are compared with (gpu_device --rates prints it). */
#include <argp.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "client/engram_accel.h"
#include "tests/bench/bench.h"
#include "tests/support/daemon_process.h"

enum { DIMENSION = 768, SAMPLES_MAX = 4000, CLIENTS = 8, NO_GPU = 77 };

static struct {
    uint64_t rows; /* of the large collection */
    unsigned samples, kills, cycles;
    double pinned_gbs;
    bool simulated;
    const char *settings[8]; /* of the daemon */
    unsigned setting_count;
} options = {.rows = 1000000,
             .samples = 2000,
             .kills = 100,
             .cycles = 500,
             .settings = {"gpu.devices=0", "memory.max_mib=16384"},
             .setting_count = 2};

static bool all_met = true;

static void check(ea_status st, ea_client *c, const char *what)
{
    if (st) bench_fail(what, c ? ea_error_text(c) : ea_status_name(st));
}

static ea_client *open_client(const struct daemon_process *d, const char *space)
{
    ea_client *c;
    ea_options o = {.socket_path = d->socket_path, .space = space};
    check(ea_open(&o, &c), NULL, "ea_open");
    check(ea_connect(c), c, "ea_connect");
    return c;
}

static float *random_floats(uint64_t count, uint64_t seed)
{
    float *values = malloc(count * sizeof *values);
    if (!values) bench_fail("rows", "no memory");
    for (uint64_t i = 0; i < count; i++)
        values[i] = bench_random_float(&seed);
    return values;
}

static void load(ea_client *c, const char *name, uint64_t rows, const float *values)
{
    uint64_t *ids = malloc(rows * sizeof *ids), part = 16384;
    for (uint64_t i = 0; i < rows; i++)
        ids[i] = i * 3 + 1;
    check(ea_collection_create(c, name, DIMENSION, EA_COSINE, NULL), c, "create");
    for (uint64_t i = 0; i < rows; i += part) {
        uint64_t n = rows - i < part ? rows - i : part;
        check(ea_upsert(c,
                        &(ea_rows){.collection = name,
                                   .ids = ids + i,
                                   .rows = values + i * DIMENSION,
                                   .count = n,
                                   .dimension = DIMENSION},
                        NULL),
              c, "upsert");
    }
    free(ids);
}

/* ---------------------------------------------------------------- questions */

struct question {
    const char *collection;
    uint64_t queries;
    uint32_t k; /* 0: all scores */
    const float *values;
};

static ea_status ask(ea_client *c, const struct question *q, ea_result *r)
{
    if (!q->k)
        return ea_similarity(c,
                             &(ea_similarity_question){.collection = q->collection,
                                                       .queries = q->values,
                                                       .query_count = q->queries,
                                                       .dimension = DIMENSION},
                             r);
    return ea_knn(c,
                  &(ea_knn_question){.collection = q->collection,
                                     .queries = q->values,
                                     .query_count = q->queries,
                                     .dimension = DIMENSION,
                                     .k = q->k},
                  r);
}

/* Asks until the GPU answers; false after 20 s. */
static bool until_gpu(ea_client *c, const struct question *q, ea_result *r)
{
    double end = bench_now_s() + 20;
    while (bench_now_s() < end) {
        check(ask(c, q, r), c, "question");
        if (r->meta->backend == EA_BACKEND_GPU) return true;
        usleep(200);
    }
    return false;
}

static bool same(const ea_result *a, const ea_result *b)
{
    uint64_t n = a->rows * a->columns;
    return a->rows == b->rows && a->columns == b->columns &&
           memcmp(a->scores, b->scores, n * sizeof(float)) == 0;
}

/* p50 in microseconds. */
static double latency(ea_client *c, ea_client *cpu, const struct question *q, unsigned samples)
{
    static double times[SAMPLES_MAX];
    ea_result r = {0}, expected = {0};
    if (!until_gpu(c, q, &r)) bench_fail("question", "the GPU did not take it up");
    check(ask(cpu, q, &expected), cpu, "the CPU's answer");
    if (!same(&r, &expected)) bench_fail(q->collection, "the GPU's answer differs from the CPU's");
    unsigned elsewhere = 0;
    uint64_t run_ns = 0, queue_ns = 0;
    for (unsigned i = 0; i < samples; i++) {
        double start = bench_now_s();
        check(ask(c, q, &r), c, "question");
        times[i] = (bench_now_s() - start) * 1e6;
        elsewhere += r.meta->backend != EA_BACKEND_GPU;
        run_ns += r.meta->run_ns;
        queue_ns += r.meta->queue_ns;
    }
    double p50 = bench_percentile(times, samples, 50), p99 = bench_percentile(times, samples, 99);
    printf(
        "    %s, %llu queries, k %u: p50 %.1f us, p99 %.1f us; queued %.1f us, ran %.1f us; %u not "
        "on the GPU; same bits as the CPU\n",
        q->collection, (unsigned long long)q->queries, q->k, p50, p99,
        (double)queue_ns / samples / 1e3, (double)run_ns / samples / 1e3, elsewhere);
    fflush(stdout);
    ea_result_free(&r);
    ea_result_free(&expected);
    return p50;
}

static void latency_row(const char *what, double p50_us, double target_us)
{
    char ours[32], theirs[32];
    snprintf(ours, sizeof ours, "%.1f us", p50_us);
    snprintf(theirs, sizeof theirs, "%.0f us", target_us);
    all_met &= bench_row(what, ours, theirs, p50_us / target_us, false, 1.0);
}

static void socket_latency(ea_client *c, ea_client *cpu)
{
    static double pings[SAMPLES_MAX];
    float *queries = random_floats(1024 * DIMENSION, 99);
    for (unsigned i = 0; i < options.samples; i++) {
        double start = bench_now_s();
        check(ea_ping(c), c, "ping");
        pings[i] = (bench_now_s() - start) * 1e6;
    }
    bench_header("through the Unix socket, p50 (peer: the target)");
    printf("    ping: p50 %.1f us\n", bench_percentile(pings, options.samples, 50));
    double a = latency(c, cpu, &(struct question){"thousand", 1, 0, queries}, options.samples);
    double b = latency(c, cpu, &(struct question){"ten_thousand", 1, 0, queries}, options.samples);
    double few_best =
        latency(c, cpu, &(struct question){"thousand", 1, 10, queries}, options.samples);
    double some_best =
        latency(c, cpu, &(struct question){"ten_thousand", 1, 10, queries}, options.samples);
    double k =
        latency(c, cpu, &(struct question){"hundred_thousand", 1, 10, queries}, options.samples);
    unsigned few = options.samples / 20 + 3;
    double one = latency(c, cpu, &(struct question){"large", 1, 10, queries}, few);
    double some = latency(c, cpu, &(struct question){"large", 16, 10, queries}, few);
    double many = latency(c, cpu, &(struct question){"large", 128, 10, queries}, few);
    double most =
        options.simulated
            ? 0
            : latency(c, cpu, &(struct question){"large", 1024, 10, queries}, few / 4 + 3);
    latency_row("all scores, 1 query x 1,000 rows", a, 38);
    latency_row("all scores, 1 query x 10,000 rows", b, 90);
    latency_row("kNN k=10, 1 query, 1,000 rows", few_best, 42);
    latency_row("kNN k=10, 1 query, 10,000 rows", some_best, 50);
    latency_row("kNN k=10, 1 query, 100,000 rows", k, 108);
    printf("    kNN k=10 over %llu rows: 1 query %.0f us, 16 %.0f us, 128 %.0f us, 1,024 %.0f us\n",
           (unsigned long long)options.rows, one, some, many, most);
    free(queries);
}

/* ---------------------------------------------------------------- uploads */

static uint64_t uploaded_bytes(ea_client *c)
{
    ea_stats stats;
    check(ea_get_stats(c, &stats), c, "stats");
    if (!stats.gpu_count) bench_fail("stats", "no GPU");
    return stats.gpus[0].upload_bytes;
}

/* From the request that makes the daemon want a replica until all of it is there. */
static double upload_s(ea_client *c, const char *collection, const float *query, uint64_t bytes)
{
    uint64_t some[1024], before = uploaded_bytes(c);
    ea_result r = {0};
    for (uint64_t i = 0; i < 1024; i++)
        some[i] = i * 3 + 1;
    double start = bench_now_s();
    check(ea_score(c,
                   &(ea_score_question){.collection = collection,
                                        .metric = EA_COSINE,
                                        .queries = query,
                                        .query_count = 1,
                                        .dimension = DIMENSION,
                                        .ids = some,
                                        .count = 1024},
                   &r),
          c, "score");
    while (uploaded_bytes(c) - before < bytes) {
        usleep(50);
        if (bench_now_s() > start + 30) bench_fail("upload", "the GPU did not take it up");
    }
    ea_result_free(&r);
    return bench_now_s() - start;
}

static void upload_rate(ea_client *c)
{
    float *query = random_floats(DIMENSION, 5);
    ea_stats before, after;
    check(ea_get_stats(c, &before), c, "stats");
    if (!before.gpu_count) bench_fail("stats", "no GPU");
    uint64_t row_bytes = DIMENSION * sizeof(float) + sizeof(uint64_t);
    double s = upload_s(c, "large", query, options.rows * row_bytes);
    usleep(100000);
    check(ea_get_stats(c, &after), c, "stats");
    double bytes = (double)(after.gpus[0].upload_bytes - before.gpus[0].upload_bytes);
    double ns = (double)(after.gpus[0].upload_ns - before.gpus[0].upload_ns);
    bench_header("first upload (peer: the pinned copy rate)");
    char ours[32], theirs[32];
    snprintf(ours, sizeof ours, "%.1f GB/s", bytes / s / 1e9);
    snprintf(theirs, sizeof theirs, "%.1f GB/s", options.pinned_gbs);
    printf("    %.2f GB in %.1f ms, of which uploads were under way %.1f ms\n", bytes / 1e9,
           s * 1e3, ns / 1e6);
    if (options.pinned_gbs > 0)
        all_met &= bench_row("upload of the large collection, wall time", ours, theirs,
                             bytes / s / 1e9 / options.pinned_gbs, true, 0.8);
    else
        printf("    %s (no --pinned to compare with)\n", ours);
    free(query);
}

/* ---------------------------------------------------------------- killed under load */

static pid_t gpu_process_of(pid_t daemon)
{
    DIR *proc = opendir("/proc");
    pid_t found = 0;
    for (struct dirent *e; proc && !found && (e = readdir(proc));) {
        char path[300], text[512] = "";
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *f = fopen(path, "r");
        if (!f) continue;
        size_t n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        text[n] = 0;
        char *end = strrchr(text, ')');
        int parent = 0;
        char state;
        if (end && sscanf(end + 1, " %c %d", &state, &parent) == 2 && parent == daemon &&
            strstr(text, "(engram-accel-gp") && state != 'Z')
            found = atoi(e->d_name);
    }
    if (proc) closedir(proc);
    return found;
}

struct busy {
    const struct daemon_process *daemon;
    struct question question;
    ea_result expected;
    atomic_bool *stop;
    uint64_t asked, failed, wrong, on_gpu;
};

static void *be_busy(void *argument)
{
    struct busy *b = argument;
    ea_client *c = open_client(b->daemon, NULL);
    ea_result r = {0};
    while (!atomic_load(b->stop)) {
        ea_status st = ask(c, &b->question, &r);
        b->asked++;
        if (st) {
            b->failed++;
            fprintf(stderr, "bench: a busy client: %s\n", ea_error_text(c));
        } else {
            b->wrong += !same(&r, &b->expected);
            b->on_gpu += r.meta->backend == EA_BACKEND_GPU;
        }
    }
    ea_result_free(&r);
    ea_close(c);
    return NULL;
}

static void kills(const struct daemon_process *d, ea_client *c, ea_client *cpu)
{
    atomic_bool stop = false;
    struct busy busy[CLIENTS];
    pthread_t threads[CLIENTS];
    static const char *const names[] = {"thousand", "ten_thousand"};
    for (int i = 0; i < CLIENTS; i++) {
        float *queries = random_floats(8 * DIMENSION, 1000 + (uint64_t)i);
        busy[i] = (struct busy){
            .daemon = d,
            .question = {names[i % 2], 1 + (uint64_t)i % 3 * 3, i % 4 < 2 ? 10 : 0, queries},
            .stop = &stop};
        check(ask(cpu, &busy[i].question, &busy[i].expected), cpu, "the CPU's answer");
        if (pthread_create(&threads[i], NULL, be_busy, &busy[i])) bench_fail("thread", "refused");
    }
    double *back = calloc(options.kills + 1, sizeof *back), worst = 0;
    ea_result r = {0};
    unsigned late = 0;
    for (unsigned k = 0; k < options.kills; k++) {
        if (!until_gpu(c, &busy[0].question, &r)) bench_fail("kill", "the GPU stays away");
        usleep(20000 + k % 10 * 7000);
        pid_t pid = gpu_process_of(d->pid);
        if (!pid) bench_fail("kill", "no GPU process");
        double start = bench_now_s();
        kill(pid, SIGKILL);
        while (gpu_process_of(d->pid) == pid)
            usleep(500);
        if (!until_gpu(c, &busy[0].question, &r)) bench_fail("kill", "the GPU stays away");
        back[k] = bench_now_s() - start;
        late += back[k] > 1.0;
        if (back[k] > worst) worst = back[k];
    }
    atomic_store(&stop, true);
    uint64_t asked = 0, failed = 0, wrong = 0, on_gpu = 0;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        asked += busy[i].asked;
        failed += busy[i].failed;
        wrong += busy[i].wrong;
        on_gpu += busy[i].on_gpu;
    }
    bench_header("kill -9 of the GPU process under 8 busy clients");
    printf("    %u kills; %llu answers (%llu from the GPU): %llu failed, %llu wrong; GPU answering "
           "again "
           "after p50 %.0f ms, worst %.0f ms, %u later than 1 s  %s\n",
           options.kills, (unsigned long long)asked, (unsigned long long)on_gpu,
           (unsigned long long)failed, (unsigned long long)wrong,
           bench_percentile(back, options.kills, 50) * 1e3, worst * 1e3, late,
           failed || wrong || late ? "MISSED" : "ok");
    all_met &= !failed && !wrong && !late;
    free(back);
    ea_result_free(&r);
}

/* ---------------------------------------------------------------- VRAM returns */

static void cycles(ea_client *c)
{
    float *rows = random_floats(5000 * DIMENSION, 3);
    ea_stats before = {0}, after = {0};
    ea_result r = {0};
    for (unsigned n = 0; n <= options.cycles; n++) {
        if (n == 1) { /* the first makes streams and pools */
            usleep(100000);
            check(ea_get_stats(c, &before), c, "stats");
        }
        load(c, "cycle", 5000, rows);
        if (!until_gpu(c, &(struct question){"cycle", 1, 10, rows}, &r))
            bench_fail("cycle", "the GPU did not take it up");
        check(ea_collection_drop(c, "cycle"), c, "drop");
    }
    usleep(200000);
    check(ea_get_stats(c, &after), c, "stats");
    const ea_gpu_stats *b = &before.gpus[0], *a = &after.gpus[0];
    bool same_bytes = b->replica_bytes == a->replica_bytes && b->free_bytes == a->free_bytes &&
                      b->request_bytes == a->request_bytes && b->replicas == a->replicas;
    bench_header("VRAM after create, load, query, drop");
    printf("    %u times: replicas %llu -> %llu bytes, device free %llu -> %llu bytes  %s\n",
           options.cycles, (unsigned long long)b->replica_bytes,
           (unsigned long long)a->replica_bytes, (unsigned long long)b->free_bytes,
           (unsigned long long)a->free_bytes, same_bytes ? "ok" : "MISSED");
    all_met &= same_bytes;
    ea_result_free(&r);
    free(rows);
}

/* ---------------------------------------------------------------- */

static error_t parse(int key, char *value, struct argp_state *state)
{
    switch (key) {
    case 'q':
        options.rows = 100000;
        options.samples = 300;
        options.kills = 5;
        options.cycles = 20;
        return 0;
    case 'k': options.kills = (unsigned)atoi(value); return 0;
    case 'n':
        options.samples = (unsigned)atoi(value);
        if (options.samples < 1 || options.samples > SAMPLES_MAX) options.samples = SAMPLES_MAX;
        return 0;
    case 'c': options.cycles = (unsigned)atoi(value); return 0;
    case 'S':
        if (options.setting_count + 1 < sizeof options.settings / sizeof *options.settings)
            options.settings[options.setting_count++] = value;
        return 0;
    case 'p': options.pinned_gbs = atof(value); return 0;
    case 's':
        options.simulated = true;
        options.rows = 10000;
        options.settings[0] = "gpu.devices=sim";
        options.settings[options.setting_count++] = "gpu.sim=vram_mib=8192";
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Whether a GPU becomes ready. */
static bool wait_ready(ea_client *c)
{
    for (int i = 0; i < 1000; i++) {
        ea_info info;
        check(ea_get_info(c, &info), c, "info");
        if (i == 0) printf("gpu: %s\n", info.gpu);
        if (info.gpu_count && info.gpus[0].state == EA_GPU_READY) {
            printf("gpu: %s\n", info.gpu);
            return true;
        }
        if (!info.gpu_count || info.gpus[0].state == EA_GPU_ABSENT) return false;
        usleep(10000);
    }
    return false;
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"quick", 'q', NULL, 0, "A first look", 0},
        {"pinned", 'p', "GB/S", 0, "The pinned copy rate", 0},
        {"sim", 's', NULL, 0, "Over the simulated device", 0},
        {"set", 'S', "KEY=VALUE", 0, "A setting of the daemon", 0},
        {"kills", 'k', "N", 0, "Kill the GPU process N times (100)", 0},
        {"samples", 'n', "N", 0, "Ask each small question N times (2000)", 0},
        {"cycles", 'c', "N", 0, "Create and drop N collections (500)", 0},
        {0}};
    static const struct argp parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    struct daemon_process d, cpu_daemon;
    daemon_start(&d, options.settings);
    ea_client *c = open_client(&d, NULL);
    if (!wait_ready(c)) {
        printf("SKIP: no GPU\n");
        ea_close(c);
        daemon_stop(&d);
        return NO_GPU;
    }
    daemon_start(&cpu_daemon,
                 (const char *const[]){"gpu.devices=none", "memory.max_mib=16384", NULL});
    ea_client *cpu = open_client(&cpu_daemon, NULL);
    uint64_t most = options.rows > 100000 ? options.rows : 100000;
    float *rows = random_floats(most * DIMENSION, 1);
    static const struct {
        const char *name;
        uint64_t rows;
    } sets[] = {{"thousand", 1000}, {"ten_thousand", 10000}, {"hundred_thousand", 100000}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        load(c, sets[i].name, sets[i].rows, rows);
        load(cpu, sets[i].name, sets[i].rows, rows);
    }
    load(c, "large", options.rows, rows);
    load(cpu, "large", options.rows, rows);
    free(rows);
    upload_rate(c);
    socket_latency(c, cpu);
    if (options.cycles) cycles(c);
    if (options.kills) kills(&d, c, cpu);
    ea_close(c);
    ea_close(cpu);
    int code = daemon_stop(&d) | daemon_stop(&cpu_daemon);
    return code || !all_met;
}
