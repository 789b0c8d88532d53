/* engram-accel-gpu: all use of CUDA, in a process of its own that may be killed at any instant.
 * engram-acceld starts it and talks to it through memory that both map (heap/share.h); it is of no
 * use by hand. */
#include <argp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "daemon/base/descriptors.h"
#include "daemon/gpu/sensors.h"
#include "daemon/gpu/server.h"

/* The share says more than these exit codes. */
enum { EXIT_ASKED = 0, EXIT_BROKEN = 1, EXIT_USAGE = 2, EXIT_ABSENT = 3 };

/* argp finds it by this name. */
__attribute__((visibility("default"))) const char *argp_program_version =
    "engram-accel-gpu " ENGRAM_VERSION "\n" ENGRAM_BUILD;

enum {
    OPTION_NUMBER = 256,
    OPTION_DEVICE,
    OPTION_SPIN,
    OPTION_SPIN_PERCENT,
    OPTION_COPIERS,
    OPTION_STREAMS,
    OPTION_MEMORY,
    OPTION_PERCENT,
    OPTION_MIB,
    OPTION_SIM,
};

static const struct argp_option options[] = {
    {"number", OPTION_NUMBER, "N", 0, "This GPU's number in log lines", 0},
    {"device", OPTION_DEVICE, "N", 0, "The driver's number of the GPU, or sim", 0},
    {"spin-us", OPTION_SPIN, "N", 0, "See gpu.spin_us", 0},
    {"spin-percent", OPTION_SPIN_PERCENT, "N", 0, "See gpu.spin_percent", 0},
    {"copiers", OPTION_COPIERS, "N", 0, "See gpu.copiers", 0},
    {"streams", OPTION_STREAMS, "N", 0, "See gpu.streams", 0},
    {"memory", OPTION_MEMORY, "KIND", 0, "See gpu.memory", 0},
    {"memory-percent", OPTION_PERCENT, "N", 0, "See gpu.memory_percent", 0},
    {"memory-mib", OPTION_MIB, "N", 0, "See gpu.memory_mib", 0},
    {"sim", OPTION_SIM, "TEXT", 0, "See gpu.sim", 0},
    {0},
};

struct gpu_arguments {
    uint32_t number;
    const char *device, *sim;
    struct server_options server;
};

static uint64_t number_of(struct argp_state *state, const char *text)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (!text[0] || *end) argp_error(state, "not a number: %s", text);
    return number;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct gpu_arguments *a = state->input;
    struct server_options *o = &a->server;
    switch (key) {
    case OPTION_NUMBER: a->number = (uint32_t)number_of(state, value); return 0;
    case OPTION_DEVICE: a->device = value; return 0;
    case OPTION_SPIN: o->spin_us = (uint32_t)number_of(state, value); return 0;
    case OPTION_SPIN_PERCENT: o->spin_percent = (uint32_t)number_of(state, value); return 0;
    case OPTION_COPIERS: o->copiers = (uint32_t)number_of(state, value); return 0;
    case OPTION_STREAMS: o->streams = (uint32_t)number_of(state, value); return 0;
    case OPTION_MEMORY: o->device.managed = strcmp(value, "managed") == 0; return 0;
    case OPTION_PERCENT: o->memory_percent = (uint32_t)number_of(state, value); return 0;
    case OPTION_MIB: o->memory_bytes_max = number_of(state, value) << 20; return 0;
    case OPTION_SIM: a->sim = value; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    options, parse, NULL, "The GPU process of engram-acceld, which starts it.", NULL, NULL, NULL};

static uint32_t default_copiers(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN) * 3 / 4;
    return count < 1 ? 1 : count > 12 ? 12 : (uint32_t)count;
}

/* True if the front ended before PR_SET_PDEATHSIG was set. */
static bool front_is_gone(void)
{
    struct pollfd fd = {.fd = SHARE_LIFELINE_FD, .events = POLLIN};
    return poll(&fd, 1, 0) > 0 && (fd.revents & POLLHUP);
}

int main(int argc, char **argv)
{
    struct gpu_arguments a = {
        .device = "0",
        .sim = "",
        .server = {.heap_fd = SHARE_HEAP_FD,
                   .exchange_fd = SHARE_EXCHANGE_FD,
                   .orders_fd = SHARE_ORDERS_FD,
                   .completions_fd = SHARE_COMPLETIONS_FD,
                   .lifeline_fd = SHARE_LIFELINE_FD,
                   .spin_us = 150,
                   .spin_percent = 100,
                   .streams = 32,
                   .memory_percent = 75},
    };
    if (!descriptors_open_standard()) return EXIT_BROKEN;
    argp_err_exit_status = EXIT_USAGE;
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    /* This process ends with the front, even in the middle of a call that never returns. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (front_is_gone()) return EXIT_ASKED;
    prctl(PR_SET_TIMERSLACK, 1000ul); /* in ns: naps while the device works are short */
    /* Only the front stops this process; signals to the whole group are meant for the front. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);

    struct failure f = {0};
    struct server_options *o = &a.server;
    if (share_map(SHARE_FD, ENGRAM_VERSION, &o->share, &f)) {
        fprintf(stderr, "engram-accel-gpu: %s\n", f.text);
        return EXIT_ABSENT;
    }
    bool simulated = strcmp(a.device, "sim") == 0;
    o->ops = simulated ? &device_sim : device_cuda;
    o->device.which = simulated ? a.sim : a.device;
    if (!o->copiers) o->copiers = default_copiers();
    if (!o->ops) {
        snprintf(o->share->why, sizeof o->share->why,
                 "this build has no CUDA (it was made without nvcc, or with CUDA=0)");
        atomic_store(&o->share->state, SHARE_ABSENT);
        return EXIT_ABSENT;
    }
    struct gpu *g = NULL;
    if (server_open(o, &g, &f))
        return atomic_load(&o->share->state) == SHARE_ABSENT ? EXIT_ABSENT : EXIT_BROKEN;
    /* A simulated card has none, but what a test has made. */
    const char *sensors = simulated ? secure_getenv("ENGRAM_ACCEL_NVML") : SENSORS_LIBRARY;
    if (sensors) sensors_start(sensors, a.number, o->share);
    enum status st = server_run(g);
    /* The system frees everything faster and more reliably than this process could. */
    _exit(st ? EXIT_BROKEN : EXIT_ASKED);
}
