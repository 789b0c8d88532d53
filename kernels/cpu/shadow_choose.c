/* Which tables of shadow_scan.h this machine can run: those whose table of vectors.h it can, if it
 * has the products of bytes that some need. */
#include "kernels/shadow_scan.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

/* What adds products of four bytes, beside a table's own instructions. The operating system saves
 * the same registers for both. */
enum products { PLAIN = 0, AVX512_VNNI = 1, AVX_VNNI = 2, SDOT = 4, ASKED = 8 };

#if defined(__x86_64__)
static unsigned probe(void)
{
    uint32_t a, b, c, d;
    unsigned found = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && c & bit_AVX512VNNI) found |= AVX512_VNNI;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && a & bit_AVXVNNI) found |= AVX_VNNI;
    return found;
}
#elif defined(__aarch64__)
static unsigned probe(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? SDOT : 0;
}
#else
static unsigned probe(void)
{
    return 0;
}
#endif

/* The processor is asked once, as in vectors_choose.c. */
static bool has(enum products products)
{
    static _Atomic unsigned found; /* 0: nobody has asked yet */
    unsigned known = atomic_load_explicit(&found, memory_order_relaxed);
    if (!known) {
        known = probe() | ASKED;
        atomic_store_explicit(&found, known, memory_order_relaxed);
    }
    return products == PLAIN || known & products;
}

/* Slowest first. */
static const struct {
    const struct shadow_kernels *kernels;
    enum products needs;
} tables[] = {
    {&shadow_scalar, PLAIN},
#if defined(__x86_64__)
    {&shadow_avx2, PLAIN},   {&shadow_vnni_avx2, AVX_VNNI},
    {&shadow_avx512, PLAIN}, {&shadow_vnni, AVX512_VNNI},
#elif defined(__aarch64__)
    {&shadow_neon, PLAIN},
    {&shadow_dot_neon, SDOT},
#endif
};

static bool runs(size_t i, const struct vector_kernels *variant)
{
    return strcmp(tables[i].kernels->name, variant->name) == 0 && has(tables[i].needs);
}

const struct shadow_kernels *shadow_choose(const char *name)
{
    const struct vector_kernels *variant = vectors_choose(name);
    for (size_t i = sizeof tables / sizeof *tables; variant && i-- > 0;)
        if (runs(i, variant)) return tables[i].kernels;
    return NULL;
}

const struct shadow_kernels *shadow_variant(size_t i)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        const struct vector_kernels *variant;
        bool found = false;
        for (size_t v = 0; (variant = vectors_variant(v)); v++)
            found = found || runs(t, variant);
        if (found && i-- == 0) return tables[t].kernels;
    }
    return NULL;
}
