/* spread_print: the answer of a spread for people, or as JSON.
 * Owner:  the caller's struct.
 * Thread: the main thread.
 * Errors: none but those of standard output. */
#ifndef ENGRAM_CLI_TEXT_SPREAD_PRINT_H
#define ENGRAM_CLI_TEXT_SPREAD_PRINT_H

#include "client/cli/commands/cue.h"
#include "client/cli/text/names.h"

struct spread_print {
    struct cli *cli;
    const char *graph;
    const struct names *names; /* NULL: ids are not called anything */
    const struct cue *cue;     /* whose queries the sets are; its collection may be NULL */
    const struct seeds *seeds;
    bool paths;
};

/* A table, or a JSON line, for each set. */
void spread_print(const struct spread_print *p, const ea_spread_result *r);

#endif
