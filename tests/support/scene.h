/* scene: a daemon, a well-behaved witness whose answers must stay right, and what the daemon held
 * before anything bad happened to it. Integration tests play out in one.
 * Owner:  the test; scene_open and scene_close pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_SCENE_H
#define ENGRAM_TESTS_SCENE_H

#include "client/engram_accel.h"
#include "tests/support/daemon_process.h"
#include "tests/support/sample_requests.h"

enum {
    WITNESS_ROWS = 64,
    WITNESS_DIMENSION = 8,
    SCENE_GROWTH_KIB = 3072, /* resident memory that may stay behind: a few pools */
    GIVE_UP_MS = 300000,     /* that late nothing comes any more: for clients, too */
};

struct scene {
    struct daemon_process daemon;
    ea_client *witness; /* space "witness", collection "facts" */
    float rows[WITNESS_ROWS * WITNESS_DIMENSION];
    uint64_t ids[WITNESS_ROWS];
    size_t descriptors, resident_kib;
    uint64_t memory_used;
};

/* settings as for daemon_start; caches are kept small so that memory can be watched. */
void scene_open(struct scene *s, const char *const *settings);
/* The witness asks and compares every bit with the reference. */
void scene_check(struct scene *s);
/* Waits for descriptors, blocks and resident memory to be back where scene_open saw them, then
 * checks the witness. */
void scene_settle(struct scene *s);
/* Settles, stops the daemon; its exit code must be 0. */
void scene_close(struct scene *s);

/* A time that the daemon is given, longer under a sanitizer. */
int scaled_ms(int ms);
void wait_ms(int ms);
int64_t now_ms(void);
/* When a wait for what must come is given up: in minutes. It only ends a broken run. */
int64_t give_up_ms(void);
/* Returns once the log has a line with text. */
void wait_logged(const struct daemon_process *d, const char *text);

/* ---- a raw connection in that scene ---- */

/* Connected and greeted; space "hostile". */
int scene_connect(const struct scene *s);
/* Creates collection "rows" (4 columns, cosine) with ids 1..5 in space "hostile". */
void scene_make_rows(const struct scene *s);

struct wire_error {
    uint8_t kind;
    uint64_t request_id;
    uint32_t code, detail, retry_after_ms;
    bool retryable;
    char text[256];
};
/* The next frame, which must be an Error. */
struct wire_error receive_error(int fd);
/* The same, and it must have this code and detail, answer this request, and mention word. */
void expect_error(int fd, uint64_t request_id, uint32_t code, uint32_t detail, const char *word);
/* The next frame is a reply to this request, and no error. */
void expect_reply(int fd, uint64_t request_id);
/* The connection still answers. */
void expect_alive(int fd);
/* The daemon closes; bytes before that are skipped. */
void expect_closed(int fd);
/* Sends a sample as request_id. */
void send_sample(int fd, const struct sample *s, uint64_t request_id);

#endif
