/* decay: parses a decay law: "exponential:0.7", "power:1.5", "linear:0.2", "constant",
 * "table:0.9,0.5".
 * Owner:  nobody; pure functions into the caller's struct.
 * Thread: any.
 * Errors: false and one line in error; *out must not be used then. */
#ifndef ENGRAM_CLI_TEXT_DECAY_H
#define ENGRAM_CLI_TEXT_DECAY_H

#include "client/engram_accel.h"

#define DECAY_HOPS_MAX 100u

struct decay {
    ea_decay law;
    float parameter;
    uint32_t count;              /* of the table */
    float table[DECAY_HOPS_MAX]; /* f(1), f(2) ... */
};

bool decay_parse(const char *text, struct decay *out, char *error, size_t error_bytes);
/* Parses up to `max` numbers separated by commas, each within [0, the largest float32]. */
bool decay_parse_list(const char *text, float *out, uint32_t max, uint32_t *count);

#endif
