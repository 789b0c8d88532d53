#include "daemon/request/records.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/net/body.h"
#include "daemon/request/find.h"
#include "daemon/request/jobs.h"
#include "daemon/request/sweep.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"

enum { RETRY_JOURNAL_MS = 1000 };

enum journal_kind records_kind(enum operation operation)
{
    switch (operation) {
    case OPERATION_COLLECTION_CREATE:
    case OPERATION_GRAPH_CREATE:
    case OPERATION_ATTRACTOR_CREATE: return JOURNAL_CREATE;
    case OPERATION_COLLECTION_DROP:
    case OPERATION_GRAPH_DROP:
    case OPERATION_ATTRACTOR_DROP: return JOURNAL_DROP;
    case OPERATION_SWAP: return JOURNAL_SWAP;
    case OPERATION_UPSERT:
    case OPERATION_BIND:   /* if they store their results, which are recorded: what they read may */
    case OPERATION_UNBIND: /* have changed since they read it */
    case OPERATION_BIND_MANY:
    case OPERATION_SUPERPOSE:
    case OPERATION_PERMUTE:
    case OPERATION_RANDOM:
    case OPERATION_CLUSTER: return JOURNAL_ROWS;
    case OPERATION_DELETE: return JOURNAL_DELETE;
    case OPERATION_GRAPH_ADD_EDGES: return JOURNAL_EDGES;
    case OPERATION_GRAPH_ADD_CSR: return JOURNAL_CSR;
    case OPERATION_GRAPH_REMOVE_EDGES: return JOURNAL_REMOVE_EDGES;
    case OPERATION_GRAPH_SET_NODES: return JOURNAL_NODES;
    case OPERATION_GRAPH_REMOVE_NODES: return JOURNAL_REMOVE_NODES;
    case OPERATION_GRAPH_ADD_WEIGHTS: return JOURNAL_ADD_WEIGHTS;
    case OPERATION_GRAPH_SCALE: return JOURNAL_SCALE;
    case OPERATION_GRAPH_PRUNE: return JOURNAL_PRUNE;
    case OPERATION_ATTRACTOR_LEARN: return JOURNAL_LEARN;
    case OPERATION_ATTRACTOR_SET: return JOURNAL_SET_WEIGHTS;
    case OPERATION_NONE:
    case OPERATION_HELLO:
    case OPERATION_PING:
    case OPERATION_INFO:
    case OPERATION_STATS:
    case OPERATION_CANCEL:
    case OPERATION_EXPLAIN:
    case OPERATION_CONFIG_GET:
    case OPERATION_CONFIG_SET: /* settings are those of the file after a start */
    case OPERATION_CONFIG_RELOAD:
    case OPERATION_SPACES:
    case OPERATION_SLOWLOG:
    case OPERATION_MEMORY:
    case OPERATION_MEMORY_HISTORY:
    case OPERATION_SAVE:
    case OPERATION_CHANGES:
    case OPERATION_COLLECTION_LIST:
    case OPERATION_COLLECTION_DESCRIBE:
    case OPERATION_GRAPH_LIST:
    case OPERATION_GRAPH_DESCRIBE:
    case OPERATION_ATTRACTOR_LIST:
    case OPERATION_ATTRACTOR_DESCRIBE:
    case OPERATION_FETCH:
    case OPERATION_SIMILARITY:
    case OPERATION_KNN:
    case OPERATION_SCORE_CANDIDATES:
    case OPERATION_NORMS:
    case OPERATION_WEIGHTED_AVERAGE:
    case OPERATION_SPREAD:
    case OPERATION_CLEANUP:
    case OPERATION_COMPLETE:
    case OPERATION_COMPLETE_ENGINE:
    case OPERATION_RECALL:
    case OPERATION_GRAPH_FETCH_NODES:
    case OPERATION_ATTRACTOR_FETCH:
    case OPERATION_COVARIANCE:
    case OPERATION_SPREAD_ENGRAM:
    case OPERATION_KNN_BATCH:
    case OPERATION_RECALL_BATCH:
    case OPERATION_UPLOAD:
    case OPERATION_TABLES: break;
    }
    return JOURNAL_KINDS;
}

/* ---------------------------------------------------------------- before a write */

static bool refuse(const struct pipeline *p, struct job *j)
{
    failure_set(&j->failure, STATUS_UNAVAILABLE, DETAIL_JOURNAL,
                "nothing can be written, since the journal cannot be: %.130s", p->journals.now.why);
    j->failure.retry_after_ms = RETRY_JOURNAL_MS;
    return false;
}

bool records_begin(struct pipeline *p, struct job *j)
{
    if (!p->journals.journal || j->record) return true;
    if (p->journals.now.health != JOURNAL_SOUND) return refuse(p, j);
    j->record = fault_here("records: record") ? NULL : calloc(1, sizeof *j->record);
    if (j->record) return true;
    failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a record");
    return false;
}

bool records_refuse_repeated(struct pipeline *p, struct job *j)
{
    if (!p->journals.journal) return false;
    if (p->journals.now.health != JOURNAL_SOUND) return !refuse(p, j);
    j->recorded = p->journals.added;
    return false;
}

bool records_have_all(struct pipeline *p, struct job *j, const struct resident *r)
{
    if (!p->journals.journal || r->since >= p->journals.sound_from || !name_is_hidden(r->name))
        return true;
    failure_set(&j->failure, STATUS_UNAVAILABLE, DETAIL_JOURNAL,
                "%s'%.64s' was made before the journal failed; make it again",
                j->operation == OPERATION_SWAP ? "with: " : "", r->name);
    return false;
}

/* ---------------------------------------------------------------- what a record says */

static void describe(struct journal_write *w, const struct job *j, const struct resident *r)
{
    w->kind = records_kind(j->operation);
    w->object = r->ops->kind;
    strcpy(w->space, r->space->name);
    strcpy(w->name, r->name);
    w->version = resident_version(r);
}

/* What who repeats it is answered. */
static void describe_token(struct journal_write *w, const struct job *j)
{
    const struct job_result *r = &j->result;
    if (!j->token) return;
    w->token = (struct journal_token){
        .token = {j->request.write.token_low, j->request.write.token_high},
        .operation = j->operation,
        .body_bytes = j->body_bytes,
        .digest = {j->digest[0], j->digest[1]},
        .rows = r->rows,
        .nodes = r->nodes,
        .version = r->version,
    };
    memcpy(w->token.counts, r->counts, sizeof r->counts);
    memcpy(w->token.versions, r->versions, sizeof r->versions);
}

static void put(struct journal_write *w, enum journal_slot slot, const struct tensor *t)
{
    if (t->dtype != DTYPE_NONE) w->tensors[slot] = *t;
}

static void describe_contents(struct journal_write *w, const struct job *j)
{
    const struct job_request *q = &j->request;
    put(w, JOURNAL_IDS, &q->ids);
    put(w, JOURNAL_MATRIX, &q->rows);
    put(w, JOURNAL_TARGETS, &q->targets);
    put(w, JOURNAL_OFFSETS, &q->offsets);
    put(w, JOURNAL_WEIGHTS, &q->weights);
    put(w, JOURNAL_NODE_KINDS, &q->kinds);
    put(w, JOURNAL_FACTORS, &q->factors);
    w->flags = (q->replace ? JOURNAL_REPLACES : 0u) | (q->create ? JOURNAL_CREATES : 0u) |
               (q->count_doubled ? JOURNAL_COUNTED : 0u);
    bool adds = w->kind == JOURNAL_ADD_WEIGHTS;
    w->numbers[0] = adds ? q->low : q->scalar;
    w->numbers[1] = adds ? q->high : 0;
}

static void keep(struct write_record *r, const struct job_object *o)
{
    r->kept = *o;
    atomic_fetch_add(&o->resident->saved, 1);
    o->resident->space->users++;
}

/* Keeps what j has written as it is now: from now on others make editions of their own. */
static void keep_written(struct write_record *r, const struct job_object *o)
{
    struct job_object kept = {.resident = o->resident};
    bool begun = o->resident->ops->begin(&kept);
    assert(begun);
    (void)begun;
    keep(r, &kept);
}

/* Rows that were computed: the edition has them. False: no memory for their ids. */
static bool describe_stored(struct write_record *r, const struct job *j)
{
    struct journal_write *w = &r->entry.write;
    const struct edition *e = r->kept.collection;
    if (j->operation == OPERATION_CLUSTER) {
        uint64_t n = j->result.tensors[RESULT_CLUSTER_CENTROIDS].rows;
        uint64_t *ids = fault_here("records: ids") ? NULL : malloc((n + 1) * sizeof *ids);
        if (!ids) return false;
        for (uint64_t i = 0; i < n; i++)
            ids[i] = j->request.offset + i;
        r->ids = ids;
        w->tensors[JOURNAL_IDS] = (struct tensor){DTYPE_UINT64, n, 1, ids};
    } else {
        put(w, JOURNAL_IDS, &j->request.into_ids);
    }
    const struct tensor *ids = &w->tensors[JOURNAL_IDS];
    w->tensors[JOURNAL_MATRIX] =
        (struct tensor){DTYPE_FLOAT32, ids->rows, collection_dimension(e), NULL};
    r->entry.rows_of = e;
    r->entry.row_ids = ids->data;
    return true;
}

/* Patterns that are rows of a collection as it was when they were learned. */
static void describe_learned(struct write_record *r, struct job *j)
{
    struct journal_write *w = &r->entry.write;
    struct job_object *from = &j->objects[1];
    const struct tensor *ids = &j->request.ids;
    if (!from->resident) return;
    w->tensors[JOURNAL_IDS] = (struct tensor){0};
    w->tensors[JOURNAL_MATRIX] =
        (struct tensor){DTYPE_FLOAT32, ids->rows, collection_dimension(from->collection), NULL};
    r->entry.rows_of = from->collection;
    r->entry.row_ids = ids->data;
    keep(r, from);
    from->pinned = false; /* the record ends it */
}

/* ---------------------------------------------------------------- adding */

static void add(struct pipeline *p, struct job *j)
{
    struct write_record *r = j->record;
    j->record = NULL;
    j->recorded = p->journals.added = journal_add(p->journals.journal, &r->entry);
    if (!p->journals.now.oldest_ns) p->journals.now.oldest_ns = r->entry.added_ns;
}

static enum object_kind object_kind_of(const struct resident *r)
{
    switch (r->ops->kind) {
    case RESIDENT_COLLECTION: return OBJECT_COLLECTION;
    case RESIDENT_GRAPH: return OBJECT_GRAPH;
    case RESIDENT_ATTRACTOR: return OBJECT_ATTRACTOR;
    case RESIDENT_KINDS: break;
    }
    return OBJECT_NONE;
}

/* What was dropped meanwhile is not there when its record is replayed. */
static bool has_its_name(struct pipeline *p, const struct job *j, const struct resident *r)
{
    struct failure none = {0};
    return find_resident(p, j, object_kind_of(r), r->name, &none) == r;
}

static struct job_object *written(struct job *j)
{
    uint32_t i = 0;
    while (!j->objects[i].writer)
        i++;
    return &j->objects[i];
}

/* Of a drop the answer alone is recorded when it ends: it was recorded itself when the name
 * went. */
static void describe_token_alone(struct write_record *r, const struct job *j)
{
    r->entry.write.kind = JOURNAL_TOKEN;
    r->entry.write.version = 0;
    describe_token(&r->entry.write, j);
}

void records_written(struct pipeline *p, struct job *j)
{
    struct write_record *r = j->record;
    if (!r || !job_written(j) || j->request.dry_run || j->failure.code || atomic_load(&j->skipped))
        return;
    struct job_object *o = written(j);
    struct journal_write *w = &r->entry.write;
    if (!job_drops(j)) o->resident->ops->end(o); /* it is told so again, which does no harm */
    bool computes = j->operation != OPERATION_UPSERT && records_kind(j->operation) == JOURNAL_ROWS;
    bool stays = !job_drops(j) && has_its_name(p, j, o->resident);
    j->recorded = p->journals.added;
    if (!stays && !j->token) return; /* it has nothing of anybody's, and goes with the job */
    describe(w, j, o->resident);
    describe_token(w, j);
    if (stays) {
        if (computes || j->shared) keep_written(r, o);
        r->body = body_hold(j->body);
        if (computes) r->entry.lost = !describe_stored(r, j);
        if (!computes) describe_contents(w, j);
        if (w->kind == JOURNAL_LEARN) describe_learned(r, j);
    } else {
        describe_token_alone(r, j);
    }
    add(p, j);
}

void records_made(struct pipeline *p, struct job *j, struct resident *r)
{
    if (!j->record) return;
    const struct job_request *q = &j->request;
    struct journal_write *w = &j->record->entry.write;
    describe(w, j, r);
    describe_token(w, j);
    if (w->object != RESIDENT_GRAPH) w->dimension = q->dimension;
    w->metric = q->metric;
    w->numbers[0] = q->attractor.sparsity;
    w->numbers[1] = q->attractor.rate;
    r->since = journal_file_now(p->journals.journal);
    add(p, j);
}

void records_dropped(struct pipeline *p, struct job *j)
{
    if (!j->record) return;
    describe(&j->record->entry.write, j, j->resident);
    add(p, j);
    /* for its answer, if that is to be remembered; without memory it is not, after a crash */
    if (j->token) j->record = fault_here("records: answer") ? NULL : calloc(1, sizeof *j->record);
}

void records_swapped(struct pipeline *p, struct job *j, struct resident *with, const char *hidden)
{
    if (!j->record) return;
    struct journal_write *w = &j->record->entry.write;
    describe(w, j, with);
    describe_token(w, j);
    strcpy(w->other, hidden);
    add(p, j);
}

void records_give(struct pipeline *p, struct write_record *r)
{
    struct resident *kept = r->kept.resident;
    body_drop(r->body);
    free(r->ids);
    if (kept) {
        struct space *space = kept->space;
        kept->ops->end(&r->kept);
        sweep_gone(p, kept);
        sweep_unsave(kept);
        store_space_release(p->store, space);
    }
    free(r);
}

/* ---------------------------------------------------------------- replies that wait */

bool records_on_disk(const struct pipeline *p, const struct job *j)
{
    const struct journals *s = &p->journals;
    return (s->always ? s->now.synced : s->now.written) >= j->recorded;
}

bool records_hold(struct pipeline *p, struct job *j, const void *reply, size_t bytes)
{
    if (!p->journals.journal || !j->recorded || j->failure.code || records_on_disk(p, j))
        return false;
    if (bytes) {
        j->answer = fault_here("records: reply") ? NULL : malloc(bytes);
        if (!j->answer) {
            failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                        "it is done, and there is no memory to say so when it is on the disk");
            return false;
        }
        memcpy(j->answer, reply, bytes);
        j->answer_bytes = bytes;
    }
    /* A snapshot may begin meanwhile, which has the write. */
    if (j->token) tokens_end(&p->tokens, j, clock_read_ns(p->clock));
    queue_push(&p->journals.held, j);
    return true;
}
