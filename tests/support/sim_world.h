/* sim_world: the scheduler on a virtual clock. Clients send, servers take their time, things go
 * wrong, all from one seed; every step goes into a trace, whose hash two equal runs share.
 * What must always hold is checked on the way (sim_check.c): a failure names the seed. */
#ifndef ENGRAM_TESTS_SIM_WORLD_H
#define ENGRAM_TESTS_SIM_WORLD_H

#include <stdio.h>

#include "daemon/sched/scheduler.h"

enum { SIM_TENANTS_MAX = 72, SIM_CLIENTS_MAX = 96, SIM_KEYS = 4, SIM_SERVERS = 3 };

/* What a run takes on an idle server: in ns, times a factor of up to 1 + noise either way. */
struct sim_truth {
    double fixed, per_row, per_pair; /* rows: read once, however many queries */
};

struct sim_range {
    uint64_t least, most; /* uniform in the logarithm */
};

struct sim_client {
    uint32_t tenant, key; /* key: SIM_KEYS: none, alone */
    struct sim_range queries, rows, k;
    uint32_t outstanding; /* requests at once */
    uint64_t requests;    /* to send, ever */
    uint64_t think_ns;
    bool random_key; /* each request its own */

    /* What came of them. */
    uint64_t sent, ended;
    uint64_t *latency_ns; /* of those done, sim_keep_latency */
    uint64_t latency_count, latency_room;
};

struct sim_settings {
    uint64_t seed;
    uint32_t tenants, clients, gpus;
    uint32_t weights[SIM_TENANTS_MAX];
    uint32_t principals[SIM_TENANTS_MAX]; /* whose a tenant is, from 1; 0: one of its own */
    uint32_t queue_max;
    struct sim_truth truth[2]; /* CPU, GPU; the model starts with these too */
    double noise, scramble;    /* scramble: the end of a run is told up to so many ns late */
    /* Probabilities. Of a dispatch: no memory for it, the GPU lets it down, gives it back unrun;
     * a split cannot be done. Of a request: cancelled, has a deadline, filter, no replica. */
    double put_back, let_down, give_back, no_split, cancel, deadline, filter, no_replica;
    uint64_t enqueue_ns;             /* from a dispatch until a card has its kernels */
    uint64_t gpu_up_ns, gpu_down_ns; /* about how long each lasts; 0: it never goes down */
    bool check;                      /* every rule, on the way */
    bool shared_keys;                /* all tenants have the same keys: nobody may mix them */
    FILE *trace;                     /* or NULL */
    struct scheduler_settings scheduler;
};

struct sim_event {
    uint64_t at_ns, number; /* equal times: in the order they were made */
    uint32_t kind, subject, generation;
};

enum sim_state { SIM_FREE, SIM_LINE, SIM_FLIGHT, SIM_SPLIT };

struct sim_job {
    struct ticket ticket; /* first: a ticket is its job */
    enum sim_state state;
    uint32_t generation; /* events of an earlier life are void */
    uint32_t client;
    uint32_t line;         /* the server in whose line it stands or last stood */
    struct sim_job *whole; /* of a part */
    uint32_t parts_left;
    bool cancelled;
    struct scheduler_run run; /* of a dispatch */
    enum scheduler_end end;
};

struct sim_world {
    struct sim_settings settings;
    struct scheduler scheduler;
    struct tenant *tenants[SIM_TENANTS_MAX];
    struct principal *principals[SIM_TENANTS_MAX]; /* NULL: not used */
    struct tenancy *tenancies[SIM_TENANTS_MAX];    /* each tenant's only one */
    char keys[SIM_TENANTS_MAX][SIM_KEYS];          /* their addresses are the keys */
    struct sim_client clients[SIM_CLIENTS_MAX];
    struct sim_job *jobs;
    uint32_t job_count, jobs_used;
    uint32_t *free_jobs, free_count;

    struct sim_event *events; /* a heap */
    uint32_t event_count, event_room;
    uint64_t event_number;

    uint64_t now_ns, random, hash;
    uint64_t free_at_ns[SIM_SERVERS], busy_ns[SIM_SERVERS];
    double slow[SIM_SERVERS]; /* times what the truth says; a test may change it any time */
    bool up[SIM_SERVERS];
    bool keep_latency;
    bool stalled; /* nothing starts until the next event: no memory */

    uint64_t sent, done, cancelled, refused, dispatches, put_backs, gave_up;
    uint64_t done_on[SIM_SERVERS];
    /* sim_check.c's. */
    uint64_t longest_ns, waited_most_ns, checks;
    uint64_t since_ns[SIM_TENANTS_MAX][SIM_SERVERS]; /* when that flow was last served */
    bool disturbed[SIM_TENANTS_MAX][SIM_SERVERS];    /* by something put back */
};

/* Clients are filled in before the first sim_run. */
struct sim_world *sim_open(const struct sim_settings *settings);
/* Nobody sends any more; what was sent ends, and is checked. */
void sim_close(struct sim_world *w);
/* Until that time or until nothing is left to happen. */
void sim_run(struct sim_world *w, uint64_t until_ns);

/* 0 .. below - 1; and 0 .. 1. */
uint64_t sim_random(struct sim_world *w, uint64_t below);
bool sim_chance(struct sim_world *w, double probability);

/* The q-th quantile (0..1) of what a client's requests took; sorts them. */
uint64_t sim_latency_ns(struct sim_client *c, double q);

/* Checks; all of them end the program with the seed when something is wrong. */
#define SIM_CHECK(w, what, ...)                         \
    do {                                                \
        if (!(what)) sim_fail((w), #what, __VA_ARGS__); \
    } while (0)
void sim_fail(const struct sim_world *w, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));
void sim_check_joined(struct sim_world *w, struct sim_job *j, bool was_empty);
void sim_check_dispatch(struct sim_world *w, const struct dispatch *d);
void sim_check_put_back(struct sim_world *w, struct sim_job *first);
void sim_check_resting(struct sim_world *w); /* nothing more starts now */
void sim_check_sums(struct sim_world *w);
void sim_check_end(struct sim_world *w); /* all requests were sent and ended */

#endif
