#include <stdlib.h>
#include <string.h>

#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "daemon/store/space.h"
#include "tests/support/story.h"
#include "tests/support/story_complete.h"

#define AGAIN_NS UINT64_C(300000)

/* ---------------------------------------------------------------- what they do */

static void act(struct story *s, void *subject);

static void act_later(struct story_client *c, uint64_t ns)
{
    story_at(c->story, c->story->now_ns + story_about(c->story, ns), act, c);
}

static struct story_request *any_open(struct story_client *c)
{
    uint64_t n = c->open ? story_random(c->story, c->open) : 0;
    struct story_request *r = c->requests;
    while (r && n--)
        r = r->next;
    return r;
}

static void act(struct story *s, void *subject)
{
    struct story_client *c = subject;
    if (s->sent >= s->settings.requests) return;
    if (c->closing) {
        act_later(c, AGAIN_NS);
    } else if (!c->connection) {
        story_connect(c);
        act_later(c, AGAIN_NS);
    } else if (!c->greeted) {
        act_later(c, AGAIN_NS);
    } else if (story_chance(s, s->settings.vanish)) {
        story_note(s, "vanish", c->number, c->open);
        story_vanish(c);
        act_later(c, AGAIN_NS);
    } else if (c->open && story_chance(s, s->settings.cancel)) {
        story_ask_cancel(c, any_open(c));
        act_later(c, s->settings.think_ns);
    } else {
        uint32_t burst = story_chance(s, 100) ? 12 : 1;
        while (burst-- && c->open < 40 && s->sent < s->settings.requests)
            story_ask(c);
        act_later(c, s->settings.think_ns);
    }
}

void story_clients_open(struct story *s)
{
    for (uint32_t i = 0; i < s->settings.clients; i++) {
        struct story_client *c = &s->clients[i];
        c->story = s;
        c->number = i;
        c->space = (uint32_t)story_random(s, STORY_SPACES);
        c->uid = (uint32_t)story_random(s, STORY_PEERS);
        c->next_id = 1;
        act_later(c, AGAIN_NS);
    }
}

/* ---------------------------------------------------------------- what comes back */

static struct story_request *find_open(struct story_client *c, uint64_t id)
{
    for (struct story_request *r = c->requests; r; r = r->next)
        if (r->id == id) return r;
    return NULL;
}

static void close_request(struct story_client *c, struct story_request *r)
{
    struct story_request **at = &c->requests;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    c->open--;
}

static void take_reply(struct story_client *c, const struct frame_header *h, const char *frame)
{
    struct story *s = c->story;
    struct story_reply reply = {h, frame + FRAME_HEADER_BYTES, frame + frame_body_offset(h)};
    struct story_request *r = find_open(c, h->request_id);
    STORY_CHECK(s, r, "client %u: an answer to nobody's request %llu", c->number,
                (unsigned long long)h->request_id);
    story_note(s, "reply", c->number, h->request_id);
    if (h->kind != OPERATION_HELLO && h->kind != OPERATION_INFO)
        story_hash(s, frame, frame_body_offset(h) + h->body_bytes);
    r->answered = true;
    close_request(c, r);
    if (r->operation == OPERATION_HELLO) c->greeted = !(h->flags & FRAME_FLAG_ERROR);
    s->answered++;
    if (!s->settings.scribbles) story_check(s, r, &reply);
    if (r->resident && !(h->flags & FRAME_FLAG_ERROR)) story_acknowledge(s, r);
}

/* Only of who asks, and only before the reply. */
static void take_progress(struct story_client *c, const struct frame_header *h)
{
    const struct story_request *r = find_open(c, h->request_id);
    STORY_CHECK(c->story, r && r->watched && !h->body_bytes && h->kind == (uint8_t)r->operation,
                "client %u: it is told of request %llu", c->number,
                (unsigned long long)h->request_id);
    story_note(c->story, "progress", c->number, h->request_id);
    c->story->told++;
}

void story_client_reads(struct story_client *c)
{
    while (c->in_count >= FRAME_HEADER_BYTES) {
        uint64_t words[4];
        memcpy(words, c->in, sizeof words);
        struct frame_header h = {.kind = (uint8_t)(words[0] >> 40),
                                 .flags = (uint16_t)(words[0] >> 48),
                                 .request_id = words[1],
                                 .message_bytes = (uint32_t)words[2],
                                 .body_bytes = words[3]};
        STORY_CHECK(c->story, (uint32_t)words[0] == FRAME_MAGIC && h.flags & FRAME_FLAG_REPLY,
                    "client %u: no reply's header", c->number);
        uint64_t whole = frame_body_offset(&h) + h.body_bytes;
        if (c->in_count < whole) return;
        if (h.flags & FRAME_FLAG_PROGRESS)
            take_progress(c, &h);
        else
            take_reply(c, &h, c->in);
        memmove(c->in, c->in + whole, c->in_count - whole);
        c->in_count -= whole;
    }
}

void story_client_lost(struct story_client *c)
{
    struct story *s = c->story;
    STORY_CHECK(s, c->leaving || s->settings.memory_short,
                "client %u: the daemon closes its connection", c->number);
    c->leaving = false;
    for (struct story_request *r = c->requests; r; r = r->next)
        r->gone = true;
    s->vanished += c->open;
    c->requests = NULL;
    c->open = 0;
}

/* ---------------------------------------------------------------- what the daemon does */

struct story_request *story_request_of(struct story *s, uint64_t connection, uint64_t id)
{
    for (struct story_request *r = s->all; r; r = r->all_next)
        if (r->connection == connection && r->id == id) return r;
    return NULL;
}

/* NULL: nobody uses it, and there is nothing in it. */
static struct space *find_space(struct story *s, uint32_t number)
{
    struct space *found = store_space_next(s->store, NULL);
    while (found && strcmp(found->name, story_space_name(number)) != 0)
        found = store_space_next(s->store, found);
    return found;
}

/* The connection of r says nothing about it: what could not be answered may have been done.
 * *version: of the collection, graph or attractor. */
static bool is_stored(struct story *s, const struct story_request *r, uint64_t *version)
{
    struct space *space = find_space(s, r->client->space);
    struct failure f;
    struct collection *found;
    struct graph *graph;
    struct attractor *attractor;
    const char *name = story_name(r->name);
    if (!space) return false;
    if (r->name >= STORY_ATTRACTOR) {
        if (store_attractor_find(s->store, space, name, &f, &attractor)) return false;
        *version = attractor_info(attractor).version;
        return true;
    }
    if (r->name >= STORY_GRAPH) {
        if (store_graph_find(s->store, space, name, &f, &graph)) return false;
        *version = graph_info(graph).version;
        return true;
    }
    if (store_collection_find(s->store, space, name, &f, &found)) return false;
    *version = collection_version(collection_now(found));
    return true;
}

void story_admitting(struct story *s, struct story_request *r)
{
    STORY_CHECK(s, !r->admitted, "a request is looked at twice");
    r->admitted = true;
    r->seq = ++s->seq;
    story_note(s, "admit", r->operation, r->id);
    const struct story_request *done = story_done(r);
    r->done_before = done && done->answered;
    if (r->name != STORY_NAMES) r->resident = story_find(s, r->client->space, r->name);
    if (r->resident) r->known = r->resident->known;
    if (r->operation == OPERATION_BIND || r->embedded) story_reads_admitting(s, r);
}

void story_admitted(struct story *s, struct story_request *r)
{
    if (r->name == STORY_NAMES) return;
    uint64_t version;
    if (story_creates(r) && !r->resident && is_stored(s, r, &version)) {
        STORY_CHECK(s, !story_done(r), "a create is done twice");
        if (r->token) *(r->first ? &r->first->done : &r->done) = r;
        story_create(s, r->client->space, r->name, version);
        r->made = true;
    }
    if (story_drops(r) && r->resident && !is_stored(s, r, &version)) {
        r->resident->dropped = true;
        r->made = true;
    }
}

void story_wrote(struct story *s, const struct job *j)
{
    struct story_request *r = story_request_of(s, j->key.connection, j->key.request_id);
    bool unknown = !r || r->operation == OPERATION_BIND || r->embedded || story_drops(r);
    if (s->settings.scribbles && unknown) return;
    STORY_CHECK(s, r && r->resident, "a write that nobody asked for");
    if (j->failure.code || atomic_load(&j->skipped)) return;
    STORY_CHECK(s, !story_done(r), "a write is done twice");
    if (r->token) *(r->first ? &r->first->done : &r->done) = r;
    if (story_drops(r)) {
        STORY_CHECK(s, j->result.counts[0] == r->resident->last->count, "a drop of %llu rows",
                    (unsigned long long)j->result.counts[0]);
        r->applied = true;
        return;
    }
    if (r->operation == OPERATION_BIND) story_bind_wrote(s, r, j);
    if (r->name >= STORY_ATTRACTOR)
        story_attractor_wrote(s, r, j);
    else if (r->name >= STORY_GRAPH)
        story_apply_graph(s, r, j->result.version);
    else
        story_apply(s, r, j->result.version);
}
