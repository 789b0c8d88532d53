/* hrr_cuda: binding on a device, bit for bit as kernels/hrr.h defines it.
 * Owner:  the GPU process; every pointer but `plan` is device memory of the current device.
 * Thread: any that has the device current.
 * Errors: the launcher only enqueues on `stream` and returns the launch's cudaError_t as an int. */
#ifndef ENGRAM_KERNELS_CUDA_HRR_CUDA_H
#define ENGRAM_KERNELS_CUDA_HRR_CUDA_H

#include "kernels/cpu/hrr_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Row of pair i: rows + step * (positions ? positions[i] : i). Rows are 8-byte aligned and step is
 * even; step 0: all pairs have the first row, whose spectrum is then made once a group. */
struct cuda_hrr_rows {
    const float *rows;
    const uint32_t *positions;
    uint64_t step;
};

struct cuda_hrr {
    const struct hrr_plan *plan; /* in host memory */
    const float *tables;         /* the plan's bytes again */
    enum hrr_form form;          /* of pairs; HRR_UNBIND_EXACT: of a plan with hrr_has_plan */
    struct cuda_hrr_rows a, b;
    /* NULL: pairs of a's and b's rows. Or count + 1 of them: result i is the product of the rows
     * offsets[i] to offsets[i + 1] - 1 of a, of which there is one at least; b is not read. */
    const uint64_t *offsets;
    uint64_t count;
    float *out;        /* 8-byte aligned; overlaps no operand */
    uint64_t out_step; /* floats from one row of out to the next, even if the dimension is */
    /* set to the first pair whose result is not finite, or for which there is no exact inverse;
     * UINT64_MAX: none. What such pairs get is undefined. */
    uint64_t *failed;
    void *scratch; /* 256-byte aligned; may be uninitialised; NULL: 0 bytes */
    uint64_t scratch_bytes;
};

/* The scratch for so many pairs or lists: the least that works, and that with which it is fastest.
 * Two spectra of a pair lie in a block's shared memory if that has room for both, else in scratch:
 * both, or one of them. */
struct cuda_hrr_scratch {
    uint64_t least, best;
};

/* The bytes of a spectrum of so many points in memory, at most; a multiple of 256. */
static inline uint64_t hrr_spectrum_bytes(uint32_t points)
{
    return ((uint64_t)points + points / 8 + 64) * 8 / 256 * 256 + 256;
}

/* On a device whose blocks have so much shared memory. */
static inline struct cuda_hrr_scratch hrr_scratch_of(const struct hrr_plan *plan, uint64_t count,
                                                     uint64_t shared, uint32_t processors)
{
    uint64_t bytes = hrr_spectrum_bytes(plan->points), beside = 1024;
    uint64_t fit = shared > beside ? (shared - beside) / bytes : 0;
    uint64_t a_block = fit >= 2 ? 0 : (2 - fit) * bytes;
    struct cuda_hrr_scratch scratch = {a_block,
                                       a_block * (count < processors ? count : processors)};
    return scratch;
}

/* The same on the current device. */
struct cuda_hrr_scratch cuda_hrr_scratch(const struct hrr_plan *plan, uint64_t count);

int cuda_hrr_pairs(const struct cuda_hrr *work, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
