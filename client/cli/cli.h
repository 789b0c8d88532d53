/* cli: what every command shares: global options, the connection, messages and exit codes.
 * Owner:  main; one struct cli a process.
 * Thread: the main thread.
 * Errors: functions that give an int give an exit code, and have said why on standard error. */
#ifndef ENGRAM_CLI_CLI_H
#define ENGRAM_CLI_CLI_H

#include "client/cli/text/json.h"
#include "client/cli/text/table.h"
#include "client/cli/token.h"
#include "client/engram_accel.h"

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_REFUSED = 1, /* the daemon refused or failed the request */
    CLI_USAGE = 2,
    CLI_UNREACHABLE = 3, /* no daemon there, or the connection was lost */
    CLI_FILE = 4,        /* a file could not be read or written */
    CLI_TIMEOUT = 5,
    CLI_NO_MEMORY = 6, /* this process has none; what the daemon has no memory for is CLI_REFUSED */
    CLI_INTERRUPTED = 130
};

struct cli {
    const char *socket_path; /* NULL: ENGRAM_ACCEL_SOCKET or the library's default */
    const char *tcp;         /* as given; NULL: the Unix socket */
    char tcp_host[256];
    uint16_t tcp_port;
    const char *space;
    const char *token_file; /* NULL: ENGRAM_ACCEL_TOKEN_FILE, if it is set */
    struct cli_token token;
    bool json;
    uint64_t timeout_us; /* 0: none, for somebody sits there who can interrupt */
    bool yes;            /* --yes: a drop asks nobody */
    bool expects;        /* the next request that writes is on condition of this */
    ea_write expect;
    ea_client *client;
    ea_info info; /* after cli_info */
};

struct command {
    const char *name; /* "knn", or two words: "collection create" */
    const char *summary;
    const char *arguments; /* after the name, in the usage line */
    const char *doc;
    const struct argp_option *options; /* NULL: none */
    argp_parser_t parser;              /* its state->input is what run passes to cli_parse */
    int (*run)(struct cli *cli, const struct command *self, int argc, char **argv);
};

extern const struct command *const cli_commands[]; /* NULL ends it */
extern const struct argp_option cli_options[];     /* the global ones */
/* What else the command takes: --expect, --yes; at most 4 tables, NULL ends the list. */
void cli_options_of(const struct command *self, const struct argp_option **lists);

struct cli_exit_text {
    const char *code, *text;
};
extern const struct cli_exit_text cli_exit_codes[]; /* for help; {0} ends it */

/* All of main: finds the command, runs it, flushes standard output. */
int cli_main(int argc, char **argv);
/* The command that argv begins with. */
int cli_run(struct cli *cli, int argc, char **argv);
/* Parses a command's arguments; ends the process with CLI_USAGE when they are wrong. */
void cli_parse(struct cli *cli, const struct command *self, void *input, int argc, char **argv);
/* "engram-accel: ..." on standard error; gives `code`. */
int cli_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a reader or writer of files, which has left its error: one that ends with "out of
 * memory" gives CLI_NO_MEMORY, any other CLI_FILE. */
int cli_file_error(const char *error);
/* The same for a call of the client library that failed; `what` may be NULL. */
int cli_failed(struct cli *cli, ea_status status, const char *what);
int cli_exit_of(ea_status status);

/* Opens the handle and says Hello. Once; later calls give CLI_OK. */
int cli_connect(struct cli *cli);
/* The same, but says nothing when the daemon cannot be reached. */
ea_status cli_try_connect(struct cli *cli);
/* Before something is dropped that has so many of `what`: if there are many, it asks on a terminal.
 * Gives CLI_OK if that is what is wanted. */
int cli_confirm_drop(const struct cli *cli, const char *name, uint64_t count, const char *what);
/* What the next request that writes expects; NULL: nothing. Once it is done, cli->expects is to be
 * false. */
const ea_write *cli_expectation(const struct cli *cli);
/* Connects and fills cli->info, whose limits say how requests are to be split. */
int cli_info(struct cli *cli);
/* How many of something fit into one request: budgets over what each of them takes, at least 1. */
uint64_t cli_fit(uint64_t budget, uint64_t fixed, uint64_t each, uint64_t most);

/* A handle that is not cli->client, with the same options. */
ea_status cli_open(const struct cli *cli, ea_client **out);

bool cli_colour(void); /* standard output is a terminal and NO_COLOR is unset */
/* Prints what the next table is about: "query 3", "cue id 7: name" (kind "id "; name: or NULL). */
void cli_head(const char *word, const char *kind, uint64_t number, const char *name);
void cli_table_print(struct table *t);
/* From now on tables are CSV: one header, and what stands above a table in its first column. */
void cli_print_csv(void);
bool cli_prints_csv(void);
/* Says what a drop has done, for people or as JSON. */
void cli_print_dropped(const struct cli *cli, const char *name);

/* Parses text or ends through argp_error with a message that names the option. */
uint64_t cli_argument_u64(struct argp_state *state, const char *what, const char *text,
                          uint64_t min, uint64_t max);
double cli_argument_number(struct argp_state *state, const char *what, const char *text, double min,
                           double max);
ea_metric cli_argument_metric(struct argp_state *state, const char *text);
const char *cli_metric_name(ea_metric metric);

/* The command that was meant: the nearest name within a third of its letters, or NULL. Never one
 * that destroys. */
const char *cli_did_you_mean(const char *word);

#endif
