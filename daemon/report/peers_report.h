/* peers_report: what Stats says of peers. Nobody sees another: an operator (root, the daemon's
 * user) has a row for each, as far as there is room, and anyone else one for itself.
 * Owner:  whoever answers.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_PEERS_REPORT_H
#define ENGRAM_REPORT_PEERS_REPORT_H

#include "daemon/net/peer.h"
#include "daemon/wire/report.h"

/* Fills in out->peers, peer_count and peers_left_out: the asking one first, then the busiest. */
void peers_report(const struct peers *peers, const struct peer *asking, struct wire_stats *out);

#endif
