/* asks: many kNN requests of one collection, each unlike the others: what each gets alone, and
 * whether it gets the same, to the bit, when all come at once over many connections.
 * Owner:  the test; asks_make and asks_free pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_ASKS_H
#define ENGRAM_TESTS_ASKS_H

#include "client/engram_accel.h"
#include "tests/support/sets.h"

enum { ASK_TEXT = 160 };

struct ask {
    float *queries; /* of the set's; or its own, and one is NaN */
    uint64_t query_count;
    uint32_t k;
    ea_filter filter; /* of none, if both are NULL */
    void *filter_memory;
    bool bad, has_threshold;
    float threshold;
    uint32_t timeout_ms; /* 0: the client's */

    ea_status want_status; /* alone */
    ea_result want;
    char want_text[ASK_TEXT];

    ea_client *client; /* that it was sent with */
    uint64_t id;
    unsigned times; /* answered */
    ea_status status;
    uint32_t detail, retry_after_ms; /* of an error */
    bool right;                      /* OK, and every bit is as wanted */
    ea_meta meta;
    char text[ASK_TEXT];
};

struct asks {
    const struct set *set;
    struct ask *list;
    size_t count;
};

/* A set for them: cosine or whatever, ids that fit a bitmap. */
void asks_set(struct set *t, uint32_t dimension, int metric, size_t count);
/* Random k, thresholds, filters, one to eight queries each. */
struct asks *asks_make(const struct set *t, size_t count, uint64_t seed);
/* One kNN each of so many queries, nothing odd. */
struct asks *asks_make_plain(const struct set *t, size_t count, uint64_t queries, uint32_t k);
/* Query number of ask i is NaN. */
void asks_spoil(struct asks *a, size_t i, uint64_t number);
void asks_free(struct asks *a);

/* Asks one after the other, and compares what comes with the reference, for every `step`th (0: for
 * none). */
void asks_alone(struct asks *a, ea_client *c, size_t step);
/* Forgets what was answered. */
void asks_again(struct asks *a);

/* Asks go round the clients, which are connected. */
void asks_send(struct asks *a, ea_client *const *clients, size_t count);
/* The daemon stands still while they are sent, so that it finds them all at once. */
void asks_send_at_once(struct asks *a, const struct daemon_process *d, ea_client *const *clients,
                       size_t count);
/* Moves bytes for so long, or until nothing is left to come. Returns how many are left. */
size_t asks_pump(ea_client *const *clients, size_t count, int for_ms);
/* Until all have their answers; the test fails after 30 s. */
void asks_collect(ea_client *const *clients, size_t count);

/* All have been answered once, as wanted: right, or with the error that they got alone. */
void asks_expect(const struct asks *a, const char *context);
/* How many ran with others, and on that backend. */
size_t asks_batched(const struct asks *a);
size_t asks_on(const struct asks *a, ea_backend backend);
size_t asks_with(const struct asks *a, ea_status status);

/* Clients of one space, connected. */
void asks_connect(struct daemon_process *d, const char *space, ea_client **clients, size_t count);
void asks_disconnect(ea_client **clients, size_t count);

#endif
