/* engine_cues: the files, the requests, and what is printed. */
#include "client/cli/commands/engine_cues.h"

#include "client/cli/files/npy_write.h"
#include "client/cli/files/vectors_file.h"
#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/meta_total.h"
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <stdlib.h>

#define BLOCK_BYTES (16u << 20) /* of cues, or of states, of a request */

struct engine_run {
    const struct engine_cues *asked;
    struct vectors_file cues, mask;
    float *block;
    uint8_t *known;
    uint64_t most, done;
    struct npy_writer writer;
    struct progress progress;
    struct meta_total meta;
    struct table *table;
    ea_engine_completed result;
};

static int open_files(struct engine_run *a)
{
    if (!vectors_file_open(&a->cues, a->asked->cues_path, VECTORS_OF_FLOATS))
        return cli_file_error(a->cues.error);
    a->cues.any_number = a->asked->mask_path != NULL;
    if (a->asked->mask_path && !vectors_file_open(&a->mask, a->asked->mask_path, VECTORS_OF_MARKS))
        return cli_file_error(a->mask.error);
    if (a->asked->mask_path &&
        (a->mask.columns != a->cues.columns || (a->mask.rows != 1 && a->mask.rows != a->cues.rows)))
        return cli_error(CLI_FILE,
                         "%s: %" PRIu64 " x %" PRIu64 ", and %s has %" PRIu64 " x %" PRIu64,
                         a->asked->mask_path, a->mask.rows, a->mask.columns, a->asked->cues_path,
                         a->cues.rows, a->cues.columns);
    if (a->asked->out && !npy_writer_open(&a->writer, a->asked->out, NPY_WRITE_FLOAT32, 2,
                                          a->cues.rows, a->cues.columns))
        return cli_file_error(a->writer.error);
    return CLI_OK;
}

/* A mask of one row is read once, and stays. */
static int read_mask(struct engine_run *a, uint64_t n)
{
    uint64_t got = 0;
    bool once = a->mask.rows == 1;
    if (!a->asked->mask_path || (once && a->done)) return CLI_OK;
    if (vectors_file_read_marks(&a->mask, a->known, once ? 1 : n, &got)) return CLI_OK;
    return cli_file_error(a->mask.error);
}

/* Of the next n cues, which are read already, what is known must be finite. */
static int check_known(struct engine_run *a, uint64_t n)
{
    int code = read_mask(a, n);
    uint64_t step = a->mask.rows == 1 ? 0 : a->cues.columns;
    if (code || !a->asked->mask_path) return code;
    if (vectors_file_check_known(&a->cues, a->block, n, a->known, step)) return CLI_OK;
    return cli_file_error(a->cues.error);
}

static int take_memory(struct engine_run *a, const struct cli *cli)
{
    uint64_t d = a->cues.columns, body = cli->info.body_bytes_max;
    uint64_t reply = cli->info.reply_bytes_max;
    a->most = cli_fit(body < BLOCK_BYTES ? body : BLOCK_BYTES, 256, 5 * d, a->cues.rows);
    a->most = cli_fit(reply < BLOCK_BYTES ? reply : BLOCK_BYTES, 512, 4 * d + 32, a->most);
    a->block = malloc(a->most * d * sizeof *a->block);
    a->known = a->asked->mask_path ? malloc(a->most * d) : NULL;
    if (a->block && (!a->asked->mask_path || a->known)) return CLI_OK;
    return cli_error(CLI_NO_MEMORY, "out of memory");
}

static void print_json(const struct engine_run *a, uint64_t i)
{
    const ea_engine_completed *r = &a->result;
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_u64(&j, "cue", a->done + i);
    json_u64(&j, "rounds", r->rounds[i]);
    json_bool(&j, "converged", r->converged[i]);
    json_float(&j, "confidence", r->confidences[i]);
    if (a->asked->collection && r->ids[i] != EA_NO_ID) {
        json_id(&j, "id", r->ids[i]);
        json_float(&j, "cosine", r->cosines[i]);
        json_bool(&j, "passes", r->passes[i]);
    } else if (a->asked->collection) {
        json_null(&j, "id");
    }
    json_end(&j);
}

static void print_row(const struct engine_run *a, uint64_t i)
{
    const ea_engine_completed *r = &a->result;
    struct text x;
    table_cell(a->table, "%" PRIu64, a->done + i);
    table_cell(a->table, "%" PRIu32, r->rounds[i]);
    table_cell(a->table, "%s", r->converged[i] ? "yes" : "no");
    table_cell(a->table, "%.6g", (double)r->confidences[i]);
    if (!a->asked->collection) return;
    bool none = r->ids[i] == EA_NO_ID;
    if (none)
        table_cell(a->table, "-");
    else
        table_cell(a->table, "%" PRIu64, r->ids[i]);
    table_cell(a->table, "%s", none ? "-" : format_score(&x, r->cosines[i]));
    table_cell(a->table, "%s", r->passes[i] ? "yes" : "no");
}

static int complete_block(struct engine_run *a, struct cli *cli)
{
    uint64_t n, each = a->cues.columns;
    if (!vectors_file_read(&a->cues, a->block, a->most, &n)) return cli_file_error(a->cues.error);
    int code = check_known(a, n);
    if (code) return code;
    ea_status status =
        ea_complete_engine(cli->client,
                           &(ea_engine_question){.attractor = a->asked->attractor,
                                                 .cues = a->block,
                                                 .count = n,
                                                 .dimension = (uint32_t)each,
                                                 .mask = a->known,
                                                 .mask_rows = a->mask.rows == 1 ? 1 : n,
                                                 .collection = a->asked->collection},
                           &a->result);
    if (status) {
        char what[96];
        progress_finish(&a->progress);
        snprintf(what, sizeof what, "cues from %" PRIu64 " on", a->done);
        return cli_failed(cli, status, a->done ? what : a->asked->attractor);
    }
    meta_total_add(&a->meta, a->result.meta);
    if (a->asked->out && !npy_writer_append(&a->writer, a->result.states, n))
        return cli_file_error(a->writer.error);
    for (uint64_t i = 0; i < n; i++) {
        if (cli->json)
            print_json(a, i);
        else
            print_row(a, i);
    }
    a->done += n;
    progress_show(&a->progress, a->done, clock_ns());
    return a->done < a->cues.rows && interrupt_seen() ? CLI_INTERRUPTED : CLI_OK;
}

static int complete_all(struct engine_run *a, struct cli *cli)
{
    static const char *const plain[] = {">cue", ">rounds", "converged", ">confidence", NULL};
    static const char *const nearest[] = {">cue", ">rounds", "converged", ">confidence",
                                          ">id",  ">cosine", "passes",    NULL};
    int code = take_memory(a, cli);
    if (code) return code;
    if (!cli->json) a->table = table_create(a->asked->collection ? nearest : plain);
    progress_start(&a->progress, a->cues.rows, a->cues.columns * sizeof(float), clock_ns());
    while (!code && a->done < a->cues.rows)
        code = complete_block(a, cli);
    progress_finish(&a->progress);
    if (!code && a->asked->out && !npy_writer_finish(&a->writer))
        code = cli_file_error(a->writer.error);
    if (!code && !cli->json) {
        cli_table_print(a->table);
        meta_total_print(&a->meta, a->done, a->done == 1 ? "cue" : "cues");
    }
    return code;
}

int engine_cues_run(struct cli *cli, const struct engine_cues *asked)
{
    struct engine_run a = {.asked = asked};
    int code = open_files(&a);
    if (!code) code = cli_info(cli);
    if (!code) code = complete_all(&a, cli);
    npy_writer_abandon(&a.writer);
    vectors_file_close(&a.cues);
    vectors_file_close(&a.mask);
    table_destroy(a.table);
    ea_engine_completed_free(&a.result);
    free(a.block);
    free(a.known);
    return code;
}
