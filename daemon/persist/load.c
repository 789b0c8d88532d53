#include "daemon/persist/load.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/secret.h"
#include "daemon/heap/shared_block.h"
#include "daemon/persist/folder.h"
#include "daemon/store/attractor.h"
#include "daemon/store/graph.h"
#include "daemon/store/restore.h"

enum { MANIFEST_BYTES_MAX = 1 << 30 };
/* Of rows at once: their memory becomes the collection's. */
#define BATCH_BYTES (UINT64_C(32) << 20)
/* Of edges at once: the first are laid out together, which is worth most. */
#define BATCH_EDGES (UINT64_C(1) << 26)

enum status load_manifest(int folder, const struct manifest_key *key, struct manifest *out,
                          struct failure *f)
{
    char *text = NULL;
    size_t bytes = 0;
    enum status st =
        folder_read_file(folder, "manifest.json", MANIFEST_BYTES_MAX, &text, &bytes, f);
    if (!st) st = manifest_parse(text, bytes, key, out, f);
    free(text);
    return st;
}

enum status load_key(const char *path, struct manifest_key *key, struct failure *f)
{
    uint8_t bytes[MANIFEST_KEY_MAX + 1];
    if (!path[0]) return STATUS_OK;
    /* A pipe that nobody writes to must not hold up the start. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const char *wrong = fd < 0 ? strerror(errno) : secret_file_fault(fd);
    ssize_t n = wrong ? 0 : read(fd, bytes, sizeof bytes);
    if (n < 0) wrong = strerror(errno);
    if (fd >= 0) close(fd);
    if (wrong)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM,
                           "persist.key_file: %.120s: %s", path, wrong);
    if (n < 1 || n > MANIFEST_KEY_MAX)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM,
                           "persist.key_file: %.100s: a file of 1 to %d bytes is wanted", path,
                           MANIFEST_KEY_MAX);
    memcpy(key->bytes, bytes, (size_t)n);
    key->count = (uint32_t)n;
    OPENSSL_cleanse(bytes, sizeof bytes);
    return STATUS_OK;
}

/* Contents that the store refuses are damaged; that there is no memory for them is not. */
static enum status refuse(const struct snapshot_object *o, enum status st, struct failure *f)
{
    if (st == STATUS_RESOURCE_EXHAUSTED || st == STATUS_UNAVAILABLE || st == STATUS_DATA_LOSS ||
        st == STATUS_CANCELLED)
        return st;
    struct failure why = *f;
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s: %.160s", o->files[0].name,
                       why.text);
}

static enum status refuse_contents(const struct snapshot_object *o, const char *why,
                                   struct failure *f)
{
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s: %s", o->files[0].name, why);
}

static enum status take(struct loading *l, uint64_t bytes, uint32_t owner, struct heap_block *out,
                        struct failure *f)
{
    enum status st = fault_here("load: memory") ? STATUS_RESOURCE_EXHAUSTED
                                                : heap_take(l->heap, bytes ? bytes : 1, owner, out);
    return st ? heap_refuse(l->heap, st, owner, "what is loaded", f) : STATUS_OK;
}

static enum status read_some(struct loading *l, struct array_file *a, void *data, uint64_t bytes,
                             struct failure *f)
{
    if (atomic_load_explicit(&l->stop, memory_order_relaxed))
        return failure_set(f, STATUS_CANCELLED, DETAIL_NONE, "loading was stopped");
    enum status st = array_read(a, data, bytes, f);
    atomic_fetch_add_explicit(&l->done_bytes, bytes, memory_order_relaxed);
    return st;
}

/* ---------------------------------------------------------------- collections */

struct rows_load {
    struct loading *load;
    const struct snapshot_object *object;
    struct collection *c;
    struct array_file *ids, *rows;
};

/* Rows are copied to where the collection has them: what they are read to comes and goes. */
static enum status add_batch(struct rows_load *r, uint64_t count, struct failure *f)
{
    struct loading *l = r->load;
    uint32_t owner = collection_space(r->c)->number;
    struct heap_block rows = {0}, ids = {0};
    struct upsert_counts counts = {0};
    uint64_t bytes = count * r->object->dimension * sizeof(float);
    enum status st = take(l, count * sizeof(uint64_t), 0, &ids, f);
    if (!st) st = take(l, bytes, owner, &rows, f);
    if (!st) heap_populate(rows.data, bytes);
    if (!st) st = read_some(l, r->ids, ids.data, count * sizeof(uint64_t), f);
    if (!st) st = read_some(l, r->rows, rows.data, bytes, f);
    if (!st) {
        struct shared_block *shared =
            fault_here("load: shared") ? NULL : shared_block_make(l->heap, &rows);
        struct upsert_rows what = {ids.data, rows.data, count, shared};
        collection_expect_write(r->c);
        st = collection_write_rows(r->c, &what, &counts, f);
        collection_publish(r->c);
        gone_free(l->heap, collection_take_gone(r->c));
        if (shared) shared_block_end(shared, &rows);
    }
    heap_give(l->heap, &rows);
    heap_give(l->heap, &ids);
    if (!st && counts.replaced) st = refuse_contents(r->object, "an id stands there twice", f);
    return st;
}

static enum status fill_collection(struct rows_load *r, struct failure *f)
{
    const struct snapshot_object *o = r->object;
    uint64_t each = collection_segment_rows(collection_now(r->c));
    uint64_t segments = BATCH_BYTES / (each * o->dimension * sizeof(float)) + 1;
    enum status st = array_open(r->load->folder, &o->files[0], false, &r->ids, f);
    if (!st) st = array_open(r->load->folder, &o->files[1], false, &r->rows, f);
    for (uint64_t first = 0, count; !st && first < o->count; first += count) {
        count = o->count - first < segments * each ? o->count - first : segments * each;
        st = add_batch(r, count, f);
    }
    struct array_file *ids = r->ids, *rows = r->rows;
    if (!st) {
        st = array_end_read(ids, f);
        ids = NULL;
    }
    if (!st) {
        st = array_end_read(rows, f);
        rows = NULL;
    }
    array_abandon(ids);
    array_abandon(rows);
    return st;
}

static enum status load_collection(struct loading *l, const struct load_item *item,
                                   struct failure *f)
{
    struct rows_load r = {.load = l, .object = item->object, .c = item->collection};
    enum status st = fill_collection(&r, f);
    if (!st) collection_restore(r.c, item->object->version);
    return st;
}

/* ---------------------------------------------------------------- graphs */

struct edges_load {
    struct loading *load;
    const struct snapshot_object *object;
    struct graph *g;
    struct heap_block ids, offsets;
    struct array_file *targets, *weights;
    uint64_t row; /* the node whose edges come next */
};

/* Reads a whole array. */
static enum status read_array(struct loading *l, const struct array_entry *file,
                              struct heap_block *out, struct failure *f)
{
    struct array_file *a = NULL;
    uint64_t bytes = npy_file_bytes(&file->shape) - NPY_HEAD_BYTES;
    enum status st = take(l, bytes, 0, out, f);
    if (!st) st = array_open(l->folder, file, false, &a, f);
    if (!st && (st = read_some(l, a, out->data, bytes, f))) {
        array_abandon(a);
        a = NULL;
    }
    return st ? st : array_end_read(a, f);
}

static enum status load_nodes(struct edges_load *e, struct failure *f)
{
    const struct snapshot_object *o = e->object;
    struct heap_block kinds = {0}, factors = {0};
    struct graph_counts counts = {0};
    enum status st = read_array(e->load, &o->files[0], &e->ids, f);
    if (!st) st = read_array(e->load, &o->files[1], &kinds, f);
    if (!st) st = read_array(e->load, &o->files[2], &factors, f);
    if (!st)
        st = graph_set_nodes(e->g, e->ids.data, kinds.data, factors.data, o->count, &counts, f);
    heap_give(e->load->heap, &kinds);
    heap_give(e->load->heap, &factors);
    return st;
}

static enum status check_offsets(const struct snapshot_object *o, const uint64_t *offsets,
                                 struct failure *f)
{
    bool ok = offsets[0] == 0 && offsets[o->count] == o->edges;
    for (uint64_t i = 0; ok && i < o->count; i++)
        ok = offsets[i] <= offsets[i + 1];
    return ok ? STATUS_OK : refuse_contents(o, "offsets of edges fall, or are not all", f);
}

/* Edges [first, first + count), whose sources follow from the offsets. */
static enum status add_edges(struct edges_load *e, uint64_t first, uint64_t count,
                             struct failure *f)
{
    struct heap_block sources = {0}, targets = {0}, weights = {0};
    struct graph_counts counts = {0};
    struct loading *l = e->load;
    enum status st = take(l, count * sizeof(uint64_t), 0, &sources, f);
    if (!st) st = take(l, count * sizeof(uint64_t), 0, &targets, f);
    if (!st) st = take(l, count * sizeof(float), 0, &weights, f);
    if (!st) st = read_some(l, e->targets, targets.data, count * sizeof(uint64_t), f);
    if (!st) st = read_some(l, e->weights, weights.data, count * sizeof(float), f);
    const uint64_t *ids = e->ids.data, *offsets = e->offsets.data;
    for (uint64_t i = 0; !st && i < count; i++) {
        while (offsets[e->row + 1] <= first + i)
            e->row++;
        ((uint64_t *)sources.data)[i] = ids[e->row];
    }
    if (!st)
        st = graph_add_edges(e->g, sources.data, targets.data, weights.data, count, false, &counts,
                             f);
    heap_give(l->heap, &sources);
    heap_give(l->heap, &targets);
    heap_give(l->heap, &weights);
    return st;
}

static enum status load_edges(struct edges_load *e, struct failure *f)
{
    const struct snapshot_object *o = e->object;
    enum status st = read_array(e->load, &o->files[3], &e->offsets, f);
    if (!st) st = check_offsets(o, e->offsets.data, f);
    if (!st) st = array_open(e->load->folder, &o->files[4], false, &e->targets, f);
    if (!st) st = array_open(e->load->folder, &o->files[5], false, &e->weights, f);
    for (uint64_t first = 0; !st && first < o->edges; first += BATCH_EDGES) {
        uint64_t left = o->edges - first;
        st = add_edges(e, first, left < BATCH_EDGES ? left : BATCH_EDGES, f);
    }
    if (!st) {
        st = array_end_read(e->targets, f);
        e->targets = NULL;
    }
    if (!st) {
        st = array_end_read(e->weights, f);
        e->weights = NULL;
    }
    array_abandon(e->targets);
    array_abandon(e->weights);
    return st;
}

static enum status load_graph(struct loading *l, const struct load_item *item, struct failure *f)
{
    const struct snapshot_object *o = item->object;
    struct edges_load e = {.load = l, .object = o, .g = item->graph};
    enum status st = load_nodes(&e, f);
    if (!st) st = load_edges(&e, f);
    heap_give(l->heap, &e.ids);
    heap_give(l->heap, &e.offsets);
    struct graph_info info = graph_info(e.g);
    if (!st && (info.nodes != o->count || info.edges != o->edges))
        st = refuse_contents(o, "an edge leads to a node that is not there", f);
    if (!st) graph_restore(e.g, o->version, &o->bounds);
    return st;
}

/* ---------------------------------------------------------------- attractors */

static bool go_on(void *owner)
{
    return true;
}

static enum status load_attractor(struct loading *l, const struct load_item *item,
                                  struct failure *f)
{
    const struct snapshot_object *o = item->object;
    struct attractor *a = item->attractor;
    struct heap_block rows = {0};
    struct attractor_wish wish = {.goes_on = go_on};
    attractor_make_all(a, attractor_choose(l->kernels->name));
    attractor_open(a);
    enum status st = read_array(l, &o->files[0], &rows, f);
    if (!st) {
        struct resident *r = attractor_resident(a);
        attractor_expect_write(a);
        st = attractor_set(a, rows.data, &wish, f);
        attractor_publish(a);
        r->ops->free_gone(l->heap, r->ops->take_gone(r));
    }
    heap_give(l->heap, &rows);
    if (!st) attractor_restore(a, o->version, o->patterns);
    return st;
}

/* ---------------------------------------------------------------- all */

static enum status make_resident(struct loading *l, struct load_item *item, struct failure *f)
{
    const struct snapshot_object *o = item->object;
    struct attractor_shape shape = {o->dimension, o->sparsity, o->rate};
    switch (o->kind) {
    case RESIDENT_COLLECTION:
        return store_collection_prepare(l->store, item->space, o->name, o->dimension, o->metric, f,
                                        &item->collection);
    case RESIDENT_GRAPH:
        return store_graph_prepare(l->store, item->space, o->name, f, &item->graph);
    case RESIDENT_ATTRACTOR:
        return store_attractor_prepare(l->store, item->space, o->name, &shape, f, &item->attractor);
    case RESIDENT_KINDS: break;
    }
    return STATUS_INTERNAL;
}

enum status load_make(struct loading *l, const struct snapshot_object *o, struct load_item *item,
                      struct failure *f)
{
    struct load_item made = {.object = o};
    struct failure why = {0};
    enum status st = store_space(l->store, o->space, &made.space);
    if (st) return failure_set(f, st, DETAIL_MEMORY, "no memory for a space");
    st = make_resident(l, &made, &why);
    if (!st) {
        *item = made;
        return STATUS_OK;
    }
    store_space_release(l->store, made.space);
    st = refuse(o, st, &why);
    if (f) *f = why;
    return st;
}

enum status load_fill(struct loading *l, struct load_item *item, struct failure *f)
{
    struct failure why = {0};
    enum status st = STATUS_INTERNAL;
    switch (item->object->kind) {
    case RESIDENT_COLLECTION: st = load_collection(l, item, &why); break;
    case RESIDENT_GRAPH: st = load_graph(l, item, &why); break;
    case RESIDENT_ATTRACTOR: st = load_attractor(l, item, &why); break;
    case RESIDENT_KINDS: break;
    }
    if (st) st = refuse(item->object, st, &why);
    if (st && f) *f = why;
    return st;
}

enum status load_link(struct loading *l, struct load_item *item, struct failure *f)
{
    struct failure why = {0};
    enum status st = STATUS_INTERNAL;
    if (item->collection) st = store_collection_link(l->store, item->collection, &why);
    if (item->graph) st = store_graph_link(l->store, item->graph, &why);
    if (item->attractor) st = store_attractor_link(l->store, item->attractor, &why);
    if (!st) {
        struct resident *r = item->collection ? collection_resident(item->collection)
                             : item->graph    ? graph_resident(item->graph)
                                              : attractor_resident(item->attractor);
        r->asked = item->object->asked / 2; /* what was asked long ago counts less */
        store_space_release(l->store, item->space);
        *item = (struct load_item){.object = item->object};
        return STATUS_OK;
    }
    st = refuse(item->object, st, &why);
    if (f) *f = why;
    return st;
}

void load_empty(struct load_item *item)
{
    collection_destroy(item->collection);
    graph_destroy(item->graph);
    attractor_destroy(item->attractor);
    *item = (struct load_item){.object = item->object, .space = item->space};
}

void load_discard(struct loading *l, struct load_item *item)
{
    load_empty(item);
    if (item->space) store_space_release(l->store, item->space);
    *item = (struct load_item){.object = item->object};
}

enum status load_object(struct loading *l, const struct snapshot_object *o, struct failure *f)
{
    struct load_item item;
    enum status st = load_make(l, o, &item, f);
    if (st) return st;
    st = load_fill(l, &item, f);
    if (!st) st = load_link(l, &item, f);
    if (st) load_discard(l, &item);
    return st;
}

enum status load_tokens(int folder, const struct manifest *m, struct token_bytes *out,
                        struct failure *f)
{
    struct token_bytes t = {.bytes = m->tokens.shape.rows};
    struct array_file *a = NULL;
    if (!t.bytes) return STATUS_OK;
    t.data = fault_here("load: tokens") ? NULL : malloc(t.bytes);
    if (!t.data)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for tokens");
    enum status st = array_open(folder, &m->tokens, true, &a, f);
    if (!st && (st = array_read(a, t.data, t.bytes, f)))
        array_abandon(a);
    else if (!st)
        st = array_end_read(a, f);
    if (!st) st = token_bytes_check(&t, f);
    if (st)
        token_bytes_free(&t);
    else
        *out = t;
    return st;
}

enum status load_verify(int folder, const struct snapshot_object *o, struct failure *f)
{
    enum status st = STATUS_OK;
    for (uint32_t i = 0; !st && i < snapshot_array_count(o->kind); i++) {
        struct array_file *a = NULL;
        st = array_open(folder, &o->files[i], true, &a, f);
        if (!st) st = array_end_read(a, f);
    }
    return st;
}
