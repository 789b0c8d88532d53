/* bench_flood: what recalls suffer while another peer sends bad frames, each worth a line in the
 * log: to a log in a file, to a pipe that nobody reads, and on a full disk. Four intervals by
 * turns: nobody else; the peer sends as many good frames (Ping); it sends the bad ones to another
 * daemon on this machine, so that it takes processors but nothing of ours; it sends them to ours.
 * The ratios are of intervals beside each other, and the median of them is told with its quartiles.
 * On a machine with few processors the second and the third are what bad frames are compared with.
 * Whatever else runs there, what a frame takes of the daemon's processor time is told, too.
 * Sixteen frames a connection: fifteen whose message cannot be read, and one that is no frame. Run
 * by root, the peer is another user; else it is the victim's, which is told.
 * Exit 1 for errors alone: a figure that misses its target is told.
 *
 *     bench_flood [--quick] [--rounds N] [--seconds S] [--rate FRAMES_A_SECOND, 0: all it can] */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/engram_accel.h"
#include "daemon/base/job.h"
#include "tests/bench/bench_times.h"
#include "tests/support/daemon_process.h"

enum {
    PEER_UID = 65534,
    ROWS = 5000,
    DIMENSION = 128,
    K = 10,
    PAUSE_US = 1000, /* between recalls */
    IN_A_ROW = 16,   /* frames of a connection */
    ROUNDS_MAX = 1000,
    LINES_TARGET = 100,
};
#define RATIO_TARGET 1.2

static unsigned rounds = 15, rate = 20000;
static double seconds = 1;

/* ---------------------------------------------------------------- the peer, a process */

enum frames { FRAMES_GOOD, FRAMES_BAD };

static volatile uint64_t *sent; /* frames, of all peers so far; shared */

static void send_row(const struct daemon_process *d, enum frames frames)
{
    static const uint8_t no_message[] = {0xff, 0xff, 0xff};
    uint8_t junk[FRAME_ALIGN], scrap[4096];
    int fd = raw_connect(d);
    raw_hello(fd, "peer");
    memset(junk, 'x', sizeof junk);
    for (uint64_t i = 1; i < IN_A_ROW; i++)
        if (frames == FRAMES_GOOD)
            raw_send_frame(fd, OPERATION_PING, i, NULL, 0, NULL, 0);
        else
            raw_send_frame(fd, OPERATION_KNN, i, no_message, sizeof no_message, NULL, 0);
    if (frames == FRAMES_GOOD)
        raw_send_frame(fd, OPERATION_PING, IN_A_ROW, NULL, 0, NULL, 0);
    else
        raw_send(fd, junk, sizeof junk);
    shutdown(fd, SHUT_WR);
    while (read(fd, scrap, sizeof scrap) > 0)
        continue;
    close(fd);
    *sent += IN_A_ROW;
}

/* Until it is killed. */
static void peer_runs(const struct daemon_process *d, enum frames frames)
{
    double next = bench_now_s();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (geteuid() == 0 && (setgid(PEER_UID) || setuid(PEER_UID))) bench_fail("setuid", "no");
    for (;;) {
        send_row(d, frames);
        if (!rate) continue;
        next += (double)IN_A_ROW / rate;
        double wait = next - bench_now_s();
        if (wait > 0)
            usleep((useconds_t)(wait * 1e6));
        else
            next -= wait; /* it cannot, and does not make up for it */
    }
}

static pid_t peer_start(const struct daemon_process *d, enum frames frames)
{
    pid_t pid = fork();
    if (pid < 0) bench_fail("fork", strerror(errno));
    if (!pid) {
        peer_runs(d, frames);
        _exit(0);
    }
    usleep(100000);
    return pid;
}

/* ---------------------------------------------------------------- the victim */

static ea_client *victim_opens(const struct daemon_process *d)
{
    static float rows[ROWS * DIMENSION];
    static uint64_t ids[ROWS];
    uint64_t state = 1;
    ea_client *c = NULL;
    ea_options options = {.socket_path = d->socket_path, .space = "victim"};
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        rows[i] = bench_random_float(&state);
    if (ea_open(&options, &c) || ea_collection_create(c, "r", DIMENSION, EA_COSINE, NULL) ||
        ea_upsert(
            c,
            &(ea_rows){
                .collection = "r", .ids = ids, .rows = rows, .count = ROWS, .dimension = DIMENSION},
            NULL))
        bench_fail("victim", c ? ea_error_text(c) : "no memory");
    return c;
}

static double recall_p99_ms(ea_client *c)
{
    static struct times *t;
    float query[DIMENSION];
    uint64_t state = 2;
    if (!t) t = times_make();
    t->count = 0;
    for (int i = 0; i < DIMENSION; i++)
        query[i] = bench_random_float(&state);
    const ea_knn_question question = {
        .collection = "r", .queries = query, .query_count = 1, .dimension = DIMENSION, .k = K};
    for (double until = bench_now_s() + seconds; bench_now_s() < until;) {
        ea_result r = {0};
        double began = bench_now_s();
        if (ea_knn(c, &question, &r)) bench_fail("knn", ea_error_text(c));
        times_add(t, began);
        ea_result_free(&r);
        usleep(PAUSE_US);
    }
    return figures_of(t).p99;
}

/* ---------------------------------------------------------------- a log and its daemon */

enum output { OUTPUT_FILE, OUTPUT_UNREAD, OUTPUT_FULL, OUTPUTS };

struct flooded {
    struct daemon_process process;
    int fifo; /* both ends of the pipe that nobody reads; -1: none */
};

/* A daemon again whose log is what we made of its path. */
static void start(struct flooded *d, enum output output)
{
    /* In a file as many lines as a peer may have by default; else as many as a kind may have. */
    static const char *const settings[] = {"gpu.devices=none",
                                           "sched.calibrate=false",
                                           "workers.count=1",
                                           "socket.mode=0666",
                                           "memory.max_mib=512",
                                           "peers.log_lines=65536",
                                           NULL};
    const char *by_default[] = {settings[0], settings[1], settings[2],
                                settings[3], settings[4], NULL};
    const char *const *chosen = output == OUTPUT_FILE ? by_default : settings;
    struct daemon_process *p = &d->process;
    d->fifo = -1;
    daemon_start(p, chosen);
    daemon_kill(p);
    if (chmod(p->directory, 0711) || unlink(p->log_path)) bench_fail("log", strerror(errno));
    switch (output) {
    case OUTPUT_FILE: break;
    case OUTPUT_UNREAD:
        if (mkfifo(p->log_path, 0600)) bench_fail("mkfifo", strerror(errno));
        d->fifo = open(p->log_path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
        while (write(d->fifo, "full\n", 5) > 0) /* from its start on */
            continue;
        break;
    case OUTPUT_FULL:
        if (symlink("/dev/full", p->log_path)) bench_fail("symlink", strerror(errno));
        break;
    case OUTPUTS: break;
    }
    daemon_restart(p, chosen);
}

static void stop(struct flooded *d)
{
    if (daemon_stop(&d->process)) bench_fail("the daemon", "it did not end well");
    if (d->fifo >= 0) close(d->fifo);
}

static unsigned count_lines(const struct flooded *d)
{
    unsigned lines = 0;
    FILE *in = fopen(d->process.log_path, "re");
    if (!in) bench_fail("log", strerror(errno));
    for (int c; (c = getc(in)) != EOF;)
        lines += c == '\n';
    fclose(in);
    return lines;
}

/* ---------------------------------------------------------------- intervals */

enum interval { ALONE, BESIDE_GOOD, ELSEWHERE, BESIDE_BAD, INTERVALS };

struct measured {
    double p99_ms[INTERVALS][ROUNDS_MAX], daemon_s[INTERVALS]; /* of processors */
    uint64_t frames[INTERVALS];
    unsigned lines; /* of the log, while bad frames came */
};

static struct measured measured;

/* What the processors did for a process so far. */
static double processor_s(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
        bench_fail("the daemon's processor time", "not read");
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Microseconds that a frame takes of the daemon's processors. */
static double frame_us(enum interval interval)
{
    double more = measured.daemon_s[interval] - measured.daemon_s[ALONE];
    return measured.frames[interval] ? more / (double)measured.frames[interval] * 1e6 : 0;
}

static void measure(struct flooded *d, struct flooded *elsewhere, ea_client *victim,
                    enum output output, enum interval interval, unsigned round)
{
    pid_t peer = 0;
    uint64_t before = *sent;
    double began_s = processor_s(d->process.pid);
    unsigned lines = output == OUTPUT_FILE ? count_lines(d) : 0;
    switch (interval) {
    case ALONE: break;
    case BESIDE_GOOD: peer = peer_start(&d->process, FRAMES_GOOD); break;
    case ELSEWHERE: peer = peer_start(&elsewhere->process, FRAMES_BAD); break;
    case BESIDE_BAD: peer = peer_start(&d->process, FRAMES_BAD); break;
    case INTERVALS: break;
    }
    measured.p99_ms[interval][round] = recall_p99_ms(victim);
    if (peer) {
        kill(peer, SIGKILL);
        waitpid(peer, NULL, 0);
        usleep(50000); /* what it left is read and closed */
    }
    measured.frames[interval] += *sent - before;
    measured.daemon_s[interval] += processor_s(d->process.pid) - began_s;
    if (interval == BESIDE_BAD && output == OUTPUT_FILE) measured.lines += count_lines(d) - lines;
}

static void tell_ratio(const char *what, enum interval than)
{
    double ratios[ROUNDS_MAX], ours[ROUNDS_MAX], theirs[ROUNDS_MAX];
    char left[32], right[32];
    for (unsigned i = 0; i < rounds; i++) {
        ours[i] = measured.p99_ms[BESIDE_BAD][i];
        theirs[i] = measured.p99_ms[than][i];
        ratios[i] = ours[i] / theirs[i];
    }
    snprintf(left, sizeof left, "%.2f ms", bench_percentile(ours, rounds, 50));
    snprintf(right, sizeof right, "%.2f ms", bench_percentile(theirs, rounds, 50));
    bench_row(what, left, right, bench_percentile(ratios, rounds, 50), false, RATIO_TARGET);
    printf("      quartiles of %u ratios: %.2f and %.2f\n", rounds,
           bench_percentile(ratios, rounds, 25), bench_percentile(ratios, rounds, 75));
}

static void run_output(enum output output)
{
    static const char *const titles[OUTPUTS] = {"the log is a file", "nobody reads the log",
                                                "the log is on a full disk"};
    struct flooded d, elsewhere;
    start(&d, output);
    start(&elsewhere, output);
    ea_client *victim = victim_opens(&d.process);
    measured = (struct measured){0};
    recall_p99_ms(victim); /* warm */
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned i = 0; i < INTERVALS; i++)
            measure(&d, &elsewhere, victim, output, (enum interval)((round + i) % INTERVALS),
                    round);
    printf("\n%s: p99 of recalls beside bad frames; %.0f frames a second here, %.0f elsewhere, "
           "%.0f good ones\n",
           titles[output], (double)measured.frames[BESIDE_BAD] / (rounds * seconds),
           (double)measured.frames[ELSEWHERE] / (rounds * seconds),
           (double)measured.frames[BESIDE_GOOD] / (rounds * seconds));
    tell_ratio("beside nobody", ALONE);
    tell_ratio("beside as many good frames", BESIDE_GOOD);
    tell_ratio("beside as many bad frames elsewhere", ELSEWHERE);
    if (output == OUTPUT_FILE) {
        double a_second = measured.lines / (rounds * seconds);
        printf("  %.1f lines a second in the log: %s\n", a_second,
               a_second <= LINES_TARGET ? "ok" : "MISSED");
    }
    printf("  %llu bad frames, of %.1f us of the daemon's processors each; a good one takes %.1f\n",
           (unsigned long long)measured.frames[BESIDE_BAD], frame_us(BESIDE_BAD),
           frame_us(BESIDE_GOOD));
    fflush(stdout);
    ea_close(victim);
    stop(&elsewhere);
    stop(&d);
}

static double number(const char *text, double most)
{
    double value = text ? strtod(text, NULL) : -1;
    if (!(value >= 0 && value <= most))
        bench_fail("arguments", text ? text : "a number is missing");
    return value;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            rounds = 3, seconds = 0.5;
        else if (!strcmp(argv[i], "--rounds"))
            rounds = (unsigned)number(argv[++i], ROUNDS_MAX);
        else if (!strcmp(argv[i], "--seconds"))
            seconds = number(argv[++i], 3600);
        else if (!strcmp(argv[i], "--rate"))
            rate = (unsigned)number(argv[++i], 1e7);
        else
            bench_fail("arguments", argv[i]);
    }
    if (!rounds) bench_fail("arguments", "--rounds 0");
    unsetenv("STATE_DIRECTORY");
    sent = mmap(NULL, sizeof *sent, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sent == MAP_FAILED) bench_fail("mmap", strerror(errno));
    printf("recalls: kNN k = %d, 1 query, %d x %d, 1 ms between them; %u rounds of %d intervals of "
           "%.1f s; the peer is %s\n",
           K, ROWS, DIMENSION, rounds, INTERVALS, seconds,
           geteuid() == 0 ? "another user" : "the same user: only root can be two");
    for (unsigned output = 0; output < OUTPUTS; output++)
        run_output((enum output)output);
    return 0;
}
