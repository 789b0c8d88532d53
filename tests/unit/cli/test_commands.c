/* The table of commands: what is there, what is suggested, and that the documents name it all. */
#include "client/cli/cli.h"
#include "client/cli/pages.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(commands, did_you_mean)
{
    cr_assert_str_eq(cli_did_you_mean("knm"), "knn");
    cr_assert_str_eq(cli_did_you_mean("pnig"), "ping");
    cr_assert_str_eq(cli_did_you_mean("sim"), "similarity");
    cr_assert_str_eq(cli_did_you_mean("colection"), "collection create");
    cr_assert_str_eq(cli_did_you_mean("create"), "collection create");
    cr_assert_null(cli_did_you_mean("frobnicate"));
    cr_assert_null(cli_did_you_mean("a-very-long-word-that-is-longer-than-any-command-there-is"));
}

/* A hint is typed without a second look. */
Test(commands, hints_never_destroy)
{
    static const char *const words[] = {"drop",   "dorp",  "top",   "delete", "delet",
                                        "remove", "remov", "prune", "prun",   "rop"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *meant = cli_did_you_mean(words[i]);
        if (!meant) continue;
        cr_assert(!strstr(meant, "drop") && !strstr(meant, "delete") && !strstr(meant, "remove") &&
                      !strstr(meant, "prune"),
                  "%s: %s", words[i], meant);
    }
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

static void spell(char *out, size_t bytes, const struct argp_option *o)
{
    if (o->name)
        snprintf(out, bytes, "--%s", o->name);
    else
        snprintf(out, bytes, "-%c", o->key);
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

static void check_options(const char *part, const char *of, const struct argp_option *o)
{
    char option[80];
    for (; o && (o->name || o->key); o++) {
        if (o->flags & OPTION_HIDDEN) continue;
        spell(option, sizeof option, o);
        cr_assert(strstr(part, option), "%s: %s is not described", of, option);
    }
}

/* The manual page is printed from the table; the book is not. */
Test(commands, are_all_documented)
{
    char *book = read_text("docs/cli.md");
    if (!book) cr_skip_test("run from the top of the repository, where docs/ is");
    char heading[80];
    const struct argp_option *lists[4];
    for (const struct command *const *c = cli_commands; *c; c++) {
        snprintf(heading, sizeof heading, "\n### %s\n", (*c)->name);
        char *part = section(book, heading, "\n##");
        check_options(part, heading, (*c)->options);
        free(part);
        cli_options_of(*c, lists);
        for (const struct argp_option **list = lists; *list; list++)
            check_options(book, heading, *list);
    }
    check_options(book, "the book", cli_options);
    for (const struct cli_exit_text *e = cli_exit_codes; e->code; e++) {
        snprintf(heading, sizeof heading, "\n| %s | ", e->code);
        cr_assert(strstr(book, heading), "exit code %s is not described", e->code);
    }
    free(book);
}

Test(commands, manual_page_has_the_table)
{
    char *page = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&page, &bytes);
    pages_print_man(out);
    fclose(out);
    cr_assert(strstr(page, ".SS collection create \\fINAME\\fR\n"));
    cr_assert(strstr(page, ".TP\n\\fB\\-d\\fR, \\fB\\-\\-dim\\fR=\\fID\\fR\n"));
    cr_assert(strstr(page, "\\fB\\-\\-expect\\fR") && strstr(page, "\\fB\\-\\-yes\\fR"));
    cr_assert(strstr(page, ".TP\n.B 141\n"));
    for (const char *line = page; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        cr_assert(line[0] != '.' || strncmp(line, ".TP\n", 4) == 0 || strncmp(line, ".S", 2) == 0 ||
                      strncmp(line, ".PP\n", 4) == 0 || strncmp(line, ".B ", 3) == 0 ||
                      strncmp(line, ".br\n", 4) == 0,
                  "no text may look like a request of troff: %.40s", line);
    }
    free(page);
}
