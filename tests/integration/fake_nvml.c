/* fake_nvml: a libnvidia-ml.so.1 as tests want it. ENGRAM_FAKE_NVML is a file that is read at each
 * sample: "hang", and no call returns any more; "absent", and the card has no sensor; or else the
 * temperature in degrees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

static int look(unsigned *celsius)
{
    char text[32] = "";
    FILE *f = fopen(getenv("ENGRAM_FAKE_NVML"), "re");
    if (f) {
        if (!fgets(text, sizeof text, f)) text[0] = 0;
        fclose(f);
    }
    while (strncmp(text, "hang", 4) == 0)
        pause();
    *celsius = (unsigned)strtoul(text, NULL, 10);
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
    return sensor ? 2 : look(out);
}

API int nvmlDeviceGetPowerUsage(void *d, unsigned *out)
{
    *out = 312500;
    return look(&(unsigned){0});
}

API int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *out)
{
    *out = 700000;
    return look(&(unsigned){0});
}

API int nvmlDeviceGetClockInfo(void *d, int which, unsigned *out)
{
    *out = which == 1 ? 1980 : 2619;
    return which == 1 || which == 2 ? look(&(unsigned){0}) : 2;
}

API int nvmlDeviceGetUtilizationRates(void *d, unsigned out[2])
{
    out[0] = 87, out[1] = 5;
    return look(&(unsigned){0});
}

API int nvmlDeviceGetMemoryInfo(void *d, unsigned long long out[3])
{
    out[0] = 1000, out[1] = 600, out[2] = 400; /* total, free, used */
    return look(&(unsigned){0});
}

API int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *out)
{
    *out = kind ? 2 : 7;
    return counter ? 2 : look(&(unsigned){0});
}

API int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *out)
{
    *out = 0x1 | 0x4 | 0x40; /* idle, power cap, hardware's heat */
    return look(&(unsigned){0});
}
