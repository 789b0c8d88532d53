/* device_cuda_memory: device, unified and pinned memory, and ranges that grow: by mapping more
 * memory behind the same address if the driver can, otherwise by moving. */
#include "daemon/gpu/device_cuda.h"

#include <stdlib.h>
#include <string.h>

/* No GPU or host addresses more; CUDA's own answers to larger sizes differ. */
static const uint64_t ADDRESSED_BYTES = UINT64_C(1) << 47;
/* A growth is mapped in pieces of at most this size, and a shrink unmaps whole pieces. */
static const uint64_t PIECE_BYTES = UINT64_C(256) << 20;

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---------------------------------------------------------------- blocks */

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

/* Unified memory that is kept on the device. The host does not map it, which is the default: its
 * pages stay where they are until the device itself runs out. */
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

static enum device_result block_allocate(struct cuda_device *d, uint64_t bytes, void **out)
{
    if (d->poisoned) return DEVICE_STICKY;
    if (bytes > d->total_bytes)
        return device_cuda_result(d, "cudaMalloc", cudaErrorMemoryAllocation);
    if (bytes == 0) bytes = 1;
    if (d->managed) return managed_allocate(d, bytes, out);
    void *address = NULL;
    enum device_result result = device_cuda_result(d, "cudaMalloc", cudaMalloc(&address, bytes));
    if (!result) *out = address;
    return result;
}

enum device_result device_cuda_allocate(struct device *device, uint64_t bytes, void **out)
{
    return block_allocate(device_cuda_of(device), bytes, out);
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
    if (bytes > ADDRESSED_BYTES)
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

/* ---------------------------------------------------------------- ranges that map */

/* device_range.inside: the mapped pieces in their order; a handle is released as soon as it is
 * mapped, so that unmapping frees its memory. */
struct mapping {
    CUdeviceptr base;
    uint64_t count, capacity;
    uint64_t *ends; /* of each piece, from base */
};

static CUmemAllocationProp piece_properties(const struct cuda_device *d)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal},
    };
}

static uint64_t mapping_bytes(const struct mapping *m)
{
    return m->count ? m->ends[m->count - 1] : 0;
}

static enum device_result mapping_create(struct cuda_device *d, uint64_t bytes, void **out)
{
    struct mapping *m = calloc(1, sizeof *m);
    if (!m) return device_cuda_result(d, "calloc", cudaErrorMemoryAllocation);
    enum device_result result =
        device_cuda_result(d, "cuMemAddressReserve", d->driver.reserve(&m->base, bytes, 0, 0, 0));
    if (!result)
        *out = m;
    else
        free(m);
    return result;
}

/* Unmaps the last pieces as long as the rest still holds `bytes`. */
static enum device_result mapping_shrink(struct cuda_device *d, struct mapping *m, uint64_t bytes)
{
    while (m->count > 0) {
        uint64_t start = m->count > 1 ? m->ends[m->count - 2] : 0;
        uint64_t end = m->ends[m->count - 1];
        if (start < bytes) break;
        enum device_result result =
            device_cuda_result(d, "cuMemUnmap", d->driver.unmap(m->base + start, end - start));
        if (result) return result;
        m->count--;
    }
    return DEVICE_OK;
}

static enum device_result mapping_append(struct cuda_device *d, struct mapping *m, uint64_t bytes)
{
    if (m->count == m->capacity) {
        uint64_t capacity = m->capacity ? 2 * m->capacity : 8;
        uint64_t *ends = realloc(m->ends, capacity * sizeof *ends);
        if (!ends) return device_cuda_result(d, "realloc", cudaErrorMemoryAllocation);
        m->ends = ends;
        m->capacity = capacity;
    }
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp properties = piece_properties(d);
    enum device_result result =
        device_cuda_result(d, "cuMemCreate", d->driver.create(&handle, bytes, &properties, 0));
    if (result) return result;
    uint64_t start = mapping_bytes(m);
    result = device_cuda_result(d, "cuMemMap", d->driver.map(m->base + start, bytes, 0, handle, 0));
    enum device_result released = device_cuda_result(d, "cuMemRelease", d->driver.release(handle));
    if (!result) m->ends[m->count++] = start + bytes;
    return result ? result : released;
}

static enum device_result mapping_grow(struct cuda_device *d, struct mapping *m, uint64_t bytes)
{
    uint64_t before = mapping_bytes(m);
    enum device_result result = DEVICE_OK;
    while (!result && mapping_bytes(m) < bytes) {
        uint64_t left = bytes - mapping_bytes(m);
        result = mapping_append(d, m, left < PIECE_BYTES ? left : PIECE_BYTES);
    }
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    if (!result)
        result =
            device_cuda_result(d, "cuMemSetAccess",
                               d->driver.set_access(m->base + before, bytes - before, &access, 1));
    if (!result) return DEVICE_OK;
    char why[sizeof d->last_error];
    memcpy(why, d->last_error, sizeof why);
    if (!mapping_shrink(d, m, before)) memcpy(d->last_error, why, sizeof why);
    return result;
}

static void mapping_destroy(struct cuda_device *d, struct mapping *m, uint64_t bytes_max)
{
    (void)mapping_shrink(d, m, 0);
    (void)device_cuda_result(d, "cuMemAddressFree", d->driver.reserve_free(m->base, bytes_max));
    free(m->ends);
    free(m);
}

static enum device_result range_map(struct cuda_device *d, struct device_range *r, uint64_t bytes)
{
    struct mapping *m = r->inside;
    enum device_result result =
        bytes < r->bytes ? mapping_shrink(d, m, bytes) : mapping_grow(d, m, bytes);
    r->bytes = mapping_bytes(m);
    r->base = r->bytes ? (char *)(uintptr_t)m->base : NULL;
    return result;
}

/* ---------------------------------------------------------------- ranges that move */

static enum device_result range_move(struct cuda_device *d, struct device_range *r, uint64_t bytes)
{
    void *fresh = NULL;
    enum device_result result = bytes ? block_allocate(d, bytes, &fresh) : DEVICE_OK;
    /* the range stays larger than needed */
    if (result == DEVICE_NO_MEMORY && bytes < r->bytes) return DEVICE_OK;
    if (result) return result;
    uint64_t kept = bytes < r->bytes ? bytes : r->bytes;
    if (kept) {
        result = device_cuda_result(
            d, "cudaMemcpyAsync",
            cudaMemcpyAsync(fresh, r->base, kept, cudaMemcpyDeviceToDevice, d->stream));
        if (!result)
            result = device_cuda_result(d, "cudaMemcpyAsync", cudaStreamSynchronize(d->stream));
    }
    void *unused = result ? fresh : r->base;
    if (unused) (void)device_cuda_result(d, "cudaFree", cudaFree(unused));
    if (result) return result;
    r->base = fresh;
    r->bytes = bytes;
    return DEVICE_OK;
}

/* ---------------------------------------------------------------- ranges */

enum device_result device_cuda_range_reserve(struct device *device, uint64_t bytes_max,
                                             struct device_range *r)
{
    struct cuda_device *d = device_cuda_of(device);
    if (d->poisoned) return DEVICE_STICKY;
    if (bytes_max > ADDRESSED_BYTES)
        return device_cuda_result(d, "cuMemAddressReserve", cudaErrorMemoryAllocation);
    uint64_t bytes = round_up(bytes_max ? bytes_max : 1, d->granularity);
    void *inside = NULL;
    enum device_result result = d->maps ? mapping_create(d, bytes, &inside) : DEVICE_OK;
    if (!result) *r = (struct device_range){.bytes_max = bytes, .inside = inside};
    return result;
}

enum device_result device_cuda_range_resize(struct device *device, struct device_range *r,
                                            uint64_t bytes)
{
    struct cuda_device *d = device_cuda_of(device);
    if (d->poisoned) return DEVICE_STICKY;
    if (bytes > r->bytes_max) return device_cuda_result(d, "range", cudaErrorMemoryAllocation);
    bytes = round_up(bytes, d->granularity);
    if (bytes == r->bytes) return DEVICE_OK;
    return d->maps ? range_map(d, r, bytes) : range_move(d, r, bytes);
}

bool device_cuda_range_moves(const struct device *device)
{
    return !((const struct cuda_device *)device)->maps;
}

void device_cuda_range_release(struct device *device, struct device_range *r)
{
    struct cuda_device *d = device_cuda_of(device);
    if (r->inside)
        mapping_destroy(d, r->inside, r->bytes_max);
    else
        device_cuda_release(device, r->base);
    *r = (struct device_range){0};
}
