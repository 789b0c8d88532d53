/* The journal beside the snapshots: what is replayed, what is written, and which files go when a
 * snapshot is on the disk. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/persist/persist_inside.h"
#include "daemon/store/restore.h"

/* Numbers of versions that are left out where the last ones may have been seen, and are lost. */
#define VERSIONS_LEFT_OUT (UINT64_C(1) << 20)

bool journaling_is_wanted(const struct persist *p)
{
    uint64_t *numbers = NULL, count = 0;
    if (strcmp(p->options.config->persist_journal, "off") != 0) return true;
    enum status st = journal_file_list(p->folder.fd, &numbers, &count, NULL);
    free(numbers);
    return st || count;
}

uint64_t journaling_foretell(struct persist *p, const struct journal_base *base)
{
    uint64_t bytes;
    journal_chain_look(&p->folder, base, &bytes, &p->replayed);
    return bytes;
}

void journaling_replayed(struct persist *p, const struct journal_end *end, uint64_t took_ns)
{
    p->replayed = *end;
    p->has_files = end->number > 0;
    if (end->writes)
        log_info("persist: replayed %" PRIu64 " writes of the journal in %.1f s", end->writes,
                 (double)took_ns * 1e-9);
    if (end->files)
        store_restore_version(p->options.store,
                              store_last_version(p->options.store) + VERSIONS_LEFT_OUT);
}

bool journaling_is_whole(const struct persist *p)
{
    const struct journal_head *last = &p->replayed.last;
    return p->replayed.files && !p->replayed.lost && (last->always || p->replayed.ended) &&
           last->generation >= p->before.generation;
}

enum status journaling_start(struct persist *p, bool after_snapshot, struct failure *f)
{
    const struct config *c = p->options.config;
    const struct journal_end *end = &p->replayed;
    struct failure why = {0};
    if (strcmp(c->persist_journal, "off") == 0) return STATUS_OK;
    struct journal_options options = {
        .folder = p->folder.fd,
        .head = {.number = end->number + 1,
                 .instance = p->instance,
                 .generation = p->folder_generation,
                 .sequence = end->files ? end->sequence : 1,
                 .always = strcmp(c->persist_journal, "always") == 0},
        .files_before = end->files,
        .bytes_before = end->bytes,
        .after_snapshot = after_snapshot,
        .wake = p->options.wake,
        .owner = p->options.owner,
    };
    if (after_snapshot) options.head.number--; /* the first file is the snapshot's */
    if (end->files) {
        options.head.previous = end->salt;
    } else {
        options.head.snapshot = p->number;
        options.head.snapshot_instance = p->last.instance;
        options.head.snapshot_generation = p->last.generation;
    }
    enum status st = journal_create(&options, &p->journal, &why);
    if (st) return failure_set(f, st, why.detail, "persist.journal: %.180s", why.text);
    p->has_files = true;
    return STATUS_OK;
}

struct journal *persist_journal(const struct persist *p)
{
    return p->journal;
}

void persist_close_journal(struct persist *p, void (*give)(void *owner, struct journal_entry *e),
                           struct journal_counters *out, void *owner)
{
    p->replayed.number = journal_file_now(p->journal);
    journal_destroy(p->journal, give, out, &p->ended, owner);
    p->journal = NULL;
}

bool persist_has_all(const struct persist *p)
{
    return p->ended.sound;
}

/* ---------------------------------------------------------------- snapshots */

enum status journaling_begin_save(struct persist *p, const struct save *s, struct failure *f)
{
    struct journal_turn turn = {s->number, s->about.instance, s->about.generation};
    if (!p->journal) {
        p->file_turn = turn;
        return STATUS_OK;
    }
    enum status st = journal_begin_file(p->journal, &turn, f);
    if (st) return st;
    uint64_t hidden = store_hidden_since(p->options.store), now = journal_file_now(p->journal);
    p->files_from = hidden < now ? hidden : now;
    return STATUS_OK;
}

/* No journal is written, and there are files of one: an empty one says from where on they count. */
static enum status make_empty(struct persist *p, struct failure *f)
{
    const struct journal_turn *turn = &p->file_turn;
    struct journal_head head = {.number = p->replayed.number + 1,
                                .snapshot = turn->snapshot,
                                .snapshot_instance = turn->instance,
                                .snapshot_generation = turn->generation,
                                .instance = turn->instance,
                                .generation = turn->generation,
                                .sequence = 1,
                                .salt = 1,
                                .broken = true};
    int fd;
    enum status st = journal_file_make(p->folder.fd, &head, &fd, f);
    if (st) return st;
    close(fd);
    p->files_from = p->replayed.number = head.number;
    return STATUS_OK;
}

enum status journaling_before_commit(void *owner, struct failure *f)
{
    struct persist *p = owner;
    uint64_t *numbers = NULL, count = 0;
    if (p->journal) return journal_wait_file(p->journal, f);
    enum status st = journal_file_list(p->folder.fd, &numbers, &count, f);
    p->has_files = count > 0; /* also of a daemon whose data was adopted */
    if (count) p->replayed.number = numbers[count - 1];
    free(numbers);
    return !st && count ? make_empty(p, f) : st;
}

void journaling_end_save(struct persist *p)
{
    if (p->journal)
        journal_snapshot_done(p->journal, p->files_from);
    else if (p->has_files)
        journal_file_prune(p->folder.fd, UINT64_MAX); /* the snapshot has it all */
}
