#include "client/cli/commands/cue.h"

#include "client/cli/long_call.h"
#include "client/cli/text/format.h"
#include "client/cli/commands/nodes_fetch.h"

#include <inttypes.h>

#define QUERIES_MAX 1024u       /* of a request */
#define REPLY_BYTES (16u << 20) /* bounds this process's memory */

struct cue_hits {
    struct cue *cue;
    struct seeds all; /* before strangers are left out */
    struct seeds *seeds;
};

static int open_queries(struct cue *cue, struct cli *cli)
{
    ea_collection_info about;
    ea_status status = ea_collection_describe(cli->client, cue->collection, &about);
    if (status) return cli_failed(cli, status, cue->collection);
    if (about.metric == EA_SQUARED_EUCLIDEAN)
        return cli_error(CLI_REFUSED,
                         "--cue: %s is compared by l2, whose distances are no activations; cosine "
                         "and dot are",
                         cue->collection);
    int code = cue->queries_path ? queries_open_file(&cue->queries, cue->queries_path)
                                 : queries_open_stored(&cue->queries, cli, cue->collection,
                                                       cue->query_ids.list, cue->query_ids.count);
    uint64_t reply = cli->info.reply_bytes_max, each = 12 * (uint64_t)cue->k + 4;
    uint64_t by_reply = cli_fit(reply < REPLY_BYTES ? reply : REPLY_BYTES, 256, each, QUERIES_MAX);
    uint64_t by_body =
        cli_fit(cli->info.body_bytes_max, 256, 4 * (uint64_t)about.dimension, by_reply);
    return code ? code : queries_prepare(&cue->queries, cue->collection, about.dimension, by_body);
}

static int collect(struct cue_hits *h, const ea_result *r, uint64_t first)
{
    for (uint64_t q = 0; q < r->rows; q++)
        for (uint64_t i = 0; i < r->counts[q]; i++) {
            float score = r->scores[q * r->columns + i];
            h->cue->found++;
            if (!(score > 0))
                h->cue->unlike++;
            else if (!seeds_add(&h->all, first + q, r->ids[q * r->columns + i], score))
                return cli_file_error(h->all.error);
        }
    return CLI_OK;
}

static int find_similar(struct cue_hits *h, struct cli *cli)
{
    struct cue *cue = h->cue;
    ea_result result = {0};
    const float *rows;
    uint64_t n, done = 0;
    int code;
    struct long_call call;
    while (!(code = queries_next(&cue->queries, &rows, &n)) && n) {
        long_call_begin(&call, cli);
        ea_status status = ea_knn(cli->client,
                                  &(ea_knn_question){.collection = cue->collection,
                                                     .queries = rows,
                                                     .query_count = n,
                                                     .dimension = cue->queries.dimension,
                                                     .k = cue->k},
                                  &result);
        code = long_call_end(&call, cli, status, cue->collection, "nothing was found");
        if (!code) code = collect(h, &result, done);
        if (code) break;
        meta_total_add(&cue->meta, result.meta);
        done += n;
    }
    ea_result_free(&result);
    return code;
}

static int keep_nodes(const ea_nodes *part, uint64_t first, void *user)
{
    struct cue_hits *h = user;
    for (uint64_t i = 0; i < part->count; i++) {
        const struct seed *seed = &h->all.list[first + i];
        if (!part->found[i])
            h->cue->strangers++;
        else if (!seeds_add(h->seeds, seed->set, seed->id, seed->activation))
            return cli_file_error(h->seeds->error);
    }
    return CLI_OK;
}

/* Seeds come set by set, so a set that is missing shows as a gap. */
static int check_sets(const struct cue *cue, const struct seeds *seeds, const char *graph)
{
    size_t at = 0;
    for (uint64_t set = 0; set < cue->queries.total; set++) {
        if (at == seeds->count || seeds->list[at].set != set) {
            bool stored = !cue->queries_path;
            return cli_error(CLI_REFUSED,
                             "--cue: none of the %" PRIu32 " rows of %s nearest to query %s%" PRIu64
                             " is a node of %s and similar",
                             cue->k, cue->collection, stored ? "id " : "",
                             stored ? cue->query_ids.list[set] : set, graph);
        }
        while (at < seeds->count && seeds->list[at].set == set)
            at++;
    }
    return CLI_OK;
}

int cue_ask(struct cue *cue, struct cli *cli, const char *graph, struct seeds *seeds)
{
    struct cue_hits h = {.cue = cue, .seeds = seeds};
    int code = open_queries(cue, cli);
    if (!code) code = find_similar(&h, cli);
    if (!code && !seeds_arrange(&h.all)) code = cli_file_error(h.all.error);
    if (!code) code = nodes_fetch(cli, graph, h.all.ids, h.all.count, false, keep_nodes, &h);
    if (!code) code = check_sets(cue, seeds, graph);
    seeds_free(&h.all);
    return code;
}

void cue_print(const struct cue *cue, const char *graph)
{
    struct text a, b, c;
    meta_total_print(&cue->meta, cue->queries.total, cue->queries.total == 1 ? "query" : "queries");
    if (cue->unlike + cue->strangers == 0) return;
    cli_error(0, "%s left out: %s not similar (scores of 0 or less), %s not in %s",
              format_many(&a, cue->unlike + cue->strangers, "row"), format_count(&b, cue->unlike),
              format_count(&c, cue->strangers), graph);
}

void cue_finish(struct cue *cue)
{
    queries_close(&cue->queries);
    ids_free(&cue->query_ids);
}
