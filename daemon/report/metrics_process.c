#include <dirent.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "daemon/report/metrics.h"

/* The fields of /proc/self/stat behind the name, which may hold anything: threads, start, virtual
 * bytes, resident pages. */
enum { STAT_STATE = 3, STAT_RESIDENT = 24, STAT_WANTED = 4 };
static const int stat_fields[STAT_WANTED] = {20, 22, 23, STAT_RESIDENT};
static bool read_stat(uint64_t out[STAT_WANTED])
{
    char text[1024];
    FILE *f = fopen("/proc/self/stat", "re");
    if (!f) return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *at = strrchr(text, ')');
    at = at ? strchr(at, ' ') : NULL;
    for (int field = STAT_STATE; at && field <= STAT_RESIDENT; field++) {
        char *value = at + 1;
        for (int i = 0; i < STAT_WANTED; i++)
            if (stat_fields[i] == field) out[i] = strtoull(value, NULL, 10);
        at = strchr(value, ' ');
    }
    return at != NULL; /* more fields follow */
}

static uint64_t open_descriptors(void)
{
    uint64_t count = 0;
    DIR *d = opendir("/proc/self/fd");
    if (!d) return 0;
    for (const struct dirent *e; (e = readdir(d));)
        count += e->d_name[0] != '.';
    closedir(d);
    return count ? count - 1 : 0; /* one is the folder's own */
}

/* When the process started, in ns since 1970: by the clocks at the first call, and the same ever
 * after. Two clocks are never read at one instant, and the wall's is set now and then: whoever
 * counts changes of the start would count restarts. */
static uint64_t start_ns(uint64_t ticks)
{
    static _Atomic uint64_t known;
    struct timespec wall, boot;
    uint64_t before = 0;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    int64_t since = (wall.tv_sec - boot.tv_sec) * INT64_C(1000000000) + wall.tv_nsec - boot.tv_nsec;
    uint64_t start =
        (uint64_t)since + ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
    return atomic_compare_exchange_strong(&known, &before, start) ? start : before;
}

static void gauge(struct metrics_text *t, const char *name, uint64_t value, const char *help)
{
    metrics_text_family(t, name, "gauge", help);
    metrics_text_count(t, NULL, value);
}

void metrics_render_process(struct metrics_text *out)
{
    struct rusage use;
    struct rlimit files;
    uint64_t stat[4];
    if (!getrusage(RUSAGE_SELF, &use)) {
        uint64_t us = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 +
                      (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
        metrics_text_family(out, "process_cpu_seconds_total", "counter",
                            "User and system time of the daemon.");
        metrics_text_seconds(out, NULL, us * 1000);
    }
    if (read_stat(stat)) {
        gauge(out, "process_threads", stat[0], "Threads of the daemon.");
        metrics_text_family(out, "process_start_time_seconds", "gauge",
                            "When the daemon started, in seconds since 1970.");
        metrics_text_seconds(out, NULL, start_ns(stat[1]));
        gauge(out, "process_virtual_memory_bytes", stat[2], "Addresses in use.");
        gauge(out, "process_resident_memory_bytes", stat[3] * (uint64_t)sysconf(_SC_PAGESIZE),
              "Memory in use, the heap's touched pages too.");
    }
    gauge(out, "process_open_fds", open_descriptors(), "Descriptors that are open.");
    if (!getrlimit(RLIMIT_NOFILE, &files))
        gauge(out, "process_max_fds", files.rlim_cur, "Descriptors that may be open.");
}
