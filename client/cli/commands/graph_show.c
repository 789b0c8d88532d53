/* graph_show: nodes and their out-edges. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"
#include "client/cli/files/ids.h"
#include "client/cli/text/names.h"
#include "client/cli/text/progress.h"
#include "client/cli/files/node_lines.h"
#include "client/cli/commands/nodes_fetch.h"
#include "client/cli/text/utf8.h"

#include <inttypes.h>
#include <unistd.h>

struct show {
    struct cli *cli;
    const char *name, *ids_path, *names_path;
    struct ids ids;
    struct names names;
    struct table *table;
    uint64_t missing;
    struct progress progress; /* where nodes do not go to the terminal */
};

enum { OPTION_NAMES = 0x500 };

static const struct argp_option show_options[] = {
    {"ids", 'i', "FILE.npy", 0, "The ids, instead of or after those given", 0},
    {"names", OPTION_NAMES, "FILE", 0,
     "What ids are called: lines of ID<TAB>NAME, or a line for each id from 0", 0},
    {0},
};

static error_t show_parse(int key, char *text, struct argp_state *state)
{
    struct show *o = state->input;
    switch (key) {
    case 'i': o->ids_path = text; break;
    case OPTION_NAMES: o->names_path = text; break;
    case ARGP_KEY_ARG: ids_add_behind(&o->ids, &o->name, state, text); break;
    case ARGP_KEY_END:
        if (!o->name) argp_error(state, "the graph's NAME is needed");
        if (!o->ids.count && !o->ids_path) argp_error(state, "ids or --ids FILE are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void show_json(struct show *o, const ea_nodes *p, uint64_t i, uint64_t id)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_id(&j, "id", id);
    if (o->names_path) json_string(&j, "name", names_find(&o->names, id));
    json_bool(&j, "found", p->found[i]);
    if (p->found[i]) {
        json_string(&j, "kind", node_kind_name(p->kinds[i]));
        json_float(&j, "factor", p->factors[i]);
        json_u64(&j, "out_count", p->out_counts[i]);
        json_u64(&j, "in_count", p->in_counts[i]);
        json_array(&j, "edges");
        for (uint64_t e = p->offsets[i]; e < p->offsets[i + 1]; e++) {
            json_object(&j, NULL);
            json_id(&j, "target", p->targets[e]);
            if (o->names_path) json_string(&j, "name", names_find(&o->names, p->targets[e]));
            json_float(&j, "weight", p->weights[e]);
            json_end(&j);
        }
        json_end(&j);
    }
    json_end(&j);
}

static void show_table(struct show *o, const ea_nodes *p, uint64_t i, uint64_t id, bool first)
{
    struct text a, b;
    const char *name = names_find(&o->names, id);
    printf("%snode %" PRIu64 "%s", first ? "" : "\n", id, name ? ": " : "");
    utf8_put(stdout, name ? name : "");
    putchar('\n');
    if (!p->found[i]) {
        printf("is not there\n");
        return;
    }
    printf("%s, factor %g, %s out, %s in\n", node_kind_name(p->kinds[i]), (double)p->factors[i],
           format_many(&a, p->out_counts[i], "edge"), format_count(&b, p->in_counts[i]));
    for (uint64_t e = p->offsets[i]; e < p->offsets[i + 1]; e++) {
        table_cell(o->table, "%" PRIu64, p->targets[e]);
        table_cell(o->table, "%s", format_score(&a, p->weights[e]));
        if (!o->names_path) continue;
        name = names_find(&o->names, p->targets[e]);
        table_cell(o->table, "%s", name ? name : "");
    }
    if (p->offsets[i] < p->offsets[i + 1]) cli_table_print(o->table);
}

static int show_part(const ea_nodes *part, uint64_t first, void *user)
{
    struct show *o = user;
    for (uint64_t i = 0; i < part->count; i++) {
        if (o->cli->json)
            show_json(o, part, i, o->ids.list[first + i]);
        else
            show_table(o, part, i, o->ids.list[first + i], first + i == 0);
    }
    o->missing += part->missing;
    if (o->progress.total) progress_show(&o->progress, first + part->count, clock_ns());
    return CLI_OK;
}

static int show_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    static const char *const heads[] = {">to", ">weight", "name", NULL};
    static const char *const bare[] = {">to", ">weight", NULL};
    struct show o = {.cli = cli};
    struct text a, b;
    cli_parse(cli, self, &o, argc, argv);
    o.table = table_create(o.names_path ? heads : bare);
    int code = o.ids_path ? ids_read(&o.ids, o.ids_path) : CLI_OK;
    if (!code && o.names_path && !names_open(&o.names, o.names_path))
        code = cli_file_error(o.names.error);
    if (!code) code = cli_info(cli);
    if (isatty(STDOUT_FILENO) != 1) {
        progress_start(&o.progress, o.ids.count, 0, clock_ns());
        o.progress.what = "nodes";
    }
    if (!code) code = nodes_fetch(cli, o.name, o.ids.list, o.ids.count, true, show_part, &o);
    progress_finish(&o.progress);
    if (!code && o.missing)
        cli_error(0, "%s of %s are not in %s", format_count(&a, o.missing),
                  format_many(&b, o.ids.count, "id"), o.name);
    names_close(&o.names);
    table_destroy(o.table);
    ids_free(&o.ids);
    return code;
}

const struct command command_graph_show = {
    "graph show",
    "nodes and the edges out of them, by id",
    "NAME [ID...]",
    "Print nodes: kind, factor, how many edges lead out and in, and those that lead out (with "
    "--json a line for each id).\v"
    "An id that is not in the graph is told on standard error and is not a failure.",
    show_options,
    show_parse,
    show_run};
