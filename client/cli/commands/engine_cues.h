/* engine_cues: cues completed by an attractor, block by block, and what is printed of them.
 * Owner:  the caller's struct of names and paths.
 * Thread: the main thread.
 * Errors: exit codes, as in cli.h. */
#ifndef ENGRAM_CLI_COMMANDS_ENGINE_CUES_H
#define ENGRAM_CLI_COMMANDS_ENGINE_CUES_H

#include "client/cli/cli.h"

struct engine_cues {
    const char *attractor, *cues_path;
    /* whose nearest row is shown; of marks of known numbers; where states go; each may be NULL */
    const char *collection, *mask_path, *out;
};

/* Completes all, and prints a table, or with --json a line for each cue. */
int engine_cues_run(struct cli *cli, const struct engine_cues *asked);

#endif
