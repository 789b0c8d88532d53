/* hrr_bind: pairs of vectors: bound, and taken apart again. */
#include "client/cli/commands/commands.h"
#include "client/cli/commands/vectors_in.h"
#include "client/cli/commands/vectors_out.h"

struct hrr_bind {
    struct vectors_in a, b;
    bool normalize, unbind, exact;
    struct vectors_out out;
    ea_hrr_result result;
};

static const struct argp_option bind_options[] = {
    VECTORS_OUT_OPTIONS,
    {"normalize", 'n', NULL, 0, "Divide each result by its norm", 0},
    {0},
};

static const struct argp_option unbind_options[] = {
    VECTORS_OUT_OPTIONS,
    {"normalize", 'n', NULL, 0, "Divide each result by its norm", 0},
    {"exact", 'e', NULL, 0,
     "Divide spectra, which not every B allows, in place of the approximate inverse", 0},
    {0},
};

static error_t bind_parse(int key, char *text, struct argp_state *state)
{
    struct hrr_bind *h = state->input;
    if (vectors_out_option(&h->out, key, text, state)) return 0;
    switch (key) {
    case 'n': h->normalize = true; break;
    case 'e':
        if (!h->unbind) return ARGP_ERR_UNKNOWN;
        h->exact = true;
        break;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1) argp_error(state, "unexpected argument '%s'", text);
        vectors_in_parse(state->arg_num ? &h->b : &h->a, state, text);
        break;
    case ARGP_KEY_END:
        if (!h->b.text) argp_error(state, "two operands are needed, A and B");
        vectors_out_check(&h->out, state);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int open_all(struct hrr_bind *h, struct cli *cli)
{
    struct vectors_in *a = &h->a, *b = &h->b;
    uint64_t pairs;
    int code = cli_info(cli);
    if (!code) code = vectors_in_open(a, cli);
    if (!code) code = vectors_in_open(b, cli);
    if (!code) code = vectors_in_match(a, b, &pairs);
    return code ? code : vectors_out_open(&h->out, cli, pairs, a->dimension);
}

static int ask(struct hrr_bind *h, struct cli *cli, uint64_t n)
{
    ea_operand a, b;
    ea_bind_question question = {.a = &a,
                                 .b = &b,
                                 .dimension = h->a.dimension,
                                 .normalize = h->normalize,
                                 .exact = h->exact};
    int code = vectors_in_next(&h->a, n, &a);
    if (!code) code = vectors_in_next(&h->b, n, &b);
    if (!code) code = vectors_out_next(&h->out, cli, n, &question.into);
    if (code) return code;
    ea_status status = h->unbind ? ea_unbind(cli->client, &question, &h->result)
                                 : ea_bind(cli->client, &question, &h->result);
    if (status) return vectors_out_failed(&h->out, cli, status, "pair");
    return vectors_out_take(&h->out, cli, &h->result, n);
}

static int ask_all(struct hrr_bind *h, struct cli *cli)
{
    struct vectors_in *a = &h->a, *b = &h->b;
    uint64_t alone_a = a->count == 1 ? vectors_in_bytes(a) : 0,
             alone_b = b->count == 1 ? vectors_in_bytes(b) : 0;
    uint64_t each = (alone_a ? 0 : vectors_in_bytes(a)) + (alone_b ? 0 : vectors_in_bytes(b));
    uint64_t block = vectors_out_fit(&h->out, cli, alone_a + alone_b, each);
    int code = vectors_in_prepare(a, block);
    if (!code) code = vectors_in_prepare(b, block);
    if (!code) code = vectors_out_prepare(&h->out, block);
    while (!code && h->out.done < h->out.total) {
        uint64_t left = h->out.total - h->out.done;
        code = ask(h, cli, left < block ? left : block);
    }
    return code;
}

static int bind_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct hrr_bind h = {.unbind = self == &command_hrr_unbind};
    cli_parse(cli, self, &h, argc, argv);
    int code = open_all(&h, cli);
    if (!code) code = vectors_out_finish(&h.out, cli, ask_all(&h, cli), "pair");
    vectors_out_close(&h.out);
    vectors_in_close(&h.a);
    vectors_in_close(&h.b);
    ea_hrr_result_free(&h.result);
    return code;
}

const struct command command_hrr_bind = {
    "hrr bind",
    "bind vectors, pair by pair",
    "A B",
    "Bind each vector of A to the one of B beside it, by circular convolution. A and B are files "
    "of "
    "vectors (.npy, .fvecs, .fbin), or rows of a collection: NAME:ID, NAME:FIRST-LAST or "
    "NAME:@FILE.npy, a file of ids. One vector stands beside any number.\v"
    "What is more than a request holds goes as several. Ctrl-C stops after the request that is "
    "on its way; with --into it says how many results are in.",
    bind_options,
    bind_parse,
    bind_run};
const struct command command_hrr_unbind = {
    "hrr unbind",
    "take bound vectors apart",
    "A B",
    "Take each vector of B out of the one of A beside it: what B was bound to, nearly (the rest is "
    "noise), or with --exact by a division. A and B are as for hrr bind.\v"
    "--exact needs a dimension that has a spectrum (even, without large prime factors) and a B "
    "whose "
    "spectrum has no zero; for random vectors the inverse that is approximate is the better one as "
    "soon as something else was added to A.",
    unbind_options,
    bind_parse,
    bind_run};
