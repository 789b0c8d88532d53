/* Which table of pattern completion goes with a variant of the vector kernels, and what needs no
 * variants. */
#include "kernels/complete.h"

const struct complete_kernels *complete_choose(const char *name)
{
    static const struct complete_kernels *const tables[] = {
        &complete_scalar,
#if defined(__x86_64__)
        &complete_avx2,
        &complete_avx512,
#elif defined(__aarch64__)
        &complete_neon,
#endif
    };
    const struct vector_kernels *variant = vectors_choose(name);
    for (size_t i = 0; variant && i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i]->name, variant->name) == 0) return tables[i];
    }
    return NULL;
}

void complete_fold_totals(double *totals, size_t count)
{
    for (; count > 1; count = (count + 1) / 2) {
        for (size_t i = 0; i < count / 2; i++)
            totals[i] = totals[2 * i] + totals[2 * i + 1];
        if (count % 2) totals[count / 2] = totals[count - 1];
    }
}
