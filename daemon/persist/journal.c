#include "daemon/persist/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"
#include "daemon/persist/journal_inside.h"

#define SECOND_NS UINT64_C(1000000000)
/* Of one sync: more is synced on the way, so that what waits for it does not wait for all. */
#define GROUP_BYTES (UINT64_C(64) << 20)

/* ---------------------------------------------------------------- what the loop is told */

/* Says how it is. rest: what was taken, and is not written yet. */
static void note(struct journal *j, const struct journal_entry *rest)
{
    struct journal_file *file = &j->file;
    pthread_mutex_lock(&j->lock);
    if (!rest) rest = j->head;
    struct journal_counters *c = &j->told;
    c->records = file->records;
    c->bytes = file->bytes_ever;
    c->file_bytes = file->bytes_since;
    c->syncs = file->syncs;
    c->group_last = file->group_last;
    if (c->health != JOURNAL_FAILED) { /* until a snapshot has what was given up */
        c->written = file->sequence;
        c->synced = file->synced_sequence;
    }
    c->files = file->head.number + 1 - j->first_file;
    c->oldest_ns = file->oldest_ns ? file->oldest_ns : rest ? rest->added_ns : 0;
    pthread_mutex_unlock(&j->lock);
}

/* The same, and gives back what is written. */
static void tell(struct journal *j, const struct journal_entry *rest)
{
    note(j, rest);
    pthread_mutex_lock(&j->lock);
    if (j->unsynced) {
        *j->done_tail = j->unsynced;
        j->done_tail = j->unsynced_tail;
    }
    pthread_mutex_unlock(&j->lock);
    j->unsynced = NULL;
    j->unsynced_tail = &j->unsynced;
    if (j->options.wake) j->options.wake(j->options.owner);
}

static void set_health(struct journal *j, enum journal_health health, const struct failure *why)
{
    pthread_mutex_lock(&j->lock);
    if (health == JOURNAL_NO_ROOM && j->told.health == JOURNAL_FAILED) health = JOURNAL_FAILED;
    bool news = j->told.health != health;
    j->told.health = health;
    snprintf(j->told.why, sizeof j->told.why, "%.150s", why ? why->text : "");
    pthread_mutex_unlock(&j->lock);
    if (!news) return;
    if (health == JOURNAL_SOUND)
        log_info("persist: the journal is sound again; writes are taken");
    else
        log_error("persist: the journal cannot be written, and writes are refused until %s: %s",
                  health == JOURNAL_NO_ROOM ? "there is room" : "a snapshot is saved",
                  why ? why->text : "");
}

/* ---------------------------------------------------------------- the thread */

static struct timespec in_ns(uint64_t ns)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t at = (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec + ns;
    return (struct timespec){(time_t)(at / SECOND_NS), (long)(at % SECOND_NS)};
}

/* Waits until there is something to do. Takes what is queued; NULL: it is time to sync, or to
 * end. */
static struct journal_entry *take(struct journal *j, uint64_t *prune)
{
    pthread_mutex_lock(&j->lock);
    uint64_t now_ns = clock_now_ns(), due_ns = j->file.sync_due_ns;
    while (!j->head && !j->stop && !j->prune && (!due_ns || now_ns < due_ns)) {
        if (due_ns) {
            struct timespec until = in_ns(due_ns - now_ns);
            pthread_cond_timedwait(&j->wanted, &j->lock, &until);
        } else {
            pthread_cond_wait(&j->wanted, &j->lock);
        }
        now_ns = clock_now_ns();
    }
    struct journal_entry *all = j->head;
    j->head = NULL;
    j->tail = &j->head;
    *prune = j->prune;
    j->prune = 0;
    pthread_mutex_unlock(&j->lock);
    return all;
}

/* The disk is full: waits a second, or until nobody wants to wait. A snapshot that has begun would
 * wait for its file, which is behind what has no room, and has all of that: it may be what makes
 * room. False: nothing is waited for. */
static bool wait_for_room(struct journal *j)
{
    struct timespec until = in_ns(j->retry_ns);
    pthread_mutex_lock(&j->lock);
    int rc = 0;
    while (!j->stop && j->turned == j->turns_added && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&j->wanted, &j->lock, &until);
    bool waits = !j->stop && j->turned == j->turns_added;
    pthread_mutex_unlock(&j->lock);
    return waits;
}

/* What the new file has is of use with its snapshot alone, if the one before was not sound: then
 * writes are refused until that is on the disk. */
static void begin_file(struct journal *j, const struct journal_entry *e)
{
    struct failure why = {0};
    bool sound = j->health == JOURNAL_SOUND;
    enum status st = journal_file_turn(&j->file, sound, &e->turn, &why);
    j->health = st ? JOURNAL_FAILED : JOURNAL_SOUND;
    if (st) set_health(j, JOURNAL_FAILED, &why);
    pthread_mutex_lock(&j->lock);
    j->told.files = j->file.head.number + 1 - j->first_file; /* before who waits looks */
    j->turned++;
    j->turn_status = st;
    j->turn_failure = why;
    pthread_cond_broadcast(&j->turn_done);
    pthread_mutex_unlock(&j->lock);
}

static void fail(struct journal *j, enum journal_health health, const struct failure *why)
{
    if (health == JOURNAL_FAILED) j->health = health;
    set_health(j, health, why);
    tell(j, NULL);
}

static void sync_now(struct journal *j)
{
    struct failure why = {0};
    uint64_t began_ns = clock_now_ns();
    j->file.sync_due_ns = 0;
    if (j->health != JOURNAL_SOUND || j->file.synced_sequence == j->file.sequence) return;
    if (journal_file_sync(&j->file, &why)) {
        fail(j, JOURNAL_FAILED, &why);
        return;
    }
    j->sync_ns = clock_now_ns() - began_ns;
    pthread_mutex_lock(&j->lock);
    j->hoped = j->file.group_last + (j->told.added - j->file.sequence);
    pthread_mutex_unlock(&j->lock);
}

static void write_entry(struct journal *j, const struct journal_entry *e)
{
    struct failure why = {0};
    bool waited = false;
    if (!j->file.oldest_ns) j->file.oldest_ns = e->added_ns; /* also while it waits for room */
    if (e->lost && j->health == JOURNAL_SOUND) {
        failure_set(&why, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a record");
        fail(j, JOURNAL_FAILED, &why);
    }
    while (j->health == JOURNAL_SOUND) {
        enum status st = journal_file_write(&j->file, e, &why);
        if (!st && waited && j->told.health == JOURNAL_NO_ROOM) set_health(j, JOURNAL_SOUND, NULL);
        if (!st) return;
        if (j->file.head.always && !waited) sync_now(j); /* what was written waits for nothing */
        if (j->health != JOURNAL_SOUND) break;
        fail(j, st == STATUS_RESOURCE_EXHAUSTED ? JOURNAL_NO_ROOM : JOURNAL_FAILED, &why);
        waited = true;
        if (j->health == JOURNAL_SOUND && !wait_for_room(j)) fail(j, JOURNAL_FAILED, &why);
    }
    j->file.sequence++; /* records that were given up have numbers, too */
}

/* Clients that were answered when the last sync ended write again in a moment, and those that came
 * meanwhile are here already: without waiting, one half would be synced after the other, each by
 * half as many syncs as there could be. True: they are waited for: a quarter of a sync, and where
 * that was held up, hope_ns_max. */
static bool hopes(struct journal *j)
{
    struct journal_file *file = &j->file;
    uint64_t unsynced = file->sequence - file->synced_sequence;
    if (j->health != JOURNAL_SOUND || !unsynced || unsynced >= j->hoped) return false;
    uint64_t wait_ns = j->sync_ns / 4 < j->hope_ns_max ? j->sync_ns / 4 : j->hope_ns_max;
    if (!file->sync_due_ns) file->sync_due_ns = clock_now_ns() + wait_ns;
    return true;
}

/* Writes what was taken, and gives it back group by group. */
static void write_all(struct journal *j, struct journal_entry *all)
{
    while (all) {
        uint64_t from = j->file.bytes_ever;
        bool full = false;
        while (all && !full) {
            struct journal_entry *e = all;
            all = e->next;
            e->next = NULL;
            if (e->begins_file)
                begin_file(j, e);
            else
                write_entry(j, e);
            *j->unsynced_tail = e;
            j->unsynced_tail = &e->next;
            full = j->file.bytes_ever - from >= GROUP_BYTES;
        }
        if (j->file.head.always && !full && hopes(j)) {
            note(j, all);
            continue;
        }
        if (j->file.head.always) sync_now(j);
        tell(j, all);
    }
}

/* A snapshot is on the disk, which makes a sound journal of its file. */
static void snapshot_done(struct journal *j, uint64_t before)
{
    journal_file_prune(j->options.folder, before);
    if (before > j->first_file) j->first_file = before;
    j->file.bytes_since = j->file.at;
    if (j->health == JOURNAL_SOUND && j->told.health == JOURNAL_FAILED)
        set_health(j, JOURNAL_SOUND, NULL);
    tell(j, NULL);
}

static void *run(void *arg)
{
    struct journal *j = arg;
    for (;;) {
        uint64_t prune;
        struct journal_entry *all = take(j, &prune);
        bool stop = atomic_load(&j->stop);
        if (prune) snapshot_done(j, prune);
        if (all) write_all(j, all);
        uint64_t due_ns = j->file.sync_due_ns;
        if (due_ns && (stop || clock_now_ns() >= due_ns)) {
            sync_now(j);
            tell(j, NULL);
        }
        if (stop && !all) break;
    }
    if (j->health == JOURNAL_SOUND) journal_file_end(&j->file);
    tell(j, NULL);
    return NULL;
}

/* ---------------------------------------------------------------- the loop */

uint64_t journal_add(struct journal *j, struct journal_entry *e)
{
    e->next = NULL;
    e->added_ns = clock_now_ns();
    j->queued_bytes += journal_contents_bytes(&e->write);
    pthread_mutex_lock(&j->lock);
    bool idle = !j->head;
    *j->tail = e;
    j->tail = &e->next;
    uint64_t number = e->begins_file ? j->told.added : ++j->told.added;
    j->turns_added += e->begins_file;
    if (!e->begins_file && !j->told.oldest_ns) j->told.oldest_ns = e->added_ns;
    if (idle || e->begins_file) pthread_cond_signal(&j->wanted);
    pthread_mutex_unlock(&j->lock);
    return number;
}

enum status journal_begin_file(struct journal *j, const struct journal_turn *turn,
                               struct failure *f)
{
    struct journal_entry *e = fault_here("journal: begin") ? NULL : calloc(1, sizeof *e);
    if (!e) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory");
    e->begins_file = true;
    e->turn = *turn;
    j->turns_asked++;
    j->number++;
    journal_add(j, e);
    return STATUS_OK;
}

enum status journal_wait_file(struct journal *j, struct failure *f)
{
    pthread_mutex_lock(&j->lock);
    while (j->turned != j->turns_asked)
        pthread_cond_wait(&j->turn_done, &j->lock);
    enum status st = j->turn_status;
    struct failure why = j->turn_failure;
    pthread_mutex_unlock(&j->lock);
    return st ? failure_set(f, st, why.detail, "%s", why.text) : STATUS_OK;
}

uint64_t journal_file_now(const struct journal *j)
{
    return j->number;
}

void journal_snapshot_done(struct journal *j, uint64_t before)
{
    pthread_mutex_lock(&j->lock);
    j->prune = before;
    pthread_cond_signal(&j->wanted);
    pthread_mutex_unlock(&j->lock);
}

struct journal_entry *journal_poll(struct journal *j, struct journal_counters *out)
{
    struct journal_entry *given = NULL, **tail = &given;
    pthread_mutex_lock(&j->lock);
    struct journal_entry *all = j->done;
    j->done = NULL;
    j->done_tail = &j->done;
    *out = j->told;
    pthread_mutex_unlock(&j->lock);
    for (struct journal_entry *next; all; all = next) {
        next = all->next;
        j->queued_bytes -= journal_contents_bytes(&all->write);
        if (all->begins_file) {
            free(all);
        } else {
            *tail = all;
            tail = &all->next;
        }
    }
    *tail = NULL;
    out->queued_bytes = j->queued_bytes;
    return given;
}

/* ---------------------------------------------------------------- life */

static bool start(struct journal *j)
{
    return !fault_here("journal: thread") && !thread_start(&j->thread, run, j);
}

static void init(struct journal *j, const struct journal_options *options)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->wanted, &attributes);
    pthread_cond_init(&j->turn_done, &attributes);
    pthread_condattr_destroy(&attributes);
    j->options = *options;
    j->retry_ns = SECOND_NS;
    j->hope_ns_max = SECOND_NS / 100;
    j->tail = &j->head;
    j->done_tail = &j->done;
    j->unsynced_tail = &j->unsynced;
    j->number = options->head.number;
    j->first_file = j->number + options->after_snapshot - options->files_before;
    j->told.files = options->files_before + !options->after_snapshot;
    j->told.file_bytes = options->bytes_before;
    j->told.added = j->told.written = j->told.synced = options->head.sequence - 1;
    if (!options->after_snapshot) return;
    j->health = j->told.health = JOURNAL_FAILED;
    strcpy(j->told.why, "it begins with a snapshot, which is not on the disk yet");
}

static void finish(struct journal *j)
{
    journal_file_finish(&j->file);
    pthread_cond_destroy(&j->turn_done);
    pthread_cond_destroy(&j->wanted);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

enum status journal_create(const struct journal_options *options, struct journal **out,
                           struct failure *f)
{
    struct journal *j = fault_here("journal: struct") ? NULL : calloc(1, sizeof *j);
    if (!j) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory");
    init(j, options);
    enum status st = journal_file_start(&j->file, options, f);
    if (!st && !start(j))
        st = failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_SYSTEM, "no thread for the journal");
    if (st)
        finish(j);
    else
        *out = j;
    return st;
}

void journal_destroy(struct journal *j, void (*give)(void *owner, struct journal_entry *e),
                     struct journal_counters *out, struct journal_place *place, void *owner)
{
    if (!j) return;
    pthread_mutex_lock(&j->lock);
    atomic_store(&j->stop, true);
    pthread_cond_signal(&j->wanted);
    pthread_mutex_unlock(&j->lock);
    pthread_join(j->thread, NULL);
    for (struct journal_entry *e = journal_poll(j, out), *next; e; e = next) {
        next = e->next;
        give(owner, e);
    }
    const struct journal_file *file = &j->file;
    *place = (struct journal_place){
        .sound = out->health == JOURNAL_SOUND && file->synced_sequence == file->sequence,
        .number = file->head.number,
        .salt = file->head.salt,
        .bytes = file->at,
        .sequence = file->sequence + 1,
    };
    finish(j);
}
