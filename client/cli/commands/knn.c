/* knn: the nearest rows of each query. */
#include "client/cli/commands/commands.h"
#include "client/cli/long_call.h"
#include "client/cli/text/hits.h"
#include "client/cli/files/ids.h"
#include "client/cli/commands/queries.h"

#include <float.h>

#define QUERIES_MAX 1024u       /* of a request: enough for the many-query kernels */
#define REPLY_BYTES (64u << 20) /* bounds this process's memory */

struct knn_command {
    const char *name, *queries_path, *query_text, *out, *allow_path, *names_path;
    uint32_t k;
    bool with_threshold;
    float threshold;
    struct ids query_ids, allow;
    struct queries queries;
    struct hits hits;
    ea_result result;
};

enum { OPTION_QUERY_ID = 0x500, OPTION_QUERY, OPTION_ALLOW, OPTION_NAMES };

static const struct argp_option knn_options[] = {
    {"queries", 'q', "FILE", 0,
     "The vectors to ask with: .npy, .npz, .fvecs, .fbin, .csv, .jsonl or - (standard input)", 0},
    {"query", OPTION_QUERY, "X,Y,...", 0, "Ask with this vector", 0},
    {"query-id", OPTION_QUERY_ID, "ID", 0,
     "Ask with the stored vector of ID instead; may be given again", 0},
    {NULL, 'k', "N", 0, "How many to find for each query (default: 10)", 0},
    {"out", 'o', "PREFIX", 0,
     "Write PREFIX.ids.npy (uint64) and PREFIX.scores.npy (float32) instead of tables", 0},
    {"threshold", 't', "T", 0, "Only scores of at least T (l2: distances of at most T)", 0},
    {"allow", OPTION_ALLOW, "FILE.npy", 0, "Only rows whose ids are in FILE", 0},
    {"names", OPTION_NAMES, "FILE", 0,
     "What ids are called: lines of ID<TAB>NAME, or a line for each id from 0", 0},
    {0},
};

static error_t knn_parse(int key, char *text, struct argp_state *state)
{
    struct knn_command *o = state->input;
    switch (key) {
    case 'q': o->queries_path = text; break;
    case OPTION_QUERY: o->query_text = text; break;
    case OPTION_QUERY_ID: ids_add_text(&o->query_ids, state, text); break;
    case 'k': o->k = (uint32_t)cli_argument_u64(state, "-k", text, 1, UINT32_MAX); break;
    case 'o': o->out = text; break;
    case 't':
        o->with_threshold = true;
        o->threshold = (float)cli_argument_number(state, "--threshold", text, (double)-FLT_MAX,
                                                  (double)FLT_MAX);
        break;
    case OPTION_ALLOW: o->allow_path = text; break;
    case OPTION_NAMES: o->names_path = text; break;
    case ARGP_KEY_ARG:
        if (state->arg_num) argp_error(state, "unexpected argument '%s'", text);
        o->name = text;
        break;
    case ARGP_KEY_END:
        if (!o->name) argp_error(state, "the collection's NAME is needed");
        if (!!o->queries_path + !!o->query_text + !!o->query_ids.count != 1)
            argp_error(state, "give --queries, --query or --query-id");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int open_all(struct knn_command *o, struct cli *cli)
{
    int code = CLI_OK;
    if (o->queries_path) code = queries_open_file(&o->queries, o->queries_path);
    if (o->query_text) code = queries_open_text(&o->queries, o->query_text);
    if (!code && o->allow_path) code = ids_read(&o->allow, o->allow_path);
    if (!code) code = cli_info(cli);
    if (!code && o->query_ids.count)
        code =
            queries_open_stored(&o->queries, cli, o->name, o->query_ids.list, o->query_ids.count);
    if (code) return code;

    ea_collection_info about;
    ea_status status = ea_collection_describe(cli->client, o->name, &about);
    if (status) return cli_failed(cli, status, o->name);
    uint64_t columns = o->k < about.rows ? o->k : about.rows, reply = cli->info.reply_bytes_max;
    uint64_t by_reply =
        cli_fit(reply < REPLY_BYTES ? reply : REPLY_BYTES, 256, 12 * columns + 4, QUERIES_MAX);
    uint64_t by_body = cli_fit(cli->info.body_bytes_max, 256 + 8 * o->allow.count,
                               4 * (uint64_t)about.dimension, QUERIES_MAX);
    code = queries_prepare(&o->queries, o->name, about.dimension,
                           by_reply < by_body ? by_reply : by_body);
    if (code) return code;
    if (o->query_ids.count) o->hits.query_ids = o->query_ids.list;
    return hits_open(&o->hits, cli, o->out, o->names_path, o->queries.total,
                     4 * (uint64_t)o->queries.dimension);
}

static int ask(struct knn_command *o, struct cli *cli)
{
    /* An empty list allows nothing, which no filter at all would not say. */
    ea_filter filter = {.ids = o->allow.list, .id_count = o->allow.count};
    if (o->allow_path && o->allow.count == 0)
        return cli_error(CLI_FILE, "%s: allows no id", o->allow_path);
    const float *rows;
    uint64_t n;
    int code;
    struct long_call call;
    while (!(code = queries_next(&o->queries, &rows, &n)) && n) {
        long_call_begin(&call, cli);
        ea_status status =
            ea_knn(cli->client,
                   &(ea_knn_question){.collection = o->name,
                                      .queries = rows,
                                      .query_count = n,
                                      .dimension = o->queries.dimension,
                                      .k = o->k,
                                      .filter = o->allow_path ? &filter : NULL,
                                      .threshold = o->with_threshold ? &o->threshold : NULL},
                   &o->result);
        if (status) progress_finish(&o->hits.progress);
        code = long_call_end(&call, cli, status, o->name, "what was asked before is all");
        if (code) return code;
        ea_result *r = &o->result;
        code = hits_add(&o->hits, r->meta, r->rows, r->columns, r->ids, r->scores, r->counts);
        if (code) return code;
    }
    return code ? code : hits_finish(&o->hits);
}

static int knn_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct knn_command o = {.k = 10};
    cli_parse(cli, self, &o, argc, argv);
    int code = open_all(&o, cli);
    if (!code) code = ask(&o, cli);
    ea_result_free(&o.result);
    hits_close(&o.hits);
    queries_close(&o.queries);
    ids_free(&o.query_ids);
    ids_free(&o.allow);
    return code;
}

const struct command command_knn = {
    "knn",
    "the nearest rows of each query",
    "NAME",
    "Find the k rows of a collection nearest to each query, exactly. Prints a table for each "
    "query (with --json a line for each), or writes two files.\v"
    "With --out, a query with fewer hits than the files have columns is filled with id "
    "18446744073709551615 and score NaN. Large query files are split into several requests.",
    knn_options,
    knn_parse,
    knn_run};
