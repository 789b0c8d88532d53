/* clients: who is connected: users of this machine and network addresses. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"

#include <inttypes.h>
#include <stdlib.h>

static void clients_json(const ea_stats *s)
{
    struct json j;
    json_init(&j, stdout);
    json_array(&j, NULL);
    for (uint32_t i = 0; i < s->peer_count; i++) {
        const ea_peer_stats *p = &s->peers[i];
        json_object(&j, NULL);
        json_string(&j, "name", p->name);
        json_bool(&j, "own", p->own);
        json_u64(&j, "connections", p->connections);
        json_u64(&j, "requests", p->requests);
        json_u64(&j, "in_line", p->in_line);
        json_u64(&j, "body_bytes", p->body_bytes);
        json_u64(&j, "refused", p->refused_queue + p->refused_connections + p->refused_bodies);
        json_end(&j);
    }
    json_end(&j);
}

static void clients_table(const ea_stats *s)
{
    static const char *const heads[] = {"client",  ">connections", ">requests", ">in line",
                                        ">bodies", ">refused",     NULL};
    struct text a;
    struct table *t = table_create(heads);
    for (uint32_t i = 0; i < s->peer_count; i++) {
        const ea_peer_stats *p = &s->peers[i];
        table_cell(t, "%s%s", p->name, p->own ? " (own)" : "");
        table_cell(t, "%s", format_count(&a, p->connections));
        table_cell(t, "%s", format_count(&a, p->requests));
        table_cell(t, "%s", format_count(&a, p->in_line));
        table_cell(t, "%s", format_bytes(&a, p->body_bytes));
        table_cell(t, "%s",
                   format_count(&a, p->refused_queue + p->refused_connections + p->refused_bodies));
    }
    cli_table_print(t);
    table_destroy(t);
    if (s->peers_left_out)
        fprintf(stderr, "%s more are not shown\n", format_count(&a, s->peers_left_out));
}

static int clients_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    ea_stats *s = calloc(1, sizeof *s);
    if (!s) return cli_error(CLI_NO_MEMORY, "out of memory");
    cli_parse(cli, self, NULL, argc, argv);
    int code = cli_connect(cli);
    ea_status status = code ? EA_OK : ea_get_stats(cli->client, s);
    if (status) code = cli_failed(cli, status, "stats");
    if (!code && cli->json) clients_json(s);
    if (!code && !cli->json) clients_table(s);
    free(s);
    return code;
}

const struct command command_clients = {"clients",
                                        "who is connected",
                                        "",
                                        "List users of this machine and network addresses that are "
                                        "connected: connections, requests under "
                                        "way and in line, memory of large bodies, and what was "
                                        "refused. Root and the daemon's user see the 16 "
                                        "busiest, anybody else itself.",
                                        NULL,
                                        NULL,
                                        clients_run};
