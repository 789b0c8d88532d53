/* transform_inline: for functions whose radix, lane or form is a constant at the call, so that
 * their loops become straight lines.
 * Owner:  the variants' files.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_TRANSFORM_INLINE_H
#define ENGRAM_KERNELS_CPU_TRANSFORM_INLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The Makefile defines ENGRAM_SANITIZER: a sanitizer's code in straight lines takes minutes to
 * compile. */
#if defined(ENGRAM_SANITIZER)
#define TRANSFORM_INLINE static inline
#define TRANSFORM_UNROLL
#else
#define TRANSFORM_INLINE static inline __attribute__((always_inline))
/* Before a loop of at most 32 turns. */
#define TRANSFORM_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
