#include "daemon/persist/replay.h"

#include <string.h>

#include "daemon/persist/manifest.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "daemon/store/restore.h"

#define NOBODY UINT64_MAX /* makes what is hidden here */

static enum status refuse(struct failure *f, const char *why)
{
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s", why);
}

/* ---------------------------------------------------------------- by name */

static struct resident *find(const struct replay *r, struct space *space, enum resident_kind kind,
                             const char *name)
{
    struct failure why = {0};
    struct collection *c;
    struct graph *g;
    struct attractor *a;
    switch (kind) {
    case RESIDENT_COLLECTION:
        if (store_collection_find(r->store, space, name, &why, &c)) return NULL;
        return collection_resident(c);
    case RESIDENT_GRAPH:
        if (store_graph_find(r->store, space, name, &why, &g)) return NULL;
        return graph_resident(g);
    case RESIDENT_ATTRACTOR:
        if (store_attractor_find(r->store, space, name, &why, &a)) return NULL;
        return attractor_resident(a);
    case RESIDENT_KINDS: break;
    }
    return NULL;
}

static void drop(const struct replay *r, struct resident *at)
{
    switch (at->ops->kind) {
    case RESIDENT_COLLECTION:
        store_collection_unlink(r->store, at->space, (struct collection *)at);
        break;
    case RESIDENT_GRAPH: store_graph_unlink(r->store, at->space, (struct graph *)at); break;
    case RESIDENT_ATTRACTOR:
        store_attractor_unlink(r->store, at->space, (struct attractor *)at);
        break;
    case RESIDENT_KINDS: break;
    }
    at->ops->destroy(at);
}

static void set_version(struct resident *at, uint64_t version)
{
    struct graph *g = (struct graph *)at;
    struct attractor *a = (struct attractor *)at;
    switch (at->ops->kind) {
    case RESIDENT_COLLECTION: collection_restore((struct collection *)at, version); break;
    case RESIDENT_GRAPH: {
        struct graph_bounds bounds = graph_bounds_of(graph_now(g));
        graph_restore(g, version, &bounds);
        break;
    }
    case RESIDENT_ATTRACTOR:
        attractor_restore(a, version, attractor_patterns(attractor_now(a)));
        break;
    case RESIDENT_KINDS: break;
    }
}

static enum status create(const struct replay *r, struct space *space,
                          const struct journal_write *w, struct failure *f)
{
    struct collection *c;
    struct graph *g;
    struct attractor *a;
    struct attractor_shape shape = {w->dimension, w->numbers[0], w->numbers[1]};
    struct resident *made = NULL, *left = find(r, space, w->object, w->name);
    enum status st = STATUS_OK;
    if (left && name_is_hidden(w->name)) drop(r, left); /* its connection was gone, unrecorded */
    switch (w->object) {
    case RESIDENT_COLLECTION:
        st = store_collection_create(r->store, space, w->name, w->dimension, w->metric, f, &c);
        if (!st) made = collection_resident(c);
        break;
    case RESIDENT_GRAPH:
        st = store_graph_create(r->store, space, w->name, f, &g);
        if (!st) made = graph_resident(g);
        break;
    case RESIDENT_ATTRACTOR:
        st = store_attractor_create(r->store, space, w->name, &shape, f, &a);
        if (st) break;
        replay_gate_leave(r->gate); /* it may be large, and nobody reads it yet */
        attractor_make_all(a, attractor_choose(r->kernels->name));
        replay_gate_enter(r->gate);
        attractor_open(a);
        made = attractor_resident(a);
        break;
    case RESIDENT_KINDS: break;
    }
    if (!made) return st;
    if (name_is_hidden(w->name)) made->maker = NOBODY;
    set_version(made, w->version);
    return STATUS_OK;
}

static void rename_to(struct resident *at, const char *name)
{
    switch (at->ops->kind) {
    case RESIDENT_COLLECTION:
        store_collection_rename(at->space, (struct collection *)at, name);
        break;
    case RESIDENT_GRAPH: store_graph_rename(at->space, (struct graph *)at, name); break;
    case RESIDENT_ATTRACTOR: store_attractor_rename(at->space, (struct attractor *)at, name); break;
    case RESIDENT_KINDS: break;
    }
}

static enum status swap(const struct replay *r, struct space *space, const struct journal_write *w,
                        struct failure *f)
{
    struct resident *with = find(r, space, w->object, w->other);
    struct resident *there = find(r, space, w->object, w->name);
    if (!with && r->hidden_alone) return STATUS_OK;
    if (!with) return refuse(f, "what takes another's place is not there");
    if (r->hidden_alone && !name_is_hidden(w->name)) { /* the snapshot has it by that name */
        drop(r, with);
        return STATUS_OK;
    }
    if (there) drop(r, there);
    rename_to(with, w->name);
    with->maker = name_is_hidden(w->name) ? NOBODY : 0;
    set_version(with, w->version);
    return STATUS_OK;
}

/* ---------------------------------------------------------------- contents */

static const void *data(const struct journal_write *w, enum journal_slot slot)
{
    return w->tensors[slot].dtype ? w->tensors[slot].data : NULL;
}

static enum status write_collection(struct collection *c, const struct journal_write *w,
                                    struct failure *f)
{
    const struct tensor *ids = &w->tensors[JOURNAL_IDS];
    const struct upsert_rows what = {ids->data, w->tensors[JOURNAL_MATRIX].data, ids->rows, NULL};
    struct upsert_counts counts;
    uint64_t deleted, missing;
    if (w->kind == JOURNAL_DELETE)
        return collection_write_delete(c, ids->data, ids->rows, &deleted, &missing, f);
    if (w->tensors[JOURNAL_MATRIX].columns != collection_info(c).dimension)
        return refuse(f, "rows of another dimension than the collection's");
    return collection_write_rows(c, &what, &counts, f);
}

/* Takes memory for what the edges weigh afterwards. */
static enum status take_sums(const struct replay *r, uint64_t n, struct heap_block *out,
                             struct failure *f)
{
    enum status st = heap_take(r->heap, n ? n * sizeof(float) : 1, 0, out);
    return st ? heap_refuse(r->heap, st, 0, "what is replayed", f) : STATUS_OK;
}

static enum status add_weights(struct graph *g, const struct journal_write *w, float *sums,
                               struct failure *f)
{
    struct graph_counts counts = {0};
    const struct graph_deltas deltas = {
        .sources = data(w, JOURNAL_IDS),
        .targets = data(w, JOURNAL_TARGETS),
        .deltas = data(w, JOURNAL_WEIGHTS),
        .n = w->tensors[JOURNAL_IDS].rows,
        .low = w->numbers[0],
        .high = w->numbers[1],
        .create = w->flags & JOURNAL_CREATES,
    };
    return graph_add_weights(g, &deltas, sums, &counts, f);
}

static enum status write_graph(struct graph *g, const struct journal_write *w, float *sums,
                               struct failure *f)
{
    struct graph_counts counts = {0};
    const uint64_t *ids = data(w, JOURNAL_IDS), *targets = data(w, JOURNAL_TARGETS);
    const float *weights = data(w, JOURNAL_WEIGHTS);
    uint64_t n = w->tensors[JOURNAL_IDS].rows;
    bool replaces = w->flags & JOURNAL_REPLACES;
    switch (w->kind) {
    case JOURNAL_EDGES:
        if (w->flags & JOURNAL_COUNTED && !replaces)
            return graph_add_counted(g, ids, targets, weights, n, &counts, f);
        return graph_add_edges(g, ids, targets, weights, n, replaces, &counts, f);
    case JOURNAL_CSR:
        return graph_add_csr(g, ids, w->tensors[JOURNAL_OFFSETS].rows - 1, data(w, JOURNAL_OFFSETS),
                             targets, weights, w->tensors[JOURNAL_TARGETS].rows, replaces, &counts,
                             f);
    case JOURNAL_REMOVE_EDGES: return graph_remove_edges(g, ids, targets, n, &counts, f);
    case JOURNAL_NODES:
        return graph_set_nodes(g, ids, data(w, JOURNAL_NODE_KINDS), data(w, JOURNAL_FACTORS), n,
                               &counts, f);
    case JOURNAL_REMOVE_NODES: return graph_remove_nodes(g, ids, n, &counts, f);
    case JOURNAL_ADD_WEIGHTS: return add_weights(g, w, sums, f);
    case JOURNAL_SCALE: return graph_scale(g, w->numbers[0], f);
    case JOURNAL_PRUNE: return graph_prune(g, w->numbers[0], &counts, f);
    case JOURNAL_MARK:
    case JOURNAL_END:
    case JOURNAL_CREATE:
    case JOURNAL_DROP:
    case JOURNAL_SWAP:
    case JOURNAL_ROWS:
    case JOURNAL_DELETE:
    case JOURNAL_LEARN:
    case JOURNAL_SET_WEIGHTS:
    case JOURNAL_TOKEN:
    case JOURNAL_KINDS: break;
    }
    return refuse(f, "no write of a graph");
}

static bool goes_on(void *owner)
{
    const struct replay *r = owner;
    return !r->stop || !atomic_load_explicit(r->stop, memory_order_relaxed);
}

static enum status write_attractor(const struct replay *r, struct attractor *a,
                                   const struct journal_write *w, struct failure *f)
{
    const struct tensor *rows = &w->tensors[JOURNAL_MATRIX];
    struct attractor_wish wish = {.goes_on = goes_on, .owner = (void *)(uintptr_t)r};
    const struct attractor_patterns patterns = {.rows = rows->data, .n = rows->rows};
    if (rows->columns != attractor_info(a).dimension)
        return refuse(f, "rows of another dimension than the attractor's");
    return w->kind == JOURNAL_LEARN ? attractor_learn(a, r->kernels, &patterns, &wish, f)
                                    : attractor_set(a, rows->data, &wish, f);
}

static void expect_write(struct resident *at)
{
    switch (at->ops->kind) {
    case RESIDENT_COLLECTION: collection_expect_write((struct collection *)at); break;
    case RESIDENT_GRAPH: graph_expect_write_alone((struct graph *)at); break;
    case RESIDENT_ATTRACTOR: attractor_expect_write((struct attractor *)at); break;
    case RESIDENT_KINDS: break;
    }
}

static void publish(struct resident *at)
{
    switch (at->ops->kind) {
    case RESIDENT_COLLECTION: collection_publish((struct collection *)at); break;
    case RESIDENT_GRAPH: graph_publish((struct graph *)at); break;
    case RESIDENT_ATTRACTOR: attractor_publish((struct attractor *)at); break;
    case RESIDENT_KINDS: break;
    }
}

static enum status write_contents(const struct replay *r, struct space *space,
                                  const struct journal_write *w, float *sums, struct failure *f)
{
    struct resident *at = find(r, space, w->object, w->name);
    enum status st = STATUS_OK;
    /* It was made in a file that is gone, or that the journal's failure ended. */
    if (!at && (r->hidden_alone || name_is_hidden(w->name))) return STATUS_OK;
    if (!at) return refuse(f, "a write to what is not there");
    expect_write(at);
    replay_gate_leave(r->gate);
    switch (w->object) {
    case RESIDENT_COLLECTION: st = write_collection((struct collection *)at, w, f); break;
    case RESIDENT_GRAPH: st = write_graph((struct graph *)at, w, sums, f); break;
    case RESIDENT_ATTRACTOR: st = write_attractor(r, (struct attractor *)at, w, f); break;
    case RESIDENT_KINDS: break;
    }
    replay_gate_enter(r->gate);
    publish(at);
    struct leftovers gone = at->ops->take_gone(at);
    if (!st) set_version(at, w->version);
    replay_gate_leave(r->gate);
    at->ops->free_gone(r->heap, gone); /* which takes long if it is much */
    replay_gate_enter(r->gate);
    return st;
}

/* ---------------------------------------------------------------- all */

static enum status apply(const struct replay *r, struct space *space, const struct journal_write *w,
                         float *sums, struct failure *f)
{
    struct resident *at;
    if (w->kind == JOURNAL_SWAP) return swap(r, space, w, f);
    if (r->hidden_alone && !name_is_hidden(w->name)) return STATUS_OK;
    if (w->kind == JOURNAL_TOKEN) return STATUS_OK;
    if (w->kind == JOURNAL_CREATE) return create(r, space, w, f);
    if (w->kind != JOURNAL_DROP) return write_contents(r, space, w, sums, f);
    at = find(r, space, w->object, w->name);
    if (!at && (r->hidden_alone || name_is_hidden(w->name))) return STATUS_OK;
    if (!at) return refuse(f, "what is dropped is not there");
    drop(r, at);
    return STATUS_OK;
}

/* In the gate. */
static enum status write_in(const struct replay *r, const struct journal_write *w,
                            const struct heap_block *sums, struct failure *f)
{
    struct space *space = NULL;
    bool adds = w->kind == JOURNAL_ADD_WEIGHTS, token = w->token.token[0] || w->token.token[1];
    enum status st = store_space(r->store, w->space, &space);
    if (st) return failure_set(f, st, DETAIL_MEMORY, "no memory for a space");
    st = apply(r, space, w, sums->data, f);
    store_space_release(r->store, space);
    if (!st && token && r->token && !r->hidden_alone)
        st = r->token(r->owner, w, adds ? sums->data : NULL, f);
    if (!st && store_last_version(r->store) < w->version)
        store_restore_version(r->store, w->version);
    return st;
}

enum status replay_write(const struct replay *r, const struct journal_write *w, struct failure *f)
{
    struct failure why = {0};
    struct heap_block sums = {0};
    enum status st = STATUS_OK;
    if (w->version > MANIFEST_COUNT_MAX) return refuse(f, "version: too large");
    if (w->kind == JOURNAL_ADD_WEIGHTS)
        st = take_sums(r, w->tensors[JOURNAL_IDS].rows, &sums, &why);
    if (!st) {
        replay_gate_enter(r->gate);
        st = write_in(r, w, &sums, &why);
        replay_gate_leave(r->gate);
    }
    heap_give(r->heap, &sums);
    if (!st) return STATUS_OK;
    if (st == STATUS_RESOURCE_EXHAUSTED || st == STATUS_UNAVAILABLE)
        return failure_set(f, st, why.detail, "%s", why.text);
    return refuse(f, why.text);
}

static void drop_hidden(const struct replay *r, struct space *space)
{
    struct resident *at;
    while ((at = store_collection_made_by(space, NOBODY)))
        drop(r, at);
    while ((at = store_graph_made_by(space, NOBODY)))
        drop(r, at);
    while ((at = store_attractor_made_by(space, NOBODY)))
        drop(r, at);
}

void replay_end(const struct replay *r)
{
    replay_gate_enter(r->gate);
    for (struct space *at = store_space_next(r->store, NULL), *next; at; at = next) {
        next = store_space_next(r->store, at);
        at->users++;
        drop_hidden(r, at);
        store_space_release(r->store, at);
    }
    replay_gate_leave(r->gate);
}
