#include "daemon/persist/journal_chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"

struct chain {
    const struct folder *folder;
    const struct replay *replay; /* NULL: files are only read */
    uint64_t *numbers, count;
    uint64_t first; /* of those that are replayed as a whole */
    struct journal_end end;
    uint64_t next;       /* the file that is to be read */
    uint64_t read_bytes; /* of those before it */
    bool refused;        /* its last record is sound, and cannot have been done */
    uint64_t damaged_at; /* bytes of the last file that was read which are sound */
};

static enum status refuse(uint64_t number, const char *why, struct failure *f)
{
    char name[JOURNAL_NAME_MAX];
    journal_file_name(number, name);
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s: byte 0: %s", name, why);
}

static enum status read_head(const struct chain *c, uint64_t i, struct journal_head *out,
                             struct failure *f)
{
    struct journal_reader *r = NULL;
    enum status st = journal_reader_open(c->folder->fd, c->numbers[i], &r, f);
    if (!st) *out = *journal_reader_head(r);
    journal_reader_close(r);
    return st;
}

/* Nothing in these files, from the next on, was acknowledged. */
static void forget_rest(struct chain *c)
{
    for (uint64_t i = c->next; c->replay && i < c->count; i++)
        journal_file_remove(c->folder->fd, c->numbers[i]);
    c->count = c->next;
}

/* True if a file has no write. */
static bool is_empty(const struct chain *c, uint64_t i)
{
    struct journal_reader *r = NULL;
    struct journal_write w;
    struct failure why = {0};
    if (journal_reader_open(c->folder->fd, c->numbers[i], &r, &why)) return false;
    enum journal_step step = journal_reader_next(r, &w, &why);
    journal_reader_close(r);
    return step == JOURNAL_STEP_LAST || step == JOURNAL_STEP_TORN;
}

/* True if the journal was to begin with a snapshot that never came: nothing was written then. */
static bool never_began(const struct chain *c, uint64_t snapshot)
{
    struct journal_head h;
    bool never = !read_head(c, 0, &h, NULL) && h.broken && h.snapshot > snapshot;
    for (uint64_t i = 0; never && i < c->count; i++)
        never = is_empty(c, i);
    return never;
}

/* Finds the file that the snapshot names. */
static enum status find_first(struct chain *c, const struct journal_base *base, struct failure *f)
{
    bool found = false;
    for (uint64_t i = c->count; i-- && !found;) {
        struct journal_head h;
        enum status st = read_head(c, i, &h, f);
        if (st) return st;
        found = h.snapshot == base->snapshot && (base->snapshot || !h.previous);
        if (!found) continue;
        c->first = i;
        if (base->snapshot &&
            (h.snapshot_instance != base->instance || h.snapshot_generation != base->generation))
            return refuse(c->numbers[i], "it follows a snapshot of other data with that number", f);
    }
    if (found) return STATUS_OK;
    if (never_began(c, base->snapshot)) {
        forget_rest(c);
        return STATUS_OK;
    }
    char what[80];
    snprintf(what, sizeof what, "it does not follow what was loaded (snapshot %" PRIu64 ")",
             base->snapshot);
    return refuse(c->numbers[0], what, f);
}

/* Whether a file follows those that were read. stop: it is broken, and so was never used. One that
 * is read for what is hidden alone may be broken, too: the one before it need not be there, and
 * what was made in that is not used any more. */
static enum status check_follows(const struct chain *c, const struct journal_head *h, bool *stop,
                                 struct failure *f)
{
    bool begins = c->next == c->first;
    *stop = h->broken && c->next > c->first;
    if (begins || c->next == 0 || h->broken) return STATUS_OK;
    if (h->previous != c->end.last.salt || h->number != c->end.number + 1)
        return refuse(h->number, "the file before it is missing, or another", f);
    if (c->next > c->first && h->sequence != c->end.sequence)
        return refuse(h->number, "the file before it ends too early", f);
    return STATUS_OK;
}

static void tell_progress(const struct chain *c, uint64_t at)
{
    if (c->replay && c->replay->done)
        atomic_store_explicit(c->replay->done, c->read_bytes + at, memory_order_relaxed);
}

/* Reads all of a file. *torn: its end was being written. */
static enum status read_file(struct chain *c, struct journal_reader *r, bool *torn,
                             struct failure *f)
{
    bool hidden_alone = c->next < c->first;
    struct replay how = c->replay ? *c->replay : (struct replay){0};
    how.hidden_alone = hidden_alone;
    for (struct journal_write w;;) {
        uint64_t at = journal_reader_position(r);
        c->damaged_at = at;
        enum journal_step step = journal_reader_next(r, &w, f);
        *torn = step == JOURNAL_STEP_TORN;
        if (step == JOURNAL_STEP_LAST || *torn) return STATUS_OK;
        if (step == JOURNAL_STEP_DAMAGED) return f->code;
        struct failure why = {0};
        enum status st = c->replay ? replay_write(&how, &w, &why) : STATUS_OK;
        tell_progress(c, journal_reader_position(r));
        if (!st && how.stop && atomic_load(how.stop))
            return failure_set(f, STATUS_CANCELLED, DETAIL_NONE, "replaying was stopped");
        if (st) {
            c->refused = true;
            char name[JOURNAL_NAME_MAX];
            journal_file_name(journal_reader_head(r)->number, name);
            return failure_set(f, st, why.detail, "%s: byte %" PRIu64 ": %.140s", name, at,
                               why.text);
        }
        c->end.writes += !hidden_alone;
    }
}

/* The last file ends in the middle of a record. */
static enum status cut(struct chain *c, const struct journal_reader *r, struct failure *f)
{
    uint64_t number = journal_reader_head(r)->number, at = journal_reader_position(r);
    if (!c->replay) return STATUS_OK;
    log_warning("persist: journal-%012" PRIu64 ": %" PRIu64 " bytes behind byte %" PRIu64
                " were being written when the daemon ended, and are cut off",
                number, journal_reader_bytes(r) - at, at);
    return journal_file_cut(c->folder->fd, number, at, f);
}

/* Where the journal goes on, if nothing follows what r has read. */
static void note_end(struct chain *c, const struct journal_reader *r)
{
    c->end.last = *journal_reader_head(r);
    c->end.number = c->end.last.number;
    c->end.salt = c->end.last.salt;
    c->end.sequence = journal_reader_sequence(r) - c->refused;
    c->end.ended = journal_reader_ended(r);
}

/* The file ends in the middle of a record, which only the last one may. */
static enum status end_torn(struct chain *c, const struct journal_reader *r, struct failure *f)
{
    struct journal_head next;
    bool last = c->next + 1 == c->count;
    enum status st = last ? STATUS_OK : read_head(c, c->next + 1, &next, f);
    /* all its records are there: what is torn said that the next one follows */
    bool whole = !st && !last && next.sequence == journal_reader_sequence(r);
    if (!st && !last && !next.broken && !whole)
        st = refuse(next.number, "the file before it ends in the middle of a record", f);
    return st ? st : cut(c, r, f);
}

/* The newest file says so if another was begun behind it. */
static enum status check_followed(const struct chain *c, const struct journal_reader *r,
                                  struct failure *f)
{
    uint64_t number = journal_reader_follows(r);
    if (c->next + 1 < c->count || !number) return STATUS_OK;
    return refuse(number, "missing; the file before it says that it follows", f);
}

static enum status read_next(struct chain *c, bool *stop, struct failure *f)
{
    struct journal_reader *r = NULL;
    bool torn = false;
    c->damaged_at = 0;
    enum status st = journal_reader_open(c->folder->fd, c->numbers[c->next], &r, f);
    if (!st) st = check_follows(c, journal_reader_head(r), stop, f);
    if (st || *stop) {
        if (!st) forget_rest(c);
        journal_reader_close(r);
        return st;
    }
    st = read_file(c, r, &torn, f);
    note_end(c, r);
    if (!st && torn && c->next >= c->first) st = end_torn(c, r, f);
    if (!st && !torn && c->next >= c->first) st = check_followed(c, r, f);
    if (!st) {
        c->end.files++;
        c->next++;
        c->read_bytes += journal_reader_bytes(r);
        c->end.bytes = c->read_bytes;
    }
    journal_reader_close(r);
    return st;
}

/* Keeps what stands before damage in a file, and sets aside what is behind it. */
static enum status keep_sound(struct chain *c, const struct failure *why, struct failure *f)
{
    enum status st = STATUS_OK;
    log_error("persist: %s; what was written from there on is lost", why->text);
    c->end.lost = true;
    if (c->damaged_at) {
        st = journal_file_cut(c->folder->fd, c->numbers[c->next], c->damaged_at, f);
        c->next++;
        c->end.files++;
    }
    for (uint64_t i = c->next; !st && i < c->count; i++) {
        log_error("persist: journal-%012" PRIu64 ": left out, kept as left-journal-%012" PRIu64,
                  c->numbers[i], c->numbers[i]);
        st = journal_file_set_aside(c->folder->fd, c->numbers[i], f);
    }
    return st;
}

bool journal_chain_look(const struct folder *folder, const struct journal_base *base,
                        uint64_t *bytes, struct journal_end *out)
{
    struct chain c = {.folder = folder};
    struct failure why = {0};
    bool stop = false;
    *bytes = 0;
    *out = (struct journal_end){0};
    enum status st = journal_file_list(folder->fd, &c.numbers, &c.count, &why);
    if (!st && c.count) st = find_first(&c, base, &why);
    for (; !st && c.next < c.count; c.next++) {
        struct journal_reader *r = NULL;
        st = journal_reader_open(folder->fd, c.numbers[c.next], &r, &why);
        if (st) break;
        *bytes += journal_reader_bytes(r);
        stop = stop || (journal_reader_head(r)->broken && c.next > c.first);
        if (!stop && c.next >= c.first) {
            c.end.files++;
            note_end(&c, r);
        }
        journal_reader_close(r);
    }
    free(c.numbers);
    if (!st) *out = c.end;
    return !st;
}

enum status journal_chain_replay(const struct folder *folder, const struct journal_base *base,
                                 const struct replay *r, bool salvage, struct journal_end *out,
                                 struct failure *f)
{
    struct chain c = {.folder = folder, .replay = r};
    struct failure why = {0};
    bool stop = false;
    *out = (struct journal_end){0};
    enum status st = journal_file_list(folder->fd, &c.numbers, &c.count, f);
    if (st || !c.count) return st;
    c.end.number = c.end.newest = c.numbers[c.count - 1];
    st = find_first(&c, base, &why);
    while (!st && !stop && c.next < c.count)
        st = read_next(&c, &stop, &why);
    if (r) replay_end(r);
    if (st && salvage && r && st != STATUS_RESOURCE_EXHAUSTED && st != STATUS_CANCELLED)
        st = keep_sound(&c, &why, f);
    else if (st)
        failure_set(f, st, why.detail, "%s", why.text);
    free(c.numbers);
    if (!st) *out = c.end;
    return st;
}
