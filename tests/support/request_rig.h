/* request_rig: the pipeline on a clock that the test sets, over a CPU that the test plays: it takes
 * jobs, and the test says when they are done.
 * Owner:  the test; one rig a process, which ends with it.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_REQUEST_RIG_H
#define ENGRAM_TESTS_REQUEST_RIG_H

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/exec/done.h"
#include "daemon/net/connection.h"
#include "daemon/request/pipeline.h"
#include "daemon/store/space.h"

enum { RIG_DIMENSION = 16, RIG_SPACES_MAX = 2, RIG_TAKEN_MAX = 64, RIG_HEARD_BYTES = 4096 };

/* A space with a collection, a client of it, and what that was told. */
struct rig_space {
    struct space *space;
    struct tenancy *tenancy; /* of jobs that are no client's */
    struct collection *rows; /* empty */
    struct connection *client;
    unsigned char heard[RIG_HEARD_BYTES];
    size_t heard_bytes;
};

struct request_rig {
    struct config config;
    struct clock clock;
    uint64_t now_ns;
    struct net net;
    struct done done;
    struct backend cpu;
    struct pipeline *pipeline;
    struct rig_space spaces[RIG_SPACES_MAX];
    struct job *taken[RIG_TAKEN_MAX]; /* by the CPU, oldest first, and not done */
    uint32_t taken_count;
    uint64_t taken_total;
    bool cpu_refuses;
};

/* settings: "key=value" texts, NULL at the end (may be NULL). */
void request_rig_open(struct request_rig *r, const char *const *settings);
struct rig_space *request_rig_space(struct request_rig *r, const char *name);

/* A kNN of one query in that space, on its way into line. Nobody's: it ends without a reply.
 * deadline_ns: absolute; 0: none. */
struct job *request_rig_ask(struct request_rig *r, const struct rig_space *s, uint64_t deadline_ns,
                            bool writer);
/* The same of the space's client, within deadline_us of now. */
struct job *request_rig_ask_as(struct request_rig *r, struct rig_space *s, uint64_t request_id,
                               uint32_t deadline_us);
/* The same with these flags of its frame. */
struct job *request_rig_ask_with(struct request_rig *r, struct rig_space *s, uint64_t request_id,
                                 uint16_t flags);
/* A job that the CPU took is done, after it ran from started_ns until now. */
void request_rig_end(struct request_rig *r, struct job *j, uint64_t started_ns);

struct rig_error {
    uint64_t request_id;
    uint32_t code, detail;
};
/* Writes out what the client is told. Returns how many errors it has been told so far, the first
 * `most` of them in errors. Any other reply fails the test. */
uint32_t request_rig_hear(struct request_rig *r, struct rig_space *s, struct rig_error *errors,
                          uint32_t most);

#endif
