/* data_place: a daemon with some data of two kinds, and what must be the same wherever they are.
 * Owner:  the test. Thread: one. Errors: fail the test. */
#ifndef ENGRAM_TESTS_DATA_PLACE_H
#define ENGRAM_TESTS_DATA_PLACE_H

#include "client/engram_accel.h"
#include "tests/support/daemon_process.h"

enum { PLACE_D = 32, PLACE_ROWS = 40000, PLACE_NODES = 300, PLACE_EDGES = 3000, PLACE_ASKS = 24 };

struct data_state {
    uint64_t instance, generation, bits;
};

struct data_place {
    char folder[64], setting[96];
    const char *settings[6];
    struct daemon_process daemon;
    ea_client *client;
    float *rows;
};

ea_client *place_client(const struct data_place *p);
/* more: one setting more, or NULL. */
void place_open(struct data_place *p, const char *more);
void place_close(struct data_place *p);
/* Deletes a row with a token, so that the write can be repeated later. */
void place_delete_tagged(const struct data_place *p, uint64_t id, ea_status want);
void place_fill(const struct data_place *p);
/* Whose the data are, and the bits of some answers with the versions. */
struct data_state place_look(const struct data_place *p);
void place_expect(const struct data_place *p, const struct data_state *want);
void place_close_all(const int *fds, int count);
/* Returns once the log has that text so many times. */
void place_wait_logged(const struct data_place *p, const char *text, int times);

#endif
