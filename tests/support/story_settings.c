/* The daemon's settings in a story: as a seed decides them, and read again now and then, when those
 * that are live are other ones. */
#include <stdio.h>

#include "tests/support/story.h"

#define RELOAD_NS UINT64_C(3000000)

/* A quota of memory, with that many chances in a thousand; 0: none. */
static uint32_t some_mib(struct story *s, uint32_t permille)
{
    return story_chance(s, permille) ? 1 + (uint32_t)story_random(s, 2) : 0;
}

static void note_quotas(struct story *s)
{
    s->bytes_limited |= s->config.quotas.host_mib > 0;
}

void story_settings_open(struct story *s)
{
    const struct story_settings *t = &s->settings;
    config_defaults(&s->config);
    s->config.worker_count = t->workers;
    s->config.memory_mib_max = t->memory_mib;
    s->config.cache_mib_max = 1;
    s->config.job_max = 512;
    s->config.connection_max = 2 * STORY_CLIENTS_MAX;
    s->config.quotas.queue = t->queue_max ? t->queue_max : s->config.quotas.queue;
    s->config.quotas.host_mib = t->quota_mib;
    s->config.worker_inline = story_chance(s, 500);
    s->config.batch_wait_us = (uint32_t)story_random(s, 3) * 200;
    s->config.batch_requests = story_chance(s, 300) ? 1 : 64;
    s->config.window_us = story_chance(s, 500) ? 1000 : 50;
    s->config.quantum_us = story_chance(s, 500) ? 500 : 20;
    s->config.in_flight_max = story_chance(s, 200) ? 4 : 64;
    note_quotas(s);
}

/* As engine.c does on SIGHUP. What is not live differs, too, and stays. */
static void reload(struct story *s, void *subject)
{
    static const char *const forces[] = {"none", "cpu", "gpu", "both"};
    struct config fresh = s->config;
    uint32_t ignored, jobs = s->config.job_max;
    if (s->over) return;
    story_at(s, s->now_ns + story_about(s, RELOAD_NS), reload, NULL);
    fresh.job_max = jobs + 1;
    fresh.worker_inline = story_chance(s, 500);
    fresh.batch_wait_us = (uint32_t)story_random(s, 3) * 200;
    fresh.batch_requests = story_chance(s, 300) ? 1 : 64;
    fresh.window_us = story_chance(s, 500) ? 1000 : 50;
    fresh.quantum_us = story_chance(s, 500) ? 500 : 20;
    fresh.predict = story_chance(s, 700);
    fresh.split = story_chance(s, 500);
    fresh.probe_percent = story_chance(s, 300) ? 0 : 20;
    fresh.quotas.queue = story_chance(s, 200) ? 6 : 4096;
    fresh.quotas.weight = 1 + (uint32_t)story_random(s, 5);
    fresh.quotas.host_mib = s->settings.quota_mib ? some_mib(s, 500) : 0;
    fresh.quotas.vram_mib = some_mib(s, 300);
    snprintf(fresh.gpu_force, sizeof fresh.gpu_force, "%s", forces[story_random(s, 4)]);
    uint32_t changed = config_apply_live(&s->config, &fresh, &ignored);
    STORY_CHECK(s, ignored == 1 && s->config.job_max == jobs, "%u settings that are not live",
                ignored);
    pipeline_configure(s->pipeline);
    note_quotas(s);
    story_note(s, "reload", changed, 0);
}

void story_reload_now_and_then(struct story *s)
{
    if (s->settings.reloads) story_at(s, s->now_ns + story_about(s, RELOAD_NS), reload, NULL);
}
