/* device: what the GPU programs share: device memory, and CUDA errors that end the program.
 * Owner:  included by tests/gpu/gpu_*.c; everything is static inline.
 * Thread: one.
 * Errors: printed, exit 2. */
#ifndef ENGRAM_TESTS_GPU_DEVICE_H
#define ENGRAM_TESTS_GPU_DEVICE_H

#include "kernels/cuda/vectors_cuda.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

static inline void device_check_at(int error, const char *what, int line)
{
    if (error == 0) return;
    printf("FAIL line %d: %s: %s\n", line, what, cudaGetErrorString((cudaError_t)error));
    exit(2);
}
#define DEVICE(call) device_check_at((int)(call), #call, __LINE__)

/* Names the device, or says why there is none and ends the program. */
static inline void device_open(void)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        printf("SKIP: no CUDA device: %s\n", error ? cudaGetErrorString(error) : "none found");
        exit(SKIPPED);
    }
    struct cudaDeviceProp properties;
    DEVICE(cudaGetDeviceProperties(&properties, 0));
    printf("device: %s, compute capability %d.%d, %d multiprocessors\n", properties.name,
           properties.major, properties.minor, properties.multiProcessorCount);
    fflush(stdout);
}

/* Filled with 0xff, so that a result nobody wrote is seen. */
static inline void *device_allocate(size_t bytes)
{
    void *p = NULL;
    DEVICE(cudaMalloc(&p, bytes ? bytes : 1));
    DEVICE(cudaMemset(p, 0xff, bytes ? bytes : 1));
    return p;
}

static inline void *device_copy_of(const void *host, size_t bytes)
{
    void *p = device_allocate(bytes);
    DEVICE(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice));
    return p;
}

/* What was captured, ready to be launched. CUDA 12 gave the function other parameters. */
static inline cudaGraphExec_t device_graph(cudaGraph_t graph)
{
    cudaGraphExec_t exec = NULL;
#if CUDART_VERSION >= 12000
    DEVICE(cudaGraphInstantiate(&exec, graph, 0));
#else
    DEVICE(cudaGraphInstantiate(&exec, graph, NULL, NULL, 0));
#endif
    return exec;
}

/* How often what is timed is run, after three runs that are not. */
enum { DEVICE_RUNS = 21 };

typedef void device_work(void *what);

static inline int device_by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The median of milliseconds, by events around what `enqueue` puts into the default stream. */
static inline double device_median_ms(device_work *enqueue, void *what)
{
    float ms[DEVICE_RUNS];
    cudaEvent_t start, stop;
    DEVICE(cudaEventCreate(&start));
    DEVICE(cudaEventCreate(&stop));
    for (int i = -3; i < DEVICE_RUNS; i++) {
        DEVICE(cudaEventRecord(start, NULL));
        enqueue(what);
        DEVICE(cudaEventRecord(stop, NULL));
        DEVICE(cudaEventSynchronize(stop));
        if (i >= 0) DEVICE(cudaEventElapsedTime(&ms[i], start, stop));
    }
    cudaEventDestroy(start), cudaEventDestroy(stop);
    qsort(ms, DEVICE_RUNS, sizeof *ms, device_by_value);
    return (double)ms[DEVICE_RUNS / 2];
}

static inline void device_read(void *host, const void *device, size_t bytes)
{
    DEVICE(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

#endif
