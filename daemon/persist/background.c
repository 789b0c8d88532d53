/* background: a save while the daemon serves. The loop begins it with editions that are pinned, a
 * thread writes them, and the loop takes the end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"
#include "daemon/persist/persist_inside.h"

struct background {
    struct persist *persist;
    pthread_t thread;
    struct save save;
    struct save_meter meter;
    struct folder other; /* that is saved to; fd < 0: it is persist's own */
    struct manifest made;
    struct persist_report report;
    bool elsewhere, dry_run;
    uint32_t keep; /* snapshots that stay in persist's own */
    uint64_t began_ns;
    atomic_bool ended;
};

static void wake(void *owner)
{
    const struct persist *p = owner;
    if (p->options.wake) p->options.wake(p->options.owner);
}

static enum status check_other(const struct background *b, struct failure *f)
{
    const struct persist *p = b->persist;
    if (!persist_keeps(p) || !folder_is_same(&p->folder, b->report.path)) return STATUS_OK;
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM,
                       "%.100s is persist.dir, which is saved to without naming it",
                       b->report.path);
}

/* Opens another folder, and finds the number of the next snapshot there. */
static enum status open_other(struct background *b, struct failure *f)
{
    uint64_t *numbers = NULL, count = 0;
    enum status st = check_other(b, f);
    if (!st) st = folder_open(b->report.path, &b->other, f);
    if (!st) st = folder_list(b->other.fd, &numbers, &count, f);
    if (!st) b->save.number = count ? numbers[0] + 1 : 1;
    free(numbers);
    b->save.folder = &b->other;
    return st;
}

/* Of what a save would write, and whether it could. */
static enum status try_it(struct background *b, struct failure *f)
{
    uint64_t written = 0;
    enum status st = STATUS_OK;
    if (b->elsewhere) {
        st = check_other(b, f);
        if (!st) st = folder_try(b->report.path, &b->other, f);
        b->save.folder = &b->other;
    }
    if (!st) st = save_check_room(&b->save, &written, f);
    if (!st) b->report.linked_bytes = b->report.bytes - written;
    return st;
}

static enum status write_it(struct background *b, struct failure *f)
{
    enum status st = b->elsewhere ? open_other(b, f) : STATUS_OK;
    if (!st) st = save_write(&b->save, &b->made, f);
    if (st) return st;
    b->report.number = b->save.number;
    b->report.linked_bytes = atomic_load(&b->meter.linked_bytes);
    if (!b->elsewhere) folder_prune(b->save.folder, b->keep);
    save_log(&b->save, b->save.folder, b->save.number, b->began_ns);
    return STATUS_OK;
}

static void *run(void *arg)
{
    struct background *b = arg;
    struct failure *f = &b->report.failure;
    for (uint64_t i = 0; i < b->save.count; i++) {
        struct snapshot_object *o = &b->save.items[i].object;
        snapshot_name_files(o, i + 1);
        b->report.bytes += snapshot_object_bytes(o);
    }
    b->report.objects = b->save.count;
    enum status st = b->dry_run ? try_it(b, f) : write_it(b, f);
    if (st && !f->code) failure_set(f, st, DETAIL_SYSTEM, "the save failed");
    b->report.free_bytes = b->save.folder->fd < 0 ? UINT64_MAX : folder_free_bytes(b->save.folder);
    folder_close(&b->other);
    struct persist *p = b->persist;
    atomic_store(&b->ended, true);
    wake(p);
    return NULL;
}

static bool start(struct background *b)
{
    return !fault_here("background: thread") && !thread_start(&b->thread, run, b);
}

static enum status check_wish(const struct persist *p, const struct persist_wish *w,
                              struct failure *f)
{
    if (!w->to[0] && !persist_keeps(p))
        return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_SYSTEM,
                           "persist.dir is not set: there is no folder to save to");
    if (p->loader || p->unloaded)
        return failure_set(f, STATUS_UNAVAILABLE, DETAIL_LOADING,
                           "what was saved before is still being loaded");
    if (!w->to[0]) return STATUS_OK;
    if (w->to[0] != '/')
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM,
                           "the folder's path must begin with /");
    if (strlen(w->to) > PERSIST_PATH_MAX)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM,
                           "the folder's path is longer than %d bytes", PERSIST_PATH_MAX);
    return STATUS_OK;
}

enum status persist_begin(struct persist *p, const struct persist_wish *w, struct failure *f)
{
    enum status st = check_wish(p, w, f);
    if (st) return st;
    struct background *b = fault_here("background: struct") ? NULL : calloc(1, sizeof *b);
    if (!b) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory to save");
    b->persist = p;
    b->other.fd = b->other.lock = -1;
    b->elsewhere = w->to[0];
    b->dry_run = w->dry_run;
    b->keep = p->options.config->persist_keep;
    b->began_ns = clock_now_ns();
    persist_prepare(p, &b->save);
    b->save.about.instance = w->instance;
    b->save.items = w->items;
    b->save.count = w->count;
    b->save.meter = &b->meter;
    b->save.object_done = wake;
    b->save.owner = p;
    if (b->elsewhere) {
        b->save.last = NULL;
        b->save.last_number = 0;
    }
    if (!b->elsewhere && !b->dry_run) {
        b->save.before_commit = journaling_before_commit;
        st = journaling_begin_save(p, &b->save, f);
    }
    snprintf(b->report.path, sizeof b->report.path, "%.*s", PERSIST_PATH_MAX,
             b->elsewhere ? w->to : p->folder.path);
    p->background = b;
    if (!st && start(b)) return STATUS_OK;
    p->background = NULL;
    free(b);
    if (st) return st;
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_SYSTEM, "no thread to save");
}

struct save_meter *persist_meter(const struct persist *p)
{
    return &p->background->meter;
}

void persist_wait(struct persist *p, struct persist_report *out)
{
    struct background *b = p->background;
    pthread_join(b->thread, NULL);
    if (b->report.number && !b->elsewhere) {
        persist_take(p, &b->made);
        journaling_end_save(p);
    }
    manifest_free(&b->made);
    *out = b->report;
    free(b->save.items);
    free(b);
    p->background = NULL;
}

bool persist_poll(struct persist *p, struct persist_report *out)
{
    if (!atomic_load(&p->background->ended)) return false;
    persist_wait(p, out);
    return true;
}
