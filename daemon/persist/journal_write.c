/* The file of a journal that is written. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <xxhash.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/persist/journal_inside.h"

#define SECOND_NS UINT64_C(1000000000)
/* After so many the disk is told to begin; where each group is synced, while the next record is
 * summed and copied. */
#define START_BYTES        (UINT64_C(8) << 20)
#define START_ALWAYS_BYTES (UINT64_C(256) << 10)
enum { GATHERED_BYTES = 1 << 20 };

static enum status refuse(const struct journal_file *file, const char *what, int error,
                          struct failure *f)
{
    enum status st =
        error == ENOSPC || error == EDQUOT ? STATUS_RESOURCE_EXHAUSTED : STATUS_UNAVAILABLE;
    char name[JOURNAL_NAME_MAX];
    journal_file_name(file->head.number, name);
    return failure_set(f, st, DETAIL_SYSTEM, "%s: %s: %s", name, what, strerror(error));
}

/* ---------------------------------------------------------------- a file begins and ends */

static uint64_t random_salt(void)
{
    uint64_t salt = 0;
    while (!salt)
        if (getrandom(&salt, sizeof salt, 0) != sizeof salt) salt = clock_now_ns();
    return salt;
}

static enum status make(struct journal_file *file, struct failure *f)
{
    file->head.salt = random_salt();
    enum status st = journal_file_make(file->folder, &file->head, &file->fd, f);
    if (st) {
        file->fd = -1;
        return st;
    }
    file->at = file->synced_at = file->begun_at = JOURNAL_HEAD_BYTES;
    file->bytes_since += JOURNAL_HEAD_BYTES;
    file->synced_sequence = file->sequence;
    file->oldest_ns = 0;
    return STATUS_OK;
}

enum status journal_file_start(struct journal_file *file, const struct journal_options *options,
                               struct failure *f)
{
    *file = (struct journal_file){.folder = options->folder,
                                  .fd = -1,
                                  .head = options->head,
                                  .bytes_since = options->bytes_before};
    file->sequence = file->synced_sequence = file->head.sequence - 1;
    file->gathered = fault_here("journal: gathered") ? NULL : aligned_alloc(64, GATHERED_BYTES);
    file->sum = fault_here("journal: sum") ? NULL : XXH3_createState();
    if (!file->gathered || !file->sum)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory");
    return options->after_snapshot ? STATUS_OK : make(file, f);
}

/* Says in the file how much of it is synced; what follows says so, too, if this is not there. */
static void mark(struct journal_file *file, enum journal_kind kind, uint64_t sum)
{
    uint8_t bytes[JOURNAL_RECORD_BYTES];
    struct journal_record r = {
        .kind = kind, .sequence = file->sequence + 1, .synced = file->synced_at, .sum = sum};
    journal_record_print(&r, file->head.salt, bytes);
    if (pwrite(file->fd, bytes, sizeof bytes, (off_t)file->at) == sizeof bytes) {
        file->at += sizeof bytes;
        file->bytes_since += sizeof bytes;
    } else if (ftruncate(file->fd, (off_t)file->at)) {
        /* a piece of a record, which the next one overwrites */
    }
}

static void end(struct journal_file *file, uint64_t follows)
{
    mark(file, JOURNAL_END, follows);
    fdatasync(file->fd);
}

enum status journal_file_turn(struct journal_file *file, bool sound,
                              const struct journal_turn *turn, struct failure *f)
{
    enum status st = sound ? journal_file_sync(file, f) : STATUS_OK;
    struct journal_file before = *file;
    file->fd = -1;
    file->head.number++; /* also where nothing can be made: the loop counts files, too */
    file->head.snapshot = turn->snapshot;
    file->head.snapshot_instance = turn->instance;
    file->head.snapshot_generation = turn->generation;
    file->head.sequence = file->sequence + 1;
    file->head.previous = file->head.salt;
    file->head.broken = !sound || st;
    file->sync_due_ns = 0;
    if (!st) st = make(file, f);
    /* what says that a file follows comes when that is there for certain */
    if (sound && !st) end(&before, file->head.number);
    if (before.fd >= 0) close(before.fd);
    return st;
}

/* ---------------------------------------------------------------- writing */

static enum status write_pieces(struct journal_file *file, uint64_t at, struct iovec *pieces,
                                int count, struct failure *f)
{
    while (count) {
        bool full = fault_here("journal: no room");
        errno = full ? ENOSPC : EIO;
        ssize_t n =
            full || fault_here("journal: write") ? -1 : pwritev(file->fd, pieces, count, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return refuse(file, "cannot be written", errno, f);
        at += (uint64_t)n;
        for (uint64_t left = (uint64_t)n; count; pieces++, count--) {
            if (left < pieces->iov_len) {
                pieces->iov_base = (char *)pieces->iov_base + left;
                pieces->iov_len -= left;
                break;
            }
            left -= pieces->iov_len;
        }
    }
    return STATUS_OK;
}

/* Copies rows [first, first + count) of what an entry gathers. */
static void gather(const struct journal_entry *e, uint64_t first, uint64_t count, float *out)
{
    uint64_t columns = e->write.tensors[JOURNAL_MATRIX].columns;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t row = collection_find_row(e->rows_of, e->row_ids[first + i]);
        memcpy(out + i * columns, collection_row(e->rows_of, row), columns * sizeof *out);
    }
}

/* Calls with each piece of a tensor, in order. */
typedef enum status (*take_piece)(void *owner, const void *data, uint64_t bytes, struct failure *f);
static enum status each_piece(struct journal_file *file, const struct journal_entry *e,
                              uint32_t slot, take_piece take, void *owner, struct failure *f)
{
    const struct tensor *t = &e->write.tensors[slot];
    uint64_t bytes = journal_tensor_bytes(t);
    if (slot != JOURNAL_MATRIX || !e->rows_of) return take(owner, t->data, bytes, f);
    uint64_t row_bytes = t->columns * sizeof(float), step = GATHERED_BYTES / row_bytes;
    enum status st = STATUS_OK;
    for (uint64_t first = 0, n; !st && first < t->rows; first += n) {
        n = t->rows - first < step ? t->rows - first : step;
        gather(e, first, n, (float *)file->gathered);
        st = take(owner, file->gathered, n * row_bytes, f);
    }
    return st;
}

static const uint8_t zeros[64];

static enum status each_tensor(struct journal_file *file, const struct journal_entry *e,
                               take_piece take, void *owner, struct failure *f)
{
    enum status st = STATUS_OK;
    for (uint32_t i = 0; !st && i < JOURNAL_SLOTS; i++) {
        uint64_t bytes = journal_tensor_bytes(&e->write.tensors[i]);
        if (!bytes) continue;
        st = each_piece(file, e, i, take, owner, f);
        uint64_t padding = journal_pad(bytes) - bytes;
        if (!st && padding) st = take(owner, zeros, padding, f);
    }
    return st;
}

static enum status add_to_sum(void *owner, const void *data, uint64_t bytes, struct failure *f)
{
    XXH3_64bits_update(owner, data, bytes);
    return STATUS_OK;
}

struct output {
    struct journal_file *file;
    uint64_t at;
    struct iovec pieces[2 * JOURNAL_SLOTS + 2];
    int count;
    bool held; /* what is in pieces stays where it lies, and can be written later */
};

static enum status flush(struct output *o, struct failure *f)
{
    uint64_t bytes = 0;
    for (int i = 0; i < o->count; i++)
        bytes += o->pieces[i].iov_len;
    enum status st = write_pieces(o->file, o->at, o->pieces, o->count, f);
    o->at += bytes;
    o->count = 0;
    return st;
}

static enum status add_to_output(void *owner, const void *data, uint64_t bytes, struct failure *f)
{
    struct output *o = owner;
    o->pieces[o->count++] = (struct iovec){(void *)(uintptr_t)data, bytes};
    bool full = o->count == (int)(sizeof o->pieces / sizeof o->pieces[0]);
    return o->held && !full ? STATUS_OK : flush(o, f);
}

static enum status write_record(struct journal_file *file, const struct journal_entry *e,
                                struct failure *f)
{
    uint8_t head[JOURNAL_RECORD_BYTES], fixed[JOURNAL_FIXED_BYTES];
    struct journal_record r = {.kind = e->write.kind,
                               .bytes = journal_contents_bytes(&e->write),
                               .sequence = file->sequence + 1,
                               .synced = file->synced_at};
    XXH3_state_t *sum = file->sum;
    XXH3_64bits_reset_withSeed(sum, file->head.salt);
    journal_contents_print(&e->write, fixed);
    XXH3_64bits_update(sum, fixed, sizeof fixed);
    enum status st = each_tensor(file, e, add_to_sum, sum, f);
    r.sum = XXH3_64bits_digest(sum);
    journal_record_print(&r, file->head.salt, head);
    struct output o = {.file = file, .at = file->at, .held = !e->rows_of};
    if (!st) st = add_to_output(&o, head, sizeof head, f);
    if (!st) st = add_to_output(&o, fixed, sizeof fixed, f);
    if (!st) st = each_tensor(file, e, add_to_output, &o, f);
    if (!st && o.count) st = flush(&o, f);
    return st;
}

/* The disk begins with what it will have to sync. */
static void begin_early(struct journal_file *file)
{
    uint64_t least = file->head.always ? START_ALWAYS_BYTES : START_BYTES;
    if (file->at - file->begun_at < least) return;
    sync_file_range(file->fd, (off_t)file->begun_at, (off_t)(file->at - file->begun_at),
                    SYNC_FILE_RANGE_WRITE);
    file->begun_at = file->at;
}

enum status journal_file_write(struct journal_file *file, const struct journal_entry *e,
                               struct failure *f)
{
    enum status st = write_record(file, e, f);
    if (st) { /* a piece of it may be there */
        if (ftruncate(file->fd, (off_t)file->at) && st == STATUS_RESOURCE_EXHAUSTED)
            st = refuse(file, "cannot be cut", errno, f);
        return st;
    }
    uint64_t bytes = JOURNAL_RECORD_BYTES + journal_contents_bytes(&e->write);
    file->at += bytes;
    file->bytes_ever += bytes;
    file->bytes_since += bytes;
    file->records++;
    file->sequence++;
    if (!file->head.always && !file->sync_due_ns) file->sync_due_ns = clock_now_ns() + SECOND_NS;
    begin_early(file);
    return STATUS_OK;
}

enum status journal_file_sync(struct journal_file *file, struct failure *f)
{
    if (file->synced_sequence == file->sequence) return STATUS_OK;
    errno = EIO;
    if (fault_here("journal: sync") || fdatasync(file->fd))
        return refuse(file, "cannot be synced", errno, f);
    file->synced_at = file->at;
    file->group_last = file->sequence - file->synced_sequence;
    file->synced_sequence = file->sequence;
    file->syncs++;
    file->oldest_ns = 0;
    mark(file, JOURNAL_MARK, 0);
    return STATUS_OK;
}

void journal_file_end(struct journal_file *file)
{
    struct failure why = {0};
    if (journal_file_sync(file, &why)) return;
    end(file, 0);
}

void journal_file_finish(struct journal_file *file)
{
    if (file->fd >= 0) close(file->fd);
    if (file->sum) XXH3_freeState(file->sum);
    free(file->gathered);
}
