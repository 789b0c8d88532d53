/* peer: who is at the other end of connections: a user of this machine on a Unix socket, a network
 * address on TCP. Spaces and connections can be invented, peers cannot.
 * Owner:  net's table. A connection counts in its peer; one that has nothing is forgotten.
 * Thread: the loop.
 * Errors: peers_find: NULL, no memory. */
#ifndef ENGRAM_NET_PEER_H
#define ENGRAM_NET_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct connection;
struct principal;

enum { PEER_CHAINS = 256 };
enum peer_kind { PEER_UNKNOWN = 0, PEER_USER = 1, PEER_ADDRESS = 2 };

struct peer_key {
    uint8_t kind;      /* enum peer_kind */
    uint8_t prefix;    /* of an address: how many bytes of it count */
    uint8_t bytes[16]; /* a user's number, or an address; zeros behind it */
};

/* Connections in line; linked by ration_next. */
struct waiting {
    struct connection *first, *last;
};

struct peer {
    struct peer_key key;
    char name[56];    /* "uid 1000", "127.0.0.0/8", for the log and replies to itself */
    bool is_operator; /* root, or the user that the daemon runs as */
    uint32_t connections;
    uint64_t body_bytes; /* of large bodies, received or held by requests */
    uint64_t refused_connections, refused_bodies;
    uint64_t body_round; /* private to large_body.c */

    /* private to ration.c */
    struct waiting waiting, refused; /* to be read in a later turn; when refusals are paid for */
    uint64_t refusals_until_ns;      /* until when time has to pass for them */
    bool stands_aside;               /* its connections that were refused are not read */
    struct waiting strangers;        /* without Hello, when guesses are paid for */
    uint64_t guesses_until_ns;       /* until when time has to pass for wrong tokens */
    uint64_t stranger_ns;            /* from when on the next of them is read in any case */
    uint64_t turn, passed;           /* the turn that turn_left is of; in which its turn was over */
    uint32_t turn_left;              /* bytes that may be read in it */
    bool is_behind;                  /* in net's list of those of which connections wait */
    struct peer *behind_next, *behind_previous;

    uint64_t logged_ns;          /* when its minute of log lines began; 0: it has caused none */
    uint32_t log_lines;          /* in that minute */
    uint32_t log_left_out;       /* the rest of them */
    struct principal *principal; /* NULL, or made and destroyed by the pipeline */
    struct peer *next;           /* in its chain */
};

struct peers {
    struct peer *chains[PEER_CHAINS];
    uint32_t operator_uid; /* the daemon's */
};

struct peer_key peer_key_of_user(uint32_t uid);
/* Any address of 127.0.0.0/8 is one peer, since any local process may take any of them; of IPv6
 * the first 64 bits count, since whoever has one such address has all. */
struct peer_key peer_key_of_address(const struct sockaddr *address);

void peers_init(struct peers *p);
void peers_finish(struct peers *p);
/* Finds or makes a peer. */
struct peer *peers_find(struct peers *p, const struct peer_key *key);
/* Counts a line that is to be logged because of p. False: it had lines_max in this minute. */
bool peer_may_log(struct peer *p, uint32_t lines_max, uint64_t now_ns);
/* Logs how many lines were left out, once their minute is over, and forgets the peers that have
 * nothing and of which the owner, if it is asked (forget is not NULL), says that it has nothing
 * either. */
void peers_sweep(struct peers *p, bool (*forget)(void *owner, struct peer *peer), void *owner,
                 uint64_t now_ns);

#endif
