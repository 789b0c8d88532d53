/* recall: what a cue brings back. */
#include "client/cli/commands/commands.h"
#include "client/cli/long_call.h"
#include "client/cli/commands/queries.h"
#include "client/cli/commands/spread_rule.h"
#include "client/cli/files/ids.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"
#include "client/cli/text/recall_print.h"

#include <inttypes.h>
#include <string.h>

#define CUES_MAX    1024u       /* of a request */
#define REPLY_BYTES (16u << 20) /* progress shows, and this process's memory is bounded */

struct recall_command {
    const char *cues_path, *names_path, *within_path;
    struct ids cue_ids, within;
    struct queries cues;
    struct names names;
    struct decay decay;
    float threshold, width, activation_min, boost, spread_thresholds[3];
    uint64_t time_max_us;
    uint32_t spread_threshold_count;
    ea_filter filter;
    ea_spread_options spread;
    ea_recall_question question;
    struct progress progress;
    struct recall_print print;
    ea_recall_result result;
};

enum {
    OPTION_ID = 0x500,
    OPTION_WIDTH,
    OPTION_ACTIVATION_MIN,
    OPTION_BOOST,
    OPTION_TIME_MAX,
    OPTION_HOPS,
    OPTION_DECAY,
    OPTION_SPREAD_THRESHOLD,
    OPTION_FAN,
    OPTION_NO_KINDS,
    OPTION_WITHIN,
    OPTION_TOUCHED_MAX,
    OPTION_PATHS,
    OPTION_EMBEDDINGS,
    OPTION_NO_EMBEDDINGS,
    OPTION_NAMES
};

static const struct argp_option recall_options[] = {
    {"id", OPTION_ID, "ID", 0, "A stored row as the cue, in place of CUES; may be given again", 0},
    {"results", 'n', "N", 0, "How much to recall for each cue (default: 100)", 0},
    {NULL, 'k', "N", 0, "How many of the nearest rows may be seeds (default: as --results)", 0},
    {"threshold", 't', "T", 0, "The cosine that makes a row a seed, -1 to 1 (default: 0.4)", 0},
    {"width", OPTION_WIDTH, "W", 0,
     "A seed's activation is 1 / (1 + e^-((cosine - T) / W)) (default: 0.5)", 0},
    {"activation-min", OPTION_ACTIVATION_MIN, "A", 0,
     "Seeds with less are left out, 0 to 1 (default: 0.01)", 0},
    {"boost", OPTION_BOOST, "B", 0, "Seeds rank by B times their activation (default: 1.1)", 0},
    {"time-max-ms", OPTION_TIME_MAX, "MS", 0,
     "Spread for so long, from the request's arrival; what there is then is shown", 0},
    {"mode", 'm', "MODE", 0, "How to spread: engram (the default) or linear", 0},
    {"hops", OPTION_HOPS, "N", 0, "How far, 1..100 (default: 4)", 0},
    {"decay", OPTION_DECAY, "LAW", 0,
     "How activation fades with each hop: exponential:P (the default, 0.7), power:P, linear:P, "
     "table:F1,F2,... or constant",
     0},
    {"spread-threshold", OPTION_SPREAD_THRESHOLD, "T[,W,C]", 0,
     "Activation below which a node is passed over (default: 0.01); engram: of seeds, of nodes "
     "within 2 hops (0.05), of those beyond (0.1)",
     0},
    {"fan", OPTION_FAN, "EFFECT", 0,
     "engram: none (the default), sqrt or divide what a concept sends by its edges", 0},
    {"no-kinds", OPTION_NO_KINDS, NULL, 0, "engram: kinds of nodes do not matter", 0},
    {"embeddings", OPTION_EMBEDDINGS, "NAME", 0,
     "engram: the collection of the nodes' embeddings (default: COLLECTION)", 0},
    {"no-embeddings", OPTION_NO_EMBEDDINGS, NULL, 0,
     "engram: edges have their weights, whatever the nodes' embeddings", 0},
    {"within", OPTION_WITHIN, "FILE.npy", 0, "Spread to the nodes alone whose ids are in FILE", 0},
    {"touched-max", OPTION_TOUCHED_MAX, "N", 0, "End a cue's spread when N nodes are touched", 0},
    {"paths", OPTION_PATHS, NULL, 0, "Show how activation first came to each", 0},
    {"names", OPTION_NAMES, "FILE", 0,
     "What ids are called: lines of ID<TAB>NAME, or a line for each id from 0", 0},
    {0},
};

static void take_word(struct argp_state *state, const char *option, const char *text,
                      const char *const *words, unsigned count, unsigned first, void *out)
{
    unsigned i = 0;
    while (i < count && strcmp(words[i], text) != 0)
        i++;
    if (i == count) argp_error(state, "%s: there is no '%s'", option, text);
    *(unsigned *)out = first + i;
}

static void check_options(struct recall_command *o, struct argp_state *state)
{
    ea_spread_options *s = &o->spread;
    if (!o->question.graph) argp_error(state, "the names of COLLECTION and GRAPH are needed");
    if (!o->cues_path == !o->cue_ids.count) argp_error(state, "give one of CUES and --id");
    if (s->mode == EA_LINEAR && (s->fan || s->ignore_kinds || s->embeddings ||
                                 o->question.ignore_embeddings || o->spread_threshold_count > 1))
        argp_error(state, "--fan, --no-kinds, embeddings and three thresholds need --mode engram");
    if (s->embeddings && o->question.ignore_embeddings)
        argp_error(state, "give one of --embeddings and --no-embeddings");
    spread_rule_table(state, &o->decay, s);
}

static const float *number(struct argp_state *state, const char *option, const char *text,
                           double low, double high, float *out)
{
    *out = (float)cli_argument_number(state, option, text, low, high);
    return out;
}

static error_t parse_spread(int key, char *text, struct argp_state *state)
{
    static const char *const modes[] = {"linear", "engram"};
    static const char *const fans[] = {"none", "sqrt", "divide"};
    struct recall_command *o = state->input;
    ea_spread_options *s = &o->spread;
    switch (key) {
    case 'm': take_word(state, "--mode", text, modes, 2, EA_LINEAR, &s->mode); break;
    case OPTION_HOPS: s->hops = (uint32_t)cli_argument_u64(state, "--hops", text, 1, 100); break;
    case OPTION_DECAY: spread_rule_decay(state, text, &o->decay, s); break;
    case OPTION_SPREAD_THRESHOLD:
        o->spread_threshold_count =
            spread_rule_thresholds(state, "--spread-threshold", text, o->spread_thresholds, s);
        break;
    case OPTION_FAN: take_word(state, "--fan", text, fans, 3, EA_FAN_NONE, &s->fan); break;
    case OPTION_NO_KINDS: s->ignore_kinds = true; break;
    case OPTION_EMBEDDINGS: s->embeddings = text; break;
    case OPTION_WITHIN: o->within_path = text; break;
    case OPTION_TOUCHED_MAX:
        s->touched_max = cli_argument_u64(state, "--touched-max", text, 1, UINT64_MAX);
        break;
    case OPTION_PATHS: s->paths = true; break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static error_t recall_parse(int key, char *text, struct argp_state *state)
{
    struct recall_command *o = state->input;
    ea_recall_question *q = &o->question;
    switch (key) {
    case OPTION_ID: ids_add_text(&o->cue_ids, state, text); break;
    case 'n': q->results = (uint32_t)cli_argument_u64(state, "--results", text, 1, 16384); break;
    case 'k': q->k = (uint32_t)cli_argument_u64(state, "-k", text, 1, 16384); break;
    case 't': q->threshold = number(state, "--threshold", text, -1, 1, &o->threshold); break;
    case OPTION_WIDTH: q->width = number(state, "--width", text, 1e-30, 1e30, &o->width); break;
    case OPTION_ACTIVATION_MIN:
        q->activation_min = number(state, "--activation-min", text, 0, 1, &o->activation_min);
        break;
    case OPTION_BOOST: q->boost = number(state, "--boost", text, 0, 65536, &o->boost); break;
    case OPTION_TIME_MAX:
        o->time_max_us =
            (uint64_t)(cli_argument_number(state, "--time-max-ms", text, 0.001, 1e12) * 1000 + 0.5);
        q->time_max_us = &o->time_max_us;
        break;
    case OPTION_NO_EMBEDDINGS: q->ignore_embeddings = true; break;
    case OPTION_NAMES: o->names_path = text; break;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            q->collection = text;
        else if (state->arg_num == 1)
            q->graph = text;
        else if (state->arg_num == 2)
            o->cues_path = text;
        else
            argp_error(state, "unexpected argument '%s'", text);
        break;
    case ARGP_KEY_END: check_options(o, state); break;
    default: return parse_spread(key, text, state);
    }
    return 0;
}

/* Cues of a request: its reply, with some nodes a path, must fit. */
static uint64_t cues_of_a_request(const struct recall_command *o, const struct cli *cli,
                                  uint32_t dimension)
{
    uint64_t results = o->question.results ? o->question.results : 100;
    uint64_t reply = cli->info.reply_bytes_max;
    uint64_t each = results * (21 + (o->spread.paths ? 8 * 6 : 0)) + 32;
    uint64_t most = cli_fit(reply < REPLY_BYTES ? reply : REPLY_BYTES, 1024, each, CUES_MAX);
    return cli_fit(cli->info.body_bytes_max, 1024, 4 * (uint64_t)dimension, most);
}

static int open_all(struct recall_command *o, struct cli *cli)
{
    int code = o->cues_path ? queries_open_file(&o->cues, o->cues_path) : CLI_OK;
    if (!code && o->within_path) code = ids_read(&o->within, o->within_path);
    if (!code && o->within_path && o->within.count == 0)
        code = cli_error(CLI_FILE, "%s: allows no node", o->within_path);
    if (!code && o->names_path && !names_open(&o->names, o->names_path))
        code = cli_file_error(o->names.error);
    if (!code) code = cli_info(cli);
    ea_collection_info about = {0};
    ea_status status = EA_OK;
    if (!code) status = ea_collection_describe(cli->client, o->question.collection, &about);
    if (status) return cli_failed(cli, status, o->question.collection);
    uint64_t most = code ? 0 : cues_of_a_request(o, cli, about.dimension);
    if (!code && o->cues_path)
        code = queries_prepare(&o->cues, o->question.collection, about.dimension, most);
    o->filter = (ea_filter){.ids = o->within.list, .id_count = o->within.count};
    if (o->within_path) o->spread.within = &o->filter;
    o->question.spread = &o->spread;
    o->question.dimension = about.dimension;
    o->print = (struct recall_print){.cli = cli,
                                     .collection = o->question.collection,
                                     .graph = o->question.graph,
                                     .names = o->names_path ? &o->names : NULL,
                                     .cue_ids = o->cues_path ? NULL : o->cue_ids.list,
                                     .paths = o->spread.paths};
    uint64_t total = o->cues_path ? o->cues.total : o->cue_ids.count;
    if (!code) progress_start(&o->progress, total, 4 * (uint64_t)about.dimension, clock_ns());
    return code;
}

static int ask(struct recall_command *o, struct cli *cli, const float *cues, uint64_t n)
{
    o->question.cues = cues;
    o->question.cue_ids = cues ? NULL : o->cue_ids.list + o->print.done;
    o->question.cue_count = n;
    struct long_call call;
    long_call_begin(&call, cli);
    ea_status status = ea_recall(cli->client, &o->question, &o->result);
    progress_finish(&o->progress); /* what follows is printed */
    int code = long_call_end(&call, cli, status, NULL, "what was asked before is all");
    if (code) return code;
    recall_print(&o->print, &o->result);
    progress_show(&o->progress, o->print.done, clock_ns());
    return CLI_OK;
}

static int ask_all(struct recall_command *o, struct cli *cli)
{
    uint64_t n = 0, most = cues_of_a_request(o, cli, 1);
    const float *cues = NULL;
    int code = CLI_OK;
    while (!code && o->cues_path && !(code = queries_next(&o->cues, &cues, &n)) && n)
        code = ask(o, cli, cues, n);
    while (!code && !o->cues_path && o->print.done < o->cue_ids.count) {
        n = o->cue_ids.count - o->print.done;
        code = long_call_between("the cues");
        if (!code) code = ask(o, cli, NULL, n < most ? n : most);
    }
    progress_finish(&o->progress);
    if (!code) meta_total_print(&o->print.meta, o->print.done, o->print.done == 1 ? "cue" : "cues");
    return code;
}

static int recall_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct recall_command o = {.spread = {.mode = EA_ENGRAM}};
    cli_parse(cli, self, &o, argc, argv);
    int code = open_all(&o, cli);
    if (!code) code = ask_all(&o, cli);
    ea_recall_result_free(&o.result);
    names_close(&o.names);
    queries_close(&o.cues);
    ids_free(&o.cue_ids);
    ids_free(&o.within);
    return code;
}

const struct command command_recall = {
    "recall",
    "what a cue brings back",
    "COLLECTION GRAPH [CUES]",
    "Find the rows of COLLECTION that are nearest to each vector of CUES (.npy, .fvecs, .fbin), or "
    "to a stored row (--id), spread from them through GRAPH, whose nodes have the rows' ids, and "
    "show the most active of all. Prints a table for each cue (with --json a line for each).\v"
    "Marks: s, a seed: near enough to the cue; t, touched by the spread. A seed without t is no "
    "node of the graph, or too weak to spread.",
    recall_options,
    recall_parse,
    recall_run};
