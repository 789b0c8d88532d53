#include "client/cli/pages.h"

#include "client/cli/cli.h"

#include <ctype.h>
#include <string.h>

/* Text of --help: '-' and '\' mean something to troff, and so do '.' and ''' where a line begins;
 * \v and an empty line part paragraphs. */
static void put_text(FILE *out, const char *text)
{
    bool begins = true;
    for (; *text; text++) {
        if (*text == '\v' || (*text == '\n' && text[1] == '\n')) {
            fputs("\n.PP\n", out);
            while (text[1] == '\n')
                text++;
            begins = true;
            continue;
        }
        if (*text == '\n') {
            fputs("\n.br\n", out);
            begins = true;
            continue;
        }
        if (begins && (*text == '.' || *text == '\'')) fputs("\\&", out);
        begins = false;
        if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else
            fputc(*text, out);
    }
}

static void put_option(FILE *out, const struct argp_option *o)
{
    bool letter = o->key > 0 && o->key < 0x100 && isprint(o->key);
    fputs(".TP\n", out);
    if (letter) fprintf(out, "\\fB\\-%c\\fR", o->key);
    if (letter && o->name) fputs(", ", out);
    if (o->name) {
        fputs("\\fB", out);
        put_text(out, "--");
        put_text(out, o->name);
        fputs("\\fR", out);
    }
    if (o->arg) {
        bool optional = o->flags & OPTION_ARG_OPTIONAL;
        fputs(optional ? "[" : "", out);
        fputs(o->name ? "=\\fI" : " \\fI", out);
        put_text(out, o->arg);
        fputs(optional ? "\\fR]" : "\\fR", out);
    }
    fputc('\n', out);
    put_text(out, o->doc);
    fputc('\n', out);
}

static void put_options(FILE *out, const struct argp_option *o)
{
    for (; o->name || o->key; o++)
        if (!(o->flags & OPTION_HIDDEN)) put_option(out, o);
}

static void put_command(FILE *out, const struct command *c)
{
    const struct argp_option *lists[4];
    fputs(".SS ", out);
    put_text(out, c->name);
    if (*c->arguments) {
        fputs(" \\fI", out);
        put_text(out, c->arguments);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put_text(out, c->doc);
    fputc('\n', out);
    cli_options_of(c, lists);
    for (const struct argp_option **list = lists; *list; list++)
        put_options(out, *list);
}

void pages_print_man(FILE *out)
{
    static const struct argp_option own[] = {
        {"help", 'h', NULL, 0, "Help, also of each command.", 0},
        {"version", 'V', NULL, 0, "The version.", 0},
        {0},
    };
    fputs(".SH GLOBAL OPTIONS\nBefore or after the command.\n", out);
    put_options(out, cli_options);
    put_options(out, own);
    fputs(".SH COMMANDS\n", out);
    for (const struct command *const *c = cli_commands; *c; c++)
        put_command(out, *c);
    fputs(".SH EXIT STATUS\n", out);
    for (const struct cli_exit_text *e = cli_exit_codes; e->code; e++) {
        fprintf(out, ".TP\n.B %s\n", e->code);
        put_text(out, e->text);
        fputs(".\n", out);
    }
}
