/* slowlog: the last requests that took long. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"
#include "client/cli/text/meta_total.h"

struct slowlog {
    uint64_t last; /* UINT64_MAX: all */
};

static const struct argp_option slowlog_options[] = {
    {"last", 'n', "N", 0, "Show the last N (default: all that are kept, 256 at most)", 0},
    {0},
};

static error_t slowlog_parse(int key, char *text, struct argp_state *state)
{
    struct slowlog *o = state->input;
    if (key != 'n') return ARGP_ERR_UNKNOWN;
    o->last = cli_argument_u64(state, "--last", text, 1, UINT64_MAX);
    return 0;
}

static void one_json(struct json *j, const ea_slow_request *s)
{
    json_object(j, NULL);
    json_u64(j, "number", s->number);
    json_u64(j, "ago_ns", s->ago_ns);
    json_string(j, "operation", s->operation);
    json_string(j, "space", s->space);
    json_string(j, "name", s->name[0] ? s->name : NULL);
    json_string(j, "client", s->peer[0] ? s->peer : NULL);
    json_u64(j, "request_id", s->request_id);
    json_string(j, "status", ea_status_name(s->status));
    json_string(j, "detail", s->detail ? ea_detail_name(s->detail) : NULL);
    meta_times_json(&s->meta, j);
    json_u64(j, "screened", s->meta.screened);
    json_u64(j, "survived", s->meta.survived);
    json_u64(j, "read_bytes", s->meta.read_bytes);
    json_u64(j, "queries", s->queries);
    json_u64(j, "rows", s->rows);
    json_u64(j, "dimension", s->dimension);
    json_u64(j, "k", s->k);
    json_u64(j, "request_bytes", s->request_bytes);
    json_u64(j, "reply_bytes", s->reply_bytes);
    json_end(j);
}

static void slowlog_json(const ea_slow_request *list, size_t count)
{
    struct json j;
    json_init(&j, stdout);
    json_array(&j, NULL);
    for (size_t i = 0; i < count; i++)
        one_json(&j, &list[i]);
    json_end(&j);
}

static void one_row(struct table *t, const ea_slow_request *s)
{
    struct text a, b;
    table_cell(t, "%s", format_ns(&a, s->ago_ns));
    table_cell(t, "%s", s->operation);
    table_cell(t, "%s/%s", s->space, s->name);
    if (s->queries)
        table_cell(t, "%s x %s x %u", format_count(&a, s->queries), format_count(&b, s->rows),
                   s->dimension);
    else
        table_cell(t, "-");
    table_cell(t, "%s", s->meta.backend ? ea_backend_name(s->meta.backend) : "-");
    table_cell(t, "%s", format_ns(&a, s->meta.total_ns));
    table_cell(t, "%s", format_ns(&a, s->meta.queue_ns));
    table_cell(t, "%s", format_ns(&a, s->meta.run_ns));
    table_cell(t, "%s", s->meta.predicted_ns ? format_ns(&a, s->meta.predicted_ns) : "-");
    table_cell(t, "%s", s->peer[0] ? s->peer : "-");
    table_cell(t, "%s", s->status ? ea_status_name(s->status) : "OK");
}

static void slowlog_table(const ea_slow_request *list, size_t count, uint64_t total)
{
    static const char *const heads[] = {">ago",      "operation", "of",       "asked",
                                        "on",        ">took",     ">in line", ">ran",
                                        ">foreseen", "client",    "ended",    NULL};
    struct text a;
    struct table *t = table_create(heads);
    for (size_t i = 0; i < count; i++)
        one_row(t, &list[i]);
    cli_table_print(t);
    table_destroy(t);
    fprintf(stderr, "%s since the daemon's start, of all spaces\n",
            format_many(&a, total, "slow request"));
}

static int slowlog_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct slowlog o = {UINT64_MAX};
    ea_slow_request *list = NULL;
    size_t count = 0;
    uint64_t total = 0;
    cli_parse(cli, self, &o, argc, argv);
    int code = cli_connect(cli);
    ea_status status = code ? EA_OK : ea_get_slowlog(cli->client, &list, &count, &total);
    if (status) code = cli_failed(cli, status, "slowlog");
    if (count > o.last) count = (size_t)o.last;
    if (!code && cli->json) slowlog_json(list, count);
    if (!code && !cli->json) slowlog_table(list, count, total);
    ea_slowlog_free(list);
    return code;
}

const struct command command_slowlog = {
    "slowlog",
    "requests that took long",
    "",
    "List the last requests that took observe.slow_ms or more, the newest first: what each asked, "
    "what ran it, how long it took, waited and ran, and what was foreseen; --json has all that "
    "is known of each. Root and the daemon's user see those of all spaces, anybody else those of "
    "its own. The daemon keeps the last 256, and logs each.",
    slowlog_options,
    slowlog_parse,
    slowlog_run};
