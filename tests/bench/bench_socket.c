/* bench_socket: what the house costs around the arithmetic: latency and rate against a bare libuv
 * echo, uploads against a plain copy through a Unix socket, many connections, memory.
 * Prints ratios of one run; --quick shortens it. Units stand in the rows. */
#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "client/engram_accel.h"
#include "tests/bench/bench.h"
#include "tests/support/daemon_process.h"

enum { PING_BYTES = 64, ROUNDS = 7, WINDOW = 64 };

static struct {
    unsigned seconds; /* of the many-connections run */
    uint64_t upload_bytes;
    unsigned pings;
} options = {60, 1ull << 30, 20000};

static void check(ea_status st, ea_client *c, const char *what)
{
    if (st) bench_fail(what, ea_error_text(c));
}

static ea_client *open_client(const struct daemon_process *d)
{
    ea_client *c;
    ea_options o = {.socket_path = d->socket_path};
    check(ea_open(&o, &c), NULL, "ea_open");
    check(ea_connect(c), c, "ea_connect");
    return c;
}

/* ---------------------------------------------------------------- the peer: a libuv echo */

static void echo_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    static char bytes[65536];
    *buf = uv_buf_init(bytes, sizeof bytes);
}

static void echo_wrote(uv_write_t *req, int status)
{
    free(req);
}

static void echo_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    if (n < 0) {
        uv_close((uv_handle_t *)s, (uv_close_cb)free);
        return;
    }
    uv_buf_t out = uv_buf_init(buf->base, (unsigned)n);
    int sent = uv_try_write(s, &out, 1);
    if (sent == n || n == 0) return;
    if (sent < 0) sent = 0;
    uv_write_t *req = malloc(sizeof *req + (size_t)(n - sent));
    char *rest = (char *)(req + 1);
    memcpy(rest, buf->base + sent, (size_t)(n - sent));
    out = uv_buf_init(rest, (unsigned)(n - sent));
    uv_write(req, s, &out, 1, echo_wrote);
}

static void echo_accept(uv_stream_t *listener, int status)
{
    uv_pipe_t *p = malloc(sizeof *p);
    uv_pipe_init(listener->loop, p, 0);
    if (uv_accept(listener, (uv_stream_t *)p) == 0)
        uv_read_start((uv_stream_t *)p, echo_alloc, echo_read);
}

static pid_t echo_start(const char *path)
{
    pid_t pid = fork();
    if (pid) return pid;
    uv_loop_t loop;
    uv_pipe_t listener;
    uv_loop_init(&loop);
    uv_pipe_init(&loop, &listener, 0);
    if (uv_pipe_bind(&listener, path) || uv_listen((uv_stream_t *)&listener, 16, echo_accept))
        _exit(1);
    uv_run(&loop, UV_RUN_DEFAULT);
    _exit(0);
}

static int connect_unix(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path) bench_fail(path, "too long for a socket");
    memcpy(a.sun_path, path, strlen(path) + 1);
    for (int i = 0; i < 1000; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
        close(fd);
        usleep(2000);
    }
    bench_fail(path, "cannot connect");
    return -1;
}

/* ---------------------------------------------------------------- round trips */

static void exchange(int fd, const void *bytes, size_t count)
{
    static char reply[PING_BYTES * WINDOW];
    if (!raw_send(fd, bytes, count)) bench_fail("send", strerror(errno));
    for (size_t got = 0; got < count;) {
        ssize_t n = recv(fd, reply, count - got, 0);
        if (n <= 0) bench_fail("recv", n ? strerror(errno) : "closed");
        got += (size_t)n;
    }
}

static double round_trip_p50(int fd, const void *ping, double *scratch)
{
    for (unsigned i = 0; i < options.pings; i++) {
        double start = bench_now_s();
        exchange(fd, ping, PING_BYTES);
        scratch[i] = bench_now_s() - start;
    }
    return bench_percentile(scratch, options.pings, 50);
}

static double burst_rate(int fd, const char *burst)
{
    unsigned bursts = options.pings / 4;
    double start = bench_now_s();
    for (unsigned i = 0; i < bursts; i++)
        exchange(fd, burst, PING_BYTES * WINDOW);
    return (double)bursts * WINDOW / (bench_now_s() - start);
}

/* Client and server on one processor: where they have two, an idle one's wake-up (tens of
 * microseconds on a virtual machine) hides what the servers cost, or not, as the system likes. */
static void share_processor(pid_t pid)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    if (sched_setaffinity(pid, sizeof set, &set)) bench_fail("sched_setaffinity", strerror(errno));
}

static void bench_round_trips(void)
{
    struct daemon_process d;
    cpu_set_t everywhere;
    sched_getaffinity(0, sizeof everywhere, &everywhere);
    daemon_start(&d, NULL);
    char echo_path[128], ours[32], peer[32];
    snprintf(echo_path, sizeof echo_path, "%s/echo", d.directory);
    pid_t echo = echo_start(echo_path);
    share_processor(0);
    share_processor(echo);
    share_processor(d.pid); /* its loop; the workers have nothing to do */
    int echo_fd = connect_unix(echo_path);
    int fd = raw_connect(&d);
    raw_hello(fd, "");
    ea_client *client = open_client(&d);

    char burst[PING_BYTES * WINDOW] = {0};
    for (unsigned i = 0; i < WINDOW; i++)
        frame_write(&(struct frame_header){.kind = 2, .request_id = i + 2}, burst + i * PING_BYTES);
    double *scratch = calloc(options.pings, sizeof *scratch);
    double ping[ROUNDS], base[ROUNDS], library[ROUNDS], rate[ROUNDS], base_rate[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        base[r] = round_trip_p50(echo_fd, burst, scratch);
        ping[r] = round_trip_p50(fd, burst, scratch);
        for (unsigned i = 0; i < options.pings; i++) {
            double start = bench_now_s();
            check(ea_ping(client), client, "ea_ping");
            scratch[i] = bench_now_s() - start;
        }
        library[r] = bench_percentile(scratch, options.pings, 50);
        base_rate[r] = burst_rate(echo_fd, burst);
        rate[r] = burst_rate(fd, burst);
    }
    double p = bench_percentile(ping, ROUNDS, 50), b = bench_percentile(base, ROUNDS, 50);
    double l = bench_percentile(library, ROUNDS, 50);
    bench_header("round trips of 64 bytes over the Unix socket, all on one processor; peer: a bare "
                 "libuv echo");
    snprintf(ours, sizeof ours, "%.1f us", p * 1e6);
    snprintf(peer, sizeof peer, "%.1f us", b * 1e6);
    bench_row("ping p50", ours, peer, p / b, false, 1.5);
    snprintf(ours, sizeof ours, "%.1f us", l * 1e6);
    bench_row("ping p50 through the client library", ours, peer, l / b, false, 1.5);
    p = bench_percentile(rate, ROUNDS, 50);
    b = bench_percentile(base_rate, ROUNDS, 50);
    snprintf(ours, sizeof ours, "%.0f/s", p);
    snprintf(peer, sizeof peer, "%.0f/s", b);
    bench_row("pipelined requests, 64 in flight", ours, peer, p / b, true, 0.7);

    free(scratch);
    ea_close(client);
    close(fd);
    close(echo_fd);
    kill(echo, SIGKILL);
    waitpid(echo, NULL, 0);
    unlink(echo_path);
    daemon_stop(&d);
    if (sched_setaffinity(0, sizeof everywhere, &everywhere)) bench_fail("affinity", "restore");
}

/* ---------------------------------------------------------------- upload */

/* Sends bytes through a Unix socket to a process that reads them; seconds. keep: into memory that
 * it keeps, as a store does, instead of one buffer over and over. */
static double plain_copy(const char *data, uint64_t bytes, bool keep)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) bench_fail("socketpair", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        size_t size = keep ? bytes : 1 << 20;
        char *into = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (uint64_t got = 0; got < bytes;) {
            uint64_t at = keep ? got : 0;
            uint64_t room = bytes - got < 1 << 20 ? bytes - got : 1 << 20;
            ssize_t n = read(pair[1], into + at, room);
            if (n <= 0) _exit(1);
            got += (uint64_t)n;
        }
        if (write(pair[1], "k", 1) != 1) _exit(1);
        _exit(0);
    }
    close(pair[1]);
    double start = bench_now_s();
    for (uint64_t sent = 0; sent < bytes;) {
        ssize_t n = write(pair[0], data + sent, bytes - sent < 1 << 20 ? bytes - sent : 1 << 20);
        if (n <= 0) bench_fail("plain copy", strerror(errno));
        sent += (uint64_t)n;
    }
    char done;
    if (read(pair[0], &done, 1) != 1) bench_fail("plain copy", "the reader died");
    double seconds = bench_now_s() - start;
    close(pair[0]);
    waitpid(pid, NULL, 0);
    return seconds;
}

static void bench_upload(void)
{
    const uint32_t dimension = 768;
    uint64_t rows = options.upload_bytes / (dimension * sizeof(float));
    uint64_t bytes = rows * dimension * sizeof(float), seed = 1;
    float *data = malloc(bytes);
    uint64_t *ids = malloc(rows * sizeof *ids);
    for (uint64_t i = 0; i < rows * dimension; i++)
        data[i] = bench_random_float(&seed);
    for (uint64_t i = 0; i < rows; i++)
        ids[i] = i;
    const char *const settings[] = {"memory.max_mib=4096", NULL};
    struct daemon_process d;
    daemon_start(&d, settings);
    ea_client *c = open_client(&d);
    enum { TRIES = 5 };
    double up[TRIES], reused[TRIES], kept[TRIES];
    for (int r = 0; r < TRIES; r++) {
        reused[r] = plain_copy((char *)data, bytes, false);
        kept[r] = plain_copy((char *)data, bytes, true);
        check(ea_collection_create(c, "upload", dimension, EA_COSINE, NULL), c, "create");
        double start = bench_now_s();
        check(ea_upsert(c,
                        &(ea_rows){.collection = "upload",
                                   .ids = ids,
                                   .rows = data,
                                   .count = rows,
                                   .dimension = dimension},
                        NULL),
              c, "upsert");
        up[r] = bench_now_s() - start;
        check(ea_collection_drop(c, "upload"), c, "drop");
    }
    double u = bench_percentile(up, TRIES, 50);
    double p = bench_percentile(reused, TRIES, 50), k = bench_percentile(kept, TRIES, 50);
    char ours[32], peer[32];
    snprintf(ours, sizeof ours, "%.2f GB/s", (double)bytes / u * 1e-9);
    snprintf(peer, sizeof peer, "%.2f GB/s", (double)bytes / p * 1e-9);
    bench_header("upload of new rows; peer: plain copy through a Unix socket");
    bench_row("into one buffer over and over", ours, peer, p / u, true, 0.7);
    snprintf(peer, sizeof peer, "%.2f GB/s", (double)bytes / k * 1e-9);
    bench_row("into memory that is kept", ours, peer, k / u, true, 0.7);
    ea_close(c);
    daemon_stop(&d);
    free(data);
    free(ids);
}

/* ---------------------------------------------------------------- memory, many connections */

static void load_rows(ea_client *c, uint64_t rows, uint32_t dimension)
{
    float *data = malloc(rows * dimension * sizeof(float));
    uint64_t *ids = malloc(rows * sizeof *ids), seed = 2;
    for (uint64_t i = 0; i < rows * dimension; i++)
        data[i] = bench_random_float(&seed);
    for (uint64_t i = 0; i < rows; i++)
        ids[i] = i;
    check(ea_collection_create(c, "rows", dimension, EA_COSINE, NULL), c, "create");
    check(ea_upsert(c,
                    &(ea_rows){.collection = "rows",
                               .ids = ids,
                               .rows = data,
                               .count = rows,
                               .dimension = dimension},
                    NULL),
          c, "upsert");
    free(data);
    free(ids);
}

struct asker {
    ea_client *client;
    float query[768];
    uint64_t candidates[100];
    double sent_s;
    uint64_t seed;
};

static struct {
    float *latencies_us;
    uint64_t count, capacity, errors;
    bool stop;
} tally;

static void ask(struct asker *a);

static void on_scores(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status status = answer->status;
    ea_result *r = answer->result;
    struct asker *a = user;
    if (status || r->rows != 100)
        tally.errors++;
    else if (tally.count < tally.capacity)
        tally.latencies_us[tally.count++] = (float)((bench_now_s() - a->sent_s) * 1e6);
    if (!tally.stop) ask(a);
}

static void ask(struct asker *a)
{
    for (int i = 0; i < 100; i++)
        a->candidates[i] = bench_random(&a->seed) % 100000;
    a->sent_s = bench_now_s();
    check(ea_score_send(a->client,
                        &(ea_score_question){.collection = "rows",
                                             .queries = a->query,
                                             .query_count = 1,
                                             .dimension = 768,
                                             .ids = a->candidates,
                                             .count = 100},
                        &(ea_send_options){.callback = on_scores, .user = a}, NULL),
          a->client, "ea_score_send");
}

static int compare_float(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static void bench_connections(struct daemon_process *d)
{
    enum { CONNECTIONS = 16 };
    static struct asker askers[CONNECTIONS];
    struct pollfd fds[CONNECTIONS];
    tally.capacity = 200000ull * options.seconds;
    tally.latencies_us = malloc(tally.capacity * sizeof(float));
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        askers[i].client = open_client(d);
        askers[i].seed = i + 10;
        for (int k = 0; k < 768; k++)
            askers[i].query[k] = bench_random_float(&askers[i].seed);
        ask(&askers[i]);
    }
    double start = bench_now_s(), end = start + options.seconds;
    size_t pending = CONNECTIONS;
    while (pending) {
        if (bench_now_s() >= end) tally.stop = true;
        pending = 0;
        for (unsigned i = 0; i < CONNECTIONS; i++) {
            check(ea_pump(askers[i].client, 0), askers[i].client, "ea_pump");
            fds[i] = (struct pollfd){.fd = ea_fd(askers[i].client),
                                     .events = ea_events(askers[i].client)};
            pending += ea_pending(askers[i].client);
        }
        if (pending) poll(fds, CONNECTIONS, 100);
    }
    double rate = (double)tally.count / (bench_now_s() - start);
    qsort(tally.latencies_us, tally.count, sizeof(float), compare_float);
    bench_header("resident ScoreCandidates of 100 ids x 768, 16 connections, one request each");
    char ours[32], peer[64];
    snprintf(ours, sizeof ours, "%.0f/s", rate);
    snprintf(peer, sizeof peer, "10000/s");
    bench_row("sustained", ours, peer, rate / 10000, true, 1.0);
    printf("  %u s, %llu answers, %llu errors; p50 %.0f us, p99 %.0f us, p99.9 %.0f us\n",
           options.seconds, (unsigned long long)tally.count, (unsigned long long)tally.errors,
           tally.latencies_us[tally.count / 2], tally.latencies_us[tally.count * 99 / 100],
           tally.latencies_us[tally.count * 999 / 1000]);
    for (unsigned i = 0; i < CONNECTIONS; i++)
        ea_close(askers[i].client);
    free(tally.latencies_us);
}

static void bench_memory(void)
{
    struct daemon_process d;
    daemon_start(&d, NULL);
    ea_client *c = open_client(&d);
    load_rows(c, 100000, 768);
    sleep(3); /* the cache of given-back blocks is trimmed when idle */
    double rss = (double)process_resident_kib(d.pid) / 1024;
    double bound = (1.1 * 100000 * 768 * 4 + 48.0 * 100000) / 1048576 + 64;
    char ours[32], peer[32];
    snprintf(ours, sizeof ours, "%.0f MiB", rss);
    snprintf(peer, sizeof peer, "%.0f MiB", bound);
    bench_header("memory of the process; bound: 1.1 x padded rows + 48 bytes a row + 64 MiB");
    bench_row("100,000 x 768 loaded", ours, peer, rss / bound, false, 1.0);
    bench_connections(&d);
    ea_close(c);
    daemon_stop(&d);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    switch (key) {
    case 'q':
        options.seconds = 5;
        options.upload_bytes = 256 << 20;
        options.pings = 4000;
        return 0;
    case 's': options.seconds = (unsigned)atoi(value); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option list[] = {
        {"quick", 'q', NULL, 0, "A tenth of the work, for a first look", 0},
        {"seconds", 's', "N", 0, "Length of the 16-connections run (60)", 0},
        {0},
    };
    argp_parse(
        &(struct argp){list, parse, NULL, "Measures the daemon's sockets.", NULL, NULL, NULL}, argc,
        argv, 0, NULL, NULL);
    bench_round_trips();
    bench_upload();
    bench_memory();
    return 0;
}
