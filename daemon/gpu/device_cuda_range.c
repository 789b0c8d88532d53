/* device_cuda_range: ranges that grow: by mapping more memory behind the same address if the driver
 * can, otherwise by moving; and a second range over the contents of one. */
#include "daemon/gpu/device_cuda.h"

#include <stdlib.h>
#include <string.h>

/* A growth is mapped in pieces of at most this size. A shrink unmaps whole pieces, and a second
 * range takes memory of its own for whole pieces: to copy one takes some 20 us. */
static const uint64_t PIECE_BYTES = UINT64_C(32) << 20;

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---------------------------------------------------------------- ranges that map */

enum piece_memory { MEMORY_OWN, MEMORY_SHARED, MEMORY_NONE /* a call failed */ };

struct mapped_piece {
    uint64_t end; /* from the base */
    enum piece_memory memory;
};

/* device_range.inside: the mapped pieces in their order; a handle is released as soon as it is
 * mapped, so that unmapping frees its memory, or leaves it to the twin. */
struct mapping {
    CUdeviceptr base;
    uint64_t count, capacity;
    struct mapped_piece *pieces;
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
    return m->count ? m->pieces[m->count - 1].end : 0;
}

static uint64_t piece_start(const struct mapping *m, uint64_t i)
{
    return i ? m->pieces[i - 1].end : 0;
}

static uint64_t piece_bytes(const struct mapping *m, uint64_t i)
{
    return m->pieces[i].end - piece_start(m, i);
}

static uint64_t shared_bytes(const struct mapping *m)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < m->count; i++)
        if (m->pieces[i].memory == MEMORY_SHARED) bytes += piece_bytes(m, i);
    return bytes;
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
    for (; m->count > 0; m->count--) {
        uint64_t last = m->count - 1, start = piece_start(m, last);
        if (start < bytes) break;
        if (m->pieces[last].memory == MEMORY_NONE) continue;
        enum device_result result = device_cuda_result(
            d, "cuMemUnmap", d->driver.unmap(m->base + start, piece_bytes(m, last)));
        if (result) return result;
    }
    return DEVICE_OK;
}

/* Makes room for one more piece. */
static enum device_result mapping_reserve(struct cuda_device *d, struct mapping *m)
{
    if (m->count < m->capacity) return DEVICE_OK;
    uint64_t capacity = m->capacity ? 2 * m->capacity : 8;
    struct mapped_piece *pieces = realloc(m->pieces, capacity * sizeof *pieces);
    if (!pieces) return device_cuda_result(d, "realloc", cudaErrorMemoryAllocation);
    m->pieces = pieces;
    m->capacity = capacity;
    return DEVICE_OK;
}

/* Maps what the handle stands for, and lets the handle go. */
static enum device_result map_handle(struct cuda_device *d, CUdeviceptr at, uint64_t bytes,
                                     CUmemGenericAllocationHandle handle)
{
    enum device_result result =
        device_cuda_result(d, "cuMemMap", d->driver.map(at, bytes, 0, handle, 0));
    enum device_result released = device_cuda_result(d, "cuMemRelease", d->driver.release(handle));
    return result ? result : released;
}

static enum device_result create_handle(struct cuda_device *d, uint64_t bytes,
                                        CUmemGenericAllocationHandle *out)
{
    CUmemAllocationProp properties = piece_properties(d);
    return device_cuda_result(d, "cuMemCreate", d->driver.create(out, bytes, &properties, 0));
}

static enum device_result allow_access(struct cuda_device *d, CUdeviceptr at, uint64_t bytes)
{
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    return device_cuda_result(d, "cuMemSetAccess", d->driver.set_access(at, bytes, &access, 1));
}

static enum device_result mapping_append(struct cuda_device *d, struct mapping *m, uint64_t bytes)
{
    CUmemGenericAllocationHandle handle = 0;
    uint64_t start = mapping_bytes(m);
    enum device_result result = mapping_reserve(d, m);
    if (!result) result = create_handle(d, bytes, &handle);
    if (!result) result = map_handle(d, m->base + start, bytes, handle);
    if (!result) m->pieces[m->count++] = (struct mapped_piece){start + bytes, MEMORY_OWN};
    return result;
}

/* Undoes what was mapped behind `bytes` because of `result`, whose cause stays the last error. */
static enum device_result mapping_undo(struct cuda_device *d, struct mapping *m, uint64_t bytes,
                                       enum device_result result)
{
    char why[sizeof d->last_error];
    memcpy(why, d->last_error, sizeof why);
    if (!mapping_shrink(d, m, bytes)) memcpy(d->last_error, why, sizeof why);
    return result;
}

static enum device_result mapping_grow(struct cuda_device *d, struct mapping *m, uint64_t bytes)
{
    uint64_t before = mapping_bytes(m);
    enum device_result result = DEVICE_OK;
    while (!result && mapping_bytes(m) < bytes) {
        uint64_t left = bytes - mapping_bytes(m);
        result = mapping_append(d, m, left < PIECE_BYTES ? left : PIECE_BYTES);
    }
    if (!result) result = allow_access(d, m->base + before, bytes - before);
    return result ? mapping_undo(d, m, before, result) : DEVICE_OK;
}

static void mapping_destroy(struct cuda_device *d, struct mapping *m, uint64_t bytes_max)
{
    (void)mapping_shrink(d, m, 0);
    (void)device_cuda_result(d, "cuMemAddressFree", d->driver.reserve_free(m->base, bytes_max));
    free(m->pieces);
    free(m);
}

static enum device_result range_map(struct cuda_device *d, struct device_range *r, uint64_t bytes)
{
    struct mapping *m = r->inside;
    enum device_result result =
        bytes < r->bytes ? mapping_shrink(d, m, bytes) : mapping_grow(d, m, bytes);
    r->shared = shared_bytes(m);
    r->bytes = mapping_bytes(m);
    r->base = r->bytes ? (char *)(uintptr_t)m->base : NULL;
    return result;
}

/* ---------------------------------------------------------------- ranges that move */

static enum device_result range_move(struct cuda_device *d, struct device_range *r, uint64_t bytes)
{
    void *fresh = NULL;
    enum device_result result = bytes ? device_cuda_range_allocate(d, bytes, &fresh) : DEVICE_OK;
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
    if (bytes_max > CUDA_ADDRESSED_BYTES)
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

uint64_t device_cuda_range_piece(const struct device *device)
{
    return ((const struct cuda_device *)device)->granularity;
}

bool device_cuda_range_moves(const struct device *device)
{
    return !((const struct cuda_device *)device)->maps;
}

/* ---------------------------------------------------------------- a second range */

/* Maps the i-th piece of `from` behind what `to` has. */
static enum device_result mapping_share(struct cuda_device *d, const struct mapping *from,
                                        uint64_t i, struct mapping *to)
{
    CUmemGenericAllocationHandle handle = 0;
    void *address = (void *)(uintptr_t)(from->base + piece_start(from, i));
    uint64_t start = mapping_bytes(to), bytes = piece_bytes(from, i);
    enum device_result result = mapping_reserve(d, to);
    if (!result)
        result = device_cuda_result(d, "cuMemRetainAllocationHandle",
                                    d->driver.retain(&handle, address));
    if (!result) result = map_handle(d, to->base + start, bytes, handle);
    if (!result) to->pieces[to->count++] = (struct mapped_piece){start + bytes, MEMORY_SHARED};
    return result;
}

/* The same memory at a second address: reading it there as well is allowed at any time (CUDA's
 * programming guide, "Virtual Aliasing Support"); writing it is not done while there are two. */
static enum device_result fork_map(struct cuda_device *d, const struct device_range *r,
                                   uint64_t bytes, struct device_range *second)
{
    const struct mapping *from = r->inside;
    void *inside = NULL;
    enum device_result result = mapping_create(d, r->bytes_max, &inside);
    if (result) return result;
    struct mapping *m = inside;
    for (uint64_t i = 0; !result && i < from->count && piece_start(from, i) < bytes; i++)
        result = mapping_share(d, from, i, m);
    if (!result && m->count) result = allow_access(d, m->base, mapping_bytes(m));
    if (!result && mapping_bytes(m) < bytes) result = mapping_grow(d, m, bytes);
    if (result) {
        char why[sizeof d->last_error];
        memcpy(why, d->last_error, sizeof why);
        mapping_destroy(d, m, r->bytes_max);
        memcpy(d->last_error, why, sizeof why);
        return result;
    }
    *second = (struct device_range){.bytes = mapping_bytes(m),
                                    .bytes_max = r->bytes_max,
                                    .shared = shared_bytes(m),
                                    .inside = m};
    second->base = second->bytes ? (char *)(uintptr_t)m->base : NULL;
    return DEVICE_OK;
}

static enum device_result fork_copy(struct cuda_device *d, const struct device_range *r,
                                    uint64_t bytes, device_stream s, struct device_range *second)
{
    void *fresh = NULL;
    enum device_result result = bytes ? device_cuda_range_allocate(d, bytes, &fresh) : DEVICE_OK;
    uint64_t kept = bytes < r->bytes ? bytes : r->bytes;
    if (!result && kept)
        result =
            device_cuda_result(d, "cudaMemcpyAsync",
                               cudaMemcpyAsync(fresh, r->base, kept, cudaMemcpyDeviceToDevice, s));
    if (result) {
        device_cuda_release(&d->device, fresh);
        return result;
    }
    *second = (struct device_range){.base = fresh, .bytes = bytes, .bytes_max = r->bytes_max};
    return DEVICE_OK;
}

enum device_result device_cuda_range_fork(struct device *device, struct device_range *r,
                                          uint64_t bytes, device_stream s,
                                          struct device_range *second)
{
    struct cuda_device *d = device_cuda_of(device);
    if (d->poisoned) return DEVICE_STICKY;
    if (bytes > r->bytes_max) return device_cuda_result(d, "range", cudaErrorMemoryAllocation);
    bytes = round_up(bytes, d->granularity);
    enum device_result result =
        d->maps ? fork_map(d, r, bytes, second) : fork_copy(d, r, bytes, s, second);
    if (result) return result;
    second->twin = r;
    r->twin = second;
    return DEVICE_OK;
}

/* Puts memory of its own in the place of the i-th piece, which is shared. */
static enum device_result own_piece(struct cuda_device *d, struct mapping *m, uint64_t i)
{
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = m->base + piece_start(m, i);
    uint64_t bytes = piece_bytes(m, i);
    enum device_result result = create_handle(d, bytes, &handle);
    if (result) return result;
    result = device_cuda_result(d, "cuMemUnmap", d->driver.unmap(at, bytes));
    if (result) {
        (void)device_cuda_result(d, "cuMemRelease", d->driver.release(handle));
        return result;
    }
    m->pieces[i].memory = MEMORY_NONE;
    result = map_handle(d, at, bytes, handle);
    if (result) return result;
    m->pieces[i].memory = MEMORY_OWN;
    return allow_access(d, at, bytes);
}

/* How many bytes of shared pieces lie where [first, end) does. */
static uint64_t shared_within(const struct mapping *m, uint64_t first, uint64_t end)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < m->count && piece_start(m, i) < end; i++)
        if (m->pieces[i].memory == MEMORY_SHARED && m->pieces[i].end > first)
            bytes += piece_bytes(m, i);
    return bytes;
}

enum device_result device_cuda_range_own(struct device *device, struct device_range *second,
                                         uint64_t first, uint64_t bytes, uint64_t limit,
                                         device_stream s)
{
    struct cuda_device *d = device_cuda_of(device);
    struct mapping *m = second->inside;
    uint64_t end = first + bytes;
    if (d->poisoned) return DEVICE_STICKY;
    if (!second->shared || !bytes) return DEVICE_OK;
    if (shared_within(m, first, end) > limit)
        return device_cuda_result(d, "range", cudaErrorMemoryAllocation);
    enum device_result result = DEVICE_OK;
    for (uint64_t i = 0; !result && i < m->count && piece_start(m, i) < end; i++) {
        uint64_t start = piece_start(m, i);
        if (m->pieces[i].memory != MEMORY_SHARED || m->pieces[i].end <= first) continue;
        result = own_piece(d, m, i);
        if (!result)
            result =
                device_cuda_result(d, "cudaMemcpyAsync",
                                   cudaMemcpyAsync(second->base + start, second->twin->base + start,
                                                   piece_bytes(m, i), cudaMemcpyDeviceToDevice, s));
    }
    second->shared = shared_bytes(m);
    return result;
}

/* A twin keeps all of its memory, which is its own now. */
static void leave_twin(struct device_range *r)
{
    struct device_range *twin = r->twin;
    if (!twin) return;
    struct mapping *m = twin->inside;
    for (uint64_t i = 0; m && i < m->count; i++)
        if (m->pieces[i].memory == MEMORY_SHARED) m->pieces[i].memory = MEMORY_OWN;
    twin->shared = 0;
    twin->twin = NULL;
}

void device_cuda_range_release(struct device *device, struct device_range *r)
{
    struct cuda_device *d = device_cuda_of(device);
    leave_twin(r);
    if (r->inside)
        mapping_destroy(d, r->inside, r->bytes_max);
    else
        device_cuda_release(device, r->base);
    *r = (struct device_range){0};
}
