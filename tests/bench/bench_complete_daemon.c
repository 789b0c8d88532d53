/* bench_complete_daemon: completions of one round by the modern rule through the Unix socket, on a
 * GPU that is forced to answer: the time from the call to the reply, the daemon's own, and how long
 * somebody else's small question waits beside them. Ends with 77 where there is no GPU.
 *
 *     bench_complete_daemon [--rows N] [--runs N] [--sim] */
#include <argp.h>
#include <string.h>
#include <unistd.h>

#include "client/engram_accel.h"
#include "tests/bench/bench.h"
#include "tests/support/daemon_process.h"

enum { D = 768, STATES_MAX = 128, RUNS_MAX = 1000, NO_GPU = 77, PART = 16384, SMALL = 1000 };

static struct {
    uint64_t rows, runs;
    bool simulated;
} options = {.rows = 1000000, .runs = 51};

static void need(ea_client *c, ea_status status, const char *what)
{
    if (status) bench_fail(what, ea_error_text(c));
}

static ea_client *open_client(const struct daemon_process *d)
{
    ea_client *c;
    ea_options o = {.socket_path = d->socket_path};
    if (ea_open(&o, &c)) bench_fail("ea_open", "no handle");
    need(c, ea_connect(c), "connect");
    return c;
}

static bool wait_ready(ea_client *c)
{
    for (int i = 0; i < 3000; i++) {
        ea_info info;
        need(c, ea_get_info(c, &info), "info");
        if (!info.gpu_count || info.gpus[0].state == EA_GPU_ABSENT) return false;
        if (info.gpus[0].state == EA_GPU_READY) {
            printf("gpu: %s\n", info.gpu);
            return true;
        }
        usleep(10000);
    }
    return false;
}

/* Random rows; the first states are among them. */
static void load(ea_client *c, const char *name, uint64_t count, float *states)
{
    float *rows = malloc((size_t)PART * D * sizeof *rows);
    uint64_t *ids = malloc(PART * sizeof *ids), seed = 1;
    if (!rows || !ids) bench_fail("rows", "no memory");
    need(c, ea_collection_create(c, name, D, EA_DOT, NULL), "create");
    for (uint64_t first = 0; first < count; first += PART) {
        uint64_t n = count - first < PART ? count - first : PART;
        for (uint64_t i = 0; i < n * D; i++)
            rows[i] = bench_random_float(&seed);
        for (uint64_t i = 0; i < n; i++)
            ids[i] = first + i;
        if (first == 0) memcpy(states, rows, (size_t)STATES_MAX * D * sizeof *rows);
        ea_rows all = {.collection = name, .ids = ids, .rows = rows, .count = n, .dimension = D};
        need(c, ea_upsert(c, &all, NULL), "upsert");
    }
    free(rows), free(ids);
}

static ea_complete_question question_of(const float *states, uint64_t count)
{
    return (ea_complete_question){.collection = "many",
                                  .states = states,
                                  .state_count = count,
                                  .dimension = D,
                                  .beta = 32,
                                  .rounds = 1,
                                  .unit = true};
}

/* Asks until the rows are on the GPU. */
static void warm(ea_client *c, const float *states)
{
    enum { TRIES = 2000 };
    ea_completed r = {0};
    const ea_complete_question q = question_of(states, 1);
    for (int i = 0; i < TRIES; i++) {
        need(c, ea_complete(c, &q, &r), "complete");
        if (r.meta->backend == EA_BACKEND_GPU) break;
        if (i + 1 == TRIES) bench_fail("the GPU does not answer", ea_reason_name(r.meta->reason));
        usleep(10000);
    }
    ea_completed_free(&r);
}

static void measure(ea_client *c, const float *states, uint64_t count)
{
    static double asked[RUNS_MAX], ran[RUNS_MAX];
    ea_completed r = {0};
    const ea_complete_question q = question_of(states, count);
    for (uint64_t i = 0; i < options.runs + 3; i++) {
        double start = bench_now_s();
        need(c, ea_complete(c, &q, &r), "complete");
        if (r.meta->backend != EA_BACKEND_GPU)
            bench_fail("not answered by the GPU", ea_reason_name(r.meta->reason));
        if (i < 3) continue;
        asked[i - 3] = (bench_now_s() - start) * 1e3;
        ran[i - 3] = (double)r.meta->run_ns * 1e-6;
    }
    double p50 = bench_percentile(asked, options.runs, 50);
    double p99 = bench_percentile(asked, options.runs, 99);
    printf("  %5llu states: p50 %8.3f ms, p99 %8.3f; of which the GPU process %8.3f\n",
           (unsigned long long)count, p50, p99, bench_percentile(ran, options.runs, 50));
    ea_completed_free(&r);
}

static void count_answer(ea_client *c, const ea_answer *answer, void *user)
{
    need(c, answer->status, "complete");
    ++*(uint64_t *)user;
}

/* Another connection asks for the nearest of some rows while completions run one after another. */
static void measure_beside(ea_client *c, ea_client *other, const float *states, bool busy)
{
    static double waited[RUNS_MAX];
    const ea_complete_question q = question_of(states, STATES_MAX);
    const ea_knn_question small = {
        .collection = "few", .queries = states, .query_count = 1, .dimension = D, .k = 10};
    ea_result r = {0};
    uint64_t answered = 0;
    for (uint64_t i = 0; i < options.runs; i++) {
        while (busy && ea_pending(c) < 2)
            need(c,
                 ea_complete_send(
                     c, &q, &(ea_send_options){.callback = count_answer, .user = &answered}, NULL),
                 "send");
        if (busy) need(c, ea_pump(c, 0), "pump");
        double start = bench_now_s();
        need(other, ea_knn(other, &small, &r), "knn");
        waited[i] = (bench_now_s() - start) * 1e3;
    }
    while (ea_pending(c))
        need(c, ea_pump(c, -1), "pump");
    double p50 = bench_percentile(waited, options.runs, 50);
    double p99 = bench_percentile(waited, options.runs, 99);
    printf("  a kNN over %d rows %s: p50 %8.3f ms, p99 %8.3f\n", SMALL,
           busy ? "beside them" : "alone", p50, p99);
    ea_result_free(&r);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    switch (key) {
    case 'r': options.rows = strtoull(text, NULL, 10); break;
    case 'n': options.runs = strtoull(text, NULL, 10); break;
    case 's': options.simulated = true; break;
    case ARGP_KEY_END:
        if (options.rows < STATES_MAX || options.runs < 1 || options.runs > RUNS_MAX)
            argp_error(state, "at least %d rows, 1 to %d runs", STATES_MAX, RUNS_MAX);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"rows", 'r', "N", 0, "Rows of the collection (1,000,000)", 0},
        {"runs", 'n', "N", 0, "Ask each question N times (51)", 0},
        {"sim", 's', NULL, 0, "Over the simulated device", 0},
        {0}};
    static const struct argp parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
    static const uint64_t batches[] = {1, 8, 16, 32, STATES_MAX};
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    struct daemon_process d;
    const char *const settings[] = {options.simulated ? "gpu.devices=sim" : "gpu.devices=0",
                                    "gpu.force=gpu", "memory.max_mib=16384", NULL};
    daemon_start(&d, settings);
    ea_client *c = open_client(&d), *other = open_client(&d);
    int code = NO_GPU;
    if (wait_ready(c)) {
        float *states = calloc((size_t)STATES_MAX * D, sizeof *states);
        if (!states) bench_fail("states", "no memory");
        load(c, "few", SMALL, states);
        load(c, "many", options.rows, states);
        warm(c, states);
        printf("complete, 1 round, %llu x %d, through the socket\n",
               (unsigned long long)options.rows, D);
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
            measure(c, states, batches[i]);
        measure_beside(c, other, states, false);
        measure_beside(c, other, states, true);
        free(states);
        code = 0;
    } else {
        printf("SKIP: no GPU\n");
    }
    ea_close(c), ea_close(other);
    int stopped = daemon_stop(&d);
    return code ? code : stopped;
}
