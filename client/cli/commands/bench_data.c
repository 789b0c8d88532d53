#include "client/cli/commands/bench.h"

#include "client/cli/interrupt.h"
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define SAMPLE_BYTES (16u << 20) /* vectors to ask with */
#define BLOCK_ROWS   4096u

static uint64_t random_next(uint64_t *state)
{
    /* SplitMix64: every seed gives a good stream, and runs are repeatable. */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void random_vectors(float *out, uint64_t n, uint64_t *state)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = (float)(random_next(state) >> 40) * 0x1p-23f - 1; /* [-1, 1) */
}

static int fill(struct bench_data *d, struct cli *cli, uint64_t rows)
{
    uint64_t seed = 1;
    float *block = malloc((uint64_t)BLOCK_ROWS * d->dimension * 4);
    uint64_t *ids = malloc(BLOCK_ROWS * sizeof *ids);
    int code = block && ids ? CLI_OK : cli_error(CLI_NO_MEMORY, "out of memory");
    struct progress progress;
    progress_start(&progress, rows, 4 * (uint64_t)d->dimension, clock_ns());
    for (uint64_t at = 0; at < rows && !code && !interrupt_seen(); at += BLOCK_ROWS) {
        uint64_t n = rows - at < BLOCK_ROWS ? rows - at : BLOCK_ROWS;
        random_vectors(block, n * d->dimension, &seed);
        for (uint64_t i = 0; i < n; i++)
            ids[i] = at + i;
        ea_status status = ea_upsert(cli->client,
                                     &(ea_rows){.collection = d->name,
                                                .ids = ids,
                                                .rows = block,
                                                .count = n,
                                                .dimension = d->dimension},
                                     NULL);
        if (status) progress_finish(&progress);
        if (status) code = cli_failed(cli, status, "filling the collection");
        progress_show(&progress, at + n, clock_ns());
    }
    progress_finish(&progress);
    free(block);
    free(ids);
    return code;
}

static int make_collection(struct bench_data *d, struct cli *cli, const struct bench_options *o)
{
    snprintf(d->name, sizeof d->name, "bench-%d-%08" PRIx32, (int)getpid(),
             (uint32_t)(ea_instance(cli->client) ^ (uintptr_t)d >> 4));
    d->dimension = (uint32_t)o->dimension;
    ea_status status = ea_collection_create(cli->client, d->name, d->dimension, EA_COSINE, NULL);
    if (status) return cli_failed(cli, status, d->name);
    d->made = true;
    return fill(d, cli, o->rows);
}

/* Asks with rows of the collection itself: real data stays real, and their ids are known. */
static int sample(struct bench_data *d, struct cli *cli, uint64_t rows)
{
    ea_result r = {0};
    uint64_t limit =
        cli->info.reply_bytes_max < SAMPLE_BYTES ? cli->info.reply_bytes_max : SAMPLE_BYTES;
    uint64_t n = cli_fit(limit, 1024, 4 * (uint64_t)d->dimension + 9, rows);
    ea_status status = ea_fetch_range(cli->client, d->name, 0, n, &r);
    if (status) return cli_failed(cli, status, d->name);
    d->count = r.rows;
    d->vectors = malloc(r.rows * d->dimension * 4);
    d->ids = malloc(r.rows * sizeof *d->ids);
    int code = d->vectors && d->ids ? CLI_OK : cli_error(CLI_NO_MEMORY, "out of memory");
    for (uint64_t i = 0; !code && i < r.rows; i++)
        d->ids[i] = r.ids[i];
    for (uint64_t i = 0; !code && i < r.rows * d->dimension; i++)
        d->vectors[i] = r.vectors[i];
    ea_result_free(&r);
    return code;
}

/* A block that requests of `batch` queries can begin anywhere in the first count rows of. */
static int extend(struct bench_data *d, const struct bench_options *o)
{
    uint64_t need = d->count + o->batch;
    float *vectors = reallocarray(d->vectors, need, (size_t)d->dimension * 4);
    if (!vectors) return cli_error(CLI_NO_MEMORY, "out of memory");
    d->vectors = vectors;
    for (uint64_t i = d->count * d->dimension; i < need * d->dimension; i++)
        vectors[i] = vectors[i - d->count * d->dimension];

    if (o->operation != BENCH_SCORE) return CLI_OK;
    uint64_t seed = 2, each = o->batch * o->candidates;
    d->candidate_count = each + 65536;
    d->candidates = malloc(d->candidate_count * sizeof *d->candidates);
    d->offsets = malloc((o->batch + 1) * sizeof *d->offsets);
    if (!d->candidates || !d->offsets) return cli_error(CLI_NO_MEMORY, "out of memory");
    for (uint64_t i = 0; i < d->candidate_count; i++)
        d->candidates[i] = d->ids[random_next(&seed) % d->count];
    for (uint64_t i = 0; i <= o->batch; i++)
        d->offsets[i] = i * o->candidates;
    return CLI_OK;
}

int bench_data_make(struct bench_data *d, struct cli *cli, const struct bench_options *o)
{
    if (o->operation == BENCH_PING) return CLI_OK;
    ea_collection_info about;
    int code = CLI_OK;
    if (!o->collection)
        code = make_collection(d, cli, o);
    else
        snprintf(d->name, sizeof d->name, "%s", o->collection);
    if (code || interrupt_seen()) return code ? code : CLI_INTERRUPTED;
    ea_status status =
        ea_collection_describe(cli->client, o->collection ? o->collection : d->name, &about);
    if (status) return cli_failed(cli, status, d->name);
    if (about.rows == 0) return cli_error(CLI_REFUSED, "%s: has no rows to ask with", d->name);
    d->dimension = about.dimension;
    code = sample(d, cli, about.rows);
    return code ? code : extend(d, o);
}

void bench_data_drop(struct bench_data *d, struct cli *cli)
{
    if (d->made) {
        ea_status status = ea_collection_drop(cli->client, d->name);
        if (status) cli_failed(cli, status, d->name);
    }
    free(d->vectors);
    free(d->ids);
    free(d->offsets);
    free(d->candidates);
    *d = (struct bench_data){0};
}
