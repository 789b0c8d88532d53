/* device_call: one launch of a kernel as data: which kernel, and what it reads and writes. The
 * operations are those of kernels/cuda/vectors_cuda.h, rows_cuda.h, hrr_cuda.h, complete_cuda.h,
 * attractor_cuda.h, cluster_cuda.h, recall_cuda.h, shadow_cuda.h and spread_cuda.h, with their
 * shapes and rules; pointers are device memory unless stated otherwise.
 * Owner:  whoever launches.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_GPU_DEVICE_CALL_H
#define ENGRAM_GPU_DEVICE_CALL_H

#include "kernels/cuda/attractor_cuda.h"
#include "kernels/cuda/cluster_cuda.h"
#include "kernels/cuda/complete_cuda.h"
#include "kernels/cuda/covariance_cuda.h"
#include "kernels/cuda/hrr_cuda.h"
#include "kernels/cuda/recall_cuda.h"
#include "kernels/cuda/rows_cuda.h"
#include "kernels/cuda/shadow_cuda.h"
#include "kernels/cuda/shadow_sum_cuda.h"
#include "kernels/cuda/spread_cuda.h"
#include "kernels/cuda/vectors_cuda.h"

enum device_kernel {
    KERNEL_NORMS,
    KERNEL_FIND_BAD,
    KERNEL_SCAN, /* uses the first query only */
    KERNEL_TILE,
    KERNEL_TOPK,
    KERNEL_GATHER_LISTS,
    KERNEL_AVERAGE,
    KERNEL_SPREAD,
    KERNEL_DIRECT,
    KERNEL_BIND,
    KERNEL_NORMALIZE,
    KERNEL_SUPERPOSE,
    KERNEL_COMPLETE,
    KERNEL_ATTRACTOR,
    KERNEL_RECALL_BEGIN,
    KERNEL_RECALL_SEEDS,
    KERNEL_RECALL_BEST,
    KERNEL_COVARIANCE,
    KERNEL_CLUSTER,
    KERNEL_SHADOW_CENTRE,
    KERNEL_SHADOW_CODE,
    KERNEL_SHADOW_TOPK,
    KERNEL_SHADOW_SUM,
    KERNEL_SHADOW_CHECK,
    KERNEL_SHADOW_LIST, /* of rows only their norms are read */
    KERNEL_SHADOW_DIRECT,
};

struct device_call {
    enum device_kernel kernel;
    /* SCAN, TILE, TOPK, GATHER_LISTS, DIRECT, SHADOW_TOPK, SHADOW_LIST, SHADOW_DIRECT */
    enum metric metric;
    struct cuda_rows
        rows; /* all but SPREAD, BIND and RECALL_...; of NORMALIZE the dimension and count */
    struct cuda_queries queries;  /* SCAN, TILE, TOPK, GATHER_LISTS, SHADOW_TOPK, SHADOW_LIST */
    struct cuda_shadow shadow;    /* SHADOW_..., but CENTRE */
    struct cuda_shadow_list list; /* SHADOW_LIST */
    union {
        struct {
            float *out;
        } norms;
        struct {
            uint64_t *out; /* one number */
        } find_bad;
        struct {
            float *out;
            uint64_t stride;   /* TILE: floats between the rows of two queries */
        } scores;              /* SCAN, TILE */
        struct cuda_topk topk; /* TOPK, SHADOW_TOPK, SHADOW_LIST */
        struct {
            const uint32_t *positions; /* NULL: row i is the i-th */
            const uint64_t *offsets;   /* NULL: every query against all positions */
            uint64_t count;
            float *out;
        } lists;
        struct {
            const uint32_t *positions; /* NULL: row i is the i-th */
            const float *weights;
            uint64_t count;
            float total;
            float *out;
        } average;
        struct cuda_spread spread; /* host memory that it points to need not stay valid */
        struct cuda_direct
            direct; /* DIRECT, SHADOW_DIRECT; its query stays valid until its results have come */
        struct cuda_hrr bind; /* its plan stays valid until it is done */
        struct {
            float *rows;
            const float *norms;
        } normalize;
        struct cuda_superpose superpose;
        struct cuda_completion complete;
        struct cuda_attractor attractor;
        struct cuda_recall recall; /* RECALL_... */
        struct cuda_covariance covariance;
        struct cuda_cluster cluster;
        struct {
            float *row, *norm;
        } centre;
        struct {
            uint64_t first, count; /* of the rows */
        } code;
        struct {
            uint64_t first, count; /* of the rows */
            uint64_t *sums;
            bool out;
        } sum;
        struct {
            uint64_t first, count; /* of the rows */
            const uint64_t *sums;
            struct cuda_shadow_found *found;
        } look;
    };
};

/* True if its results come as cells (device_cells.h). */
static inline bool device_kernel_is_direct(enum device_kernel kernel)
{
    return kernel == KERNEL_DIRECT || kernel == KERNEL_SHADOW_DIRECT;
}

/* For messages and the settings of the simulated device. */
static inline const char *device_kernel_name(enum device_kernel kernel)
{
    switch (kernel) {
    case KERNEL_NORMS: return "norms";
    case KERNEL_FIND_BAD: return "find_bad";
    case KERNEL_SCAN: return "scan";
    case KERNEL_TILE: return "tile";
    case KERNEL_TOPK: return "topk";
    case KERNEL_GATHER_LISTS: return "gather_lists";
    case KERNEL_AVERAGE: return "average";
    case KERNEL_SPREAD: return "spread";
    case KERNEL_DIRECT: return "direct";
    case KERNEL_BIND: return "bind";
    case KERNEL_NORMALIZE: return "normalize";
    case KERNEL_SUPERPOSE: return "superpose";
    case KERNEL_COMPLETE: return "complete";
    case KERNEL_ATTRACTOR: return "attractor";
    case KERNEL_RECALL_BEGIN: return "recall_begin";
    case KERNEL_RECALL_SEEDS: return "recall_seeds";
    case KERNEL_RECALL_BEST: return "recall_best";
    case KERNEL_COVARIANCE: return "covariance";
    case KERNEL_CLUSTER: return "cluster";
    case KERNEL_SHADOW_CENTRE: return "shadow_centre";
    case KERNEL_SHADOW_CODE: return "shadow_code";
    case KERNEL_SHADOW_TOPK: return "shadow_topk";
    case KERNEL_SHADOW_SUM: return "shadow_sum";
    case KERNEL_SHADOW_CHECK: return "shadow_check";
    case KERNEL_SHADOW_LIST: return "shadow_list";
    case KERNEL_SHADOW_DIRECT: return "shadow_direct";
    }
    return "no kernel";
}

#endif
