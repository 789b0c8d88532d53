/* recall_print: prints what was recalled, for people or as JSON.
 * Owner:  the caller's struct.
 * Thread: the main thread.
 * Errors: none except those of standard output. */
#ifndef ENGRAM_CLI_TEXT_RECALL_PRINT_H
#define ENGRAM_CLI_TEXT_RECALL_PRINT_H

#include "client/cli/cli.h"
#include "client/cli/text/meta_total.h"
#include "client/cli/text/names.h"

struct recall_print {
    struct cli *cli;
    const char *collection, *graph;
    const struct names *names; /* NULL: ids have no names */
    const uint64_t *cue_ids;   /* NULL: cues came from a file */
    bool paths;
    uint64_t done; /* cues printed before */
    struct meta_total meta;
};

/* Prints a table, or a JSON line, for each list of a reply, and counts it. */
void recall_print(struct recall_print *p, const ea_recall_result *r);

#endif
