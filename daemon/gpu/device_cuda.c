/* device_cuda: the table of device.h over CUDA's runtime. */
#include "daemon/gpu/device_cuda.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- errors */

/* Every error that is not clearly DEVICE_ERROR. By number if CUDA 11.0 had no name for it. */
static const struct {
    int error;
    enum device_result result;
} classes[] = {
    {cudaSuccess, DEVICE_OK},
    {cudaErrorNotReady, DEVICE_BUSY},

    /* Nothing was done, and smaller or later requests may succeed. */
    {cudaErrorMemoryAllocation, DEVICE_NO_MEMORY},
    {cudaErrorMemoryValueTooLarge, DEVICE_NO_MEMORY},

    /* A kernel failed: CUDA refuses everything else in this context. */
    {cudaErrorIllegalAddress, DEVICE_STICKY},
    {cudaErrorLaunchTimeout, DEVICE_STICKY},
    {cudaErrorAssert, DEVICE_STICKY},
    {cudaErrorHardwareStackError, DEVICE_STICKY},
    {cudaErrorIllegalInstruction, DEVICE_STICKY},
    {cudaErrorMisalignedAddress, DEVICE_STICKY},
    {cudaErrorInvalidAddressSpace, DEVICE_STICKY},
    {cudaErrorInvalidPc, DEVICE_STICKY},
    {cudaErrorLaunchFailure, DEVICE_STICKY},
    {721 /* cudaErrorTensorMemoryLeak */, DEVICE_STICKY},

    /* The hardware failed: the process must end, and the next one may find it working again. */
    {cudaErrorECCUncorrectable, DEVICE_STICKY},
    {cudaErrorNvlinkUncorrectable, DEVICE_STICKY},
    {226 /* cudaErrorContained */, DEVICE_STICKY},
    {911 /* cudaErrorExternalDevice */, DEVICE_STICKY},

    /* The context, the driver or the device has been lost. */
    {cudaErrorInitializationError, DEVICE_STICKY},
    {cudaErrorCudartUnloading, DEVICE_STICKY},
    {cudaErrorDevicesUnavailable, DEVICE_STICKY},
    {cudaErrorNoDevice, DEVICE_STICKY},
    {cudaErrorInvalidDevice, DEVICE_STICKY},
    {201 /* cudaErrorDeviceUninitialized, which CUDA 11 spelt otherwise */, DEVICE_STICKY},
    {cudaErrorContextIsDestroyed, DEVICE_STICKY},
    {cudaErrorStartupFailure, DEVICE_STICKY},
    {805 /* cudaErrorMpsConnectionFailed */, DEVICE_STICKY},
    {806 /* cudaErrorMpsRpcFailure */, DEVICE_STICKY},
    {810 /* cudaErrorMpsClientTerminated */, DEVICE_STICKY},

    /* It is not known what still works; a fresh process costs half a second. */
    {cudaErrorUnknown, DEVICE_STICKY},
};

enum device_result device_cuda_class(int error)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i].error == error) return classes[i].result;
    return DEVICE_ERROR;
}

enum device_result device_cuda_result(struct cuda_device *d, const char *what, int error)
{
    if (error == cudaSuccess) return DEVICE_OK;
    (void)cudaGetLastError();
    enum device_result result = device_cuda_class(error);
    if (result == DEVICE_BUSY) return result;
    if (!d->poisoned)
        snprintf(d->last_error, sizeof d->last_error, "%s: %s", what,
                 cudaGetErrorString((cudaError_t)error));
    if (result == DEVICE_STICKY) d->poisoned = true;
    return result;
}

static const char *cuda_last_error(const struct device *device)
{
    return ((const struct cuda_device *)device)->last_error;
}

/* ---------------------------------------------------------------- life */

struct cuda_device *device_cuda_of(struct device *device)
{
    struct cuda_device *d = (struct cuda_device *)device;
    assert(pthread_equal(d->thread, pthread_self()));
    return d;
}

static void cuda_close(struct device *device)
{
    if (!device) return;
    struct cuda_device *d = device_cuda_of(device);
    if (d->stream) (void)cudaStreamDestroy(d->stream);
    (void)cudaGetLastError();
    free(d);
}

static enum device_result cuda_memory(struct device *device, uint64_t *free_bytes,
                                      uint64_t *total_bytes)
{
    struct cuda_device *d = device_cuda_of(device);
    size_t unused = 0, total = 0;
    if (d->poisoned) return DEVICE_STICKY;
    enum device_result result =
        device_cuda_result(d, "cudaMemGetInfo", cudaMemGetInfo(&unused, &total));
    if (result) return result;
    *free_bytes = unused;
    *total_bytes = total;
    return DEVICE_OK;
}

/* ---------------------------------------------------------------- streams and events */

static enum device_result cuda_stream_create(struct device *device, device_stream *out)
{
    struct cuda_device *d = device_cuda_of(device);
    if (d->poisoned) return DEVICE_STICKY;
    return device_cuda_result(d, "cudaStreamCreate",
                              cudaStreamCreateWithFlags(out, cudaStreamNonBlocking));
}

static void cuda_stream_destroy(struct device *device, device_stream s)
{
    struct cuda_device *d = device_cuda_of(device);
    if (s) (void)device_cuda_result(d, "cudaStreamDestroy", cudaStreamDestroy(s));
}

static enum device_result cuda_event_create(struct device *device, device_event *out)
{
    struct cuda_device *d = device_cuda_of(device);
    cudaEvent_t event = NULL;
    if (d->poisoned) return DEVICE_STICKY;
    enum device_result result = device_cuda_result(
        d, "cudaEventCreate", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    if (!result) *out = (device_event)event;
    return result;
}

static void cuda_event_destroy(struct device *device, device_event e)
{
    struct cuda_device *d = device_cuda_of(device);
    if (e) (void)device_cuda_result(d, "cudaEventDestroy", cudaEventDestroy((cudaEvent_t)e));
}

static enum device_result cuda_event_record(struct device *device, device_event e, device_stream s)
{
    struct cuda_device *d = device_cuda_of(device);
    if (d->poisoned) return DEVICE_STICKY;
    return device_cuda_result(d, "cudaEventRecord", cudaEventRecord((cudaEvent_t)e, s));
}

static enum device_result cuda_event_query(struct device *device, device_event e)
{
    struct cuda_device *d = device_cuda_of(device);
    if (d->poisoned) return DEVICE_STICKY;
    return device_cuda_result(d, "cudaEventQuery", cudaEventQuery((cudaEvent_t)e));
}

/* ---------------------------------------------------------------- enqueue */

static enum device_result cuda_copy(struct device *device, void *to, const void *from,
                                    uint64_t bytes, enum cudaMemcpyKind kind, device_stream s)
{
    struct cuda_device *d = device_cuda_of(device);
    if (d->poisoned) return DEVICE_STICKY;
    if (bytes == 0) return DEVICE_OK;
    return device_cuda_result(d, "cudaMemcpyAsync", cudaMemcpyAsync(to, from, bytes, kind, s));
}

static enum device_result cuda_copy_in(struct device *device, void *to, const void *pinned,
                                       uint64_t bytes, device_stream s)
{
    return cuda_copy(device, to, pinned, bytes, cudaMemcpyHostToDevice, s);
}

static enum device_result cuda_copy_out(struct device *device, void *pinned, const void *from,
                                        uint64_t bytes, device_stream s)
{
    return cuda_copy(device, pinned, from, bytes, cudaMemcpyDeviceToHost, s);
}

static enum device_result cuda_clear(struct device *device, void *address, uint64_t bytes,
                                     device_stream s)
{
    struct cuda_device *d = device_cuda_of(device);
    if (d->poisoned) return DEVICE_STICKY;
    if (bytes == 0) return DEVICE_OK;
    return device_cuda_result(d, "cudaMemsetAsync", cudaMemsetAsync(address, 0, bytes, s));
}

/* Returns a cudaError_t. */
static int enqueue(const struct device_call *c, device_stream s)
{
    switch (c->kernel) {
    case KERNEL_NORMS: return cuda_norms(&c->rows, c->norms.out, s);
    case KERNEL_FIND_BAD: return cuda_find_bad(c->rows.norms, c->rows.count, c->find_bad.out, s);
    case KERNEL_SCAN: return cuda_scan(c->metric, &c->queries, &c->rows, c->scores.out, s);
    case KERNEL_TILE:
        return cuda_tile(c->metric, &c->queries, &c->rows, c->scores.out, c->scores.stride, s);
    case KERNEL_TOPK: return cuda_topk(c->metric, &c->queries, &c->rows, &c->topk, s);
    case KERNEL_GATHER_LISTS:
        return cuda_gather_lists(c->metric, &c->queries, &c->rows, c->lists.positions,
                                 c->lists.offsets, c->lists.count, c->lists.out, s);
    case KERNEL_AVERAGE:
        return cuda_weighted_average(&c->rows, c->average.positions, c->average.weights,
                                     c->average.count, c->average.total, c->average.out, s);
    case KERNEL_SPREAD: return cuda_spread(&c->spread, s);
    case KERNEL_DIRECT: return cuda_direct(c->metric, &c->rows, &c->direct, s);
    case KERNEL_BIND: return cuda_hrr_pairs(&c->bind, s);
    case KERNEL_SUPERPOSE: return cuda_superpose(&c->rows, &c->superpose, s);
    case KERNEL_NORMALIZE:
        return cuda_normalize(c->rows.dimension, c->normalize.rows, c->normalize.norms,
                              c->rows.count, s);
    case KERNEL_COMPLETE: return cuda_complete(&c->rows, &c->complete, s);
    case KERNEL_ATTRACTOR: return cuda_attractor(&c->rows, &c->attractor, s);
    case KERNEL_RECALL_BEGIN: return cuda_recall_begin(&c->recall, s);
    case KERNEL_RECALL_SEEDS: return cuda_recall_seeds(&c->recall, s);
    case KERNEL_RECALL_BEST: return cuda_recall_best(&c->recall, s);
    case KERNEL_COVARIANCE: return cuda_covariance(&c->rows, &c->covariance, s);
    case KERNEL_CLUSTER: return cuda_cluster(&c->rows, &c->cluster, s);
    case KERNEL_SHADOW_CENTRE:
        return cuda_shadow_centre(&c->rows, c->centre.row, c->centre.norm, s);
    case KERNEL_SHADOW_CODE:
        return cuda_shadow_code(&c->rows, c->code.first, c->code.count, &c->shadow, s);
    case KERNEL_SHADOW_TOPK:
        return cuda_shadow_topk(c->metric, &c->queries, &c->rows, &c->shadow, &c->topk, s);
    case KERNEL_SHADOW_DIRECT:
        return cuda_shadow_direct(c->metric, &c->rows, &c->shadow, &c->direct, s);
    case KERNEL_SHADOW_SUM:
        return cuda_shadow_sum(c->rows.dimension, c->sum.first, c->sum.count, c->sum.out,
                               &c->shadow, c->sum.sums, s);
    case KERNEL_SHADOW_CHECK:
        return cuda_shadow_check(&c->rows, c->look.first, c->look.count, &c->shadow, c->look.sums,
                                 c->look.found, s);
    case KERNEL_SHADOW_LIST:
        return cuda_shadow_list(c->metric, &c->queries, &c->rows, &c->shadow, &c->topk, &c->list,
                                s);
    }
    return cudaErrorInvalidValue;
}

static enum device_result cuda_launch(struct device *device, const struct device_call *call,
                                      device_stream s)
{
    struct cuda_device *d = device_cuda_of(device);
    if (d->poisoned) return DEVICE_STICKY;
    return device_cuda_result(d, device_kernel_name(call->kernel), enqueue(call, s));
}

static enum device_result cuda_direct_query(struct device *device, device_stream s,
                                            struct cells *cells)
{
    (void)device;
    (void)s;
    return cells_came(cells) ? DEVICE_OK : DEVICE_BUSY;
}

/* An H200 does 65 to 76 million of many queries where the screen works, 9 to 12 where it lets too
 * much pass (docs/performance-gpu.md); what a replica does is learnt from its runs. */
static uint64_t cuda_multiply_adds(const struct device *d)
{
    (void)d;
    return 60000000;
}

/* Below some 45,000 rows of 768 numbers a scan of the rows is faster (docs/performance-gpu.md); of
 * a query that travels with the launch some 16,000. */
enum { SHADOW_NUMBERS_MIN = 32 << 20, SHADOW_DIRECT_NUMBERS_MIN = 12 << 20 };

static bool cuda_shadow_pays(const struct device *d, uint32_t dimension, uint64_t query_count,
                             uint32_t k, uint64_t row_count)
{
    (void)d;
    return row_count * dimension >= SHADOW_NUMBERS_MIN &&
           cuda_shadow_suits(query_count, k, row_count);
}

static bool cuda_shadow_direct_pays(const struct device *d, uint32_t dimension, uint32_t k,
                                    uint64_t row_count)
{
    (void)d;
    return row_count * dimension >= SHADOW_DIRECT_NUMBERS_MIN &&
           cuda_shadow_direct_suits(dimension, k, row_count);
}

static const struct device_ops ops = {
    .name = "cuda",
    .open = device_cuda_open,
    .close = cuda_close,
    .last_error = cuda_last_error,
    .memory = cuda_memory,
    .allocate = device_cuda_allocate,
    .release = device_cuda_release,
    .host_allocate = device_cuda_host_allocate,
    .host_release = device_cuda_host_release,
    .range_reserve = device_cuda_range_reserve,
    .range_resize = device_cuda_range_resize,
    .range_moves = device_cuda_range_moves,
    .range_piece = device_cuda_range_piece,
    .range_fork = device_cuda_range_fork,
    .range_own = device_cuda_range_own,
    .range_release = device_cuda_range_release,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_query = cuda_event_query,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .clear = cuda_clear,
    .launch = cuda_launch,
    .direct_query = cuda_direct_query,
    .multiply_adds = cuda_multiply_adds,
    .topk_scratch_min = cuda_topk_scratch_min,
    .topk_scratch_best = cuda_topk_scratch_best,
    .shadow_suits = cuda_shadow_pays,
    .shadow_scratch = cuda_shadow_scratch,
    .shadow_list_scratch = cuda_shadow_list_scratch,
    .bind_scratch = cuda_hrr_scratch,
    .direct_scratch_min = cuda_direct_scratch_min,
    .direct_scratch_best = cuda_direct_scratch_best,
    .shadow_direct_suits = cuda_shadow_direct_pays,
    .shadow_direct_scratch = cuda_shadow_direct_scratch,
    .spread_scratch_min = cuda_spread_scratch_min,
    .spread_scratch_best = cuda_spread_scratch_best,
};

const struct device_ops *const device_cuda = &ops;
