/* cli_main: from the command line to a command. */
#include "client/cli/cli.h"
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"
#include "client/cli/complete_words.h"
#include "client/cli/failure.h"
#include "client/cli/interrupt.h"
#include "client/cli/output.h"
#include "client/cli/pages.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

const struct command *const cli_commands[] = {
#define COMMAND(name) &command_##name,
    COMMANDS(COMMAND) NULL,
};

enum {
    OPTION_SOCKET = 0x400,
    OPTION_TCP,
    OPTION_SPACE,
    OPTION_TOKEN,
    OPTION_JSON,
    OPTION_TIMEOUT,
    OPTION_PRINT,
    OPTION_IDS
};

const struct argp_option cli_options[] = {
    {"socket", OPTION_SOCKET, "PATH", 0,
     "The daemon's Unix socket (default: $ENGRAM_ACCEL_SOCKET, else "
     "/run/engram-accel/engram-accel.sock)",
     0},
    {"tcp", OPTION_TCP, "HOST:PORT", 0, "Connect by TCP instead; [::1]:PORT for IPv6", 0},
    {"space", OPTION_SPACE, "NAME", 0, "The space to work in (default: default)", 0},
    {"token-file", OPTION_TOKEN, "FILE", 0,
     "File with the token that the daemon asks for (auth.token_file); nobody but its owner and its "
     "group may read it (default: $ENGRAM_ACCEL_TOKEN_FILE, else none)",
     0},
    {"json", OPTION_JSON, NULL, 0, "Print JSON instead of tables", 0},
    {"format", OPTION_PRINT, "table|csv|json", 0, "How to print (json: the same as --json)", 0},
    {"ids-as-strings", OPTION_IDS, NULL, 0,
     "In JSON, ids are strings: for readers that make doubles of all numbers", 0},
    {"timeout", OPTION_TIMEOUT, "SECONDS", 0,
     "Give up on a request after so long; fractions are fine (default: wait)", 0},
    {NULL, 'h', NULL, OPTION_HIDDEN, "The same as --help", 0},
    {0},
};

const struct cli_exit_text cli_exit_codes[] = {
    {"0", "done"},
    {"1", "the daemon refused or failed the request, or its question was answered with no"},
    {"2", "wrong usage"},
    {"3", "the daemon cannot be reached, or the connection was lost"},
    {"4", "a file could not be read or written (a full disk included)"},
    {"5", "timeout"},
    {"6", "out of memory, here; what the daemon has no memory for is 1"},
    {"130", "interrupted by Ctrl-C"},
    {"141", "whoever read standard output went away (as of 'head')"},
    {0},
};

static void print_version(FILE *out, struct argp_state *state)
{
    fprintf(out, "engram-accel %s (library %s)\n", ENGRAM_VERSION, ea_library_version());
}

/* graph load has a --format of its own, which is of its files. */
static void parse_print(struct cli *cli, struct argp_state *state, const char *text)
{
    if (strcmp(text, "json") == 0)
        cli->json = true;
    else if (strcmp(text, "csv") == 0)
        cli_print_csv();
    else if (strcmp(text, "table") != 0)
        argp_error(state, "--format: '%s' is not table, csv or json", text);
}

static error_t parse_global(int key, char *text, struct argp_state *state)
{
    struct cli *cli = state->input;
    switch (key) {
    case OPTION_SOCKET: cli->socket_path = text; break;
    case OPTION_TCP:
        cli->tcp = text;
        if (!parse_address(text, cli->tcp_host, sizeof cli->tcp_host, &cli->tcp_port))
            argp_error(state, "--tcp: '%s' is not HOST:PORT or [ADDRESS]:PORT", text);
        break;
    case 'h': argp_state_help(state, stdout, ARGP_HELP_STD_HELP); break;
    case OPTION_SPACE: cli->space = text; break;
    case OPTION_TOKEN: cli->token_file = text; break;
    case OPTION_JSON: cli->json = true; break;
    case OPTION_IDS: json_ids_are_strings(); break;
    case OPTION_PRINT: parse_print(cli, state, text); break;
    case OPTION_TIMEOUT:
        cli->timeout_us =
            (uint64_t)(cli_argument_number(state, "--timeout", text, 0.001, 4000000) * 1e6 + 0.5);
        break;
    case ARGP_KEY_END:
    case ARGP_KEY_NO_ARGS:
        if (cli->socket_path && cli->tcp) argp_error(state, "give --socket or --tcp, not both");
        return ARGP_ERR_UNKNOWN;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

enum { OPTION_EXPECT = 0x600, OPTION_YES };

static const struct argp_option write_options[] = {
    {"expect", OPTION_EXPECT, "exactly:V|at-least:V", 0,
     "Change nothing unless the version that is there is V, or V or a later one", 0},
    {0},
};

static error_t parse_expect(int key, char *text, struct argp_state *state)
{
    static const char exactly[] = "exactly:", at_least[] = "at-least:";
    struct cli *cli = state->input;
    if (key != OPTION_EXPECT) return ARGP_ERR_UNKNOWN;
    cli->expect.at_least = strncmp(text, at_least, strlen(at_least)) == 0;
    if (!cli->expect.at_least && strncmp(text, exactly, strlen(exactly)) != 0)
        argp_error(state, "--expect: '%s' is not exactly:V or at-least:V", text);
    cli->expect.version = cli_argument_u64(state, "--expect", strchr(text, ':') + 1, 1, UINT64_MAX);
    cli->expects = true;
    return 0;
}

static const struct argp_option drop_options[] = {
    {"yes", OPTION_YES, NULL, 0, "Ask nothing, however much is dropped", 0},
    {0},
};

static error_t parse_yes(int key, char *text, struct argp_state *state)
{
    struct cli *cli = state->input;
    (void)text;
    if (key != OPTION_YES) return ARGP_ERR_UNKNOWN;
    cli->yes = true;
    return 0;
}

static bool is_among(const struct command *self, const struct command *const *list)
{
    for (; *list; list++)
        if (*list == self) return true;
    return false;
}

#define COMMAND(name) &command_##name,
static const struct command *const writing[] = {WRITING_COMMANDS(COMMAND) NULL};
static const struct command *const dropping[] = {DROPPING_COMMANDS(COMMAND) NULL};
static const struct command *const destroying[] = {DESTROYING_COMMANDS(COMMAND) NULL};
static const struct command *const tables[] = {TABLE_COMMANDS(COMMAND) NULL};
#undef COMMAND

void cli_options_of(const struct command *self, const struct argp_option **lists)
{
    if (self->options) *lists++ = self->options;
    if (is_among(self, writing)) *lists++ = write_options;
    if (is_among(self, dropping)) *lists++ = drop_options;
    *lists = NULL;
}

const ea_write *cli_expectation(const struct cli *cli)
{
    return cli->expects ? &cli->expect : NULL;
}

/* The root of a command's parsers: it only hands each child its input. */
struct inputs {
    void *command;
    struct cli *cli;
    const struct command *self;
};

static error_t parse_root(int key, char *text, struct argp_state *state)
{
    struct inputs *inputs = state->input;
    if (key == ARGP_KEY_END && cli_prints_csv() && !is_among(inputs->self, tables))
        argp_error(state, "--format csv: this command prints no table");
    if (key != ARGP_KEY_INIT) return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = inputs->command;
    for (unsigned i = 1; i < 4; i++)
        state->child_inputs[i] = inputs->cli;
    return 0;
}

void cli_parse(struct cli *cli, const struct command *self, void *input, int argc, char **argv)
{
    struct argp own = {.options = self->options, .parser = self->parser};
    struct argp global = {.options = cli_options, .parser = parse_global};
    struct argp none = {0};
    struct argp expect = {.options = write_options, .parser = parse_expect};
    struct argp yes = {.options = drop_options, .parser = parse_yes};
    bool takes_expect = is_among(self, writing), takes_yes = is_among(self, dropping);
    bool titled = self->options || takes_expect;
    struct argp_child children[] = {{&own, 0, titled ? "Options:" : NULL, 1},
                                    {takes_expect ? &expect : &none, 0, NULL, 1},
                                    {takes_yes ? &yes : &none, 0, NULL, 1},
                                    {&global, 0, "Global options:", 2},
                                    {0}};
    struct argp root = {
        .parser = parse_root, .args_doc = self->arguments, .doc = self->doc, .children = children};
    struct inputs inputs = {input, cli, self};
    char name[64];
    snprintf(name, sizeof name, "engram-accel %s", self->name);
    argv[0] = name;
    failure_usage_begin();
    error_t error = argp_parse(&root, argc, argv, 0, NULL, &inputs);
    failure_usage_end();
    if (error) exit(cli_error(CLI_USAGE, "%s: %s", self->name, strerror(error)));
}

/* Letters to insert, delete or replace to get from a to b, of which only 31 are looked at. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[32], columns = (unsigned)strnlen(b, 31);
    for (unsigned j = 0; j <= columns; j++)
        row[j] = j;
    for (unsigned i = 0; a[i] && i < 31; i++) {
        unsigned diagonal = row[0];
        row[0] = i + 1;
        for (unsigned j = 0; j < columns; j++) {
            unsigned replaced = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            unsigned best = replaced < row[j] + 1 ? replaced : row[j] + 1;
            row[j + 1] = best < diagonal + 1 ? best : diagonal + 1;
        }
    }
    return row[columns];
}

const char *cli_did_you_mean(const char *word)
{
    const char *best = NULL;
    unsigned least = 3;
    for (const struct command *const *c = cli_commands; *c; c++) {
        if (is_among(*c, destroying)) continue;
        const char *space = strchr((*c)->name, ' ');
        char first[32];
        snprintf(first, sizeof first, "%.*s",
                 space ? (int)(space - (*c)->name) : (int)strlen((*c)->name), (*c)->name);
        unsigned d = distance(word, first), second = space ? distance(word, space + 1) : 99;
        if (second < d) d = second; /* "craete" for "collection create" */
        size_t prefix = strlen(word);
        if (prefix >= 3 && strncmp(first, word, prefix) == 0) d = 0;
        if (d < least) {
            least = d;
            best = (*c)->name;
        }
    }
    return best;
}

/* How many words of argv name the command: 0 is no match. */
static int words_matched(const struct command *c, int argc, char **argv)
{
    const char *space = strchr(c->name, ' ');
    if (!space) return strcmp(c->name, argv[0]) == 0;
    size_t first = (size_t)(space - c->name);
    if (strlen(argv[0]) != first || strncmp(argv[0], c->name, first) != 0) return 0;
    return argc > 1 && strcmp(space + 1, argv[1]) == 0 ? 2 : 0;
}

static void print_commands(FILE *out, const char *only)
{
    for (const struct command *const *c = cli_commands; *c; c++)
        if (!only || strncmp((*c)->name, only, strlen(only)) == 0)
            fprintf(out, "  %-20s %s\n", (*c)->name, (*c)->summary);
}

static int unknown_command(int argc, char **argv)
{
    static const char *const nouns[] = {"collection ", "graph ", "hrr ", "attractor "};
    const char *noun = NULL;
    for (size_t i = 0; i < sizeof nouns / sizeof *nouns; i++)
        if (strncmp(nouns[i], argv[0], strlen(nouns[i]) - 1) == 0 && !argv[0][strlen(nouns[i]) - 1])
            noun = nouns[i];
    if (noun) {
        bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
                                 strcmp(argv[1], "-?") == 0);
        FILE *out = help ? stdout : stderr;
        if (argc > 1 && !help)
            cli_error(0, "unknown command '%s %s'; the commands are", argv[0], argv[1]);
        else if (!help)
            cli_error(0, "%s: one of these is needed", argv[0]);
        print_commands(out, noun);
        return help ? CLI_OK : CLI_USAGE;
    }
    const char *meant = cli_did_you_mean(argv[0]);
    cli_error(0, "unknown command '%s'%s%s%s; the commands are", argv[0],
              meant ? ", did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
    print_commands(stderr, NULL);
    return CLI_USAGE;
}

int cli_run(struct cli *cli, int argc, char **argv)
{
    for (const struct command *const *c = cli_commands; *c; c++) {
        int words = words_matched(*c, argc, argv);
        if (words) return (*c)->run(cli, *c, argc - words + 1, argv + words - 1);
    }
    return unknown_command(argc, argv);
}

static error_t parse_top(int key, char *text, struct argp_state *state)
{
    int *command_at = ((struct inputs *)state->input)->command;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = ((struct inputs *)state->input)->cli; return 0;
    case ARGP_KEY_ARG:
        *command_at = state->next - 1;
        state->next = state->argc; /* the rest is the command's */
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "a command is needed"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* The list of commands, from the table, in front of what --help says anyway. */
static char *top_doc(void)
{
    char *doc = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&doc, &bytes);
    if (!out) return NULL;
    fputs("Exact similarity, nearest neighbours and spreading, asked of "
          "engram-acceld.\n\nCommands:\n",
          out);
    print_commands(out, NULL);
    fputs("\n'engram-accel help COMMAND' says more.\n\vResults go to standard output, everything "
          "else to standard error.\n\nExit codes:\n",
          out);
    for (const struct cli_exit_text *e = cli_exit_codes; e->code; e++)
        fprintf(out, "  %-4s %s\n", e->code, e->text);
    fputs("\nEnvironment: ENGRAM_ACCEL_SOCKET is the default of --socket, ENGRAM_ACCEL_TOKEN_FILE "
          "that of --token-file; NO_COLOR, if set, turns bold headers off.",
          out);
    return fclose(out) == 0 ? doc : NULL;
}

int cli_main(int argc, char **argv)
{
    struct cli cli = {0};
    int command_at = 0;
    struct argp_child children[] = {
        {&(struct argp){.options = cli_options, .parser = parse_global}, 0, "Global options:", 1},
        {0}};
    struct argp top = {
        .parser = parse_top, .args_doc = "COMMAND [ARGUMENT...]", .children = children};
    struct inputs inputs = {&command_at, &cli, NULL};

    argp_err_exit_status = CLI_USAGE;
    argp_program_version_hook = print_version;
    interrupt_install();
    output_install(CLI_FILE);
    failure_install(argc, argv);
    setlocale(LC_CTYPE, "C.UTF-8"); /* what is printed is UTF-8, whatever the user's is */
    if (argc > 1 && strcmp(argv[1], "__complete") == 0) return complete_words(argc - 2, argv + 2);
    if (argc == 2 && strcmp(argv[1], "--print-man") == 0) {
        pages_print_man(stdout);
        return output_finish(CLI_OK);
    }
    char *doc = top_doc();
    top.doc = doc;
    failure_usage_begin();
    error_t error = argp_parse(&top, argc, argv, ARGP_IN_ORDER, NULL, &inputs);
    failure_usage_end();
    int code = error ? cli_error(CLI_USAGE, "%s", strerror(error))
                     : cli_run(&cli, argc - command_at, argv + command_at);
    ea_close(cli.client);
    free(doc);
    failure_print(code);
    return output_finish(code);
}
