/* spread: activation from seeds through a graph. */
#include "client/cli/commands/commands.h"
#include "client/cli/long_call.h"
#include "client/cli/commands/cue.h"
#include "client/cli/commands/spread_rule.h"
#include "client/cli/text/dot.h"
#include "client/cli/text/svg.h"
#include "client/cli/text/format.h"
#include "client/cli/text/spread_print.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TOP_SHOWN 20u    /* unless asked otherwise; JSON has all */
#define SETS_MAX  65536u /* of one request */

struct spread {
    const char *name, *seeds_path, *within_path, *names_path, *dot_path, *svg_path;
    struct seeds seeds;
    struct cue cue;
    const char *picture; /* where it goes; NULL: there is none */
    bool picture_only;   /* it takes the table's place */
    struct ids within;
    struct names names;
    struct decay decay;
    float thresholds[3];
    uint32_t threshold_count;
    bool with_top;
    ea_filter filter;
    ea_spread_options options;
    ea_spread_result result;
};

enum {
    OPTION_SEEDS = 0x500,
    OPTION_CUE,
    OPTION_QUERY_ID,
    OPTION_HOPS,
    OPTION_DECAY,
    OPTION_FAN,
    OPTION_NO_KINDS,
    OPTION_EMBEDDINGS,
    OPTION_LAST_HOP,
    OPTION_WITHIN,
    OPTION_PATHS,
    OPTION_TOUCHED_MAX,
    OPTION_TIME_MAX,
    OPTION_NAMES,
    OPTION_DOT,
    OPTION_SVG
};

static const struct argp_option spread_options[] = {
    {"seed", 's', "ID[=A]", 0,
     "Begin at node ID with activation A (default: 1; capped at 1); may be given again", 0},
    {"seeds", OPTION_SEEDS, "FILE", 0,
     "Seeds from lines of ID [ACTIVATION [SET]]; each set is spread by itself", 0},
    {"cue", OPTION_CUE, "COLLECTION", 0,
     "Begin at the nodes whose vectors are nearest to a query: --query FILE or --query-id ID", 0},
    {"query", 'q', "FILE", 0, "Of --cue: vectors (.npy, .fvecs or .fbin); each row is a set", 0},
    {"query-id", OPTION_QUERY_ID, "ID", 0,
     "Of --cue: ask with the stored vector of ID instead; may be given again", 0},
    {NULL, 'k', "N", 0, "Of --cue: how many nodes to begin at (default: 10)", 0},
    {"mode", 'm', "MODE", 0, "engram (the default) or linear: docs/spreading.md has the rules", 0},
    {"hops", OPTION_HOPS, "N", 0, "How far, 1..100 (default: 4)", 0},
    {"decay", OPTION_DECAY, "LAW", 0,
     "How activation fades with each hop: exponential:P (the default, 0.7), power:P, linear:P, "
     "table:F1,F2,... or constant",
     0},
    {"threshold", 't', "T[,W,C]", 0,
     "Activation below which a node is passed over (default: 0.01); engram: of seeds, of nodes "
     "within 2 hops (0.05), of those beyond (0.1)",
     0},
    {"fan", OPTION_FAN, "EFFECT", 0,
     "engram: none (the default), sqrt or divide what a concept sends by its edges", 0},
    {"no-kinds", OPTION_NO_KINDS, NULL, 0, "engram: kinds of nodes do not matter", 0},
    {"embeddings", OPTION_EMBEDDINGS, "COLLECTION", 0,
     "engram: from depth 1 to depth 2, edges of nodes that have 16 or more of them weigh what the "
     "vectors of their ends in COLLECTION are alike",
     0},
    {"last-hop", OPTION_LAST_HOP, NULL, 0,
     "linear: activation after the last hop alone, not that of all hops", 0},
    {"within", OPTION_WITHIN, "FILE.npy", 0, "Only the nodes whose ids are in FILE", 0},
    {"touched-max", OPTION_TOUCHED_MAX, "N", 0, "End when N nodes are touched", 0},
    {"time-max-ms", OPTION_TIME_MAX, "MS", 0, "End after so long; fractions are fine", 0},
    {"top", 'n', "N", 0, "The N most active nodes of each set; 0: all (default: 20; --json: all)",
     0},
    {"paths", OPTION_PATHS, NULL, 0, "Show how activation first came to each node", 0},
    {"names", OPTION_NAMES, "FILE", 0,
     "What ids are called: lines of ID<TAB>NAME, or a line for each id from 0", 0},
    {"svg", OPTION_SVG, "FILE", 0,
     "The same as a picture that a browser shows; - is standard output, instead of the table", 0},
    {"dot", OPTION_DOT, "FILE", 0,
     "Draw the nodes shown and the edges among them, for Graphviz; '-': on standard output, "
     "instead of the table",
     0},
    {0},
};

static void take_mode(struct spread *o, struct argp_state *state, const char *text)
{
    if (strcmp(text, "linear") == 0)
        o->options.mode = EA_LINEAR;
    else if (strcmp(text, "engram") == 0)
        o->options.mode = EA_ENGRAM;
    else
        argp_error(state, "--mode: '%s' is not linear or engram", text);
}

static void take_fan(struct spread *o, struct argp_state *state, const char *text)
{
    static const char *const names[] = {"none", "sqrt", "divide"}; /* by ea_fan */
    unsigned i = 0;
    while (i < 3 && strcmp(names[i], text) != 0)
        i++;
    if (i == 3) argp_error(state, "--fan: '%s' is not none, sqrt or divide", text);
    o->options.fan = (ea_fan)i;
}

static void check_options(struct spread *o, struct argp_state *state)
{
    ea_spread_options *s = &o->options;
    unsigned origins = (o->seeds.count > 0) + !!o->seeds_path + !!o->cue.collection;
    unsigned queries = !!o->cue.queries_path + (o->cue.query_ids.count > 0);
    if (!o->name) argp_error(state, "the graph's NAME is needed");
    if (origins != 1) argp_error(state, "give one of --seed, --seeds and --cue");
    if (o->cue.collection && queries != 1) argp_error(state, "--cue: give --query or --query-id");
    if (!o->cue.collection && (queries || o->cue.k))
        argp_error(state, "--query, --query-id and -k need --cue COLLECTION");
    if (!o->cue.k) o->cue.k = 10;
    if (s->mode == EA_ENGRAM && s->last_hop) argp_error(state, "--last-hop needs --mode linear");
    if (s->last_hop && s->paths)
        argp_error(state, "--paths tells of the first touch, --last-hop of the last; give one");
    if (s->mode == EA_LINEAR && (s->fan || s->ignore_kinds || s->embeddings))
        argp_error(state, "--fan, --no-kinds and --embeddings need --mode engram");
    if (s->mode == EA_LINEAR && o->threshold_count > 1)
        argp_error(state, "--threshold: linear has one threshold");
    spread_rule_table(state, &o->decay, s);
}

static error_t parse_rule(int key, char *text, struct argp_state *state)
{
    struct spread *o = state->input;
    ea_spread_options *s = &o->options;
    switch (key) {
    case 'm': take_mode(o, state, text); break;
    case OPTION_HOPS: s->hops = (uint32_t)cli_argument_u64(state, "--hops", text, 1, 100); break;
    case OPTION_DECAY: spread_rule_decay(state, text, &o->decay, s); break;
    case 't':
        o->threshold_count = spread_rule_thresholds(state, "--threshold", text, o->thresholds, s);
        break;
    case OPTION_FAN: take_fan(o, state, text); break;
    case OPTION_NO_KINDS: s->ignore_kinds = true; break;
    case OPTION_EMBEDDINGS: s->embeddings = text; break;
    case OPTION_LAST_HOP: s->last_hop = true; break;
    case OPTION_WITHIN: o->within_path = text; break;
    case OPTION_TOUCHED_MAX:
        s->touched_max = cli_argument_u64(state, "--touched-max", text, 1, UINT64_MAX);
        break;
    case OPTION_TIME_MAX:
        s->time_max_us =
            (uint64_t)(cli_argument_number(state, "--time-max-ms", text, 0.001, 1e12) * 1000 + 0.5);
        break;
    case 'n':
        o->with_top = true;
        s->k = (uint32_t)cli_argument_u64(state, "--top", text, 0, UINT32_MAX);
        break;
    case OPTION_PATHS: s->paths = true; break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static error_t spread_parse(int key, char *text, struct argp_state *state)
{
    struct spread *o = state->input;
    switch (key) {
    case 's':
        if (!seeds_add_text(&o->seeds, text)) argp_error(state, "--seed: %s", o->seeds.error);
        break;
    case OPTION_SEEDS: o->seeds_path = text; break;
    case OPTION_CUE: o->cue.collection = text; break;
    case 'q': o->cue.queries_path = text; break;
    case OPTION_QUERY_ID: ids_add_text(&o->cue.query_ids, state, text); break;
    case 'k': o->cue.k = (uint32_t)cli_argument_u64(state, "-k", text, 1, UINT32_MAX); break;
    case OPTION_NAMES: o->names_path = text; break;
    case OPTION_DOT: o->dot_path = text; break;
    case OPTION_SVG: o->svg_path = text; break;
    case ARGP_KEY_ARG:
        if (state->arg_num) argp_error(state, "unexpected argument '%s'", text);
        o->name = text;
        break;
    case ARGP_KEY_END: check_options(o, state); break;
    default: return parse_rule(key, text, state);
    }
    return 0;
}

/* The global --json may stand after the command's options, so that it is known only here. */
static int settle(struct spread *o, const struct cli *cli)
{
    if (!o->with_top) o->options.k = cli->json ? 0 : TOP_SHOWN;
    if (o->dot_path && o->svg_path) return cli_error(CLI_USAGE, "give --dot or --svg, not both");
    o->picture = o->svg_path ? o->svg_path : o->dot_path;
    o->picture_only = o->picture && strcmp(o->picture, "-") == 0;
    if (cli->json && o->picture_only)
        return cli_error(CLI_USAGE, "--%s - and --json both want standard output",
                         o->svg_path ? "svg" : "dot");
    return CLI_OK;
}

static int open_all(struct spread *o, struct cli *cli)
{
    int code = settle(o, cli);
    if (!code && o->seeds_path && !seeds_read(&o->seeds, o->seeds_path))
        code = cli_file_error(o->seeds.error);
    if (!code && o->within_path) code = ids_read(&o->within, o->within_path);
    if (!code && o->within_path && o->within.count == 0)
        code = cli_error(CLI_FILE, "%s: allows no node", o->within_path);
    if (!code && o->names_path && !names_open(&o->names, o->names_path))
        code = cli_file_error(o->names.error);
    if (!code) code = cli_info(cli);
    if (!code && o->cue.collection) code = cue_ask(&o->cue, cli, o->name, &o->seeds);
    if (!code && !seeds_arrange(&o->seeds)) code = cli_file_error(o->seeds.error);
    if (!code && o->seeds.sets > SETS_MAX)
        code = cli_error(CLI_USAGE, "%" PRIu64 " sets of seeds; %u can be asked at once",
                         o->seeds.sets, SETS_MAX);
    if (!code && o->picture && o->seeds.sets > 1)
        code =
            cli_error(CLI_USAGE, "--dot and --svg draw one set, here are %" PRIu64, o->seeds.sets);
    o->filter = (ea_filter){.ids = o->within.list, .id_count = o->within.count};
    if (o->within_path) o->options.within = &o->filter;
    return code;
}

static int write_svg(const struct spread *o, const struct dot *dot, const struct names *names)
{
    size_t bytes = 0;
    char *text = svg_draw(dot, o->name, names, &bytes);
    if (!text) return cli_error(CLI_NO_MEMORY, "--svg: out of memory");
    int code = dot_write(text, bytes, o->picture);
    free(text);
    return code;
}

static int show(struct spread *o, struct cli *cli)
{
    const struct names *names = o->names_path ? &o->names : NULL;
    struct spread_print print = {cli, o->name, names, &o->cue, &o->seeds, o->options.paths};
    struct meta_total meta = {0};
    struct dot dot = {0};
    int code = CLI_OK;
    if (o->picture) code = dot_draw(&dot, cli, o->name, &o->result, names);
    if (!code && o->dot_path) code = dot_write(dot.text, dot.bytes, o->picture);
    if (!code && o->svg_path) code = write_svg(o, &dot, names);
    if (!code && !o->picture_only) spread_print(&print, &o->result);
    if (!code && o->cue.collection) cue_print(&o->cue, o->name);
    if (!code) {
        meta_total_add(&meta, o->result.meta);
        meta_total_print(&meta, o->result.sets, o->result.sets == 1 ? "spread" : "spreads");
    }
    dot_free(&dot);
    return code;
}

static int spread_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct spread o = {.options = {.mode = EA_ENGRAM}};
    cli_parse(cli, self, &o, argc, argv);
    int code = open_all(&o, cli);
    if (!code) {
        struct long_call call;
        long_call_begin(&call, cli);
        ea_status status = ea_spread(cli->client, o.name, &o.options,
                                     &(ea_seeds){.offsets = o.seeds.offsets,
                                                 .sets = o.seeds.sets,
                                                 .ids = o.seeds.ids,
                                                 .activations = o.seeds.activations,
                                                 .count = o.seeds.count},
                                     &o.result);
        code = long_call_end(&call, cli, status, o.name, "nothing was found");
        if (!code) code = show(&o, cli);
    }
    ea_spread_result_free(&o.result);
    seeds_free(&o.seeds);
    cue_finish(&o.cue);
    ids_free(&o.within);
    names_close(&o.names);
    return code;
}

const struct command command_spread = {
    "spread",
    "what lights up around some nodes of a graph",
    "NAME",
    "Spread activation from seeds along the edges of a graph, and show the most active nodes. "
    "Seeds "
    "are given by id, read from a file, or found by similarity in a collection whose rows have the "
    "ids of nodes (--cue). Prints a table for each set of seeds (with --json a line for each).\v"
    "A seed that is not in the graph is an error; a row found by --cue that is not is left out.",
    spread_options,
    spread_parse,
    spread_run};
