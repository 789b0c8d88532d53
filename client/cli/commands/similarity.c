/* similarity: every query against every row. */
#include "client/cli/commands/commands.h"
#include "client/cli/long_call.h"
#include "client/cli/text/format.h"
#include "client/cli/files/ids.h"
#include "client/cli/text/meta_total.h"
#include "client/cli/files/npy_write.h"
#include "client/cli/text/progress.h"
#include "client/cli/commands/queries.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUERIES_MAX 1024u
#define REPLY_BYTES (64u << 20) /* bounds this process's memory */

struct similarity_command {
    const char *name, *queries_path, *query_text, *out, *allow_path;
    uint64_t best; /* of each query; 0: all */
    ea_metric metric;
    bool with_threshold;
    float threshold;
    struct ids allow;
    struct queries queries;
    struct meta_total meta;
    struct progress progress; /* where the scores go to files */
    ea_result result;
    char *ids_path, *offsets_path;
    struct npy_writer scores, ids, offsets;
    uint64_t done, columns, version, matches; /* matches: with a threshold, so far */
};

enum { OPTION_ALLOW = 0x500, OPTION_QUERY };

static const struct argp_option similarity_options[] = {
    {"queries", 'q', "FILE", 0,
     "The vectors to ask with: .npy, .npz, .fvecs, .fbin, .csv, .jsonl or - (standard input)", 0},
    {"query", OPTION_QUERY, "X,Y,...", 0, "Ask with this vector", 0},
    {"best", 'n', "N", 0, "Print only the N best scores of each query, best first", 0},
    {"out", 'o', "FILE.npy", 0,
     "Write the scores (float32, a row for each query) to FILE.npy and the ids of its columns "
     "(uint64) to FILE.ids.npy",
     0},
    {"threshold", 't', "T", 0, "Only scores of at least T (l2: distances of at most T), best first",
     0},
    {"allow", OPTION_ALLOW, "FILE.npy", 0, "Only rows whose ids are in FILE", 0},
    {0},
};

static error_t similarity_parse(int key, char *text, struct argp_state *state)
{
    struct similarity_command *o = state->input;
    switch (key) {
    case OPTION_QUERY: o->query_text = text; break;
    case 'n': o->best = cli_argument_u64(state, "--best", text, 1, UINT32_MAX); break;
    case 'q': o->queries_path = text; break;
    case 'o': o->out = text; break;
    case 't':
        o->with_threshold = true;
        o->threshold = (float)cli_argument_number(state, "--threshold", text, (double)-FLT_MAX,
                                                  (double)FLT_MAX);
        break;
    case OPTION_ALLOW: o->allow_path = text; break;
    case ARGP_KEY_ARG:
        if (state->arg_num) argp_error(state, "unexpected argument '%s'", text);
        o->name = text;
        break;
    case ARGP_KEY_END:
        if (!o->name) argp_error(state, "the collection's NAME is needed");
        if (!o->queries_path == !o->query_text) argp_error(state, "give --queries or --query");
        if (o->best && o->out)
            argp_error(state, "--best is for what is printed; knn --out writes the best");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* "dir/x.npy" and "ids" give "dir/x.ids.npy". */
static char *sibling_path(const char *path, const char *what)
{
    size_t bytes = strlen(path);
    if (bytes > 4 && strcmp(path + bytes - 4, ".npy") == 0) bytes -= 4;
    char *out;
    return asprintf(&out, "%.*s.%s.npy", (int)bytes, path, what) < 0 ? NULL : out;
}

static int open_all(struct similarity_command *o, struct cli *cli)
{
    int code = o->query_text ? queries_open_text(&o->queries, o->query_text)
                             : queries_open_file(&o->queries, o->queries_path);
    if (!code && o->allow_path) code = ids_read(&o->allow, o->allow_path);
    if (!code && o->allow_path && o->allow.count == 0)
        code = cli_error(CLI_FILE, "%s: allows no id", o->allow_path);
    if (!code) code = cli_info(cli);
    if (code) return code;

    ea_collection_info about;
    ea_status status = ea_collection_describe(cli->client, o->name, &about);
    if (status) return cli_failed(cli, status, o->name);
    o->metric = about.metric;
    uint64_t columns = about.rows, reply = cli->info.reply_bytes_max;
    if (o->allow_path && o->allow.count < columns) columns = o->allow.count;
    uint64_t each = o->with_threshold ? 12 * columns + 8 : 4 * columns;
    uint64_t by_reply =
        cli_fit(reply < REPLY_BYTES ? reply : REPLY_BYTES, 256 + 8 * columns, each, QUERIES_MAX);
    uint64_t by_body = cli_fit(cli->info.body_bytes_max, 256 + 8 * o->allow.count,
                               4 * (uint64_t)about.dimension, QUERIES_MAX);
    code = queries_prepare(&o->queries, o->name, about.dimension,
                           by_reply < by_body ? by_reply : by_body);
    if (code || !o->out) return code;
    o->ids_path = sibling_path(o->out, "ids");
    o->offsets_path = sibling_path(o->out, "offsets");
    return o->ids_path && o->offsets_path ? CLI_OK : cli_error(CLI_NO_MEMORY, "out of memory");
}

/* ---- files ---- */

static int open_files(struct similarity_command *o, const ea_result *r)
{
    bool ragged = o->with_threshold;
    uint64_t zero = 0;
    uint64_t total = ragged ? NPY_ROWS_UNKNOWN : o->queries.total;
    if (!npy_writer_open(&o->scores, o->out, NPY_WRITE_FLOAT32, ragged ? 1 : 2, total,
                         ragged ? 1 : r->columns))
        return cli_file_error(o->scores.error);
    if (!npy_writer_open(&o->ids, o->ids_path, NPY_WRITE_UINT64, 1,
                         ragged ? NPY_ROWS_UNKNOWN : r->columns, 1))
        return cli_file_error(o->ids.error);
    if (!ragged && !npy_writer_append(&o->ids, r->ids, r->columns))
        return cli_file_error(o->ids.error);
    if (ragged && (!npy_writer_open(&o->offsets, o->offsets_path, NPY_WRITE_UINT64, 1,
                                    o->queries.total + 1, 1) ||
                   !npy_writer_append(&o->offsets, &zero, 1)))
        return cli_file_error(o->offsets.error);
    return CLI_OK;
}

static int write_files(struct similarity_command *o, const ea_result *r, uint64_t q)
{
    int code = o->done == 0 ? open_files(o, r) : CLI_OK;
    if (code) return code;
    if (!o->with_threshold) {
        if (!npy_writer_append(&o->scores, r->scores, q)) return cli_file_error(o->scores.error);
        return CLI_OK;
    }
    if (!npy_writer_append(&o->scores, r->scores, r->offsets[q]))
        return cli_file_error(o->scores.error);
    if (!npy_writer_append(&o->ids, r->ids, r->offsets[q])) return cli_file_error(o->ids.error);
    for (uint64_t i = 1; i <= q; i++) {
        uint64_t offset = o->matches + r->offsets[i];
        if (!npy_writer_append(&o->offsets, &offset, 1)) return cli_file_error(o->offsets.error);
    }
    return CLI_OK;
}

static int finish_files(struct similarity_command *o, struct cli *cli)
{
    if (!npy_writer_finish(&o->scores)) return cli_file_error(o->scores.error);
    if (!npy_writer_finish(&o->ids)) return cli_file_error(o->ids.error);
    if (o->with_threshold && !npy_writer_finish(&o->offsets))
        return cli_file_error(o->offsets.error);
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_u64(&j, "queries", o->done);
        json_string(&j, "scores_file", o->out);
        json_string(&j, "ids_file", o->ids_path);
        if (o->with_threshold) {
            json_string(&j, "offsets_file", o->offsets_path);
            json_u64(&j, "matches", o->matches);
        } else {
            json_u64(&j, "columns", o->columns);
        }
        meta_total_json(&o->meta, &j);
        json_end(&j);
    } else if (o->with_threshold) {
        printf("%s  float32  %" PRIu64 "\n%s  uint64  %" PRIu64 "\n%s  uint64  %" PRIu64 "\n",
               o->out, o->matches, o->ids_path, o->matches, o->offsets_path, o->done + 1);
    } else {
        printf("%s  float32  %" PRIu64 " x %" PRIu64 "\n%s  uint64  %" PRIu64 "\n", o->out, o->done,
               o->columns, o->ids_path, o->columns);
    }
    return CLI_OK;
}

/* ---- printing ---- */

struct scored {
    uint64_t id;
    float score;
};

/* As knn ranks: equal scores by id. */
static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int by_distance(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void print_query(struct similarity_command *o, struct cli *cli, const ea_meta *meta,
                        const uint64_t *ids, const float *scores, uint64_t n)
{
    static const char *const heads[] = {">id", ">score", NULL};
    struct json j;
    struct text score;
    if (!cli->json) {
        struct table *t = table_create(heads);
        cli_head("query", "", o->done, NULL);
        for (uint64_t i = 0; i < n; i++) {
            table_cell(t, "%" PRIu64, ids[i]);
            table_cell(t, "%s", format_score(&score, scores[i]));
        }
        cli_table_print(t);
        table_destroy(t);
        return;
    }
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_u64(&j, "query", o->done);
    json_array(&j, "ids");
    for (uint64_t i = 0; i < n; i++)
        json_id(&j, NULL, ids[i]);
    json_end(&j);
    json_array(&j, "scores");
    for (uint64_t i = 0; i < n; i++)
        json_float(&j, NULL, scores[i]);
    json_end(&j);
    meta_json(meta, &j);
    json_end(&j);
}

/* With --best: the best of them alone, in order. */
static int print_best(struct similarity_command *o, struct cli *cli, const ea_meta *meta,
                      const uint64_t *ids, const float *scores, uint64_t n)
{
    struct scored *list = reallocarray(NULL, n + 1, sizeof *list);
    uint64_t *best_ids = reallocarray(NULL, n + 1, sizeof *best_ids);
    float *best_scores = reallocarray(NULL, n + 1, sizeof *best_scores);
    bool ok = list && best_ids && best_scores;
    for (uint64_t i = 0; ok && i < n; i++)
        list[i] = (struct scored){ids[i], scores[i]};
    if (ok)
        qsort(list, n, sizeof *list, o->metric == EA_SQUARED_EUCLIDEAN ? by_distance : by_score);
    uint64_t most = o->best < n ? o->best : n;
    for (uint64_t i = 0; ok && i < most; i++) {
        best_ids[i] = list[i].id;
        best_scores[i] = list[i].score;
    }
    if (ok) print_query(o, cli, meta, best_ids, best_scores, most);
    free(list);
    free(best_ids);
    free(best_scores);
    return ok ? CLI_OK : cli_error(CLI_NO_MEMORY, "out of memory");
}

static int take_reply(struct similarity_command *o, struct cli *cli, const ea_result *r, uint64_t q)
{
    if (o->done == 0) {
        o->columns = r->columns;
        o->version = r->meta->version;
    } else if (o->out && !o->with_threshold && r->meta->version != o->version) {
        return cli_error(CLI_REFUSED,
                         "%s changed while it was asked, so columns no longer mean the "
                         "same ids; ask again",
                         o->name);
    }
    meta_total_add(&o->meta, r->meta);
    int code = o->out ? write_files(o, r, q) : CLI_OK;
    if (o->with_threshold) o->matches += r->offsets[q];
    for (uint64_t i = 0; i < q && !code; i++, o->done++) {
        if (o->out) continue;
        uint64_t at = o->with_threshold ? r->offsets[i] : i * r->columns;
        uint64_t n = o->with_threshold ? r->offsets[i + 1] - at : r->columns;
        const uint64_t *ids = o->with_threshold ? r->ids + at : r->ids;
        if (o->best)
            code = print_best(o, cli, r->meta, ids, r->scores + at, n);
        else
            print_query(o, cli, r->meta, ids, r->scores + at, n);
    }
    return code;
}

static int ask(struct similarity_command *o, struct cli *cli)
{
    ea_filter filter = {.ids = o->allow.list, .id_count = o->allow.count};
    const float *rows;
    uint64_t n;
    struct long_call call;
    int code;
    progress_start(&o->progress, o->queries.total, 4 * (uint64_t)o->queries.dimension, clock_ns());
    if (!o->out && isatty(STDOUT_FILENO)) o->progress.shown = false;
    while (!(code = queries_next(&o->queries, &rows, &n)) && n) {
        long_call_begin(&call, cli);
        ea_status status = ea_similarity(
            cli->client,
            &(ea_similarity_question){.collection = o->name,
                                      .queries = rows,
                                      .query_count = n,
                                      .dimension = o->queries.dimension,
                                      .filter = o->allow_path ? &filter : NULL,
                                      .threshold = o->with_threshold ? &o->threshold : NULL},
            &o->result);
        if (status) progress_finish(&o->progress);
        code = long_call_end(&call, cli, status, o->name, "what was asked before is all");
        if (code) return code;
        code = take_reply(o, cli, &o->result, n);
        if (code) return code;
        progress_show(&o->progress, o->done, clock_ns());
    }
    progress_finish(&o->progress);
    if (!code && o->out) code = finish_files(o, cli);
    if (!code) meta_total_print(&o->meta, o->done, o->done == 1 ? "query" : "queries");
    return code;
}

static int similarity_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct similarity_command o = {0};
    cli_parse(cli, self, &o, argc, argv);
    int code = open_all(&o, cli);
    if (!code) code = ask(&o, cli);
    npy_writer_abandon(&o.scores);
    npy_writer_abandon(&o.ids);
    npy_writer_abandon(&o.offsets);
    ea_result_free(&o.result);
    queries_close(&o.queries);
    ids_free(&o.allow);
    free(o.ids_path);
    free(o.offsets_path);
    return code;
}

const struct command command_similarity = {
    "similarity",
    "every query's score with every row",
    "NAME",
    "Score each query against every row of a collection. Prints a table for each query (with "
    "--json a line for each), or writes files.\v"
    "With --threshold and --out, FILE.npy and FILE.ids.npy hold the matches of all queries one "
    "after the other, and FILE.offsets.npy where each query's begin.",
    similarity_options,
    similarity_parse,
    similarity_run};
