/* bench_journal: what persist.journal costs. Uploads with `second` against uploads without and what
 * the disk takes, and writes of 100 rows of 768 with `always`, of one client and of 16 that share
 * syncs. All of it on the disk that --dir is on. */
#include <argp.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "client/engram_accel.h"
#include "client/engram_accel_vectors.h"
#include "tests/bench/bench.h"
#include "tests/support/daemon_process.h"

enum { DIMENSION = 768, CLIENTS = 16, UPLOAD_ROWS = 8192 };

static struct {
    double seconds;
    uint64_t mib;
    int runs;
    const char *dir;
    uint64_t rows;
    uint32_t sync_ms;
    bool always_alone;
} asked = {5, 1024, 3, "/tmp", 100, 0, false};

static const struct argp_option options[] = {
    {"quick", 'q', 0, 0, "a first look", 0},
    {"dir", 'd', "DIR", 0, "where the journal lies (/tmp)", 0},
    {"rows", 'r', "N", 0, "rows of a write of `always` (100)", 0},
    {"mib", 'm', "N", 0, "MiB of an upload (1024)", 0},
    {"sync-ms", 's', "N", 0, "each sync costs so much more, the disk alone's, too", 0},
    {"always", 'a', 0, 0, "no uploads", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'q':
        asked.seconds = 1;
        asked.mib = 128;
        asked.runs = 1;
        return 0;
    case 'd': asked.dir = arg; return 0;
    case 'r': asked.rows = strtoull(arg, NULL, 10); return 0;
    case 'm': asked.mib = strtoull(arg, NULL, 10); return 0;
    case 's': asked.sync_ms = (uint32_t)strtoul(arg, NULL, 10); return 0;
    case 'a': asked.always_alone = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static float *rows;
static char folder[512];

static ea_client *open_client(const struct daemon_process *d)
{
    ea_client *c;
    ea_options o = {.socket_path = d->socket_path, .space = "bench"};
    if (ea_open(&o, &c)) bench_fail("client", "cannot connect");
    return c;
}

static void start(struct daemon_process *d, const char *journal)
{
    static char dir[600], set[64];
    snprintf(folder, sizeof folder, "%s/engram-bench-journal-XXXXXX", asked.dir);
    if (!mkdtemp(folder)) bench_fail(asked.dir, "no folder can be made");
    snprintf(dir, sizeof dir, "persist.dir=%s", folder);
    snprintf(set, sizeof set, "persist.journal=%s", journal);
    const char *settings[] = {dir, set, "persist.on_stop=false", "gpu.devices=none", NULL};
    daemon_start(d, settings);
}

static void stop(struct daemon_process *d)
{
    char command[640];
    daemon_kill(d);
    daemon_clean(d);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command)) bench_fail(folder, "cannot be removed"); /* NOLINT(cert-env33-c) */
}

/* Each daemon from now on has a slow disk. */
static void slow_down(void)
{
    char library[512], ms[16];
    build_path("tests/bench/slow_sync.so", library, sizeof library);
    if (access(library, R_OK)) bench_fail(library, "is not there");
    snprintf(ms, sizeof ms, "%u", asked.sync_ms);
    setenv("ENGRAM_BENCH_SYNC_MS", ms, 1);
    setenv("LD_PRELOAD", library, 1);
}

/* The bench's own syncs cost the same. */
static int sync_slowly(int fd)
{
    const struct timespec t = {asked.sync_ms / 1000, asked.sync_ms % 1000 * 1000000L};
    int rc = fdatasync(fd);
    nanosleep(&t, NULL);
    return rc;
}

/* Seconds of processors that the daemon has had. */
static double cpu_of(const struct daemon_process *d)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(d->pid, &clock) || clock_gettime(clock, &t)) return 0;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu_ms; /* of the daemon, for each MiB or write of the last measurement */

static void write_rows(ea_client *c, const char *name, uint64_t first, uint64_t count)
{
    static _Thread_local uint64_t ids[UPLOAD_ROWS];
    for (uint64_t i = 0; i < count; i++)
        ids[i] = first + i;
    const ea_rows r = {
        .collection = name, .ids = ids, .rows = rows, .count = count, .dimension = DIMENSION};
    if (ea_upsert(c, &r, NULL)) bench_fail("upsert", ea_error_text(c));
}

/* MiB a second of an upload. */
static double upload(const char *journal)
{
    struct daemon_process d;
    start(&d, journal);
    ea_client *c = open_client(&d);
    if (ea_collection_create(c, "rows", DIMENSION, EA_DOT, NULL))
        bench_fail("create", ea_error_text(c));
    uint64_t count = (asked.mib << 20) / (DIMENSION * sizeof(float));
    double began = bench_now_s();
    for (uint64_t first = 0; first < count; first += UPLOAD_ROWS)
        write_rows(c, "rows", first, count - first < UPLOAD_ROWS ? count - first : UPLOAD_ROWS);
    double took = bench_now_s() - began;
    cpu_ms = cpu_of(&d) * 1e3 / (double)asked.mib;
    ea_close(c);
    stop(&d);
    return (double)asked.mib / took;
}

/* MiB a second that the disk takes, synced once a second as the journal is. */
static double disk(void)
{
    char name[560];
    snprintf(name, sizeof name, "%s/engram-bench-disk-XXXXXX", asked.dir);
    int fd = mkstemp(name);
    if (fd < 0) bench_fail(name, "cannot be made");
    unlink(name);
    double began = bench_now_s(), synced = began;
    for (uint64_t i = 0; i < asked.mib; i += 8) {
        if (write(fd, rows, 8 << 20) != 8 << 20) bench_fail(name, "cannot be written");
        sync_file_range(fd, (off_t)(i << 20), 8 << 20, SYNC_FILE_RANGE_WRITE);
        if (bench_now_s() - synced < 1) continue;
        sync_slowly(fd);
        synced = bench_now_s();
    }
    sync_slowly(fd);
    double took = bench_now_s() - began;
    close(fd);
    return (double)asked.mib / took;
}

/* Writes a second of which so many are synced together, as a file of its own takes them. */
static double disk_synced(int together)
{
    char name[560];
    size_t bytes = asked.rows * DIMENSION * sizeof *rows;
    snprintf(name, sizeof name, "%s/engram-bench-disk-XXXXXX", asked.dir);
    int fd = mkstemp(name);
    if (fd < 0) bench_fail(name, "cannot be made");
    unlink(name);
    double began = bench_now_s();
    uint64_t writes = 0;
    while (bench_now_s() < began + asked.seconds) {
        for (int i = 0; i < together; i++)
            if (write(fd, rows, bytes) != (ssize_t)bytes) bench_fail(name, "cannot be written");
        if (sync_slowly(fd)) bench_fail(name, "cannot be synced");
        writes += (uint64_t)together;
    }
    double took = bench_now_s() - began;
    close(fd);
    return (double)writes / took;
}

struct writers {
    struct daemon_process *d;
    double until;
    atomic_ullong writes;
    atomic_uint number;
};

static void *write_until(void *arg)
{
    struct writers *w = arg;
    char name[16];
    ea_client *c = open_client(w->d);
    snprintf(name, sizeof name, "rows%u", atomic_fetch_add(&w->number, 1));
    if (ea_collection_create(c, name, DIMENSION, EA_DOT, NULL))
        bench_fail("create", ea_error_text(c));
    while (bench_now_s() < w->until) {
        write_rows(c, name, 0, asked.rows);
        atomic_fetch_add(&w->writes, 1);
    }
    ea_close(c);
    return NULL;
}

/* Writes a second of so many clients. */
static double always(int clients)
{
    struct daemon_process d;
    pthread_t threads[CLIENTS];
    start(&d, "always");
    struct writers w = {.d = &d, .until = bench_now_s() + asked.seconds};
    for (int i = 0; i < clients; i++)
        if (pthread_create(&threads[i], NULL, write_until, &w)) bench_fail("thread", "none");
    for (int i = 0; i < clients; i++)
        pthread_join(threads[i], NULL);
    cpu_ms = cpu_of(&d) * 1e3 / (double)(atomic_load(&w.writes) + 1);
    stop(&d);
    return (double)atomic_load(&w.writes) / asked.seconds;
}

static double best(double (*measure)(const char *), const char *with)
{
    double most = 0;
    for (int i = 0; i < asked.runs; i++) {
        double now = measure(with);
        if (now > most) most = now;
        fprintf(stderr, "  %s: %.0f, %.2f ms of processors each\n", with, now, cpu_ms);
    }
    return most;
}

static double disk_once(const char *nothing)
{
    return disk();
}

static double disk_synced_once(const char *together)
{
    return disk_synced(*together == '1' && !together[1] ? 1 : CLIENTS);
}

static double always_once(const char *clients)
{
    return always(*clients == '1' && !clients[1] ? 1 : CLIENTS);
}

static void compare_uploads(void)
{
    double without = best(upload, "off"), with = best(upload, "second");
    double taken = best(disk_once, ""), least = without < taken ? without : taken;
    printf("uploads of %llu MiB: off %.0f MiB/s, second %.0f MiB/s, the disk %.0f MiB/s: %.2f%s\n",
           (unsigned long long)asked.mib, without, with, taken, with / least,
           with >= 0.9 * least ? "" : "  MISSED: >= 0.9");
}

int main(int argc, char **argv)
{
    static const struct argp argp = {options, parse, NULL, "What persist.journal costs.",
                                     NULL,    NULL,  NULL};
    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    size_t bytes = (size_t)UPLOAD_ROWS * DIMENSION * sizeof *rows;
    rows = aligned_alloc(64, bytes);
    if (!rows) bench_fail("rows", "no memory");
    for (size_t i = 0; i < bytes / sizeof *rows; i++)
        rows[i] = (float)(i % 1000) * 0.001f;
    if (asked.sync_ms) slow_down();
    if (!asked.always_alone) compare_uploads();
    double one = best(always_once, "1"), all = best(always_once, "16");
    printf("always, writes of %llu rows of %d: 1 client %.0f/s, %d clients %.0f/s: %.1f%s\n",
           (unsigned long long)asked.rows, DIMENSION, one, CLIENTS, all, all / one,
           all >= 8 * one ? "" : "  MISSED: >= 8");
    double disk_one = best(disk_synced_once, "1"), disk_all = best(disk_synced_once, "16");
    printf(
        "the disk alone: synced after each write %.0f/s, after each %d %.0f/s: %.1f at most here, "
        "of which %.2f is reached\n",
        disk_one, CLIENTS, disk_all, disk_all / disk_one, all / disk_all);
    free(rows);
    return 0;
}
