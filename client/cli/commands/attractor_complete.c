/* attractor_complete: cues completed by an attractor, as the engine does it. */
#include "client/cli/commands/commands.h"
#include "client/cli/commands/engine_cues.h"

static const struct argp_option complete_options[] = {
    {"collection", 'c', "NAME", 0, "Show the row of NAME that is nearest to each state, too", 0},
    {"mask", 'm', "MASK.npy", 0,
     "Which numbers are known (bool or uint8): a row for each cue, or one for all (default: all "
     "are)",
     0},
    {"out", 'o', "FILE.npy", 0, "Write the states (float32, a row for each cue) to FILE", 0},
    {0},
};

static error_t complete_parse(int key, char *text, struct argp_state *state)
{
    struct engine_cues *a = state->input;
    switch (key) {
    case 'c': a->collection = text; break;
    case 'm': a->mask_path = text; break;
    case 'o': a->out = text; break;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            a->attractor = text;
        else if (state->arg_num == 1)
            a->cues_path = text;
        else
            argp_error(state, "unexpected argument '%s'", text);
        break;
    case ARGP_KEY_END:
        if (!a->cues_path) argp_error(state, "the attractor's NAME and CUES are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int complete_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct engine_cues asked = {0};
    cli_parse(cli, self, &asked, argc, argv);
    return engine_cues_run(cli, &asked);
}

const struct command command_attractor_complete = {
    "attractor complete",
    "complete cues by an attractor",
    "NAME CUES",
    "Complete each row of CUES (.npy, .fvecs, .fbin), of which a third must be known, by an "
    "attractor, bit for bit as the engine's own rule does: the dentate gyrus, then CA3. Prints "
    "rounds, whether they converged, the confidence and, with --collection, the nearest row, its "
    "cosine, and whether that passes 0.7; with --json a line for each cue. For recall the modern "
    "rule is the better one: this one is for an engine that wants its own numbers.",
    complete_options,
    complete_parse,
    complete_run};
