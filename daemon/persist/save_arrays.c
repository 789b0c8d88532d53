#include "daemon/persist/save_arrays.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/store/attractor.h"

enum { ROOM_BYTES = 4 << 20 }; /* of what is put together before it is written */

struct source {
    const struct save_item *item;
    struct spread_graph graph;
    uint32_t nodes; /* numbers, free ones included */
    char *room;
    size_t used;
    struct array_file *file;
    struct save_meter *meter;
};

static bool is_stopped(const struct save_meter *m)
{
    return atomic_load_explicit(&m->stop, memory_order_relaxed) ||
           atomic_load_explicit(&m->failed, memory_order_relaxed);
}

/* The next ns of those that the writers take in turn. Returns when they end. */
static uint64_t take_turn(struct save_meter *m, uint64_t ns)
{
    unsigned long long last = atomic_load(&m->paced_ns), end;
    do {
        uint64_t now_ns = clock_now_ns();
        end = (last < now_ns ? now_ns : last) + ns;
    } while (!atomic_compare_exchange_weak(&m->paced_ns, &last, end));
    return end;
}

/* Waits until so many bytes more may be written; the rate may change meanwhile. */
static void pace(struct save_meter *m, uint64_t bytes)
{
    enum { NAP_NS = 10000000, SECOND_NS = 1000000000 };
    uint64_t left = bytes, now_ns;
    for (uint64_t rate; left && (rate = atomic_load(&m->rate)) && !is_stopped(m);) {
        uint64_t step = rate / 100 + 1 < left ? rate / 100 + 1 : left;
        uint64_t end_ns = take_turn(m, step * SECOND_NS / rate);
        left -= step;
        while ((now_ns = clock_now_ns()) < end_ns && atomic_load(&m->rate) && !is_stopped(m)) {
            uint64_t ns = end_ns - now_ns < NAP_NS ? end_ns - now_ns : NAP_NS;
            nanosleep(&(struct timespec){0, (long)ns}, NULL);
        }
    }
}

/* kept: data stays as it is until the file is ended. */
static enum status put(struct source *s, const void *data, uint64_t bytes, bool kept,
                       struct failure *f)
{
    const char *from = data;
    enum status st = STATUS_OK;
    for (uint64_t n; !st && bytes; bytes -= n, from += n) {
        n = bytes < ROOM_BYTES ? bytes : ROOM_BYTES;
        pace(s->meter, n);
        if (is_stopped(s->meter))
            return failure_set(f, STATUS_CANCELLED, DETAIL_NONE, "the save was given up");
        st = kept ? array_write_kept(s->file, from, n, f) : array_write(s->file, from, n, f);
        atomic_fetch_add_explicit(&s->meter->done_bytes, n, memory_order_relaxed);
    }
    return st;
}

static enum status flush(struct source *s, struct failure *f)
{
    size_t bytes = s->used;
    s->used = 0;
    return put(s, s->room, bytes, false, f);
}

/* Small pieces are put together. */
static enum status add(struct source *s, const void *data, size_t bytes, struct failure *f)
{
    enum status st = s->used + bytes > ROOM_BYTES ? flush(s, f) : STATUS_OK;
    memcpy(s->room + s->used, data, bytes);
    s->used += bytes;
    return st;
}

/* ---------------------------------------------------------------- of a collection */

static enum status write_row_block(struct source *s, const struct row_block *b, uint32_t dimension,
                                   struct failure *f)
{
    size_t stride = vector_stride(dimension), bytes = dimension * sizeof(float);
    if (stride == dimension) return put(s, b->rows, b->count * bytes, true, f);
    enum status st = STATUS_OK;
    for (size_t i = 0; !st && i < b->count; i++)
        st = add(s, b->rows + i * stride, bytes, f);
    return st;
}

static enum status write_collection(struct source *s, enum snapshot_array array, struct failure *f)
{
    const struct edition *e = s->item->collection;
    uint64_t rows = s->item->object.count, each = collection_segment_rows(e);
    enum status st = STATUS_OK;
    for (uint64_t first = 0; !st && first < rows; first += each) {
        const uint64_t *ids;
        uint64_t count = rows - first < each ? rows - first : each;
        struct row_block b = collection_block(e, first, count, &ids);
        st = array == ARRAY_IDS ? put(s, ids, count * sizeof *ids, true, f)
                                : write_row_block(s, &b, collection_dimension(e), f);
    }
    return st;
}

/* ---------------------------------------------------------------- of a graph */

/* Numbers that are free have the id of nobody, or one that another number has. */
static bool is_node(const struct source *s, uint32_t number)
{
    uint64_t id = s->graph.ids[number];
    return id != UINT64_MAX && graph_find(s->item->graph, id) == number;
}

static enum status write_offsets(struct source *s, struct failure *f)
{
    uint64_t at = 0;
    enum status st = add(s, &at, sizeof at, f);
    for (uint32_t n = 0; !st && n < s->nodes; n++) {
        if (!is_node(s, n)) continue;
        at += spread_out_list(&s->graph, n)->count;
        st = add(s, &at, sizeof at, f);
    }
    return st;
}

static enum status write_nodes(struct source *s, enum snapshot_array array, struct failure *f)
{
    const struct spread_graph *g = &s->graph;
    enum status st = STATUS_OK;
    for (uint32_t n = 0; !st && n < s->nodes; n++) {
        uint8_t kind = g->kinds ? g->kinds[n] : (uint8_t)SPREAD_PLAIN;
        float factor = g->factors ? g->factors[n] : 1.0f;
        if (!is_node(s, n)) continue;
        if (array == ARRAY_IDS)
            st = add(s, &g->ids[n], sizeof *g->ids, f);
        else if (array == ARRAY_KINDS)
            st = add(s, &kind, sizeof kind, f);
        else
            st = add(s, &factor, sizeof factor, f);
    }
    return st;
}

static enum status write_edges(struct source *s, enum snapshot_array array, struct failure *f)
{
    const struct spread_graph *g = &s->graph;
    enum status st = STATUS_OK;
    for (uint32_t n = 0; !st && n < s->nodes; n++) {
        const struct spread_list *list = spread_out_list(g, n);
        const struct spread_edge *edges = list->count ? g->out_edges + list->first : NULL;
        if (!list->count || !is_node(s, n)) continue;
        for (uint32_t i = 0; !st && i < list->count; i++)
            st = array == ARRAY_TARGETS ? add(s, &g->ids[edges[i].node], sizeof *g->ids, f)
                                        : add(s, &edges[i].weight, sizeof edges[i].weight, f);
    }
    return st;
}

static enum status write_graph(struct source *s, enum snapshot_array array, struct failure *f)
{
    if (array == ARRAY_OFFSETS) return write_offsets(s, f);
    bool edges = array == ARRAY_TARGETS || array == ARRAY_WEIGHTS;
    return edges ? write_edges(s, array, f) : write_nodes(s, array, f);
}

/* ---------------------------------------------------------------- of an attractor */

/* W lies by columns, and is written by rows. */
static enum status write_matrix(struct source *s, struct failure *f)
{
    uint32_t d = s->item->object.dimension;
    size_t stride = vector_stride(d);
    const float *columns = attractor_columns(s->item->attractor);
    enum status st = STATUS_OK;
    for (uint32_t i = 0; !st && i < d; i++)
        for (uint32_t j = 0; !st && j < d; j++)
            st = add(s, &columns[j * stride + i], sizeof *columns, f);
    return st;
}

/* ---------------------------------------------------------------- all */

static enum status write_array(struct source *s, enum snapshot_array array, struct failure *f)
{
    enum status st = STATUS_OK;
    switch (s->item->object.kind) {
    case RESIDENT_COLLECTION: st = write_collection(s, array, f); break;
    case RESIDENT_GRAPH: st = write_graph(s, array, f); break;
    case RESIDENT_ATTRACTOR: st = write_matrix(s, f); break;
    case RESIDENT_KINDS: break;
    }
    return st ? st : flush(s, f);
}

enum status save_writer_open(struct save_writer *w, struct failure *f)
{
    w->room = fault_here("save: room") ? NULL : malloc(ROOM_BYTES);
    if (w->room) return STATUS_OK;
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a snapshot");
}

void save_writer_close(struct save_writer *w)
{
    free(w->room);
    w->room = NULL;
}

enum status save_array(const struct save_writer *w, struct save_item *item, uint32_t i,
                       struct failure *f)
{
    struct source s = {.item = item, .meter = w->meter, .room = w->room};
    struct snapshot_object *o = &item->object;
    if (item->graph) {
        s.graph = graph_view(item->graph);
        s.nodes = s.graph.nodes;
    }
    if (w->zstd) snapshot_name_zstd(&o->files[i]);
    enum status st = array_create(w->folder, &o->files[i], w->zstd, &s.file, f);
    if (st) return st;
    atomic_fetch_add_explicit(&w->meter->done_bytes, NPY_HEAD_BYTES, memory_order_relaxed);
    st = write_array(&s, snapshot_array_at(o->kind, i), f);
    if (!st) return array_end_write_late(s.file, w->late, f);
    array_abandon(s.file);
    return st;
}
