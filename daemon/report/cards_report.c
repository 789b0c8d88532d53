#include "daemon/report/cards_report.h"

#include <stdio.h>
#include <string.h>

#include "daemon/cards/process.h"

_Static_assert((int)GPU_MAX <= (int)WIRE_GPUS_MAX, "every GPU has a place in a reply");

static enum wire_gpu_state wire_state_of(enum gpu_state state)
{
    switch (state) {
    case GPU_ABSENT: return WIRE_GPU_ABSENT;
    case GPU_STARTING: return WIRE_GPU_STARTING;
    case GPU_READY: return WIRE_GPU_READY;
    case GPU_DOWN: return WIRE_GPU_DOWN;
    case GPU_BREAKER: return WIRE_GPU_BREAKER;
    }
    return WIRE_GPU_ABSENT;
}

static uint64_t uptime_of(const struct card_seen *card, uint64_t now_ns)
{
    return card->ready_ns && now_ns > card->ready_ns ? now_ns - card->ready_ns : 0;
}

void cards_look(const struct backend *gpu, struct cards_seen *out)
{
    const struct gpu_process *g;
    memset(out, 0, sizeof *out);
    if (!gpu) return;
    out->backend = true;
    out->jobs = cards_in_flight(gpu);
    while (out->count < WIRE_GPUS_MAX && (g = cards_process_at(gpu, out->count))) {
        struct card_seen *card = &out->cards[out->count];
        card->state = gpu_process_state(g);
        /* gpu_process_share changes nothing */
        card->share = gpu_process_share((struct gpu_process *)g);
        card->totals = *gpu_process_totals((struct gpu_process *)g);
        card->restarts = gpu_process_restarts(g);
        card->ready_ns = gpu_process_ready_ns(g);
        card->room = cards_room_of(gpu, out->count++);
        gpu_process_describe(g, card->text, sizeof card->text);
    }
}

/* ---------------------------------------------------------------- info */

static void describe_device(const struct share *share, struct wire_gpu *out)
{
    struct share_device d; /* a copy, which the GPU process cannot change after it was checked */
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

static void describe_card(const struct card_seen *card, uint32_t number, uint64_t now_ns,
                          struct wire_gpu *out)
{
    *out = (struct wire_gpu){
        .number = number,
        .state = wire_state_of(card->state),
        .restarts = card->restarts,
        .uptime_ns = uptime_of(card, now_ns),
    };
    if (card->state != GPU_READY) memcpy(out->why, card->text, sizeof out->why);
    if (card->share) describe_device(card->share, out);
}

/* Describes the first GPU that is ready, or else the first one. */
static void describe_all(const struct cards_seen *seen, struct wire_info *info)
{
    uint32_t ready = 0, speaker = 0;
    for (uint32_t i = 0; i < seen->count; i++)
        if (seen->cards[i].state == GPU_READY && !ready++) speaker = i;
    const char *line = seen->cards[speaker].text;
    if (seen->count == 1)
        snprintf(info->gpu, sizeof info->gpu, "%s", line);
    else
        snprintf(info->gpu, sizeof info->gpu, "%u of %u GPUs ready: %s", ready, seen->count, line);
}

void cards_report_info(const struct cards_seen *seen, uint64_t now_ns, struct wire_info *info)
{
    info->gpu_count = seen->count;
    for (uint32_t i = 0; i < seen->count; i++)
        describe_card(&seen->cards[i], i, now_ns, &info->gpus[i]);
    if (info->gpu_count)
        describe_all(seen, info);
    else
        snprintf(info->gpu, sizeof info->gpu, "absent: %s",
                 seen->backend ? "gpu.devices is none" : "this daemon runs without GPUs");
}

/* ---------------------------------------------------------------- stats */

static void count_usage(const struct share *share, struct wire_gpu_stats *out)
{
    const struct share_usage *u = &share->usage;
    out->replica_bytes = atomic_load(&u->replica_bytes);
    out->request_bytes = atomic_load(&u->request_bytes);
    out->slab_bytes = atomic_load(&u->slab_bytes);
    out->asked_bytes = atomic_load(&u->asked_bytes);
    out->largest_bytes = atomic_load(&u->largest_bytes);
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

void cards_report_sensors(const struct share_sensors *s, uint64_t now_ns,
                          struct wire_gpu_stats *out)
{
    uint64_t seen_ns = atomic_load_explicit(&s->seen_ns, memory_order_acquire);
    if (!seen_ns || seen_ns + SHARE_SENSORS_OLD_NS < now_ns) return;
    out->sensors_known = atomic_load_explicit(&s->known, memory_order_relaxed);
    for (int i = 0; i < SHARE_SENSORS; i++)
        out->sensors[i] = atomic_load_explicit(&s->values[i], memory_order_relaxed);
}

/* A single GPU has all jobs of the backend; with several, each job says which GPU has it. */
static void count_jobs(const struct cards_seen *seen, const struct job *in_flight,
                       struct wire_stats *stats)
{
    if (seen->count == 1) stats->gpus[0].jobs_in_flight = seen->jobs;
    if (seen->count < 2 || !seen->jobs) return;
    for (const struct job *j = in_flight; j; j = j->hh.next)
        if (j->state == JOB_RUNNING && j->backend == BACKEND_GPU && j->gpu.device < seen->count)
            stats->gpus[j->gpu.device].jobs_in_flight++;
}

void cards_report_stats(const struct cards_seen *seen, const struct job *in_flight, uint64_t now_ns,
                        struct wire_stats *stats)
{
    stats->gpu_count = seen->count;
    for (uint32_t i = 0; i < seen->count; i++) {
        const struct card_seen *card = &seen->cards[i];
        stats->gpus[i] = (struct wire_gpu_stats){
            .number = i,
            .state = wire_state_of(card->state),
            .restarts = card->restarts,
            .uptime_ns = uptime_of(card, now_ns),
        };
        /* The VRAM of a dead process has been freed: its last numbers would mislead. */
        if (card->state != GPU_READY || !card->share) continue;
        count_usage(card->share, &stats->gpus[i]);
        cards_report_sensors(&card->share->sensors, now_ns, &stats->gpus[i]);
    }
    count_jobs(seen, in_flight, stats);
}

/* ---------------------------------------------------------------- what lies there */

struct collection_info cards_report_collection(const struct backend *gpu, struct collection *c)
{
    struct collection_info info = collection_info(c);
    if (!gpu) return info;
    struct replica_info replica = replica_info(gpu, collection_resident(c));
    info.vram_bytes = replica.bytes;
    info.vram_version = replica.version;
    info.vram_shadow = replica.shadow;
    info.vram_card = replica.card;
    return info;
}

struct graph_info cards_report_graph(const struct backend *gpu, struct graph *g)
{
    struct graph_info info = graph_info(g);
    if (!gpu) return info;
    struct replica_info replica = replica_info(gpu, graph_resident(g));
    info.vram_bytes = replica.bytes;
    info.vram_version = replica.version;
    return info;
}
