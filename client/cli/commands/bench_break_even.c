/* bench_break_even: from how many rows on a card is faster, as requests of this minute took, beside
 * what was predicted: the daemon is told to run them on the processor, then on the card
 * (gpu.force), and told back. */
#include "client/cli/commands/bench.h"

#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIMENSION = 768, /* as the predictions */
    UNPREDICTED_ROWS = 256,
    STEP = 2,   /* from one size to the next, until two of them bracket it */
    ROUNDS = 3, /* of both backends in turn, so that a slow moment is one of both */
    CLOSE_PERCENT = 10
};
#define WARM_NS UINT64_C(10000000000)

static const struct {
    enum bench_operation operation;
    uint64_t batch;
} asked[] = {{BENCH_KNN, 1}, {BENCH_KNN, 8}, {BENCH_KNN, 64}, {BENCH_SIMILARITY, 1}};
#define ASKED (sizeof asked / sizeof *asked)

struct measured {
    uint64_t rows;
    uint64_t ns[EA_BACKENDS]; /* p50, by ea_backend: CPU and GPU */
    bool elsewhere;           /* not all ran where they were to */
};

/* The search for one operation's break-even. */
struct break_even {
    struct cli *cli;
    const struct bench_options *given;
    size_t which;
    unsigned tried;
    struct measured slower, faster; /* on the card; rows 0: none was */
    bool elsewhere;
};

/* Says why it may not be done here. */
static int force(struct cli *cli, const char *where, char before[257])
{
    ea_status status = ea_config_set(cli->client, "gpu.force", where, NULL, before);
    if (!status) return CLI_OK;
    printf("\nmeasured   not here: %s\n", ea_error_text(cli->client));
    return cli_exit_of(status);
}

/* Only these ways, and this backend. */
static bool ran_on(const struct meta_total *meta, ea_backend where)
{
    for (unsigned i = 0; i < meta->way_count; i++)
        if (meta->ways[i].backend != where) return false;
    return meta->way_count > 0;
}

static int drive_on(struct cli *cli, const struct bench_options *o, const struct bench_data *d,
                    ea_backend where, struct bench_result *r)
{
    char before[257];
    ea_status status =
        ea_config_set(cli->client, "gpu.force", ea_backend_name(where), NULL, before);
    int code = status ? cli_failed(cli, status, "gpu.force") : CLI_OK;
    if (!code) code = bench_drive(cli, o, d, r);
    return code ? code : interrupt_seen() ? CLI_INTERRUPTED : CLI_OK;
}

/* Until all of a run is where it is to be: the card's first runs make the replica. */
static int warm(struct cli *cli, const struct bench_options *o, const struct bench_data *d,
                ea_backend where, struct bench_result *r)
{
    uint64_t since_ns = clock_ns();
    int code;
    do {
        memset(r, 0, sizeof *r);
        code = drive_on(cli, o, d, where, r);
    } while (!code && !r->errors && !ran_on(&r->meta, where) && clock_ns() - since_ns < WARM_NS);
    return code;
}

/* Both backends in turn. */
static int measure_both(struct cli *cli, const struct bench_options *o, const struct bench_data *d,
                        struct measured *m)
{
    static const ea_backend both[] = {EA_BACKEND_CPU, EA_BACKEND_GPU};
    struct bench_result *r = calloc(3, sizeof *r); /* by ea_backend; [0]: what is not counted */
    int code = CLI_OK;
    if (!r) return cli_error(CLI_NO_MEMORY, "out of memory");
    for (int i = 0; !code && i < 2; i++)
        code = warm(cli, o, d, both[i], &r[0]);
    for (int i = 0; !code && i < 2 * ROUNDS; i++)
        code = drive_on(cli, o, d, both[i % 2], &r[both[i % 2]]);
    for (int i = 0; !code && i < 2; i++) {
        const struct bench_result *of = &r[both[i]];
        if (of->errors) code = cli_error(CLI_REFUSED, "%s", of->error);
        m->ns[both[i]] = latency_percentile(&of->latency, 0.5);
        m->elsewhere |= !of->done || !ran_on(&of->meta, both[i]);
    }
    free(r);
    return code;
}

static bool is_faster(const struct measured *m)
{
    return m->ns[EA_BACKEND_GPU] < m->ns[EA_BACKEND_CPU];
}

/* Measures so many random rows, and keeps what it says of where the break-even is. */
static int try_rows(struct break_even *s, uint64_t rows)
{
    struct bench_options o = *s->given;
    struct bench_data d = {0};
    struct measured m = {.rows = rows};
    struct text count;
    char label[96];
    o.operation = asked[s->which].operation;
    o.batch = asked[s->which].batch;
    o.rows = rows;
    o.dimension = DIMENSION;
    o.k = 10;
    o.seconds = s->given->seconds / (4 * ROUNDS);
    snprintf(label, sizeof label, "break-even %zu of %zu, try %u, %s rows, ", s->which + 1, ASKED,
             ++s->tried, format_count(&count, rows));
    o.label = label;
    int code = bench_data_make(&d, s->cli, &o);
    if (!code) code = measure_both(s->cli, &o, &d, &m);
    bench_data_drop(&d, s->cli);
    if (code) return code;
    s->elsewhere = m.elsewhere;
    if (m.elsewhere) return CLI_OK;
    *(is_faster(&m) ? &s->faster : &s->slower) = m;
    return CLI_OK;
}

/* The next size to look at; 0: it is known well enough, or there is none. */
static uint64_t next_rows(const struct break_even *s, uint64_t first)
{
    uint64_t low = s->slower.rows, high = s->faster.rows, most = s->given->rows;
    if (s->elsewhere) return 0;
    if (!low && !high) return first < most ? first : most;
    if (!low) return high / STEP;
    if (!high) return low < most ? (low * STEP < most ? low * STEP : most) : 0;
    if (high <= low + 1 || (high - low) * 100 <= low * CLOSE_PERCENT) return 0;
    uint64_t middle = (uint64_t)sqrt((double)low * (double)high);
    return middle > low ? middle : low + 1;
}

/* How many times as long the card took, as a logarithm. */
static double odds(const struct measured *m)
{
    return log((double)m->ns[EA_BACKEND_GPU] / (double)m->ns[EA_BACKEND_CPU]);
}

/* Between the last two, by how much each was off. */
static double crossing(const struct break_even *s)
{
    if (!s->slower.rows) return (double)s->faster.rows;
    double low = log((double)s->slower.rows), high = log((double)s->faster.rows);
    double above = odds(&s->slower), below = -odds(&s->faster);
    double part = above + below > 0 ? above / (above + below) : 0.5;
    return exp(low + part * (high - low));
}

static uint64_t predicted_rows(const ea_explanation *e, size_t which)
{
    for (uint32_t i = 0; i < e->operation_count; i++)
        for (uint32_t c = 0; c < e->operations[i].crossover_count; c++)
            if (strcmp(e->operations[i].name, bench_operation_names[asked[which].operation]) == 0 &&
                e->operations[i].crossovers[c].queries == asked[which].batch)
                return e->operations[i].crossovers[c].rows;
    return 0;
}

static const char *rows_text(struct text *t, uint64_t rows)
{
    return rows ? format_count(t, rows) : "never";
}

static void tell(const struct break_even *s, uint64_t before, uint64_t after)
{
    struct text a, b, c, d, e;
    printf("  %-12s %3llu queries  predicted %s, measured ",
           bench_operation_names[asked[s->which].operation],
           (unsigned long long)asked[s->which].batch, rows_text(&a, before));
    if (s->elsewhere) {
        printf("not: the card did not take all that was for it\n");
        return;
    }
    const struct measured *at = s->faster.rows ? &s->faster : &s->slower;
    uint64_t rows = s->faster.rows ? (uint64_t)(crossing(s) + 0.5) : 0;
    if (!rows)
        printf("never up to %s", format_count(&b, s->slower.rows));
    else if (!s->slower.rows)
        printf("%s or fewer", format_count(&b, rows));
    else
        printf("%s", format_count(&b, rows));
    if (rows && before && s->slower.rows)
        printf(", %.0f %% apart", 100 * fabs((double)before / (double)rows - 1));
    printf("; predicted since %s (with %s: cpu %s, gpu %s)\n", rows_text(&c, after),
           format_many(&(struct text){0}, at->rows, "row"), format_ns(&d, at->ns[EA_BACKEND_CPU]),
           format_ns(&e, at->ns[EA_BACKEND_GPU]));
}

/* Looks from where it is predicted on up and down, until two sizes bracket it, and halves what is
 * between these. */
static int find(struct cli *cli, const struct bench_options *given, size_t which)
{
    struct break_even s = {.cli = cli, .given = given, .which = which};
    ea_explanation *e = calloc(2, sizeof *e);
    if (!e) return cli_error(CLI_NO_MEMORY, "out of memory");
    ea_status status = ea_explain(cli->client, 0, &e[0]);
    uint64_t before = predicted_rows(&e[0], which);
    int code = status ? cli_failed(cli, status, "explain") : CLI_OK;
    uint64_t first = before ? before : UNPREDICTED_ROWS;
    for (uint64_t rows = next_rows(&s, first); !code && rows; rows = next_rows(&s, first))
        code = try_rows(&s, rows);
    if (!code) {
        status = ea_explain(cli->client, 0, &e[1]);
        code = status ? cli_failed(cli, status, "explain") : CLI_OK;
    }
    if (!code) tell(&s, before, predicted_rows(&e[1], which));
    free(e);
    return code;
}

int bench_break_evens(struct cli *cli, const struct bench_options *given)
{
    char was[257], ignored[257];
    bool ready = false;
    for (uint32_t i = 0; i < cli->info.gpu_count; i++)
        ready |= cli->info.gpus[i].state == EA_GPU_READY;
    if (!ready) {
        printf("\nmeasured   no card serves here\n");
        return CLI_OK;
    }
    if (force(cli, "cpu", was)) return CLI_OK;
    printf("\nmeasured, rows of %d from which the card is faster: medians of %.2g s on each, in "
           "turns, to %d %%\n",
           DIMENSION, given->seconds / 4, CLOSE_PERCENT);
    int code = CLI_OK;
    for (size_t i = 0; !code && i < ASKED; i++)
        code = find(cli, given, i);
    ea_status status = ea_config_set(cli->client, "gpu.force", was, NULL, ignored);
    if (status)
        cli_error(0, "gpu.force could not be set back to %s: %s", was, ea_error_text(cli->client));
    return code;
}
