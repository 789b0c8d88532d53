#include "daemon/persist/save.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/persist/save_crew.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/restore.h"

/* ---------------------------------------------------------------- what there is */

void save_describe(struct save_item *item, const struct resident *r)
{
    struct snapshot_object *o = &item->object;
    o->kind = r->ops->kind;
    strcpy(o->space, r->space->name);
    strcpy(o->name, r->name);
    o->asked = r->asked;
    if (item->collection) {
        o->version = collection_version(item->collection);
        o->dimension = collection_dimension(item->collection);
        o->metric = collection_metric(item->collection);
        o->count = collection_rows(item->collection);
    } else if (item->graph) {
        o->version = graph_version(item->graph);
        o->count = graph_nodes(item->graph);
        o->edges = graph_edges(item->graph);
        o->bounds = graph_bounds_of(item->graph);
    } else {
        struct attractor_info info = attractor_info((const struct attractor *)r);
        o->version = attractor_version(item->attractor);
        o->patterns = attractor_patterns(item->attractor);
        o->dimension = info.dimension;
        o->sparsity = info.sparsity;
        o->rate = info.rate;
    }
}

enum { LIST_STEP = 64 };

static uint64_t list_collections(struct store *s, struct space *space, struct save_item *items)
{
    struct collection *found[LIST_STEP];
    uint64_t count = 0;
    const char *after = "";
    for (bool more = true; more;) {
        size_t n = store_collection_list(s, space, after, found, LIST_STEP, &more);
        for (size_t i = 0; i < n; i++, count++) {
            items[count].resident = collection_resident(found[i]);
            items[count].collection = collection_now(found[i]);
            save_describe(&items[count], collection_resident(found[i]));
        }
        if (n) after = collection_resident(found[n - 1])->name;
    }
    return count;
}

static uint64_t list_graphs(struct store *s, struct space *space, struct save_item *items)
{
    struct graph *found[LIST_STEP];
    uint64_t count = 0;
    const char *after = "";
    for (bool more = true; more;) {
        size_t n = store_graph_list(s, space, after, found, LIST_STEP, &more);
        for (size_t i = 0; i < n; i++, count++) {
            items[count].resident = graph_resident(found[i]);
            items[count].graph = graph_now(found[i]);
            save_describe(&items[count], graph_resident(found[i]));
        }
        if (n) after = graph_resident(found[n - 1])->name;
    }
    return count;
}

static uint64_t list_attractors(struct store *s, struct space *space,
                                const struct vector_kernels *kernels, struct save_item *items)
{
    struct attractor *found[LIST_STEP];
    uint64_t count = 0;
    const char *after = "";
    for (bool more = true; more;) {
        size_t n = store_attractor_list(s, space, after, found, LIST_STEP, &more);
        for (size_t i = 0; i < n; i++, count++) {
            items[count].resident = attractor_resident(found[i]);
            items[count].attractor = attractor_now(found[i]);
            if (kernels && attractor_is_first(items[count].attractor))
                attractor_make_all(found[i], attractor_choose(kernels->name));
            save_describe(&items[count], attractor_resident(found[i]));
        }
        if (n) after = attractor_resident(found[n - 1])->name;
    }
    return count;
}

static int compare_items(const void *a, const void *b)
{
    const struct snapshot_object *x = &((const struct save_item *)a)->object;
    const struct snapshot_object *y = &((const struct save_item *)b)->object;
    int spaces = strcmp(x->space, y->space);
    if (spaces) return spaces;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->name, y->name);
}

enum status save_list(struct store *s, const struct vector_kernels *kernels,
                      struct save_item **items, uint64_t *count, struct failure *f)
{
    uint64_t all = 0, n = 0;
    for (const struct space *at = NULL; (at = store_space_next(s, at));)
        all += at->collection_count + at->graph_count + at->attractor_count;
    struct save_item *list = fault_here("save: list") ? NULL : calloc(all + 1, sizeof *list);
    if (!list)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a snapshot");
    for (struct space *at = NULL; (at = store_space_next(s, at));) {
        n += list_collections(s, at, list + n);
        n += list_graphs(s, at, list + n);
        n += list_attractors(s, at, kernels, list + n);
    }
    qsort(list, n, sizeof *list, compare_items);
    *items = list;
    *count = n;
    return STATUS_OK;
}

/* ---------------------------------------------------------------- links */

static const struct snapshot_object *find_same(const struct save *s,
                                               const struct snapshot_object *o)
{
    for (uint64_t i = 0; s->last && i < s->last->object_count; i++) {
        const struct snapshot_object *was = &s->last->objects[i];
        if (was->version == o->version && was->kind == o->kind && was->count == o->count &&
            was->edges == o->edges && strcmp(was->name, o->name) == 0 &&
            strcmp(was->space, o->space) == 0)
            return was;
    }
    return NULL;
}

static bool copy_entry(struct array_entry *to, const struct array_entry *from)
{
    uint64_t *pieces =
        fault_here("save: link entry") ? NULL : malloc((from->piece_count + 1) * sizeof *pieces);
    if (!pieces) return false;
    memcpy(pieces, from->pieces, from->piece_count * sizeof *pieces);
    memcpy(to->sha256, from->sha256, sizeof to->sha256);
    array_entry_free(to);
    to->pieces = pieces;
    to->piece_count = from->piece_count;
    if (from->is_zstd) snapshot_name_zstd(to);
    to->zstd_bytes = from->zstd_bytes;
    return true;
}

/* Links the files of an object that has not changed, plain or not; number: its own. False: it has,
 * or cannot be linked. */
static bool link_object(const struct save *s, int last, int to, struct snapshot_object *o,
                        uint64_t number)
{
    const struct snapshot_object *was = last < 0 ? NULL : find_same(s, o);
    if (!was) return false;
    uint32_t count = snapshot_array_count(o->kind), done = 0;
    for (; done < count; done++) {
        if (!copy_entry(&o->files[done], &was->files[done])) break;
        if (fault_here("save: link") ||
            linkat(last, was->files[done].name, to, o->files[done].name, 0))
            break;
    }
    if (done == count) return true;
    for (uint32_t i = 0; i < count; i++) {
        if (i < done) unlinkat(to, o->files[i].name, 0);
        array_entry_free(&o->files[i]);
    }
    snapshot_name_files(o, number);
    return false;
}

/* ---------------------------------------------------------------- writing */

enum status save_check_room(const struct save *s, uint64_t *out, struct failure *f)
{
    uint64_t bytes = s->tokens ? s->tokens->bytes : 0, room = folder_free_bytes(s->folder);
    for (uint64_t i = 0; i < s->count; i++)
        if (!find_same(s, &s->items[i].object)) bytes += snapshot_object_bytes(&s->items[i].object);
    if (out) *out = bytes;
    if (bytes <= room) return STATUS_OK;
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_SYSTEM,
                       "%.100s: %" PRIu64 " MiB are to be written and %" PRIu64 " MiB are free",
                       s->folder->path, (bytes >> 20) + 1, room >> 20);
}

static enum status write_objects(struct save *s, int last, int to, struct failure *f)
{
    for (uint64_t i = 0; i < s->count; i++) {
        struct save_item *item = &s->items[i];
        uint64_t bytes = snapshot_object_bytes(&item->object);
        if (atomic_load(&s->meter->stop))
            return failure_set(f, STATUS_CANCELLED, DETAIL_NONE, "the save was given up");
        item->linked = link_object(s, last, to, &item->object, i + 1);
        if (!item->linked) continue;
        atomic_fetch_add(&s->meter->done_bytes, bytes);
        atomic_fetch_add(&s->meter->linked_bytes, bytes);
    }
    struct save_crew crew = {.folder = to,
                             .items = s->items,
                             .count = s->count,
                             .meter = s->meter,
                             .zstd = s->zstd,
                             .threads = s->threads,
                             .object_done = s->object_done,
                             .owner = s->owner};
    return save_crew_write(&crew, f);
}

static enum status write_tokens(const struct save *s, int to, struct array_entry *file,
                                struct failure *f)
{
    struct array_file *a = NULL;
    if (!s->tokens || !s->tokens->bytes) return STATUS_OK;
    strcpy(file->name, TOKEN_FILE_NAME);
    file->shape = (struct npy_shape){NPY_UINT8, s->tokens->bytes, 0};
    enum status st = array_create(to, file, 0, &a, f);
    if (!st && (st = array_write(a, s->tokens->data, s->tokens->bytes, f))) {
        array_abandon(a);
        return st;
    }
    return st ? st : array_end_write(a, f);
}

static enum status write_manifest(struct save *s, int to, struct manifest *m, struct failure *f)
{
    char *text = NULL;
    size_t bytes = 0;
    *m = s->about;
    enum status st = write_tokens(s, to, &m->tokens, f);
    if (st) {
        array_entry_free(&m->tokens);
        return st;
    }
    m->objects = calloc(s->count + 1, sizeof *m->objects);
    if (!m->objects) {
        array_entry_free(&m->tokens);
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a manifest");
    }
    m->object_count = s->count;
    for (uint64_t i = 0; i < s->count; i++) {
        m->objects[i] = s->items[i].object;
        memset(s->items[i].object.files, 0, sizeof s->items[i].object.files); /* they are m's */
    }
    st = manifest_print(m, s->key, &text, &bytes, f);
    if (!st) st = folder_write_file(to, "manifest.json", text, bytes, f);
    free(text);
    if (st) manifest_free(m);
    return st;
}

static enum status commit(const struct save *s, int to, struct failure *f)
{
    enum status st = s->before_commit ? s->before_commit(s->owner, f) : STATUS_OK;
    return st ? st : folder_commit(s->folder, s->number, to, f);
}

enum status save_write(struct save *s, struct manifest *out, struct failure *f)
{
    int to = -1, last = -1;
    struct manifest m = {0};
    uint64_t all = 0;
    for (uint64_t i = 0; i < s->count; i++) {
        snapshot_name_files(&s->items[i].object, i + 1);
        all += snapshot_object_bytes(&s->items[i].object);
    }
    atomic_store(&s->meter->all_bytes, all);
    enum status st = save_check_room(s, NULL, f);
    if (!st) st = folder_begin(s->folder, s->number, &to, f);
    if (!st) {
        if (s->last_number) last = folder_open_snapshot(s->folder->fd, s->last_number);
        st = write_objects(s, last, to, f);
        if (!st) st = write_manifest(s, to, &m, f);
        if (!st) st = commit(s, to, f);
        if (st) manifest_free(&m);
        if (last >= 0) close(last);
        close(to);
        if (st) folder_abandon(s->folder, s->number);
    }
    for (uint64_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < SNAPSHOT_ARRAYS_MAX; k++)
            array_entry_free(&s->items[i].object.files[k]);
    if (!st) *out = m;
    return st;
}

void save_log(const struct save *s, const struct folder *folder, uint64_t number, uint64_t began_ns)
{
    log_info("persist: saved %" PRIu64 " object%s, %llu MiB of which %llu are unchanged, in "
             "%.100s/snapshot-%012" PRIu64 " in %.1f s",
             s->count, s->count == 1 ? "" : "s", (unsigned long long)(s->meter->all_bytes >> 20),
             (unsigned long long)(s->meter->linked_bytes >> 20), folder->path, number,
             (double)(clock_now_ns() - began_ns) * 1e-9);
}
