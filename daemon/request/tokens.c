#define HASH_NONFATAL_OOM 1
#include "daemon/request/tokens.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/frame.h"
#include "daemon/exec/digest.h"
#include "daemon/exec/operation.h"
#include "daemon/store/space.h"

struct token_key {
    uint64_t token[2];
    char space[SPACE_NAME_MAX + 1];
};

/* What a space has. */
struct token_space {
    char name[SPACE_NAME_MAX + 1];
    struct token_entry *oldest, *newest;
    uint64_t count, bytes; /* in the list */
    uint64_t users;        /* entries, those under way included */
    UT_hash_handle hh;
};

struct token_entry {
    struct token_key key;
    UT_hash_handle hh;
    enum operation operation;
    uint64_t body_bytes; /* of the request */
    uint64_t digest[2];  /* likewise, once it is done */
    bool done;           /* it has an answer, and stands in the lists */
    uint64_t until_ns;
    struct token_space *space;
    struct token_entry *next, *previous;             /* by age, of all */
    struct token_entry *space_next, *space_previous; /* and of its space */
    struct job_result result;
    uint64_t places[JOB_TENSORS_MAX]; /* of the result's tensors in `body` */
    uint64_t room;                    /* of `body` */
    char body[];
};

static bool has_token(const struct job *j)
{
    return j->request.write.token_low || j->request.write.token_high;
}

/* ---- the lists ---- */

static void list_add(struct tokens *t, struct token_entry *e)
{
    struct token_space *s = e->space;
    e->next = e->space_next = NULL;
    e->previous = t->newest;
    *(t->newest ? &t->newest->next : &t->oldest) = e;
    t->newest = e;
    e->space_previous = s->newest;
    *(s->newest ? &s->newest->space_next : &s->oldest) = e;
    s->newest = e;
    t->count++;
    s->count++;
    t->bytes += e->result.body_bytes;
    s->bytes += e->result.body_bytes;
}

/* The same before all others. */
static void list_add_oldest(struct tokens *t, struct token_entry *e)
{
    struct token_space *s = e->space;
    e->previous = e->space_previous = NULL;
    e->next = t->oldest;
    *(t->oldest ? &t->oldest->previous : &t->newest) = e;
    t->oldest = e;
    e->space_next = s->oldest;
    *(s->oldest ? &s->oldest->space_previous : &s->newest) = e;
    s->oldest = e;
    t->count++;
    s->count++;
    t->bytes += e->result.body_bytes;
    s->bytes += e->result.body_bytes;
}

static void list_remove(struct tokens *t, struct token_entry *e)
{
    struct token_space *s = e->space;
    *(e->previous ? &e->previous->next : &t->oldest) = e->next;
    *(e->next ? &e->next->previous : &t->newest) = e->previous;
    *(e->space_previous ? &e->space_previous->space_next : &s->oldest) = e->space_next;
    *(e->space_next ? &e->space_next->space_previous : &s->newest) = e->space_previous;
    t->count--;
    s->count--;
    t->bytes -= e->result.body_bytes;
    s->bytes -= e->result.body_bytes;
}

/* Frees a space that no entry is of. */
static void drop_space(struct tokens *t, struct token_space *s)
{
    if (s->users) return;
    HASH_DEL(t->spaces, s);
    free(s);
}

static void forget(struct tokens *t, struct token_entry *e)
{
    if (e->done) list_remove(t, e);
    e->space->users--;
    drop_space(t, e->space);
    HASH_DEL(t->by_key, e);
    free(e);
}

static void expire(struct tokens *t, uint64_t now_ns)
{
    while (t->oldest && t->oldest->until_ns <= now_ns)
        forget(t, t->oldest);
}

/* ---- entries ---- */

static struct token_key key_of(const struct job *j)
{
    struct token_key key;
    memset(&key, 0, sizeof key);
    key.token[0] = j->request.write.token_low;
    key.token[1] = j->request.write.token_high;
    memcpy(key.space, j->space->name, strlen(j->space->name));
    return key;
}

static struct token_entry *find(struct tokens *t, const struct job *j)
{
    struct token_key key = key_of(j);
    struct token_entry *e;
    HASH_FIND(hh, t->by_key, &key, sizeof key, e);
    return e;
}

static struct token_space *have_space(struct tokens *t, const char *name)
{
    struct token_space *s;
    HASH_FIND_STR(t->spaces, name, s);
    if (s) return s;
    s = fault_here("tokens: space") ? NULL : calloc(1, sizeof *s);
    if (!s) return NULL;
    memcpy(s->name, name, strlen(name));
    HASH_ADD_STR(t->spaces, name, s);
    if (s->hh.tbl) return s;
    free(s);
    return NULL;
}

static bool has_same_shape(const struct token_entry *e, const struct job *j)
{
    return e->operation == j->operation && e->body_bytes == j->body_bytes;
}

/* Takes a digest that is quickly taken; what is large has been read by a worker. */
static void have_digest(struct job *j)
{
    assert(j->has_digest || digest_is_brief(j));
    if (!j->has_digest) digest_take(j);
}

static bool is_same_request(const struct token_entry *e, struct job *j)
{
    if (!has_same_shape(e, j)) return false;
    have_digest(j);
    return memcmp(e->digest, j->digest, sizeof e->digest) == 0;
}

bool tokens_remember(struct tokens *t, uint64_t now_ns)
{
    expire(t, now_ns);
    return t->count > 0;
}

bool tokens_want_digest(struct tokens *t, const struct job *j, uint64_t now_ns)
{
    if (!has_token(j) || j->has_digest || digest_is_brief(j)) return false;
    expire(t, now_ns);
    const struct token_entry *e = find(t, j);
    return e && e->done && has_same_shape(e, j);
}

/* Gives j the answer that was remembered. */
static void answer(const struct token_entry *e, struct job *j)
{
    struct heap_block block = {0};
    uint64_t bytes = e->result.body_bytes;
    if (bytes) {
        enum status st = heap_take(j->heap, bytes, operation_owner(j), &block);
        if (st) {
            operation_refuse_memory(j, st, "memory for a remembered answer");
            return;
        }
        memcpy(block.data, e->body, bytes);
    }
    j->result = e->result;
    j->result.block = block;
    for (uint32_t i = 0; i < JOB_TENSORS_MAX; i++)
        if (bytes) j->result.tensors[i].data = (char *)block.data + e->places[i];
}

bool tokens_recall(struct tokens *t, struct job *j, uint64_t now_ns)
{
    if (!has_token(j)) return false;
    expire(t, now_ns);
    const struct token_entry *e = find(t, j);
    if (!e || !e->done) return false;
    if (is_same_request(e, j))
        answer(e, j);
    else
        failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_TOKEN_REUSED,
                    "write: its token was used for another request");
    return true;
}

/* ---- a write's way ---- */

/* Of all writes only that of weights answers with a body: a weight for each delta. */
static uint64_t answer_bytes(const struct job *j)
{
    bool weights = j->operation == OPERATION_GRAPH_ADD_WEIGHTS;
    return weights ? frame_align(j->request.ids.rows * sizeof(float)) : 0;
}

/* Takes all memory that the answer needs before anything is written. */
static enum status take(struct tokens *t, struct job *j)
{
    uint64_t room = answer_bytes(j);
    if (room > TOKEN_BODY_BYTES)
        return failure_set(
            &j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE,
            "write: an answer of %" PRIu64 " bytes is too large to be remembered by a token", room);
    struct token_entry *e = fault_here("tokens: entry") ? NULL : calloc(1, sizeof *e + room);
    struct token_space *s = e ? have_space(t, j->space->name) : NULL;
    if (s) {
        e->key = key_of(j);
        e->operation = j->operation;
        e->body_bytes = j->body_bytes;
        e->room = room;
        e->space = s;
        if (digest_is_brief(j)) have_digest(j);
        HASH_ADD(hh, t->by_key, key, sizeof e->key, e);
        if (e->hh.tbl) {
            s->users++;
            j->token = e;
            return STATUS_OK;
        }
        drop_space(t, s);
    }
    free(e);
    return failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                       "no memory for a token");
}

bool tokens_refuse_busy(struct tokens *t, struct job *j)
{
    if (!has_token(j) || !find(t, j)) return false;
    failure_set(&j->failure, STATUS_UNAVAILABLE, DETAIL_TOKEN_BUSY,
                "write: the first request with its token is under way");
    j->failure.retry_after_ms = RETRY_TOKEN_MS;
    return true;
}

bool tokens_begin(struct tokens *t, struct job *j, uint64_t now_ns)
{
    if (!has_token(j)) return true;
    if (tokens_recall(t, j, now_ns) || tokens_refuse_busy(t, j)) return false;
    return take(t, j) == STATUS_OK;
}

static bool is_space_full(const struct token_space *s, uint64_t bytes)
{
    return s->count && (s->count >= TOKENS_MAX || s->bytes + bytes > TOKEN_SPACE_BYTES);
}

static bool is_full(const struct tokens *t, uint64_t bytes)
{
    return t->count && (t->count >= TOKENS_ALL_MAX || t->bytes + bytes > TOKEN_ALL_BYTES);
}

/* Makes room for an answer of that many bytes in its space, and in all. (The analyzer does not
 * see that what is forgotten leaves the lists and the table.) */
static void make_room(struct tokens *t, struct token_space *s, uint64_t bytes)
{
    while (is_space_full(s, bytes))
        forget(t, s->oldest); /* NOLINT(clang-analyzer-unix.Malloc) */
    while (is_full(t, bytes))
        forget(t, s->count ? s->oldest : t->oldest); /* NOLINT(clang-analyzer-unix.Malloc) */
}

static void keep(struct tokens *t, struct token_entry *e, const struct job *j)
{
    const struct job_result *r = &j->result;
    assert(j->has_digest);
    memcpy(e->digest, j->digest, sizeof e->digest);
    if (r->body_bytes) memcpy(e->body, r->block.data, r->body_bytes);
    e->result = *r;
    e->result.block = (struct heap_block){0};
    for (uint32_t i = 0; i < JOB_TENSORS_MAX; i++)
        e->places[i] =
            r->tensors[i].data ? (uint64_t)((char *)r->tensors[i].data - (char *)r->block.data) : 0;
    e->done = true;
    list_add(t, e);
}

void tokens_end(struct tokens *t, struct job *j, uint64_t now_ns)
{
    struct token_entry *e = j->token;
    j->token = NULL;
    if (!e) return;
    expire(t, now_ns);
    if (j->failure.code || j->result.body_bytes > e->room) {
        forget(t, e);
        return;
    }
    make_room(t, e->space, j->result.body_bytes);
    e->until_ns = now_ns + TOKEN_LIFE_NS;
    keep(t, e, j);
}

/* ---- what is known from before ---- */

static void fill_weights(struct token_entry *e, const struct token_known *k)
{
    uint64_t bytes = k->weight_count * sizeof(float);
    if (!k->weights) return;
    memcpy(e->body, k->weights, bytes);
    e->result.body_bytes = e->room;
    e->result.tensors[RESULT_ADDED_WEIGHTS] =
        (struct tensor){DTYPE_FLOAT32, k->weight_count, 1, NULL};
}

enum status tokens_restore(struct tokens *t, const struct token_known *k, uint64_t now_ns)
{
    struct token_key key = {.token = {k->token[0], k->token[1]}};
    uint64_t room = k->weights ? frame_align(k->weight_count * sizeof(float)) : 0;
    struct token_entry *old;
    if (room > TOKEN_BODY_BYTES) return STATUS_OK;
    memcpy(key.space, k->space, strlen(k->space));
    HASH_FIND(hh, t->by_key, &key, sizeof key, old);
    if (old && k->yields) return STATUS_OK;
    if (old) forget(t, old); /* NOLINT(clang-analyzer-unix.Malloc) */
    struct token_entry *e = fault_here("tokens: known") ? NULL : calloc(1, sizeof *e + room);
    struct token_space *s = e ? have_space(t, k->space) : NULL;
    if (s) {
        e->key = key;
        HASH_ADD(hh, t->by_key, key, sizeof e->key, e);
    }
    if (!s || !e->hh.tbl) {
        if (s) drop_space(t, s);
        free(e);
        return STATUS_RESOURCE_EXHAUSTED;
    }
    e->operation = k->operation;
    e->body_bytes = k->body_bytes;
    memcpy(e->digest, k->digest, sizeof e->digest);
    e->room = room;
    e->space = s;
    s->users++;
    e->result = k->result;
    fill_weights(e, k);
    uint64_t bytes = e->result.body_bytes;
    e->until_ns = now_ns + TOKEN_LIFE_NS;
    if (k->yields && (is_space_full(s, bytes) || is_full(t, bytes))) {
        forget(t, e);
    } else if (k->yields) {
        if (t->oldest && t->oldest->until_ns < e->until_ns) e->until_ns = t->oldest->until_ns;
        e->done = true;
        list_add_oldest(t, e);
    } else {
        make_room(t, s, bytes);
        e->done = true;
        list_add(t, e);
    }
    return STATUS_OK;
}

bool tokens_next(const struct tokens *t, const struct token_entry **at, struct token_known *out)
{
    const struct token_entry *e = *at ? (*at)->next : t->oldest;
    *at = e;
    if (!e) return false;
    const struct tensor *weights = &e->result.tensors[RESULT_ADDED_WEIGHTS];
    *out = (struct token_known){.space = e->key.space,
                                .token = {e->key.token[0], e->key.token[1]},
                                .operation = e->operation,
                                .body_bytes = e->body_bytes,
                                .digest = {e->digest[0], e->digest[1]},
                                .result = e->result};
    memset(out->result.tensors, 0, sizeof out->result.tensors);
    out->result.body_bytes = 0;
    if (!e->result.body_bytes) return true;
    out->weights = (const float *)(e->body + e->places[RESULT_ADDED_WEIGHTS]);
    out->weight_count = weights->rows;
    return true;
}

/* ---- hand-over ---- */

/* Its body follows. Times are those that are left: clocks of two processes need not agree. */
struct told_token {
    struct token_key key;
    uint64_t operation, body_bytes, digest[2], left_ns, room;
    uint64_t places[JOB_TENSORS_MAX];
    struct job_result result; /* its pointers say only which are not NULL */
};

void tokens_tell(const struct tokens *t, uint64_t now_ns, struct catalogue_writer *w)
{
    uint64_t size = sizeof(struct told_token);
    catalogue_put(w, &size, sizeof size);
    catalogue_put(w, &t->count, sizeof t->count);
    for (const struct token_entry *e = t->oldest; e; e = e->next) {
        struct told_token told;
        memset(&told, 0, sizeof told);
        told.key = e->key;
        told.operation = e->operation;
        told.body_bytes = e->body_bytes;
        memcpy(told.digest, e->digest, sizeof told.digest);
        told.left_ns = e->until_ns > now_ns ? e->until_ns - now_ns : 0;
        told.room = e->room;
        memcpy(told.places, e->places, sizeof told.places);
        told.result = e->result;
        catalogue_put(w, &told, sizeof told);
        catalogue_put(w, e->body, e->result.body_bytes);
    }
}

static bool is_possible(const struct told_token *told)
{
    bool ok = told->key.space[0] && memchr(told->key.space, 0, sizeof told->key.space) &&
              told->operation < OPERATION_MAX && told->left_ns <= TOKEN_LIFE_NS &&
              told->room <= TOKEN_BODY_BYTES && told->result.body_bytes <= told->room &&
              !told->result.block.data;
    for (uint32_t i = 0; i < JOB_TENSORS_MAX; i++)
        ok = ok && told->places[i] <= told->result.body_bytes;
    return ok;
}

static bool adopt_one(struct tokens *t, uint64_t now_ns, struct catalogue_reader *r)
{
    struct told_token told;
    catalogue_get(r, &told, sizeof told);
    const void *body = catalogue_look(r, told.result.body_bytes);
    if (r->bad || !is_possible(&told)) return false;
    struct token_entry *e = fault_here("tokens: entry") ? NULL : calloc(1, sizeof *e + told.room);
    struct token_space *s = e ? have_space(t, told.key.space) : NULL;
    if (!s) {
        free(e);
        return false;
    }
    e->key = told.key;
    e->operation = (enum operation)told.operation;
    e->body_bytes = told.body_bytes;
    memcpy(e->digest, told.digest, sizeof e->digest);
    e->until_ns = now_ns + told.left_ns;
    e->room = told.room;
    memcpy(e->places, told.places, sizeof e->places);
    e->result = told.result;
    for (uint32_t i = 0; i < JOB_TENSORS_MAX && !e->result.body_bytes; i++)
        e->result.tensors[i].data = NULL;
    memcpy(e->body, body, told.result.body_bytes);
    e->space = s;
    HASH_ADD(hh, t->by_key, key, sizeof e->key, e);
    if (!e->hh.tbl) {
        drop_space(t, s);
        free(e);
        return false;
    }
    s->users++;
    e->done = true;
    list_add(t, e);
    return true;
}

bool tokens_adopt(struct tokens *t, uint64_t now_ns, struct catalogue_reader *r)
{
    uint64_t size, count;
    catalogue_get(r, &size, sizeof size);
    catalogue_get(r, &count, sizeof count);
    bool ok = !r->bad && size == sizeof(struct told_token) && count <= TOKENS_ALL_MAX;
    for (uint64_t i = 0; ok && i < count; i++)
        ok = adopt_one(t, now_ns, r);
    return ok;
}

void tokens_finish(struct tokens *t)
{
    while (t->by_key)
        forget(t, t->by_key); /* NOLINT(clang-analyzer-unix.Malloc) */
}
