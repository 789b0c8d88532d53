/* score: each query against a list of candidates, by id. */
#include "client/cli/commands/commands.h"
#include "client/cli/long_call.h"
#include "client/cli/text/hits.h"
#include "client/cli/files/ids.h"
#include "client/cli/commands/queries.h"

#include <inttypes.h>
#include <stdlib.h>

#define QUERIES_MAX   1024u
#define REQUEST_BYTES (32u << 20) /* bounds this process's memory */

struct score_command {
    const char *name, *queries_path, *candidates_path, *out, *names_path;
    uint32_t k;
    struct queries queries;
    struct vectors_file candidates; /* 2-D: read along; 1-D: `list` holds it for all queries */
    uint64_t length;                /* of each list */
    bool shared;
    uint64_t *list, *ids, *offsets; /* ids, offsets: of one request */
    struct hits hits;
    ea_result result;
};

enum { OPTION_NAMES = 0x500 };

static const struct argp_option score_options[] = {
    {"queries", 'q', "FILE", 0, "The vectors to ask with: a file, or - (standard input)", 0},
    {"candidates", 'c', "FILE.npy", 0,
     "Ids: one list for all queries, or a 2-D array with a list for each", 0},
    {NULL, 'k', "N", 0, "Only the N best of each query, best first (default: all, in order)", 0},
    {"out", 'o', "PREFIX", 0,
     "Write PREFIX.ids.npy (uint64) and PREFIX.scores.npy (float32) instead of tables", 0},
    {"names", OPTION_NAMES, "FILE", 0,
     "What ids are called: lines of ID<TAB>NAME, or a line for each id from 0", 0},
    {0},
};

static error_t score_parse(int key, char *text, struct argp_state *state)
{
    struct score_command *o = state->input;
    switch (key) {
    case 'q': o->queries_path = text; break;
    case 'c': o->candidates_path = text; break;
    case 'k': o->k = (uint32_t)cli_argument_u64(state, "-k", text, 1, UINT32_MAX); break;
    case 'o': o->out = text; break;
    case OPTION_NAMES: o->names_path = text; break;
    case ARGP_KEY_ARG:
        if (state->arg_num) argp_error(state, "unexpected argument '%s'", text);
        o->name = text;
        break;
    case ARGP_KEY_END:
        if (!o->name) argp_error(state, "the collection's NAME is needed");
        if (!o->queries_path || !o->candidates_path)
            argp_error(state, "--queries and --candidates are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int open_candidates(struct score_command *o)
{
    struct vectors_file *f = &o->candidates;
    if (!vectors_file_open(f, o->candidates_path, VECTORS_OF_IDS)) return cli_file_error(f->error);
    o->shared = f->axes == 1;
    o->length = o->shared ? f->rows : f->columns;
    if (f->rows == 0) return cli_error(CLI_FILE, "%s: holds no id", o->candidates_path);
    if (!o->shared && f->rows != o->queries.total)
        return cli_error(CLI_FILE,
                         "%s: has %" PRIu64 " lists for %" PRIu64 " queries; give one for each, or "
                         "a 1-D list for all",
                         o->candidates_path, f->rows, o->queries.total);
    if (!o->shared) return CLI_OK;
    uint64_t got;
    o->list = malloc(o->length * sizeof *o->list);
    if (!o->list) return cli_error(CLI_NO_MEMORY, "%s: out of memory", o->candidates_path);
    if (!vectors_file_read_ids(f, o->list, o->length, &got)) return cli_file_error(f->error);
    return CLI_OK;
}

static int open_all(struct score_command *o, struct cli *cli)
{
    int code = queries_open_file(&o->queries, o->queries_path);
    if (!code) code = open_candidates(o);
    if (!code) code = cli_info(cli);
    if (code) return code;

    ea_collection_info about;
    ea_status status = ea_collection_describe(cli->client, o->name, &about);
    if (status) return cli_failed(cli, status, o->name);
    uint64_t each = 4 * (uint64_t)about.dimension + 8 * o->length + 8;
    uint64_t columns = o->k && o->k < o->length ? o->k : o->length;
    uint64_t body = cli->info.body_bytes_max;
    uint64_t by_body = cli_fit(body < REQUEST_BYTES ? body : REQUEST_BYTES, 264, each, QUERIES_MAX);
    uint64_t by_reply = cli_fit(cli->info.reply_bytes_max, 256, 12 * columns + 4, QUERIES_MAX);
    code = queries_prepare(&o->queries, o->name, about.dimension,
                           by_body < by_reply ? by_body : by_reply);
    if (code) return code;

    uint64_t q = o->queries.block_rows;
    o->ids = malloc(q * o->length * sizeof *o->ids);
    o->offsets = malloc((q + 1) * sizeof *o->offsets);
    if (!o->ids || !o->offsets) return cli_error(CLI_NO_MEMORY, "out of memory");
    for (uint64_t i = 0; i <= q; i++)
        o->offsets[i] = i * o->length;
    for (uint64_t i = 0; o->shared && i < q * o->length; i++)
        o->ids[i] = o->list[i % o->length];
    return hits_open(&o->hits, cli, o->out, o->names_path, o->queries.total,
                     4 * (uint64_t)o->queries.dimension);
}

static int ask(struct score_command *o, struct cli *cli)
{
    const float *rows;
    uint64_t n, got;
    struct long_call call;
    int code;
    while (!(code = queries_next(&o->queries, &rows, &n)) && n) {
        if (!o->shared && !vectors_file_read_ids(&o->candidates, o->ids, n, &got))
            return cli_file_error(o->candidates.error);
        long_call_begin(&call, cli);
        ea_status status = ea_score(cli->client,
                                    &(ea_score_question){.collection = o->name,
                                                         .queries = rows,
                                                         .query_count = n,
                                                         .dimension = o->queries.dimension,
                                                         .offsets = o->offsets,
                                                         .ids = o->ids,
                                                         .count = n * o->length,
                                                         .k = o->k},
                                    &o->result);
        if (status) progress_finish(&o->hits.progress);
        code = long_call_end(&call, cli, status, o->name, "what was asked before is all");
        if (code) return code;
        ea_result *r = &o->result;
        code = o->k ? hits_add(&o->hits, r->meta, n, r->columns, r->ids, r->scores, r->counts)
                    : hits_add(&o->hits, r->meta, n, o->length, o->ids, r->scores, NULL);
        if (code) return code;
    }
    return code ? code : hits_finish(&o->hits);
}

static int score_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct score_command o = {0};
    cli_parse(cli, self, &o, argc, argv);
    int code = open_all(&o, cli);
    if (!code) code = ask(&o, cli);
    ea_result_free(&o.result);
    hits_close(&o.hits);
    queries_close(&o.queries);
    vectors_file_close(&o.candidates);
    free(o.list);
    free(o.ids);
    free(o.offsets);
    return code;
}

const struct command command_score = {
    "score",
    "score lists of candidates by id",
    "NAME",
    "Score each query against its candidates, given by id: all of them in their order, or with "
    "-k the best ones first. An id that is not in the collection is an error.",
    score_options,
    score_parse,
    score_run};
