#include "daemon/persist/save_crew.h"

#include <pthread.h>

#include "daemon/base/fault.h"
#include "daemon/base/thread.h"
#include "daemon/persist/save_arrays.h"

enum {
    PROCESSORS_EACH = 4,   /* a thread and the one that makes its sums leave as many to others */
    LARGE_BYTES = 1 << 20, /* smaller files are not worth a thread */
};

struct crew_work {
    const struct save_crew *crew;
    /* what follows: under the lock */
    pthread_mutex_t lock;
    uint64_t item; /* the next file to be written */
    uint32_t file;
    uint64_t done; /* the first items, of which all files are written */
    struct failure failure;
};

static void fail(struct crew_work *w, const struct failure *why)
{
    pthread_mutex_lock(&w->lock);
    if (!w->failure.code) w->failure = *why;
    pthread_mutex_unlock(&w->lock);
    atomic_store(&w->crew->meter->failed, true);
}

static bool take(struct crew_work *w, struct save_item **item, uint32_t *file)
{
    const struct save_crew *s = w->crew;
    bool found = false;
    pthread_mutex_lock(&w->lock);
    while (!found && w->item < s->count && !w->failure.code) {
        struct save_item *at = &s->items[w->item];
        found = !at->linked && w->file < snapshot_array_count(at->object.kind);
        if (found) {
            *item = at;
            *file = w->file++;
        } else {
            w->item++;
            w->file = 0;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return found;
}

/* Objects are given back in their order, whichever is written first. */
static void note_written(struct crew_work *w, struct save_item *item)
{
    const struct save_crew *s = w->crew;
    pthread_mutex_lock(&w->lock);
    if (item) item->files_written++;
    uint64_t before = w->done;
    while (w->done < s->count) {
        const struct save_item *at = &s->items[w->done];
        if (!at->linked && at->files_written < snapshot_array_count(at->object.kind)) break;
        w->done++;
    }
    bool more = w->done > before;
    if (more) atomic_store(&s->meter->objects, w->done);
    pthread_mutex_unlock(&w->lock);
    if (more && s->object_done) s->object_done(s->owner);
}

static void write_files(struct crew_work *w)
{
    struct array_late late = {.count = 0};
    struct save_writer writer = {
        .folder = w->crew->folder, .meter = w->crew->meter, .late = &late, .zstd = w->crew->zstd};
    struct save_item *item;
    uint32_t file;
    struct failure f = {0};
    enum status st = save_writer_open(&writer, &f);
    while (!st && take(w, &item, &file)) {
        if (atomic_load(&writer.meter->stop))
            st = failure_set(&f, STATUS_CANCELLED, DETAIL_NONE, "the save was given up");
        else
            st = save_array(&writer, item, file, &f);
        if (!st) note_written(w, item);
    }
    save_writer_close(&writer);
    if (st) fail(w, &f);
    st = array_sync_late(&late, &f);
    if (st) fail(w, &f);
}

static void *run(void *arg)
{
    write_files(arg);
    return NULL;
}

static uint32_t wanted_threads(const struct save_crew *s)
{
    uint32_t most = s->threads ? s->threads : thread_processors() / PROCESSORS_EACH, large = 0;
    if (most > SAVE_THREADS_MAX) most = SAVE_THREADS_MAX;
    for (uint64_t i = 0; i < s->count && large < most; i++) {
        const struct snapshot_object *o = &s->items[i].object;
        for (uint32_t k = 0; !s->items[i].linked && k < snapshot_array_count(o->kind); k++)
            large += npy_file_bytes(&o->files[k].shape) >= LARGE_BYTES;
    }
    return large < most ? large : most;
}

enum status save_crew_write(const struct save_crew *crew, struct failure *f)
{
    struct crew_work w = {.crew = crew};
    pthread_t threads[SAVE_THREADS_MAX];
    uint32_t wanted = wanted_threads(crew), count = 0;
    pthread_mutex_init(&w.lock, NULL);
    note_written(&w, NULL);
    while (count + 1 < wanted && !fault_here("save: thread") &&
           !thread_start(&threads[count], run, &w))
        count++;
    write_files(&w);
    while (count)
        pthread_join(threads[--count], NULL);
    pthread_mutex_destroy(&w.lock);
    if (w.failure.code) *f = w.failure;
    return w.failure.code;
}
