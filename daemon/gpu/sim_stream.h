/* sim_stream: the simulated device's streams and events. Work stays in its stream's queue until an
 * event behind it is queried after its time, or the queue is full.
 * Owner:  device_sim.
 * Thread: the device thread only.
 * Errors: NULL: no memory. An invalid handle ends the process: sim_misuse. */
#ifndef ENGRAM_GPU_SIM_STREAM_H
#define ENGRAM_GPU_SIM_STREAM_H

#include "daemon/base/clock.h"
#include "daemon/gpu/sim_settings.h"
#include "daemon/gpu/sim_work.h"

struct sim_stream;
struct sim_event;

typedef void (*sim_watch)(void *owner, const struct sim_work *w);

struct sim_streams {
    sim_watch watch; /* called before each piece of work; NULL: none */
    void *watch_owner;
    const struct clock *clock; /* NULL: the real one */
    const struct sim_memory *memory;
    struct sim_bench *bench;
    struct sim_pace pace;
    uint64_t free_ns; /* when a slow device will have done all kernels so far */
    struct sim_stream *streams;
    struct sim_event *events;
};

/* Drops unfinished work. */
void sim_streams_finish(struct sim_streams *s);

struct sim_stream *sim_stream_create(struct sim_streams *s);
/* Does the work that is left in it. */
void sim_stream_destroy(struct sim_streams *s, struct sim_stream *stream);
/* Checks the work now, and again when it is done. */
void sim_stream_add(struct sim_streams *s, struct sim_stream *stream, const struct sim_work *w);

/* Returns the work whose results these cells are, if it is still in the stream's queue; NULL: it
 * was done. */
struct sim_work *sim_stream_direct(struct sim_stream *stream, const uint64_t *cells);
/* Does this work, and what is before it. */
void sim_stream_reach(struct sim_streams *s, struct sim_stream *stream, const struct sim_work *w);
/* True if a slow device still works at what has been done. */
bool sim_stream_is_late(const struct sim_stream *stream, uint64_t now_ns);

struct sim_event *sim_event_create(struct sim_streams *s);
void sim_event_destroy(struct sim_streams *s, struct sim_event *e);
void sim_event_record(struct sim_event *e, struct sim_stream *stream, uint64_t ready_ns);
/* True if its time has come, or it was never recorded. */
bool sim_event_due(const struct sim_event *e, uint64_t now_ns);
/* Does the work before it. False: the device is slow and will be done later: ask again. */
bool sim_event_finish(struct sim_streams *s, struct sim_event *e);
/* True if sim_event_finish has returned false for it. */
bool sim_event_is_late(const struct sim_event *e);

#endif
