#include "daemon/gpu/sensors.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"

enum { SAMPLE_GAP_S = 1 };

/* NVML's interface, which its versions keep ("NVML API Reference Guide"): there is no header where
 * there is no CUDA. Every function gives 0 if it went well. */
typedef struct nvml_device *nvml_handle;
enum { NVML_TEMPERATURE_OF_GPU = 0, NVML_CLOCK_OF_SM = 1, NVML_CLOCK_OF_MEMORY = 2 };
enum { NVML_ECC_CORRECTED = 0, NVML_ECC_UNCORRECTED = 1, NVML_ECC_VOLATILE = 0 };
struct nvml_use {
    unsigned gpu, memory;
};
struct nvml_memory {
    unsigned long long total, unused, used;
};

struct nvml {
    int (*init)(void);
    int (*handle_by_uuid)(const char *uuid, nvml_handle *out);
    int (*temperature)(nvml_handle d, int sensor, unsigned *out);
    int (*power)(nvml_handle d, unsigned *out);
    int (*power_limit)(nvml_handle d, unsigned *out);
    int (*clock)(nvml_handle d, int which, unsigned *out);
    int (*use)(nvml_handle d, struct nvml_use *out);
    int (*memory)(nvml_handle d, struct nvml_memory *out);
    int (*ecc)(nvml_handle d, int kind, int counter, unsigned long long *out);
    int (*slowed)(nvml_handle d, unsigned long long *out);
};

struct sensors {
    const char *library;
    uint32_t number;
    struct share *share;
    struct nvml nvml;
    nvml_handle device;
};

/* ---------------------------------------------------------------- the library */

/* A function that this version does not have stays NULL. */
static bool load(struct sensors *s)
{
    void *library = dlopen(s->library, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    const struct {
        const char *name;
        void *to; /* a pointer to a function */
    } wanted[] = {
        {"nvmlInit_v2", &s->nvml.init},
        {"nvmlDeviceGetHandleByUUID", &s->nvml.handle_by_uuid},
        {"nvmlDeviceGetTemperature", &s->nvml.temperature},
        {"nvmlDeviceGetPowerUsage", &s->nvml.power},
        {"nvmlDeviceGetEnforcedPowerLimit", &s->nvml.power_limit},
        {"nvmlDeviceGetClockInfo", &s->nvml.clock},
        {"nvmlDeviceGetUtilizationRates", &s->nvml.use},
        {"nvmlDeviceGetMemoryInfo", &s->nvml.memory},
        {"nvmlDeviceGetTotalEccErrors", &s->nvml.ecc},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", &s->nvml.slowed},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        *(void **)wanted[i].to = dlsym(library, wanted[i].name);
    return true;
}

enum { WHY_BYTES = 64 };
static bool open_card(struct sensors *s, char why[WHY_BYTES])
{
    int error = 0;
    const char *what = NULL;
    if (!load(s))
        what = "cannot be loaded";
    else if (!s->nvml.init || !s->nvml.handle_by_uuid)
        what = "is no NVML";
    if (what) {
        snprintf(why, WHY_BYTES, "%s", what);
        return false;
    }
    error = s->nvml.init();
    if (!error) error = s->nvml.handle_by_uuid(s->share->device.uuid, &s->device);
    snprintf(why, WHY_BYTES, "does not know the card (error %d)", error);
    return !error;
}

/* ---------------------------------------------------------------- a sample */

static void note(struct share_sensors *to, uint64_t *known, enum share_sensor which, uint64_t value)
{
    atomic_store_explicit(&to->values[which], value, memory_order_relaxed);
    *known |= UINT64_C(1) << which;
}

static void sample_numbers(const struct sensors *s, struct share_sensors *to, uint64_t *known)
{
    const struct nvml *n = &s->nvml;
    unsigned value;
    if (n->temperature && !n->temperature(s->device, NVML_TEMPERATURE_OF_GPU, &value))
        note(to, known, SENSOR_CELSIUS, value);
    if (n->power && !n->power(s->device, &value)) note(to, known, SENSOR_MILLIWATTS, value);
    if (n->power_limit && !n->power_limit(s->device, &value))
        note(to, known, SENSOR_LIMIT_MILLIWATTS, value);
    if (n->clock && !n->clock(s->device, NVML_CLOCK_OF_SM, &value))
        note(to, known, SENSOR_MEGAHERTZ, value);
    if (n->clock && !n->clock(s->device, NVML_CLOCK_OF_MEMORY, &value))
        note(to, known, SENSOR_MEMORY_MEGAHERTZ, value);
}

static void sample_counts(const struct sensors *s, struct share_sensors *to, uint64_t *known)
{
    const struct nvml *n = &s->nvml;
    unsigned long long value;
    if (n->ecc && !n->ecc(s->device, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE, &value))
        note(to, known, SENSOR_ECC_CORRECTED, value);
    if (n->ecc && !n->ecc(s->device, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, &value))
        note(to, known, SENSOR_ECC_UNCORRECTED, value);
    if (n->slowed && !n->slowed(s->device, &value)) note(to, known, SENSOR_SLOWED, value);
}

static void sample(const struct sensors *s)
{
    struct share_sensors *to = &s->share->sensors;
    const struct nvml *n = &s->nvml;
    struct nvml_use use;
    struct nvml_memory memory;
    uint64_t known = 0;
    sample_numbers(s, to, &known);
    sample_counts(s, to, &known);
    if (n->use && !n->use(s->device, &use)) {
        note(to, &known, SENSOR_BUSY_PERCENT, use.gpu);
        note(to, &known, SENSOR_MEMORY_BUSY_PERCENT, use.memory);
    }
    if (n->memory && !n->memory(s->device, &memory)) {
        note(to, &known, SENSOR_MEMORY_USED_BYTES, memory.used);
        note(to, &known, SENSOR_MEMORY_BYTES, memory.total);
    }
    atomic_store_explicit(&to->known, known, memory_order_relaxed);
    atomic_store_explicit(&to->seen_ns, clock_now_ns(), memory_order_release);
}

static void *run(void *sensors)
{
    struct sensors *s = sensors;
    char why[WHY_BYTES];
    if (!open_card(s, why)) {
        log_info("gpu%u: %s %s: temperature, power and clocks are not known", s->number, s->library,
                 why);
        free(s);
        return NULL;
    }
    for (;;) {
        sample(s);
        nanosleep(&(struct timespec){.tv_sec = SAMPLE_GAP_S}, NULL);
    }
}

void sensors_start(const char *library, uint32_t number, struct share *share)
{
    pthread_t thread;
    struct sensors *s = calloc(1, sizeof *s);
    if (!s) return;
    *s = (struct sensors){.library = library, .number = number, .share = share};
    if (thread_start(&thread, run, s))
        free(s);
    else
        pthread_detach(thread);
}
