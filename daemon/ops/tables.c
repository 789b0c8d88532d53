/* tables: what an attractor begins with: its first weights, and the dentate matrix of its dimension
 * where its space has none yet and nobody makes it. Many sines; a part is some hundred
 * microseconds of them. */
#include "daemon/ops/operation.h"
#include "daemon/store/attractor.h"
#include "daemon/store/dentate.h"

enum { PART_NUMBERS = 1 << 15 };
enum { WORD_DENTATE_PARTS };
/* A number takes as long as this many bytes that are moved. */
enum { BYTES_OF_NUMBER = 128 };

static struct attractor *attractor_of(const struct job *j)
{
    return (struct attractor *)j->resident;
}

static uint32_t rows_of_part(uint32_t dimension)
{
    return PART_NUMBERS / dimension;
}

static uint32_t parts_of(uint64_t rows, uint32_t dimension)
{
    uint32_t each = rows_of_part(dimension);
    return (uint32_t)((rows + each - 1) / each);
}

static bool makes_dentate(const struct dentate *d)
{
    return !d->made && !d->maker;
}

static void work(const struct job *j, struct work *w)
{
    const struct dentate *d = attractor_dentate(attractor_of(j));
    uint64_t rows = d->dimension + (makes_dentate(d) ? dentate_rows(d) : 0);
    w->bytes_out = rows * d->dimension * BYTES_OF_NUMBER;
}

static void make_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct attractor *a = attractor_of(j);
    struct dentate *d = attractor_dentate(a);
    const struct attractor_kernels *k = attractor_choose(j->kernels->name);
    uint64_t dentate_parts = j->plan.words[WORD_DENTATE_PARTS], rows = dentate_rows(d);
    uint64_t each = rows_of_part(d->dimension), first = part * each;
    if (part >= dentate_parts) {
        first = (part - dentate_parts) * each;
        rows = d->dimension;
    }
    uint64_t count = rows - first < each ? rows - first : each;
    if (part < dentate_parts)
        dentate_make(d, k, first, count);
    else
        attractor_make(a, k, (uint32_t)first, (uint32_t)count);
}

static enum status plan(struct job *j)
{
    struct dentate *d = attractor_dentate(attractor_of(j));
    uint32_t dentate_parts = makes_dentate(d) ? parts_of(dentate_rows(d), d->dimension) : 0;
    if (dentate_parts) d->maker = j;
    j->plan.words[WORD_DENTATE_PARTS] = dentate_parts;
    j->plan.parts = dentate_parts + parts_of(d->dimension, d->dimension);
    j->plan.run_part = make_part;
    return STATUS_OK;
}

const struct operation_ops operation_tables = {.work = work, .plan = plan};
