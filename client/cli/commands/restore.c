/* restore: what a snapshot has, into a daemon that runs: each object is made under a hidden name
 * from checked pieces, and gets its own at one instant. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/replacement.h"
#include "client/cli/files/snapshot.h"
#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"

#define BLOCK_BYTES (8u << 20) /* of a request, unless the daemon allows less */
#define EDGES_MOST  (1u << 21) /* that are read before they are sent */

enum { OPTION_AS = 256, OPTION_DRY, OPTION_KEY };

struct restore {
    struct cli *cli; /* whose space is that of the object at hand */
    const char *path, *from, *as, *key_path;
    bool replace, dry_run;
    struct snapshot snapshot;
    struct progress progress;
    struct replacement replacement;
    uint64_t bytes, done; /* of what is chosen */
    uint64_t restored;
    struct json json;
};

static const struct argp_option restore_options[] = {
    {"as", OPTION_AS, "SPACE", 0, "Put what --space had into this one", 0},
    {"replace", 'r', NULL, 0, "What has the same name is replaced, at one instant", 0},
    {"dry-run", OPTION_DRY, NULL, 0, "Only say what would be restored", 0},
    {"key-file", OPTION_KEY, "FILE", 0, "The key that it must be signed with (persist.key_file)",
     0},
    {0}};

static error_t restore_parse(int key, char *value, struct argp_state *state)
{
    struct restore *r = state->input;
    switch (key) {
    case OPTION_AS: r->as = value; return 0;
    case 'r': r->replace = true; return 0;
    case OPTION_DRY: r->dry_run = true; return 0;
    case OPTION_KEY: r->key_path = value; return 0;
    case ARGP_KEY_ARG:
        if (r->path) argp_error(state, "unexpected argument '%s'", value);
        r->path = value;
        return 0;
    case ARGP_KEY_END:
        if (!r->path) argp_error(state, "a snapshot's DIR is needed, or that of several");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---------------------------------------------------------------- reading */

static bool is_chosen(const struct restore *r, const struct snapshot_entry *e)
{
    return !r->from || strcmp(r->from, e->space) == 0;
}

static int cannot_read(struct restore *r)
{
    return r->snapshot.damaged ? cli_error(CLI_REFUSED, "damaged: %s", r->snapshot.error)
                               : cli_file_error(r->snapshot.error);
}

static int failed(struct restore *r, ea_status status, const struct snapshot_entry *e)
{
    char what[160];
    progress_finish(&r->progress);
    snprintf(what, sizeof what, "%s/%s", r->cli->space, e->name);
    return cli_failed(r->cli, status, what);
}

/* What was read and sent; Ctrl-C ends it between two requests. */
static int advance(struct restore *r, uint64_t bytes)
{
    r->done += bytes;
    progress_show(&r->progress, r->done, clock_ns());
    return interrupt_seen() ? CLI_INTERRUPTED : CLI_OK;
}

static int read_whole(struct restore *r, const struct snapshot_file *file, void **out)
{
    struct snapshot_reader reader;
    uint64_t bytes = file->bytes - SNAPSHOT_HEAD_BYTES;
    *out = malloc(bytes ? bytes : 1);
    if (!*out) return cli_error(CLI_NO_MEMORY, "out of memory");
    bool fine = snapshot_reader_open(&reader, &r->snapshot, file, false) &&
                snapshot_reader_take(&reader, *out, bytes);
    snapshot_reader_close(&reader);
    return fine ? CLI_OK : cannot_read(r);
}

/* ---------------------------------------------------------------- collections */

struct rows_block {
    struct snapshot_reader ids, rows;
    uint64_t *id;
    float *row;
    uint64_t most; /* rows of a request */
};

static int send_rows(struct restore *r, const struct snapshot_entry *e, struct rows_block *b)
{
    int code = CLI_OK;
    for (uint64_t first = 0, n; !code && first < e->count; first += n) {
        n = e->count - first < b->most ? e->count - first : b->most;
        if (!snapshot_reader_take(&b->ids, b->id, n * 8) ||
            !snapshot_reader_take(&b->rows, b->row, n * 4 * e->dimension))
            return cannot_read(r);
        ea_rows rows = {.collection = r->replacement.hidden,
                        .ids = b->id,
                        .rows = b->row,
                        .count = n,
                        .dimension = e->dimension};
        ea_status status = ea_upsert(r->cli->client, &rows, NULL);
        code = status ? failed(r, status, e) : advance(r, n * (8 + 4 * (uint64_t)e->dimension));
    }
    return code;
}

static int restore_rows(struct restore *r, const struct snapshot_entry *e)
{
    struct rows_block b = {.ids = {.fd = -1}, .rows = {.fd = -1}};
    uint64_t body = r->cli->info.body_bytes_max, each = 8 + 4 * (uint64_t)e->dimension;
    ea_status status = ea_collection_create(r->cli->client, r->replacement.hidden, e->dimension,
                                            (ea_metric)e->metric, NULL);
    if (status) return failed(r, status, e);
    b.most = cli_fit(body < BLOCK_BYTES ? body : BLOCK_BYTES, 128, each, e->count + 1);
    b.id = malloc(b.most * 8);
    b.row = malloc(b.most * 4 * e->dimension);
    int code = b.id && b.row ? CLI_OK : cli_error(CLI_NO_MEMORY, "out of memory");
    if (!code && (!snapshot_reader_open(&b.ids, &r->snapshot, &e->files[0], false) ||
                  !snapshot_reader_open(&b.rows, &r->snapshot, &e->files[1], false)))
        code = cannot_read(r);
    if (!code) code = send_rows(r, e, &b);
    snapshot_reader_close(&b.ids);
    snapshot_reader_close(&b.rows);
    free(b.id);
    free(b.row);
    return code;
}

/* ---------------------------------------------------------------- graphs */

struct edges_block {
    uint64_t *ids, *offsets; /* of nodes */
    struct snapshot_reader targets, weights;
    uint64_t *source, *target;
    float *weight;
    uint64_t node; /* whose edges come next */
};

static int send_nodes(struct restore *r, const struct snapshot_entry *e, const uint64_t *ids)
{
    void *kinds = NULL, *factors = NULL;
    uint64_t body = r->cli->info.body_bytes_max;
    uint64_t most = cli_fit(body < BLOCK_BYTES ? body : BLOCK_BYTES, 256, 13, e->count + 1);
    int code = read_whole(r, &e->files[1], &kinds);
    if (!code) code = read_whole(r, &e->files[2], &factors);
    for (uint64_t first = 0, n; !code && first < e->count; first += n) {
        n = e->count - first < most ? e->count - first : most;
        ea_graph_nodes nodes = {.ids = ids + first,
                                .kinds = (uint8_t *)kinds + first,
                                .factors = (float *)factors + first,
                                .count = n};
        ea_status status = ea_graph_set_nodes(r->cli->client, r->replacement.hidden, &nodes, NULL);
        code = status ? failed(r, status, e) : advance(r, n * 13);
    }
    free(kinds);
    free(factors);
    return code;
}

static int send_edges(struct restore *r, const struct snapshot_entry *e, struct edges_block *b)
{
    int code = CLI_OK;
    for (uint64_t first = 0, n; !code && first < e->edges; first += n) {
        n = e->edges - first < EDGES_MOST ? e->edges - first : EDGES_MOST;
        if (!snapshot_reader_take(&b->targets, b->target, n * 8) ||
            !snapshot_reader_take(&b->weights, b->weight, n * 4))
            return cannot_read(r);
        for (uint64_t i = 0; i < n; i++) {
            while (b->node < e->count && b->offsets[b->node + 1] <= first + i)
                b->node++;
            if (b->node == e->count)
                return cli_error(CLI_REFUSED, "damaged: %s: offsets of edges are not all",
                                 e->files[3].name);
            b->source[i] = b->ids[b->node];
        }
        ea_graph_edges edges = {
            .sources = b->source, .targets = b->target, .weights = b->weight, .count = n};
        ea_status status = ea_graph_add_edges(r->cli->client, r->replacement.hidden, &edges, NULL);
        code = status ? failed(r, status, e) : advance(r, n * 12);
    }
    return code;
}

static int restore_graph(struct restore *r, const struct snapshot_entry *e)
{
    struct edges_block b = {.targets = {.fd = -1}, .weights = {.fd = -1}};
    uint64_t most = e->edges < EDGES_MOST ? e->edges + 1 : EDGES_MOST;
    ea_status status = ea_graph_create(r->cli->client, r->replacement.hidden, NULL);
    if (status) return failed(r, status, e);
    b.source = malloc(most * 8);
    b.target = malloc(most * 8);
    b.weight = malloc(most * 4);
    int code =
        b.source && b.target && b.weight ? CLI_OK : cli_error(CLI_NO_MEMORY, "out of memory");
    if (!code) code = read_whole(r, &e->files[0], (void **)&b.ids);
    if (!code) code = read_whole(r, &e->files[3], (void **)&b.offsets);
    if (!code) code = send_nodes(r, e, b.ids);
    if (!code && (!snapshot_reader_open(&b.targets, &r->snapshot, &e->files[4], false) ||
                  !snapshot_reader_open(&b.weights, &r->snapshot, &e->files[5], false)))
        code = cannot_read(r);
    if (!code) code = send_edges(r, e, &b);
    snapshot_reader_close(&b.targets);
    snapshot_reader_close(&b.weights);
    free(b.ids);
    free(b.offsets);
    free(b.source);
    free(b.target);
    free(b.weight);
    return code;
}

/* ---------------------------------------------------------------- attractors */

static int restore_attractor(struct restore *r, const struct snapshot_entry *e)
{
    void *weights = NULL;
    ea_attractor_shape shape = {
        .dimension = e->dimension, .sparsity = &e->sparsity, .rate = &e->rate};
    ea_status status = ea_attractor_create(r->cli->client, r->replacement.hidden, &shape, NULL);
    if (status) return failed(r, status, e);
    int code = read_whole(r, &e->files[0], &weights);
    if (!code) {
        status =
            ea_attractor_set(r->cli->client, r->replacement.hidden, weights, e->dimension, NULL);
        code = status ? failed(r, status, e) : advance(r, e->files[0].bytes);
    }
    free(weights);
    return code;
}

/* ---------------------------------------------------------------- each */

/* Connects in the space that the object comes into. */
static int enter_space(struct restore *r, const char *space)
{
    struct cli *cli = r->cli;
    if (cli->client && strcmp(cli->space, space) == 0) return CLI_OK;
    if (cli->client) ea_close(cli->client);
    cli->client = NULL;
    cli->space = space;
    return cli_info(cli);
}

static ea_status look_for(struct restore *r, const struct snapshot_entry *e)
{
    ea_client *c = r->cli->client;
    ea_collection_info rows;
    ea_graph_info graph;
    ea_attractor_info attractor;
    switch (e->kind) {
    case SNAPSHOT_COLLECTION: return ea_collection_describe(c, e->name, &rows);
    case SNAPSHOT_GRAPH: return ea_graph_describe(c, e->name, &graph);
    case SNAPSHOT_ATTRACTOR: return ea_attractor_describe(c, e->name, &attractor);
    }
    return EA_INTERNAL;
}

/* Whether every name is free, before anything is changed. */
static int check_names(struct restore *r)
{
    uint64_t taken = 0, chosen = 0;
    for (uint64_t i = 0; i < r->snapshot.count; i++) {
        const struct snapshot_entry *e = &r->snapshot.entries[i];
        if (!is_chosen(r, e)) continue;
        chosen++;
        r->bytes += e->bytes;
        int code = enter_space(r, r->as ? r->as : e->space);
        if (code) return code;
        ea_status status = look_for(r, e);
        if (status && status != EA_NOT_FOUND) return failed(r, status, e);
        if (status || r->replace) continue;
        taken++;
        cli_error(0, "%s/%s is there (--replace puts the snapshot's in its place)", r->cli->space,
                  e->name);
    }
    if (!chosen)
        return cli_error(CLI_REFUSED, "%s: nothing of %s is in it", r->snapshot.path,
                         r->from ? r->from : "any space");
    return taken ? cli_error(CLI_REFUSED, "nothing was restored") : CLI_OK;
}

static void tell(struct restore *r, const struct snapshot_entry *e)
{
    struct text a, b, c;
    if (r->cli->json) {
        json_init(&r->json, stdout);
        json_object(&r->json, NULL);
        json_string(&r->json, "space", r->cli->space);
        json_string(&r->json, "kind", snapshot_kinds[e->kind]);
        json_string(&r->json, "name", e->name);
        json_string(&r->json, "from", e->space);
        json_u64(&r->json, "bytes", e->bytes);
        if (r->dry_run)
            json_null(&r->json, "version");
        else
            json_u64(&r->json, "version", r->replacement.done.version);
        json_bool(&r->json, "replaced", r->replacement.done.replaced_version > 0);
        json_end(&r->json);
        return;
    }
    progress_finish(&r->progress);
    printf("%s/%s: %s, ", r->cli->space, e->name, snapshot_kinds[e->kind]);
    if (e->kind == SNAPSHOT_COLLECTION)
        printf("%s of %u", format_many(&a, e->count, "row"), e->dimension);
    else if (e->kind == SNAPSHOT_GRAPH)
        printf("%s, %s", format_many(&a, e->count, "node"), format_many(&b, e->edges, "edge"));
    else
        printf("%u x %u", e->dimension, e->dimension);
    printf(", %s%s%s\n", format_bytes(&c, e->bytes), r->dry_run ? " would come" : "",
           r->replacement.done.replaced_version ? ", in place of what was there" : "");
}

static int restore_one(struct restore *r, const struct snapshot_entry *e)
{
    static const ea_object objects[] = {EA_COLLECTION, EA_GRAPH, EA_ATTRACTOR};
    int code = enter_space(r, r->as ? r->as : e->space);
    replacement_name(&r->replacement);
    if (code || r->dry_run) {
        if (!code) tell(r, e);
        return code;
    }
    switch (e->kind) {
    case SNAPSHOT_COLLECTION: code = restore_rows(r, e); break;
    case SNAPSHOT_GRAPH: code = restore_graph(r, e); break;
    case SNAPSHOT_ATTRACTOR: code = restore_attractor(r, e); break;
    }
    if (!code && !r->replace && look_for(r, e) != EA_NOT_FOUND)
        code = cli_error(CLI_REFUSED, "%s/%s is there meanwhile", r->cli->space, e->name);
    if (!code) code = replacement_end(&r->replacement, r->cli, objects[e->kind], e->name);
    if (code) return code;
    r->restored++;
    tell(r, e);
    return CLI_OK;
}

static int restore_all(struct restore *r)
{
    int code = check_names(r);
    if (code) return code;
    interrupt_politely(true);
    progress_start(&r->progress, r->bytes, 0, clock_ns());
    for (uint64_t i = 0; i < r->snapshot.count && !code; i++)
        if (is_chosen(r, &r->snapshot.entries[i])) code = restore_one(r, &r->snapshot.entries[i]);
    progress_finish(&r->progress);
    if (code)
        cli_error(0, "%s: %" PRIu64 " of the snapshot's objects are in, whole",
                  code == CLI_INTERRUPTED ? "interrupted" : "stopped", r->restored);
    return code;
}

static int restore_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    static struct restore r;
    struct snapshot_key key = {0};
    char error[400];
    cli_parse(cli, self, &r, argc, argv);
    r.cli = cli;
    r.from = cli->space;
    if (r.as && !r.from)
        return cli_error(CLI_USAGE, "--as: --space SPACE says whose data are put there");
    if (r.key_path && !snapshot_key_read(r.key_path, &key, error, sizeof error))
        return cli_file_error(error);
    int code;
    if (snapshot_open(&r.snapshot, r.path, &key))
        code = restore_all(&r);
    else
        code = cannot_read(&r);
    /* a connection takes the hidden half with it, and the space's name is the snapshot's */
    ea_close(cli->client);
    cli->client = NULL;
    snapshot_close(&r.snapshot);
    return code;
}

const struct command command_restore = {
    "restore",
    "put what a snapshot has into the daemon",
    "DIR",
    "Read a snapshot, or the newest in a folder of them, from this machine and put its "
    "collections, graphs and attractors into a daemon that runs, each into the space that it was "
    "of; with --space only what that had, into --as if that is given.\v"
    "Each is read with its sums checked, made under a hidden name, and gets its own at one "
    "instant: nobody sees half of it, and nothing is changed if a name is taken, unless --replace "
    "says so. It needs no more rights than loading does, and counts against the space's quota like "
    "any data. For the daemon these are writes: its instance stays, and versions are new ones. To "
    "bring back a whole daemon with its versions, put the snapshot into persist.dir and start.",
    restore_options,
    restore_parse,
    restore_run};
