/* device_sim: a simulated GPU. Work is done when an event behind it is queried after its time has
 * come, stream by stream: code that reads results too early finds none, and code that frees memory
 * too early sees it overwritten. Errors that a real device would not survive end the process with
 * a line that says why. Settings: sim_settings.h. */
#include "daemon/gpu/device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/sim_bind.h"
#include "daemon/gpu/sim_memory.h"
#include "daemon/gpu/sim_probe.h"
#include "daemon/gpu/sim_range.h"
#include "daemon/gpu/sim_settings.h"
#include "daemon/gpu/sim_shadow.h"
#include "daemon/gpu/sim_spread.h"
#include "daemon/gpu/sim_stream.h"

struct sim {
    struct device device;
    struct sim_settings settings;
    struct sim_faults faults;
    struct sim_memory memory;
    struct sim_streams streams;
    struct sim_ranges ranges;
    uint64_t busy_until_ns; /* by run_us */
    pthread_t thread;
    const char *first_fault; /* the first call that failed because of the settings */
    char last_error[SHARE_WHY];
};

static struct sim *sim_of(struct device *d, const char *call)
{
    struct sim *s = (struct sim *)d;
    if (!pthread_equal(s->thread, pthread_self()))
        sim_misuse(call, "called by another thread than open was");
    return s;
}

static const char *result_text(enum device_result result)
{
    return result == DEVICE_NO_MEMORY ? "out of memory"
           : result == DEVICE_STICKY  ? "an illegal memory access was encountered"
                                      : "unspecified failure";
}

/* Notes which call failed; returns result. */
static enum device_result failed(struct sim *s, const char *call, enum device_result result)
{
    snprintf(s->last_error, sizeof s->last_error, "%s: %s", call, result_text(result));
    return result;
}

/* Every call that can fail begins with this. */
static enum device_result enter(struct device *d, const char *call, bool can_lack_memory,
                                struct sim **out)
{
    struct sim *s = sim_of(d, call);
    enum device_result result = sim_faults_call(&s->faults, call, can_lack_memory);
    if (result == DEVICE_ABSENT) result = DEVICE_ERROR;
    *out = s;
    if (result && !s->first_fault) s->first_fault = call;
    return result ? failed(s, call, result) : DEVICE_OK;
}

/* ---- life ---- */

static void destroy(struct sim *s)
{
    sim_streams_finish(&s->streams);
    sim_bench_destroy(s->streams.bench);
    sim_memory_finish(&s->memory);
    sim_faults_finish(&s->faults);
    free(s);
}

static void describe(const struct sim_settings *s, bool managed, struct share_device *info)
{
    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "simulated GPU");
    snprintf(info->uuid, sizeof info->uuid, "GPU-simulated");
    info->multiprocessors = 1;
    info->device_count = s->devices;
    info->memory_bytes = info->memory_free_bytes = s->vram_bytes;
    info->concurrent_managed = s->managed;
    info->managed = s->managed && managed;
    info->virtual_memory = s->vmm;
    info->simulated = 1;
    info->direct_dimension = s->direct ? ORDER_DIRECT_DIMENSION_MAX : 0;
}

/* Runs the first call of all, and sets up what it needs. */
static enum device_result start(struct sim *s, char *why)
{
    if (!sim_faults_init(&s->faults, &s->settings, why)) return DEVICE_ABSENT;
    enum device_result result = sim_faults_call(&s->faults, "open", true);
    if (result == DEVICE_ABSENT || s->settings.devices == 0) {
        snprintf(why, SHARE_WHY, "simulated GPU: no device");
        return DEVICE_ABSENT;
    }
    if (!result && !sim_memory_init(&s->memory, s->settings.vram_bytes, s->settings.granularity))
        result = DEVICE_NO_MEMORY;
    if (!result &&
        !(s->streams.bench = sim_bench_create(&s->memory, s->streams.clock, s->settings.pass_sets)))
        result = DEVICE_NO_MEMORY;
    if (result) snprintf(why, SHARE_WHY, "simulated GPU: open: %s", result_text(result));
    return result;
}

static enum device_result sim_open(const struct device_options *options, struct device **out,
                                   struct share_device *info, char *why)
{
    struct sim_settings settings;
    if (!sim_settings_parse(options->which, &settings, why)) return DEVICE_ABSENT;
    struct sim *s = calloc(1, sizeof *s);
    if (!s) {
        snprintf(why, SHARE_WHY, "simulated GPU: open: %s", result_text(DEVICE_NO_MEMORY));
        return DEVICE_NO_MEMORY;
    }
    s->device.ops = &device_sim;
    s->settings = settings;
    s->thread = pthread_self();
    s->streams.memory = &s->memory;
    s->streams.clock = options->clock;
    s->streams.pace.settings = &s->settings;
    s->ranges = (struct sim_ranges){&s->memory, &s->streams, &s->settings};
    enum device_result result = start(s, why);
    if (result) {
        destroy(s);
        return result;
    }
    describe(&settings, options->managed, info);
    *out = &s->device;
    return DEVICE_OK;
}

static void sim_close(struct device *d)
{
    if (!d) return;
    struct sim *s = sim_of(d, "close");
    const struct sim_memory *m = &s->memory;
    const char *left = m->span_count        ? "device memory"
                       : m->pinned_count    ? "pinned memory"
                       : s->streams.streams ? "a stream"
                       : s->streams.events  ? "an event"
                                            : NULL;
    if (s->settings.strict && left) sim_misuse("close", "%s has not been given back", left);
    destroy(s);
}

static const char *sim_last_error(const struct device *d)
{
    return ((const struct sim *)d)->last_error;
}

/* ---- memory ---- */

static enum device_result sim_memory(struct device *d, uint64_t *free_bytes, uint64_t *total_bytes)
{
    struct sim *s;
    enum device_result result = enter(d, "memory", false, &s);
    if (result) return result;
    *free_bytes = s->memory.granules_free * s->memory.granularity;
    *total_bytes = s->settings.vram_bytes;
    return DEVICE_OK;
}

static enum device_result sim_allocate(struct device *d, uint64_t bytes, void **out)
{
    struct sim *s;
    enum device_result result = enter(d, "allocate", true, &s);
    if (result) return result;
    struct sim_span *span = bytes ? sim_span_create(&s->memory, bytes) : NULL;
    if (!span || !sim_span_resize(&s->memory, span, bytes)) {
        sim_span_destroy(&s->memory, span);
        return failed(s, "allocate", DEVICE_NO_MEMORY);
    }
    *out = span->base;
    return DEVICE_OK;
}

static void sim_release(struct device *d, void *address)
{
    struct sim *s = sim_of(d, "release");
    if (address) sim_span_destroy(&s->memory, sim_span_at(&s->memory, "release", address));
}

static enum device_result sim_host_allocate(struct device *d, uint64_t bytes, void **out)
{
    struct sim *s;
    enum device_result result = enter(d, "host_allocate", true, &s);
    if (result) return result;
    void *address = sim_pinned_create(&s->memory, bytes);
    if (!address) return failed(s, "host_allocate", DEVICE_NO_MEMORY);
    *out = address;
    return DEVICE_OK;
}

static void sim_host_release(struct device *d, void *address)
{
    struct sim *s = sim_of(d, "host_release");
    if (address) sim_pinned_destroy(&s->memory, address);
}

static enum device_result sim_reserve(struct device *d, uint64_t bytes_max, struct device_range *r)
{
    struct sim *s;
    enum device_result result = enter(d, "range_reserve", true, &s);
    if (!result) result = sim_range_reserve(&s->ranges, bytes_max, r);
    return result ? failed(s, "range_reserve", result) : DEVICE_OK;
}

static enum device_result sim_resize(struct device *d, struct device_range *r, uint64_t bytes)
{
    struct sim *s;
    enum device_result result = enter(d, "range_resize", true, &s);
    if (!result) result = sim_range_resize(&s->ranges, r, bytes);
    return result ? failed(s, "range_resize", result) : DEVICE_OK;
}

static bool sim_moves(const struct device *d)
{
    return !((const struct sim *)d)->settings.vmm;
}

static enum device_result sim_fork(struct device *d, struct device_range *r, uint64_t bytes,
                                   device_stream on, struct device_range *second)
{
    struct sim *s;
    enum device_result result = enter(d, "range_fork", true, &s);
    if (!result) result = sim_range_fork(&s->ranges, r, bytes, (struct sim_stream *)on, second);
    return result ? failed(s, "range_fork", result) : DEVICE_OK;
}

static enum device_result sim_own(struct device *d, struct device_range *second, uint64_t first,
                                  uint64_t bytes, uint64_t limit, device_stream on)
{
    struct sim *s;
    enum device_result result = enter(d, "range_own", true, &s);
    struct sim_part part = {first, bytes, limit};
    if (!result) result = sim_range_own(&s->ranges, second, &part, (struct sim_stream *)on);
    return result ? failed(s, "range_own", result) : DEVICE_OK;
}

static void sim_release_range(struct device *d, struct device_range *r)
{
    sim_range_release(&sim_of(d, "range_release")->ranges, r);
}

/* ---- streams and events ---- */

static enum device_result sim_stream_new(struct device *d, device_stream *out)
{
    struct sim *s;
    enum device_result result = enter(d, "stream_create", true, &s);
    if (result) return result;
    struct sim_stream *stream = sim_stream_create(&s->streams);
    if (!stream) return failed(s, "stream_create", DEVICE_NO_MEMORY);
    *out = (device_stream)stream;
    return DEVICE_OK;
}

static void sim_stream_end(struct device *d, device_stream stream)
{
    struct sim *s = sim_of(d, "stream_destroy");
    if (stream) sim_stream_destroy(&s->streams, (struct sim_stream *)stream);
}

static enum device_result sim_event_new(struct device *d, device_event *out)
{
    struct sim *s;
    enum device_result result = enter(d, "event_create", true, &s);
    if (result) return result;
    struct sim_event *e = sim_event_create(&s->streams);
    if (!e) return failed(s, "event_create", DEVICE_NO_MEMORY);
    *out = (device_event)e;
    return DEVICE_OK;
}

static void sim_event_end(struct device *d, device_event e)
{
    struct sim *s = sim_of(d, "event_destroy");
    if (e) sim_event_destroy(&s->streams, (struct sim_event *)e);
}

/* Returns when what is recorded now will be done. */
static uint64_t ready_ns(struct sim *s)
{
    uint64_t now_ns = clock_read_ns(s->streams.clock);
    if (!s->settings.run_ns) return now_ns + s->settings.latency_ns;
    if (s->busy_until_ns < now_ns) s->busy_until_ns = now_ns;
    s->busy_until_ns += s->settings.run_ns;
    return s->busy_until_ns + s->settings.latency_ns;
}

static enum device_result sim_record(struct device *d, device_event e, device_stream stream)
{
    struct sim *s;
    enum device_result result = enter(d, "event_record", false, &s);
    if (result) return result;
    sim_event_record((struct sim_event *)e, (struct sim_stream *)stream, ready_ns(s));
    return DEVICE_OK;
}

/* Asking too early is not a call that can fail: how often that happens is up to the clock, and the
 * same work is to have the same number of calls. */
static enum device_result sim_query(struct device *d, device_event e)
{
    struct sim *s = sim_of(d, "event_query");
    struct sim_event *event = (struct sim_event *)e;
    if (!sim_event_due(event, clock_read_ns(s->streams.clock)) && !s->faults.sticky)
        return DEVICE_BUSY;
    /* true if it was queried before and told to wait */
    bool goes_on = sim_event_is_late(event) && !s->faults.sticky;
    enum device_result result = goes_on ? DEVICE_OK : enter(d, "event_query", false, &s);
    if (result) return result;
    return sim_event_finish(&s->streams, event) ? DEVICE_OK : DEVICE_BUSY;
}

/* ---- enqueue ---- */

static enum device_result enqueue(struct device *d, device_stream stream, struct sim_work w)
{
    struct sim *s;
    enum device_result result = enter(d, sim_work_name(&w), true, &s);
    if (result) return result;
    sim_stream_add(&s->streams, (struct sim_stream *)stream, &w);
    return DEVICE_OK;
}

static enum device_result sim_copy_in(struct device *d, void *to, const void *pinned,
                                      uint64_t bytes, device_stream s)
{
    return enqueue(
        d, s, (struct sim_work){.kind = WORK_COPY_IN, .to = to, .from = pinned, .bytes = bytes});
}

static enum device_result sim_copy_out(struct device *d, void *pinned, const void *from,
                                       uint64_t bytes, device_stream s)
{
    return enqueue(
        d, s, (struct sim_work){.kind = WORK_COPY_OUT, .to = pinned, .from = from, .bytes = bytes});
}

static enum device_result sim_clear(struct device *d, void *address, uint64_t bytes,
                                    device_stream s)
{
    return enqueue(d, s, (struct sim_work){.kind = WORK_CLEAR, .to = address, .bytes = bytes});
}

static enum device_result sim_launch(struct device *d, const struct device_call *call,
                                     device_stream s)
{
    struct sim_work w = sim_work_of(call);
    if (device_kernel_is_direct(call->kernel)) w.ready_ns = ready_ns((struct sim *)d);
    return enqueue(d, s, w);
}

/* Asking too early is not a call that can fail, as in sim_query; a failure loses the results. */
static enum device_result sim_direct_query(struct device *d, device_stream stream,
                                           struct cells *cells)
{
    struct sim *s = sim_of(d, "direct_query");
    struct sim_stream *its = (struct sim_stream *)stream;
    struct sim_work *w = sim_stream_direct(its, cells->at);
    if (w) {
        if (clock_read_ns(s->streams.clock) < w->ready_ns) return DEVICE_BUSY;
        w->lost = enter(d, "cells", false, &s) != DEVICE_OK;
        sim_stream_reach(&s->streams, its, w);
    }
    if (sim_stream_is_late(its, clock_read_ns(s->streams.clock))) return DEVICE_BUSY;
    return cells_came(cells) ? DEVICE_OK : DEVICE_BUSY;
}

/* ---- for tests ---- */

const char *sim_probe_fault(struct device *d)
{
    return sim_of(d, "probe")->first_fault;
}

void sim_probe_watch(struct device *d, sim_watch watch, void *owner)
{
    struct sim *s = sim_of(d, "probe");
    s->streams.watch = watch;
    s->streams.watch_owner = owner;
}

static uint64_t sim_multiply_adds(const struct device *d)
{
    return ((const struct sim *)d)->settings.multiply_adds;
}

static bool sim_shadow_pays(const struct device *d, uint32_t dimension, uint64_t query_count,
                            uint32_t k, uint64_t row_count)
{
    (void)dimension;
    return row_count >= ((const struct sim *)d)->settings.shadow_rows &&
           sim_shadow_suits(query_count, k, row_count);
}

static bool sim_shadow_direct_pays(const struct device *d, uint32_t dimension, uint32_t k,
                                   uint64_t row_count)
{
    (void)dimension;
    const struct sim_settings *s = &((const struct sim *)d)->settings;
    return s->direct && k <= CUDA_DIRECT_K_MAX && row_count >= s->shadow_rows &&
           sim_shadow_suits(1, k, row_count);
}

static uint64_t sim_piece(const struct device *d)
{
    return ((const struct sim *)d)->settings.granularity;
}

const struct device_ops device_sim = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .last_error = sim_last_error,
    .memory = sim_memory,
    .allocate = sim_allocate,
    .release = sim_release,
    .host_allocate = sim_host_allocate,
    .host_release = sim_host_release,
    .range_reserve = sim_reserve,
    .range_resize = sim_resize,
    .range_moves = sim_moves,
    .range_piece = sim_piece,
    .range_fork = sim_fork,
    .range_own = sim_own,
    .range_release = sim_release_range,
    .stream_create = sim_stream_new,
    .stream_destroy = sim_stream_end,
    .event_create = sim_event_new,
    .event_destroy = sim_event_end,
    .event_record = sim_record,
    .event_query = sim_query,
    .copy_in = sim_copy_in,
    .copy_out = sim_copy_out,
    .clear = sim_clear,
    .launch = sim_launch,
    .direct_query = sim_direct_query,
    .multiply_adds = sim_multiply_adds,
    .topk_scratch_min = sim_topk_scratch_min,
    .topk_scratch_best = sim_topk_scratch_best,
    .shadow_suits = sim_shadow_pays,
    .shadow_scratch = sim_shadow_scratch,
    .shadow_list_scratch = sim_shadow_scratch,
    .bind_scratch = sim_bind_scratch,
    .direct_scratch_min = sim_direct_scratch_min,
    .direct_scratch_best = sim_direct_scratch_best,
    .shadow_direct_suits = sim_shadow_direct_pays,
    .shadow_direct_scratch = sim_shadow_direct_scratch,
    .spread_scratch_min = sim_spread_scratch_min,
    .spread_scratch_best = sim_spread_scratch_best,
};
