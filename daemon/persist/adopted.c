/* adopted: data that another daemon had in memory (handover/hand_over.h): nothing is loaded, its
 * instance goes on, and so does its journal, if it is in the same folder.
 *
 * A journal can only follow what the disk has. The other daemon's, which says where it ended, and a
 * snapshot of just this state are such; otherwise it begins with a snapshot, and nothing is written
 * before that is on the disk. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/persist/load.h"
#include "daemon/persist/persist_inside.h"
#include "daemon/store/restore.h"

/* Where the other daemon's data were, in its catalogue. */
struct told_folder {
    uint64_t device, inode;                        /* of the folder; both 0: it had none */
    uint64_t sound, number, salt, bytes, sequence; /* of its journal: struct journal_place */
    char path[sizeof((struct folder *)NULL)->path];
};

void persist_tell(const struct persist *p, struct catalogue_writer *w)
{
    struct told_folder told;
    struct stat is;
    memset(&told, 0, sizeof told);
    if (persist_keeps(p) && fstat(p->folder.fd, &is) == 0) {
        told.device = is.st_dev;
        told.inode = is.st_ino;
        told.sound = p->ended.sound;
        told.number = p->ended.number;
        told.salt = p->ended.salt;
        told.bytes = p->ended.bytes;
        told.sequence = p->ended.sequence;
        strcpy(told.path, p->folder.path);
    }
    catalogue_put(w, &told, sizeof told);
}

static bool is_there(const struct folder *folder, const struct told_folder *told)
{
    struct stat is;
    return fstat(folder->fd, &is) == 0 && is.st_dev == told->device && is.st_ino == told->inode;
}

/* ---------------------------------------------------------------- another folder */

/* What is there is older than what clients will see: whoever starts with it takes a new instance.
 * The state says of a snapshot that it was begun with, and of a journal that a later daemon is not
 * in it. */
static enum status mark_old(const struct folder *folder, uint64_t generation, struct failure *f)
{
    uint64_t *numbers = NULL, count = 0;
    struct folder_state before = {0};
    enum status st = folder_list(folder->fd, &numbers, &count, f);
    if (!st) st = folder_read_state(folder, &before, f);
    if (before.generation > generation) generation = before.generation;
    struct folder_state now = {count ? numbers[0] : 0, generation + 1, before.journal};
    if (now.snapshot > before.snapshot) now.journal = 0; /* it may have gone with that */
    if (!st) st = folder_write_state(folder, &now, f);
    free(numbers);
    return st;
}

static void leave_behind(const struct told_folder *told, uint64_t generation)
{
    struct folder folder = {.fd = -1, .lock = -1};
    struct failure why = {0};
    enum status st = folder_open(told->path, &folder, &why);
    if (!st && !is_there(&folder, told))
        st = failure_set(&why, STATUS_UNAVAILABLE, DETAIL_SYSTEM, "another folder is there now");
    if (!st) st = mark_old(&folder, generation, &why);
    folder_close(&folder);
    if (st)
        log_warning("persist: %.100s, where the daemon before had its data, cannot be marked as "
                    "left: %s",
                    told->path, why.text);
}

/* ---------------------------------------------------------------- where the journal goes on */

/* What a successor that never served has begun: a file without a write. */
static bool follow(int folder, uint64_t number, struct journal_end *end)
{
    struct journal_reader *r = NULL;
    struct journal_write w;
    struct failure why = {0};
    if (journal_reader_open(folder, number, &r, &why)) return false;
    const struct journal_head *head = journal_reader_head(r);
    bool ok = number == end->number + 1 && head->previous == end->salt &&
              head->sequence == end->sequence && !head->broken &&
              journal_reader_next(r, &w, &why) == JOURNAL_STEP_LAST;
    if (ok) {
        end->number = number;
        end->salt = head->salt;
    }
    journal_reader_close(r);
    return ok;
}

/* Of all files. */
static uint64_t count_bytes(int folder, const uint64_t *numbers, uint64_t count)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct journal_reader *r = NULL;
        if (journal_reader_open(folder, numbers[i], &r, NULL)) continue;
        bytes += journal_reader_bytes(r);
        journal_reader_close(r);
    }
    return bytes;
}

static bool is_last(int folder, const struct told_folder *told)
{
    struct journal_reader *r = NULL;
    if (journal_reader_open(folder, told->number, &r, NULL)) return false;
    bool ok = journal_reader_head(r)->salt == told->salt && journal_reader_bytes(r) == told->bytes;
    journal_reader_close(r);
    return ok;
}

/* Whether the files there are the other daemon's to their end; *end: it, and `number` also where
 * they are not. */
static bool find_end(int folder, const struct told_folder *told, struct journal_end *end)
{
    uint64_t *numbers = NULL, count = 0, i = 0;
    *end = (struct journal_end){0};
    if (journal_file_list(folder, &numbers, &count, NULL)) return false;
    while (i < count && numbers[i] != told->number)
        i++;
    bool ok = told->sound && i < count && is_last(folder, told);
    if (ok)
        *end = (struct journal_end){
            .files = count, .number = told->number, .sequence = told->sequence, .salt = told->salt};
    while (ok && ++i < count)
        ok = follow(folder, numbers[i], end);
    if (!ok) *end = (struct journal_end){.number = count ? numbers[count - 1] : 0};
    if (ok) end->bytes = count_bytes(folder, numbers, count);
    free(numbers);
    return ok;
}

/* What is in the newest snapshot need not be written again by the next. True: it has all that there
 * is, as of a stop. */
static bool take_snapshot(struct persist *p, uint64_t number)
{
    struct manifest m = {0};
    struct failure why = {0};
    int fd = number ? folder_open_snapshot(p->folder.fd, number) : -1;
    enum status st = fd < 0 ? STATUS_UNAVAILABLE : load_manifest(fd, &p->key, &m, &why);
    if (fd >= 0) close(fd);
    if (st || m.instance != p->instance) {
        if (!st) manifest_free(&m);
        return false;
    }
    p->number = number;
    p->last = m;
    p->linkable = true;
    return m.complete && m.generation == p->generation &&
           m.version == store_last_version(p->options.store);
}

static enum status go_on(struct persist *p, const struct told_folder *told, bool saved,
                         struct failure *f)
{
    struct journal_end *end = &p->replayed;
    bool same = is_there(&p->folder, told);
    bool whole = find_end(p->folder.fd, same ? told : &(struct told_folder){0}, end) || saved;
    enum status st = journaling_start(p, !whole, f);
    if (!st && p->journal && !whole)
        log_warning("persist: the journal begins with a snapshot; until it is on the disk, writes "
                    "are refused");
    return st;
}

/* ---------------------------------------------------------------- all */

/* Without a journal, what is there of one does not have what comes: *generation is to be above
 * its. */
static enum status rise_above(int folder, uint64_t *generation, struct failure *f)
{
    uint64_t *numbers = NULL, count = 0;
    struct journal_reader *r = NULL;
    enum status st = journal_file_list(folder, &numbers, &count, f);
    if (!st && count) st = journal_reader_open(folder, numbers[count - 1], &r, f);
    if (r && journal_reader_head(r)->generation >= *generation)
        *generation = journal_reader_head(r)->generation + 1;
    journal_reader_close(r);
    free(numbers);
    return st;
}

/* A start that loads the newest snapshot after all comes after this one, which may have changed
 * everything: it does not go on with that instance, unless a journal has the changes. */
static enum status begin(struct persist *p, const struct told_folder *told, struct failure *f)
{
    uint64_t *numbers = NULL, count = 0;
    struct folder_state before, now = {0, p->generation, 0};
    enum status st = folder_list(p->folder.fd, &numbers, &count, f);
    if (!st) st = folder_read_state(&p->folder, &before, f);
    now.snapshot = count ? numbers[0] : 0;
    free(numbers);
    if (st) return st;
    if (before.generation > now.generation) now.generation = before.generation;
    if (strcmp(p->options.config->persist_journal, "off") == 0)
        st = rise_above(p->folder.fd, &now.generation, f);
    p->number_next = now.snapshot + 1;
    p->folder_generation = now.generation;
    bool saved = take_snapshot(p, now.snapshot);
    if (!st) st = go_on(p, told, saved, f); /* first: what there was stays as whole as it was */
    if (p->journal) now.journal = journal_file_now(p->journal);
    return st ? st : folder_write_state(&p->folder, &now, f);
}

enum status persist_adopt(struct persist *p, uint64_t instance, uint64_t generation,
                          struct catalogue_reader *from, struct failure *f)
{
    struct told_folder told;
    struct failure why = {0};
    catalogue_get(from, &told, sizeof told);
    if (from->bad || told.path[sizeof told.path - 1])
        return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED,
                           "what is told of the folder of snapshots cannot be");
    p->instance = instance;
    p->generation = generation;
    if (told.inode && !(persist_keeps(p) && is_there(&p->folder, &told)))
        leave_behind(&told, generation);
    if (!persist_keeps(p)) return STATUS_OK;
    enum status st = begin(p, &told, &why);
    return st ? failure_set(f, st, why.detail, "persist.dir: %.180s", why.text) : STATUS_OK;
}
