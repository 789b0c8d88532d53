/* hits: writes the results of knn and score: tables, JSON lines, or a pair of .npy files.
 * Owner:  the caller's struct; hits_close removes unfinished files.
 * Thread: one at a time.
 * Errors: exit codes, as in cli.h. */
#ifndef ENGRAM_CLI_TEXT_HITS_H
#define ENGRAM_CLI_TEXT_HITS_H

#include "client/cli/cli.h"
#include "client/cli/text/meta_total.h"
#include "client/cli/text/names.h"
#include "client/cli/text/progress.h"
#include "client/cli/files/npy_write.h"

struct hits {
    struct cli *cli;
    const char *prefix;        /* of the files; NULL: print */
    const uint64_t *query_ids; /* NULL: queries are numbered */
    struct names names;
    bool named;
    struct npy_writer ids, scores;
    char *ids_path, *scores_path;
    struct table *table;
    uint64_t total, done, columns; /* queries in all and so far; columns of the files */
    struct meta_total meta;
    struct progress progress; /* shown where the results are not on the same terminal */
    void *row;                /* memory for one padded row */
};

/* prefix and names_path may be NULL. query_bytes: what a query takes, for the rate of progress. */
int hits_open(struct hits *h, struct cli *cli, const char *prefix, const char *names_path,
              uint64_t queries_total, uint64_t query_bytes);
/* Adds q further queries; ids and scores are q x columns; counts NULL: every column is a result. */
int hits_add(struct hits *h, const ea_meta *meta, uint64_t q, uint64_t columns, const uint64_t *ids,
             const float *scores, const uint32_t *counts);
/* Finishes the files and reports on them. */
int hits_finish(struct hits *h);
void hits_close(struct hits *h);

#endif
