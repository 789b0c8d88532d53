/* hrr_lists: lists of vectors: their sums and products. */
#include "client/cli/commands/commands.h"
#include "client/cli/commands/vectors_in.h"
#include "client/cli/commands/vectors_out.h"
#include "client/cli/files/ids.h"

#include <inttypes.h>
#include <stdlib.h>

#define PART_VECTORS 65536u /* of a request, but one list at least */

struct hrr_lists {
    bool sum, raw, normalize;
    const char *lists_path, *weights_path;
    struct vectors_in in;
    struct ids offsets;
    struct vectors_file weights_file;
    float *weights;    /* of a part */
    uint64_t *shifted; /* a part's offsets */
    struct vectors_out out;
    ea_hrr_result result;
};

enum { OPTION_RAW = 0x500 };

static const struct argp_option superpose_options[] = {
    VECTORS_OUT_OPTIONS,
    {"lists", 'l', "FILE.npy", 0,
     "Where lists begin and the last one ends, as integers from 0 (default: all are one list)", 0},
    {"weights", 'w', "FILE.npy", 0, "What each vector is multiplied with (default: 1)", 0},
    {"raw", OPTION_RAW, NULL, 0, "Give the sums themselves, not divided by their norms", 0},
    {0},
};
static const struct argp_option product_options[] = {
    VECTORS_OUT_OPTIONS,
    {"lists", 'l', "FILE.npy", 0,
     "Where lists begin and the last one ends, as integers from 0 (default: all are one list)", 0},
    {"normalize", 'n', NULL, 0, "Divide each result by its norm", 0},
    {0},
};

static error_t lists_parse(int key, char *text, struct argp_state *state)
{
    struct hrr_lists *h = state->input;
    if (vectors_out_option(&h->out, key, text, state)) return 0;
    switch (key) {
    case 'l': h->lists_path = text; break;
    case 'w': h->weights_path = text; break;
    case 'n': h->normalize = true; break;
    case OPTION_RAW: h->raw = true; break;
    case ARGP_KEY_ARG:
        if (state->arg_num) argp_error(state, "unexpected argument '%s'", text);
        vectors_in_parse(&h->in, state, text);
        break;
    case ARGP_KEY_END:
        if (!h->in.text) argp_error(state, "the vectors A are needed");
        vectors_out_check(&h->out, state);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int open_lists(struct hrr_lists *h)
{
    int code = CLI_OK;
    if (h->lists_path)
        code = ids_read(&h->offsets, h->lists_path);
    else if (ids_add(&h->offsets, 0) || ids_add(&h->offsets, h->in.count))
        code = CLI_FILE;
    const uint64_t *offsets = h->offsets.list;
    uint64_t lists = h->offsets.count ? h->offsets.count - 1 : 0;
    bool whole = !code && lists && offsets[0] == 0 && offsets[lists] == h->in.count;
    if (!code && !whole)
        return cli_error(CLI_FILE,
                         "%s: lists begin at 0, and the last one ends at %" PRIu64
                         ", the number of vectors",
                         h->lists_path, h->in.count);
    for (uint64_t i = 0; !code && i < lists; i++)
        if (offsets[i + 1] <= offsets[i])
            return cli_error(CLI_FILE, "%s: list %" PRIu64 " is empty", h->lists_path, i);
    return code;
}

static int open_weights(struct hrr_lists *h)
{
    if (!h->weights_path) return CLI_OK;
    struct vectors_file *file = &h->weights_file;
    if (!vectors_file_open(file, h->weights_path, VECTORS_OF_NUMBERS))
        return cli_file_error(file->error);
    if (file->columns == 1 && file->rows == h->in.count) return CLI_OK;
    return cli_error(CLI_FILE,
                     "%s: holds %" PRIu64 " x %" PRIu64 " weights for %" PRIu64 " vectors",
                     h->weights_path, file->rows, file->columns, h->in.count);
}

/* How many lists, from `first` on, go into one request. */
static uint64_t part_lists(const struct hrr_lists *h, uint64_t first, uint64_t vectors)
{
    const uint64_t *offsets = h->offsets.list;
    uint64_t lists = h->offsets.count - 1, end = first + 1;
    while (end < lists && offsets[end + 1] - offsets[first] <= vectors)
        end++;
    return end - first;
}

static int ask(struct hrr_lists *h, struct cli *cli, uint64_t lists)
{
    const uint64_t *offsets = h->offsets.list + h->out.done;
    uint64_t n = offsets[lists] - offsets[0], got = n;
    ea_operand a;
    ea_list_question question = {.a = &a,
                                 .dimension = h->in.dimension,
                                 .offsets = h->shifted,
                                 .lists = lists,
                                 .weights = h->weights,
                                 .normalize = h->sum ? !h->raw : h->normalize};
    for (uint64_t i = 0; i <= lists; i++)
        h->shifted[i] = offsets[i] - offsets[0];
    int code = vectors_in_next(&h->in, n, &a);
    if (!code && h->weights && !vectors_file_read(&h->weights_file, h->weights, n, &got))
        code = cli_file_error(h->weights_file.error);
    if (!code) code = vectors_out_next(&h->out, cli, lists, &question.into);
    if (code) return code;
    ea_status status = h->sum ? ea_superpose(cli->client, &question, &h->result)
                              : ea_bind_many(cli->client, &question, &h->result);
    if (status) return vectors_out_failed(&h->out, cli, status, "list");
    return vectors_out_take(&h->out, cli, &h->result, lists);
}

static int ask_all(struct hrr_lists *h, struct cli *cli)
{
    uint64_t lists = h->offsets.count - 1, longest = 0;
    uint64_t results = vectors_out_fit(&h->out, cli, 0, 8);
    uint64_t vectors =
        vectors_out_fit_body(cli, vectors_in_bytes(&h->in) + (h->weights_path ? 4 : 0));
    for (uint64_t i = 0; i < lists; i++)
        if (h->offsets.list[i + 1] - h->offsets.list[i] > longest)
            longest = h->offsets.list[i + 1] - h->offsets.list[i];
    if (vectors > PART_VECTORS) vectors = PART_VECTORS;
    uint64_t room = longest > vectors ? longest : vectors;
    int code = vectors_in_prepare(&h->in, room);
    if (!code) code = vectors_out_prepare(&h->out, results);
    h->shifted = calloc(results + 1, sizeof *h->shifted);
    if (h->weights_path) h->weights = calloc(room, sizeof *h->weights);
    if (!code && (!h->shifted || (h->weights_path && !h->weights)))
        code = cli_error(CLI_NO_MEMORY, "out of memory");
    while (!code && h->out.done < lists) {
        uint64_t n = part_lists(h, h->out.done, vectors);
        code = ask(h, cli, n < results ? n : results);
    }
    return code;
}

static int lists_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct hrr_lists h = {.sum = self == &command_hrr_superpose};
    cli_parse(cli, self, &h, argc, argv);
    int code = cli_info(cli);
    if (!code) code = vectors_in_open(&h.in, cli);
    if (!code) code = open_lists(&h);
    if (!code) code = open_weights(&h);
    if (!code) code = vectors_out_open(&h.out, cli, h.offsets.count - 1, h.in.dimension);
    if (!code) code = vectors_out_finish(&h.out, cli, ask_all(&h, cli), "list");
    vectors_out_close(&h.out);
    vectors_in_close(&h.in);
    vectors_file_close(&h.weights_file);
    ids_free(&h.offsets);
    ea_hrr_result_free(&h.result);
    free(h.weights);
    free(h.shifted);
    return code;
}

const struct command command_hrr_superpose = {
    "hrr superpose",
    "add up vectors, list by list",
    "A",
    "Add up the vectors of each list, each times its weight, and divide the sum by its norm. A is "
    "as for hrr bind: a file of vectors, or rows of a collection.\v"
    "--lists is as the offsets that other commands write: list i has the vectors from number "
    "lists[i] on, less than lists[i + 1].",
    superpose_options,
    lists_parse,
    lists_run};
const struct command command_hrr_product = {
    "hrr product",
    "bind the vectors of each list to each other",
    "A",
    "Bind the vectors of each list to each other, from the left. A and --lists are as for hrr "
    "superpose.",
    product_options,
    lists_parse,
    lists_run};
