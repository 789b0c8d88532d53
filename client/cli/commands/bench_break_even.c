/* bench_break_even: from how many rows on a card is faster, as requests of this minute took: the
 * daemon is told to run them on the processor, then on the card (gpu.force), and told back. */
#include "client/cli/commands/bench.h"

#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST = 8, DIMENSION = 768 }; /* from 2^8 rows on; as the predictions */

static const struct {
    enum bench_operation operation;
    uint64_t batch;
} asked[] = {{BENCH_KNN, 1}, {BENCH_KNN, 64}, {BENCH_SIMILARITY, 1}};
#define ASKED (sizeof asked / sizeof *asked)

struct measured {
    uint64_t ns[EA_BACKENDS]; /* p50, by ea_backend: CPU and GPU */
    bool elsewhere;           /* not all ran where they were to */
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

/* The first run makes the replica, and is not counted. */
static int measure_on(struct cli *cli, const struct bench_options *o, const struct bench_data *d,
                      ea_backend where, struct measured *m)
{
    char before[257];
    struct bench_options warm = *o;
    struct bench_result *r = calloc(2, sizeof *r);
    if (!r) return cli_error(CLI_NO_MEMORY, "out of memory");
    warm.seconds = o->seconds / 2;
    ea_status status =
        ea_config_set(cli->client, "gpu.force", ea_backend_name(where), NULL, before);
    int code = status ? cli_failed(cli, status, "gpu.force") : CLI_OK;
    if (!code) code = bench_drive(cli, &warm, d, &r[0]);
    if (!code && !interrupt_seen()) code = bench_drive(cli, o, d, &r[1]);
    if (!code && r[1].errors) code = cli_error(CLI_REFUSED, "%s", r[1].error);
    m->ns[where] = latency_percentile(&r[1].latency, 0.5);
    m->elsewhere |= r[1].done && !ran_on(&r[1].meta, where);
    free(r);
    return code;
}

/* Both, on 2^power random rows. */
static int measure(struct cli *cli, const struct bench_options *given, size_t which, unsigned power,
                   struct measured *m)
{
    struct bench_options o = *given;
    struct bench_data d = {0};
    char label[64];
    *m = (struct measured){0};
    o.operation = asked[which].operation;
    o.batch = asked[which].batch;
    o.rows = UINT64_C(1) << power;
    o.dimension = DIMENSION;
    o.k = 10;
    o.seconds = given->seconds / 4;
    snprintf(label, sizeof label, "break-even %zu of %zu, 2^%u rows, ", which + 1, ASKED, power);
    o.label = label;
    int code = bench_data_make(&d, cli, &o);
    if (!code) code = measure_on(cli, &o, &d, EA_BACKEND_CPU, m);
    if (!code && !interrupt_seen()) code = measure_on(cli, &o, &d, EA_BACKEND_GPU, m);
    bench_data_drop(&d, cli);
    return code ? code : interrupt_seen() ? CLI_INTERRUPTED : CLI_OK;
}

static bool is_faster(const struct measured *m)
{
    return m->ns[EA_BACKEND_GPU] < m->ns[EA_BACKEND_CPU];
}

static void tell(size_t which, unsigned power, const struct measured *m)
{
    struct text rows, cpu, gpu;
    printf("  %-20s %6llu queries  ", bench_operation_names[asked[which].operation],
           (unsigned long long)asked[which].batch);
    format_count(&rows, UINT64_C(1) << power);
    format_ns(&cpu, m->ns[EA_BACKEND_CPU]);
    format_ns(&gpu, m->ns[EA_BACKEND_GPU]);
    if (m->elsewhere)
        printf("not measured: the card did not take all that was for it\n");
    else if (!is_faster(m))
        printf("never, up to %s (cpu %s, gpu %s)\n", rows.c, cpu.c, gpu.c);
    else
        printf("%s (cpu %s, gpu %s)\n", rows.c, cpu.c, gpu.c);
}

/* Looks at powers of 4, and then at the power of 2 below the first at which the card was faster. */
static int find(struct cli *cli, const struct bench_options *given, size_t which)
{
    struct measured m, next, below;
    unsigned power = LEAST;
    int code = measure(cli, given, which, power, &m);
    while (!code && !m.elsewhere && !is_faster(&m) && UINT64_C(4) << power <= given->rows) {
        code = measure(cli, given, which, power + 2, &next);
        if (code || next.elsewhere) break; /* more does not fit there */
        power += 2;
        m = next;
    }
    if (!code && !m.elsewhere && is_faster(&m) && power > LEAST) {
        code = measure(cli, given, which, power - 1, &below);
        if (!code && !below.elsewhere && is_faster(&below)) power--, m = below;
    }
    if (!code) tell(which, power, &m);
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
    printf("\nmeasured, rows of %d, medians of %.2g s each; of powers of 2 the first at which the "
           "card "
           "was faster\n",
           DIMENSION, given->seconds / 4);
    int code = CLI_OK;
    for (size_t i = 0; !code && i < ASKED; i++)
        code = find(cli, given, i);
    ea_status status = ea_config_set(cli->client, "gpu.force", was, NULL, ignored);
    if (status)
        cli_error(0, "gpu.force could not be set back to %s: %s", was, ea_error_text(cli->client));
    return code;
}
