#include "daemon/persist/journal_format.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <xxhash.h>

#define HEAD_MAGIC UINT64_C(0x4c4e524a4d524745) /* EGRMJRNL */
enum { RECORD_MAGIC = 0x52434552 };             /* RECR */
#define TENSOR_ROWS_MAX (UINT64_C(1) << 36)
enum { TENSOR_COLUMNS_MAX = 1 << 16 };

/* ---------------------------------------------------------------- heads */

struct head_bytes {
    uint64_t magic;
    uint32_t format, flags; /* 1: always; 2: broken */
    uint64_t number, snapshot, snapshot_instance, snapshot_generation;
    uint64_t instance, generation, sequence, salt, previous;
    uint64_t zeros[4];
    uint64_t sum; /* of all before it */
};
_Static_assert(sizeof(struct head_bytes) == JOURNAL_HEAD_BYTES, "as on the disk");

void journal_head_print(const struct journal_head *head, uint8_t out[JOURNAL_HEAD_BYTES])
{
    struct head_bytes h = {
        .magic = HEAD_MAGIC,
        .format = JOURNAL_FORMAT,
        .flags = (head->always ? 1u : 0u) | (head->broken ? 2u : 0u),
        .number = head->number,
        .snapshot = head->snapshot,
        .snapshot_instance = head->snapshot_instance,
        .snapshot_generation = head->snapshot_generation,
        .instance = head->instance,
        .generation = head->generation,
        .sequence = head->sequence,
        .salt = head->salt,
        .previous = head->previous,
    };
    h.sum = XXH3_64bits(&h, offsetof(struct head_bytes, sum));
    memcpy(out, &h, sizeof h);
}

static enum status refuse_head(struct failure *f, const char *why)
{
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s", why);
}

static bool are_zeros(const uint64_t *words, size_t count)
{
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++)
        all |= words[i];
    return !all;
}

enum status journal_head_parse(const uint8_t bytes[JOURNAL_HEAD_BYTES], struct journal_head *out,
                               struct failure *f)
{
    struct head_bytes h;
    memcpy(&h, bytes, sizeof h);
    if (h.magic != HEAD_MAGIC) return refuse_head(f, "no journal begins like this");
    if (h.sum != XXH3_64bits(&h, offsetof(struct head_bytes, sum)))
        return refuse_head(f, "its head is damaged");
    if (h.format != JOURNAL_FORMAT)
        return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_BAD_VERSION,
                           "a journal of format %" PRIu32 ", this daemon reads format %d", h.format,
                           JOURNAL_FORMAT);
    if (!h.salt || h.flags > 3 || !h.sequence || !h.number ||
        !are_zeros(h.zeros, sizeof h.zeros / sizeof h.zeros[0]))
        return refuse_head(f, "no daemon writes such a head");
    *out = (struct journal_head){
        .number = h.number,
        .snapshot = h.snapshot,
        .snapshot_instance = h.snapshot_instance,
        .snapshot_generation = h.snapshot_generation,
        .instance = h.instance,
        .generation = h.generation,
        .sequence = h.sequence,
        .salt = h.salt,
        .previous = h.previous,
        .always = h.flags & 1,
        .broken = h.flags & 2,
    };
    return STATUS_OK;
}

/* ---------------------------------------------------------------- records */

struct record_bytes {
    uint32_t magic;
    uint16_t format, kind;
    uint64_t bytes, sequence, synced, sum;
    uint64_t zeros[2];
    uint64_t head_sum; /* of all before it, seeded */
};
_Static_assert(sizeof(struct record_bytes) == JOURNAL_RECORD_BYTES, "as on the disk");

void journal_record_print(const struct journal_record *r, uint64_t salt,
                          uint8_t out[JOURNAL_RECORD_BYTES])
{
    struct record_bytes b = {
        .magic = RECORD_MAGIC,
        .format = JOURNAL_FORMAT,
        .kind = (uint16_t)r->kind,
        .bytes = r->bytes,
        .sequence = r->sequence,
        .synced = r->synced,
        .sum = r->sum,
    };
    b.head_sum = XXH3_64bits_withSeed(&b, offsetof(struct record_bytes, head_sum), salt);
    memcpy(out, &b, sizeof b);
}

bool journal_record_parse(const uint8_t bytes[JOURNAL_RECORD_BYTES], uint64_t salt,
                          struct journal_record *out)
{
    struct record_bytes b;
    memcpy(&b, bytes, sizeof b);
    if (b.magic != RECORD_MAGIC || b.format != JOURNAL_FORMAT || !b.kind || b.kind >= JOURNAL_KINDS)
        return false;
    if (b.bytes % 64 || b.bytes > JOURNAL_CONTENTS_MAX) return false;
    if (b.head_sum != XXH3_64bits_withSeed(&b, offsetof(struct record_bytes, head_sum), salt))
        return false;
    if (!are_zeros(b.zeros, sizeof b.zeros / sizeof b.zeros[0])) return false;
    bool bare = b.kind == JOURNAL_MARK || b.kind == JOURNAL_END;
    if (bare != (b.bytes == 0)) return false;
    *out = (struct journal_record){(enum journal_kind)b.kind, b.bytes, b.sequence, b.synced, b.sum};
    return true;
}

/* ---------------------------------------------------------------- contents */

struct fixed_bytes {
    char space[72], name[72], other[72];
    uint64_t version;
    uint32_t object, dimension, metric, flags;
    float numbers[2];
    uint64_t token[2];
    uint64_t operation, body_bytes, digest[2];
    uint64_t counts[6], rows, nodes, answer_version, versions[OPERATION_OBJECTS_MAX];
    struct {
        uint64_t rows;
        uint32_t columns, dtype;
    } tensors[JOURNAL_SLOTS];
    uint64_t zeros[16];
};
_Static_assert(sizeof(struct fixed_bytes) == JOURNAL_FIXED_BYTES, "as on the disk");

uint64_t journal_contents_bytes(const struct journal_write *w)
{
    uint64_t bytes = JOURNAL_FIXED_BYTES;
    for (uint32_t i = 0; i < JOURNAL_SLOTS; i++)
        bytes += journal_pad(journal_tensor_bytes(&w->tensors[i]));
    return bytes;
}

void journal_contents_print(const struct journal_write *w, uint8_t out[JOURNAL_FIXED_BYTES])
{
    const struct journal_token *t = &w->token;
    struct fixed_bytes b = {
        .version = w->version,
        .object = w->object,
        .dimension = w->dimension,
        .metric = w->metric,
        .flags = w->flags,
        .numbers = {w->numbers[0], w->numbers[1]},
        .token = {t->token[0], t->token[1]},
        .operation = t->operation,
        .body_bytes = t->body_bytes,
        .digest = {t->digest[0], t->digest[1]},
        .rows = t->rows,
        .nodes = t->nodes,
        .answer_version = t->version,
    };
    memcpy(b.space, w->space, strlen(w->space));
    memcpy(b.name, w->name, strlen(w->name));
    memcpy(b.other, w->other, strlen(w->other));
    memcpy(b.counts, t->counts, sizeof b.counts);
    memcpy(b.versions, t->versions, sizeof b.versions);
    for (uint32_t i = 0; i < JOURNAL_SLOTS; i++) {
        b.tensors[i].dtype = w->tensors[i].dtype;
        b.tensors[i].rows = w->tensors[i].rows;
        b.tensors[i].columns = (uint32_t)w->tensors[i].columns;
    }
    memcpy(out, &b, sizeof b);
}

#define BIT(slot) (1u << JOURNAL_##slot)

/* What each kind has, as needed and as it may be there; and of what it is. */
static const struct {
    uint32_t needed, optional;
    uint32_t objects; /* bits by enum resident_kind */
    bool other;
} shapes[JOURNAL_KINDS] = {
    [JOURNAL_CREATE] = {.objects = 7},
    [JOURNAL_DROP] = {.objects = 7},
    [JOURNAL_SWAP] = {.objects = 7, .other = true},
    [JOURNAL_ROWS] = {BIT(IDS) | BIT(MATRIX), 0, 1 << RESIDENT_COLLECTION, false},
    [JOURNAL_DELETE] = {BIT(IDS), 0, 1 << RESIDENT_COLLECTION, false},
    [JOURNAL_EDGES] = {BIT(IDS) | BIT(TARGETS) | BIT(WEIGHTS), 0, 1 << RESIDENT_GRAPH, false},
    [JOURNAL_CSR] = {BIT(OFFSETS) | BIT(TARGETS) | BIT(WEIGHTS), BIT(IDS), 1 << RESIDENT_GRAPH,
                     false},
    [JOURNAL_REMOVE_EDGES] = {BIT(IDS) | BIT(TARGETS), 0, 1 << RESIDENT_GRAPH, false},
    [JOURNAL_NODES] = {BIT(IDS), BIT(NODE_KINDS) | BIT(FACTORS), 1 << RESIDENT_GRAPH, false},
    [JOURNAL_REMOVE_NODES] = {BIT(IDS), 0, 1 << RESIDENT_GRAPH, false},
    [JOURNAL_ADD_WEIGHTS] = {BIT(IDS) | BIT(TARGETS) | BIT(WEIGHTS), 0, 1 << RESIDENT_GRAPH, false},
    [JOURNAL_SCALE] = {.objects = 1 << RESIDENT_GRAPH},
    [JOURNAL_PRUNE] = {.objects = 1 << RESIDENT_GRAPH},
    [JOURNAL_LEARN] = {BIT(MATRIX), 0, 1 << RESIDENT_ATTRACTOR, false},
    [JOURNAL_SET_WEIGHTS] = {BIT(MATRIX), 0, 1 << RESIDENT_ATTRACTOR, false},
    [JOURNAL_TOKEN] = {.objects = 7},
};

static const enum dtype dtypes[JOURNAL_SLOTS] = {
    [JOURNAL_IDS] = DTYPE_UINT64,      [JOURNAL_MATRIX] = DTYPE_FLOAT32,
    [JOURNAL_TARGETS] = DTYPE_UINT64,  [JOURNAL_OFFSETS] = DTYPE_UINT64,
    [JOURNAL_WEIGHTS] = DTYPE_FLOAT32, [JOURNAL_NODE_KINDS] = DTYPE_UINT8,
    [JOURNAL_FACTORS] = DTYPE_FLOAT32,
};

/* What is wrong, and where in the contents. */
struct contents_fault {
    struct failure *failure;
    uint64_t *byte;
};

static enum status refuse(const struct contents_fault *f, uint64_t byte, const char *why)
{
    *f->byte = byte;
    return failure_set(f->failure, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s", why);
}

static bool is_text(const char *text, size_t room)
{
    size_t n = strnlen(text, room);
    for (size_t i = n; i < room; i++)
        if (text[i]) return false;
    return n <= COLLECTION_NAME_MAX;
}

static enum status parse_names(const struct fixed_bytes *b, struct journal_write *out,
                               const struct contents_fault *f)
{
    struct failure why = {0};
    char space[SPACE_NAME_MAX + 1];
    if (!is_text(b->space, sizeof b->space) || space_name_parse(b->space, space, &why) ||
        strcmp(space, b->space) != 0)
        return refuse(f, offsetof(struct fixed_bytes, space), "no name of a space");
    if (!is_text(b->name, sizeof b->name) || collection_name_check(b->name, &why))
        return refuse(f, offsetof(struct fixed_bytes, name), "no name");
    bool other = b->other[0];
    if (other != shapes[out->kind].other || !is_text(b->other, sizeof b->other) ||
        (other && collection_name_check(b->other, &why)))
        return refuse(f, offsetof(struct fixed_bytes, other), "no name");
    strcpy(out->space, b->space);
    strcpy(out->name, b->name);
    strcpy(out->other, b->other);
    return STATUS_OK;
}

/* How many rows a tensor has to have, beside others. */
static bool rows_agree(const struct journal_write *w)
{
    const struct tensor *t = w->tensors;
    if (w->kind == JOURNAL_CSR) {
        uint64_t offsets = t[JOURNAL_OFFSETS].rows;
        bool ids = !t[JOURNAL_IDS].dtype || t[JOURNAL_IDS].rows + 1 == offsets;
        return ids && offsets && t[JOURNAL_TARGETS].rows == t[JOURNAL_WEIGHTS].rows;
    }
    if (w->kind == JOURNAL_SET_WEIGHTS) return t[JOURNAL_MATRIX].rows == t[JOURNAL_MATRIX].columns;
    for (uint32_t i = 1; i < JOURNAL_SLOTS && t[JOURNAL_IDS].dtype; i++)
        if (t[i].dtype && t[i].rows != t[JOURNAL_IDS].rows) return false;
    return true;
}

static enum status parse_tensors(const struct fixed_bytes *b, char *contents, uint64_t bytes,
                                 struct journal_write *out, const struct contents_fault *f)
{
    uint64_t at = JOURNAL_FIXED_BYTES, table = offsetof(struct fixed_bytes, tensors);
    uint32_t there = 0;
    for (uint32_t i = 0; i < JOURNAL_SLOTS; i++) {
        uint64_t rows = b->tensors[i].rows, columns = b->tensors[i].columns;
        bool present = b->tensors[i].dtype;
        if (!present && (rows || columns)) return refuse(f, table, "a tensor without a type");
        if (!present) continue;
        bool wide = i == JOURNAL_MATRIX;
        if (b->tensors[i].dtype != dtypes[i] || rows > TENSOR_ROWS_MAX || !columns ||
            columns > (wide ? TENSOR_COLUMNS_MAX : 1))
            return refuse(f, table, "a tensor of a wrong type or shape");
        struct tensor t = {dtypes[i], rows, columns, contents + at};
        uint64_t filled = journal_tensor_bytes(&t), padded = journal_pad(filled);
        if (padded > bytes - at) return refuse(f, table, "tensors that are larger than all");
        for (uint64_t k = filled; k < padded; k++)
            if (contents[at + k]) return refuse(f, at + k, "padding that is not zeros");
        out->tensors[i] = t;
        at += padded;
        there |= 1u << i;
    }
    if (at != bytes) return refuse(f, at, "more than its tensors");
    uint32_t needed = shapes[out->kind].needed;
    if ((there & needed) != needed || there & ~(needed | shapes[out->kind].optional))
        return refuse(f, table, "other tensors than such a write has");
    return rows_agree(out) ? STATUS_OK : refuse(f, table, "tensors that do not belong together");
}

enum status journal_contents_parse(void *contents, uint64_t bytes, enum journal_kind kind,
                                   struct journal_write *out, uint64_t *byte, struct failure *why)
{
    const struct contents_fault where = {why, byte}, *f = &where;
    struct fixed_bytes b;
    struct journal_write w = {.kind = kind};
    if (bytes < sizeof b || bytes % 64) return refuse(f, 0, "shorter than a write");
    memcpy(&b, contents, sizeof b);
    if (b.object >= RESIDENT_KINDS || !(shapes[kind].objects >> b.object & 1))
        return refuse(f, offsetof(struct fixed_bytes, object), "no such object");
    w.object = (enum resident_kind)b.object;
    if (b.flags > (JOURNAL_REPLACES | JOURNAL_CREATES | JOURNAL_COUNTED) ||
        !isfinite(b.numbers[0]) || !isfinite(b.numbers[1]) || b.operation >= OPERATION_MAX ||
        !are_zeros(b.zeros, sizeof b.zeros / sizeof b.zeros[0]))
        return refuse(f, offsetof(struct fixed_bytes, flags), "numbers that no write has");
    w.version = b.version;
    w.dimension = b.dimension;
    w.metric = b.metric;
    w.flags = b.flags;
    memcpy(w.numbers, b.numbers, sizeof w.numbers);
    w.token = (struct journal_token){
        .token = {b.token[0], b.token[1]},
        .operation = (uint32_t)b.operation,
        .body_bytes = b.body_bytes,
        .digest = {b.digest[0], b.digest[1]},
        .rows = b.rows,
        .nodes = b.nodes,
        .version = b.answer_version,
    };
    memcpy(w.token.counts, b.counts, sizeof b.counts);
    memcpy(w.token.versions, b.versions, sizeof b.versions);
    enum status st = parse_names(&b, &w, f);
    if (!st) st = parse_tensors(&b, contents, bytes, &w, f);
    if (!st) *out = w;
    return st;
}
