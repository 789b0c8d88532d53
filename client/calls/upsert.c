/* upsert: sends rows, in one request or in several that overlap. */
#include "client/calls/calls.h"

enum {
    CHUNK_BYTES = 4 << 20, /* large enough to keep a socket busy, small enough to show progress */
    CHUNKS_MAX = 4,        /* in flight: one written, one on its way, one applied, one answered */
};

ea_status ea_build_upsert(ea_client *c, const ea_rows *rows, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_UPSERT);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_UpsertRequest m = {0};
    ea_status st = ea_check_name(c, "collection", rows->collection, m.collection);
    if (!st) st = ea_check_dimension(c, rows->dimension);
    if (!st) st = TENSOR(m, ids, U64, rows->ids, rows->count, 1);
    if (!st) st = TENSOR(m, rows, F32, rows->rows, rows->count, rows->dimension);
    return ea_build_write(c, r, st, engram_accel_v1_UpsertRequest_fields, &m, rows->write, out);
}

ea_status ea_upsert_send(ea_client *c, const ea_rows *rows, const ea_send_options *how,
                         uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!rows) return ea_fail_null(c, "rows");
    EA_TAKE(c, rows, one, rows);
    struct client_request *r;
    ea_status st = ea_build_upsert(c, &one, &r);
    return st ? st : ea_send(c, r, how, request_id);
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
    const ea_rows *rows;
    uint64_t sent, done;
    uint64_t chunk_rows;
    int64_t deadline_ns;
    uint64_t instance;   /* of the daemon that the rows go to */
    bool accepted;       /* it has accepted some */
    struct note failure; /* of the first chunk that failed */
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

/* Connects, also again. A daemon that was restarted meanwhile has lost the rows that it
 * accepted. */
static ea_status connect(struct upsert_upload *u)
{
    ea_client *c = u->c;
    ea_status st = ea_connect_until(c, u->deadline_ns);
    if (!st && c->instance != u->instance && accepted_some(u))
        st = ea_fail(c, EA_UNAVAILABLE, 0,
                     "the daemon was restarted during the upload: send all rows again");
    if (!st) u->instance = c->instance;
    if (!st && !u->chunk_rows) {
        uint64_t row_bytes = 8 + (uint64_t)u->rows->dimension * 4, bytes = CHUNK_BYTES;
        uint64_t most = c->limits.body_bytes_max;
        if (most >= 2 * EA_ALIGN && bytes > most - 2 * EA_ALIGN) bytes = most - 2 * EA_ALIGN;
        u->chunk_rows = bytes / row_bytes ? bytes / row_bytes : 1;
        if (u->rows->write) u->chunk_rows = u->rows->count; /* one request, or none */
    }
    return st;
}

static ea_status submit(struct upsert_upload *u, struct upsert_chunk *chunk)
{
    ea_status st = connect(u);
    if (!st) st = ea_submit(u->c, chunk->request);
    return st;
}

/* Sends the next rows from a free chunk. */
static void start_chunk(struct upsert_upload *u, struct upsert_chunk *chunk)
{
    ea_rows part = *u->rows;
    uint64_t left = part.count - u->sent;
    part.count = left < u->chunk_rows ? left : u->chunk_rows;
    if (part.ids) part.ids += u->sent;
    if (part.rows) part.rows += u->sent * part.dimension;
    *chunk = (struct upsert_chunk){.rows = part.count};
    ea_status st = ea_build_upsert(u->c, &part, &chunk->request);
    if (!st) {
        chunk->request->answer = &chunk->counts;
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

/* Ends a chunk: counts its rows, sends it once more, or notes its failure. */
static void end_chunk(struct upsert_upload *u, struct upsert_chunk *chunk)
{
    struct client_request *r = chunk->request;
    bool again = r->repeatable && !chunk->repeated && !u->failure.code;
    if (again && (r->lost || ea_await_successor(u->c, r))) {
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
    if (chunk->counts.version >= u->sum.version) { /* answers may come in another order */
        u->sum.version = chunk->counts.version;
        u->sum.rows = chunk->counts.rows;
    }
    const ea_rows *all = u->rows;
    if (all->progress && !all->progress(u->done, all->count, all->user))
        ea_note_set(&note, EA_CANCELLED, EA_DETAIL_CANCELLED_BY_CLIENT, "stopped by the caller");
    if (note.code) fail(u, &note);
}

/* Runs until all rows have been accepted, or no chunk is in flight after a failure. */
static void upload(struct upsert_upload *u)
{
    bool first =
        true; /* without rows one request is sent: the daemon says whether the collection exists */
    for (;;) {
        size_t busy = 0;
        for (size_t i = 0; i < CHUNKS_MAX; i++) {
            struct upsert_chunk *chunk = &u->chunks[i];
            if (chunk->request && chunk->request->done) end_chunk(u, chunk);
            if (!chunk->request && !u->failure.code && (u->sent < u->rows->count || first)) {
                first = false;
                start_chunk(u, chunk);
            }
            busy += chunk->request != NULL;
        }
        if (!busy) return;
        bool ended = false;
        for (size_t i = 0; i < CHUNKS_MAX; i++)
            ended |= u->chunks[i].request && u->chunks[i].request->done;
        if (!ended) ea_step(u->c, INT64_MAX);
    }
}

ea_status ea_upsert(ea_client *c, const ea_rows *rows, ea_upsert_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!rows) return ea_fail_null(c, "rows");
    EA_TAKE(c, rows, all, rows);
    struct upsert_upload u = {
        .c = c, .rows = &all, .deadline_ns = ea_deadline_after(c->timeout_us)};
    if (out) ea_copy_struct(out, c->sizes.upsert_counts, &u.sum, sizeof u.sum);
    char name[EA_NAME_MAX + 1];
    ea_status st = ea_check_name(c, "collection", all.collection, name);
    if (!st) st = ea_check_dimension(c, all.dimension);
    if (!st && all.count > UINT64_MAX / 8 / all.dimension)
        st = ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "rows: too many");
    bool outermost = ea_call_begin(c);
    if (!st) st = connect(&u);
    if (!st) upload(&u);
    ea_call_end(c, outermost);
    if (st) return st;
    if (out) ea_copy_struct(out, c->sizes.upsert_counts, &u.sum, sizeof u.sum);
    return u.failure.code ? ea_fail_note(c, &u.failure) : EA_OK;
}
