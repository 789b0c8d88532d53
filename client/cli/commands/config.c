/* config: the daemon's settings: shown, and those that are live set. */
#include "client/cli/commands/commands.h"

#include <string.h>

static const char *source_of(const ea_setting *s)
{
    static const char *const names[] = {"default", "file", "command line", "set"};
    return (unsigned)s->source < sizeof names / sizeof *names ? names[s->source] : "?";
}

static void setting_json(struct json *j, const ea_setting *s)
{
    json_object(j, NULL);
    json_string(j, "name", s->name);
    json_string(j, "value", s->value);
    json_string(j, "source", source_of(s));
    json_bool(j, "live", s->live);
    json_bool(j, "wants_restart", s->wants_restart);
    json_string(j, "asked", s->wants_restart ? s->asked : NULL);
}

/* ---- get ---- */

struct asked {
    char **names; /* none: all */
    int count;
};

/* A name, or a section: "batch" is all of batch. */
static bool is_of(const ea_setting *s, const char *word)
{
    size_t bytes = strlen(word);
    return strncmp(s->name, word, bytes) == 0 && (!s->name[bytes] || s->name[bytes] == '.');
}

static bool is_asked(const ea_setting *s, const struct asked *a)
{
    for (int i = 0; i < a->count; i++)
        if (is_of(s, a->names[i])) return true;
    return a->count == 0;
}

static int check_names(const ea_setting *list, size_t count, const struct asked *a)
{
    for (int i = 0; i < a->count; i++) {
        size_t at = 0;
        while (at < count && !is_of(&list[at], a->names[i]))
            at++;
        if (at == count && strcmp(a->names[i], "spaces") != 0) /* which may have none */
            return cli_error(CLI_REFUSED, "there is no setting '%s'; all: engram-accel config get",
                             a->names[i]);
    }
    return CLI_OK;
}

static void list_json(const ea_setting *list, size_t count, const struct asked *a)
{
    struct json j;
    json_init(&j, stdout);
    json_array(&j, NULL);
    for (size_t i = 0; i < count; i++) {
        if (!is_asked(&list[i], a)) continue;
        setting_json(&j, &list[i]);
        json_end(&j);
    }
    json_end(&j);
}

static void list_table(const ea_setting *list, size_t count, const struct asked *a)
{
    static const char *const heads[] = {"setting", "value", "from", "changes", NULL};
    struct table *t = table_create(heads);
    for (size_t i = 0; i < count; i++) {
        const ea_setting *s = &list[i];
        if (!is_asked(s, a)) continue;
        table_cell(t, "%s", s->name);
        table_cell(t, "%s", *s->value ? s->value : "\"\"");
        table_cell(t, "%s", source_of(s));
        if (s->wants_restart)
            table_cell(t, "a restart makes it %s", *s->asked ? s->asked : "\"\"");
        else
            table_cell(t, "%s", s->live ? "live" : "by a restart");
    }
    cli_table_print(t);
    table_destroy(t);
}

static error_t get_parse(int key, char *value, struct argp_state *state)
{
    struct asked *a = state->input;
    if (key != ARGP_KEY_ARG) return ARGP_ERR_UNKNOWN;
    (void)value;
    a->names = &state->argv[state->next - 1];
    a->count = state->argc - state->next + 1;
    state->next = state->argc;
    return 0;
}

static int get_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct asked a = {0};
    ea_setting *list = NULL;
    size_t count = 0;
    cli_parse(cli, self, &a, argc, argv);
    int code = cli_connect(cli);
    ea_status status = code ? EA_OK : ea_config_get(cli->client, &list, &count);
    if (status) code = cli_failed(cli, status, "config");
    if (!code) code = check_names(list, count, &a);
    if (!code && cli->json) list_json(list, count, &a);
    if (!code && !cli->json) list_table(list, count, &a);
    ea_settings_free(list);
    return code;
}

const struct command command_config_get = {
    "config get",
    "what the daemon's settings are",
    "[SETTING...]",
    "List settings, or one, or a section of them (batch): value, where it comes from (default, "
    "file, command line, or set while the daemon runs) and whether it may change live. A setting "
    "that is another in the file than in use, and not live, wants a restart: the value that it "
    "will "
    "have is shown. Quotas of single spaces are shown to root, to the daemon's user, and to the "
    "space itself.",
    NULL,
    get_parse,
    get_run};

/* ---- set ---- */

struct assignment {
    const char *name, *value;
};

static error_t set_parse(int key, char *value, struct argp_state *state)
{
    struct assignment *a = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (a->value) argp_error(state, "one SETTING and one VALUE wanted");
        if (a->name)
            a->value = value;
        else
            a->name = value;
        return 0;
    case ARGP_KEY_END: {
        char *equals = a->name && !a->value ? strchr(a->name, '=') : NULL;
        if (equals) *equals = 0, a->value = equals + 1;
        if (!a->value) argp_error(state, "a SETTING and a VALUE wanted");
        return 0;
    }
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int set_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct assignment a = {0};
    ea_setting now;
    char before[257];
    cli_parse(cli, self, &a, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_config_set(cli->client, a.name, a.value, &now, before);
    if (status) return cli_failed(cli, status, NULL);
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        setting_json(&j, &now);
        json_string(&j, "before", *before ? before : NULL);
        json_end(&j);
        return CLI_OK;
    }
    printf("%s: %s, was %s\n", now.name, now.value, *before ? before : "as of all spaces");
    fprintf(stderr, "It holds until the daemon reads its file again (SIGHUP) or stops; the file is "
                    "as it was.\n");
    return CLI_OK;
}

const struct command command_config_set = {
    "config set",
    "set a live setting, until the daemon stops",
    "SETTING VALUE",
    "Set one of the settings that may change live, in the daemon that runs: \"config get\" shows "
    "which. The value is checked as in the file. The file is not changed: when the daemon reads it "
    "again (SIGHUP) or starts anew, its value holds. Only root and the user that the daemon runs "
    "as may set something; the daemon's log says who did. spaces.NAME.weight and the like are "
    "quotas "
    "of one space.",
    NULL,
    set_parse,
    set_run};
