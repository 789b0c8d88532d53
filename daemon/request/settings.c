#include "daemon/request/settings.h"

#include "daemon/base/log.h"
#include "daemon/base/slow_times.h"
#include "daemon/exec/batch.h"
#include "daemon/request/principals.h"
#include "daemon/request/quotas.h"
#include "daemon/store/shadow.h"

void settings_apply(struct pipeline *p)
{
    const struct config *c = p->config;
    const char *force = c->gpu_force;
    p->scheduler.settings = (struct scheduler_settings){
        .force = *force == 'c'   ? FORCE_CPU
                 : *force == 'n' ? FORCE_NONE
                                 : FORCE_GPU,
        .force_split = *force == 'b',
        .speedup_min = c->speedup_percent / 100.0,
        .success_min = c->success_percent / 100.0,
        .pairs_min = c->gpu_pairs_min,
        .candidates_min = c->gpu_candidates_min,
        .nodes_min = c->gpu_nodes_min,
        .window_ns = c->window_us * UINT64_C(1000),
        .quantum_ns = c->quantum_us * UINT64_C(1000),
        .age_ns = c->age_ms * UINT64_C(1000000),
        .batch_wait_ns = c->batch_wait_us * UINT64_C(1000),
        .batch_queries_max = c->batch_queries,
        .batch_requests_max = c->batch_requests,
        .batch_bytes_max = BATCH_RESULT_BYTES_MAX,
        .split = c->split,
        .floors_only = !c->predict,
        .forgets = !c->observe.enabled,
    };
    p->scheduler.model.window = c->observe.window;
    /* Checked when it was set. */
    slow_times_parse(c->observe.slow_operations, c->observe.slow_ms, p->slow.over_ns);
    p->scheduler.probes.share = c->probe_percent / 100.0;
    shadows_allow(store_shadows(p->store), *c->screen_memory == 'a' || *c->screen_memory == 'c');
}

/* Compares a few shadows with their checksums, some 0.1 ms each. */
void pipeline_rest(struct pipeline *p)
{
    enum { AT_ONCE = 4 };
    uint64_t differed = 0;
    for (int i = 0; i < AT_ONCE; i++)
        differed = shadows_sweep(store_shadows(p->store));
    if (differed != p->shadows_differed)
        log_error("rows in int8 had changed in memory: %llu pieces were dropped, and will be made "
                  "anew from the rows",
                  (unsigned long long)(differed - p->shadows_differed));
    p->shadows_differed = differed;
}

void pipeline_configure(struct pipeline *p)
{
    settings_apply(p);
    quotas_refresh(p);
    principals_refresh(p);
}
