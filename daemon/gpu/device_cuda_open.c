/* device_cuda_open: finds and describes the device, or says why there is none. */
#include "daemon/gpu/device_cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- why not */

static enum device_result __attribute__((format(printf, 3, 4)))
refuse(char *why, enum device_result result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, SHARE_WHY, format, arguments);
    va_end(arguments);
    return result;
}

struct version {
    int driver, runtime; /* 13000 is 13.0; driver 0: no libcuda */
};

static struct version versions(void)
{
    struct version v = {0, 0};
    (void)cudaDriverGetVersion(&v.driver);
    (void)cudaRuntimeGetVersion(&v.runtime);
    (void)cudaGetLastError();
    return v;
}

static int version_major(int version)
{
    return version / 1000;
}

static int version_minor(int version)
{
    return version % 1000 / 10;
}

static enum device_result refuse_driver(char *why)
{
    struct version v = versions();
    if (v.driver == 0)
        return refuse(why, DEVICE_ABSENT, "no NVIDIA driver is loaded: libcuda.so.1 was not found");
    return refuse(why, DEVICE_ABSENT,
                  "the NVIDIA driver (CUDA %d.%d) is older than CUDA %d.%d needs",
                  version_major(v.driver), version_minor(v.driver), version_major(v.runtime),
                  version_minor(v.runtime));
}

static enum device_result refuse_none(char *why)
{
    struct version v = versions();
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return refuse(why, DEVICE_ABSENT, "the NVIDIA driver (CUDA %d.%d) shows no GPU%s%.60s%s",
                  version_major(v.driver), version_minor(v.driver),
                  visible ? " (CUDA_VISIBLE_DEVICES=" : "", visible ? visible : "",
                  visible ? ")" : "");
}

/* Classifies an error during open. ABSENT if trying again cannot help. */
static enum device_result refuse_error(const char *what, int error, char *why)
{
    struct version v = versions();
    switch (error) {
    case cudaErrorInsufficientDriver: return refuse_driver(why);
    case cudaErrorNoDevice: return refuse_none(why);
    case cudaErrorSystemDriverMismatch:
        return refuse(why, DEVICE_ABSENT,
                      "libcuda and the loaded NVIDIA kernel module are of different versions: "
                      "restart the machine, or load the module again");
    case 34 /* cudaErrorStubLibrary */:
        return refuse(why, DEVICE_ABSENT,
                      "libcuda.so.1 is the CUDA toolkit's stub, not the NVIDIA driver's");
    case cudaErrorCompatNotSupportedOnDevice:
        return refuse(why, DEVICE_ABSENT,
                      "CUDA's forward compatibility package does not support this GPU");
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorInvalidPtx:
    case cudaErrorJitCompilerNotFound:
    case 222 /* cudaErrorUnsupportedPtxVersion */:
    case 223 /* cudaErrorJitCompilationDisabled */:
        return refuse(why, DEVICE_ABSENT,
                      "this build has no code for this GPU (%s; driver CUDA %d.%d, built with "
                      "CUDA %d.%d)",
                      cudaGetErrorString((cudaError_t)error), version_major(v.driver),
                      version_minor(v.driver), version_major(v.runtime), version_minor(v.runtime));
    default:
        return refuse(why, device_cuda_class(error), "%s: %s (driver CUDA %d.%d)", what,
                      cudaGetErrorString((cudaError_t)error), version_major(v.driver),
                      version_minor(v.driver));
    }
}

/* ---------------------------------------------------------------- which */

static enum device_result choose(const char *which, int *ordinal, int *count, char *why)
{
    if (!which) which = "0";
    char *end = NULL;
    errno = 0;
    long n = strtol(which, &end, 10);
    if (end == which || *end || errno || n < 0 || n > INT_MAX)
        return refuse(why, DEVICE_ABSENT, "'%.60s' is not a GPU's number: 0 is the first", which);
    int error = cudaGetDeviceCount(count);
    if (error) return refuse_error("cudaGetDeviceCount", error, why);
    if (*count == 0) return refuse_none(why);
    if (n >= *count)
        return refuse(why, DEVICE_ABSENT, "there is no GPU %ld: the driver shows %d", n, *count);
    int mode = 0;
    error = cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, (int)n);
    if (error) return refuse_error("cudaDeviceGetAttribute", error, why);
    if (mode == cudaComputeModeProhibited)
        return refuse(why, DEVICE_ABSENT,
                      "GPU %ld is in compute mode PROHIBITED: nvidia-smi -i %ld -c DEFAULT", n, n);
    *ordinal = (int)n;
    return DEVICE_OK;
}

/* Makes the device current in this thread, with its context. Waiting for the device spins: only
 * open, allocate and ranges wait, and not for long. */
static int start_context(int ordinal)
{
#if CUDART_VERSION >= 12000
    int error = cudaInitDevice(ordinal, cudaDeviceScheduleSpin, cudaInitDeviceFlagsAreValid);
    if (!error || error == cudaErrorSetOnActiveProcess) error = cudaSetDevice(ordinal);
#else
    int error = cudaSetDevice(ordinal);
    if (!error) error = cudaSetDeviceFlags(cudaDeviceScheduleSpin);
    /* It was opened before in this process, so the flags are set. */
    if (!error || error == cudaErrorSetOnActiveProcess) error = cudaFree(NULL);
#endif
    return error;
}

/* ---------------------------------------------------------------- the driver's functions */

static void *driver_function(const char *name)
{
    void *found = NULL;
#if CUDART_VERSION >= 12050
    enum cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
    int error = cudaGetDriverEntryPointByVersion(name, &found, 11000, cudaEnableDefault, &status);
#elif CUDART_VERSION >= 12000
    enum cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
    int error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status);
#elif CUDART_VERSION >= 11030
    int error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault);
#else
    /* The runtime has loaded this library already; this adds a reference that is never dropped. */
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int error = cudaSuccess;
    if (library) found = dlsym(library, name);
#endif
    if (error) (void)cudaGetLastError();
    return error ? NULL : found;
}

/* True if all of them were found. */
static bool find_driver_functions(struct cuda_driver *driver)
{
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
        {"cuDeviceGet", &driver->device_get},
        {"cuDeviceGetAttribute", &driver->device_attribute},
        {"cuMemGetAllocationGranularity", &driver->granularity},
        {"cuMemAddressReserve", &driver->reserve},
        {"cuMemAddressFree", &driver->reserve_free},
        {"cuMemCreate", &driver->create},
        {"cuMemRelease", &driver->release},
        {"cuMemMap", &driver->map},
        {"cuMemUnmap", &driver->unmap},
        {"cuMemRetainAllocationHandle", &driver->retain},
        {"cuMemSetAccess", &driver->set_access},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *function = driver_function(wanted[i].name);
        if (!function) return false;
        memcpy(wanted[i].slot, &function, sizeof function);
    }
    return true;
}

/* Finds out whether ranges can be mapped, and in what units. */
static void find_mapping(struct cuda_device *d)
{
    enum { MOVED_GRANULARITY = 2 << 20 };
    d->granularity = MOVED_GRANULARITY;
    if (d->managed || !find_driver_functions(&d->driver)) return;
    CUdevice handle = 0;
    int offered = 0;
    size_t granularity = 0;
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal},
    };
    /* By its first name, which every toolkit has. */
    if (d->driver.device_get(&handle, d->ordinal) ||
        d->driver.device_attribute(
            &offered, CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED, handle) ||
        !offered ||
        d->driver.granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ||
        granularity == 0)
        return;
    d->granularity = granularity;
    d->maps = true;
}

/* ---------------------------------------------------------------- what it is */

static void write_uuid(const cudaUUID_t *uuid, char *text, size_t size)
{
    int at = snprintf(text, size, "GPU-");
    for (int i = 0; i < 16; i++)
        at += snprintf(text + at, size - (size_t)at, "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                       (unsigned)(unsigned char)uuid->bytes[i]);
}

static int describe(struct cuda_device *d, struct share_device *info)
{
    struct cudaDeviceProp properties;
    size_t unused = 0, total = 0;
    int managed = 0, concurrent = 0, error = cudaGetDeviceProperties(&properties, d->ordinal);
    if (!error) error = cudaMemGetInfo(&unused, &total);
    if (!error) error = cudaDeviceGetAttribute(&managed, cudaDevAttrManagedMemory, d->ordinal);
    if (!error)
        error = cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, d->ordinal);
    if (error) return error;
    struct version v = versions();
    snprintf(info->name, sizeof info->name, "%.100s", properties.name);
    write_uuid(&properties.uuid, info->uuid, sizeof info->uuid);
    info->capability_major = (uint32_t)properties.major;
    info->capability_minor = (uint32_t)properties.minor;
    info->multiprocessors = (uint32_t)properties.multiProcessorCount;
    info->driver_version = (uint32_t)v.driver;
    info->runtime_version = (uint32_t)v.runtime;
    info->memory_bytes = total;
    info->memory_free_bytes = unused;
    info->ecc = properties.ECCEnabled != 0;
    info->concurrent_managed = managed && concurrent;
    /* The pinned memory of requests has the same address on the device. */
    if (properties.unifiedAddressing && properties.canMapHostMemory)
        info->direct_dimension = cuda_direct_dimension();
    d->total_bytes = total;
    return cudaSuccess;
}

/* Runs one row through every operation, so that the first request finds the code on the device; or
 * reports that this build has no code for it. */
static int run_once(struct cuda_device *d)
{
    enum {
        NORMS = 4096,
        SCORES = 8192,
        IDS = 12288,
        COUNTS = 16384,
        CELLS = 18432,
        SCRATCH = 20480
    };
    static const float query[32];
    uint64_t scratch_bytes = cuda_topk_scratch_min(2, 1, 1);
    char *memory = NULL;
    int error = cudaMalloc((void **)&memory, SCRATCH + scratch_bytes);
    if (error) return error;
    float *norms = (float *)(memory + NORMS), *scores = (float *)(memory + SCORES);
    struct cuda_rows rows = {32, (const float *)memory, norms, 1};
    struct cuda_queries one = {(const float *)memory, norms, 1};
    struct cuda_queries two = {(const float *)memory, norms, 2};
    struct cuda_topk topk = {.k = 1,
                             .scratch = memory + SCRATCH,
                             .scratch_bytes = scratch_bytes,
                             .out_ids = (uint64_t *)(memory + IDS),
                             .out_scores = scores,
                             .out_counts = (uint32_t *)(memory + COUNTS)};
    /* Any memory that the device can write will do for its cells here. */
    struct cuda_direct direct = {.query = query,
                                 .tag = 1,
                                 .scratch = memory + SCRATCH,
                                 .scratch_bytes = scratch_bytes,
                                 .cells = (uint64_t *)(memory + CELLS)};
    error = cudaMemsetAsync(memory, 0, SCRATCH, d->stream);
    if (!error) error = cuda_norms(&rows, norms, d->stream);
    if (!error) error = cuda_scan(METRIC_COSINE, &one, &rows, scores, d->stream);
    if (!error) error = cuda_tile(METRIC_COSINE, &two, &rows, scores, 1, d->stream);
    if (!error) error = cuda_topk(METRIC_COSINE, &one, &rows, &topk, d->stream);
    if (!error) error = cuda_topk(METRIC_COSINE, &two, &rows, &topk, d->stream);
    if (!error) error = cuda_direct(METRIC_COSINE, &rows, &direct, d->stream);
    direct.k = 1;
    if (!error) error = cuda_direct(METRIC_COSINE, &rows, &direct, d->stream);
    int waited = cudaStreamSynchronize(d->stream);
    int freed = cudaFree(memory);
    return error ? error : waited ? waited : freed;
}

enum device_result device_cuda_open(const struct device_options *options, struct device **out,
                                    struct share_device *info, char *why)
{
    /* Loads all kernels with the context, not each at its first launch. The runtime reads this
     * once; a value that was set before stays. */
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    int ordinal = 0, count = 0;
    struct share_device found = {0};
    enum device_result result = choose(options->which, &ordinal, &count, why);
    if (result) return result;
    struct cuda_device *d = calloc(1, sizeof *d);
    if (!d) return refuse(why, DEVICE_NO_MEMORY, "out of memory");
    d->device.ops = device_cuda;
    d->thread = pthread_self();
    d->ordinal = ordinal;

    const char *what = "cudaInitDevice";
    int error = start_context(ordinal);
    if (error) goto fail;
    what = "cudaStreamCreate";
    error = cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking);
    if (error) goto fail;
    what = "cudaGetDeviceProperties";
    error = describe(d, &found);
    if (error) goto fail;
    what = "the first kernels";
    error = run_once(d);
    if (error) goto fail;

    d->managed = options->managed && found.concurrent_managed;
    find_mapping(d);
    found.device_count = (uint32_t)count;
    found.managed = d->managed;
    found.virtual_memory = d->maps;
    *info = found;
    *out = &d->device;
    return DEVICE_OK;
fail:
    (void)cudaGetLastError();
    result = refuse_error(what, error, why);
    device_cuda->close(&d->device);
    return result;
}
