/* changes: what is there, and has changed since a version. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"

#include <inttypes.h>

struct changes_options {
    uint64_t since;
};

enum { OPTION_SINCE = 0x500 };

static const struct argp_option changes_options[] = {
    {"since", OPTION_SINCE, "VERSION", 0, "Only what has a later version (default: all)", 0},
    {0},
};

static error_t changes_parse(int key, char *text, struct argp_state *state)
{
    struct changes_options *o = state->input;
    switch (key) {
    case OPTION_SINCE: o->since = cli_argument_u64(state, "--since", text, 0, UINT64_MAX); break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'", text); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const char *kind_name(ea_object object)
{
    static const char *const names[] = {"?", "collection", "graph", "attractor"};
    return (unsigned)object < sizeof names / sizeof *names ? names[object] : "?";
}

static void print_json(struct cli *cli, const ea_object_version *list, size_t count, uint64_t now,
                       uint64_t total)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_u64(&j, "instance", ea_instance(cli->client));
    json_u64(&j, "generation", ea_generation(cli->client));
    json_u64(&j, "version", now);
    json_u64(&j, "total", total);
    json_array(&j, "objects");
    for (size_t i = 0; i < count; i++) {
        json_object(&j, NULL);
        json_string(&j, "kind", kind_name(list[i].object));
        json_string(&j, "name", list[i].name);
        json_u64(&j, "version", list[i].version);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
}

static void print_table(struct cli *cli, const ea_object_version *list, size_t count, uint64_t now,
                        uint64_t total)
{
    static const char *const heads[] = {"kind", "name", ">version", NULL};
    struct table *t = table_create(heads);
    struct text a;
    for (size_t i = 0; i < count; i++) {
        table_cell(t, "%s", kind_name(list[i].object));
        table_cell(t, "%s", list[i].name);
        table_cell(t, "%" PRIu64, list[i].version);
    }
    if (count) cli_table_print(t);
    table_destroy(t);
    fprintf(
        stderr, "%zu of %s; instance %016" PRIx64 ", generation %" PRIu64 ", version %" PRIu64 "\n",
        count, format_count(&a, total), ea_instance(cli->client), ea_generation(cli->client), now);
}

static int changes_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct changes_options o = {0};
    ea_object_version *list = NULL;
    size_t count = 0;
    uint64_t now = 0, total = 0;
    cli_parse(cli, self, &o, argc, argv);
    int code = cli_connect(cli);
    ea_status status = code ? EA_OK : ea_changes(cli->client, o.since, &list, &count, &now, &total);
    if (status) code = cli_failed(cli, status, "changes");
    if (!code && cli->json) print_json(cli, list, count, now, total);
    if (!code && !cli->json) print_table(cli, list, count, now, total);
    ea_changes_free(list);
    return code;
}

const struct command command_changes = {
    "changes",
    "what is there, and has changed",
    "",
    "List collections, graphs and attractors of the space with their versions; with --since those "
    "that have changed after it. The last line has the version to give the next time. Versions are "
    "comparable while instance and generation are the same.",
    changes_options,
    changes_parse,
    changes_run};
