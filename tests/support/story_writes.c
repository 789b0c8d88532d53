/* What writes of a story expect, and their repetitions. */
#include <pb_encode.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/story_draft.h"

enum { FRAME_MAX = DRAFT_BODY_MAX + 8192 };
enum { FIELD_WRITE = 15 };

/* What r expects, and its token, behind what else it says. */
void draft_append_write(pb_ostream_t *stream, const struct story_request *r)
{
    const engram_accel_v1_WriteOptions m = {
        .version = r->expected, .at_least = r->at_least, .token_high = r->token};
    if (!r->expected && !r->token) return;
    if (!pb_encode_tag(stream, PB_WT_STRING, FIELD_WRITE) ||
        !pb_encode_submessage(stream, engram_accel_v1_WriteOptions_fields, &m))
        abort();
}

void draft_frame(struct story_client *c, const struct story_request *r, uint8_t kind,
                 uint32_t deadline_us)
{
    static char frame[FRAME_MAX];
    struct frame_header h = {.kind = kind,
                             .flags = r->watched ? FRAME_FLAG_PROGRESS : 0,
                             .request_id = r->id,
                             .message_bytes = (uint32_t)r->message_bytes,
                             .deadline_us = deadline_us,
                             .body_bytes = r->body_bytes};
    frame_write(&h, frame);
    uint64_t head = frame_body_offset(&h);
    memset(frame + FRAME_HEADER_BYTES, 0, head - FRAME_HEADER_BYTES);
    if (h.message_bytes) memcpy(frame + FRAME_HEADER_BYTES, r->message, h.message_bytes);
    if (h.body_bytes) memcpy(frame + head, r->body, h.body_bytes);
    story_note(c->story, "send", kind, r->id);
    story_send(c, frame, head + h.body_bytes);
}

static bool writes(const struct story_request *r)
{
    const struct operation_row *row = operation_row(r->operation);
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++)
        if (!row->answered && row->objects[i].access != ACCESS_READ) return true;
    return story_creates(r);
}

void story_choose_write(struct story *s, struct story_request *r)
{
    const struct story_collection *found = story_find(s, r->client->space, r->name);
    if (r->name == STORY_NAMES || r->operation == OPERATION_CLUSTER || !writes(r)) return;
    if (story_chance(s, 250)) r->token = ++s->model.tokens;
    if (story_creates(r) || !found || !story_chance(s, 200)) return;
    const struct story_state *state = found->last;
    if (state->before && story_chance(s, 200)) state = state->before;
    r->expected = story_chance(s, 30) ? STORY_NEVER : state->version;
    r->at_least = story_chance(s, 300);
}

struct story_request *story_choose_first(struct story_client *c)
{
    struct story_request *found = NULL;
    uint64_t seen = 0;
    for (struct story_request *r = c->story->all; r; r = r->all_next)
        if (r->token && !r->first && r->client->space == c->space &&
            !story_random(c->story, ++seen))
            found = r;
    return found;
}

void story_repeat(struct story_client *c, struct story_request *r, struct story_request *first)
{
    const struct story_request own = *r;
    *r = *first;
    r->client = own.client;
    r->connection = own.connection;
    r->id = own.id;
    r->sent_ns = own.sent_ns;
    r->deadline_ns = 0;
    r->next = own.next;
    r->all_next = own.all_next;
    r->cancelled = r->gone = r->admitted = r->applied = r->answered = r->made = false;
    r->seq = r->version = r->rows_after = r->edges_after = 0;
    r->resident = NULL;
    memset(r->counts, 0, sizeof r->counts);
    if (r->sums) r->sums = story_take(c->story, r->id_count * 4);
    r->first = first;
    r->done = NULL;
    c->story->sent++;
    draft_frame(c, r, (uint8_t)r->operation, 0);
}
