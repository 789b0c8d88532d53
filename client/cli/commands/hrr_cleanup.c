/* hrr_cleanup: what was bound to a key: taken out, and looked up in a codebook. */
#include "client/cli/commands/commands.h"
#include "client/cli/long_call.h"
#include "client/cli/commands/vectors_in.h"
#include "client/cli/text/hits.h"

#include <float.h>
#include <inttypes.h>

#define PAIRS_MAX   1024u       /* of a request */
#define REPLY_BYTES (64u << 20) /* bounds this process's memory */

struct hrr_cleanup {
    const char *codebook, *out, *names_path;
    struct vectors_in bound, key;
    uint32_t k;
    bool exact, with_threshold;
    float threshold;
    uint64_t total;
    struct hits hits;
    ea_result result;
};

enum { OPTION_NAMES = 0x500 };

static const struct argp_option cleanup_options[] = {
    {NULL, 'k', "N", 0, "How many rows of the codebook to show for each pair (default: 1)", 0},
    {"out", 'o', "PREFIX", 0,
     "Write PREFIX.ids.npy (uint64) and PREFIX.scores.npy (float32) instead of tables", 0},
    {"threshold", 't', "T", 0, "Only scores of at least T (l2: distances of at most T)", 0},
    {"exact", 'e', NULL, 0,
     "Divide spectra, which not every KEY allows, in place of the approximate inverse", 0},
    {"names", OPTION_NAMES, "FILE", 0,
     "What ids are called: lines of ID<TAB>NAME, or a line for each id from 0", 0},
    {0},
};

static error_t cleanup_parse(int key, char *text, struct argp_state *state)
{
    struct hrr_cleanup *h = state->input;
    switch (key) {
    case 'k': h->k = (uint32_t)cli_argument_u64(state, "-k", text, 1, UINT32_MAX); break;
    case 'o': h->out = text; break;
    case 'e': h->exact = true; break;
    case 't':
        h->with_threshold = true;
        h->threshold = (float)cli_argument_number(state, "--threshold", text, (double)-FLT_MAX,
                                                  (double)FLT_MAX);
        break;
    case OPTION_NAMES: h->names_path = text; break;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            h->codebook = text;
        else if (state->arg_num <= 2)
            vectors_in_parse(state->arg_num == 1 ? &h->bound : &h->key, state, text);
        else
            argp_error(state, "unexpected argument '%s'", text);
        break;
    case ARGP_KEY_END:
        if (!h->key.text) argp_error(state, "the codebook's NAME, BOUND and KEY are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int open_all(struct hrr_cleanup *h, struct cli *cli)
{
    int code = cli_info(cli);
    if (!code) code = vectors_in_open(&h->bound, cli);
    if (!code) code = vectors_in_open(&h->key, cli);
    if (!code) code = vectors_in_match(&h->bound, &h->key, &h->total);
    if (code) return code;
    return hits_open(&h->hits, cli, h->out, h->names_path, h->total,
                     vectors_in_bytes(&h->bound) + vectors_in_bytes(&h->key));
}

static int ask(struct hrr_cleanup *h, struct cli *cli, uint64_t n)
{
    ea_operand a, b;
    int code = vectors_in_next(&h->bound, n, &a);
    if (!code) code = vectors_in_next(&h->key, n, &b);
    if (code) return code;
    struct long_call call;
    long_call_begin(&call, cli);
    ea_status status =
        ea_cleanup(cli->client,
                   &(ea_cleanup_question){.a = &a,
                                          .b = &b,
                                          .dimension = h->bound.dimension,
                                          .codebook = h->codebook,
                                          .k = h->k,
                                          .exact = h->exact,
                                          .threshold = h->with_threshold ? &h->threshold : NULL},
                   &h->result);
    if (status) progress_finish(&h->hits.progress);
    code = long_call_end(&call, cli, status, NULL, "what was asked before is all");
    if (code) return code;
    return hits_add(&h->hits, h->result.meta, n, h->result.columns, h->result.ids, h->result.scores,
                    h->result.counts);
}

static int ask_all(struct hrr_cleanup *h, struct cli *cli)
{
    uint64_t reply = cli->info.reply_bytes_max;
    uint64_t each = vectors_in_bytes(&h->bound) + vectors_in_bytes(&h->key);
    uint64_t most = cli_fit(cli->info.body_bytes_max, 1024, each, PAIRS_MAX);
    most = cli_fit(reply < REPLY_BYTES ? reply : REPLY_BYTES, 256, 12 * (uint64_t)h->k + 4, most);
    int code = vectors_in_prepare(&h->bound, most);
    if (!code) code = vectors_in_prepare(&h->key, most);
    for (uint64_t done = 0, n; !code && done < h->total; done += n) {
        n = h->total - done < most ? h->total - done : most;
        code = long_call_between("the pairs");
        if (!code) code = ask(h, cli, n);
    }
    return code ? code : hits_finish(&h->hits);
}

static int cleanup_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct hrr_cleanup h = {.k = 1};
    cli_parse(cli, self, &h, argc, argv);
    int code = open_all(&h, cli);
    if (!code) code = ask_all(&h, cli);
    hits_close(&h.hits);
    vectors_in_close(&h.bound);
    vectors_in_close(&h.key);
    ea_result_free(&h.result);
    return code;
}

const struct command command_hrr_cleanup = {
    "hrr cleanup",
    "unbind, and look up what comes out",
    "NAME BOUND KEY",
    "Take each vector of KEY out of the one of BOUND beside it, and find the nearest rows of the "
    "collection NAME, the codebook of all that can have been meant. BOUND and KEY are as for hrr "
    "bind. Prints a table for each pair (with --json a line for each), or writes two files.",
    cleanup_options,
    cleanup_parse,
    cleanup_run};
