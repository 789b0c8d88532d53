/* spaces: what spaces there are: what is in them, what they use, their quotas. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"

static void spaces_json(const ea_space_info *list, size_t count)
{
    struct json j;
    json_init(&j, stdout);
    json_array(&j, NULL);
    for (size_t i = 0; i < count; i++) {
        const ea_space_info *s = &list[i];
        json_object(&j, NULL);
        json_string(&j, "name", s->name);
        json_bool(&j, "own", s->own);
        json_u64(&j, "collections", s->collections);
        json_u64(&j, "rows", s->rows);
        json_u64(&j, "graphs", s->graphs);
        json_u64(&j, "graph_nodes", s->graph_nodes);
        json_u64(&j, "graph_edges", s->graph_edges);
        json_u64(&j, "attractors", s->attractors);
        json_u64(&j, "attractor_patterns", s->attractor_patterns);
        json_u64(&j, "host_bytes", s->use.host_bytes);
        json_u64(&j, "host_bytes_max", s->use.host_bytes_max);
        json_u64(&j, "vram_bytes", s->vram_bytes);
        json_u64(&j, "vram_bytes_max", s->use.vram_bytes_max);
        json_u64(&j, "queue_depth", s->use.queue_depth);
        json_u64(&j, "queue_max", s->use.queue_max);
        json_u64(&j, "connections", s->use.connections);
        json_u64(&j, "connections_max", s->use.connections_max);
        json_u64(&j, "weight", s->use.weight);
        json_u64(&j, "requests",
                 s->use.use[EA_BACKEND_CPU].requests + s->use.use[EA_BACKEND_GPU].requests);
        json_u64(&j, "refused", s->use.refused_queue + s->use.refused_connections);
        json_end(&j);
    }
    json_end(&j);
}

/* "3.0 GiB of 8.0 GiB"; without a quota the first alone. */
static void cell_of(struct table *t, const char *used, const char *most, uint64_t quota)
{
    if (quota)
        table_cell(t, "%s of %s", used, most);
    else
        table_cell(t, "%s", used);
}

static void spaces_table(const ea_space_info *list, size_t count)
{
    static const char *const heads[] = {"space", ">rows",    ">edges",       ">patterns", ">memory",
                                        ">VRAM", ">in line", ">connections", ">weight",   NULL};
    struct table *t = table_create(heads);
    for (size_t i = 0; i < count; i++) {
        const ea_space_info *s = &list[i];
        const ea_space_stats *u = &s->use;
        struct text a, b;
        table_cell(t, "%s%s", s->name, s->own ? " (own)" : "");
        table_cell(t, "%s", format_count(&a, s->rows));
        table_cell(t, "%s", format_count(&a, s->graph_edges));
        table_cell(t, "%s", format_count(&a, s->attractor_patterns));
        cell_of(t, format_bytes(&a, u->host_bytes), format_bytes(&b, u->host_bytes_max),
                u->host_bytes_max);
        cell_of(t, format_bytes(&a, s->vram_bytes), format_bytes(&b, u->vram_bytes_max),
                u->vram_bytes_max);
        cell_of(t, format_count(&a, u->queue_depth), format_count(&b, u->queue_max), u->queue_max);
        cell_of(t, format_count(&a, u->connections), format_count(&b, u->connections_max),
                u->connections_max);
        table_cell(t, "%u", u->weight);
    }
    cli_table_print(t);
    table_destroy(t);
}

static int spaces_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    ea_space_info *list = NULL;
    size_t count = 0;
    cli_parse(cli, self, NULL, argc, argv);
    int code = cli_connect(cli);
    ea_status status = code ? EA_OK : ea_get_spaces(cli->client, &list, &count);
    if (status) code = cli_failed(cli, status, "spaces");
    if (!code && cli->json) spaces_json(list, count);
    if (!code && !cli->json) spaces_table(list, count);
    ea_spaces_free(list);
    return code;
}

const struct command command_spaces = {
    "spaces",
    "what spaces there are",
    "",
    "List spaces: what is in them, the memory and VRAM that they take, requests in line and "
    "connections, each with its quota (quotas.*, spaces.NAME.*) where there is one, and their "
    "weight. Root and the daemon's user see all, anybody else its own. A space that has nothing, "
    "and nobody connected, is gone.",
    NULL,
    NULL,
    spaces_run};
