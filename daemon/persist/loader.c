/* loader: the snapshot that a daemon starts with, while it serves. The loop makes the objects,
 * empty and without their names; threads fill them, those that were asked most first; and the loop
 * enters their names. With persist.load `salvage` nothing has a name until all is in, since only
 * then is known which snapshot it is. */
#include "daemon/persist/loader_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"
#include "daemon/store/restore.h"

/* ---------------------------------------------------------------- threads */

static struct load_place *take_next(struct loader *ld)
{
    struct load_place *p = NULL;
    pthread_mutex_lock(&ld->lock);
    while (!p && ld->next < ld->place_count && !atomic_load(&ld->loading.stop)) {
        p = &ld->places[ld->next++];
        if (!p->item.space) p = NULL; /* it could not be made */
    }
    pthread_mutex_unlock(&ld->lock);
    return p;
}

static void fill_all(struct loader *ld)
{
    struct persist *p = ld->persist;
    for (struct load_place *at; (at = take_next(ld));) {
        bool alone = at->item.attractor != NULL; /* a space's share their dentate matrices */
        if (alone) pthread_mutex_lock(&ld->attractors);
        enum status st = load_fill(&ld->loading, &at->item, &at->failure);
        if (alone) pthread_mutex_unlock(&ld->attractors);
        if (st && !at->failure.code) at->failure.code = st;
        pthread_mutex_lock(&ld->lock);
        at->next = ld->done;
        ld->done = at;
        pthread_mutex_unlock(&ld->lock);
        if (p->options.wake) p->options.wake(p->options.owner);
    }
}

static void *run(void *arg)
{
    struct loader *ld = arg;
    struct persist *p = ld->persist;
    fill_all(ld);
    atomic_fetch_sub(&ld->running, 1);
    if (p->options.wake) p->options.wake(p->options.owner);
    return NULL;
}

static uint32_t wanted_threads(const struct loader *ld)
{
    uint64_t count = thread_processors();
    if (count > LOADERS_MAX) count = LOADERS_MAX;
    return (uint32_t)(count < ld->place_count ? count : ld->place_count);
}

/* True if there is at least one. */
static bool start_threads(struct loader *ld)
{
    uint32_t wanted = wanted_threads(ld);
    while (ld->thread_count < wanted) {
        atomic_fetch_add(&ld->running, 1);
        if (!fault_here("loader: thread") &&
            thread_start(&ld->threads[ld->thread_count], run, ld) == 0) {
            ld->thread_count++;
            continue;
        }
        atomic_fetch_sub(&ld->running, 1);
        break;
    }
    return ld->thread_count || !wanted;
}

static void join_threads(struct loader *ld)
{
    while (ld->thread_count)
        pthread_join(ld->threads[--ld->thread_count], NULL);
}

/* ---------------------------------------------------------------- an attempt */

static void forget_attempt(struct loader *ld)
{
    for (uint64_t i = 0; i < ld->place_count; i++)
        load_place_discard(ld, &ld->places[i]);
    free(ld->places);
    ld->places = ld->by_key = ld->done = NULL;
    ld->place_count = ld->settled = ld->next = ld->all_bytes = 0;
    manifest_free(&ld->m);
    token_bytes_free(&ld->tokens);
    if (ld->loading.folder >= 0) close(ld->loading.folder);
    ld->loading.folder = -1;
    atomic_store(&ld->loading.stop, false);
    atomic_store(&ld->loading.done_bytes, 0);
    ld->failure = (struct failure){0};
}

static enum status enter_places(struct loader *ld, struct failure *f)
{
    uint64_t count = ld->m.object_count;
    ld->places = fault_here("loader: places") ? NULL : calloc(count + 1, sizeof *ld->places);
    if (!ld->places)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for what is loaded");
    ld->place_count = count;
    for (uint64_t i = 0; i < count; i++)
        ld->places[i].item.object = &ld->m.objects[i];
    qsort(ld->places, count, sizeof *ld->places, load_place_compare);
    for (uint64_t i = 0; i < count; i++) {
        struct failure why = {0};
        enum status st = load_place_enter(ld, &ld->places[i], &why);
        if (st) load_place_fail(ld, &ld->places[i], &why);
    }
    if (ld->failure.code && f) *f = ld->failure;
    return ld->failure.code;
}

static uint64_t number_of(const struct loader *ld)
{
    return ld->numbers[ld->attempt % ld->count];
}

static void say_which(const struct loader *ld, const struct failure *why, struct failure *f)
{
    failure_set(f, why->code, why->detail, "snapshot-%012" PRIu64 ": %.180s", number_of(ld),
                why->text);
}

/* Without the tokens of its writes the snapshot of an orderly stop is as any other: a write that is
 * repeated would be done twice. */
static enum status read_tokens(struct loader *ld, struct failure *f)
{
    enum status st = load_tokens(ld->loading.folder, &ld->m, &ld->tokens, f);
    if (st && (!ld->partial || st == STATUS_RESOURCE_EXHAUSTED)) return st;
    if (st) log_error("persist: tokens of writes: left out: %s", f->text);
    if (st || !token_bytes_are_ours(&ld->tokens)) {
        token_bytes_free(&ld->tokens);
        ld->m.complete = false;
    }
    *f = (struct failure){0};
    return STATUS_OK;
}

/* Opens a snapshot and makes its objects, empty. */
static enum status open_attempt(struct loader *ld, struct failure *f)
{
    struct persist *p = ld->persist;
    struct failure why = {0};
    ld->partial = ld->attempt >= ld->count;
    ld->loading.folder = folder_open_snapshot(p->folder.fd, number_of(ld));
    enum status st = ld->loading.folder < 0
                         ? failure_set(&why, STATUS_UNAVAILABLE, DETAIL_SYSTEM,
                                       "cannot be opened: %s", strerror(errno))
                         : load_manifest(ld->loading.folder, &p->key, &ld->m, &why);
    if (!st) st = read_tokens(ld, &why);
    if (!st) {
        if (store_last_version(p->options.store) < ld->m.version || !ld->attempt)
            store_restore_version(p->options.store, ld->m.version);
        ld->version_first = store_last_version(p->options.store);
        atomic_store(&ld->versions, ld->m.version);
        st = enter_places(ld, &why);
        /* what they were made with is seen by nobody */
        store_restore_version(p->options.store, ld->version_first);
    }
    if (!st) return STATUS_OK;
    say_which(ld, &why, f);
    forget_attempt(ld);
    return st;
}

/* The newest that is whole; and where none is, what is whole in the newest that has a manifest.
 * f: why the attempt before this failed, or this. */
static enum status next_attempt(struct loader *ld, struct failure *f)
{
    uint64_t attempts = ld->salvage ? 2 * ld->count : 1;
    enum status st = f->code;
    while (++ld->attempt < attempts) {
        if (st == STATUS_RESOURCE_EXHAUSTED || st == STATUS_CANCELLED) return st;
        if (ld->attempt <= ld->count) log_error("persist: %s; trying what is older", f->text);
        *f = (struct failure){0};
        st = open_attempt(ld, f);
        if (!st) return STATUS_OK;
    }
    return st;
}

static enum status first_attempt(struct loader *ld, struct failure *f)
{
    *f = (struct failure){0};
    enum status st = open_attempt(ld, f);
    return st ? next_attempt(ld, f) : STATUS_OK;
}

/* ---------------------------------------------------------------- it ends */

static void destroy(struct loader *ld)
{
    forget_attempt(ld);
    pthread_mutex_destroy(&ld->lock);
    pthread_mutex_destroy(&ld->attractors);
    free(ld->numbers);
    ld->persist->loader = NULL;
    free(ld);
}

/* It ends without what was there: nothing will be saved, and unless somebody wrote meanwhile the
 * next start is as this one was. */
static void give_up(struct loader *ld)
{
    struct persist *p = ld->persist;
    bool untouched = !p->names_later && store_last_version(p->options.store) == ld->version_first;
    destroy(ld);
    p->unloaded = true;
    if (untouched) persist_name_back(p);
}

static enum status link_all(struct loader *ld, struct failure *f)
{
    for (uint64_t i = 0; i < ld->place_count; i++) {
        struct load_place *p = &ld->places[i];
        if (!p->item.space) continue;
        enum status st = load_place_link(ld, p, f);
        if (st) return st;
    }
    return STATUS_OK;
}

/* All is in: what was loaded is what the daemon goes on with. */
static enum status take_over(struct loader *ld, struct failure *f)
{
    struct persist *p = ld->persist;
    uint64_t number = number_of(ld);
    bool whole = !ld->lost, as_named = whole && !ld->attempt;
    log_info("persist: loaded %" PRIu64 " object%s of %.100s/snapshot-%012" PRIu64 " in %.1f s",
             ld->m.object_count - ld->lost, ld->m.object_count - ld->lost == 1 ? "" : "s",
             p->folder.path, number, (double)(clock_now_ns() - ld->began_ns) * 1e-9);
    manifest_free(&p->last);
    p->last = ld->m;
    ld->m = (struct manifest){0};
    p->number = number;
    p->linkable = whole;
    /* of what was left out, no write is there */
    if (whole) persist_set_tokens(p, &ld->tokens);
    return as_named ? STATUS_OK : persist_name(p, &p->last, number, whole, f);
}

/* All that was saved is in. True: there is no journal to replay. */
static bool end_loading(struct loader *ld, bool threads, struct failure *f)
{
    enum status st = ld->count ? take_over(ld, f) : STATUS_OK;
    bool replays = ld->persist->names_later;
    if (!st && replays) st = loader_replay_begin(ld, threads, f);
    if (!st && replays) return false;
    if (st)
        give_up(ld);
    else
        destroy(ld);
    return true;
}

/* Every thread is through. True: nothing is on its way any more. */
static bool end_attempt(struct loader *ld, bool threads, struct failure *f)
{
    struct failure why = ld->failure;
    join_threads(ld);
    if (!why.code && ld->salvage) link_all(ld, &why);
    if (!why.code) return end_loading(ld, threads, f);
    say_which(ld, &why, f);
    forget_attempt(ld);
    if (!next_attempt(ld, f)) {
        if (!threads || start_threads(ld)) return false;
        failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_SYSTEM, "no thread to load");
    }
    give_up(ld);
    return true;
}

static void settle(struct loader *ld)
{
    pthread_mutex_lock(&ld->lock);
    struct load_place *done = ld->done, *next;
    ld->done = NULL;
    pthread_mutex_unlock(&ld->lock);
    for (; done; done = next) {
        struct failure why = done->failure;
        next = done->next;
        if (!why.code && !ld->salvage) load_place_link(ld, done, &why);
        if (why.code) load_place_fail(ld, done, &why);
    }
}

/* True: the journal is replayed, or nothing will be. */
static bool turn_replay(struct loader *ld, struct failure *f)
{
    struct persist *p = ld->persist;
    enum status st;
    if (!loader_replay_turn(ld, &st, f)) return false;
    if (!st) {
        p->names_later = false;
        st = persist_name(p, &p->last, p->number, p->linkable, f);
    }
    if (st)
        give_up(ld);
    else
        destroy(ld);
    return true;
}

static bool turn_loading(struct loader *ld, bool threads, struct failure *f)
{
    bool through = atomic_load(&ld->running) == 0; /* before the list is taken */
    settle(ld);
    return through && !ld->done && end_attempt(ld, threads, f);
}

static bool turn(struct persist *p, bool threads, struct failure *f)
{
    struct loader *ld = p->loader;
    bool ended = ld->replays ? turn_replay(ld, f) : turn_loading(ld, threads, f);
    struct failure why = *f;
    if (ended && why.code == STATUS_DATA_LOSS) /* that salvage would pass over */
        failure_set(f, why.code, why.detail, "%.190s (persist.load is %s)", why.text,
                    p->options.config->persist_load);
    return ended;
}

bool persist_load_turn(struct persist *p, struct failure *f)
{
    return turn(p, true, f);
}

/* ---------------------------------------------------------------- it begins */

static struct loader *create(struct persist *p)
{
    struct loader *ld = fault_here("loader: struct") ? NULL : calloc(1, sizeof *ld);
    if (!ld) return NULL;
    ld->persist = p;
    ld->salvage = strcmp(p->options.config->persist_load, "salvage") == 0;
    ld->loading.store = p->options.store;
    ld->loading.heap = p->options.heap;
    ld->loading.kernels = p->options.kernels;
    ld->loading.folder = -1;
    ld->began_ns = clock_now_ns();
    pthread_mutex_init(&ld->lock, NULL);
    pthread_mutex_init(&ld->attractors, NULL);
    p->loader = ld;
    return ld;
}

static enum status begin(struct persist *p, struct failure *f)
{
    struct failure why = {0};
    struct loader *ld = create(p);
    if (!ld) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "persist: no memory");
    enum status st = folder_list(p->folder.fd, &ld->numbers, &ld->count, &why);
    uint64_t newest = !st && ld->count ? ld->numbers[0] : 0;
    if (!st) p->number_next = newest + 1;
    if (!st && ld->count) st = first_attempt(ld, &why);
    if (st) {
        failure_set(f, st, why.detail, "%.190s (persist.load is %s)", why.text,
                    p->options.config->persist_load);
    } else {
        bool whole = ld->count && !ld->attempt;
        struct journal_base base = {ld->count ? number_of(ld) : 0, ld->m.instance,
                                    ld->m.generation};
        if (p->names_later) ld->replay_bytes = journaling_foretell(p, &base);
        st = persist_name(p, ld->count ? &ld->m : NULL, base.snapshot, whole, f);
    }
    if (st || !(ld->count || p->names_later))
        destroy(ld);
    else if (ld->count)
        log_info("persist: loading %" PRIu64 " object%s, %" PRIu64
                 " MiB, of %.100s/snapshot-%012" PRIu64,
                 ld->place_count, ld->place_count == 1 ? "" : "s", ld->all_bytes >> 20,
                 p->folder.path, number_of(ld));
    return st;
}

enum status persist_load_begin(struct persist *p, struct failure *f)
{
    if (!persist_keeps(p)) return STATUS_OK;
    p->names_later = journaling_is_wanted(p);
    enum status st = begin(p, f);
    if (st || !p->loader) return st;
    bool nothing = !p->loader->count && !p->loader->replay_bytes;
    if (nothing) {
        while (!turn(p, false, f)) {
        }
        return f->code;
    }
    if (start_threads(p->loader)) return STATUS_OK;
    destroy(p->loader);
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_SYSTEM, "no thread to load");
}

static void forget_all(struct store *s)
{
    struct space *next;
    for (struct space *at = store_space_next(s, NULL); at; at = next) {
        next = store_space_next(s, at);
        store_space_empty(s, at);
    }
}

enum status persist_load(struct persist *p, struct failure *f)
{
    struct failure why = {0};
    if (!persist_keeps(p)) return STATUS_OK;
    p->names_later = journaling_is_wanted(p);
    enum status st = begin(p, &why);
    if (!st && p->loader) {
        do
            fill_all(p->loader);
        while (!turn(p, false, &why));
        st = why.code;
    }
    if (!st) return STATUS_OK;
    forget_all(p->options.store);
    if (f) *f = why;
    return why.code;
}

/* ---------------------------------------------------------------- meanwhile */

bool persist_is_loading(const struct persist *p)
{
    return p->loader != NULL;
}

/* A salvage may take another snapshot, and a record of the journal may change anything. */
static bool holds_all(const struct persist *p)
{
    return p->loader->salvage || p->names_later;
}

bool persist_loads_space(const struct persist *p, const struct space *space)
{
    return p->loader && (holds_all(p) || space->loading_count);
}

bool persist_loads_object(const struct persist *p, const struct space *space,
                          enum resident_kind kind, const char *name)
{
    if (!p->loader) return false;
    return holds_all(p) || load_place_find(p->loader, space, kind, name);
}

void persist_load_seen(const struct persist *p, struct load_seen *out)
{
    const struct loader *ld = p->loader;
    *out = (struct load_seen){.ready = !ld, .left = p->left, .left_count = p->left_count};
    if (!ld) return;
    uint64_t done = atomic_load(&ld->loading.done_bytes);
    out->objects = ld->place_count;
    out->objects_done = ld->settled;
    out->replays = ld->replays;
    out->replay_bytes = ld->replay_bytes;
    out->replay_bytes_done = atomic_load(&ld->replay_done);
    out->bytes = ld->all_bytes + ld->replay_bytes;
    out->bytes_done = (done < ld->all_bytes ? done : ld->all_bytes) + out->replay_bytes_done;
    out->elapsed_ns = clock_now_ns() - ld->began_ns;
}

void persist_load_stop(struct persist *p)
{
    struct loader *ld = p->loader;
    if (!ld) return;
    atomic_store(&ld->loading.stop, true);
    join_threads(ld);
    loader_replay_stop(ld);
    give_up(ld);
}
