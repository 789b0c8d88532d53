/* Which table of attractors goes with a variant of the vector kernels. */
#include "kernels/attractor.h"

#include <string.h>

const struct attractor_kernels *attractor_choose(const char *name)
{
    static const struct attractor_kernels *const tables[] = {
        &attractor_scalar,
#if defined(__x86_64__)
        &attractor_avx2,
        &attractor_avx512,
#elif defined(__aarch64__)
        &attractor_neon,
#endif
    };
    const struct vector_kernels *variant = vectors_choose(name);
    for (size_t i = 0; variant && i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i]->name, variant->name) == 0) return tables[i];
    }
    return NULL;
}
