/* hrr_rows: permuted vectors, and random ones. */
#include "client/cli/commands/commands.h"
#include "client/cli/commands/vectors_in.h"
#include "client/cli/commands/vectors_out.h"

#include <inttypes.h>
#include <stdlib.h>

struct hrr_rows {
    struct vectors_in in; /* of permute */
    int64_t shift;
    bool shifted, seeded, unit;
    uint64_t count, dimension, seed, first; /* of random */
    struct vectors_out out;
    ea_hrr_result result;
};

static void close_all(struct hrr_rows *h)
{
    vectors_out_close(&h->out);
    vectors_in_close(&h->in);
    ea_hrr_result_free(&h->result);
}

/* ---- permute ---- */

static const struct argp_option permute_options[] = {
    VECTORS_OUT_OPTIONS,
    {"shift", 's', "N", 0, "By how many places, around the end; negative: to the front", 0},
    {0},
};

static error_t permute_parse(int key, char *text, struct argp_state *state)
{
    struct hrr_rows *h = state->input;
    if (vectors_out_option(&h->out, key, text, state)) return 0;
    switch (key) {
    case 's': {
        bool back = text[0] == '-';
        uint64_t n = cli_argument_u64(state, "--shift", text + back, 0, INT64_MAX);
        h->shift = back ? -(int64_t)n : (int64_t)n;
        h->shifted = true;
        break;
    }
    case ARGP_KEY_ARG:
        if (state->arg_num) argp_error(state, "unexpected argument '%s'", text);
        vectors_in_parse(&h->in, state, text);
        break;
    case ARGP_KEY_END:
        if (!h->in.text) argp_error(state, "the vectors A are needed");
        if (!h->shifted) argp_error(state, "--shift is needed");
        vectors_out_check(&h->out, state);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int permute_all(struct hrr_rows *h, struct cli *cli)
{
    uint64_t block = vectors_out_fit(&h->out, cli, 0, vectors_in_bytes(&h->in));
    int code = vectors_in_prepare(&h->in, block);
    if (!code) code = vectors_out_prepare(&h->out, block);
    while (!code && h->out.done < h->out.total) {
        uint64_t left = h->out.total - h->out.done, n = left < block ? left : block;
        ea_operand a;
        ea_permute_question question = {.a = &a, .dimension = h->in.dimension, .shift = h->shift};
        code = vectors_in_next(&h->in, n, &a);
        if (!code) code = vectors_out_next(&h->out, cli, n, &question.into);
        if (code) return code;
        ea_status status = ea_permute(cli->client, &question, &h->result);
        if (status) return vectors_out_failed(&h->out, cli, status, "vector");
        code = vectors_out_take(&h->out, cli, &h->result, n);
    }
    return code;
}

static int permute_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct hrr_rows h = {0};
    cli_parse(cli, self, &h, argc, argv);
    int code = cli_info(cli);
    if (!code) code = vectors_in_open(&h.in, cli);
    if (!code) code = vectors_out_open(&h.out, cli, h.in.count, h.in.dimension);
    if (!code) code = vectors_out_finish(&h.out, cli, permute_all(&h, cli), "vector");
    close_all(&h);
    return code;
}

const struct command command_hrr_permute = {
    "hrr permute",
    "shift vectors around their end",
    "A",
    "Shift the numbers of each vector around its end, as a mark of its place in an order. A is as "
    "for hrr bind; --shift=-N undoes --shift=N.",
    permute_options,
    permute_parse,
    permute_run};

/* ---- random ---- */

enum { OPTION_SEED = 0x500, OPTION_FIRST, OPTION_UNIT };

static const struct argp_option random_options[] = {
    VECTORS_OUT_OPTIONS,
    {"count", 'n', "N", 0, "How many vectors", 0},
    {"dim", 'd', "D", 0, "Numbers in a vector, 1 to 16384", 0},
    {"seed", OPTION_SEED, "S", 0, "What names them: the same seed gives the same vectors", 0},
    {"first", OPTION_FIRST, "R", 0, "Begin with vector R of the seed's (default: 0)", 0},
    {"unit", OPTION_UNIT, NULL, 0, "Divide each vector by its norm", 0},
    {0},
};

static error_t random_parse(int key, char *text, struct argp_state *state)
{
    struct hrr_rows *h = state->input;
    if (vectors_out_option(&h->out, key, text, state)) return 0;
    switch (key) {
    case 'n': h->count = cli_argument_u64(state, "--count", text, 1, UINT32_MAX); break;
    case 'd': h->dimension = cli_argument_u64(state, "--dim", text, 1, EA_DIMENSION_MAX); break;
    case OPTION_SEED:
        h->seed = cli_argument_u64(state, "--seed", text, 0, UINT64_MAX);
        h->seeded = true;
        break;
    case OPTION_FIRST: h->first = cli_argument_u64(state, "--first", text, 0, INT64_MAX); break;
    case OPTION_UNIT: h->unit = true; break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'", text); break;
    case ARGP_KEY_END:
        if (!h->count || !h->dimension || !h->seeded)
            argp_error(state, "--count, --dim and --seed are needed");
        vectors_out_check(&h->out, state);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int random_all(struct hrr_rows *h, struct cli *cli)
{
    uint64_t block = vectors_out_fit(&h->out, cli, 0, h->dimension * 4);
    int code = vectors_out_prepare(&h->out, block);
    while (!code && h->out.done < h->out.total) {
        uint64_t left = h->out.total - h->out.done, n = left < block ? left : block;
        ea_random_question question = {.seed = h->seed,
                                       .first = h->first + h->out.done,
                                       .count = n,
                                       .dimension = (uint32_t)h->dimension,
                                       .normalize = h->unit};
        code = vectors_out_next(&h->out, cli, n, &question.into);
        if (code) return code;
        ea_status status = ea_random(cli->client, &question, &h->result);
        if (status) return vectors_out_failed(&h->out, cli, status, "vector");
        code = vectors_out_take(&h->out, cli, &h->result, n);
    }
    return code;
}

static int random_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct hrr_rows h = {0};
    cli_parse(cli, self, &h, argc, argv);
    int code = cli_info(cli);
    if (!code) code = vectors_out_open(&h.out, cli, h.count, (uint32_t)h.dimension);
    if (!code) code = vectors_out_finish(&h.out, cli, random_all(&h, cli), "vector");
    close_all(&h);
    return code;
}

const struct command command_hrr_random = {
    "hrr random",
    "random vectors, named by a seed",
    "",
    "Make vectors of normal numbers with variance 1 / D, to stand for things that have none. Seed, "
    "number and dimension say every bit of a vector, on every machine.",
    random_options,
    random_parse,
    random_run};
