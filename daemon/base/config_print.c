/* config_print: the sample file, the help and the man page's section, from the table. */
#include <inttypes.h>
#include <string.h>

#include "daemon/base/config.h"
#include "daemon/base/config_table.h"

enum { HELP_COLUMN = 4, LINE_BYTES = 96 };

static const char spaces_help[] =
    "What single spaces are given instead of quotas.*: by name, any of host_mib, vram_mib, queue, "
    "connections and weight: {\"alpha\": {\"weight\": 4, \"host_mib\": 512}}. On the command line "
    "spaces.alpha.weight=4.";

/* Prints a default as in the file. Defaults contain nothing that JSON would have to escape. */
static void print_default(FILE *out, const struct config_key *k)
{
    switch (k->type) {
    case CONFIG_NUMBER32:
    case CONFIG_NUMBER64: fprintf(out, "%" PRIu64, k->number); break;
    case CONFIG_BOOLEAN: fputs(k->number ? "true" : "false", out); break;
    case CONFIG_MODE: fprintf(out, "\"%04" PRIo64 "\"", k->number); break;
    case CONFIG_CHOICE:
    case CONFIG_TEXT: fprintf(out, "\"%s\"", k->text); break;
    }
}

static bool same_section(const struct config_key *a, const struct config_key *b)
{
    size_t bytes = config_key_section(a);
    return bytes && bytes == config_key_section(b) && memcmp(a->name, b->name, bytes) == 0;
}

void config_print_sample(FILE *out)
{
    fputs("{\n", out);
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        size_t section = config_key_section(k);
        bool last = i + 1 == config_key_count;
        bool opens = section && (i == 0 || !same_section(k, k - 1));
        bool closes = section && (last || !same_section(k, k + 1));
        if (opens) fprintf(out, "    \"%.*s\": {\n", (int)section, k->name);
        const char *indent = section ? "        " : "    ";
        fprintf(out, "%s\"%s\": ", indent, section ? k->name + section + 1 : k->name);
        print_default(out, k);
        if (closes) fputs("\n    }", out);
        fputs(",\n", out);
    }
    fputs("    \"spaces\": {}\n}\n", out);
}

/* Prints "0 to 256", "true or false", "one of ...". */
static void print_range(FILE *out, const struct config_key *k)
{
    switch (k->type) {
    case CONFIG_NUMBER32:
    case CONFIG_NUMBER64: fprintf(out, "%" PRIu64 " to %" PRIu64, k->min, k->max); break;
    case CONFIG_BOOLEAN: fputs("true or false", out); break;
    case CONFIG_MODE: fprintf(out, "\"0000\" to \"%04" PRIo64 "\"", k->max); break;
    case CONFIG_CHOICE: fprintf(out, "one of: %s", k->choices); break;
    case CONFIG_TEXT: fprintf(out, "at most %" PRIu64 " bytes", k->max); break;
    }
    if (k->rule) fprintf(out, ", %s", k->rule);
}

static void print_wrapped(FILE *out, const char *text)
{
    size_t column = 0;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column == 0 || column + 1 + word > LINE_BYTES) {
            fprintf(out, "%s%*s", column ? "\n" : "", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

void config_print_help(FILE *out)
{
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        fprintf(out, "%s%s = ", i ? "\n" : "", k->name);
        print_default(out, k);
        fputs("  (", out);
        print_range(out, k);
        fputs(k->live ? "; may change live, by SIGHUP)\n" : ")\n", out);
        print_wrapped(out, k->help);
    }
    fprintf(out, "\nspaces = {}  (at most %d; may change live, by SIGHUP)\n", CONFIG_SPACES_MAX);
    print_wrapped(out, spaces_help);
}

/* In troff a hyphen is typography; \- is the character that can be typed. */
static void print_troff(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else
            fputc(*text, out);
    }
}

void config_print_man(FILE *out)
{
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        fputs(".TP\n.B ", out);
        print_troff(out, k->name);
        fputs("\nDefault ", out);
        print_default(out, k);
        fputs(", ", out);
        print_range(out, k);
        fputs(k->live ? "; may change live.\n" : ".\n", out);
        print_troff(out, k->help);
        fputc('\n', out);
    }
    fprintf(out, ".TP\n.B spaces\nDefault {}, at most %d; may change live.\n", CONFIG_SPACES_MAX);
    print_troff(out, spaces_help);
    fputc('\n', out);
}
