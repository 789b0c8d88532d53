/* spread_print: prints the result of a spread, for people or as JSON.
 * Owner:  the caller's struct.
 * Thread: the main thread.
 * Errors: none except those of standard output. */
#ifndef ENGRAM_CLI_TEXT_SPREAD_PRINT_H
#define ENGRAM_CLI_TEXT_SPREAD_PRINT_H

#include "client/cli/commands/cue.h"
#include "client/cli/text/names.h"

struct spread_print {
    struct cli *cli;
    const char *graph;
    const struct names *names; /* NULL: ids have no names */
    const struct cue *cue;     /* the queries of the sets; its collection may be NULL */
    const struct seeds *seeds;
    bool paths;
};

/* Prints a table, or a JSON line, for each set. */
void spread_print(const struct spread_print *p, const ea_spread_result *r);

#endif
