/* doctor: looks at daemon, card and machine, and says what could be better, and how. */
#include "client/cli/commands/commands.h"
#include "client/cli/failure.h"
#include "client/cli/text/format.h"
#include "client/cli/text/sensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum verdict { FINE, LOOK, BAD };

struct doctor {
    struct cli *cli;
    struct table *table;
    struct json json;
    unsigned found[3];
    ea_stats stats;
};

/* advice "": nothing to do. */
static void tell(struct doctor *d, enum verdict v, const char *what, const char *advice,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

static void tell(struct doctor *d, enum verdict v, const char *what, const char *advice,
                 const char *format, ...)
{
    static const char *const names[] = {"fine", "look", "bad"};
    char said[400];
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    d->found[v]++;
    if (d->cli->json) {
        json_object(&d->json, NULL);
        json_string(&d->json, "verdict", names[v]);
        json_string(&d->json, "about", what);
        json_string(&d->json, "found", said);
        json_string(&d->json, "advice", *advice ? advice : NULL);
        json_end(&d->json);
        return;
    }
    printf("%-4s  %-11s  %s\n", names[v], what, said);
    if (*advice) printf("                   -> %s\n", advice);
}

/* The first line of a file, without its end; empty: it cannot be read. */
static const char *first_line(char *line, size_t bytes, const char *path)
{
    FILE *in = fopen(path, "re");
    *line = 0;
    if (in && !fgets(line, (int)bytes, in)) *line = 0;
    if (in) fclose(in);
    line[strcspn(line, "\n")] = 0;
    return line;
}

/* The number behind `name` in a file of lines "NAME: 123 kB" or "NAME   123  456"; 0: none. */
static uint64_t number_in(const char *path, const char *name)
{
    char line[256];
    uint64_t found = 0;
    FILE *in = fopen(path, "re");
    while (in && !found && fgets(line, sizeof line, in)) {
        size_t n = strlen(name);
        if (strncmp(line, name, n) != 0) continue;
        found = strtoull(line + n + strspn(line + n, ": \t"), NULL, 10);
    }
    if (in) fclose(in);
    return found;
}

static void look_at_versions(struct doctor *d)
{
    const ea_info *info = &d->cli->info;
    struct text up;
    bool same = strcmp(info->server_version, ENGRAM_VERSION) == 0;
    tell(d, same ? FINE : LOOK, "versions",
         same ? "" : "install the same version of both, or restart the daemon after an upgrade",
         "tool %s, library %s, daemon %s, up %s", ENGRAM_VERSION, ea_library_version(),
         info->server_version, format_ns(&up, info->uptime_ns));
}

static void look_at_processor(struct doctor *d)
{
    const ea_info *info = &d->cli->info;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    bool wide = strstr(info->kernels, "scalar") == NULL;
    tell(d, wide ? FINE : LOOK, "processor",
         wide ? "" : "the processor has no AVX2 or NEON, or the machine is virtual and hides them",
         "kernels %s, %u workers on %ld processors", info->kernels, info->workers, cores);
    if (cores > 0 && info->workers > (uint64_t)cores)
        tell(d, LOOK, "workers", "set workers.count to at most the number of processors",
             "%u workers share %ld processors", info->workers, cores);
}

static void look_at_memory(struct doctor *d)
{
    const ea_info *info = &d->cli->info;
    struct text a, b, c;
    uint64_t free_bytes = number_in("/proc/meminfo", "MemAvailable") * 1024;
    uint64_t left = info->memory_bytes_max > info->memory_bytes_used
                        ? info->memory_bytes_max - info->memory_bytes_used
                        : 0;
    bool promised = free_bytes && left > free_bytes;
    bool full = info->memory_bytes_used > info->memory_bytes_max / 10 * 9;
    tell(d, full || promised ? LOOK : FINE, "memory",
         full       ? "raise memory.max_mib, or drop collections that nobody asks"
         : promised ? "lower memory.max_mib: the machine would swap or kill before that is reached"
                    : "",
         "%s of %s used; the machine has %s free", format_bytes(&a, info->memory_bytes_used),
         format_bytes(&b, info->memory_bytes_max), format_bytes(&c, free_bytes));
    char line[128];
    first_line(line, sizeof line, "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    const char *open = strchr(line, '['), *close = open ? strchr(open, ']') : NULL;
    bool never = open && strncmp(open, "[never", 6) == 0;
    if (open && close)
        tell(d, FINE, "huge pages",
             never
                 ? "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled makes scans of "
                   "large collections some percent faster"
                 : "",
             "shared memory: %.*s", (int)(close - open - 1), open + 1);
}

static void look_at_limits(struct doctor *d)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/limits", d->cli->info.process_id);
    uint64_t files = number_in(path, "Max open files");
    bool few = files && files < (uint64_t)d->cli->info.connections + 64;
    if (!files)
        tell(d, FINE, "limits", "", "the daemon runs elsewhere, or as somebody else: not seen");
    else
        tell(d, few ? LOOK : FINE, "limits",
             few ? "raise LimitNOFILE of the service; each connection takes a descriptor" : "",
             "%" PRIu64 " open files, %u connections", files, d->cli->info.connections);
}

static void look_at_socket(struct doctor *d)
{
    struct stat about;
    const char *path = d->cli->socket_path;
    if (d->cli->tcp || !path || stat(path, &about) != 0) return;
    bool open = about.st_mode & S_IWOTH;
    tell(d, open ? LOOK : FINE, "socket",
         open ? "socket.mode 0660 lets the group in and nobody else" : "", "%s, mode %03o, uid %u",
         path, about.st_mode & 0777, about.st_uid);
}

static void look_at_driver(struct doctor *d)
{
    char line[160];
    bool card = access("/dev/nvidia0", F_OK) == 0;
    first_line(line, sizeof line, "/proc/driver/nvidia/version");
    if (!card && !*line) {
        tell(d, FINE, "driver", "",
             "no NVIDIA driver and no card here: the CPU answers everything");
        return;
    }
    bool mine = access("/dev/nvidia0", R_OK | W_OK) == 0;
    tell(d, mine && *line ? FINE : LOOK, "driver",
         !*line ? "the card is there and its driver is not loaded: modprobe nvidia"
         : !mine
             ? "the daemon's user needs /dev/nvidia* (group video, or the service's DeviceAllow)"
             : "",
         "%s", *line ? line : "not loaded");
}

static void look_at_cards(struct doctor *d)
{
    const ea_info *info = &d->cli->info;
    struct text a, b;
    bool card = access("/dev/nvidia0", F_OK) == 0;
    if (info->gpu_count == 0) tell(d, FINE, "gpu", "", "%s", info->gpu);
    for (uint32_t i = 0; i < info->gpu_count; i++) {
        const ea_gpu_info *g = &info->gpus[i];
        bool serves = g->state == EA_GPU_READY, absent = g->state == EA_GPU_ABSENT;
        char what[32];
        snprintf(what, sizeof what, "gpu %u", g->number);
        if (absent)
            tell(d, card ? LOOK : FINE, what,
                 card ? "docs/troubleshoot.md has this reason; the CPU answers meanwhile" : "",
                 "%s", g->why);
        else
            tell(d,
                 !serves           ? BAD
                 : g->restarts > 3 ? LOOK
                                   : FINE,
                 what,
                 !serves ? "docs/troubleshoot.md has this reason; the CPU answers meanwhile"
                 : g->restarts > 3 ? "its process was restarted often: see the daemon's log"
                                   : "",
                 "%s, %s, %s of %s for us%s%s", g->name, ea_gpu_state_name(g->state),
                 format_bytes(&a, g->budget_bytes), format_bytes(&b, g->memory_bytes),
                 *g->why ? ": " : "", g->why);
    }
}

/* As EngramAccelGpuHot has it. */
enum { CELSIUS_HOT = 85 };

static void look_at_sensors(struct doctor *d)
{
    enum {
        HEAT = EA_SLOWED_BY_HEAT | EA_SLOWED_BY_HARDWARE_HEAT,
        POWER = EA_SLOWED_BY_HARDWARE | EA_SLOWED_BY_POWER_BRAKE,
    };
    struct sensors_text now, slow;
    char what[32];
    for (uint32_t i = 0; i < d->stats.gpu_count; i++) {
        const ea_gpu_sensors *s = &d->stats.gpus[i].sensors;
        if (!*sensors_now(&now, s)) continue;
        bool hot = s->celsius >= CELSIUS_HOT || (s->slowed >= 0 && s->slowed & HEAT);
        bool starved = s->slowed >= 0 && s->slowed & POWER;
        bool any = *sensors_slowed(&slow, s);
        snprintf(what, sizeof what, "gpu %u heat", d->stats.gpus[i].number);
        tell(d, hot || starved ? LOOK : FINE, what,
             hot       ? "look at fans, filters and the air in front of the card"
             : starved ? "its hardware lowers clocks: look at power supply and cables; nvidia-smi "
                         "-q -d PERFORMANCE says more"
                       : "",
             "%s%s%s", now.c, any ? "; slowed by " : "", slow.c);
        if (s->ecc_uncorrected <= 0) continue;
        snprintf(what, sizeof what, "gpu %u ECC", d->stats.gpus[i].number);
        tell(d, BAD, what,
             "stop the daemon, reset the card (nvidia-smi -r), and replace it if they come back; "
             "nvidia-smi -q -d ECC says where they are",
             "%" PRIi64 " errors of its memory that could not be corrected", s->ecc_uncorrected);
    }
}

static void look_at_work(struct doctor *d)
{
    const ea_stats *s = &d->stats;
    struct text a, b, c;
    const ea_scheduler_stats *k = &s->scheduler;
    tell(d, k->calibrated ? FINE : LOOK, "scheduler",
         k->calibrated ? "" : "it measures while nobody asks; predictions are guesses until then",
         "%s decisions; predicting from %s", format_count(&a, k->decisions),
         k->calibrated ? "measurements of this machine" : "built-in guesses");
    for (uint32_t i = 0; i < s->operation_count; i++) {
        const ea_operation_stats *o = &s->operations[i];
        if (o->requests < 100 || o->p99_ns < 20 * o->p50_ns || o->p99_ns < 10000000) continue;
        tell(d, LOOK, "slow", "engram-accel explain: what it waited for, and what it was predicted",
             "%s: p50 %s, p99 %s of %s", o->name, format_ns(&a, o->p50_ns),
             format_ns(&b, o->p99_ns), format_many(&c, o->requests, "request"));
    }
    if (s->deadline_exceeded_total)
        tell(d, LOOK, "deadlines", "give more time, ask less at once, or see explain for the line",
             "%s ran out of time", format_many(&a, s->deadline_exceeded_total, "request"));
    if (s->space.refused_queue || s->space.refused_connections)
        tell(d, LOOK, "refused", "quotas.queue and quotas.connections bound this space",
             "%s requests and %s connections of this space",
             format_count(&a, s->space.refused_queue),
             format_count(&b, s->space.refused_connections));
    if (s->pressure.low || s->pressure.cpu)
        tell(d, LOOK, "VRAM",
             "gpu.memory_percent, fewer replicas (quotas.vram_mib), or a larger card",
             "%s requests went to the CPU for want of it", format_count(&a, s->pressure.cpu));
    if (s->errors_total * 20 > s->requests_total && s->requests_total > 100)
        tell(d, LOOK, "errors", "see the client's messages, and the daemon's log", "%s of %s",
             format_count(&a, s->errors_total), format_many(&b, s->requests_total, "request"));
}

/* What the file says and the daemon does not do yet, and the other way round. */
static void look_at_settings(struct doctor *d)
{
    ea_setting *list = NULL;
    size_t count = 0, waiting = 0, set = 0;
    const char *name = "";
    if (ea_config_get(d->cli->client, &list, &count)) return; /* a daemon that is older */
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].name, "observe.enabled") == 0 && strcmp(list[i].value, "false") == 0)
            tell(d, LOOK, "telemetry",
                 "observe.enabled is false; true has requests counted from then on",
                 "requests, their times and routes are not counted: stats, explain, slowlog and "
                 "/metrics say nothing of them");
        set += list[i].source == EA_SETTING_SET;
        if (!list[i].wants_restart) continue;
        waiting++;
        name = list[i].name;
    }
    if (waiting)
        tell(d, LOOK, "settings", "a restart; engram-accel config get shows them",
             "%zu of the file not in use yet, such as %s", waiting, name);
    if (set)
        tell(d, LOOK, "settings", "write into the file what is to stay",
             "%zu set while the daemon runs, until it reads its file again or stops", set);
    if (!waiting && !set) tell(d, FINE, "settings", "", "as file and command line say");
    ea_settings_free(list);
}

static int doctor_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct doctor *d = calloc(1, sizeof *d);
    if (!d) return cli_error(CLI_NO_MEMORY, "out of memory");
    d->cli = cli;
    cli_parse(cli, self, NULL, argc, argv);
    int code = cli_info(cli);
    ea_status status = code ? EA_OK : ea_get_stats(cli->client, &d->stats);
    if (status) code = cli_failed(cli, status, "stats");
    if (!code) {
        json_init(&d->json, stdout);
        if (cli->json) json_array(&d->json, NULL);
        look_at_versions(d);
        look_at_processor(d);
        look_at_memory(d);
        look_at_limits(d);
        look_at_socket(d);
        look_at_driver(d);
        look_at_cards(d);
        look_at_sensors(d);
        look_at_settings(d);
        look_at_work(d);
        if (cli->json) json_end(&d->json);
        if (!cli->json)
            printf("%u fine, %u to look at, %u bad\n", d->found[0], d->found[1], d->found[2]);
        if (d->found[BAD]) code = CLI_REFUSED;
        if (d->found[BAD]) failure_note(code, "something is bad");
    }
    free(d);
    return code;
}

const struct command command_doctor = {"doctor",
                                       "what could be better, and how",
                                       "",
                                       "Look at versions, processor, memory, limits, socket, "
                                       "driver, cards and what the daemon did, and say "
                                       "what is fine, what to look at and what is bad, with "
                                       "advice. The exit code is 1 if something is bad.",
                                       NULL,
                                       NULL,
                                       doctor_run};
