/* time: the monotonic clock, and deadlines on it. */
#include <time.h>

#include "client/client.h"

int64_t ea_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int64_t ea_deadline_after(uint64_t timeout_us)
{
    if (timeout_us == EA_NO_TIMEOUT) return 0;
    int64_t now_ns = ea_now_ns();
    uint64_t most_us = (uint64_t)(INT64_MAX - now_ns) / 1000; /* some centuries */
    return now_ns + (int64_t)(timeout_us < most_us ? timeout_us : most_us - 1) * 1000;
}
