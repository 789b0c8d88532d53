/* Which table of functions goes with a variant of the vector kernels. */
#include "kernels/functions.h"

const struct function_kernels *functions_choose(const char *name)
{
    static const struct function_kernels *const tables[] = {
        &functions_scalar,
#if defined(__x86_64__)
        &functions_avx2,
        &functions_avx512,
#elif defined(__aarch64__)
        &functions_neon,
#endif
    };
    const struct vector_kernels *variant = vectors_choose(name);
    for (size_t i = 0; variant && i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i]->name, variant->name) == 0) return tables[i];
    }
    return NULL;
}
