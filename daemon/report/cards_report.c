#include "daemon/report/cards_report.h"

#include <stdio.h>
#include <string.h>

#include "daemon/cards/cards.h"
#include "daemon/cards/process.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

_Static_assert((int)GPU_MAX <= (int)WIRE_GPUS_MAX, "every GPU has a place in a reply");
_Static_assert(4 * (int)REASON_MAX <= (int)WIRE_ROUTES_MAX, "so has every route");

static enum wire_gpu_state state_of(const struct gpu_process *g)
{
    switch (gpu_process_state(g)) {
    case GPU_STARTING: return WIRE_GPU_STARTING;
    case GPU_READY: return WIRE_GPU_READY;
    case GPU_DOWN: return WIRE_GPU_DOWN;
    case GPU_BREAKER: return WIRE_GPU_BREAKER;
    default: return WIRE_GPU_ABSENT;
    }
}

/* Its memory; only looked at, so a const process will do. NULL: it was never ready. */
static struct share *share_of(const struct gpu_process *g)
{
    return gpu_process_share((struct gpu_process *)g);
}

static uint64_t uptime_of(const struct gpu_process *g, uint64_t now_ns)
{
    uint64_t ready_ns = gpu_process_ready_ns(g);
    return ready_ns && now_ns > ready_ns ? now_ns - ready_ns : 0;
}

/* ---------------------------------------------------------------- info */

static void describe_device(const struct share *share, struct wire_gpu *out)
{
    struct share_device d; /* a copy, so that it stays as it was checked */
    memcpy(&d, &share->device, sizeof d);
    share_copy_text(out->name, sizeof out->name, d.name, sizeof d.name);
    share_copy_text(out->uuid, sizeof out->uuid, d.uuid, sizeof d.uuid);
    out->capability_major = d.capability_major;
    out->capability_minor = d.capability_minor;
    out->multiprocessors = d.multiprocessors;
    out->driver_version = d.driver_version;
    out->runtime_version = d.runtime_version;
    out->memory_bytes = d.memory_bytes;
    out->memory_free_bytes = d.memory_free_bytes;
    out->budget_bytes = d.budget_bytes;
    out->ecc = d.ecc != 0;
    out->managed = d.managed != 0;
    out->concurrent_managed = d.concurrent_managed != 0;
    out->virtual_memory = d.virtual_memory != 0;
    out->simulated = d.simulated != 0;
}

static void describe_gpu(const struct gpu_process *g, uint32_t number, uint64_t now_ns,
                         struct wire_gpu *out)
{
    *out = (struct wire_gpu){
        .number = number,
        .state = state_of(g),
        .restarts = gpu_process_restarts(g),
        .uptime_ns = uptime_of(g, now_ns),
    };
    if (out->state != WIRE_GPU_READY) gpu_process_describe(g, out->why, sizeof out->why);
    const struct share *share = share_of(g);
    if (share) describe_device(share, out);
}

/* The first that is ready speaks for all, else the first. */
static void describe_all(const struct pipeline *p, struct wire_info *info)
{
    uint32_t ready = 0, speaker = 0;
    for (uint32_t i = 0; i < info->gpu_count; i++)
        if (info->gpus[i].state == WIRE_GPU_READY && !ready++) speaker = i;
    char line[sizeof info->gpus[0].why];
    gpu_process_describe(gpu_process_at(p->gpu, speaker), line, sizeof line);
    if (info->gpu_count == 1)
        snprintf(info->gpu, sizeof info->gpu, "%s", line);
    else
        snprintf(info->gpu, sizeof info->gpu, "%u of %u GPUs ready: %s", ready, info->gpu_count,
                 line);
}

void answer_gpu_info(const struct pipeline *p, uint64_t now_ns, struct wire_info *info)
{
    const struct gpu_process *g;
    info->gpu_count = 0;
    while (p->gpu && info->gpu_count < WIRE_GPUS_MAX &&
           (g = gpu_process_at(p->gpu, info->gpu_count))) {
        describe_gpu(g, info->gpu_count, now_ns, &info->gpus[info->gpu_count]);
        info->gpu_count++;
    }
    if (info->gpu_count)
        describe_all(p, info);
    else
        snprintf(info->gpu, sizeof info->gpu, "absent: %s",
                 p->gpu ? "gpu.devices is none" : "this daemon runs without GPUs");
}

/* ---------------------------------------------------------------- stats */

static void count_usage(const struct share *share, struct wire_gpu_stats *out)
{
    const struct share_usage *u = &share->usage;
    out->replica_bytes = atomic_load(&u->replica_bytes);
    out->request_bytes = atomic_load(&u->request_bytes);
    out->slab_bytes = atomic_load(&u->slab_bytes);
    out->free_bytes = atomic_load(&u->free_bytes);
    out->budget_bytes = share->device.budget_bytes;
    out->pinned_bytes = atomic_load(&u->pinned_bytes);
    out->shrunk = atomic_load(&u->shrunk);
    out->split = atomic_load(&u->split);
    out->replicas = atomic_load(&u->replicas);
    out->streams = atomic_load(&u->streams);
    out->uploads = atomic_load(&u->uploads);
    out->upload_bytes = atomic_load(&u->upload_bytes);
    out->upload_ns = atomic_load(&u->upload_ns);
    out->evictions = atomic_load(&u->evictions);
    out->runs = atomic_load(&u->runs);
    out->run_ns = atomic_load(&u->run_ns);
    out->errors = atomic_load(&u->errors);
    out->no_memory = atomic_load(&u->no_memory);
}

/* One GPU has all that the backend has; of several, each job knows its own. */
static void count_jobs(const struct pipeline *p, struct wire_stats *stats)
{
    uint32_t all = gpu_in_flight(p->gpu);
    if (stats->gpu_count == 1) stats->gpus[0].jobs_in_flight = all;
    if (stats->gpu_count < 2 || !all) return;
    for (const struct job *j = p->in_flight; j; j = j->hh.next)
        if (j->state == JOB_RUNNING && j->backend == BACKEND_GPU &&
            j->gpu.device < stats->gpu_count)
            stats->gpus[j->gpu.device].jobs_in_flight++;
}

static void count_routes(const struct stats *s, struct wire_stats *stats)
{
    stats->route_count = 0;
    for (int b = BACKEND_CPU; b <= BACKEND_BOTH; b++)
        for (int r = 0; r < REASON_MAX; r++)
            if (s->routes[b][r])
                stats->routes[stats->route_count++] =
                    (struct wire_route){.backend = b, .reason = r, .requests = s->routes[b][r]};
}

void answer_gpu_stats(const struct pipeline *p, uint64_t now_ns, struct wire_stats *stats)
{
    const struct gpu_process *g;
    stats->gpu_count = 0;
    while (p->gpu && stats->gpu_count < WIRE_GPUS_MAX &&
           (g = gpu_process_at(p->gpu, stats->gpu_count))) {
        struct wire_gpu_stats *out = &stats->gpus[stats->gpu_count];
        *out = (struct wire_gpu_stats){
            .number = stats->gpu_count++,
            .state = state_of(g),
            .restarts = gpu_process_restarts(g),
            .uptime_ns = uptime_of(g, now_ns),
        };
        /* A dead process's VRAM is the system's again: its last numbers would mislead. */
        const struct share *share = out->state == WIRE_GPU_READY ? share_of(g) : NULL;
        if (share) count_usage(share, out);
    }
    if (stats->gpu_count) count_jobs(p, stats);
    count_routes(&p->stats, stats);
}

/* ---------------------------------------------------------------- what lies there */

struct collection_info answer_gpu_collection(const struct pipeline *p, struct collection *c)
{
    struct collection_info info = collection_info(c);
    if (!p->gpu) return info;
    struct gpu_replica_info replica = gpu_replica_info(p->gpu, collection_resident(c));
    info.vram_bytes = replica.bytes;
    info.vram_version = replica.version;
    return info;
}

struct graph_info answer_gpu_graph(const struct pipeline *p, struct graph *g)
{
    struct graph_info info = graph_info(g);
    if (!p->gpu) return info;
    struct gpu_replica_info replica = gpu_replica_info(p->gpu, graph_resident(g));
    info.vram_bytes = replica.bytes;
    info.vram_version = replica.version;
    return info;
}
