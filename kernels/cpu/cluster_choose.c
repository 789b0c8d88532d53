/* Which table of clustering goes with a variant of the vector kernels. */
#include "kernels/cluster.h"

#include <string.h>

const struct cluster_kernels *cluster_choose(const char *name)
{
    static const struct cluster_kernels *const tables[] = {
        &cluster_scalar,
#if defined(__x86_64__)
        &cluster_avx2,
        &cluster_avx512,
#elif defined(__aarch64__)
        &cluster_neon,
#endif
    };
    const struct vector_kernels *variant = vectors_choose(name);
    for (size_t i = 0; variant && i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i]->name, variant->name) == 0) return tables[i];
    }
    return NULL;
}
