/* fake_nvml: a libnvidia-ml.so.1 as tests want it. ENGRAM_FAKE_NVML is a file that is read at each
 * sample: "hang", and no call returns any more; "absent", and the card has no sensor; or else up to
 * three numbers: degrees, errors of memory that were not corrected (2), and why it is slowed, as
 * NVML has it (0x45: idle, power cap, hardware's heat). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

struct state {
    unsigned celsius, uncorrected, slowed;
};

static int look(struct state *out)
{
    char text[64] = "";
    struct state s = {.uncorrected = 2, .slowed = 0x45};
    FILE *f = fopen(getenv("ENGRAM_FAKE_NVML"), "re");
    if (f) {
        if (!fgets(text, sizeof text, f)) text[0] = 0;
        fclose(f);
    }
    while (strncmp(text, "hang", 4) == 0)
        pause();
    sscanf(text, "%u %u %x", &s.celsius, &s.uncorrected, &s.slowed);
    *out = s;
    return strncmp(text, "absent", 6) == 0 ? 3 : 0;
}

API int nvmlInit_v2(void)
{
    return 0;
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
{
    *out = (void *)uuid;
    return strncmp(uuid, "GPU-", 4) == 0 ? 0 : 6;
}

API int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *out)
{
    struct state s = {0};
    int failed = look(&s);
    *out = s.celsius;
    return sensor ? 2 : failed;
}

API int nvmlDeviceGetPowerUsage(void *d, unsigned *out)
{
    *out = 312500;
    return look(&(struct state){0});
}

API int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *out)
{
    *out = 700000;
    return look(&(struct state){0});
}

API int nvmlDeviceGetClockInfo(void *d, int which, unsigned *out)
{
    *out = which == 1 ? 1980 : 2619;
    return which == 1 || which == 2 ? look(&(struct state){0}) : 2;
}

API int nvmlDeviceGetUtilizationRates(void *d, unsigned out[2])
{
    out[0] = 87, out[1] = 5;
    return look(&(struct state){0});
}

API int nvmlDeviceGetMemoryInfo(void *d, unsigned long long out[3])
{
    out[0] = 1000, out[1] = 600, out[2] = 400; /* total, free, used */
    return look(&(struct state){0});
}

API int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *out)
{
    struct state s = {0};
    int failed = look(&s);
    *out = kind ? s.uncorrected : 7;
    return counter ? 2 : failed;
}

API int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *out)
{
    struct state s = {0};
    int failed = look(&s);
    *out = s.slowed;
    return failed;
}
