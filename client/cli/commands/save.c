/* save: has the daemon save its data as a snapshot. */
#include <inttypes.h>

#include "client/cli/commands/commands.h"
#include "client/cli/long_call.h"
#include "client/cli/text/format.h"

enum { OPTION_TO = 256, OPTION_DRY };

static const struct argp_option save_options[] = {
    {"to", OPTION_TO, "DIR", 0, "Save to this folder of the daemon's machine", 0},
    {"dry-run", OPTION_DRY, NULL, 0, "Only say what would be written", 0},
    {0}};

static error_t save_parse(int key, char *value, struct argp_state *state)
{
    ea_save_options *o = state->input;
    switch (key) {
    case OPTION_TO: o->to = value; return 0;
    case OPTION_DRY: o->dry_run = true; return 0;
    case ARGP_KEY_ARGS:
        o->spaces = (const char *const *)&state->argv[state->next];
        o->space_count = (size_t)(state->argc - state->next);
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (o->to && *o->to != '/')
            argp_error(state, "--to: a path from / wanted, since the daemon opens it");
        if (o->space_count && !o->to)
            argp_error(state, "SPACE: only with --to DIR; persist.dir gets everything");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void save_json(const ea_saved *s, bool dry)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "path", s->path);
    if (dry)
        json_string(&j, "snapshot", NULL);
    else
        json_u64(&j, "snapshot", s->number);
    json_u64(&j, "objects", s->objects);
    json_u64(&j, "bytes", s->bytes);
    json_u64(&j, "linked_bytes", s->linked_bytes);
    if (s->free_bytes == UINT64_MAX)
        json_string(&j, "free_bytes", NULL);
    else
        json_u64(&j, "free_bytes", s->free_bytes);
    json_u64(&j, "version", s->version);
    json_end(&j);
}

static void save_print(const ea_saved *s, bool dry)
{
    struct text a, b, c;
    const char *objects = format_many(&a, s->objects, "object");
    const char *bytes = format_bytes(&b, s->bytes);
    const char *linked = format_bytes(&c, s->linked_bytes);
    if (dry)
        printf("%s: would get %s of %s, of which %s are unchanged\n", s->path, objects, bytes,
               linked);
    else
        printf("%s/snapshot-%012" PRIu64 ": %s of %s, of which %s are unchanged\n", s->path,
               s->number, objects, bytes, linked);
}

static int save_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    ea_save_options o = {0};
    ea_saved saved;
    struct long_call call;
    cli_parse(cli, self, &o, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    long_call_begin(&call, cli);
    ea_status status = ea_save(cli->client, &o, &saved);
    code = long_call_end(&call, cli, status, NULL, "nothing was saved");
    if (code) return code;
    if (cli->json)
        save_json(&saved, o.dry_run);
    else
        save_print(&saved, o.dry_run);
    return CLI_OK;
}

const struct command command_save = {
    "save",
    "have the daemon save its data",
    "[--to DIR [SPACE...]] [--dry-run]",
    "The daemon saves all collections, graphs and attractors of all spaces, as they are at one "
    "instant, as a snapshot in persist.dir, or in another folder of its machine, and this waits "
    "until it is on the disk. Requests are answered meanwhile. With --to, SPACEs can be chosen. "
    "In persist.dir, what has not changed since the last snapshot is linked and not written again, "
    "and the newest persist.keep stay; another folder keeps all. Ctrl-C gives it up. Only root and "
    "the user that the daemon runs as may do it. engram-accel verify DIR checks a snapshot.",
    save_options,
    save_parse,
    save_run};
