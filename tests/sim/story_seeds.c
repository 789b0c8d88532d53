/* story_seeds [--faults | --scribble] [--seeds N] [--first SEED] [--trace]: stories of the whole
 * daemon on a virtual clock (tests/support/story.h), one for each seed, in two processes. Ends with
 * one line,
 *     N seeds, N requests, N wrong
 * A seed that goes wrong says so, and its story goes wrong again with --first SEED --seeds 1. Of
 * every sixteenth seed the story is told twice, and must be the same to the last byte.
 * --faults: each seed has a short story, which is told again for each fallible step in it; that
 * step fails.
 * --scribble: cards write nonsense into all memory that they can write to; the daemon has to
 * live. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "tests/support/story_calibrate.h"

enum { PROCESSES = 2, TWICE_EVERY = 16, FAULT_REQUESTS = 60 };

/* Calibration goes on when nobody has asked for anything for 100 ms. */
#define PAUSE_NS UINT64_C(150000000)

struct totals {
    uint64_t seeds, requests, answered, errors, vanished, exhausted, on_card, on_both, similar,
        recalled, bound, calibrated, completed, settled, learned, clustered, told, by_codes;
};

static bool scribble;

static struct story_settings settings_of(uint64_t seed)
{
    struct story dice = {.random = seed};
    dice.random = story_random(&dice, UINT64_MAX); /* else neighbours have the same dice, shifted */
    struct story_settings t = {
        .seed = seed,
        .requests = 200 + story_random(&dice, 60),
        .clients = 1 + (uint32_t)story_random(&dice, STORY_CLIENTS_MAX),
        .workers = 1 + (uint32_t)story_random(&dice, STORY_WORKERS_MAX),
        .memory_mib = 64,
        .cancel = story_chance(&dice, 500) ? 60 : 0,
        .deadline = story_chance(&dice, 500) ? 150 : 0,
        .vanish = story_chance(&dice, 500) ? 15 : 0,
        .dribble = story_chance(&dice, 300) ? 400 : 0,
        .slow_read = story_chance(&dice, 300) ? 300 : 0,
        .many = story_chance(&dice, 150) ? 100 : 0,
        .graphs = story_chance(&dice, 500) ? 350 : 0,
        .queue_max = story_chance(&dice, 200) ? 6 : 0,
        .think_ns = story_chance(&dice, 500) ? 20000 : 200000,
    };
    t.abrupt = story_chance(&dice, 200);
    t.cards = story_chance(&dice, 300) ? 0 : story_chance(&dice, 200) ? 2 : 1;
    if (t.cards) t.think_ns *= story_chance(&dice, 500) ? 5 : 50; /* it starts in some 10 ms */
    t.vram_mib = story_chance(&dice, 300) ? 8 + (uint32_t)story_random(&dice, 8) : 64;
    t.device_faults = story_chance(&dice, 400) ? 500 : 0;
    t.card_troubles = story_chance(&dice, 400) ? 150 : 0;
    if (story_chance(&dice, 200)) {
        t.fault_nth = 1 + (uint32_t)story_random(&dice, 4000);
        t.memory_short = true;
    }
    if (story_chance(&dice, 250)) {
        t.memory_mib = 2 + story_random(&dice, 3);
        t.memory_short = true;
    }
    t.quota_mib = story_chance(&dice, 200) ? 1 + (uint32_t)story_random(&dice, 2) : 0;
    t.reloads = story_chance(&dice, 300);
    t.calibrates = story_chance(&dice, 20);
    if (t.calibrates) t.think_ns = PAUSE_NS;
    if (story_chance(&dice, 300)) t.ration = 3072u << story_random(&dice, 8);
    t.attractors = story_chance(&dice, 400) ? 350 : 0;
    if (story_chance(&dice, 300)) t.small_bytes = 4000 + (uint32_t)story_random(&dice, 30000);
    if (!scribble) return t;
    t.cards = 1;
    t.scribbles = 50;
    t.device_faults = t.card_troubles = 0;
    return t;
}

/* Returns the digest of the story. *fired: whether its fault was reached. */
static uint64_t tell(const struct story_settings *settings, struct totals *sum, bool *fired)
{
    struct story *s = story_open(settings);
    story_run(s);
    *fired = s->fault != NULL;
    if (sum) {
        sum->requests += s->sent;
        sum->answered += s->answered;
        sum->errors += s->errors;
        sum->vanished += s->vanished;
        sum->exhausted += s->by_code[STATUS_RESOURCE_EXHAUSTED];
        sum->on_card += s->by_backend[BACKEND_GPU];
        sum->on_both += s->by_backend[BACKEND_BOTH];
        sum->by_codes += s->by_codes;
        sum->similar += s->similar;
        sum->recalled += s->recalled;
        sum->bound += s->bound;
        sum->calibrated += story_calibrated(s);
        sum->completed += s->completed;
        sum->settled += s->settled;
        sum->learned += s->learned;
        sum->clustered += s->clustered;
        sum->told += s->told;
    }
    return story_close(s);
}

static void tell_once_or_twice(uint64_t seed, FILE *trace, struct totals *sum)
{
    struct story_settings settings = settings_of(seed);
    bool fired;
    settings.trace = trace;
    uint64_t hash = tell(&settings, sum, &fired);
    settings.trace = NULL;
    if (seed % TWICE_EVERY == 0 && tell(&settings, NULL, &fired) != hash) {
        fprintf(stderr, "seed %llu: told twice, it is two stories\n", (unsigned long long)seed);
        abort();
    }
}

static void tell_with_faults(uint64_t seed, FILE *trace, struct totals *sum)
{
    struct story_settings settings = settings_of(seed);
    bool fired = true;
    settings.trace = trace;
    settings.requests = FAULT_REQUESTS;
    settings.memory_short = true;
    settings.calibrates = false; /* test_calibrate fails its steps, in less time */
    for (settings.fault_nth = 1; fired; settings.fault_nth++)
        tell(&settings, sum, &fired);
}

/* What each process is given to tell. */
struct task {
    uint64_t end; /* the seed after the last */
    bool faults;
    FILE *trace;
};

/* Every PROCESSES-th seed from `first` on; the next one goes to the pipe before it is told. */
static void tell_all(uint64_t first, const struct task *t, int pipe_fd)
{
    struct totals sum = {0};
    for (uint64_t seed = first; seed < t->end; seed += PROCESSES) {
        if (t->faults)
            tell_with_faults(seed, t->trace, &sum);
        else
            tell_once_or_twice(seed, t->trace, &sum);
        sum.seeds++;
        if (write(pipe_fd, &sum, sizeof sum) != sizeof sum) abort();
    }
    if (t->trace) fflush(t->trace);
}

struct teller {
    pid_t pid;
    int fd;
    uint64_t first; /* of what it was given */
    struct totals said;
};

static void start(struct teller *t, uint64_t first, const struct task *task)
{
    int ends[2];
    *t = (struct teller){.first = first};
    if (pipe(ends)) abort();
    fflush(stdout);
    t->pid = fork();
    if (t->pid < 0) abort();
    if (t->pid == 0) {
        close(ends[0]);
        tell_all(first, task, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    t->fd = ends[0];
}

static void add(struct totals *sum, const struct totals *more)
{
    sum->seeds += more->seeds;
    sum->requests += more->requests;
    sum->answered += more->answered;
    sum->errors += more->errors;
    sum->vanished += more->vanished;
    sum->exhausted += more->exhausted;
    sum->on_card += more->on_card;
    sum->on_both += more->on_both;
    sum->by_codes += more->by_codes;
    sum->similar += more->similar;
    sum->recalled += more->recalled;
    sum->bound += more->bound;
    sum->calibrated += more->calibrated;
    sum->completed += more->completed;
    sum->settled += more->settled;
    sum->learned += more->learned;
    sum->clustered += more->clustered;
    sum->told += more->told;
}

/* True: it was through; false: the seed after those that it told went wrong. */
static bool finish(struct teller *t)
{
    struct totals said;
    int status;
    while (read(t->fd, &said, sizeof said) == sizeof said)
        t->said = said;
    close(t->fd);
    waitpid(t->pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- what is asked ---- */

static _Noreturn void tell_usage(FILE *to, int code)
{
    fputs("story_seeds [--first SEED] [--seeds COUNT] [--faults] [--scribble] [--trace]\n", to);
    exit(code);
}

static uint64_t number_of(const char *text)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-') tell_usage(stderr, EX_USAGE);
    return value;
}

struct asked {
    uint64_t first, seeds;
    bool faults, scribble, trace;
};

static struct asked read_options(int argc, char **argv)
{
    static const struct option options[] = {{"first", required_argument, NULL, 'f'},
                                            {"seeds", required_argument, NULL, 's'},
                                            {"faults", no_argument, NULL, 'F'},
                                            {"scribble", no_argument, NULL, 'S'},
                                            {"trace", no_argument, NULL, 't'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct asked a = {.first = 1, .seeds = 2000};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'f') a.first = number_of(optarg);
        if (c == 's') a.seeds = number_of(optarg);
        if (c == 'h') tell_usage(stdout, 0);
        if (c == '?') tell_usage(stderr, EX_USAGE);
        a.faults |= c == 'F';
        a.scribble |= c == 'S';
        a.trace |= c == 't';
    }
    if (optind < argc) tell_usage(stderr, EX_USAGE);
    return a;
}

int main(int argc, char **argv)
{
    struct asked asked = read_options(argc, argv);
    uint64_t first = asked.first, wrong = 0;
    struct task task = {
        .end = first + asked.seeds,
        .faults = asked.faults,
        .trace = asked.trace ? stdout : NULL,
    };
    scribble = asked.scribble;
    struct totals sum = {0};
    struct teller tellers[PROCESSES];
    for (uint32_t i = 0; i < PROCESSES; i++)
        start(&tellers[i], first + i, &task);
    for (uint32_t i = 0; i < PROCESSES; i++)
        while (!finish(&tellers[i])) {
            uint64_t bad = tellers[i].first + tellers[i].said.seeds * PROCESSES;
            add(&sum, &tellers[i].said);
            printf("seed %llu went wrong\n", (unsigned long long)bad);
            wrong++;
            sum.seeds++;
            start(&tellers[i], bad + PROCESSES, &task);
        }
    for (uint32_t i = 0; i < PROCESSES; i++)
        add(&sum, &tellers[i].said);
    printf(
        "answered %llu (%llu by cards, binds %llu of them and %llu kNN without the rows, %llu by "
        "CPU and card; %llu spreads "
        "by similarity, %llu recalls, %llu states completed, %llu by attractors that learned "
        "%llu patterns, %llu rows clustered or covered), told %llu times how far, refused %llu "
        "(%llu for want of "
        "room), given up %llu, %llu halves calibrated\n",
        (unsigned long long)sum.answered, (unsigned long long)sum.on_card,
        (unsigned long long)sum.bound, (unsigned long long)sum.by_codes,
        (unsigned long long)sum.on_both, (unsigned long long)sum.similar,
        (unsigned long long)sum.recalled, (unsigned long long)sum.completed,
        (unsigned long long)sum.settled, (unsigned long long)sum.learned,
        (unsigned long long)sum.clustered, (unsigned long long)sum.told,
        (unsigned long long)sum.errors, (unsigned long long)sum.exhausted,
        (unsigned long long)sum.vanished, (unsigned long long)sum.calibrated);
    printf("%llu seeds, %llu requests, %llu wrong\n", (unsigned long long)sum.seeds,
           (unsigned long long)sum.requests, (unsigned long long)wrong);
    return wrong != 0;
}
