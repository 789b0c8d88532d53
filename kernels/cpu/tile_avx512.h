/* tile_avx512: the register tile of 4 queries x 6 rows.
 * Owner:  tile_avx512.c; used by vectors_avx512.c alone.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_TILE_AVX512_H
#define ENGRAM_KERNELS_CPU_TILE_AVX512_H

#include "kernels/cpu/tile_walk.h"

tile_sum tile_avx512;

/* Dot products only, summed in another order than canonical.h's: for the screen. */
tile_sum tile_avx512_screen;

#endif
