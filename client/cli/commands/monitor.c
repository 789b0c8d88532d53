/* monitor: what the space's requests ran on and how long they took, one a line, as they end. */
#include "client/cli/commands/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_US   200000u
#define SLACK_NS  50000000u /* between two looks at one decision's age */
#define LAST_SEEN 4u        /* decisions by which the next look knows where the last one ended */

struct monitor {
    struct cli *cli;
    uint64_t last, count, shown; /* count 0: for ever */
    ea_explanation now;
    ea_decision seen[LAST_SEEN];
    uint32_t seen_count;
    uint64_t seen_at_ns;
};

static const struct argp_option monitor_options[] = {
    {"last", 'n', "N", 0, "Begin with the last N, 0 to 64 (default: 10)", 0},
    {"count", 'c', "N", 0, "End after N (default: go on until Ctrl-C)", 0},
    {0},
};

static error_t monitor_parse(int key, char *text, struct argp_state *state)
{
    struct monitor *m = state->input;
    switch (key) {
    case 'n': m->last = cli_argument_u64(state, "--last", text, 0, EA_DECISIONS_MAX); break;
    case 'c': m->count = cli_argument_u64(state, "--count", text, 1, UINT64_MAX); break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'", text); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static bool same(const ea_decision *a, const ea_decision *b, uint64_t later_ns)
{
    uint64_t due_ns = b->ago_ns + later_ns;
    uint64_t off_ns = a->ago_ns > due_ns ? a->ago_ns - due_ns : due_ns - a->ago_ns;
    return off_ns < SLACK_NS && a->took_ns == b->took_ns && a->queries == b->queries &&
           a->rows == b->rows && a->reason == b->reason && strcmp(a->name, b->name) == 0;
}

/* How many of the newest were not there at the last look. */
static uint32_t count_new(const struct monitor *m, uint64_t now_ns)
{
    uint64_t later_ns = now_ns - m->seen_at_ns;
    for (uint32_t i = 0; i < m->now.decision_count; i++)
        for (uint32_t s = 0; s < m->seen_count; s++)
            if (same(&m->now.decisions[i], &m->seen[s], later_ns)) return i > s ? i - s : 0;
    return m->now.decision_count;
}

static void print_time(char *out, size_t bytes, uint64_t ago_ns)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - ago_ns;
    time_t seconds = (time_t)(ns / 1000000000u);
    localtime_r(&seconds, &parts);
    size_t n = strftime(out, bytes, "%H:%M:%S", &parts);
    snprintf(out + n, bytes - n, ".%03u", (unsigned)(ns / 1000000u % 1000u));
}

static void print_one(struct monitor *m, const ea_decision *d)
{
    char when[32], on[16], shape[96] = "-";
    struct text a, b, took, predicted;
    bool gpu = d->backend == EA_BACKEND_GPU;
    uint64_t predicted_ns = gpu ? d->gpu_ns : d->cpu_ns;
    print_time(when, sizeof when, d->ago_ns);
    if (gpu)
        snprintf(on, sizeof on, "gpu%u", d->gpu);
    else
        snprintf(on, sizeof on, "cpu");
    if (m->cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_string(&j, "time", when);
        json_string(&j, "operation", d->name);
        json_string(&j, "on", on);
        json_string(&j, "reason", ea_reason_name(d->reason));
        json_u64(&j, "queries", d->queries);
        json_u64(&j, "rows", d->rows);
        json_u64(&j, "dimension", d->dimension);
        json_u64(&j, "requests", d->members ? d->members : 1);
        json_u64(&j, "took_ns", d->took_ns);
        json_u64(&j, "predicted_ns", predicted_ns);
        json_bool(&j, "well", d->well);
        json_end(&j);
        return;
    }
    if (d->queries)
        snprintf(shape, sizeof shape, "%s x %s x %u", format_count(&a, d->queries),
                 format_count(&b, d->rows), d->dimension);
    printf("%s  %-12s %-26s %-4s  %-20s %9s", when, d->name, shape, on, ea_reason_name(d->reason),
           format_ns(&took, d->took_ns));
    if (predicted_ns) printf("  of %s foreseen", format_ns(&predicted, predicted_ns));
    puts(d->well ? "" : "  FAILED");
}

static int look(struct monitor *m, bool first)
{
    ea_status status = ea_explain(m->cli->client, EA_DECISIONS_MAX, &m->now);
    if (status) return cli_failed(m->cli, status, "explain");
    uint64_t now_ns = clock_ns();
    uint32_t fresh = count_new(m, now_ns);
    if (first && fresh > m->last) fresh = (uint32_t)m->last;
    if (!first && fresh == EA_DECISIONS_MAX)
        cli_error(0, "more than %d since the last look: some are not shown", EA_DECISIONS_MAX);
    for (uint32_t i = fresh; i > 0; i--) {
        if (m->count && m->shown == m->count) break;
        print_one(m, &m->now.decisions[i - 1]);
        m->shown++;
    }
    fflush(stdout);
    m->seen_count = m->now.decision_count < LAST_SEEN ? m->now.decision_count : LAST_SEEN;
    memcpy(m->seen, m->now.decisions, m->seen_count * sizeof *m->seen);
    m->seen_at_ns = now_ns;
    return CLI_OK;
}

static int monitor_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct monitor *m = calloc(1, sizeof *m);
    if (!m) return cli_error(CLI_NO_MEMORY, "out of memory");
    m->cli = cli;
    m->last = 10;
    cli_parse(cli, self, m, argc, argv);
    int code = cli_connect(cli);
    if (!code) code = look(m, true);
    while (!code && !(m->count && m->shown == m->count)) {
        usleep(LOOK_US);
        code = look(m, false);
    }
    free(m);
    return code;
}

const struct command command_monitor = {"monitor",
                                        "what runs, one line each, as it ends",
                                        "",
                                        "Print each request of this space that a backend ran, as "
                                        "it ends: when, what, on what, why there, how "
                                        "long it took and what was foreseen. Requests that ran as "
                                        "one are one line. It looks five times a "
                                        "second, and says when it missed some.",
                                        monitor_options,
                                        monitor_parse,
                                        monitor_run};
