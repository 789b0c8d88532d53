/* cluster: clusters of the similar rows of a collection. */
#include "client/cli/commands/commands.h"
#include "client/cli/files/arrays.h"
#include "client/cli/files/ids.h"
#include "client/cli/long_call.h"
#include "client/cli/text/format.h"
#include "client/cli/text/meta_total.h"
#include "client/cli/text/names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct cluster_command {
    const char *name, *ids_path, *times_path, *names_path, *out, *into;
    ea_cluster_rule rule;
    float threshold, threshold_second, score_min;
    bool has_threshold, has_threshold_second, has_score_min, has_into_first;
    uint32_t size_min, clusters_max; /* 0: not given */
    uint64_t into_first, shown;
    bool dry_run;
    struct ids ids;
    float *times;
    uint64_t time_count;
    struct names names;
    ea_clusters result;
};

enum {
    OPTION_RULE = 0x700,
    OPTION_IDS,
    OPTION_TIMES,
    OPTION_THRESHOLD,
    OPTION_SECOND,
    OPTION_SCORE,
    OPTION_SIZE,
    OPTION_CLUSTERS,
    OPTION_INTO,
    OPTION_FIRST,
    OPTION_NAMES,
    OPTION_SHOW,
    OPTION_DRY
};

static const struct argp_option cluster_options[] = {
    {"rule", OPTION_RULE, "RULE", 0,
     "centroid: by the cosine of centroids (the default); average: by the mean similarity of "
     "members",
     0},
    {"ids", OPTION_IDS, "FILE.npy", 0,
     "Cluster the rows with these ids, in this order (default: all, by rising id)", 0},
    {"times", OPTION_TIMES, "FILE.npy", 0,
     "With --rule=average: the rows' times in hours, in the same order", 0},
    {"threshold", OPTION_THRESHOLD, "X", 0,
     "Merge while the best pair has at least this, -1 to 1 (default: 0.8; average: 0.55)", 0},
    {"second-threshold", OPTION_SECOND, "X", 0,
     "With --rule=centroid: merge what is large enough while above this (default: 0.9)", 0},
    {"score-min", OPTION_SCORE, "X", 0,
     "Leave out clusters with a lower score, -1 to 1 (default: -1; average: 0.65)", 0},
    {"size-min", OPTION_SIZE, "N", 0, "Leave out clusters of fewer rows (default: 3)", 0},
    {"clusters-max", OPTION_CLUSTERS, "N", 0,
     "Keep the best N clusters (default: 100; average: all)", 0},
    {"into", OPTION_INTO, "COLLECTION", 0, "Store the centroids in COLLECTION", 0},
    {"into-first", OPTION_FIRST, "ID", 0, "The id of the first of them (default: 0)", 0},
    {"out", 'o', "PREFIX", 0,
     "Write PREFIX.ids.npy and PREFIX.labels.npy (uint64, a row each; 2^64-1: no cluster), "
     "PREFIX.sizes.npy (uint64), PREFIX.scores.npy and PREFIX.centroids.npy (float32)",
     0},
    {"names", OPTION_NAMES, "FILE", 0,
     "What ids are called: lines of ID<TAB>NAME, or a line for each id from 0", 0},
    {"show", OPTION_SHOW, "N", 0, "Print the first N members of each (default: 5)", 0},
    {"dry-run", OPTION_DRY, NULL, 0, "Only say how long it would take, as far as can be told", 0},
    {0},
};

static float fraction(struct argp_state *state, const char *what, const char *text, bool *given)
{
    *given = true;
    return (float)cli_argument_number(state, what, text, -1, 1);
}

static void parse_rule(struct cluster_command *o, const char *text, struct argp_state *state)
{
    o->rule = strcmp(text, "average") == 0 ? EA_CLUSTER_AVERAGE : EA_CLUSTER_CENTROID;
    if (o->rule == EA_CLUSTER_CENTROID && strcmp(text, "centroid") != 0)
        argp_error(state, "--rule: there is no rule '%s'; centroid and average are", text);
}

static void check_options(const struct cluster_command *o, struct argp_state *state)
{
    bool average = o->rule == EA_CLUSTER_AVERAGE;
    if (!o->name) argp_error(state, "the collection's NAME is needed");
    if (average && o->has_threshold_second)
        argp_error(state, "--second-threshold is for --rule=centroid");
    if (!average && o->times_path) argp_error(state, "--times is for --rule=average");
    if (o->has_into_first && !o->into) argp_error(state, "--into-first is for --into");
}

static error_t cluster_parse(int key, char *text, struct argp_state *state)
{
    struct cluster_command *o = state->input;
    switch (key) {
    case OPTION_RULE: parse_rule(o, text, state); break;
    case OPTION_IDS: o->ids_path = text; break;
    case OPTION_TIMES: o->times_path = text; break;
    case OPTION_THRESHOLD:
        o->threshold = fraction(state, "--threshold", text, &o->has_threshold);
        break;
    case OPTION_SECOND:
        o->threshold_second = fraction(state, "--second-threshold", text, &o->has_threshold_second);
        break;
    case OPTION_SCORE:
        o->score_min = fraction(state, "--score-min", text, &o->has_score_min);
        break;
    case OPTION_SIZE:
        o->size_min = (uint32_t)cli_argument_u64(state, "--size-min", text, 1, UINT32_MAX);
        break;
    case OPTION_CLUSTERS:
        o->clusters_max = (uint32_t)cli_argument_u64(state, "--clusters-max", text, 1, UINT32_MAX);
        break;
    case OPTION_INTO: o->into = text; break;
    case OPTION_FIRST:
        o->into_first = cli_argument_u64(state, "--into-first", text, 0, UINT64_MAX);
        o->has_into_first = true;
        break;
    case 'o': o->out = text; break;
    case OPTION_NAMES: o->names_path = text; break;
    case OPTION_SHOW: o->shown = cli_argument_u64(state, "--show", text, 0, 1000); break;
    case OPTION_DRY: o->dry_run = true; break;
    case ARGP_KEY_ARG:
        if (state->arg_num) argp_error(state, "unexpected argument '%s'", text);
        o->name = text;
        break;
    case ARGP_KEY_END: check_options(o, state); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int ask(struct cluster_command *o, struct cli *cli)
{
    const ea_cluster_question question = {
        .collection = o->name,
        .ids = o->ids.list,
        .count = o->ids.count,
        .times = o->times,
        .time_count = o->time_count,
        .rule = o->rule,
        .threshold = o->has_threshold ? &o->threshold : NULL,
        .threshold_second = o->has_threshold_second ? &o->threshold_second : NULL,
        .score_min = o->has_score_min ? &o->score_min : NULL,
        .size_min = o->size_min ? &o->size_min : NULL,
        .clusters_max = o->clusters_max ? &o->clusters_max : NULL,
        .into = o->into,
        .into_first = o->into_first,
        .write = o->into ? cli_expectation(cli) : NULL,
        .dry_run = o->dry_run,
    };
    struct long_call call;
    long_call_begin(&call, cli);
    ea_status status = ea_cluster(cli->client, &question, &o->result);
    if (!status) cli->expects = false;
    return long_call_end(&call, cli, status, o->name, "nothing was clustered, nothing stored");
}

/* ---- what comes out ---- */

static uint64_t id_of(const struct cluster_command *o, uint64_t row)
{
    return o->ids.list ? o->ids.list[row] : o->result.ids[row];
}

struct out_path {
    char text[4096];
};

static const char *path_of(struct out_path *p, const char *prefix, const char *what)
{
    snprintf(p->text, sizeof p->text, "%s.%s.npy", prefix, what);
    return p->text;
}

static int write_one(const char *prefix, const char *what, enum npy_write_type type, unsigned axes,
                     const void *data, uint64_t rows, uint64_t columns)
{
    struct out_path p;
    return arrays_write(path_of(&p, prefix, what), type, axes, rows, columns, data);
}

/* Whether all of them can be: a clustering may take hours, and store its centroids. */
static int files_writable(const char *prefix)
{
    static const char *const what[] = {"ids", "labels", "sizes", "scores", "centroids"};
    struct out_path p;
    int code = CLI_OK;
    for (size_t i = 0; i < sizeof what / sizeof *what && !code; i++)
        code = arrays_writable(path_of(&p, prefix, what[i]));
    return code;
}

/* Numbers of 32 bits as numbers of 64. */
static int write_wide(const char *prefix, const char *what, const uint32_t *numbers, uint64_t count)
{
    uint64_t *wide = malloc((count + 1) * sizeof *wide);
    if (!wide) return cli_error(CLI_NO_MEMORY, "%s: out of memory", prefix);
    for (uint64_t i = 0; i < count; i++)
        wide[i] = numbers[i] == EA_NO_CLUSTER ? UINT64_MAX : numbers[i];
    int code = write_one(prefix, what, NPY_WRITE_UINT64, 1, wide, count, 1);
    free(wide);
    return code;
}

static int write_files(const struct cluster_command *o)
{
    const ea_clusters *r = &o->result;
    const uint64_t *ids = o->ids.list ? o->ids.list : r->ids;
    int code = write_one(o->out, "ids", NPY_WRITE_UINT64, 1, ids, r->rows, 1);
    if (!code) code = write_wide(o->out, "labels", r->labels, r->rows);
    if (!code) code = write_wide(o->out, "sizes", r->sizes, r->count);
    if (!code) code = write_one(o->out, "scores", NPY_WRITE_FLOAT32, 1, r->scores, r->count, 1);
    if (!code)
        code = write_one(o->out, "centroids", NPY_WRITE_FLOAT32, 2, r->centroids, r->count,
                         r->dimension);
    return code;
}

/* Rows by cluster, each in input order: those of cluster i are [ends[i - 1], ends[i]). */
struct members {
    uint64_t *ends, *rows;
};

static bool members_find(const ea_clusters *r, struct members *m)
{
    uint64_t sum = 0;
    m->ends = calloc(r->count + 1, sizeof *m->ends);
    m->rows = calloc(r->rows + 1, sizeof *m->rows);
    if (!m->ends || !m->rows) return false;
    for (uint64_t row = 0; row < r->rows; row++)
        if (r->labels[row] != EA_NO_CLUSTER) m->ends[r->labels[row]]++;
    for (uint64_t i = 0; i < r->count; i++) {
        uint64_t here = m->ends[i];
        m->ends[i] = sum;
        sum += here;
    }
    for (uint64_t row = 0; row < r->rows; row++)
        if (r->labels[row] != EA_NO_CLUSTER) m->rows[m->ends[r->labels[row]]++] = row;
    return true;
}

static void tell_json(const struct cluster_command *o, const struct members *m, uint64_t i)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_u64(&j, "cluster", i);
    json_u64(&j, "size", o->result.sizes[i]);
    json_float(&j, "score", o->result.scores[i]);
    json_array(&j, "members");
    for (uint64_t at = i ? m->ends[i - 1] : 0; at < m->ends[i]; at++)
        json_id(&j, NULL, id_of(o, m->rows[at]));
    json_end(&j);
    meta_json(o->result.meta, &j);
    json_end(&j);
}

/* "dog, cat, ..." */
static void tell_members(const struct cluster_command *o, const struct members *m, uint64_t i,
                         char *text, size_t bytes)
{
    uint64_t first = i ? m->ends[i - 1] : 0, end = m->ends[i];
    size_t used = 0;
    text[0] = '\0';
    for (uint64_t at = first; at < end && used < bytes; at++) {
        uint64_t id = id_of(o, m->rows[at]);
        const char *name = o->names_path ? names_find(&o->names, id) : NULL, *gap = ", ";
        if (at == first) gap = "";
        if (at == first + o->shown)
            used += (size_t)snprintf(text + used, bytes - used, "%s...", gap);
        if (at == first + o->shown) return;
        used += name ? (size_t)snprintf(text + used, bytes - used, "%s%s", gap, name)
                     : (size_t)snprintf(text + used, bytes - used, "%s%" PRIu64, gap, id);
    }
}

static int tell(const struct cluster_command *o, const struct cli *cli)
{
    static const char *const heads[] = {">cluster", ">size", ">score", "members", NULL};
    struct table *table = cli->json ? NULL : table_create(heads);
    struct members m = {0};
    int code = CLI_OK;
    if (!members_find(&o->result, &m) || (!cli->json && !table))
        code = cli_error(CLI_NO_MEMORY, "out of memory");
    for (uint64_t i = 0; i < o->result.count && !code; i++) {
        struct text score;
        char members[512];
        if (cli->json) {
            tell_json(o, &m, i);
            continue;
        }
        tell_members(o, &m, i, members, sizeof members);
        table_cell(table, "%" PRIu64, i);
        table_cell(table, "%" PRIu32, o->result.sizes[i]);
        table_cell(table, "%s", format_score(&score, o->result.scores[i]));
        table_cell(table, "%s", members);
    }
    if (table && !code) cli_table_print(table);
    table_destroy(table);
    free(m.ends), free(m.rows);
    return code;
}

static void tell_rest(const struct cluster_command *o, const struct cli *cli)
{
    const ea_clusters *r = &o->result;
    struct meta_total total = {0};
    struct text rows, merges;
    meta_total_add(&total, r->meta);
    if (!cli->json && o->into)
        printf("%s: %" PRIu64 " inserted, %" PRIu64 " replaced\n", o->into, r->inserted,
               r->replaced);
    fprintf(stderr, "%s, %s, %.2f scans a merge\n", format_many(&rows, r->rows, "row"),
            format_many(&merges, r->merges, "merge"),
            r->merges ? (double)r->scans / (double)r->merges : 0.0);
    meta_total_print(&total, r->count, r->count == 1 ? "cluster" : "clusters");
}

static int cluster_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct cluster_command o = {.rule = EA_CLUSTER_CENTROID, .shown = 5};
    cli_parse(cli, self, &o, argc, argv);
    if (cli->expects && !o.into) return cli_error(CLI_USAGE, "--expect belongs to --into");
    int code = o.ids_path ? ids_read(&o.ids, o.ids_path) : CLI_OK;
    if (!code && o.times_path)
        code = arrays_read_column(o.times_path, "one time a row", &o.times, &o.time_count);
    if (!code && o.names_path && !names_open(&o.names, o.names_path))
        code = cli_file_error(o.names.error);
    if (!code) code = cli_connect(cli);
    if (!code && o.out && !o.dry_run) code = files_writable(o.out);
    if (!code) code = ask(&o, cli);
    bool dry = !code && o.dry_run;
    if (dry) long_call_predicted(cli, o.name, o.result.meta, "nothing was clustered");
    if (!code && !dry && o.out) code = write_files(&o);
    if (!code && !dry) code = tell(&o, cli);
    if (!code && !dry) tell_rest(&o, cli);
    ea_clusters_free(&o.result);
    names_close(&o.names);
    ids_free(&o.ids);
    free(o.times);
    return code;
}

const struct command command_cluster = {
    "cluster",
    "clusters of similar rows",
    "NAME",
    "Cluster the rows of the collection NAME. Prints the clusters, the largest first, with their "
    "first members (with --json an object each, with all of them).\v"
    "A row begins as a cluster of its own; the two nearest are merged while they are near enough. "
    "The score of a cluster is its strength, the mean cosine of its members to their mean; with "
    "--rule=average its coherence, the mean similarity of its members.",
    cluster_options,
    cluster_parse,
    cluster_run};
