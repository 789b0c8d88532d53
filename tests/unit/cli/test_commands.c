/* The table of commands: what is there, what is suggested, and that the documents name it all. */
#include "client/cli/cli.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(commands, did_you_mean)
{
    cr_assert_str_eq(cli_did_you_mean("knm"), "knn");
    cr_assert_str_eq(cli_did_you_mean("pnig"), "ping");
    cr_assert_str_eq(cli_did_you_mean("sim"), "similarity");
    cr_assert_str_eq(cli_did_you_mean("colection"), "collection create");
    cr_assert_str_eq(cli_did_you_mean("drop"), "collection drop");
    cr_assert_null(cli_did_you_mean("frobnicate"));
    cr_assert_null(cli_did_you_mean("a-very-long-word-that-is-longer-than-any-command-there-is"));
}

Test(commands, exit_codes)
{
    cr_assert_eq(cli_exit_of(EA_OK), 0);
    cr_assert_eq(cli_exit_of(EA_NOT_FOUND), 1);
    cr_assert_eq(cli_exit_of(EA_UNAVAILABLE), 3);
    cr_assert_eq(cli_exit_of(EA_DEADLINE_EXCEEDED), 5);
}

Test(commands, requests_fit_the_limits)
{
    cr_assert_eq(cli_fit(100, 20, 8, 1000), 10);
    cr_assert_eq(cli_fit(100, 20, 8, 5), 5);
    cr_assert_eq(cli_fit(10, 20, 8, 5), 1); /* too small for one: let the daemon say so */
    cr_assert_eq(cli_fit(100, 20, 0, 5), 1);
}

Test(commands, metrics_have_names)
{
    cr_assert_str_eq(cli_metric_name(EA_SQUARED_EUCLIDEAN), "l2");
    cr_assert_str_eq(cli_metric_name((ea_metric)9), "?");
}

static char *read_text(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in) return NULL;
    char *text = calloc(1, 1 << 20);
    cr_assert(fread(text, 1, (1 << 20) - 1, in) > 0);
    fclose(in);
    return text;
}

/* "--query-id" as troff has it, "\-\-query\-id", or as it is. */
static void spell(char *out, size_t bytes, const struct argp_option *o, bool troff)
{
    char plain[64];
    if (o->name)
        snprintf(plain, sizeof plain, "--%s", o->name);
    else
        snprintf(plain, sizeof plain, "-%c", o->key);
    size_t n = 0;
    for (const char *c = plain; *c && n + 3 < bytes; c++) {
        if (troff && *c == '-') out[n++] = '\\';
        out[n++] = *c;
    }
    out[n] = 0;
}

/* The part of a document that is about one command. */
static char *section(const char *text, const char *start, const char *next)
{
    const char *from = strstr(text, start);
    cr_assert(from, "'%s' is not described", start);
    from += strlen(start);
    const char *to = strstr(from, next);
    return to ? strndup(from, (size_t)(to - from)) : strdup(from);
}

static void check_options(const char *part, const char *of, const struct argp_option *o, bool troff)
{
    char option[80];
    for (; o && (o->name || o->key); o++) {
        spell(option, sizeof option, o, troff);
        cr_assert(strstr(part, option), "%s: %s is not described", of, option);
    }
}

Test(commands, are_all_documented)
{
    char *page = read_text("docs/engram-accel.1"), *book = read_text("docs/cli.md");
    if (!page || !book) cr_skip_test("run from the top of the repository, where docs/ is");
    char heading[80];
    for (const struct command *const *c = cli_commands; *c; c++) {
        snprintf(heading, sizeof heading, ".SS %s\n", (*c)->name);
        char *part = section(page, heading, "\n.S");
        check_options(part, heading, (*c)->options, true);
        free(part);
        snprintf(heading, sizeof heading, "\n### %s\n", (*c)->name);
        part = section(book, heading, "\n##");
        check_options(part, heading, (*c)->options, false);
        free(part);
    }
    check_options(page, "the page", cli_options, true);
    check_options(book, "the book", cli_options, false);
    free(page);
    free(book);
}
