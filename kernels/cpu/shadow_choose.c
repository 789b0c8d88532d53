/* Which tables of shadow_scan.h this machine can run: those whose table of vectors.h it can, and
 * the one with VNNI if it has that. */
#include "kernels/shadow_scan.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>

static bool probe(void)
{
    uint32_t a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & bit_AVX512VNNI;
}

/* The processor is asked once, as in vectors_choose.c. */
static bool has_vnni(void)
{
    static _Atomic int found; /* 0: nobody has asked yet */
    int known = atomic_load_explicit(&found, memory_order_relaxed);
    if (!known) {
        known = probe() ? 1 : -1;
        atomic_store_explicit(&found, known, memory_order_relaxed);
    }
    return known > 0;
}

static const struct shadow_kernels *const tables[] = {&shadow_scalar, &shadow_avx2, &shadow_avx512,
                                                      &shadow_vnni};
enum { VNNI = 3 };
#else
#if defined(__aarch64__)
static const struct shadow_kernels *const tables[] = {&shadow_scalar, &shadow_neon};
#else
static const struct shadow_kernels *const tables[] = {&shadow_scalar};
#endif
enum { VNNI = -1 };

static bool has_vnni(void)
{
    return false;
}
#endif

static bool runs(size_t i, const struct vector_kernels *variant)
{
    return strcmp(tables[i]->name, variant->name) == 0 && ((int)i != VNNI || has_vnni());
}

const struct shadow_kernels *shadow_choose(const char *name)
{
    const struct vector_kernels *variant = vectors_choose(name);
    for (size_t i = sizeof tables / sizeof *tables; variant && i-- > 0;)
        if (runs(i, variant)) return tables[i];
    return NULL;
}

const struct shadow_kernels *shadow_variant(size_t i)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        const struct vector_kernels *variant;
        bool found = false;
        for (size_t v = 0; (variant = vectors_variant(v)); v++)
            found = found || runs(t, variant);
        if (found && i-- == 0) return tables[t];
    }
    return NULL;
}
