/* process_describe: describes a GPU and its process in one line. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/cards/process_inside.h"

void process_describe_time(uint64_t ns, char text[GPU_TIME_BYTES])
{
    uint64_t s = ns / 1000000000;
    if (s < 2)
        snprintf(text, GPU_TIME_BYTES, "%" PRIu64 " ms", ns / 1000000);
    else if (s < 60)
        snprintf(text, GPU_TIME_BYTES, "%" PRIu64 " s", s);
    else if (s < 3600)
        snprintf(text, GPU_TIME_BYTES, "%" PRIu64 " m %" PRIu64 " s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, GPU_TIME_BYTES, "%" PRIu64 " h %" PRIu64 " m", s / 3600, s / 60 % 60);
    else
        snprintf(text, GPU_TIME_BYTES, "%" PRIu64 " d %" PRIu64 " h", s / 86400, s / 3600 % 24);
}

/* ---------------------------------------------------------------- the device */

struct line {
    char *text;
    size_t bytes, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int n = vsnprintf(l->text + l->used, l->bytes - l->used, format, values);
    va_end(values);
    if (n > 0) l->used += (size_t)n;
    if (l->used >= l->bytes) l->used = l->bytes - 1;
}

static void add_bytes(struct line *l, uint64_t bytes)
{
    double mib = (double)bytes / 1048576;
    if (mib >= 1024)
        add(l, "%.1f GiB", mib / 1024);
    else
        add(l, "%.1f MiB", mib);
}

/* CUDA's version numbers: 13000 is 13.0, 11080 is 11.8. */
static void add_version(struct line *l, const char *what, uint32_t version)
{
    if (version) add(l, ", %s %u.%u", what, version / 1000, version % 1000 / 10);
}

void process_describe_device(const struct share_device *d, char *text, size_t bytes)
{
    struct line l = {text, bytes, 0};
    if (!bytes) return;
    add(&l, "%s, compute capability %u.%u, ", d->name[0] ? d->name : "a GPU without a name",
        d->capability_major, d->capability_minor);
    add_bytes(&l, d->memory_bytes);
    add(&l, " (");
    add_bytes(&l, d->budget_bytes);
    add(&l, " budget), ECC %s", d->ecc ? "on" : "off");
    add_version(&l, "driver", d->driver_version);
    add_version(&l, "runtime", d->runtime_version);
    if (d->concurrent_managed)
        add(&l, ", unified memory with concurrent access");
    else if (d->managed)
        add(&l, ", unified memory");
    if (d->virtual_memory) add(&l, ", virtual memory");
    if (d->simulated) add(&l, ", simulated");
}

/* ---------------------------------------------------------------- the process */

static void describe_starting(const struct gpu_process *p, uint64_t now_ns, char *text,
                              size_t bytes)
{
    char since[GPU_TIME_BYTES];
    process_describe_time(process_elapsed_ns(now_ns, p->started_ns), since);
    if (p->breaker_open)
        snprintf(text, bytes, "starting for %s; breaker half-open after %u failures in a row",
                 since, p->failures);
    else
        snprintf(text, bytes, "starting for %s", since);
}

static void describe_down(const struct gpu_process *p, uint64_t now_ns, char *text, size_t bytes)
{
    char left[GPU_TIME_BYTES];
    process_describe_time(process_elapsed_ns(p->next_start_ns, now_ns), left);
    if (!p->begun && !p->stopping)
        snprintf(text, bytes, "not started");
    else if (p->stopping)
        snprintf(text, bytes, "%s", p->life ? "stopping" : "stopped");
    else if (p->life)
        snprintf(text, bytes, "down: %s; its process is not gone yet", p->why);
    else
        snprintf(text, bytes, "down: %s; next start in %s", p->why, left);
}

void gpu_process_describe(const struct gpu_process *p, char *text, size_t bytes)
{
    uint64_t now_ns = clock_read_ns(p->options.clock);
    char left[GPU_TIME_BYTES];
    switch (p->state) {
    case GPU_ABSENT: snprintf(text, bytes, "absent: %s", p->why); return;
    case GPU_STARTING: describe_starting(p, now_ns, text, bytes); return;
    case GPU_READY: process_describe_device(&p->device, text, bytes); return;
    case GPU_DOWN: describe_down(p, now_ns, text, bytes); return;
    case GPU_BREAKER:
        process_describe_time(process_elapsed_ns(p->next_start_ns, now_ns), left);
        snprintf(text, bytes, "breaker open: %u failures in a row, the last: %s; next start in %s",
                 p->failures, p->why, left);
        return;
    }
}
