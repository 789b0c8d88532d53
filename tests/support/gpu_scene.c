#include "tests/support/gpu_scene.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/reference.h"

/* ---------------------------------------------------------------- the daemon */

bool gpu_scene_is_real(void)
{
    return getenv("ENGRAM_TEST_GPU") != NULL;
}

bool gpu_scene_long(void)
{
    return getenv("ENGRAM_TEST_LONG") != NULL;
}

ea_client *gpu_scene_client(const struct gpu_scene *s, const char *space)
{
    ea_client *c = NULL;
    ea_options options = {.socket_path = s->daemon.socket_path,
                          .space = space,
                          .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    return c;
}

static void open_scene(struct gpu_scene *s, const char *sim, bool real, const char *const *settings)
{
    char devices[64], simulated[400];
    snprintf(devices, sizeof devices, "gpu.devices=%s", real ? getenv("ENGRAM_TEST_GPU") : "sim");
    snprintf(simulated, sizeof simulated, "gpu.sim=%s%s%s", sim ? sim : "",
             s->count_path[0] ? " count=" : "", s->count_path);
    static const char *const patient[] = {"gpu.heartbeat_ms=60000", "gpu.job_ms=300000"};
    static const char *const impatient[] = {GPU_IMPATIENT};
    const char *const *limits = sim && strstr(sim, ":hang") ? impatient : patient;
    const char *all[48] = {devices,   simulated,         "gpu.min_pairs=1",   limits[0],
                           limits[1], "workers.count=2", "workers.pin=false", "memory.cache_mib=1"};
    size_t count = 8;
    bool has_file = settings && settings[0] && strncmp(settings[0], "--config", 8) == 0;
    if (!has_file) all[count++] = "gpu.force=gpu"; /* over a file, it could not be changed */
    for (size_t i = 0; settings && settings[i] && count < 47; i++)
        all[count++] = settings[i];
    daemon_start(&s->daemon, all);
    s->a = gpu_scene_client(s, "alpha");
    s->b = gpu_scene_client(s, "beta");
}

void gpu_scene_open(struct gpu_scene *s, const char *sim, const char *const *settings)
{
    memset(s, 0, sizeof *s);
    open_scene(s, sim, gpu_scene_is_real(), settings);
}

void gpu_scene_open_counting(struct gpu_scene *s, const char *sim, const char *const *settings)
{
    memset(s, 0, sizeof *s);
    strcpy(s->count_path, "/tmp/engram-calls-XXXXXX");
    int fd = mkstemp(s->count_path);
    cr_assert(fd >= 0);
    close(fd);
    open_scene(s, sim, false, settings);
}

void gpu_scene_close(struct gpu_scene *s)
{
    pid_t gpu = gpu_process_of(s->daemon.pid);
    ea_close(s->a);
    ea_close(s->b);
    cr_assert(!daemon_logged(&s->daemon, "device_sim: "), "the device was misused");
    cr_assert(!daemon_logged(&s->daemon, "Sanitizer: "));
    cr_assert_eq(daemon_stop(&s->daemon), 0, "the daemon's exit code");
    cr_assert(!gpu || !process_lives(gpu), "the GPU process %d outlives the daemon", (int)gpu);
    if (s->count_path[0]) unlink(s->count_path);
}

uint64_t gpu_scene_calls(const struct gpu_scene *s)
{
    uint64_t calls = 0;
    FILE *f = fopen(s->count_path, "r");
    cr_assert_not_null(f);
    if (fread(&calls, sizeof calls, 1, f) != 1) calls = 0;
    fclose(f);
    return calls;
}

/* ---------------------------------------------------------------- processes */

struct process {
    char name[32];
    char state;
    int parent;
};

static bool process_read(const char *pid, struct process *out)
{
    char path[300], text[512] = "";
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (!name || !end) return false;
    *end = 0;
    snprintf(out->name, sizeof out->name, "%s", name + 1);
    return sscanf(end + 1, " %c %d", &out->state, &out->parent) == 2;
}

pid_t gpu_process_of(pid_t daemon)
{
    DIR *proc = opendir("/proc");
    pid_t found = 0;
    for (struct dirent *e; proc && !found && (e = readdir(proc));) {
        struct process p;
        if (e->d_name[0] < '0' || e->d_name[0] > '9' || !process_read(e->d_name, &p)) continue;
        if (p.parent == daemon && p.state != 'Z' && strncmp(p.name, "engram-accel-gp", 15) == 0)
            found = atoi(e->d_name);
    }
    if (proc) closedir(proc);
    return found;
}

bool process_lives(pid_t pid)
{
    char text[16];
    struct process p;
    snprintf(text, sizeof text, "%d", (int)pid);
    return process_read(text, &p) && p.state != 'Z' && p.state != 'X';
}

/* ---------------------------------------------------------------- waiting */

void gpu_scene_await(const struct gpu_scene *s, ea_gpu_state state)
{
    int64_t until = give_up_ms();
    static ea_info info;
    for (;;) {
        cr_assert_eq(ea_get_info(s->a, &info), EA_OK, "%s", ea_error_text(s->a));
        if (info.gpu_count && info.gpus[0].state == state) return;
        cr_assert(now_ms() < until, "the GPU is not %s: %s", ea_gpu_state_name(state), info.gpu);
        wait_ms(5);
    }
}

void gpu_scene_await_calls(const struct gpu_scene *s, uint64_t calls)
{
    int64_t until = give_up_ms();
    while (gpu_scene_calls(s) < calls) {
        cr_assert(now_ms() < until, "only %llu calls", (unsigned long long)gpu_scene_calls(s));
        wait_ms(5);
    }
}

void gpu_scene_await_answer(ea_client *c, const char *collection, uint32_t dimension)
{
    int64_t until = give_up_ms();
    float *query = malloc(dimension * sizeof *query);
    ea_result r = {0};
    reference_fill(3, query, dimension);
    for (;;) {
        cr_assert_eq(ea_knn(c,
                            &(ea_knn_question){.collection = collection,
                                               .queries = query,
                                               .query_count = 1,
                                               .dimension = dimension,
                                               .k = 3},
                            &r),
                     EA_OK, "%s", ea_error_text(c));
        if (r.meta->backend == EA_BACKEND_GPU) break;
        cr_assert(now_ms() < until, "the GPU does not answer again: %s",
                  ea_reason_name(r.meta->reason));
        wait_ms(5);
    }
    ea_result_free(&r);
    free(query);
}

struct ea_gpu_stats gpu_scene_stats(ea_client *c)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(stats.gpu_count, 1);
    return stats.gpus[0];
}

void gpu_scene_await_empty(const struct gpu_scene *s)
{
    int64_t until = give_up_ms();
    for (;;) {
        struct ea_gpu_stats g = gpu_scene_stats(s->a);
        if (!g.replica_bytes && !g.request_bytes && !g.replicas && !g.jobs_in_flight) return;
        cr_assert(now_ms() < until,
                  "left: %llu replicas, %llu bytes; requests %llu bytes, %llu jobs",
                  (unsigned long long)g.replicas, (unsigned long long)g.replica_bytes,
                  (unsigned long long)g.request_bytes, (unsigned long long)g.jobs_in_flight);
        wait_ms(5);
    }
}
