/* tile_neon: the register tile of 4 queries x 6 rows.
 * Owner:  tile_neon.c; used by vectors_neon.c alone.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_TILE_NEON_H
#define ENGRAM_KERNELS_CPU_TILE_NEON_H

#include "kernels/cpu/tile_walk.h"

tile_sum tile_neon;

#endif
