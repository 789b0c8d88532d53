/* device_cuda: what the files of the CUDA device share: device_cuda.c (the table, errors, streams,
 * enqueueing), device_cuda_open.c (finding the device), device_cuda_memory.c and
 * device_cuda_range.c.
 * Owner, thread, errors: as device.h. */
#ifndef ENGRAM_GPU_DEVICE_CUDA_H
#define ENGRAM_GPU_DEVICE_CUDA_H

#include "daemon/gpu/device.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

/* Functions that the runtime does not offer, looked up in the driver at run time: libcuda is not
 * linked. */
struct cuda_driver {
    CUresult (*device_get)(CUdevice *, int);
    CUresult (*device_attribute)(int *, CUdevice_attribute, CUdevice);
    CUresult (*granularity)(size_t *, const CUmemAllocationProp *,
                            CUmemAllocationGranularity_flags);
    CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
    CUresult (*reserve_free)(CUdeviceptr, size_t);
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                       unsigned long long);
    CUresult (*release)(CUmemGenericAllocationHandle);
    CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
    CUresult (*unmap)(CUdeviceptr, size_t);
    CUresult (*retain)(CUmemGenericAllocationHandle *, void *);
    CUresult (*set_access)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
};

struct cuda_device {
    struct device device;
    pthread_t thread; /* the thread that opened it: CUDA's current device belongs to a thread */
    int ordinal;
    bool managed;  /* ranges have unified memory */
    bool maps;     /* ranges grow in place: all functions of the driver were found */
    bool poisoned; /* DEVICE_STICKY was returned */
    uint64_t granularity;
    uint64_t total_bytes;
    struct cuda_driver driver;
    cudaStream_t stream; /* for allocations and ranges, which wait for it */
    char last_error[128];
};

/* Checks the thread, too. */
struct cuda_device *device_cuda_of(struct device *device);

/* Classifies what a CUDA call returned (a CUresult has the same numbers). An error is noted for
 * last_error and cleared in the runtime, which would report it again with the next launch. */
enum device_result device_cuda_result(struct cuda_device *d, const char *what, int error);
/* Only classifies it. */
enum device_result device_cuda_class(int error);

enum device_result device_cuda_open(const struct device_options *options, struct device **out,
                                    struct share_device *info, char *why);

/* No GPU or host addresses more; CUDA's own answers to larger sizes differ. */
#define CUDA_ADDRESSED_BYTES (UINT64_C(1) << 47)

/* Functions of the table in device_cuda_memory.c and device_cuda_range.c. */
enum device_result device_cuda_allocate(struct device *device, uint64_t bytes, void **out);
/* Memory of a range that moves, which may be unified; bytes > 0. */
enum device_result device_cuda_range_allocate(struct cuda_device *d, uint64_t bytes, void **out);
void device_cuda_release(struct device *device, void *address);
enum device_result device_cuda_host_allocate(struct device *device, uint64_t bytes, void **out);
void device_cuda_host_release(struct device *device, void *address);
enum device_result device_cuda_range_reserve(struct device *device, uint64_t bytes_max,
                                             struct device_range *r);
enum device_result device_cuda_range_resize(struct device *device, struct device_range *r,
                                            uint64_t bytes);
bool device_cuda_range_moves(const struct device *device);
uint64_t device_cuda_range_piece(const struct device *device);
enum device_result device_cuda_range_fork(struct device *device, struct device_range *r,
                                          uint64_t bytes, device_stream s,
                                          struct device_range *second);
enum device_result device_cuda_range_own(struct device *device, struct device_range *second,
                                         uint64_t first, uint64_t bytes, uint64_t limit,
                                         device_stream s);
void device_cuda_range_release(struct device *device, struct device_range *r);

#endif
