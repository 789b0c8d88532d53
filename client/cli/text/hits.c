#include "client/cli/text/hits.h"

#include "client/cli/text/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int hits_open(struct hits *h, struct cli *cli, const char *prefix, const char *names_path,
              uint64_t queries_total, uint64_t query_bytes)
{
    static const char *const heads[] = {">rank", ">id", ">score", "name", NULL};
    static const char *const bare[] = {">rank", ">id", ">score", NULL};
    h->cli = cli;
    h->prefix = prefix;
    h->total = queries_total;
    h->named = names_path != NULL;
    progress_start(&h->progress, queries_total, query_bytes, clock_ns());
    if (!prefix && isatty(STDOUT_FILENO)) h->progress.shown = false;
    if (names_path && !names_open(&h->names, names_path)) return cli_file_error(h->names.error);
    h->table = table_create(names_path ? heads : bare);
    if (!h->table) return cli_error(CLI_NO_MEMORY, "out of memory");
    if (!prefix) return CLI_OK;
    if (asprintf(&h->ids_path, "%s.ids.npy", prefix) < 0) h->ids_path = NULL;
    if (asprintf(&h->scores_path, "%s.scores.npy", prefix) < 0) h->scores_path = NULL;
    return h->ids_path && h->scores_path ? CLI_OK : cli_error(CLI_NO_MEMORY, "out of memory");
}

static void print_table(struct hits *h, const uint64_t *ids, const float *scores, uint64_t n)
{
    struct text score;
    const char *name;
    if (h->query_ids)
        cli_head("query", "id ", h->query_ids[h->done],
                 names_find(&h->names, h->query_ids[h->done]));
    else
        cli_head("query", "", h->done, NULL);
    for (uint64_t i = 0; i < n; i++) {
        table_cell(h->table, "%" PRIu64, i + 1);
        table_cell(h->table, "%" PRIu64, ids[i]);
        table_cell(h->table, "%s", format_score(&score, scores[i]));
        if (!h->named) continue;
        name = names_find(&h->names, ids[i]);
        table_cell(h->table, "%s", name ? name : "");
    }
    cli_table_print(h->table);
}

static void print_json(struct hits *h, const ea_meta *meta, const uint64_t *ids,
                       const float *scores, uint64_t n)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_u64(&j, "query", h->done);
    if (h->query_ids) json_id(&j, "query_id", h->query_ids[h->done]);
    json_array(&j, "hits");
    for (uint64_t i = 0; i < n; i++) {
        json_object(&j, NULL);
        json_id(&j, "id", ids[i]);
        json_float(&j, "score", scores[i]);
        if (h->named) json_string(&j, "name", names_find(&h->names, ids[i]));
        json_end(&j);
    }
    json_end(&j);
    meta_json(meta, &j);
    json_end(&j);
}

static int open_files(struct hits *h, uint64_t columns)
{
    h->columns = columns;
    h->row = malloc(columns * 8 + 1);
    if (!h->row) return cli_error(CLI_NO_MEMORY, "out of memory");
    if (!npy_writer_open(&h->ids, h->ids_path, NPY_WRITE_UINT64, 2, h->total, columns))
        return cli_file_error(h->ids.error);
    if (!npy_writer_open(&h->scores, h->scores_path, NPY_WRITE_FLOAT32, 2, h->total, columns))
        return cli_file_error(h->scores.error);
    return CLI_OK;
}

/* The collection, and so the width of replies, may change between two requests; the files keep the
 * width of the first reply. A shorter row is padded as the daemon pads one. */
static int write_row(struct hits *h, const uint64_t *ids, const float *scores, uint64_t n)
{
    uint64_t *id_row = h->row;
    float *score_row = h->row;
    if (n > h->columns) n = h->columns;
    for (uint64_t i = 0; i < h->columns; i++)
        id_row[i] = i < n ? ids[i] : EA_NO_ID;
    if (!npy_writer_append(&h->ids, id_row, 1)) return cli_file_error(h->ids.error);
    for (uint64_t i = 0; i < h->columns; i++)
        score_row[i] = i < n ? scores[i] : NAN;
    if (!npy_writer_append(&h->scores, score_row, 1)) return cli_file_error(h->scores.error);
    return CLI_OK;
}

int hits_add(struct hits *h, const ea_meta *meta, uint64_t q, uint64_t columns, const uint64_t *ids,
             const float *scores, const uint32_t *counts)
{
    meta_total_add(&h->meta, meta);
    if (h->prefix && h->done == 0) {
        int code = open_files(h, columns);
        if (code) return code;
    }
    for (uint64_t i = 0; i < q; i++, h->done++, ids += columns, scores += columns) {
        uint64_t n = counts ? counts[i] : columns;
        if (h->prefix) {
            int code = write_row(h, ids, scores, n);
            if (code) return code;
        } else if (h->cli->json) {
            print_json(h, meta, ids, scores, n);
        } else {
            print_table(h, ids, scores, n);
        }
    }
    progress_show(&h->progress, h->done, clock_ns());
    return CLI_OK;
}

int hits_finish(struct hits *h)
{
    progress_finish(&h->progress);
    if (h->prefix) {
        if (!npy_writer_finish(&h->ids)) return cli_file_error(h->ids.error);
        if (!npy_writer_finish(&h->scores)) return cli_file_error(h->scores.error);
    }
    if (h->prefix && h->cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_u64(&j, "queries", h->done);
        json_u64(&j, "columns", h->columns);
        json_string(&j, "ids_file", h->ids_path);
        json_string(&j, "scores_file", h->scores_path);
        meta_total_json(&h->meta, &j);
        json_end(&j);
    } else if (h->prefix) {
        printf("%s  uint64   %" PRIu64 " x %" PRIu64 "\n%s  float32  %" PRIu64 " x %" PRIu64 "\n",
               h->ids_path, h->done, h->columns, h->scores_path, h->done, h->columns);
    }
    meta_total_print(&h->meta, h->done, h->done == 1 ? "query" : "queries");
    return CLI_OK;
}

void hits_close(struct hits *h)
{
    progress_finish(&h->progress);
    npy_writer_abandon(&h->ids);
    npy_writer_abandon(&h->scores);
    names_close(&h->names);
    table_destroy(h->table);
    free(h->ids_path);
    free(h->scores_path);
    free(h->row);
}
