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
    {"wait", 'w', "SECONDS", 0, "Wait so long for the daemon to be there (default: do not)", 0},
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

/* Until somebody answers, or the time is up: then the last try says why. */
static int wait_for_daemon(struct cli *cli, uint64_t wait_ns)
{
    struct text left;
    bool shown = isatty(STDERR_FILENO) == 1, drawn = false;
    uint64_t start_ns = clock_ns(), now_ns;
    while ((now_ns = clock_ns()) - start_ns < wait_ns) {
        ea_status status = cli_try_connect(cli);
        if (!status || status != EA_UNAVAILABLE) break;
        if (shown && now_ns - start_ns > SHOW_NS) {
            fprintf(stderr, "\rwaiting for a daemon, %s at most\033[K",
                    format_ns(&left, start_ns + wait_ns - now_ns));
            drawn = true;
        }
        usleep(AGAIN_US);
    }
    if (drawn) fputs("\r\033[K", stderr);
    return cli_connect(cli);
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
