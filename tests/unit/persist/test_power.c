/* A save that is killed at any of its system calls, and what a loss of power could leave: another
 * process saves, and this one stops it at each call that changes a file or a folder (ptrace). */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

#include "daemon/base/log.h"
#include "tests/support/journal_house.h"
#include "tests/support/persist_house.h"
#include "tests/support/sweep.h"

enum { FILES_MAX = 256 };

/* What the disk would have: files and folders by number, and whether all of them was synced. */
struct disk {
    struct {
        ino_t number;
        bool synced;
    } files[FILES_MAX];
    uint32_t count;
    ino_t folder;   /* that snapshots lie in */
    uint32_t calls; /* that change something, so far */
    bool renamed;   /* the snapshot has its name, and its folder's folder is not synced yet */
};

static bool *synced_of(struct disk *d, ino_t number)
{
    uint32_t i = 0;
    while (i < d->count && d->files[i].number != number)
        i++;
    if (i == d->count) {
        cr_assert_lt(d->count, FILES_MAX);
        d->files[d->count].number = number;
        d->files[d->count++].synced = true; /* it was there before */
    }
    return &d->files[i].synced;
}

static ino_t number_of(pid_t pid, int fd)
{
    char path[64];
    struct stat is;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    return stat(path, &is) ? 0 : is.st_ino;
}

/* All files of the folder that gets its name are on the disk, and so are their names. */
static void check_renamed(struct disk *d, const char *folder)
{
    struct stat is;
    DIR *all = opendir(folder);
    cr_assert_not_null(all, "%s", folder);
    cr_assert_eq(fstat(dirfd(all), &is), 0);
    cr_assert(*synced_of(d, is.st_ino), "the folder's names are not synced");
    for (const struct dirent *at; (at = readdir(all));) {
        if (at->d_name[0] == '.' || fstatat(dirfd(all), at->d_name, &is, 0)) continue;
        cr_assert(*synced_of(d, is.st_ino), "%s is not synced", at->d_name);
    }
    closedir(all);
}

static void read_text(pid_t pid, uint64_t at, char *text, size_t room)
{
    size_t n = 0;
    while (n + sizeof(long) < room) {
        errno = 0;
        long word = ptrace(PTRACE_PEEKDATA, pid, (void *)(uintptr_t)(at + n), NULL);
        cr_assert_eq(errno, 0);
        memcpy(text + n, &word, sizeof word);
        for (size_t i = 0; i < sizeof word; i++, n++)
            if (!text[n]) return;
    }
    text[room - 1] = 0;
}

static bool changes(uint64_t call)
{
    switch (call) {
    case SYS_write:
    case SYS_openat:
    case SYS_mkdirat:
    case SYS_linkat:
    case SYS_unlinkat:
    case SYS_fsync:
    case SYS_fdatasync:
#ifdef SYS_renameat
    case SYS_renameat:
#endif
    case SYS_renameat2: return true;
    default: return false;
    }
}

/* The call is about to be made. */
static void note_entry(struct disk *d, pid_t pid, const char *folder,
                       const struct ptrace_syscall_info *s)
{
    char name[128], path[256];
    const __u64 *args = s->entry.args;
    bool moves = s->entry.nr == SYS_renameat2;
#ifdef SYS_renameat
    moves |= s->entry.nr == SYS_renameat;
#endif
    if (s->entry.nr == SYS_write) {
        *synced_of(d, number_of(pid, (int)args[0])) = false;
    } else if (s->entry.nr == SYS_linkat) {
        *synced_of(d, number_of(pid, (int)args[2])) = false;
    } else if (s->entry.nr == SYS_openat && args[2] & O_CREAT) {
        *synced_of(d, number_of(pid, (int)args[0])) = false;
    } else if (s->entry.nr == SYS_unlinkat) {
        read_text(pid, args[1], name, sizeof name);
        if (strncmp(name, "journal-", 8) == 0)
            cr_assert_not(d->renamed, "%s goes before the snapshot is certain", name);
    } else if (moves) {
        read_text(pid, args[1], name, sizeof name);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (strncmp(name, ".saving-", 8) == 0) {
            check_renamed(d, path);
            d->renamed = true;
        } else if (strncmp(name, ".journal-", 9) == 0) {
            struct stat is;
            cr_assert_eq(stat(path, &is), 0);
            cr_assert(*synced_of(d, is.st_ino), "%s is not synced", name);
        } else {
            cr_assert_not(d->renamed, "%s goes before the new one is certain", name);
        }
    }
}

/* It was made, with success. */
static void note_exit(struct disk *d, const struct ptrace_syscall_info *entry, ino_t number)
{
    if (entry->entry.nr != SYS_fsync && entry->entry.nr != SYS_fdatasync) return;
    *synced_of(d, number) = true;
    if (number == d->folder) d->renamed = false;
}

static void change(struct persist_house *h)
{
    struct space *space = NULL;
    struct collection *c = NULL;
    struct upsert_counts counts;
    float row[16] __attribute__((aligned(64))) = {1, 2, 3};
    uint64_t id = 1;
    if (store_space(h->store, "two", &space) ||
        store_collection_find(h->store, space, "three", NULL, &c) ||
        collection_upsert(c, &id, row, 1, &counts, NULL))
        _exit(3);
    store_space_release(h->store, space);
}

static void save_traced(const char *path)
{
    struct persist_house h;
    struct failure f = {0};
    log_set_level_name("error");
    persist_house_open(&h, path);
    struct persist *p = persist_house_start(&h);
    change(&h);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) _exit(2);
    raise(SIGSTOP);
    _exit(persist_save(p, false, &f) ? 1 : 0);
}

/* Lets a process save, and kills it before call number `last` that changes something, or behind it;
 * 0: never. Returns how many such calls there were; 0: it cannot be traced here. */
static uint32_t save_until(const char *path, uint32_t last, bool behind)
{
    struct disk d = {0};
    struct ptrace_syscall_info s, entry = {0};
    ino_t number = 0;
    int status;
    struct stat is;
    cr_assert_eq(stat(path, &is), 0);
    d.folder = is.st_ino;
    pid_t pid = fork();
    if (!pid) save_traced(path);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status)) {
        cr_assert_eq(WEXITSTATUS(status), 2);
        return 0;
    }
    ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (bool ends = false; !ends;) {
        cr_assert_eq(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        if (!WIFSTOPPED(status)) break;
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
        if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof s, &s) <= 0) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return 0;
        }
        if (s.op == PTRACE_SYSCALL_INFO_ENTRY) {
            entry = s;
            if (!changes(s.entry.nr)) continue;
            number = number_of(pid, (int)s.entry.args[0]);
            note_entry(&d, pid, path, &s);
            d.calls++;
            ends = d.calls == last && !behind;
        } else if (s.op == PTRACE_SYSCALL_INFO_EXIT && changes(entry.entry.nr)) {
            if (!s.exit.is_error) note_exit(&d, &entry, number);
            ends = d.calls == last && behind;
        }
        if (!ends) continue;
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    if (!last) cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return d.calls;
}

/* Wherever it ends, the next start has all objects, as they were before or as they were saved. */
Test(power, a_save_that_is_killed_at_any_call, .timeout = 600)
{
    char path[64];
    struct failure f;
    uint64_t objects;
    log_set_level_name("error");
    persist_house_folder(path);
    persist_house_make_snapshot(path, false);
    uint32_t calls = save_until(path, 0, false);
    if (!calls) {
        persist_house_remove(path);
        cr_skip("SKIP this process may not trace another");
        return;
    }
    cr_assert_gt(calls, 20);
    uint32_t stride = sweep_stride(5), killed = 0;
    for (uint32_t last = 1; last <= calls; last += stride)
        for (int behind = 0; behind < 2; behind++) {
            save_until(path, last, behind);
            killed++;
            cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_OK, "%u: %s",
                         last, f.text);
            cr_assert_eq(objects, 7, "%u", last);
            cr_assert(persist_house_verify(path, ""), "%u", last);
        }
    fprintf(stderr, "power: %u calls that change something, %u saves killed\n", calls, killed);
    persist_house_remove(path);
}

/* A snapshot of 7 objects, and a journal that goes on from it, in which two more are made. */
static void make_journal(const char *path)
{
    struct journal_house h;
    struct journal_counters counters;
    persist_house_make_snapshot(path, false);
    memset(&h, 0, sizeof h);
    persist_house_open(&h.in, path);
    strcpy(h.in.config.persist_journal, "always");
    struct persist *p = persist_house_start(&h.in);
    h.journal = persist_journal(p);
    for (uint32_t i = 0; i < 9; i++)
        journal_house_write(&h, i);
    persist_close_journal(p, journal_house_give, &counters, &h);
    cr_assert_eq(counters.synced, 9);
    persist_destroy(p);
    persist_house_close(&h.in);
}

/* Wherever a save ends, what the journal had is there once: in it, or in the snapshot. */
Test(power, a_save_with_a_journal_that_is_killed_at_any_call, .timeout = 600)
{
    struct failure f;
    uint64_t objects;
    uint32_t stride = 2 + sweep_stride(9), killed = 0, calls = 1;
    log_set_level_name("error");
    for (uint32_t last = 0; last <= calls; last += last ? stride : 1)
        for (int behind = 0; behind < 2; behind++) {
            char path[64];
            persist_house_folder(path);
            make_journal(path);
            uint32_t made = save_until(path, last, behind);
            if (!made) {
                persist_house_remove(path);
                cr_skip("SKIP this process may not trace another");
                return;
            }
            if (!last) calls = made;
            killed++;
            for (int again = 0; again < 2; again++) {
                cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_OK, "%u: %s",
                             last, f.text);
                cr_assert_eq(objects, 9, "%u", last);
            }
            persist_house_remove(path);
        }
    cr_assert_gt(calls, 20);
    fprintf(stderr, "power: %u calls with a journal, %u saves killed\n", calls, killed);
}
