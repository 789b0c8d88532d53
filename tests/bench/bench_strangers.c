/* bench_strangers: what a victim's recalls suffer from one other user that keeps every queue full:
 * from 1, 4 and 64 spaces, and from all connections that it gets. The stranger's processes take
 * processors as well, and another daemon that it floods would: what the victim suffers from that
 * alone is measured beside each, as "elsewhere". Where the slowest recalls spent their time is told
 * by the daemon's own stamps, and how long its threads waited for a processor by the system's. Root
 * alone can be two users; else it says SKIP.
 * Exit 1 for errors alone: a figure that misses its target is told. */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/sched_bench.h"

enum {
    K = 10,
    STRANGER_UID = 65534,
    STRANGER_ROWS = 5000,
    STRANGER_QUERIES = 16,
    STRANGER_DIMENSION = 64,
    CONNECTIONS_MAX = 1100,
    SAMPLES_MAX = 1 << 20,
};

static struct sched_bench run = {.dimension = 768, .rows_max = 20000};
static unsigned seconds = 10;
static float *questions;

/* ---------------------------------------------------------------- the stranger, a process */

struct attack {
    const char *name;
    unsigned spaces, connections, depth;
};

static ea_client *stranger_opens(const struct sched_daemon *d, unsigned space)
{
    char name[32];
    ea_client *c = NULL;
    snprintf(name, sizeof name, "stranger-%u", space);
    ea_options options = {.socket_path = d->process.socket_path, .space = name};
    return ea_open(&options, &c) || ea_connect(c) ? NULL : c;
}

static void stranger_loads(ea_client *c)
{
    uint64_t ids[STRANGER_ROWS];
    float *rows = sched_random_floats(STRANGER_ROWS * STRANGER_DIMENSION, 5);
    for (uint64_t i = 0; i < STRANGER_ROWS; i++)
        ids[i] = i;
    ea_collection_create(c, "r", STRANGER_DIMENSION, EA_COSINE, NULL);
    ea_upsert(c,
              &(ea_rows){.collection = "r",
                         .ids = ids,
                         .rows = rows,
                         .count = STRANGER_ROWS,
                         .dimension = STRANGER_DIMENSION},
              NULL);
    free(rows);
}

/* Asks again as soon as anything is answered or refused, until it is killed. */
static void stranger_asks(ea_client **clients, unsigned count, unsigned depth)
{
    static struct pollfd fds[CONNECTIONS_MAX];
    static const ea_send_options dropped = {.callback = NULL};
    const ea_knn_question question = {.collection = "r",
                                      .queries = questions,
                                      .query_count = STRANGER_QUERIES,
                                      .dimension = STRANGER_DIMENSION,
                                      .k = K};
    for (;;) {
        for (unsigned i = 0; i < count; i++) {
            while (ea_pending(clients[i]) < depth &&
                   ea_knn_send(clients[i], &question, &dropped, NULL) == EA_OK)
                continue;
            ea_pump(clients[i], 0);
            fds[i] = (struct pollfd){ea_fd(clients[i]), ea_events(clients[i]), 0};
        }
        poll(fds, count, 10);
    }
}

static void stranger_runs(const struct sched_daemon *d, const struct attack *a, int ready)
{
    static ea_client *clients[CONNECTIONS_MAX];
    struct rlimit limit = {4096, 4096};
    unsigned count = 0;
    if (setrlimit(RLIMIT_NOFILE, &limit) || setgid(STRANGER_UID) || setuid(STRANGER_UID))
        bench_fail("setuid", "no");
    for (unsigned i = 0; i < a->connections && i < CONNECTIONS_MAX; i++) {
        ea_client *c = stranger_opens(d, i % a->spaces);
        if (!c) break; /* it has all that it gets */
        if (i < a->spaces) stranger_loads(c);
        clients[count++] = c;
    }
    if (write(ready, &count, sizeof count) != sizeof count) _exit(1);
    stranger_asks(clients, count, a->depth);
}

/* ---------------------------------------------------------------- the victim */

struct suffered {
    size_t asked, answered;
    double p50_ms, p99_ms;
    /* means of the slowest in 50: in line, at work, and the rest, between client and daemon */
    double queue_ms, run_ms, rest_ms;
    double loop_percent, all_percent; /* of the time, waiting for a processor; all: its threads */
};

struct recalled {
    double ms, queue_ms, run_ms;
};

static int by_ms(const void *a, const void *b)
{
    double x = ((const struct recalled *)a)->ms, y = ((const struct recalled *)b)->ms;
    return (x > y) - (x < y);
}

/* What the slowest of count recalls, sorted, spent their time with. */
static void look_at_slowest(const struct recalled *all, size_t count, struct suffered *s)
{
    size_t slowest = count / 50 + 1;
    for (size_t i = count - slowest; i < count; i++) {
        s->queue_ms += all[i].queue_ms / (double)slowest;
        s->run_ms += all[i].run_ms / (double)slowest;
        s->rest_ms += (all[i].ms - all[i].queue_ms - all[i].run_ms) / (double)slowest;
    }
}

/* Seconds that threads of a process were ready and waited for a processor: its first, or all. */
static double waited_s(pid_t pid, bool all)
{
    char path[300];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    for (struct dirent *e; threads && (e = readdir(threads));) {
        unsigned long long ran, waited;
        if (e->d_name[0] == '.' || (!all && atoi(e->d_name) != pid)) continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, e->d_name);
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%llu %llu", &ran, &waited) == 2) sum += (double)waited * 1e-9;
        if (f) fclose(f);
    }
    if (threads) closedir(threads);
    return sum;
}

static struct suffered recall(const struct sched_daemon *d)
{
    char name[SCHED_ROWS_NAME];
    static struct recalled all[SAMPLES_MAX];
    struct suffered s = {0};
    pid_t pid = d->process.pid;
    sched_name(run.rows_max, name);
    float *query = sched_random_floats(run.dimension, 99);
    double start = bench_now_s(), until = start + seconds;
    double loop_s = waited_s(pid, false), all_s = waited_s(pid, true);
    while (bench_now_s() < until && s.asked < SAMPLES_MAX) {
        ea_result r = {0};
        double began = bench_now_s();
        ea_status st = ea_knn(d->client,
                              &(ea_knn_question){.collection = name,
                                                 .queries = query,
                                                 .query_count = 1,
                                                 .dimension = run.dimension,
                                                 .k = K},
                              &r);
        s.asked++;
        if (st == EA_OK)
            all[s.answered++] =
                (struct recalled){(bench_now_s() - began) * 1e3, (double)r.meta->queue_ns * 1e-6,
                                  (double)r.meta->run_ns * 1e-6};
        ea_result_free(&r);
        usleep(10000);
    }
    free(query);
    if (!s.answered) return s;
    double took_s = bench_now_s() - start;
    s.loop_percent = 100 * (waited_s(pid, false) - loop_s) / took_s;
    s.all_percent = 100 * (waited_s(pid, true) - all_s) / took_s;
    qsort(all, s.answered, sizeof *all, by_ms);
    s.p50_ms = all[s.answered / 2].ms;
    s.p99_ms = all[s.answered * 99 / 100].ms;
    look_at_slowest(all, s.answered, &s);
    return s;
}

static double answered_percent(const struct suffered *s)
{
    return s->asked ? 100.0 * (double)s->answered / (double)s->asked : 0;
}

static void tell(const char *what, const struct suffered *s)
{
    printf("  %-52s %6zu asked, %6.2f %% answered, p50 %7.2f, p99 %7.2f ms\n", what, s->asked,
           answered_percent(s), s->p50_ms, s->p99_ms);
    printf("      the slowest: %.2f ms in line, %.2f at work, %.2f between; the loop waits for a "
           "processor %.1f %% of the time, all threads %.1f %%\n",
           s->queue_ms, s->run_ms, s->rest_ms, s->loop_percent, s->all_percent);
    fflush(stdout);
}

/* One line: whether s is no worse than the target says, compared with `than`. */
static void judge(const char *what, const struct suffered *s, const struct suffered *than)
{
    bool met = answered_percent(s) >= 99 && s->p99_ms <= 4 * than->p99_ms;
    printf("    p50 %.2f x, p99 %.2f x what it is %s: %s\n", s->p50_ms / than->p50_ms,
           s->p99_ms / than->p99_ms, what, met ? "met" : "missed");
    fflush(stdout);
}

/* The victim asks d while a stranger floods `target`. */
static struct suffered recall_beside(const struct sched_daemon *d,
                                     const struct sched_daemon *target, const struct attack *a)
{
    int ready[2];
    unsigned count = 0;
    char what[96];
    if (pipe(ready)) bench_fail("pipe", "no");
    pid_t stranger = fork();
    if (stranger < 0) bench_fail("fork", "no");
    if (!stranger) {
        stranger_runs(target, a, ready[1]);
        _exit(0);
    }
    close(ready[1]);
    if (read(ready[0], &count, sizeof count) != sizeof count) bench_fail("stranger", "it ended");
    close(ready[0]);
    usleep(500000);
    struct suffered s = recall(d);
    kill(stranger, SIGKILL);
    waitpid(stranger, NULL, 0);
    snprintf(what, sizeof what, "beside %s (%u connections)%s", a->name, count,
             target == d ? "" : ", elsewhere");
    tell(what, &s);
    return s;
}

static void run_attack(const struct sched_daemon *d, const struct sched_daemon *elsewhere,
                       const struct attack *a, const struct suffered *alone)
{
    struct suffered there = recall_beside(d, elsewhere, a), here = recall_beside(d, d, a);
    judge("alone", &here, alone);
    judge("beside it elsewhere", &here, &there);
}

static void start(struct sched_daemon *d)
{
    const char *const settings[] = {"gpu.devices=none", "sched.calibrate=false", "socket.mode=0666",
                                    NULL};
    sched_daemon_start(d, &run, run.rows_max * 4, settings);
    if (chmod(d->process.directory, 0711)) bench_fail("chmod", d->process.directory);
}

int main(int argc, char **argv)
{
    static const struct attack attacks[] = {
        {"1 space", 1, 4, 1000},
        {"4 spaces", 4, 4, 1000},
        {"64 spaces", 64, 64, 1000},
        {"all connections, 64 spaces", 64, CONNECTIONS_MAX, 16},
    };
    if (argc > 1 && strcmp(argv[1], "--quick") == 0) seconds = 2;
    if (geteuid() != 0) {
        printf("SKIP bench_strangers: only root can be two users\n");
        return 0;
    }
    struct sched_daemon d, elsewhere;
    unsetenv("STATE_DIRECTORY");
    questions = sched_random_floats(STRANGER_QUERIES * STRANGER_DIMENSION, 7);
    start(&d);
    start(&elsewhere);
    sched_load(&d, run.rows_max);
    printf("recalls: kNN k = %d, 1 query, %llu x %u, 10 ms between them; a stranger of uid %d asks "
           "%d queries over %d x %d at once\n",
           K, (unsigned long long)run.rows_max, run.dimension, STRANGER_UID, STRANGER_QUERIES,
           STRANGER_ROWS, STRANGER_DIMENSION);
    recall(&d); /* warm */
    struct suffered alone = recall(&d);
    tell("alone", &alone);
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
        run_attack(&d, &elsewhere, &attacks[i], &alone);
    sched_daemon_stop(&elsewhere);
    sched_daemon_stop(&d);
    free(questions);
    return 0;
}
