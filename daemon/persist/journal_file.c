#include "daemon/persist/journal_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"

static enum status refuse(uint64_t number, const char *what, int error, struct failure *f)
{
    enum status st = error == ENOSPC || error == EDQUOT || error == ENOMEM
                         ? STATUS_RESOURCE_EXHAUSTED
                         : STATUS_UNAVAILABLE;
    char name[JOURNAL_NAME_MAX];
    journal_file_name(number, name);
    return failure_set(f, st, DETAIL_SYSTEM, "%s: %s: %s", name, what, strerror(error));
}

/* ---------------------------------------------------------------- the folder */

void journal_file_name(uint64_t number, char name[JOURNAL_NAME_MAX])
{
    snprintf(name, JOURNAL_NAME_MAX, "journal-%012" PRIu64, number);
}

static bool number_of(const char *name, uint64_t *number)
{
    char same[JOURNAL_NAME_MAX];
    if (strncmp(name, "journal-", 8) != 0) return false;
    *number = strtoull(name + 8, NULL, 10);
    journal_file_name(*number, same);
    return strcmp(name, same) == 0;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static enum status list_add(uint64_t **numbers, uint64_t *room, uint64_t count, uint64_t number)
{
    if (count == *room) {
        uint64_t more = 2 * *room + 16;
        uint64_t *larger =
            fault_here("journal: list") ? NULL : realloc(*numbers, more * sizeof *larger);
        if (!larger) return STATUS_RESOURCE_EXHAUSTED;
        *numbers = larger;
        *room = more;
    }
    (*numbers)[count] = number;
    return STATUS_OK;
}

enum status journal_file_list(int folder, uint64_t **numbers, uint64_t *count, struct failure *f)
{
    uint64_t room = 0, number;
    enum status st = STATUS_OK;
    int copy = fault_here("journal: folder")
                   ? -1
                   : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = copy < 0 ? NULL : fdopendir(copy);
    *numbers = NULL;
    *count = 0;
    if (!all) {
        if (copy >= 0) close(copy);
        return failure_set(f, STATUS_UNAVAILABLE, DETAIL_SYSTEM, "the folder cannot be read");
    }
    for (const struct dirent *at; !st && (at = readdir(all));) {
        if (strncmp(at->d_name, ".journal-", 9) == 0) unlinkat(folder, at->d_name, 0);
        if (!number_of(at->d_name, &number)) continue;
        st = list_add(numbers, &room, *count, number);
        *count += !st;
    }
    closedir(all);
    if (!st) {
        if (*count) qsort(*numbers, *count, sizeof **numbers, compare);
        return STATUS_OK;
    }
    free(*numbers);
    *numbers = NULL;
    *count = 0;
    return failure_set(f, st, DETAIL_MEMORY, "no memory");
}

static bool write_head(int fd, const struct journal_head *head)
{
    uint8_t bytes[JOURNAL_HEAD_BYTES];
    journal_head_print(head, bytes);
    return !fault_here("journal: head") && write(fd, bytes, sizeof bytes) == sizeof bytes &&
           !fault_here("journal: sync head") && fdatasync(fd) == 0;
}

enum status journal_file_make(int folder, const struct journal_head *head, int *fd,
                              struct failure *f)
{
    char name[JOURNAL_NAME_MAX], hidden[JOURNAL_NAME_MAX + 1];
    journal_file_name(head->number, name);
    snprintf(hidden, sizeof hidden, ".%s", name);
    errno = EIO;
    int made =
        fault_here("journal: make")
            ? -1
            : openat(folder, hidden, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (made < 0) return refuse(head->number, "cannot be made", errno, f);
    errno = EIO;
    if (write_head(made, head) && !fault_here("journal: rename") &&
        renameat(folder, hidden, folder, name) == 0 && !fault_here("journal: sync folder") &&
        fsync(folder) == 0) {
        *fd = made;
        return STATUS_OK;
    }
    enum status st = refuse(head->number, "cannot be made", errno, f);
    close(made);
    unlinkat(folder, hidden, 0);
    unlinkat(folder, name, 0);
    return st;
}

void journal_file_remove(int folder, uint64_t number)
{
    char name[JOURNAL_NAME_MAX];
    journal_file_name(number, name);
    if (unlinkat(folder, name, 0))
        log_warning("persist: %s: cannot be removed: %s", name, strerror(errno));
}

void journal_file_prune(int folder, uint64_t before)
{
    uint64_t *numbers = NULL, count = 0;
    if (journal_file_list(folder, &numbers, &count, NULL)) return;
    for (uint64_t i = 0; i < count && numbers[i] < before; i++)
        journal_file_remove(folder, numbers[i]);
    free(numbers);
}

enum status journal_file_cut(int folder, uint64_t number, uint64_t bytes, struct failure *f)
{
    char name[JOURNAL_NAME_MAX];
    journal_file_name(number, name);
    errno = EIO;
    int fd = fault_here("journal: open to cut")
                 ? -1
                 : openat(folder, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return refuse(number, "cannot be cut", errno, f);
    bool cut = !fault_here("journal: cut") && ftruncate(fd, (off_t)bytes) == 0 && fsync(fd) == 0;
    enum status st = cut ? STATUS_OK : refuse(number, "cannot be cut", errno, f);
    close(fd);
    return st;
}

enum status journal_file_set_aside(int folder, uint64_t number, struct failure *f)
{
    char name[JOURNAL_NAME_MAX], left[JOURNAL_NAME_MAX + 5];
    journal_file_name(number, name);
    snprintf(left, sizeof left, "left-%s", name);
    errno = EIO;
    if (!fault_here("journal: set aside") && renameat(folder, name, folder, left) == 0)
        return STATUS_OK;
    return refuse(number, "cannot be renamed", errno, f);
}

/* ---------------------------------------------------------------- reading */

struct journal_reader {
    int fd;
    struct journal_head head;
    uint64_t at, bytes, sequence;
    char *room; /* of a record's contents, 64-byte aligned */
    uint64_t room_bytes;
};

void journal_reader_close(struct journal_reader *r)
{
    if (!r) return;
    if (r->fd >= 0) close(r->fd);
    free(r->room);
    free(r);
}

const struct journal_head *journal_reader_head(const struct journal_reader *r)
{
    return &r->head;
}

uint64_t journal_reader_position(const struct journal_reader *r)
{
    return r->at;
}

uint64_t journal_reader_bytes(const struct journal_reader *r)
{
    return r->bytes;
}

uint64_t journal_reader_sequence(const struct journal_reader *r)
{
    return r->sequence;
}

static enum status refuse_damage(const struct journal_reader *r, uint64_t byte, const char *why,
                                 struct failure *f)
{
    char name[JOURNAL_NAME_MAX];
    journal_file_name(r->head.number, name);
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s: byte %" PRIu64 ": %.120s", name,
                       byte, why);
}

static enum status read_at(const struct journal_reader *r, uint64_t at, void *out, uint64_t bytes,
                           struct failure *f)
{
    for (uint64_t done = 0; done < bytes;) {
        uint64_t left = bytes - done, most = UINT64_C(1) << 30;
        errno = EIO;
        ssize_t n =
            fault_here("journal: read")
                ? -1
                : pread(r->fd, (char *)out + done, left < most ? left : most, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return refuse(r->head.number, "cannot be read", n ? errno : EIO, f);
        done += (uint64_t)n;
    }
    return STATUS_OK;
}

static enum status read_head(struct journal_reader *r, uint64_t number, struct failure *f)
{
    struct stat is;
    struct failure why = {0};
    uint8_t bytes[JOURNAL_HEAD_BYTES];
    r->head.number = number;
    if (fstat(r->fd, &is) || !S_ISREG(is.st_mode)) return refuse_damage(r, 0, "this is no file", f);
    r->bytes = (uint64_t)is.st_size;
    if (r->bytes < sizeof bytes) return refuse_damage(r, r->bytes, "shorter than a head", f);
    enum status st = read_at(r, 0, bytes, sizeof bytes, f);
    if (st) return st;
    st = journal_head_parse(bytes, &r->head, &why);
    if (st == STATUS_FAILED_PRECONDITION) return failure_set(f, st, why.detail, "%s", why.text);
    r->head.number = st ? number : r->head.number;
    if (st) return refuse_damage(r, 0, why.text, f);
    if (r->head.number == number) return STATUS_OK;
    r->head.number = number;
    return refuse_damage(r, 0, "it was another file's name", f);
}

enum status journal_reader_open(int folder, uint64_t number, struct journal_reader **out,
                                struct failure *f)
{
    char name[JOURNAL_NAME_MAX];
    journal_file_name(number, name);
    struct journal_reader *r = fault_here("journal: reader") ? NULL : calloc(1, sizeof *r);
    if (!r) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory");
    r->fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    enum status st = r->fd < 0 ? refuse(number, "cannot be opened", errno, f) : STATUS_OK;
    if (!st) st = read_head(r, number, f);
    if (st) {
        journal_reader_close(r);
        return st;
    }
    r->at = JOURNAL_HEAD_BYTES;
    r->sequence = r->head.sequence;
    *out = r;
    return STATUS_OK;
}

static bool read_end(const struct journal_reader *r, struct journal_record *out)
{
    uint8_t bytes[JOURNAL_RECORD_BYTES];
    return r->bytes >= JOURNAL_HEAD_BYTES + sizeof bytes &&
           !read_at(r, r->bytes - sizeof bytes, bytes, sizeof bytes, NULL) &&
           journal_record_parse(bytes, r->head.salt, out) && out->kind == JOURNAL_END;
}

bool journal_reader_ended(const struct journal_reader *r)
{
    struct journal_record record;
    return read_end(r, &record) && !record.sum;
}

uint64_t journal_reader_follows(const struct journal_reader *r)
{
    struct journal_record record;
    return read_end(r, &record) ? record.sum : 0;
}

/* True if a record behind `at` says that what stands there was synced. */
static enum status look_for_synced(const struct journal_reader *r, uint64_t at, bool *synced,
                                   struct failure *f)
{
    enum { PIECE = 1 << 20 };
    struct journal_record record;
    enum status st = STATUS_OK;
    uint8_t *piece = fault_here("journal: piece") ? NULL : malloc(PIECE);
    *synced = false;
    if (!piece) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory");
    for (uint64_t first = at + 64, n; !st && !*synced && first + 64 <= r->bytes; first += n) {
        n = (r->bytes - first < PIECE ? r->bytes - first : PIECE) / 64 * 64;
        st = read_at(r, first, piece, n, f);
        for (uint64_t i = 0; !st && !*synced && i < n; i += JOURNAL_RECORD_BYTES)
            *synced = journal_record_parse(piece + i, r->head.salt, &record) &&
                      record.synced > at && record.synced <= first + i;
    }
    free(piece);
    return st;
}

/* What stands at the reader's place is no record, as `why` says. */
static enum journal_step judge(const struct journal_reader *r, uint64_t byte, const char *why,
                               struct failure *f)
{
    bool synced;
    if (look_for_synced(r, r->at, &synced, f)) return JOURNAL_STEP_DAMAGED;
    if (!synced) return JOURNAL_STEP_TORN;
    refuse_damage(r, byte, why, f);
    return JOURNAL_STEP_DAMAGED;
}

static enum status make_room(struct journal_reader *r, uint64_t bytes, struct failure *f)
{
    if (bytes <= r->room_bytes) return STATUS_OK;
    free(r->room);
    r->room_bytes = 0;
    r->room = fault_here("journal: room") ? NULL : aligned_alloc(64, bytes);
    if (!r->room)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for a write of %" PRIu64 " bytes", bytes);
    r->room_bytes = bytes;
    return STATUS_OK;
}

static enum journal_step read_write(struct journal_reader *r, const struct journal_record *record,
                                    struct journal_write *out, struct failure *f)
{
    struct failure why = {0};
    uint64_t from = r->at + JOURNAL_RECORD_BYTES;
    if (record->bytes > r->bytes - from) return judge(r, r->at, "longer than its file", f);
    if (make_room(r, record->bytes, f) || read_at(r, from, r->room, record->bytes, f))
        return JOURNAL_STEP_DAMAGED;
    if (XXH3_64bits_withSeed(r->room, record->bytes, r->head.salt) != record->sum)
        return judge(r, from, "a write's contents are damaged", f);
    /* its sums are right, so nothing was torn */
    uint64_t byte = 0;
    if (journal_contents_parse(r->room, record->bytes, record->kind, out, &byte, &why)) {
        refuse_damage(r, from + byte, why.text, f);
        return JOURNAL_STEP_DAMAGED;
    }
    r->at = from + record->bytes;
    r->sequence++;
    return JOURNAL_STEP_WRITE;
}

enum journal_step journal_reader_next(struct journal_reader *r, struct journal_write *out,
                                      struct failure *f)
{
    for (struct journal_record record;;) {
        uint8_t bytes[JOURNAL_RECORD_BYTES];
        if (r->at == r->bytes) return JOURNAL_STEP_LAST;
        if (r->bytes - r->at < sizeof bytes) return judge(r, r->at, "a piece of a record", f);
        if (read_at(r, r->at, bytes, sizeof bytes, f)) return JOURNAL_STEP_DAMAGED;
        if (!journal_record_parse(bytes, r->head.salt, &record))
            return judge(r, r->at, "no record", f);
        if (record.sequence != r->sequence || record.synced > r->at) {
            refuse_damage(r, r->at, "a record that belongs elsewhere", f);
            return JOURNAL_STEP_DAMAGED;
        }
        if (record.bytes) return read_write(r, &record, out, f);
        r->at += JOURNAL_RECORD_BYTES;
    }
}
