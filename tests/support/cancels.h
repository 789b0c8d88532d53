/* cancels: requests that are cancelled at any time.
 * Owner:  the caller's client. Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_CANCELS_H
#define ENGRAM_TESTS_CANCELS_H

#include "client/engram_accel.h"

/* Sends the i-th request, as ea_..._send does. */
typedef ea_status cancels_send(ea_client *c, unsigned i, const ea_send_options *how, uint64_t *id);

/* Sends so many requests one after the other, cancels each a random while later, and expects one
 * answer to each, and that some were cancelled. */
void cancels_expect(ea_client *c, unsigned times, cancels_send *send);

#endif
