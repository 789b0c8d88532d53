/* top: what the daemon does, on a screen that is redrawn: operations by what they take, backends,
 * memory. */
#include "client/cli/commands/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/sensors.h"
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define LINE_BYTES 512u

enum top_order { BY_TIME, BY_REQUESTS, BY_P99, BY_NAME };

struct top_row {
    const ea_operation_stats *now;
    double rate, errors; /* a second */
    double at_once;      /* requests in the daemon, waiting ones too, in the mean */
};

struct top {
    struct cli *cli;
    uint64_t frames, interval_ns; /* frames 0: until q */
    enum top_order order;
    bool live; /* standard output is a terminal */
    ea_stats now, before;
    uint64_t now_ns, before_ns;
    struct top_row rows[EA_OPERATIONS_MAX];
    unsigned row_count;
    unsigned width, height, line;
};

static struct termios kept; /* of the terminal; set back however this ends */
static bool changed;

static void set_back(void)
{
    static const char text[] = "\033[?25h\033[?1049l";
    if (!changed) return;
    changed = false;
    tcsetattr(STDIN_FILENO, TCSANOW, &kept);
    if (write(STDOUT_FILENO, text, sizeof text - 1) < 0) return;
}

static const struct argp_option top_options[] = {
    {"interval", 'i', "SECONDS", 0, "Between two looks, 0.1 to 3600 (default: 1)", 0},
    {"count", 'c', "N", 0, "End after N looks (default: until q; 1 where there is no terminal)", 0},
    {"sort", 's', "BY", 0, "time (the default), requests, p99 or name", 0},
    {0},
};

static error_t top_parse(int key, char *text, struct argp_state *state)
{
    static const char *const orders[] = {"time", "requests", "p99", "name"};
    struct top *t = state->input;
    switch (key) {
    case 'i':
        t->interval_ns =
            (uint64_t)(cli_argument_number(state, "--interval", text, 0.1, 3600) * 1e9);
        break;
    case 'c': t->frames = cli_argument_u64(state, "--count", text, 1, UINT64_MAX); break;
    case 's':
        for (unsigned i = 0; i < 4; i++)
            if (strcmp(orders[i], text) == 0) {
                t->order = (enum top_order)i;
                return 0;
            }
        argp_error(state, "--sort: '%s' is not time, requests, p99 or name", text);
        break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'", text); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- numbers ---- */

static enum top_order sorted_by; /* qsort has no room for it */

static int by_order(const void *a, const void *b)
{
    const struct top_row *x = a, *y = b;
    double left = 0, right = 0;
    switch (sorted_by) {
    case BY_TIME: left = x->at_once, right = y->at_once; break;
    case BY_REQUESTS: left = x->rate, right = y->rate; break;
    case BY_P99: left = (double)x->now->p99_ns, right = (double)y->now->p99_ns; break;
    case BY_NAME: break;
    }
    if (left != right) return left > right ? -1 : 1;
    return strcmp(x->now->name, y->now->name);
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0; /* the daemon may have been started anew */
}

static double seconds_of(const struct top *t)
{
    return t->before_ns ? (double)(t->now_ns - t->before_ns) / 1e9
                        : (double)t->now.uptime_ns / 1e9 + 1e-9;
}

static void count_rows(struct top *t)
{
    double seconds = seconds_of(t);
    t->row_count = 0;
    for (uint32_t i = 0; i < t->now.operation_count; i++) {
        const ea_operation_stats *now = &t->now.operations[i];
        ea_operation_stats before = {0};
        for (uint32_t b = 0; b < t->before.operation_count; b++)
            if (strcmp(t->before.operations[b].name, now->name) == 0)
                before = t->before.operations[b];
        if (!now->requests) continue;
        t->rows[t->row_count++] =
            (struct top_row){now, (double)less(now->requests, before.requests) / seconds,
                             (double)less(now->errors, before.errors) / seconds,
                             (double)less(now->total_ns, before.total_ns) / 1e9 / seconds};
    }
    sorted_by = t->order;
    qsort(t->rows, t->row_count, sizeof *t->rows, by_order);
}

/* ---- the screen ---- */

/* One line, cut to the screen; what is below it is not printed. */
static void put(struct top *t, bool strong, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put(struct top *t, bool strong, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    if (t->live && t->line + 1 > t->height) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t n = 0;
    for (unsigned shown = 0; line[n]; n++) {
        if (((unsigned char)line[n] & 0xc0) == 0x80) continue;
        if (shown++ == t->width) break;
    }
    line[n] = 0;
    strong = strong && cli_colour();
    if (t->live && t->line) fputs("\n", stdout);
    printf("%s%s%s%s", strong ? "\033[1m" : "", line, strong ? "\033[0m" : "",
           t->live ? "\033[K" : "\n");
    t->line++;
}

static void put_backends(struct top *t)
{
    struct text a, b;
    double seconds = seconds_of(t);
    const ea_stats *s = &t->now;
    struct text rows, edges;
    put(t, false, "memory %s of %s   rows %s   edges %s", format_bytes(&a, s->memory_bytes_used),
        format_bytes(&b, t->cli->info.memory_bytes_max), format_count(&rows, s->rows),
        format_count(&edges, s->graph_edges));
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const ea_gpu_stats *g = &s->gpus[i];
        uint64_t before = i < t->before.gpu_count ? t->before.gpus[i].run_ns : 0;
        put(t, false, "gpu %u %s   busy %.0f %%   VRAM %s of %s   in flight %" PRIu64, g->number,
            ea_gpu_state_name(g->state), 100 * (double)less(g->run_ns, before) / 1e9 / seconds,
            format_bytes(&a, g->replica_bytes + g->request_bytes),
            format_bytes(&b, g->budget_bytes), g->jobs_in_flight);
        struct sensors_text now, slowed;
        const char *by = sensors_slowed(&slowed, &g->sensors);
        if (*sensors_now(&now, &g->sensors))
            put(t, false, "      %s%s%s", now.c, *by ? "; slowed by " : "", by);
    }
}

static void draw(struct top *t)
{
    static const char *const orders[] = {"time", "requests", "p99", "name"};
    struct text a, b;
    const ea_stats *s = &t->now;
    double rate = (double)less(s->requests_total, t->before.requests_total) / seconds_of(t);
    t->line = 0;
    if (t->live) fputs("\033[H", stdout);
    put(t, true,
        "engram-acceld %s   up %s   %s/s   in line %" PRIu64 "   running %" PRIu64
        "   connections %" PRIu64,
        t->cli->info.server_version, format_ns(&a, s->uptime_ns), format_count(&b, (uint64_t)rate),
        s->queue_depth, s->jobs_in_flight, s->connections_open);
    put_backends(t);
    bool wide = t->width >= 70;
    if (wide)
        put(t, true, "%-20s %10s %9s %9s %9s %8s", "operation", "a second", "p50", "p99", "at once",
            "errors/s");
    else
        put(t, true, "%-12s %7s %8s %8s", "operation", "a second", "p50", "p99");
    unsigned room = t->live && t->height > t->line + 1 ? t->height - t->line - 1 : t->row_count;
    for (unsigned i = 0; i < t->row_count && i < room; i++) {
        const struct top_row *r = &t->rows[i];
        struct text p50, p99, many;
        format_ns(&p50, r->now->p50_ns);
        format_ns(&p99, r->now->p99_ns);
        /* µ is two bytes and one column. */
        int more50 = strchr(p50.c, '\xc2') != NULL, more99 = strchr(p99.c, '\xc2') != NULL;
        if (wide)
            put(t, false, "%-20s %10s %*s %*s %9.1f %8.1f", r->now->name,
                format_count(&many, (uint64_t)(r->rate + 0.5)), 9 + more50, p50.c, 9 + more99,
                p99.c, r->at_once, r->errors);
        else
            put(t, false, "%-12.12s %7s %*s %*s", r->now->name,
                format_count(&many, (uint64_t)(r->rate + 0.5)), 8 + more50, p50.c, 8 + more99,
                p99.c);
    }
    if (t->live) {
        while (t->line + 1 < t->height)
            put(t, false, "%s", "");
        put(t, false, "q quit   t r p n sort (%s)   + - %.1f s", orders[t->order],
            (double)t->interval_ns / 1e9);
        fputs("\033[J", stdout);
    }
    fflush(stdout);
}

static void measure(struct top *t)
{
    struct winsize size = {0};
    bool known =
        t->live && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;
    t->width = known ? size.ws_col : 100;
    t->height = known ? size.ws_row : 24;
}

/* ---- life ---- */

/* Waits for the next look; false: q was pressed. A resize is seen within a quarter of a second; a
 * key that sorts draws at once. */
static bool wait_for_keys(struct top *t)
{
    uint64_t end_ns = clock_ns() + t->interval_ns;
    while (clock_ns() < end_ns) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        unsigned width = t->width, height = t->height;
        uint64_t left_ns = end_ns - clock_ns();
        int wait_ms = left_ns > 250000000u ? 250 : (int)(left_ns / 1000000u) + 1;
        char key = 0;
        bool typed =
            poll(&input, t->live ? 1 : 0, wait_ms) == 1 && read(STDIN_FILENO, &key, 1) == 1;
        measure(t);
        if (typed && (key == 'q' || key == 'Q')) return false;
        if (typed && key == 't') t->order = BY_TIME;
        if (typed && key == 'r') t->order = BY_REQUESTS;
        if (typed && key == 'p') t->order = BY_P99;
        if (typed && key == 'n') t->order = BY_NAME;
        if (typed && key == '+' && t->interval_ns > 200000000u) t->interval_ns /= 2;
        if (typed && key == '-' && t->interval_ns < UINT64_C(60000000000)) t->interval_ns *= 2;
        if (typed || width != t->width || height != t->height) {
            count_rows(t);
            draw(t);
        }
    }
    return true;
}

static int look(struct top *t)
{
    t->before = t->now;
    t->before_ns = t->now_ns;
    ea_status status = ea_get_stats(t->cli->client, &t->now);
    t->now_ns = clock_ns();
    if (!status) return CLI_OK;
    set_back();
    return cli_failed(t->cli, status, "stats");
}

static void print_json(const struct top *t)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_double(&j, "seconds", seconds_of(t));
    json_u64(&j, "memory_bytes", t->now.memory_bytes_used);
    json_u64(&j, "in_line", t->now.queue_depth);
    json_u64(&j, "connections", t->now.connections_open);
    json_array(&j, "operations");
    for (unsigned i = 0; i < t->row_count; i++) {
        json_object(&j, NULL);
        json_string(&j, "name", t->rows[i].now->name);
        json_double(&j, "per_second", t->rows[i].rate);
        json_double(&j, "errors_per_second", t->rows[i].errors);
        json_double(&j, "at_once", t->rows[i].at_once);
        json_u64(&j, "p50_ns", t->rows[i].now->p50_ns);
        json_u64(&j, "p99_ns", t->rows[i].now->p99_ns);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
}

static void take_screen(struct top *t)
{
    struct termios raw;
    if (!t->live || tcgetattr(STDIN_FILENO, &kept) != 0) return;
    raw = kept;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    changed = true;
    atexit(set_back);
    interrupt_also(set_back);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    setvbuf(stdout, NULL, _IOFBF, 1u << 16);
    fputs("\033[?1049h\033[?25l\033[2J", stdout);
}

static int top_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct top *t = calloc(1, sizeof *t);
    if (!t) return cli_error(CLI_NO_MEMORY, "out of memory");
    t->cli = cli;
    t->interval_ns = 1000000000u;
    cli_parse(cli, self, t, argc, argv);
    t->live = !cli->json && isatty(STDOUT_FILENO) == 1 && isatty(STDIN_FILENO) == 1;
    if (!t->live && !t->frames) t->frames = 1;
    int code = cli_info(cli);
    if (!code) code = look(t);
    if (!code) take_screen(t);
    for (uint64_t frame = 0; !code; frame++) {
        measure(t);
        count_rows(t);
        if (cli->json)
            print_json(t);
        else
            draw(t);
        if (t->frames && frame + 1 == t->frames) break;
        if (!wait_for_keys(t)) break;
        code = look(t);
    }
    fflush(stdout);
    set_back();
    free(t);
    return code;
}

const struct command command_top = {
    "top",
    "what the daemon does now, on a live screen",
    "",
    "Show what the daemon does, redrawn every second: operations with their rates and times, "
    "backends, "
    "memory. Keys: q quits; t, r, p and n sort by time, requests, p99 and name; + and - look more "
    "or less "
    "often. The first look, and the only one where there is no terminal, is since the start.",
    top_options,
    top_parse,
    top_run};
