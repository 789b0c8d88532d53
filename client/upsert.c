/* upsert: rows up, in one request or in several that overlap. */
#include "client/client.h"

#include <inttypes.h>
#include <string.h>

enum {
    CHUNK_BYTES = 4 << 20, /* large enough to keep a socket busy, small enough to show progress */
    CHUNKS_MAX = 4,        /* in flight: one written, one on its way, one applied, one answered */
};

ea_status ea_build_upsert(ea_client *c, const char *collection, const uint64_t *ids,
                          const float *rows, uint64_t n, uint32_t dimension,
                          struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_UPSERT);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_UpsertRequest m = {0};
    ea_status st = ea_check_name(c, "collection", collection, m.collection);
    if (!st) st = ea_check_dimension(c, dimension);
    if (!st)
        st = ea_request_tensor(c, r, "ids", &m.has_ids, &m.ids, engram_accel_v1_Dtype_DTYPE_UINT64,
                               ids, n, 1);
    if (!st)
        st = ea_request_tensor(c, r, "rows", &m.has_rows, &m.rows,
                               engram_accel_v1_Dtype_DTYPE_FLOAT32, rows, n, dimension);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_UpsertRequest_fields, &m);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    *out = r;
    return EA_OK;
}

/* One request of an upload. */
struct upsert_chunk {
    struct client_request *request; /* NULL: free */
    uint64_t rows;
    bool repeated;
    ea_upsert_counts counts;
};

struct upsert_upload {
    ea_client *c;
    const char *collection;
    const uint64_t *ids;
    const float *rows;
    uint64_t total, sent, done;
    uint64_t chunk_rows;
    uint32_t dimension;
    int64_t deadline_ns;
    uint64_t instance;   /* the daemon's that the rows go to */
    bool accepted;       /* it has some */
    struct note failure; /* the first */
    ea_upsert_counts sum;
    struct upsert_chunk chunks[CHUNKS_MAX];
};

static void fail(struct upsert_upload *u, const struct note *note)
{
    if (!u->failure.code) u->failure = *note;
}

static bool accepted_some(const struct upsert_upload *u)
{
    bool some = u->accepted;
    for (size_t i = 0; i < CHUNKS_MAX; i++) {
        const struct client_request *r = u->chunks[i].request;
        some |= r && r->done && !r->note.code;
    }
    return some;
}

/* Also after a reconnect. A daemon that was restarted in the middle lacks what it had accepted. */
static ea_status connect(struct upsert_upload *u)
{
    ea_client *c = u->c;
    ea_status st = ea_connect_until(c, u->deadline_ns);
    if (!st && c->instance != u->instance && accepted_some(u))
        st = ea_fail(c, EA_UNAVAILABLE, 0,
                     "the daemon was restarted during the upload: send all rows again");
    if (!st) u->instance = c->instance;
    if (!st && !u->chunk_rows) {
        uint64_t row_bytes = 8 + (uint64_t)u->dimension * 4, bytes = CHUNK_BYTES;
        uint64_t most = c->limits.body_bytes_max;
        if (most >= 2 * EA_ALIGN && bytes > most - 2 * EA_ALIGN) bytes = most - 2 * EA_ALIGN;
        u->chunk_rows = bytes / row_bytes ? bytes / row_bytes : 1;
    }
    return st;
}

static ea_status submit(struct upsert_upload *u, struct upsert_chunk *chunk)
{
    ea_status st = connect(u);
    if (!st) st = ea_submit(u->c, chunk->request);
    return st;
}

/* Sends the next rows from a free place. */
static void start_chunk(struct upsert_upload *u, struct upsert_chunk *chunk)
{
    uint64_t left = u->total - u->sent;
    *chunk = (struct upsert_chunk){.rows = left < u->chunk_rows ? left : u->chunk_rows};
    ea_status st = ea_build_upsert(u->c, u->collection, u->ids ? u->ids + u->sent : NULL,
                                   u->rows ? u->rows + u->sent * u->dimension : NULL, chunk->rows,
                                   u->dimension, &chunk->request);
    if (!st) {
        chunk->request->out = &chunk->counts;
        chunk->request->deadline_ns = u->deadline_ns;
        st = submit(u, chunk);
        if (st) ea_request_release(u->c, chunk->request);
    }
    if (st) {
        chunk->request = NULL;
        fail(u, &u->c->error);
        return;
    }
    u->sent += chunk->rows;
}

/* A chunk has ended: counts it, sends it once more, or notes its failure. */
static void end_chunk(struct upsert_upload *u, struct upsert_chunk *chunk, ea_progress progress,
                      void *user)
{
    struct client_request *r = chunk->request;
    if (r->lost && !chunk->repeated && !u->failure.code) {
        chunk->repeated = true;
        ea_request_rewind(r);
        if (submit(u, chunk) == EA_OK) return;
        r->note = u->c->error;
    }
    struct note note = r->note;
    ea_request_release(u->c, r);
    chunk->request = NULL;
    if (note.code) {
        fail(u, &note);
        return;
    }
    u->accepted = true;
    u->done += chunk->rows;
    u->sum.inserted += chunk->counts.inserted;
    u->sum.replaced += chunk->counts.replaced;
    if (chunk->counts.version >= u->sum.version) { /* answers may pass each other */
        u->sum.version = chunk->counts.version;
        u->sum.rows = chunk->counts.rows;
    }
    if (progress && !progress(u->done, u->total, user))
        ea_note_set(&note, EA_CANCELLED, EA_DETAIL_CANCELLED_BY_CLIENT, "stopped by the caller");
    if (note.code) fail(u, &note);
}

ea_status ea_upsert(ea_client *c, const char *collection, const uint64_t *ids, const float *rows,
                    uint64_t n, uint32_t dimension, ea_progress progress, void *user,
                    ea_upsert_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (out) *out = (ea_upsert_counts){0};
    struct upsert_upload u = {.c = c,
                              .collection = collection,
                              .ids = ids,
                              .rows = rows,
                              .total = n,
                              .dimension = dimension,
                              .deadline_ns = ea_deadline_after(c->timeout_ms)};
    char name[EA_NAME_MAX + 1];
    ea_status st = ea_check_name(c, "collection", collection, name);
    if (!st) st = ea_check_dimension(c, dimension);
    if (!st && n > UINT64_MAX / 8 / dimension)
        st = ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "rows: too many");
    if (!st) st = connect(&u);
    if (st) return st;

    /* No rows are one request too: the daemon says whether the collection is there. */
    bool first = true;
    for (;;) {
        size_t busy = 0;
        for (size_t i = 0; i < CHUNKS_MAX; i++) {
            struct upsert_chunk *chunk = &u.chunks[i];
            if (chunk->request && chunk->request->done) end_chunk(&u, chunk, progress, user);
            if (!chunk->request && !u.failure.code && (u.sent < n || first)) {
                first = false;
                start_chunk(&u, chunk);
            }
            busy += chunk->request != NULL;
        }
        if (!busy) break;
        bool ended = false;
        for (size_t i = 0; i < CHUNKS_MAX; i++)
            ended |= u.chunks[i].request && u.chunks[i].request->done;
        if (!ended) ea_step(c, INT64_MAX);
    }
    if (out) *out = u.sum;
    return u.failure.code ? ea_fail_note(c, &u.failure) : EA_OK;
}
