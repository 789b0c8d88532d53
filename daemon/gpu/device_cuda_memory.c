/* device_cuda_memory: device, unified and pinned memory. */
#include "daemon/gpu/device_cuda.h"

static int advise_device(struct cuda_device *d, void *address, uint64_t bytes)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation here = {.type = cudaMemLocationTypeDevice, .id = d->ordinal};
    return cudaMemAdvise(address, bytes, cudaMemAdviseSetPreferredLocation, here);
#else
    return cudaMemAdvise(address, bytes, cudaMemAdviseSetPreferredLocation, d->ordinal);
#endif
}

static int prefetch(struct cuda_device *d, void *address, uint64_t bytes)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation here = {.type = cudaMemLocationTypeDevice, .id = d->ordinal};
    return cudaMemPrefetchAsync(address, bytes, here, 0, d->stream);
#else
    return cudaMemPrefetchAsync(address, bytes, d->ordinal, d->stream);
#endif
}

/* Unified memory that is kept on the device: its pages are there before anything is copied into
 * them, and stay until the device itself runs out. What was left out, and why:
 * - read-mostly: no host thread reads it, so there is no copy to keep; and pages of which there may
 *   be copies are mapped for reading only, so that each one that an upload or a coding writes to
 *   would fault first;
 * - accessed-by: pages that had to leave would be read across the bus for good; without, the next
 *   kernel that touches one brings it back. */
static enum device_result managed_allocate(struct cuda_device *d, uint64_t bytes, void **out)
{
    void *address = NULL;
    enum device_result result = device_cuda_result(
        d, "cudaMallocManaged", cudaMallocManaged(&address, bytes, cudaMemAttachGlobal));
    if (result) return result;
    result = device_cuda_result(d, "cudaMemAdvise", advise_device(d, address, bytes));
    if (!result)
        result = device_cuda_result(d, "cudaMemPrefetchAsync", prefetch(d, address, bytes));
    if (!result)
        result = device_cuda_result(d, "cudaMemPrefetchAsync", cudaStreamSynchronize(d->stream));
    if (!result)
        *out = address;
    else
        (void)device_cuda_result(d, "cudaFree", cudaFree(address));
    return result;
}

enum device_result device_cuda_allocate(struct device *device, uint64_t bytes, void **out)
{
    struct cuda_device *d = device_cuda_of(device);
    if (d->poisoned) return DEVICE_STICKY;
    if (bytes > d->total_bytes)
        return device_cuda_result(d, "cudaMalloc", cudaErrorMemoryAllocation);
    if (bytes == 0) bytes = 1;
    void *address = NULL;
    enum device_result result = device_cuda_result(d, "cudaMalloc", cudaMalloc(&address, bytes));
    if (!result) *out = address;
    return result;
}

enum device_result device_cuda_range_allocate(struct cuda_device *d, uint64_t bytes, void **out)
{
    if (!d->managed) return device_cuda_allocate(&d->device, bytes, out);
    if (bytes > d->total_bytes)
        return device_cuda_result(d, "cudaMallocManaged", cudaErrorMemoryAllocation);
    return managed_allocate(d, bytes, out);
}

/* cudaFree waits for everything that is enqueued on the device. */
void device_cuda_release(struct device *device, void *address)
{
    struct cuda_device *d = device_cuda_of(device);
    if (address) (void)device_cuda_result(d, "cudaFree", cudaFree(address));
}

enum device_result device_cuda_host_allocate(struct device *device, uint64_t bytes, void **out)
{
    struct cuda_device *d = device_cuda_of(device);
    if (d->poisoned) return DEVICE_STICKY;
    if (bytes > CUDA_ADDRESSED_BYTES)
        return device_cuda_result(d, "cudaHostAlloc", cudaErrorMemoryAllocation);
    void *address = NULL;
    enum device_result result = device_cuda_result(
        d, "cudaHostAlloc", cudaHostAlloc(&address, bytes ? bytes : 1, cudaHostAllocDefault));
    if (!result) *out = address;
    return result;
}

void device_cuda_host_release(struct device *device, void *address)
{
    struct cuda_device *d = device_cuda_of(device);
    if (address) (void)device_cuda_result(d, "cudaFreeHost", cudaFreeHost(address));
}
