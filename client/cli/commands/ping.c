/* ping: checks that the daemon answers, once or many times. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"
#include "client/cli/text/latency.h"
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

struct ping_options {
    uint64_t count;
    uint64_t wait_ns; /* for the daemon to come */
};

static const struct argp_option ping_options[] = {
    {"count", 'c', "N", 0, "Ping N times, one after the other (default: 1)", 0},
    {"wait", 'w', "SECONDS", 0,
     "Wait so long for the daemon to be there, with all that it saved (default: do not)", 0},
    {0},
};

static error_t ping_parse(int key, char *text, struct argp_state *state)
{
    struct ping_options *o = state->input;
    if (key == 'w') {
        o->wait_ns = (uint64_t)(cli_argument_number(state, "--wait", text, 0, 4000000) * 1e9);
        return 0;
    }
    if (key != 'c') return ARGP_ERR_UNKNOWN;
    o->count = cli_argument_u64(state, "--count", text, 1, 1000000000);
    return 0;
}

static void ping_print(struct cli *cli, const struct latency *l)
{
    static const struct {
        const char *name;
        double fraction;
    } lines[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};
    struct text t;
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_u64(&j, "count", l->count);
        json_u64(&j, "min_ns", l->min_ns);
        json_u64(&j, "p50_ns", latency_percentile(l, 0.5));
        json_u64(&j, "p90_ns", latency_percentile(l, 0.9));
        json_u64(&j, "p99_ns", latency_percentile(l, 0.99));
        json_u64(&j, "max_ns", l->max_ns);
        json_end(&j);
    } else if (l->count == 1) {
        printf("reply in %s\n", format_ns(&t, l->max_ns));
    } else {
        printf("%" PRIu64 " replies: min %s", l->count, format_ns(&t, l->min_ns));
        for (unsigned i = 0; i < 3; i++)
            printf(", %s %s", lines[i].name,
                   format_ns(&t, latency_percentile(l, lines[i].fraction)));
        printf(", max %s\n", format_ns(&t, l->max_ns));
    }
}

#define AGAIN_US 20000u
#define SHOW_NS  UINT64_C(500000000)

/* Says on a terminal what is waited for. */
struct ping_wait {
    uint64_t start_ns, wait_ns;
    bool shown, drawn;
};

static bool time_is_up(const struct ping_wait *w)
{
    return clock_ns() - w->start_ns >= w->wait_ns;
}

static void rest(struct ping_wait *w, const char *what)
{
    struct text left;
    uint64_t now_ns = clock_ns();
    if (w->shown && now_ns - w->start_ns > SHOW_NS && !time_is_up(w)) {
        fprintf(stderr, "\rwaiting for %s, %s at most\033[K", what,
                format_ns(&left, w->start_ns + w->wait_ns - now_ns));
        w->drawn = true;
    }
    usleep(AGAIN_US);
}

/* Whether there is more to wait for: what was saved is still being loaded. */
static bool is_loading(struct cli *cli, char what[64])
{
    ea_info info;
    struct text a, b;
    if (ea_get_info(cli->client, &info) || info.ready) return false;
    snprintf(what, 64, "the daemon to load, %s of %s", format_bytes(&a, info.load_bytes_done),
             format_bytes(&b, info.load_bytes));
    return true;
}

/* Until somebody answers and has loaded everything, or the time is up: then the last try says
 * why. */
static int wait_for_daemon(struct cli *cli, uint64_t wait_ns)
{
    struct ping_wait w = {.start_ns = clock_ns(), .wait_ns = wait_ns};
    char what[64] = "a daemon";
    w.shown = isatty(STDERR_FILENO) == 1;
    while (!time_is_up(&w) && cli_try_connect(cli) == EA_UNAVAILABLE)
        rest(&w, what);
    int code = cli_connect(cli);
    while (!code && wait_ns && is_loading(cli, what) && !time_is_up(&w))
        rest(&w, what);
    bool loads = !code && wait_ns && is_loading(cli, what);
    if (w.drawn) fputs("\r\033[K", stderr);
    return loads ? cli_error(CLI_UNREACHABLE, "not ready: still waiting for %s", what) : code;
}

static int ping_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct ping_options o = {.count = 1};
    cli_parse(cli, self, &o, argc, argv);
    int code = wait_for_daemon(cli, o.wait_ns);
    if (code) return code;

    struct latency *l = calloc(1, sizeof *l);
    if (!l) return cli_error(CLI_NO_MEMORY, "out of memory");
    ea_status status = EA_OK;
    struct progress progress;
    progress_start(&progress, o.count, 64, clock_ns());
    for (uint64_t i = 0; i < o.count && !status; i++) {
        uint64_t start_ns = clock_ns(), end_ns;
        status = ea_ping(cli->client);
        end_ns = clock_ns();
        if (!status) latency_add(l, end_ns - start_ns);
        progress_show(&progress, i + 1, end_ns);
    }
    progress_finish(&progress);
    if (status)
        code = cli_failed(cli, status, "ping");
    else
        ping_print(cli, l);
    free(l);
    return code;
}

const struct command command_ping = {
    "ping",       "ask the daemon for a sign of life",
    "",           "Ask the daemon for a sign of life and print how long it took, connecting aside.",
    ping_options, ping_parse,
    ping_run};
