/* ration: how much of each peer is read in one turn of the loop. A peer that sends more stands in
 * line with the rest: its connections one behind the other, a few requests of each, and peers among
 * themselves likewise. So what anybody sends lengthens a turn by some tenths of a millisecond, and
 * who sends little is read in the next one. A connection of which a request was refused for want of
 * room stands aside while its peer has had more such refusals than time has paid for: reading and
 * refusing without end would take a processor from those who are served.
 * Of a peer that said several wrong tokens, connections without Hello are read one by one, in their
 * order, as seldom as time pays for wrong tokens; its others and other peers do not wait for that.
 * Owner:  net.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_NET_RATION_H
#define ENGRAM_NET_RATION_H

#include "daemon/net/connection.h"

enum {
    RATION_BYTES = 3 << 19,       /* of a peer in a turn, and of all that stand in line together */
    RATION_GOES = 12,             /* this part of it is a connection's before the next is called */
    RATION_FRAME_BYTES = 1 << 14, /* a request counts as so many bytes beside its own */
    RATION_ACCEPTS = 16,          /* connections that are accepted in a turn */

    RATION_REFUSAL_NS = 100000,  /* for each refusal of a peer so much time must pass */
    RATION_CREDIT_NS = 20000000, /* a peer may be ahead of that by so much */
    RATION_PAUSE_NS = 2000000,   /* who was ahead by more waits at least so long */

    RATION_GUESSES = 5, /* wrong tokens that a peer may say at once */
};
/* For each further one so much time must pass. */
#define RATION_GUESS_NS UINT64_C(1000000000)

/* Begins a turn: everybody has a ration again, those in line as far as it reaches. */
void ration_begin(struct net *n);
/* Takes the next connection that may be read in this turn out of the line. NULL: none. */
struct connection *ration_call(struct net *n);
/* When those in line are to be called again: 0: in the next turn; UINT64_MAX: nobody waits. */
uint64_t ration_wake_ns(const struct net *n);

/* True if more of c may be read in this turn. */
bool ration_allows(struct connection *c);
/* Counts what came of c. */
void ration_spend(struct connection *c, uint64_t bytes);
/* Puts c in line. It is not to be read until it is called. */
void ration_wait(struct connection *c);

#endif
