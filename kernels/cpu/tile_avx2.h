/* tile_avx2: the register tile of 4 queries x 6 rows.
 * Owner:  tile_avx2.c; used by vectors_avx2.c alone.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_TILE_AVX2_H
#define ENGRAM_KERNELS_CPU_TILE_AVX2_H

#include "kernels/cpu/tile_walk.h"

tile_sum tile_avx2;

#endif
