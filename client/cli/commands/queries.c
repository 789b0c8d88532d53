#include "client/cli/commands/queries.h"

#include "client/cli/long_call.h"
#include "client/cli/text/format.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int queries_open_file(struct queries *q, const char *path)
{
    q->path = path;
    if (!vectors_file_open(&q->file, path, VECTORS_OF_FLOATS)) return cli_file_error(q->file.error);
    if (q->file.rows == 0) return cli_error(CLI_FILE, "%s: holds no query", path);
    q->total = q->file.rows;
    q->dimension = (uint32_t)q->file.columns;
    return CLI_OK;
}

int queries_open_text(struct queries *q, const char *text)
{
    q->given = malloc(4 * (size_t)EA_DIMENSION_MAX);
    if (!q->given) return cli_error(CLI_NO_MEMORY, "--query: out of memory");
    for (const char *at = text; *at || q->dimension == 0;) {
        char number[64];
        double value;
        size_t n = strcspn(at, ",");
        snprintf(number, sizeof number, "%.*s", n < 63 ? (int)n : 63, at);
        if (q->dimension >= EA_DIMENSION_MAX || !parse_number(number, -FLT_MAX, FLT_MAX, &value))
            return cli_error(CLI_USAGE, "--query: number %u, '%.40s', is not one (0.1,0.2,...)",
                             q->dimension, number);
        q->given[q->dimension++] = (float)value;
        at += n + (at[n] == ',');
    }
    q->total = 1;
    return CLI_OK;
}

int queries_open_stored(struct queries *q, struct cli *cli, const char *collection,
                        const uint64_t *ids, uint64_t n)
{
    ea_status status = ea_fetch(cli->client, collection, ids, n, &q->stored);
    if (status) return cli_failed(cli, status, collection);
    for (uint64_t i = 0; i < n; i++)
        if (!q->stored.found[i])
            return cli_error(CLI_REFUSED, "%s: has no id %" PRIu64 " to ask with", collection,
                             ids[i]);
    q->total = n;
    q->dimension = (uint32_t)q->stored.columns;
    return CLI_OK;
}

int queries_prepare(struct queries *q, const char *collection, uint32_t dimension, uint64_t rows)
{
    if (q->dimension != dimension)
        return cli_error(CLI_REFUSED, "%s: the queries have dimension %u, %s has %u",
                         q->path    ? q->path
                         : q->given ? "--query"
                                    : "--query-id",
                         q->dimension, collection, dimension);
    q->block_rows = rows < q->total ? rows : q->total;
    if (!q->path) return CLI_OK;
    q->block = malloc(q->block_rows * 4 * dimension);
    return q->block ? CLI_OK : cli_error(CLI_NO_MEMORY, "%s: out of memory", q->path);
}

int queries_next(struct queries *q, const float **rows, uint64_t *n)
{
    uint64_t left = q->total - q->next;
    int code = left ? long_call_between("the queries") : CLI_OK;
    if (code) return code;
    *n = left < q->block_rows ? left : q->block_rows;
    if (q->path) {
        if (!vectors_file_read(&q->file, q->block, q->block_rows, n))
            return cli_file_error(q->file.error);
        *rows = q->block;
    } else {
        *rows = q->given ? q->given : q->stored.vectors + q->next * q->dimension;
    }
    q->next += *n;
    return CLI_OK;
}

void queries_close(struct queries *q)
{
    vectors_file_close(&q->file);
    ea_result_free(&q->stored);
    free(q->block);
    free(q->given);
    q->given = NULL;
    q->block = NULL;
}
