#include "client/cli/complete_words.h"

#include "client/cli/cli.h"
#include "client/cli/output.h"
#include "client/cli/text/format.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define ASK_US 500000u /* a shell waits for it */

struct typed {
    struct cli cli;
    const struct command *command;
    const char *noun;               /* "graph", while its verb is not there yet */
    unsigned arguments;             /* behind the command */
    const struct argp_option *open; /* its value comes next */
    const char *last;
    const char *before; /* what stands before the value: "--metric=", else "" */
};

static void offer(const struct typed *t, const char *word, const char *what)
{
    size_t skip = strlen(t->before);
    if (strncmp(word, t->last + skip, strlen(t->last + skip)) != 0) return;
    printf("%s%s%s%s\n", t->before, word, *what ? "\t" : "", what);
}

/* ---- what was typed ---- */

static const struct argp_option *named(const struct argp_option *o, const char *name, size_t bytes)
{
    for (; o && (o->name || o->key); o++)
        if (o->name && strlen(o->name) == bytes && strncmp(o->name, name, bytes) == 0) return o;
    return NULL;
}

static const struct argp_option *lettered(const struct argp_option *o, int letter)
{
    for (; o && (o->name || o->key); o++)
        if (o->key == letter) return o;
    return NULL;
}

/* The option that a word is, "--name", "--name=value" or "-n". */
static const struct argp_option *option_of(const struct typed *t, const char *word)
{
    const struct argp_option *lists[5] = {cli_options}, *found = NULL;
    if (t->command) cli_options_of(t->command, lists + 1);
    bool is_long = strncmp(word, "--", 2) == 0;
    for (const struct argp_option **list = lists; *list && !found; list++)
        found = is_long ? named(*list, word + 2, strcspn(word + 2, "="))
                        : (word[1] && !word[2] ? lettered(*list, word[1]) : NULL);
    return found;
}

static void set_global(struct typed *t, const struct argp_option *o, const char *value)
{
    if (!o->name) return;
    if (strcmp(o->name, "socket") == 0) t->cli.socket_path = value;
    if (strcmp(o->name, "space") == 0) t->cli.space = value;
    if (strcmp(o->name, "token-file") == 0) t->cli.token_file = value;
    if (strcmp(o->name, "tcp") == 0 &&
        parse_address(value, t->cli.tcp_host, sizeof t->cli.tcp_host, &t->cli.tcp_port))
        t->cli.tcp = value;
}

static void take_word(struct typed *t, const char *word)
{
    char two[64];
    if (t->command) {
        t->arguments++;
        return;
    }
    snprintf(two, sizeof two, "%s%s%s", t->noun ? t->noun : "", t->noun ? " " : "", word);
    for (const struct command *const *c = cli_commands; *c && !t->command; c++)
        if (strcmp((*c)->name, two) == 0) t->command = *c;
    if (!t->command && !t->noun) t->noun = word;
    if (t->command && strcmp(two, "help") == 0) {
        t->command = NULL; /* what help is asked about is completed as a command */
        t->noun = NULL;
    }
}

static void take(struct typed *t, const char *word)
{
    const char *equals = strchr(word, '=');
    if (t->open) {
        set_global(t, t->open, word);
        t->open = NULL;
    } else if (*word != '-' || !word[1]) {
        take_word(t, word);
    } else {
        const struct argp_option *o = option_of(t, word);
        if (o && equals) set_global(t, o, equals + 1);
        if (o && o->arg && !(o->flags & OPTION_ARG_OPTIONAL) && !equals) t->open = o;
    }
}

/* ---- what may follow ---- */

static bool reach(struct typed *t)
{
    if (!t->cli.timeout_us) t->cli.timeout_us = ASK_US;
    return cli_try_connect(&t->cli) == EA_OK;
}

static void offer_collections(struct typed *t)
{
    ea_collection_info *list = NULL;
    size_t count = 0;
    if (!reach(t) || ea_collection_list(t->cli.client, &list, &count)) return;
    for (size_t i = 0; i < count; i++)
        offer(t, list[i].name, "collection");
    ea_collection_list_free(list);
}

static void offer_graphs(struct typed *t)
{
    ea_graph_info *list = NULL;
    size_t count = 0;
    if (!reach(t) || ea_graph_list(t->cli.client, &list, &count)) return;
    for (size_t i = 0; i < count; i++)
        offer(t, list[i].name, "graph");
    ea_graph_list_free(list);
}

static void offer_attractors(struct typed *t)
{
    ea_attractor_info *list = NULL;
    size_t count = 0;
    if (!reach(t) || ea_attractor_list(t->cli.client, &list, &count)) return;
    for (size_t i = 0; i < count; i++)
        offer(t, list[i].name, "attractor");
    ea_attractor_list_free(list);
}

static void offer_settings(struct typed *t, bool live)
{
    ea_setting *list = NULL;
    size_t count = 0;
    if (!reach(t) || ea_config_get(t->cli.client, &list, &count)) return;
    for (size_t i = 0; i < count; i++)
        if (list[i].live || !live) offer(t, list[i].name, list[i].value);
    ea_settings_free(list);
}

/* Words of a fixed set, by the placeholder or the name of the option. */
static const struct {
    const char *of, *words[6];
} sets[] = {
    {"METRIC", {"cosine", "dot", "l2"}},
    {"MODE", {"engram", "linear"}},
    {"EFFECT", {"none", "sqrt", "divide"}},
    {"SHELL", {"bash", "zsh", "fish"}},
    {"LAW", {"exponential:", "power:", "linear:", "table:", "constant"}},
    {"operation", {"ping", "knn", "score", "similarity"}},
    {"exactly:V|at-least:V", {"exactly:", "at-least:"}},
};

static bool offer_set(const struct typed *t, const char *of)
{
    for (size_t i = 0; of && i < sizeof sets / sizeof *sets; i++) {
        if (strcmp(sets[i].of, of) != 0) continue;
        for (unsigned w = 0; w < 6 && sets[i].words[w]; w++)
            offer(t, sets[i].words[w], "");
        return true;
    }
    return false;
}

static bool is_file(const char *placeholder)
{
    static const char *const files[] = {"FILE", "PATH",     "PREFIX", ".npy", "CUES",
                                        "MASK", "PATTERNS", "BOUND",  "KEY",  "DIR"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strstr(placeholder, files[i])) return true;
    return strcmp(placeholder, "A") == 0 || strcmp(placeholder, "B") == 0;
}

static void offer_value(struct typed *t, const struct argp_option *o)
{
    if (offer_set(t, o->arg) || offer_set(t, o->name)) return;
    bool name = strcmp(o->arg, "NAME") == 0 && o->name && strcmp(o->name, "space") != 0;
    if (name && strcmp(o->name, "attractor") == 0)
        offer_attractors(t);
    else if (name || strcmp(o->arg, "COLLECTION") == 0)
        offer_collections(t);
    else if (is_file(o->arg))
        puts(":files");
}

static void offer_options(const struct typed *t)
{
    const struct argp_option *lists[5] = {cli_options};
    char word[80];
    if (t->command) cli_options_of(t->command, lists + 1);
    for (const struct argp_option **list = lists; *list; list++)
        for (const struct argp_option *o = *list; o->name || o->key; o++) {
            if (o->flags & OPTION_HIDDEN) continue;
            if (o->name)
                snprintf(word, sizeof word, "--%s", o->name);
            else
                snprintf(word, sizeof word, "-%c", o->key);
            offer(t, word, o->doc);
        }
    offer(t, "--help", "Give this help list");
}

static void offer_commands(const struct typed *t)
{
    const char *shown = "";
    for (const struct command *const *c = cli_commands; *c; c++) {
        const char *space = strchr((*c)->name, ' ');
        size_t first = space ? (size_t)(space - (*c)->name) : strlen((*c)->name);
        bool ours = t->noun && space && strlen(t->noun) == first &&
                    strncmp(t->noun, (*c)->name, first) == 0;
        if (ours) offer(t, space + 1, (*c)->summary);
        if (t->noun) continue;
        char noun[32];
        snprintf(noun, sizeof noun, "%.*s", (int)first, (*c)->name);
        if (space && strncmp(shown, noun, first) == 0) continue;
        offer(t, noun, space ? "commands about these" : (*c)->summary);
        shown = (*c)->name;
    }
}

/* The placeholder of the argument that is typed; the last one stands for all that follow if it ends
 * with "...". */
static void offer_argument(struct typed *t)
{
    char placeholder[64] = "";
    unsigned at = 0;
    for (const char *p = t->command->arguments; *p; at++) {
        size_t bytes = strcspn(p, " ");
        bool again = memmem(p, bytes, "...", 3) != NULL;
        if (at == t->arguments || (at < t->arguments && again && !p[bytes]))
            snprintf(placeholder, sizeof placeholder, "%.*s", (int)bytes, p);
        p += bytes + (p[bytes] == ' ');
    }
    const char *name = t->command->name;
    if (strcmp(placeholder, "GRAPH") == 0)
        offer_graphs(t);
    else if (strstr(placeholder, "SETTING"))
        offer_settings(t, strcmp(name, "config set") == 0);
    else if (strcmp(placeholder, "NAME") == 0 && strncmp(name, "attractor ", 10) == 0)
        offer_attractors(t);
    else if (strcmp(placeholder, "NAME") == 0 &&
             (strncmp(name, "graph ", 6) == 0 || strcmp(name, "spread") == 0))
        offer_graphs(t);
    else if (strcmp(placeholder, "NAME") == 0 || strcmp(placeholder, "COLLECTION") == 0)
        offer_collections(t);
    else if (!offer_set(t, placeholder) && is_file(placeholder))
        puts(":files");
}

int complete_words(int argc, char **argv)
{
    struct typed t = {.last = argc > 0 ? argv[argc - 1] : "", .before = ""};
    char before[80];
    for (int i = 0; i + 1 < argc; i++)
        take(&t, argv[i]);
    const char *equals = strncmp(t.last, "--", 2) == 0 ? strchr(t.last, '=') : NULL;
    const struct argp_option *valued = equals ? option_of(&t, t.last) : t.open;
    if (equals) {
        snprintf(before, sizeof before, "%.*s=", (int)(equals - t.last), t.last);
        t.before = before;
    }
    if (valued && valued->arg)
        offer_value(&t, valued);
    else if (*t.last == '-')
        offer_options(&t);
    else if (t.command)
        offer_argument(&t);
    else
        offer_commands(&t);
    ea_close(t.cli.client);
    return output_finish(CLI_OK);
}
