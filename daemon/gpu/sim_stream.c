#include "daemon/gpu/sim_stream.h"

#include <stdlib.h>

#include "daemon/base/clock.h"

enum { QUEUE_MAX = 256 };
#define STREAM_MARK UINT64_C(0x6d61657274736d69)
#define EVENT_MARK  UINT64_C(0x746e657665736d69)

struct sim_stream {
    uint64_t mark;
    uint64_t added, done; /* pieces of work since the start */
    uint64_t free_ns;     /* when a slow device will have done it */
    struct sim_stream *next;
    struct sim_work queue[QUEUE_MAX];
};

struct sim_event {
    uint64_t mark;
    struct sim_stream *stream; /* NULL: all its work is done */
    uint64_t after;            /* how much of the stream's work it waits for */
    uint64_t ready_ns;
    bool late; /* its work is done, but the slow device says so only from ready_ns on */
    struct sim_event *next;
};

static void stream_check(const struct sim_stream *stream, const char *call)
{
    if (!stream || stream->mark != STREAM_MARK)
        sim_misuse(call, "%p is not a stream", (const void *)stream);
}

static void event_check(const struct sim_event *e, const char *call)
{
    if (!e || e->mark != EVENT_MARK) sim_misuse(call, "%p is not an event", (const void *)e);
}

/* One kernel after the other, as on a device that each of them fills. */
static void linger(struct sim_streams *s, struct sim_stream *stream, const struct sim_work *w,
                   uint64_t began_ns)
{
    uint64_t now_ns = clock_read_ns(s->clock);
    uint32_t factor = sim_pace_factor(&s->pace, now_ns);
    if (factor == 1 || w->kind != WORK_KERNEL) return;
    if (s->free_ns < now_ns) s->free_ns = now_ns;
    s->free_ns += (now_ns - began_ns) * (factor - 1);
    stream->free_ns = s->free_ns;
}

static void do_work(struct sim_streams *s, struct sim_stream *stream, uint64_t until)
{
    while (stream->done < until) {
        const struct sim_work *w = &stream->queue[stream->done % QUEUE_MAX];
        sim_work_check(w, s->memory);
        if (s->watch) s->watch(s->watch_owner, w);
        uint64_t began_ns = clock_read_ns(s->clock);
        sim_work_run(w, s->bench);
        linger(s, stream, w, began_ns);
        stream->done++;
    }
}

void sim_streams_finish(struct sim_streams *s)
{
    while (s->events)
        sim_event_destroy(s, s->events);
    while (s->streams) {
        s->streams->done = s->streams->added;
        sim_stream_destroy(s, s->streams);
    }
}

struct sim_stream *sim_stream_create(struct sim_streams *s)
{
    struct sim_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return NULL;
    stream->mark = STREAM_MARK;
    stream->next = s->streams;
    s->streams = stream;
    return stream;
}

void sim_stream_destroy(struct sim_streams *s, struct sim_stream *stream)
{
    stream_check(stream, "stream_destroy");
    do_work(s, stream, stream->added);
    for (struct sim_event *e = s->events; e; e = e->next)
        if (e->stream == stream) e->stream = NULL;
    struct sim_stream **at = &s->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    stream->mark = 0;
    free(stream);
}

/* Memory that two ranges show is only read, by work that is enqueued from then on. */
static void check_writes(const struct sim_work *w, const struct sim_memory *m)
{
    bool norms = w->kind == WORK_KERNEL && w->call.kernel == KERNEL_NORMS;
    if (norms)
        sim_own_check(m, "norms", w->call.norms.out, w->call.rows.count * sizeof(float));
    else if (w->kind != WORK_KERNEL && w->kind != WORK_COPY_OUT)
        sim_own_check(m, sim_work_name(w), w->to, w->bytes);
}

void sim_stream_add(struct sim_streams *s, struct sim_stream *stream, const struct sim_work *w)
{
    stream_check(stream, sim_work_name(w));
    sim_work_check(w, s->memory);
    check_writes(w, s->memory);
    if (stream->added - stream->done == QUEUE_MAX) do_work(s, stream, stream->done + 1);
    stream->queue[stream->added++ % QUEUE_MAX] = *w;
}

struct sim_work *sim_stream_direct(struct sim_stream *stream, const uint64_t *cells)
{
    stream_check(stream, "direct_query");
    for (uint64_t i = stream->done; i < stream->added; i++) {
        struct sim_work *w = &stream->queue[i % QUEUE_MAX];
        bool is_direct = w->kind == WORK_KERNEL && device_kernel_is_direct(w->call.kernel);
        if (is_direct && w->call.direct.cells == cells) return w;
    }
    return NULL;
}

void sim_stream_reach(struct sim_streams *s, struct sim_stream *stream, const struct sim_work *w)
{
    uint64_t at = stream->done;
    while (&stream->queue[at % QUEUE_MAX] != w)
        at++;
    do_work(s, stream, at + 1);
}

bool sim_stream_is_late(const struct sim_stream *stream, uint64_t now_ns)
{
    return stream->free_ns > now_ns;
}

struct sim_event *sim_event_create(struct sim_streams *s)
{
    struct sim_event *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->mark = EVENT_MARK;
    e->next = s->events;
    s->events = e;
    return e;
}

void sim_event_destroy(struct sim_streams *s, struct sim_event *e)
{
    event_check(e, "event_destroy");
    struct sim_event **at = &s->events;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    e->mark = 0;
    free(e);
}

void sim_event_record(struct sim_event *e, struct sim_stream *stream, uint64_t ready_ns)
{
    event_check(e, "event_record");
    stream_check(stream, "event_record");
    e->stream = stream;
    e->after = stream->added;
    e->ready_ns = ready_ns;
    e->late = false;
}

bool sim_event_due(const struct sim_event *e, uint64_t now_ns)
{
    event_check(e, "event_query");
    return now_ns >= e->ready_ns;
}

bool sim_event_finish(struct sim_streams *s, struct sim_event *e)
{
    struct sim_stream *stream = e->stream;
    e->stream = NULL;
    e->late = false;
    if (!stream) return true;
    do_work(s, stream, e->after);
    e->late = stream->free_ns > clock_read_ns(s->clock);
    if (e->late) e->ready_ns = stream->free_ns;
    return !e->late;
}

bool sim_event_is_late(const struct sim_event *e)
{
    return e->late;
}
