/* Which table of random numbers goes with a variant of the vector kernels. */
#include "kernels/random.h"

const struct random_kernels *random_choose(const char *name)
{
    static const struct random_kernels *const tables[] = {
        &random_scalar,
#if defined(__x86_64__)
        &random_avx2,
        &random_avx512,
#elif defined(__aarch64__)
        &random_neon,
#endif
    };
    const struct vector_kernels *variant = vectors_choose(name);
    for (size_t i = 0; variant && i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i]->name, variant->name) == 0) return tables[i];
    }
    return NULL;
}
