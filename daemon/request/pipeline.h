/* pipeline: the requests of clients, from their frames to their replies: frame -> job ->
 * turnstile -> scheduler -> backend -> reply. pipeline_inside.h says which file does what.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: answered to the client; pipeline_create: RESOURCE_EXHAUSTED. */
#ifndef ENGRAM_REQUEST_PIPELINE_H
#define ENGRAM_REQUEST_PIPELINE_H

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/base/secret.h"
#include "daemon/exec/backend.h"
#include "daemon/exec/done.h"
#include "daemon/net/net.h"
#include "daemon/sched/cost.h"
#include "daemon/store/space.h"
#include "kernels/vectors.h"

struct journal_write;
struct pipeline;

/* All of it stays the caller's. */
struct pipeline_options {
    const struct config *config; /* its live keys may change: pipeline_configure */
    const struct clock *clock;   /* NULL: the real one */
    struct heap *heap;
    struct store *store; /* spaces may be there already */
    struct net *net;     /* may be initialised later */
    const struct vector_kernels *kernels;
    struct done *done; /* where the backends leave jobs */
    struct backend *cpu;
    struct backend *gpu; /* cards/cards.h; NULL: none */
    uint32_t worker_count;
    const struct secret *token; /* what Hello must carry; NULL: nothing */
    uint64_t instance;          /* of this daemon's life; 0: a random number */
    const struct config *asked; /* what file and command line say; NULL: what is in use */
    /* Sets a live setting (config_set_live), for `who`, and tells whom it concerns; NULL: none. */
    enum status (*set_setting)(void *owner, const char *name, const char *value, const char *who,
                               struct failure *f);
    /* Reads the file again, for `who`; NULL: none. On failure settings stay. */
    enum status (*reload_settings)(void *owner, const char *who, struct config_reload *out,
                                   struct failure *f);
    const struct config_reloads *reloads; /* NULL: none */
    void *settings_owner;
};

enum status pipeline_create(const struct pipeline_options *options, struct pipeline **out);
/* Every job must be back. NULL is fine. */
void pipeline_destroy(struct pipeline *p);

/* What net calls (net_events). */
struct net_events pipeline_net_events(struct pipeline *p);

/* Takes back finished jobs and queues their replies. */
void pipeline_collect(struct pipeline *p);
/* Once per turn of the loop: takes back finished jobs, starts queued ones. */
void pipeline_tick(struct pipeline *p);
/* True if jobs have come that want another pipeline_tick before the loop sleeps. */
bool pipeline_has_arrivals(const struct pipeline *p);
/* The time at which pipeline_tick wants to be called even if nothing happens; UINT64_MAX: never. */
uint64_t pipeline_wake_ns(const struct pipeline *p);

/* Every now and then: answers or stops jobs whose time is up. */
void pipeline_expire(struct pipeline *p, uint64_t now_ns);

/* Every now and then: looks at the memory in use, as observe.memory_s says. */
void pipeline_keep_memory(struct pipeline *p);

/* Now and then while nobody asks: looks after what is only kept. */
void pipeline_rest(struct pipeline *p);

/* The settings have changed. */
void pipeline_configure(struct pipeline *p);

/* Memory that was on its way back to the system is there: what was put off for it may start, and
 * bodies that wait for some are resumed. */
void pipeline_memory_freed(struct pipeline *p);

/* From now on new requests are refused as UNAVAILABLE. */
void pipeline_drain(struct pipeline *p);
/* The same for a successor (handover/hand_over.h), which clients are told of. */
void pipeline_restart(struct pipeline *p);
/* Answers all that is still in flight as UNAVAILABLE, as soon as it can be stopped. */
void pipeline_cut_off(struct pipeline *p);
/* Tells the successor the data's name and the remembered writes; takes them over: before the loop
 * runs. DATA_LOSS: what is told cannot be; RESOURCE_EXHAUSTED. */
struct catalogue_writer;
struct catalogue_reader;
void pipeline_tell(struct pipeline *p, struct catalogue_writer *w);
enum status pipeline_adopt(struct pipeline *p, struct catalogue_reader *r, struct state_name *state,
                           struct failure *f);
/* The backends are stopped: answers or frees every job that is left. */
void pipeline_abandon(struct pipeline *p);

/* Copies what out->kind names, of which HTTP makes its pages: some tens of microseconds. */
struct look;
void pipeline_look(struct pipeline *p, struct look *out);

struct pipeline_counts {
    uint32_t clients;  /* in flight, of clients alone */
    uint32_t jobs;     /* in flight, of clients and of the pipeline itself */
    uint32_t trials;   /* in flight, of calibration */
    uint32_t stopping; /* of both: those that end soon when told to stop, as no card has them */
    uint64_t requests; /* frames that have come so far, good or bad */
};
struct pipeline_counts pipeline_count(const struct pipeline *p);

/* What it saves to, and whose instance it has if data is kept; before the loop runs. */
struct persist;
void pipeline_set_persist(struct pipeline *p, struct persist *persist);
/* A write with a token that the journal has (persist_options.token; owner: the pipeline). */
enum status pipeline_know_token(void *owner, const struct journal_write *w, const float *weights,
                                struct failure *f);
/* The next save remembers what is remembered by tokens now. False: there is no memory to; then a
 * successor would not know them. */
bool pipeline_save_tokens(struct pipeline *p);

/* What the scheduler predicts by, for who learns and saves it. */
struct cost_model *pipeline_cost_model(struct pipeline *p);

#endif
