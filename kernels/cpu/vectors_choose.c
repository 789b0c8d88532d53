/* Which variants this machine can run: the instruction sets and, on x86, the registers that the
 * operating system saves (XCR0), without which the instructions would fault or lose state. */
#include "kernels/vectors.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

struct cpu {
    bool avx2, fma;
    bool avx512f, avx512bw, avx512dq, avx512vl;
    bool ymm_saved; /* XCR0: xmm, ymm-high */
    bool zmm_saved; /* and opmask, zmm-high, the upper sixteen zmm */
};

static uint64_t saved_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static struct cpu probe(void)
{
    struct cpu cpu = {0};
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return cpu;
    cpu.fma = c & bit_FMA;
    uint64_t saved = c & bit_OSXSAVE ? saved_state() : 0;
    cpu.ymm_saved = (saved & 0x06) == 0x06;
    cpu.zmm_saved = (saved & 0xe6) == 0xe6;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return cpu;
    cpu.avx2 = b & bit_AVX2;
    cpu.avx512f = b & bit_AVX512F;
    cpu.avx512bw = b & bit_AVX512BW;
    cpu.avx512dq = b & bit_AVX512DQ;
    cpu.avx512vl = b & bit_AVX512VL;
    return cpu;
}

static size_t count_variants(void)
{
    struct cpu cpu = probe();
    bool avx2 = cpu.avx2 && cpu.fma && cpu.ymm_saved;
    bool avx512 = cpu.avx512f && cpu.avx512bw && cpu.avx512dq && cpu.avx512vl && cpu.zmm_saved;
    return avx2 && avx512 ? 3 : avx2 ? 2 : 1;
}

/* The processor is asked once: in a virtual machine, the question leaves it, which takes longer
 * than a small request. Threads that ask at the same time find the same. */
static size_t list(const struct vector_kernels *variants[3])
{
    static _Atomic size_t found; /* 0: nobody has asked yet */
    size_t count = atomic_load_explicit(&found, memory_order_relaxed);
    if (!count) {
        count = count_variants();
        atomic_store_explicit(&found, count, memory_order_relaxed);
    }
    variants[0] = &vectors_scalar;
    variants[1] = &vectors_avx2;
    variants[2] = &vectors_avx512;
    return count;
}

void vectors_describe_cpu(char *text, size_t size)
{
    struct cpu cpu = probe();
    snprintf(text, size, "x86-64: sse2%s%s%s%s%s%s%s%s", cpu.avx2 ? " avx2" : "",
             cpu.fma ? " fma" : "", cpu.avx512f ? " avx512f" : "", cpu.avx512bw ? " avx512bw" : "",
             cpu.avx512dq ? " avx512dq" : "", cpu.avx512vl ? " avx512vl" : "",
             cpu.ymm_saved ? " ymm-saved" : "", cpu.zmm_saved ? " zmm-saved" : "");
}

#elif defined(__aarch64__)

static size_t list(const struct vector_kernels *variants[3])
{
    variants[0] = &vectors_scalar;
    variants[1] = &vectors_neon; /* part of every AArch64 */
    return 2;
}

void vectors_describe_cpu(char *text, size_t size)
{
    snprintf(text, size, "aarch64: neon");
}

#else

static size_t list(const struct vector_kernels *variants[3])
{
    variants[0] = &vectors_scalar;
    return 1;
}

void vectors_describe_cpu(char *text, size_t size)
{
    snprintf(text, size, "unknown: scalar only");
}

#endif

const struct vector_kernels *vectors_variant(size_t i)
{
    const struct vector_kernels *variants[3];
    return i < list(variants) ? variants[i] : NULL;
}

const struct vector_kernels *vectors_choose(const char *name)
{
    const struct vector_kernels *variants[3];
    size_t count = list(variants);
    if (strcmp(name, "auto") == 0) return variants[count - 1];
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, variants[i]->name) == 0) return variants[i];
    }
    return NULL;
}
