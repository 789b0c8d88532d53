/* load: a file's vectors into a collection, a window of blocks at a time. */
#include "client/cli/commands/commands.h"
#include "client/cli/commands/replacement.h"
#include "client/cli/text/format.h"
#include "client/cli/interrupt.h"
#include "client/cli/text/progress.h"
#include "client/cli/files/vectors_file.h"

#include <inttypes.h>
#include <stdlib.h>

#define BLOCKS      4u                   /* read the next while the daemon takes the last */
#define BLOCK_BYTES (8u << 20)           /* of a request, unless the daemon allows less */
#define DRAIN_NS    UINT64_C(5000000000) /* after Ctrl-C, for what is on its way */

struct load_options {
    const char *name, *path, *ids_path;
    bool create, replace;
    ea_metric metric;
};

struct load;
struct block {
    struct load *load;
    float *rows;
    uint64_t *ids;
    uint64_t first, n; /* row of the file; rows in flight, 0 when the block is free */
};

struct load {
    struct cli *cli;
    struct load_options o;
    struct vectors_file file, ids;
    struct progress progress;
    struct block blocks[BLOCKS];
    uint64_t block_rows, sent, done; /* rows */
    bool with_ids;                   /* from a file, or beside the rows */
    bool made;                       /* by this command */
    struct replacement replacement;
    const char *into; /* whom it is loaded into: o.name, or a hidden one */
    int code;         /* of the first failure */
};

static const struct argp_option load_options[] = {
    {"ids", 'i', "FILE.npy", 0,
     "The rows' ids: 64 or 32 bit integers, one a row (default: 0, 1, 2 ...)", 0},
    {"create", 'c', NULL, 0, "Make the collection first; needs --metric", 0},
    {"replace", 'r', NULL, 0, "The file takes the place of the whole collection, at one instant",
     0},
    {"metric", 'm', "METRIC", 0,
     "Of the new collection: cosine, dot or l2 (with --replace the default is that of the old one)",
     0},
    {0},
};

static error_t load_parse(int key, char *text, struct argp_state *state)
{
    struct load_options *o = state->input;
    switch (key) {
    case 'i': o->ids_path = text; break;
    case 'c': o->create = true; break;
    case 'r': o->replace = true; break;
    case 'm': o->metric = cli_argument_metric(state, text); break;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1) argp_error(state, "unexpected argument '%s'", text);
        *(state->arg_num ? &o->path : &o->name) = text;
        break;
    case ARGP_KEY_END:
        if (!o->path) argp_error(state, "a collection's NAME and a FILE are needed");
        if (o->create && o->replace) argp_error(state, "give --create or --replace, not both");
        if (!o->replace && o->create != (o->metric != 0))
            argp_error(state, "--create and --metric go together");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void on_upsert(ea_client *c, const ea_answer *answer, void *user)
{
    struct block *b = user;
    struct load *l = b->load;
    if (answer->status == EA_OK) {
        l->done += b->n;
        if (!l->o.replace) l->cli->expects = false;
    } else if (l->code == CLI_OK) {
        char what[256];
        snprintf(what, sizeof what, "rows %" PRIu64 " to %" PRIu64 " of %.180s", b->first,
                 b->first + b->n - 1, l->o.path);
        l->code = cli_failed(l->cli, answer->status, what);
    }
    b->n = 0;
}

static int open_files(struct load *l)
{
    if (!vectors_file_open(&l->file, l->o.path, VECTORS_OF_FLOATS))
        return cli_file_error(l->file.error);
    if (l->file.ids && !l->o.ids_path) {
        FILE *ids = l->file.ids;
        l->file.ids = NULL;
        l->with_ids = true;
        if (!vectors_file_open_stream(&l->ids, ids, l->o.path, VECTORS_NPY, VECTORS_OF_IDS))
            return cli_file_error(l->ids.error);
    }
    if (!l->o.ids_path) return CLI_OK;
    l->with_ids = true;
    if (!vectors_file_open(&l->ids, l->o.ids_path, VECTORS_OF_IDS))
        return cli_file_error(l->ids.error);
    if (l->ids.columns != 1 || l->ids.rows != l->file.rows)
        return cli_error(CLI_FILE,
                         "%s: holds %" PRIu64 " x %" PRIu64 " ids; %s has %" PRIu64
                         " rows and needs as many ids",
                         l->o.ids_path, l->ids.rows, l->ids.columns, l->o.path, l->file.rows);
    return CLI_OK;
}

/* Makes the hidden collection that is to take the place of the one that is there, if any. */
static int begin_replacement(struct load *l)
{
    ea_client *c = l->cli->client;
    ea_collection_info info;
    ea_metric metric = l->o.metric;
    ea_status status = metric ? EA_OK : ea_collection_describe(c, l->o.name, &info);
    if (status == EA_NOT_FOUND)
        return cli_error(CLI_REFUSED, "%s: %s (--metric METRIC makes it)", l->o.name,
                         ea_error_text(c));
    if (status) return cli_failed(l->cli, status, l->o.name);
    replacement_name(&l->replacement);
    l->into = l->replacement.hidden;
    status = ea_collection_create(c, l->into, (uint32_t)l->file.columns,
                                  metric ? metric : info.metric, NULL);
    return status ? cli_failed(l->cli, status, l->o.name) : CLI_OK;
}

static int find_collection(struct load *l)
{
    ea_client *c = l->cli->client;
    ea_collection_info info;
    l->into = l->o.name;
    if (l->o.replace) return begin_replacement(l);
    uint32_t dimension = (uint32_t)l->file.columns;
    ea_status status = l->o.create
                           ? ea_collection_create(c, l->o.name, dimension, l->o.metric, &info)
                           : ea_collection_describe(c, l->o.name, &info);
    if (status == EA_ALREADY_EXISTS)
        return cli_error(CLI_REFUSED, "%s: %s (without --create the rows are added to it)",
                         l->o.name, ea_error_text(c));
    if (status == EA_NOT_FOUND)
        return cli_error(CLI_REFUSED, "%s: %s (--create --metric METRIC makes it)", l->o.name,
                         ea_error_text(c));
    if (status) return cli_failed(l->cli, status, l->o.name);
    l->made = l->o.create;
    if (info.dimension != dimension)
        return cli_error(CLI_REFUSED, "%s has dimension %u, %s has %u", l->o.path, dimension,
                         l->o.name, info.dimension);
    return CLI_OK;
}

static int make_blocks(struct load *l)
{
    uint64_t row_bytes = 4 * l->file.columns + 8, body = l->cli->info.body_bytes_max;
    uint64_t budget = body < BLOCK_BYTES ? body : BLOCK_BYTES;
    l->block_rows = cli_fit(budget, 128, row_bytes, l->file.rows);
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct block *b = &l->blocks[i];
        b->load = l;
        b->rows = malloc(l->block_rows * 4 * l->file.columns);
        b->ids = malloc(l->block_rows * 8);
        if (!b->rows || !b->ids) return cli_error(CLI_NO_MEMORY, "out of memory");
    }
    return CLI_OK;
}

static int send_block(struct load *l, struct block *b)
{
    uint64_t n, ids;
    if (!vectors_file_read(&l->file, b->rows, l->block_rows, &n))
        return cli_file_error(l->file.error);
    if (l->with_ids) {
        if (!vectors_file_read_ids(&l->ids, b->ids, n, &ids)) return cli_file_error(l->ids.error);
    } else {
        for (uint64_t i = 0; i < n; i++)
            b->ids[i] = l->sent + i;
    }
    b->first = l->sent;
    b->n = n;
    ea_status status =
        ea_upsert_send(l->cli->client,
                       &(ea_rows){.collection = l->into,
                                  .ids = b->ids,
                                  .rows = b->rows,
                                  .count = n,
                                  .write = l->o.replace ? NULL : cli_expectation(l->cli),
                                  .dimension = (uint32_t)l->file.columns},
                       &(ea_send_options){.callback = on_upsert, .user = b}, NULL);
    if (status) {
        b->n = 0;
        return cli_failed(l->cli, status, l->o.path);
    }
    l->sent += n;
    return CLI_OK;
}

/* NULL: none; or the others wait for what the first expects. */
static struct block *free_block(struct load *l)
{
    if (l->cli->expects && !l->o.replace && l->sent) return NULL;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (l->blocks[i].n == 0) return &l->blocks[i];
    return NULL;
}

/* Sends until the file ends, something fails or Ctrl-C; then waits for what is on its way. */
static int transfer(struct load *l)
{
    ea_client *c = l->cli->client;
    while (l->sent < l->file.rows && l->code == CLI_OK && !interrupt_seen()) {
        struct block *b = free_block(l);
        int code = b ? send_block(l, b) : CLI_OK;
        if (code && l->code == CLI_OK) l->code = code;
        ea_pump(c, (b && l->sent < l->file.rows ? 0 : 100) * INT64_C(1000));
        progress_show(&l->progress, l->done, clock_ns());
    }
    uint64_t stopped_ns = clock_ns();
    while (ea_pending(c) > 0) {
        if (interrupt_seen() && clock_ns() - stopped_ns > DRAIN_NS) break;
        ea_pump(c, 100000);
        progress_show(&l->progress, l->done, clock_ns());
    }
    progress_finish(&l->progress);
    if (l->code == CLI_OK && interrupt_seen() && l->done < l->file.rows) l->code = CLI_INTERRUPTED;
    return l->code;
}

/* What was loaded takes its place. Nothing that is half there ever does. */
static int put_in_place(struct load *l)
{
    if (interrupt_seen()) return CLI_INTERRUPTED;
    return replacement_end(&l->replacement, l->cli, EA_COLLECTION, l->o.name);
}

/* Says what became of rows that are not all in. */
static void report_stopped(const struct load *l)
{
    struct text a, b;
    const char *how = l->code == CLI_INTERRUPTED ? "interrupted" : "stopped";
    if (l->o.replace) {
        cli_error(0, "%s: %s is as it was", how, l->o.name);
        return;
    }
    const char *again = l->o.create ? "load without --create" : "the same command";
    bool interrupted = l->code == CLI_INTERRUPTED;
    cli_error(0, "%s: %s of %s rows of %s are in%s%s%s%s", how, format_count(&a, l->done),
              format_count(&b, l->file.rows), l->o.path,
              interrupted && l->sent > l->done ? ", others may be" : "", interrupted ? " (" : "",
              interrupted ? again : "", interrupted ? " goes on)" : "");
}

static void report(struct load *l)
{
    struct text a, b, c, d;
    uint64_t ns = clock_ns() - l->progress.start_ns, bytes = l->done * 4 * l->file.columns;
    uint64_t rate = ns ? (uint64_t)((double)bytes / ((double)ns / 1e9)) : 0;
    ea_collection_info info;
    /* How many were new: best effort, as someone else may be writing too. */
    bool known =
        l->code == CLI_OK && ea_collection_describe(l->cli->client, l->o.name, &info) == EA_OK;
    if (l->cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_string(&j, "collection", l->o.name);
        json_string(&j, "file", l->o.path);
        json_u64(&j, "rows_loaded", l->done);
        json_u64(&j, "rows_in_file", l->file.rows);
        json_u64(&j, "dimension", l->file.columns);
        if (known) json_u64(&j, "rows_in_collection", info.rows);
        json_u64(&j, "bytes", bytes);
        json_u64(&j, "ns", ns);
        json_bool(&j, "replaced", l->replacement.done.replaced_version > 0);
        json_bool(&j, "complete", l->code == CLI_OK);
        json_end(&j);
    } else if (l->code == CLI_OK) {
        printf("%s: %s rows of %" PRIu64 " loaded in %s, %s/s", l->o.name,
               format_count(&a, l->done), l->file.columns, format_ns(&b, ns),
               format_bytes(&c, rate));
        if (l->replacement.done.replaced_version) printf(" in place of what was there");
        if (known) printf("; the collection has %s", format_count(&d, info.rows));
        putchar('\n');
    }
    if (l->code != CLI_OK) report_stopped(l);
}

/* Else --create would be refused when the command is repeated. After Ctrl-C the rows stay. */
static void drop_again(struct load *l)
{
    ea_status status = ea_collection_drop(l->cli->client, l->o.name);
    if (status)
        cli_failed(l->cli, status, "what --create made could not be dropped again");
    else
        cli_error(0, "%s, which --create made, was dropped again: nothing is left", l->o.name);
}

static int load_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct load *l = calloc(1, sizeof *l);
    if (!l) return cli_error(CLI_NO_MEMORY, "out of memory");
    l->cli = cli;
    cli_parse(cli, self, &l->o, argc, argv);

    int code = open_files(l);
    if (!code) code = cli_info(cli);
    if (!code) code = find_collection(l);
    if (!code) code = make_blocks(l);
    if (!code) {
        interrupt_politely(true); /* until the end: what was loaded is told */
        progress_start(&l->progress, l->file.rows, 4 * l->file.columns, clock_ns());
        code = transfer(l);
        if (!code && l->o.replace) code = l->code = put_in_place(l);
        report(l);
    }
    if (l->made && code && code != CLI_INTERRUPTED) drop_again(l);
    /* The blocks lie under requests that may still wait: the handle goes first. */
    ea_close(cli->client);
    cli->client = NULL;
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(l->blocks[i].rows);
        free(l->blocks[i].ids);
    }
    vectors_file_close(&l->file);
    vectors_file_close(&l->ids);
    free(l);
    return code;
}

const struct command command_load = {
    "load",
    "load a file of vectors into a collection",
    "NAME FILE",
    "Load the vectors of FILE (.npy of float32, float64 or float16; .npz; .fvecs; .fbin; .csv; "
    ".jsonl; - is standard input) into a collection. A row whose id is there already replaces it.\v"
    "The file is streamed, so it may be larger than memory. Ctrl-C stops after the rows that are "
    "on their way and says how many are in; loading again replaces them. A collection "
    "that --create made is dropped again if the load fails. --replace loads beside the collection "
    "that is there, which needs room for both, and then puts the new one in its place: nobody ever "
    "sees half, and after an error or Ctrl-C the old one is as it was.",
    load_options,
    load_parse,
    load_run};
