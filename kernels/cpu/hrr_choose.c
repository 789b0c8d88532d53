/* The table of this machine: that of the variant of vectors.h with the same name. */
#include "kernels/hrr.h"
#include "kernels/vectors.h"

#include <string.h>

static const struct hrr_kernels *const tables[] = {
    &hrr_scalar,
#if defined(__x86_64__)
    &hrr_avx2,
    &hrr_avx512,
#elif defined(__aarch64__)
    &hrr_neon,
#endif
};

const struct hrr_kernels *hrr_choose(const char *name)
{
    const struct vector_kernels *vectors = vectors_choose(name);
    for (size_t i = 0; vectors && i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i]->name, vectors->name) == 0) return tables[i];
    }
    return NULL;
}
