/* hand_over: from a daemon that stops to its successor: the file of the heap, a catalogue of what
 * lies where in it (base/catalogue.h), and the sockets that clients connect to.
 *
 * Two ways. On a Unix socket: the successor connects to the daemon's own socket and asks; that one
 * finishes its requests, closes its connections, and sends descriptors; the successor checks all of
 * it, claims it, and says when it serves. Through the service manager: a daemon that stops leaves
 * the files there, and the next one is started with them.
 *
 * The claim is a word in a third file that both have mapped. It is taken once: by the successor,
 * before it changes anything, or by the daemon, which then goes on. So whoever is slow, stopped or
 * dead, never do two daemons use one heap, and where one of them lives, one does.
 * Owner:  main, through the engine.
 * Thread: one.
 * Errors: with text. */
#ifndef ENGRAM_HANDOVER_HAND_OVER_H
#define ENGRAM_HANDOVER_HAND_OVER_H

#include "daemon/base/catalogue.h"
#include "daemon/base/handed_listener.h"

/* What a successor says first on a connection, in place of a frame. */
enum { HAND_OVER_ASK_BYTES = 32 };

struct hand_over {
    int heap_fd, catalogue_fd, claim_fd;
    int peer_fd;                  /* the other daemon; < 0: there is none */
    uint32_t *claim;              /* mapped */
    bool is_theirs;               /* the other daemon may still go on with the sockets' files */
    bool is_back;                 /* the successor failed: it is this daemon's own again */
    struct catalogue_reader from; /* what the successor has read so far */
    struct handed_listeners listeners;
};

/* Nothing is in it. */
void hand_over_init(struct hand_over *h);
/* Closes what is in it; sockets' files that nobody has taken are removed. */
void hand_over_close(struct hand_over *h);

/* ---- the daemon that stops ---- */

/* What a connection said is the question of a successor. */
bool hand_over_is_asked(const void *bytes);
/* Whether the process at the other end of fd may have the heap, and understands the catalogue.
 * Answers it; false: refused, and fd may be closed. */
bool hand_over_accept(int fd, const void *bytes, struct failure *f);
void hand_over_refuse(int fd, const char *why);
/* Makes the claim; h gets duplicates of the heap's descriptor. RESOURCE_EXHAUSTED. */
enum status hand_over_make(struct hand_over *h, int heap_fd, int catalogue_fd);
/* Sends all to the peer and waits until it serves; claim_ms: until it has claimed. False: it does
 * not and will not, f says why, and the heap is this process's as before. */
bool hand_over_give(struct hand_over *h, int claim_ms, struct failure *f);

/* ---- its successor ---- */

/* Asks the daemon at this socket, and waits until it has finished its requests.
 * FAILED_PRECONDITION: it refuses, and goes on; or that is no socket, or may not be used.
 * INVALID_ARGUMENT: no path of a socket. UNAVAILABLE: nobody is there, or it ended on the way. */
enum status hand_over_ask(const char *path, struct hand_over *out, struct failure *f);
/* The heap is this process's from now on. ABORTED: it is another's. */
enum status hand_over_claim(struct hand_over *h, struct failure *f);
/* Clients may come: the other daemon can end. Closes what is in h; sockets that this daemon has no
 * use for are nobody's, and their files are removed. */
void hand_over_serves(struct hand_over *h);
/* It will never serve, for this reason. */
void hand_over_gives_up(struct hand_over *h, const struct failure *why);

/* ---- through the service manager ---- */

enum { HAND_OVER_STORED = 3 };
/* The names of the descriptors there. */
extern const char *const hand_over_names[HAND_OVER_STORED];
/* Takes one of those that a daemon is started with. False: it is none of them. */
bool hand_over_take_stored(struct hand_over *h, const char *name, int fd);
/* True if all are there; maps the claim. */
bool hand_over_is_whole(struct hand_over *h);

#endif
