/* story: the whole daemon in one thread on a virtual clock: requests, scheduler, store, batches and
 * a CPU that runs jobs step by step, with clients that connect, ask, write, cancel, run out of time
 * and vanish. All chance comes from a seed, so that a story that goes wrong goes wrong again. Every
 * answer is compared with a plain model (story_model.h); what does not fit ends the process with
 * the seed.
 * Owner:  tests/sim; story_open and story_close pair.
 * Thread: one.
 * Errors: story_fail. */
#ifndef ENGRAM_TESTS_STORY_H
#define ENGRAM_TESTS_STORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/cards/cards.h"
#include "daemon/exec/backend.h"
#include "daemon/exec/done.h"
#include "daemon/net/connection.h"
#include "daemon/request/pipeline.h"
#include "tests/support/story_client.h"
#include "tests/support/story_model.h"

enum {
    STORY_CLIENTS_MAX = 6,
    STORY_SPACES = 2,
    STORY_PEERS = 3, /* users, of whom one is root */
    STORY_CARDS_MAX = 2,
    STORY_WORKERS_MAX = 3,
    STORY_UNITS_MAX = 1024, /* jobs that the CPU has at once */
};

/* What a seed decides before anything happens. */
struct story_settings {
    uint64_t seed, requests; /* requests: sent by all clients together */
    FILE *trace;             /* or NULL */
    uint32_t clients, workers;
    uint64_t memory_mib; /* the heap's bound */
    bool memory_short;   /* it may refuse */
    uint32_t queue_max;  /* quotas.queue; 0: none */
    uint32_t quota_mib;  /* quotas.host_mib; 0: none */
    bool reloads;        /* the settings change now and then */
    uint32_t ration;     /* bytes of a peer in a turn of the loop; 0: as ever */
    /* Chances, in 1/1000 of a client's actions. */
    uint32_t cancel, deadline, vanish, dribble, slow_read;
    uint64_t think_ns;
    uint32_t many;       /* requests of so many queries that they may run on both backends */
    uint32_t graphs;     /* requests that are about graphs, in 1/1000 */
    uint32_t attractors; /* of the others, those about attractors, in 1/1000 */
    uint32_t fault_nth;  /* this fallible step fails, once (base/fault.h); 0: none */
    bool calibrates;
    bool abrupt; /* it ends while requests are under way */
    uint32_t cards, vram_mib;
    uint32_t small_bytes;   /* for replicas, as its card says; 0: what it has */
    uint32_t device_faults; /* in 1/1000 of its processes' lives */
    uint32_t card_troubles; /* in 1/1000 of every 20 ms of a card */
    /* In 1/1000 of all steps a card writes nonsense wherever it may. What is answered then is not
     * looked at; the daemon has to live. */
    uint32_t scribbles;
};

struct story_event {
    uint64_t at_ns, number; /* equal times: in the order they were made */
    void (*happen)(struct story *s, void *subject);
    void *subject;
};

struct story_unit; /* story_cpu.c */
struct story_life; /* story_card.c */

/* A GPU: its supervision, and the process that it has now, if any. */
struct story_card {
    struct story *story;
    uint32_t number;
    struct gpu_process *process;
    struct story_life *life;
    uint64_t slow; /* times as slow as it could be */
    bool turns, timer_set;
    uint64_t turn_ns, timer_ns, timer_repeat_ns;
};

struct story {
    struct story_settings settings;
    uint64_t random, now_ns, hash;
    struct clock clock;
    struct story_event *events; /* a heap */
    uint32_t event_count, event_room;
    uint64_t event_number, swept_ns;

    struct config config;
    struct net net;
    struct net_events behind; /* the pipeline's */
    struct heap *heap;
    struct store *store;
    struct done done;
    struct pipeline *pipeline;
    struct backend cpu, *gpu;
    struct model_keeper *keeper; /* NULL: no calibration */
    struct calibrate *calibrate;
    struct story_card cards[STORY_CARDS_MAX];
    bool over;          /* the daemon stops */
    bool bytes_limited; /* a space has, or had, a quota of memory */
    const char *fault;  /* the step that failed; NULL: none, or it still may */
    struct story_unit *units[STORY_UNITS_MAX];
    uint32_t unit_count;
    bool worker_busy[STORY_WORKERS_MAX];

    struct story_model model;
    struct story_client clients[STORY_CLIENTS_MAX];
    struct story_request *all; /* requests ever, for those whose clients are gone */
    struct heap *twin_heap;    /* of graphs that spreads are compared with */
    struct store *twins;
    struct space *twin_space;
    uint64_t sent, answered, errors, vanished, seq;
    uint64_t by_code[17], by_backend[4]; /* answers */
    uint64_t bound;                      /* binds that cards answered */
    uint64_t by_codes;                   /* kNN that cards answered without the rows */
    uint64_t similar;            /* spreads in which similarity took the place of a weight */
    uint64_t recalled;           /* recalls that brought something back */
    uint64_t completed, settled; /* states, by the modern rule and by the engine's */
    uint64_t learned;            /* patterns */
    uint64_t clustered;          /* rows, or covered */
    uint64_t told;               /* how far requests are */
};

/* ---- story.c ---- */
struct story *story_open(const struct story_settings *settings);
/* Until every request was sent, and answered or given up by its client. */
void story_run(struct story *s);
/* The next thing that happens, whatever it is, and what follows from it at once. */
void story_step(struct story *s);
/* Nothing may be left. Returns the digest of all that happened. */
uint64_t story_close(struct story *s);

void story_at(struct story *s, uint64_t at_ns, void (*happen)(struct story *s, void *subject),
              void *subject);
/* 0 .. below - 1. */
uint64_t story_random(struct story *s, uint64_t below);
/* With that many chances in a thousand. */
bool story_chance(struct story *s, uint32_t permille);
/* About ns: between a tenth and twice as much. */
uint64_t story_about(struct story *s, uint64_t ns);
void story_note(struct story *s, const char *what, uint64_t a, uint64_t b);
void story_hash(struct story *s, const void *bytes, uint64_t count);
void story_fail(const struct story *s, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
#define STORY_CHECK(s, what, ...)                  \
    do {                                           \
        if (!(what)) story_fail((s), __VA_ARGS__); \
    } while (0)

/* ---- story_settings.c ---- */
void story_settings_open(struct story *s);
void story_reload_now_and_then(struct story *s);

/* ---- story_cpu.c ---- */
void story_cpu_open(struct story *s);
uint32_t story_cpu_jobs(const struct story *s);

/* ---- story_card.c ---- */
void story_cards_open(struct story *s);
/* After every turn of the daemon: whether they have got orders. */
void story_cards_look(struct story *s);

/* ---- story_scribble.c ---- */
void story_scribble(struct story *s);

#endif
