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
    enum hrr_form form;          /* HRR_BIND or HRR_UNBIND */
    struct cuda_hrr_rows a, b;
    uint64_t count;
    float *out;        /* 8-byte aligned; overlaps no operand */
    uint64_t out_step; /* floats from one row of out to the next, even if the dimension is */
    uint64_t *failed;  /* set to the first pair whose result is not finite; UINT64_MAX: none */
};

/* True if cuda_hrr_pairs takes this: not the exact inverse, and at most 12,288 points, which is all
 * dimensions up to 12,288, and up to 16,384 those with a plan. */
bool cuda_hrr_runs(const struct hrr_plan *plan, enum hrr_form form);

int cuda_hrr_pairs(const struct cuda_hrr *work, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
