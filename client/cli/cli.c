#include "client/cli/cli.h"

#include "client/cli/failure.h"
#include "client/cli/output.h"
#include "client/cli/text/format.h"
#include "client/cli/text/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DEFAULT_SOCKET "/run/engram-accel/engram-accel.sock"

enum { ERROR_BYTES = 4352 }; /* a path, and why */

int cli_error(int code, const char *format, ...)
{
    va_list args;
    char message[2048];
    fflush(stdout);
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    utf8_tame(message); /* it may say what a file or a daemon holds */
    fprintf(stderr, "engram-accel: %s\n", message);
    failure_note(code, message);
    return code;
}

int cli_exit_of(ea_status status)
{
    if (status == EA_OK) return CLI_OK;
    if (status == EA_UNAVAILABLE) return CLI_UNREACHABLE;
    return status == EA_DEADLINE_EXCEEDED ? CLI_TIMEOUT : CLI_REFUSED;
}

/* What the library itself says when the kernel or the clock stopped it (proto/README.md). */
enum { DETAIL_DEADLINE = 31, DETAIL_SYSTEM = 35 };

static int exit_of_failure(const struct cli *cli, ea_status status)
{
    uint32_t detail = ea_error_detail(cli->client);
    if (status == EA_UNAVAILABLE && detail == DETAIL_DEADLINE) return CLI_TIMEOUT;
    /* Where an answer has the system's number, too, the connection still stands. */
    bool answered = detail && (detail != DETAIL_SYSTEM || ea_fd(cli->client) >= 0);
    if (status == EA_UNAVAILABLE && answered) return CLI_REFUSED;
    /* The socket's mode, not the daemon, said no. */
    if (status == EA_PERMISSION_DENIED && detail == DETAIL_SYSTEM) return CLI_UNREACHABLE;
    return cli_exit_of(status);
}

/* What could not be opened for want of memory says so in the system's words. */
static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

int cli_file_error(const char *error)
{
    bool memory = ends_with(error, "out of memory") || ends_with(error, strerror(ENOMEM));
    return cli_error(memory ? CLI_NO_MEMORY : CLI_FILE, "%s", error);
}

int cli_failed(struct cli *cli, ea_status status, const char *what)
{
    int code = exit_of_failure(cli, status);
    failure_note_status(cli->client, status);
    const char *text = ea_error_text(cli->client), *hint = "";
    char retry[64] = "";
    if (status == EA_PERMISSION_DENIED && code == CLI_UNREACHABLE)
        hint = " (you must be in the socket's group)";
    else if (code == CLI_UNREACHABLE)
        hint = cli->tcp ? " (is engram-acceld running and listening there? --tcp HOST:PORT)"
                        : " (is engram-acceld running? --socket PATH)";
    else if (code == CLI_TIMEOUT && cli->timeout_us)
        hint = " (--timeout SECONDS allows more)";
    else if (status == EA_UNAUTHENTICATED)
        hint = cli->token.count ? "" : " (--token-file FILE says one)";
    else if (ea_error_retryable(cli->client) && ea_error_retry_after_ms(cli->client))
        snprintf(retry, sizeof retry, " (try again in %u ms)",
                 ea_error_retry_after_ms(cli->client));
    if (!*text) text = ea_status_name(status);
    return cli_error(code, "%s%s%s%s%s", what ? what : "", what ? ": " : "", text, hint, retry);
}

ea_status cli_open(const struct cli *cli, ea_client **out)
{
    ea_options options = {.socket_path = cli->socket_path,
                          .tcp_host = cli->tcp ? cli->tcp_host : NULL,
                          .tcp_port = cli->tcp_port,
                          .space = cli->space,
                          .client_name = "engram-accel",
                          .token = cli->token.bytes,
                          .token_bytes = cli->token.count,
                          .timeout_us = cli->timeout_us ? cli->timeout_us : EA_NO_TIMEOUT};
    options.connect_timeout_us = cli->timeout_us;
    return ea_open(&options, out);
}

/* Fills in what was not said on the command line. error: why the token cannot be read. */
static bool find_daemon(struct cli *cli, char *error, size_t error_bytes)
{
    if (!cli->socket_path && !cli->tcp) {
        const char *from_environment = getenv("ENGRAM_ACCEL_SOCKET");
        cli->socket_path =
            from_environment && *from_environment ? from_environment : DEFAULT_SOCKET;
    }
    return cli_token_read(cli->token_file, &cli->token, error, error_bytes);
}

ea_status cli_try_connect(struct cli *cli)
{
    char error[ERROR_BYTES];
    if (cli->client) return EA_OK;
    if (!find_daemon(cli, error, sizeof error)) return EA_UNAUTHENTICATED;
    ea_status status = cli_open(cli, &cli->client);
    if (!status) status = ea_connect(cli->client);
    if (status) {
        ea_close(cli->client);
        cli->client = NULL;
    }
    return status;
}

int cli_connect(struct cli *cli)
{
    char error[ERROR_BYTES];
    if (cli->client) return CLI_OK;
    if (!find_daemon(cli, error, sizeof error)) return cli_file_error(error);
    ea_status status = cli_open(cli, &cli->client);
    if (status) {
        if (!cli->client)
            return cli_error(status == EA_INVALID_ARGUMENT ? CLI_USAGE : CLI_REFUSED,
                             "cannot open a client: %s (a path may have 107 bytes; a space has "
                             "3 to 64 of a-z 0-9 _ -)",
                             ea_status_name(status));
        return cli_failed(cli, status, NULL);
    }
    status = ea_connect(cli->client);
    return status ? cli_failed(cli, status, NULL) : CLI_OK;
}

int cli_info(struct cli *cli)
{
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_get_info(cli->client, &cli->info);
    return status ? cli_failed(cli, status, "info") : CLI_OK;
}

#define ASK_FROM 10000u /* rows, nodes, edges: what is quickly made again needs no question */

int cli_confirm_drop(const struct cli *cli, const char *name, uint64_t count, const char *what)
{
    struct text many;
    char answer[16] = "";
    if (cli->yes || count <= ASK_FROM || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return CLI_OK;
    fprintf(stderr, "engram-accel: %s has %s, which are gone then. Drop it? [y/N] ", name,
            format_many(&many, count, what));
    fflush(stderr);
    if (fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y')) return CLI_OK;
    return cli_error(CLI_REFUSED, "%s was not dropped (--yes drops without a question)", name);
}

uint64_t cli_fit(uint64_t budget, uint64_t fixed, uint64_t each, uint64_t most)
{
    uint64_t fit = budget > fixed && each ? (budget - fixed) / each : 0;
    if (fit > most) fit = most;
    return fit ? fit : 1;
}

bool cli_colour(void)
{
    const char *no_colour = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) == 1 && !(no_colour && *no_colour);
}

static bool csv; /* instead of tables */

void cli_print_csv(void)
{
    csv = true;
    format_exactly();
}

bool cli_prints_csv(void)
{
    return csv;
}

/* What stands above the next table; in CSV, in its first column. */
static struct {
    char word[16], number[24];
    uint64_t tables;
} head;

void cli_head(const char *word, const char *kind, uint64_t number, const char *name)
{
    snprintf(head.word, sizeof head.word, "%s", word);
    snprintf(head.number, sizeof head.number, "%" PRIu64, number);
    if (csv) return;
    printf("%s%s %s%s%s", head.tables ? "\n" : "", word, kind, head.number, name ? ": " : "");
    utf8_put(stdout, name ? name : "");
    putchar('\n');
    head.tables++;
}

void cli_table_print(struct table *t)
{
    struct winsize size = {0};
    if (csv) {
        table_print_csv(t, stdout, *head.word ? head.word : NULL, head.number, head.tables++ == 0);
        return;
    }
    bool known = isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    bool colour = cli_colour(); /* of the terminal, before a pager stands between */
    if (known && table_rows(t) + 1 >= size.ws_row) output_page();
    table_print(t, stdout, colour, known ? size.ws_col : 0);
}

void cli_print_dropped(const struct cli *cli, const char *name)
{
    if (!cli->json) {
        printf("dropped %s\n", name);
        return;
    }
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "dropped", name);
    json_end(&j);
}

uint64_t cli_argument_u64(struct argp_state *state, const char *what, const char *text,
                          uint64_t min, uint64_t max)
{
    uint64_t value = 0;
    if (!parse_u64(text, min, max, &value)) {
        if (max == UINT64_MAX)
            argp_error(state, "%s: '%s' is not a whole number from %llu up", what, text,
                       (unsigned long long)min);
        else
            argp_error(state, "%s: '%s' is not a whole number within %llu..%llu", what, text,
                       (unsigned long long)min, (unsigned long long)max);
    }
    return value;
}

double cli_argument_number(struct argp_state *state, const char *what, const char *text, double min,
                           double max)
{
    double value = 0;
    if (!parse_number(text, min, max, &value))
        argp_error(state, "%s: '%s' is not a number within %g..%g", what, text, min, max);
    return value;
}

static const struct {
    const char *name;
    ea_metric metric;
} metrics[] = {{"cosine", EA_COSINE}, {"dot", EA_DOT}, {"l2", EA_SQUARED_EUCLIDEAN}};

ea_metric cli_argument_metric(struct argp_state *state, const char *text)
{
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        if (strcmp(metrics[i].name, text) == 0) return metrics[i].metric;
    argp_error(state, "--metric: '%s' is not cosine, dot or l2", text);
    return EA_COSINE;
}

const char *cli_metric_name(ea_metric metric)
{
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        if (metrics[i].metric == metric) return metrics[i].name;
    return "?";
}
