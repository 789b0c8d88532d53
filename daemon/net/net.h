/* net: listeners, connections and their time limits. Turns socket bytes into frames and replies
 * into socket bytes; it does not know what they mean.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: net_listen: why a socket could not be bound, with text. A connection's errors close
 * it. */
#ifndef ENGRAM_NET_NET_H
#define ENGRAM_NET_NET_H

#include "daemon/base/handed_listener.h"
#include "daemon/net/net_state.h"

/* config and events remain the caller's; config's live keys may change. loop: as in struct net;
 * clock NULL: the real one. */
enum status net_init(struct net *n, uv_loop_t *loop, const struct clock *clock, struct heap *heap,
                     const struct config *config, const struct net_events *events);

/* Opens the sockets that the config names, or takes descriptor inherited_fd (>= 0; made by
 * systemd) in place of socket_path. A stale socket file is replaced; one that is in use is not. */
enum status net_listen(struct net *n, int inherited_fd, struct failure *f);

/* Listens on those of the sockets that the config names, too, before net_listen, which opens only
 * what is missing; they are this net's then. */
enum status net_listen_handed(struct net *n, struct handed_listeners *from, struct failure *f);
/* The files of such sockets are the other daemon's again, which goes on. */
void net_leave_handed(struct net *n);
/* Before net_drain: keeps the sockets open for a successor. What cannot be kept, it opens anew. */
void net_hand_listeners(struct net *n, struct handed_listeners *out);

/* Returns the TCP port in use, or 0. */
uint16_t net_tcp_port(const struct net *n);

/* Checks the time limits of all connections; the owner calls it every SWEEP_MS, or
 * SWEEP_QUIET_MS. What passed while the daemon stood still counts for nobody. */
void net_sweep(struct net *n);
/* In the callback of the timer that is swept by: sets its pace from the next turn on. quiet:
 * nothing goes on. */
void net_pace(uv_timer_t *timer, bool quiet);

/* Begins a turn of the loop: goes on with what was too much for the turns before (ration.h). */
void net_turn(struct net *n);
/* When the next such turn is to be: 0: at once; UINT64_MAX: nothing is left to do. */
uint64_t net_wake_ns(const struct net *n);

/* Writes the queued output and resumes paused connections. Runs once per turn of the loop. */
void net_flush(struct net *n);

/* Memory that was on its way back to the system is there: bodies that wait for some are resumed. */
void net_memory_freed(struct net *n);

/* Returns the connection with this id, or NULL if it is gone. */
struct connection *net_find(struct net *n, uint64_t id);

/* Stops listening. Connections without work and output close at once, the others when done. */
void net_drain(struct net *n);

/* Closes everything now. The loop must turn once more before net_finish. */
void net_close(struct net *n);
void net_finish(struct net *n);

#endif
