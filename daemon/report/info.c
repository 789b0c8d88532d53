#include "daemon/report/info.h"

#include <unistd.h>

#include "daemon/report/cards_report.h"

void info_report(const struct report_sources *from, struct wire_info *out)
{
    static char cpu_features[129];
    if (!cpu_features[0]) vectors_describe_cpu(cpu_features, sizeof cpu_features);
    struct heap_usage memory = heap_usage(from->heap);
    *out = (struct wire_info){
        .server_version = ENGRAM_VERSION,
        .build = ENGRAM_BUILD,
        .cpu_features = cpu_features,
        .kernels = from->kernels->name,
        .workers = from->workers,
        .connections = from->net->open,
        .process_id = (uint32_t)getpid(),
        .uptime_ns = from->now_ns - from->started_ns,
        .memory_bytes_max = memory.bytes_max,
        .memory_bytes_used = memory.bytes_used,
        .instance = from->instance,
        .limits = from->limits,
    };
    struct cards_seen seen;
    cards_look(from->gpu, &seen);
    cards_report_info(&seen, from->now_ns, out);
}
