#include "daemon/persist/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/lock_pid.h"
#include "daemon/base/log.h"

#define SAVING "saving"
#define GONE   "gone"

static enum status refuse(const char *name, const char *what, int error, struct failure *f)
{
    enum status st = error == ENOSPC || error == EDQUOT || error == ENOMEM
                         ? STATUS_RESOURCE_EXHAUSTED
                         : STATUS_UNAVAILABLE;
    return failure_set(f, st, DETAIL_SYSTEM, "%.100s: %s: %s", name, what, strerror(error));
}

static void name_snapshot(uint64_t number, char name[FOLDER_NAME_MAX])
{
    snprintf(name, FOLDER_NAME_MAX, "snapshot-%012" PRIu64, number);
}

static void name_hidden(const char *kind, uint64_t number, char name[FOLDER_NAME_MAX])
{
    snprintf(name, FOLDER_NAME_MAX, ".%s-%012" PRIu64, kind, number);
}

/* ---------------------------------------------------------------- removing */

/* A folder of files. A file that is a folder stays, and so does what holds it. */
static bool remove_folder(int fd, const char *name)
{
    int inside = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *all = inside < 0 ? NULL : fdopendir(inside);
    if (!all && inside >= 0) close(inside);
    if (!all) return false;
    for (const struct dirent *at; (at = readdir(all));)
        if (strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0)
            unlinkat(dirfd(all), at->d_name, 0);
    closedir(all);
    return !fault_here("folder: remove") && unlinkat(fd, name, AT_REMOVEDIR) == 0;
}

static bool is_hidden(const char *name)
{
    return strncmp(name, "." SAVING "-", sizeof SAVING + 1) == 0 ||
           strncmp(name, "." GONE "-", sizeof GONE + 1) == 0;
}

static DIR *open_list(int fd)
{
    int copy =
        fault_here("folder: list") ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = copy < 0 ? NULL : fdopendir(copy);
    if (!all && copy >= 0) close(copy);
    return all;
}

/* What another daemon was writing or removing when it ended. */
static void remove_left(const struct folder *folder)
{
    DIR *all = open_list(folder->fd);
    if (!all) return;
    for (const struct dirent *at; (at = readdir(all));)
        if (is_hidden(at->d_name) && !remove_folder(folder->fd, at->d_name))
            log_warning("%s/%s: cannot be removed", folder->path, at->d_name);
    closedir(all);
}

void folder_abandon(const struct folder *folder, uint64_t number)
{
    char name[FOLDER_NAME_MAX];
    name_hidden(SAVING, number, name);
    remove_folder(folder->fd, name);
}

static void remove_snapshot(const struct folder *folder, uint64_t number)
{
    char name[FOLDER_NAME_MAX], gone[FOLDER_NAME_MAX];
    name_snapshot(number, name);
    name_hidden(GONE, number, gone);
    if (renameat(folder->fd, name, folder->fd, gone) || !remove_folder(folder->fd, gone))
        log_warning("%s/%s: cannot be removed", folder->path, name);
}

void folder_prune(const struct folder *folder, uint64_t keep)
{
    uint64_t *numbers = NULL, count = 0;
    if (folder_list(folder->fd, &numbers, &count, NULL)) return;
    for (uint64_t i = keep; i < count; i++)
        remove_snapshot(folder, numbers[i]);
    free(numbers);
}

/* ---------------------------------------------------------------- open, list */

static enum status tell_owner(const struct folder *folder, struct failure *f)
{
    char who[40] = "";
    long pid = lock_pid_read(folder->lock);
    if (pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM))
        snprintf(who, sizeof who, " (process %ld)", pid);
    return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_SYSTEM,
                       "%.100s: another daemon uses this folder%s", folder->path, who);
}

static enum status lock(struct folder *folder, struct failure *f)
{
    errno = EROFS;
    folder->lock =
        fault_here("folder: lock file")
            ? -1
            : openat(folder->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (folder->lock < 0) return refuse(folder->path, "cannot be written to", errno, f);
    errno = EIO;
    if (!fault_here("folder: lock") && flock(folder->lock, LOCK_EX | LOCK_NB) == 0) {
        lock_pid_write(folder->lock);
        return STATUS_OK;
    }
    if (errno != EWOULDBLOCK) return refuse(folder->path, "cannot be locked", errno, f);
    return tell_owner(folder, f);
}

enum status folder_open(const char *path, struct folder *out, struct failure *f)
{
    struct folder folder = {.fd = -1, .lock = -1};
    if (strlen(path) >= sizeof folder.path)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM, "the path is too long");
    strcpy(folder.path, path);
    if (mkdir(path, 0700) && errno != EEXIST && errno != EROFS)
        return refuse(path, "cannot be made", errno, f);
    errno = EIO;
    folder.fd = fault_here("folder: open") ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.fd < 0) return refuse(path, "cannot be opened", errno, f);
    enum status st = lock(&folder, f);
    if (st) {
        folder_close(&folder);
        return st;
    }
    remove_left(&folder);
    *out = folder;
    return STATUS_OK;
}

void folder_close(struct folder *folder)
{
    if (folder->lock >= 0) close(folder->lock);
    if (folder->fd >= 0) close(folder->fd);
    folder->lock = folder->fd = -1;
}

enum status folder_try(const char *path, struct folder *out, struct failure *f)
{
    struct folder folder = {.fd = -1, .lock = -1};
    if (strlen(path) >= sizeof folder.path)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM, "the path is too long");
    strcpy(folder.path, path);
    if (access(path, F_OK) && errno == ENOENT) {
        char *last = strrchr(folder.path, '/');
        if (last) last[last == folder.path] = 0;
    }
    folder.fd = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.fd < 0) return refuse(folder.path, "cannot be opened", errno, f);
    if (faccessat(folder.fd, ".", W_OK, AT_EACCESS)) {
        enum status st = refuse(folder.path, "cannot be written to", errno, f);
        close(folder.fd);
        return st;
    }
    *out = folder;
    return STATUS_OK;
}

bool folder_is_same(const struct folder *folder, const char *path)
{
    struct stat a, b;
    return !fstat(folder->fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* Twelve digits or more, and nothing else; no number is 0. */
static bool is_snapshot(const char *name, uint64_t *number)
{
    static const char before[] = "snapshot-";
    char again[FOLDER_NAME_MAX];
    if (strncmp(name, before, sizeof before - 1) != 0) return false;
    *number = strtoull(name + sizeof before - 1, NULL, 10);
    name_snapshot(*number, again);
    return *number && strcmp(name, again) == 0;
}

static int compare_falling(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

enum status folder_list(int fd, uint64_t **numbers, uint64_t *count, struct failure *f)
{
    uint64_t *list = NULL, n = 0, capacity = 0, number;
    errno = EIO;
    DIR *all = open_list(fd);
    if (!all) return refuse("persist.dir", "cannot be listed", errno, f);
    for (const struct dirent *at; (at = readdir(all));) {
        if (!is_snapshot(at->d_name, &number)) continue;
        if (n == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            uint64_t *larger =
                fault_here("folder: numbers") ? NULL : realloc(list, capacity * sizeof *list);
            if (!larger) {
                free(list);
                closedir(all);
                return refuse("persist.dir", "cannot be listed", ENOMEM, f);
            }
            list = larger;
        }
        list[n++] = number;
    }
    closedir(all);
    if (n) qsort(list, n, sizeof *list, compare_falling);
    *numbers = list;
    *count = n;
    return STATUS_OK;
}

int folder_open_snapshot(int fd, uint64_t number)
{
    char name[FOLDER_NAME_MAX];
    name_snapshot(number, name);
    errno = EIO;
    if (fault_here("folder: snapshot")) return -1;
    return openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---------------------------------------------------------------- small files */

static enum status read_open(int fd, const char *name, size_t bytes_max, char **text, size_t *bytes,
                             struct failure *f)
{
    struct stat is;
    if (fstat(fd, &is)) return refuse(name, "cannot be looked at", errno, f);
    if (!S_ISREG(is.st_mode) || (uint64_t)is.st_size > bytes_max)
        return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s: no file of at most %zu bytes",
                           name, bytes_max);
    size_t size = (size_t)is.st_size, done = 0;
    char *all = fault_here("folder: memory") ? NULL : malloc(size + 1);
    if (!all) return refuse(name, "cannot be read", ENOMEM, f);
    while (done < size) {
        errno = EIO;
        ssize_t n = fault_here("folder: read") ? -1 : read(fd, all + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            free(all);
            return refuse(name, "cannot be read", n ? errno : EIO, f);
        }
        done += (size_t)n;
    }
    all[size] = 0;
    *text = all;
    *bytes = size;
    return STATUS_OK;
}

enum status folder_read_file(int fd, const char *name, size_t bytes_max, char **text, size_t *bytes,
                             struct failure *f)
{
    int file = openat(fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 && (errno == ENOENT || errno == ELOOP))
        return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "%s: %s", name,
                           errno == ELOOP ? "a symbolic link" : "missing");
    if (file < 0) return refuse(name, "cannot be opened", errno, f);
    enum status st = read_open(file, name, bytes_max, text, bytes, f);
    close(file);
    return st;
}

static bool sync_folder(int fd)
{
    errno = EIO;
    return !fault_here("folder: sync") && fsync(fd) == 0;
}

enum status folder_write_file(int fd, const char *name, const char *text, size_t bytes,
                              struct failure *f)
{
    errno = EIO;
    int file = fault_here("folder: file")
                   ? -1
                   : openat(fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (file < 0) return refuse(name, "cannot be made", errno, f);
    enum status st = STATUS_OK;
    for (size_t done = 0; !st && done < bytes;) {
        errno = ENOSPC;
        ssize_t n = fault_here("folder: write") ? -1 : write(file, text + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            st = refuse(name, "cannot be written", n ? errno : EIO, f);
        else
            done += (size_t)n;
    }
    if (!st && !sync_folder(file)) st = refuse(name, "cannot be synced", errno, f);
    close(file);
    return st;
}

/* ---------------------------------------------------------------- writing a snapshot */

enum status folder_begin(const struct folder *folder, uint64_t number, int *out, struct failure *f)
{
    char name[FOLDER_NAME_MAX];
    name_hidden(SAVING, number, name);
    errno = EIO;
    if (fault_here("folder: begin") || mkdirat(folder->fd, name, 0750))
        return refuse(folder->path, "a folder cannot be made there", errno, f);
    int fd = openat(folder->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        enum status st = refuse(name, "cannot be opened", errno, f);
        folder_abandon(folder, number);
        return st;
    }
    *out = fd;
    return STATUS_OK;
}

enum status folder_commit(const struct folder *folder, uint64_t number, int saving,
                          struct failure *f)
{
    char from[FOLDER_NAME_MAX], to[FOLDER_NAME_MAX];
    name_hidden(SAVING, number, from);
    name_snapshot(number, to);
    if (!sync_folder(saving)) return refuse(from, "cannot be synced", errno, f);
    errno = EIO;
    if (fault_here("folder: rename") || renameat(folder->fd, from, folder->fd, to))
        return refuse(from, "cannot be renamed", errno, f);
    if (sync_folder(folder->fd)) return STATUS_OK;
    /* Whether it is there after a loss of power is not known: it must not be taken for saved. */
    enum status st = refuse(folder->path, "cannot be synced", errno, f);
    remove_snapshot(folder, number);
    return st;
}

uint64_t folder_free_bytes(const struct folder *folder)
{
    struct statvfs is;
    if (fstatvfs(folder->fd, &is)) return UINT64_MAX;
    return (uint64_t)is.f_bavail * is.f_frsize;
}

/* ---------------------------------------------------------------- the state */

static int print_state(const struct folder_state *state, char *text, size_t room)
{
    char journal[40] = "";
    if (state->journal) snprintf(journal, sizeof journal, " journal %" PRIu64, state->journal);
    return snprintf(text, room, "snapshot %" PRIu64 " generation %" PRIu64 "%s\n", state->snapshot,
                    state->generation, journal);
}

static uint64_t number_after(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

enum status folder_read_state(const struct folder *folder, struct folder_state *out,
                              struct failure *f)
{
    char *text = NULL;
    size_t bytes = 0;
    struct stat is;
    *out = (struct folder_state){0};
    if (fstatat(folder->fd, "state", &is, AT_SYMLINK_NOFOLLOW) && errno == ENOENT) return STATUS_OK;
    enum status st = folder_read_file(folder->fd, "state", 256, &text, &bytes, f);
    if (st || !text) return st;
    struct folder_state state = {0};
    char again[128];
    state.snapshot = number_after(text, "snapshot ");
    state.generation = number_after(text, " generation ");
    state.journal = number_after(text, " journal ");
    print_state(&state, again, sizeof again);
    bool ok = strcmp(text, again) == 0;
    free(text);
    if (!ok)
        return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED,
                           "state: not what a daemon writes there");
    *out = state;
    return STATUS_OK;
}

enum status folder_write_state(const struct folder *folder, const struct folder_state *state,
                               struct failure *f)
{
    char text[128];
    int bytes = print_state(state, text, sizeof text);
    enum status st = folder_write_file(folder->fd, "state.new", text, (size_t)bytes, f);
    if (st) return st;
    errno = EIO;
    if (fault_here("folder: state") || renameat(folder->fd, "state.new", folder->fd, "state"))
        return refuse("state.new", "cannot be renamed", errno, f);
    if (!sync_folder(folder->fd)) return refuse(folder->path, "cannot be synced", errno, f);
    return STATUS_OK;
}
