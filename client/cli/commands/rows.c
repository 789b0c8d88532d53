/* rows: fetch and delete, by id. */
#include "client/cli/commands/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"
#include "client/cli/files/ids.h"
#include "client/cli/files/npy_write.h"

#include <inttypes.h>
#include <stdlib.h>

#define REPLY_BYTES (16u << 20) /* bounds this process's memory */
#define DELETE_MAX  1000000u    /* ids of a request */
#define SHOWN       6u          /* numbers of a vector in a table */

struct rows_options {
    const char *name, *ids_path, *out;
    struct ids ids;
};

static const struct argp_option fetch_options[] = {
    {"ids", 'i', "FILE.npy", 0, "The ids, instead of or after those given", 0},
    {"out", 'o', "FILE.npy", 0, "Write the vectors (float32, a row for each id) to FILE.npy", 0},
    {0},
};
static const struct argp_option delete_options[] = {
    {"ids", 'i', "FILE.npy", 0, "The ids, instead of or after those given", 0},
    {0},
};

static error_t rows_parse(int key, char *text, struct argp_state *state)
{
    struct rows_options *o = state->input;
    switch (key) {
    case 'i': o->ids_path = text; break;
    case 'o': o->out = text; break;
    case ARGP_KEY_ARG: ids_add_behind(&o->ids, &o->name, state, text); break;
    case ARGP_KEY_END:
        if (!o->name) argp_error(state, "the collection's NAME is needed");
        if (!o->ids.count && !o->ids_path) argp_error(state, "ids or --ids FILE are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- fetch ---- */

struct rows_fetch {
    struct rows_options o;
    struct npy_writer writer;
    struct table *table;
    ea_result result;
    uint64_t done, missing, printed;
    struct progress progress;
};

/* All numbers: load reads it back. */
static void fetch_csv(bool head, uint64_t id, const float *row, uint64_t columns)
{
    if (head) fputs("id", stdout);
    for (uint64_t k = 0; head && k < columns; k++)
        printf(",%" PRIu64, k);
    printf("%s%" PRIu64, head ? "\n" : "", id);
    for (uint64_t k = 0; k < columns; k++)
        printf(",%.9g", (double)row[k]);
    putchar('\n');
}

static void fetch_print(struct rows_fetch *f, struct cli *cli, uint64_t n)
{
    const ea_result *r = &f->result;
    for (uint64_t i = 0; i < n; i++) {
        const float *row = r->vectors + i * r->columns;
        uint64_t id = f->o.ids.list[f->done + i];
        if (cli->json) {
            struct json j;
            json_init(&j, stdout);
            json_object(&j, NULL);
            json_id(&j, "id", id);
            json_bool(&j, "found", r->found[i]);
            if (r->found[i]) {
                json_array(&j, "vector");
                for (uint64_t k = 0; k < r->columns; k++)
                    json_float(&j, NULL, row[k]);
                json_end(&j);
            } else {
                json_null(&j, "vector");
            }
            json_end(&j);
            continue;
        }
        if (cli_prints_csv()) {
            if (r->found[i]) fetch_csv(f->printed++ == 0, id, row, r->columns);
            continue;
        }
        char numbers[SHOWN * 16 + 8] = "";
        for (uint64_t k = 0, at = 0; r->found[i] && k < r->columns && k <= SHOWN; k++)
            at += (uint64_t)(k == SHOWN ? snprintf(numbers + at, sizeof numbers - at, "...")
                                        : snprintf(numbers + at, sizeof numbers - at, "%.5g ",
                                                   (double)row[k]));
        table_cell(f->table, "%" PRIu64, id);
        table_cell(f->table, "%s", r->found[i] ? "yes" : "no");
        table_cell(f->table, "%s", numbers);
    }
}

static int fetch_all(struct rows_fetch *f, struct cli *cli)
{
    struct rows_options *o = &f->o;
    ea_collection_info about;
    ea_status status = ea_collection_describe(cli->client, o->name, &about);
    if (status) return cli_failed(cli, status, o->name);
    if (o->out &&
        !npy_writer_open(&f->writer, o->out, NPY_WRITE_FLOAT32, 2, o->ids.count, about.dimension))
        return cli_file_error(f->writer.error);

    uint64_t limit =
        cli->info.reply_bytes_max < REPLY_BYTES ? cli->info.reply_bytes_max : REPLY_BYTES;
    uint64_t most = cli_fit(limit, 256, 4 * (uint64_t)about.dimension + 9, UINT64_MAX);
    progress_start(&f->progress, o->ids.count, 4 * (uint64_t)about.dimension, clock_ns());
    while (f->done < o->ids.count) {
        uint64_t left = o->ids.count - f->done, n = left < most ? left : most;
        status = ea_fetch(cli->client, o->name, o->ids.list + f->done, n, &f->result);
        if (status) progress_finish(&f->progress);
        if (status) return cli_failed(cli, status, o->name);
        if (o->out && f->result.columns != about.dimension)
            return cli_error(CLI_REFUSED, "%s was made anew while it was read", o->name);
        if (!o->out)
            fetch_print(f, cli, n);
        else if (!npy_writer_append(&f->writer, f->result.vectors, n))
            return cli_file_error(f->writer.error);
        f->missing += f->result.missing;
        f->done += n;
        if (o->out || !(cli->json || cli_prints_csv())) /* else they are printed as they come */
            progress_show(&f->progress, f->done, clock_ns());
    }
    progress_finish(&f->progress);
    return CLI_OK;
}

static int fetch_finish(struct rows_fetch *f, struct cli *cli)
{
    struct text a, b;
    if (f->o.out && !npy_writer_finish(&f->writer)) return cli_file_error(f->writer.error);
    if (f->o.out && cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_string(&j, "file", f->o.out);
        json_u64(&j, "rows", f->done);
        json_u64(&j, "dimension", f->result.columns);
        json_u64(&j, "missing", f->missing);
        json_end(&j);
    } else if (f->o.out) {
        printf("%s  float32  %" PRIu64 " x %" PRIu64 "\n", f->o.out, f->done, f->result.columns);
    } else if (!cli->json && !cli_prints_csv()) {
        cli_table_print(f->table);
    }
    if (f->missing)
        cli_error(0, "%s of %s ids are not in %s%s", format_count(&a, f->missing),
                  format_count(&b, f->done), f->o.name, f->o.out ? "; their rows are zeros" : "");
    return CLI_OK;
}

static int fetch_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    static const char *const heads[] = {">id", "found", "vector", NULL};
    struct rows_fetch f = {.table = table_create(heads)};
    cli_parse(cli, self, &f.o, argc, argv);
    int code = f.o.ids_path ? ids_read(&f.o.ids, f.o.ids_path) : CLI_OK;
    if (!code) code = cli_info(cli);
    if (!code) code = fetch_all(&f, cli);
    if (!code) code = fetch_finish(&f, cli);
    npy_writer_abandon(&f.writer);
    ea_result_free(&f.result);
    table_destroy(f.table);
    ids_free(&f.o.ids);
    return code;
}

const struct command command_fetch = {
    "fetch",
    "stored vectors, by id",
    "NAME [ID...]",
    "Print stored vectors (a table shows their first numbers, --json all of them, a line for each "
    "id), or write them to a file.\v"
    "An id that is not in the collection is told on standard error and is not a failure; in the "
    "file its row is zeros.",
    fetch_options,
    rows_parse,
    fetch_run};

/* ---- delete ---- */

static int delete_all(struct rows_options *o, struct cli *cli)
{
    uint64_t deleted = 0, missing = 0;
    uint64_t most = cli_fit(cli->info.body_bytes_max, 256, 8, DELETE_MAX);
    struct text a, b;
    struct progress progress;
    int code = CLI_OK;
    progress_start(&progress, o->ids.count, 8, clock_ns());
    interrupt_politely(true); /* until the end: what was deleted is told */
    for (uint64_t done = 0; done < o->ids.count && !code;) {
        uint64_t left = o->ids.count - done, n = left < most ? left : most;
        ea_delete_counts gone;
        ea_next_write(cli->client, cli_expectation(cli));
        ea_status status = ea_delete(cli->client, o->name, o->ids.list + done, n, &gone);
        if (status) progress_finish(&progress);
        if (status && done)
            cli_error(0, "%s rows were deleted before this failed:", format_count(&a, deleted));
        if (status) return cli_failed(cli, status, o->name);
        cli->expects = false;
        deleted += gone.deleted;
        missing += gone.missing;
        progress_show(&progress, done += n, clock_ns());
        if (done < o->ids.count && interrupt_seen()) code = CLI_INTERRUPTED;
    }
    progress_finish(&progress);
    if (code) cli_error(code, "interrupted: what follows was done before");
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_u64(&j, "deleted", deleted);
        json_u64(&j, "missing", missing);
        json_end(&j);
    } else {
        printf("%s rows deleted, %s ids were not there\n", format_count(&a, deleted),
               format_count(&b, missing));
    }
    return code;
}

static int delete_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct rows_options o = {0};
    cli_parse(cli, self, &o, argc, argv);
    int code = o.ids_path ? ids_read(&o.ids, o.ids_path) : CLI_OK;
    if (!code) code = cli_info(cli);
    if (!code) code = delete_all(&o, cli);
    ids_free(&o.ids);
    return code;
}

const struct command command_delete = {
    "delete",
    "delete rows, by id",
    "NAME [ID...]",
    "Delete rows of a collection. An id that is not there is counted, not a failure.",
    delete_options,
    rows_parse,
    delete_run};
