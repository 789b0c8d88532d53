/* text: names and texts of the numbers in codes. */
#include "client/client.h"
#include "proto/plain_text.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

const char *ea_status_name(ea_status status)
{
    static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    };
    return (unsigned)status < COUNT(names) ? names[status] : "?";
}

const char *ea_backend_name(ea_backend backend)
{
    static const char *const names[] = {"none", "cpu", "gpu", "both"};
    return (unsigned)backend < COUNT(names) ? names[backend] : "?";
}

const char *ea_reason_name(uint32_t reason)
{
    static const char *const names[] = {
        "none",        "chosen_faster",    "below_min_batch",      "gpu_absent",
        "gpu_down",    "predicted_slower", "low_success_rate",     "vram_pressure",
        "queue_full",  "forced",           "fallback_after_error", "probe",
        "shadow_only",
    };
    return reason < COUNT(names) ? names[reason] : "?";
}

const char *ea_reason_text(uint32_t reason)
{
    static const char *const texts[] = {
        "there was no choice to make",
        "it is done sooner there",
        "too little work for a GPU (gpu.min_pairs, gpu.min_candidates, gpu.min_nodes)",
        "no GPU is in use",
        "the GPU's process is starting, restarting or given up",
        "the GPU would take longer, or has no replica yet",
        "the GPU has failed too often of late",
        "too little VRAM is left",
        "the GPU has all the requests it takes",
        "gpu.force says so",
        "the GPU failed it; it ran again on the CPU",
        "to learn how long it takes there",
        "it is done sooner there, where only the rows' codes have room",
    };
    return reason < COUNT(texts) ? texts[reason] : "?";
}

const char *ea_gpu_state_name(ea_gpu_state state)
{
    static const char *const names[] = {"?", "absent", "starting", "ready", "down", "breaker"};
    return (unsigned)state < COUNT(names) ? names[state] : "?";
}

const char *ea_operation_name(uint32_t kind)
{
    static const char *const names[] = {
#define ANSWERED(NAME, number, name, ...)  [number] = #name,
#define OPERATION(NAME, number, name, ...) [number] = #name,
#define INTERNAL(NAME, number, name, ...)  [number] = #name,
#include "proto/operations.def"
    };
    return kind < COUNT(names) && names[kind] ? names[kind] : "?";
}

void ea_text_plain(char *text)
{
    plain_text_tame(text);
}

const char *ea_library_version(void)
{
    return ENGRAM_VERSION;
}
