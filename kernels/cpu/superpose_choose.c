/* Which table of superpositions goes with a variant of the vector kernels. */
#include "kernels/superpose.h"

#include <string.h>

const struct superpose_kernels *superpose_choose(const char *name)
{
    static const struct superpose_kernels *const tables[] = {
        &superpose_scalar,
#if defined(__x86_64__)
        &superpose_avx2,
        &superpose_avx512,
#elif defined(__aarch64__)
        &superpose_neon,
#endif
    };
    const struct vector_kernels *variant = vectors_choose(name);
    for (size_t i = 0; variant && i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i]->name, variant->name) == 0) return tables[i];
    }
    return NULL;
}
