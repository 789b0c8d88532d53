#include "daemon/persist/token_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/frame.h"
#include "daemon/base/operations.h"

/* Both lie on 8 bytes, and so does what follows them. */
struct token_file_head {
    char magic[8], version[24];
};
struct token_file_record {
    char space[72]; /* zeros behind the name */
    uint64_t token[2], digest[2];
    uint64_t operation, body_bytes;
    uint64_t counts[6], rows, nodes, cursor, positions, version, versions[OPERATION_OBJECTS_MAX];
    double totals[2];
    uint64_t weight_count; /* behind it, in whole 8 bytes */
};
static const char magic[8] = "EATOKEN1";
_Static_assert(sizeof(struct token_file_head) % 8 == 0, "records are aligned");
_Static_assert(sizeof(struct token_file_record) % 8 == 0, "records are aligned");
enum { WEIGHTS_MAX = 1 << 20 };

void token_bytes_free(struct token_bytes *t)
{
    free(t->data);
    *t = (struct token_bytes){0};
}

static bool have_room(struct token_bytes *t, uint64_t bytes)
{
    if (t->bytes + bytes <= t->room) return true;
    uint64_t room = 2 * t->room + bytes + 4096;
    char *larger = fault_here("tokens: bytes") ? NULL : realloc(t->data, room);
    if (!larger) return false;
    t->data = larger;
    t->room = room;
    return true;
}

static void append(struct token_bytes *t, const void *data, uint64_t bytes)
{
    if (bytes) memcpy(t->data + t->bytes, data, bytes);
    t->bytes += bytes;
    while (t->bytes % 8)
        t->data[t->bytes++] = 0;
}

enum status token_bytes_add(struct token_bytes *t, const struct token_record *r)
{
    struct token_file_head head = {.version = ENGRAM_VERSION};
    struct token_file_record to = {.operation = r->operation,
                                   .body_bytes = r->body_bytes,
                                   .rows = r->result.rows,
                                   .nodes = r->result.nodes,
                                   .cursor = r->result.cursor,
                                   .positions = r->result.positions,
                                   .version = r->result.version,
                                   .weight_count = r->weights ? r->weight_count : 0};
    uint64_t weights = to.weight_count * sizeof(float);
    if (!have_room(t, sizeof head + sizeof to + weights + 8)) return STATUS_RESOURCE_EXHAUSTED;
    memcpy(head.magic, magic, sizeof magic);
    memcpy(to.space, r->space, strnlen(r->space, SPACE_NAME_MAX));
    memcpy(to.token, r->token, sizeof to.token);
    memcpy(to.digest, r->digest, sizeof to.digest);
    memcpy(to.counts, r->result.counts, sizeof to.counts);
    memcpy(to.totals, r->result.totals, sizeof to.totals);
    memcpy(to.versions, r->result.versions, sizeof to.versions);
    if (!t->bytes) append(t, &head, sizeof head);
    append(t, &to, sizeof to);
    append(t, r->weights, weights);
    return STATUS_OK;
}

/* ---------------------------------------------------------------- reading */

static enum status damaged(struct failure *f, uint64_t at, const char *why)
{
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED,
                       TOKEN_FILE_NAME ": byte %" PRIu64 ": %s", at, why);
}

static const char *find_wrong(const struct token_file_record *r, uint64_t left)
{
    char name[SPACE_NAME_MAX + 1], space[sizeof r->space];
    memcpy(space, r->space, sizeof space);
    size_t length = strnlen(space, sizeof space);
    if (length > SPACE_NAME_MAX) return "no space has such a name";
    for (size_t i = length; i < sizeof space; i++)
        if (space[i]) return "no space has such a name";
    if (space_name_parse(space, name, NULL) || strcmp(name, space) != 0)
        return "no space has such a name";
    const struct operation_row *row =
        r->operation < OPERATION_MAX ? operation_row((uint32_t)r->operation) : NULL;
    if (!row || !row->text || row->internal) return "there is no such operation";
    if (!r->token[0] && !r->token[1]) return "it has no token";
    if (!r->weight_count) return NULL;
    if (r->operation != OPERATION_GRAPH_ADD_WEIGHTS) return "such an answer has no weights";
    if (r->weight_count > WEIGHTS_MAX || r->weight_count * sizeof(float) > left)
        return "more weights than there are";
    return NULL;
}

enum status token_bytes_next(const struct token_bytes *t, uint64_t *at, struct token_record *out,
                             bool *more, struct failure *f)
{
    struct token_file_record r;
    *more = false;
    if (!*at && t->bytes) {
        if (t->bytes < sizeof(struct token_file_head) || memcmp(t->data, magic, sizeof magic) != 0)
            return damaged(f, 0, "not what a daemon writes");
        *at = sizeof(struct token_file_head);
    }
    if (*at == t->bytes) return STATUS_OK;
    uint64_t left = t->bytes - *at;
    if (left < sizeof r) return damaged(f, *at, "it is cut off");
    memcpy(&r, t->data + *at, sizeof r);
    const char *wrong = find_wrong(&r, left - sizeof r);
    if (wrong) return damaged(f, *at, wrong);
    *out = (struct token_record){.operation = (enum operation)r.operation,
                                 .body_bytes = r.body_bytes,
                                 .weight_count = r.weight_count,
                                 .result = {.rows = r.rows,
                                            .nodes = r.nodes,
                                            .cursor = r.cursor,
                                            .positions = r.positions,
                                            .version = r.version}};
    memcpy(out->space, r.space, sizeof out->space);
    memcpy(out->token, r.token, sizeof r.token);
    memcpy(out->digest, r.digest, sizeof r.digest);
    memcpy(out->result.counts, r.counts, sizeof r.counts);
    memcpy(out->result.totals, r.totals, sizeof r.totals);
    memcpy(out->result.versions, r.versions, sizeof r.versions);
    *at += sizeof r;
    if (r.weight_count) out->weights = (const float *)(t->data + *at);
    uint64_t weights = (r.weight_count * sizeof(float) + 7) / 8 * 8;
    if (weights > t->bytes - *at) return damaged(f, *at, "it is cut off");
    *at += weights;
    *more = true;
    return STATUS_OK;
}

enum status token_bytes_check(const struct token_bytes *t, struct failure *f)
{
    struct token_record r;
    uint64_t at = 0;
    bool more = true;
    enum status st = STATUS_OK;
    while (!st && more)
        st = token_bytes_next(t, &at, &r, &more, f);
    return st;
}

bool token_bytes_are_ours(const struct token_bytes *t)
{
    struct token_file_head head = {.version = ENGRAM_VERSION};
    if (!t->bytes) return true;
    return t->bytes >= sizeof head &&
           memcmp(t->data + sizeof magic, head.version, sizeof head.version) == 0;
}
