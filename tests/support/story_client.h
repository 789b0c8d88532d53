/* story_client: a client of a story: its connection, the bytes under way, and what it has asked.
 * Owner:  the story.
 * Thread: one.
 * Errors: story_fail. */
#ifndef ENGRAM_TESTS_STORY_CLIENT_H
#define ENGRAM_TESTS_STORY_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/net/connection.h"

struct story;
struct story_request;

struct story_client {
    struct story *story;
    uint32_t number, space;
    uint32_t uid;                  /* who it is */
    struct connection *connection; /* NULL: not connected */
    uint64_t connection_id;
    bool greeted; /* its Hello was answered */
    bool reading; /* the daemon wants its bytes */
    bool deaf;    /* takes no replies now */
    bool closing; /* the daemon closed it, */
    bool leaving; /* for the client did */
    bool due;     /* a delivery is coming */
    uint64_t next_id;
    char *out; /* bytes that are not delivered yet */
    uint64_t out_count, out_room;
    char *in; /* replies, not yet a whole frame */
    uint64_t in_count, in_room;
    uv_buf_t late[64]; /* a write that the daemon waits for */
    unsigned late_count;
    struct story_request *requests; /* unanswered, newest first */
    uint32_t open;
};

/* ---- story_wire.c: bytes between clients and connections ---- */
void story_connect(struct story_client *c);
void story_vanish(struct story_client *c);
/* Bytes of requests, to be delivered. */
void story_send(struct story_client *c, const void *bytes, uint64_t count);
void story_deliver_soon(struct story_client *c);
void story_hear_again(struct story_client *c);

/* ---- story_clients.c: what clients do ---- */
void story_clients_open(struct story *s);
/* Whole frames came. */
void story_client_reads(struct story_client *c);
/* The connection is gone; what was asked will not be answered. */
void story_client_lost(struct story_client *c);
struct story_request *story_request_of(struct story *s, uint64_t connection, uint64_t id);
/* The daemon is about to look at that request, and has looked at it. */
void story_admitting(struct story *s, struct story_request *r);
void story_admitted(struct story *s, struct story_request *r);
/* A backend is through with j, which writes. */
void story_wrote(struct story *s, const struct job *j);

#endif
