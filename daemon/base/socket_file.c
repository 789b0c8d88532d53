#include "daemon/base/socket_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/lock_pid.h"

/* Bytes of the lock file. Who starts or stops holds the first for an instant, so that all that is
 * seen under it is complete; the owner holds the second. */
enum { BYTE_LOOKING, BYTE_OWNER };

enum {
    LOCK_TRIES = 100,     /* each further one means that another process got on meanwhile */
    LOCK_WAIT_MS = 10000, /* for one that looks, or was stopped by a debugger while it did */
};

/* ---------------------------------------------------------------- the lock file */

struct lock_name {
    char text[SOCKET_PATH_BYTES + 8];
};

static struct lock_name name_lock(const char *path)
{
    struct lock_name n;
    snprintf(n.text, sizeof n.text, "%s.lock", path);
    return n;
}

/* Locks of an open file: they end with the process, and closing another descriptor of the same file
 * does not end them. False: another has it (EAGAIN), or it cannot be locked. */
static bool lock_byte(int fd, int byte, short how)
{
    struct flock l = {.l_type = how, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(fd, F_OFD_SETLK, &l) == 0) return true;
    if (errno == EACCES) errno = EAGAIN;
    return false;
}

static bool look(int fd)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    for (int waited_ms = 0; !lock_byte(fd, BYTE_LOOKING, F_WRLCK); waited_ms++) {
        if (errno != EAGAIN || waited_ms == LOCK_WAIT_MS) return false;
        nanosleep(&ms, NULL);
    }
    return true;
}

static bool is_at(int fd, const char *path)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && lstat(path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

static enum status tell_lock(const char *lock, const char *what, int error, struct failure *f)
{
    return failure_set(f, status_from_errno(-error), DETAIL_SYSTEM, "%s: %s: %s", lock, what,
                       strerror(error));
}

static enum status tell_owner(const char *path, int fd, struct failure *f)
{
    char who[40] = "one that could not write its process id";
    long pid = lock_pid_read(fd);
    if (pid > 0) snprintf(who, sizeof who, "process %ld", pid);
    return failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_SYSTEM,
                       "%s: another daemon is serving there (%s)", path, who);
}

/* What else is there is opened without effect. */
static enum status open_lock(const char *lock, int *out, struct failure *f)
{
    struct stat sb;
    int how = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = fault_here("socket file: lock") ? (errno = EMFILE, -1) : open(lock, how);
    if (fd < 0 && errno == ENOENT) {
        fd = open(lock, how | O_CREAT | O_EXCL, 0600);
        if (fd >= 0) fchmod(fd, 0600); /* whatever the umask */
        if (fd < 0 && errno == EEXIST) fd = open(lock, how);
    }
    if (fd < 0) return tell_lock(lock, "cannot make this lock file", errno, f);
    if (fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode)) {
        *out = fd;
        return STATUS_OK;
    }
    close(fd);
    return failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_SYSTEM,
                       "%s is not the lock file that it should be; it is left alone", lock);
}

/* Tries once. Writes -1 where another process was faster, or the one that had the path lost it. */
static enum status try_lock(const char *path, const char *lock, int *out, struct failure *f)
{
    struct stat sb;
    int fd = -1;
    *out = -1;
    enum status st = open_lock(lock, &fd, f);
    if (st) return st;
    if (!look(fd)) {
        st = errno == EAGAIN ? failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_SYSTEM,
                                           "%s: another process starts or stops there, and does "
                                           "not get on",
                                           path)
                             : tell_lock(lock, "cannot lock it", errno, f);
    } else if (is_at(fd, lock)) {
        if (lock_byte(fd, BYTE_OWNER, F_WRLCK)) {
            lock_pid_write(fd);
            *out = fd;
            return STATUS_OK;
        }
        if (errno != EAGAIN)
            st = tell_lock(lock, "cannot lock it", errno, f);
        else if (lstat(path, &sb) == 0 || errno != ENOENT)
            st = tell_owner(path, fd, f);
        else if (unlink(lock))
            st = tell_lock(lock, "cannot remove it", errno, f);
    }
    close(fd);
    return st;
}

/* Makes the path ours. Nobody else is looking until the first byte is unlocked. */
static enum status take_lock(const char *path, int *out, struct failure *f)
{
    struct lock_name lock = name_lock(path);
    enum status st = STATUS_OK;
    int fd = -1;
    for (int i = 0; i < LOCK_TRIES && fd < 0 && !st; i++)
        st = try_lock(path, lock.text, &fd, f);
    if (!st && fd < 0)
        st = failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_SYSTEM,
                         "%s: many processes start and stop there", path);
    if (!st) *out = fd;
    return st;
}

/* ---------------------------------------------------------------- the socket's file */

/* Says why a socket's file that is there is not replaced: someone answers, or nobody can tell. */
static enum status tell_server(const char *path, int fd, int error, struct failure *f)
{
    struct ucred cred = {0};
    socklen_t size = sizeof cred;
    if (error)
        return failure_set(
            f, STATUS_ALREADY_EXISTS, DETAIL_SYSTEM,
            "%s: whether this socket is served cannot be told (%s); it is left alone", path,
            strerror(error));
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size)) cred.pid = 0;
    return failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_SYSTEM,
                       "%s: another daemon is serving there (process %ld)", path, (long)cred.pid);
}

/* Removes the socket file of a daemon that was killed; leaves anything else alone. */
static enum status clear_socket(const char *path, const struct sockaddr_un *address,
                                struct failure *f)
{
    struct stat sb;
    if (lstat(path, &sb)) {
        if (errno == ENOENT) return STATUS_OK;
        return failure_set(f, status_from_errno(-errno), DETAIL_SYSTEM, "%s: %s", path,
                           strerror(errno));
    }
    if (!S_ISSOCK(sb.st_mode))
        return failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_SYSTEM,
                           "%s exists and is not a socket; it is left alone", path);
    int fd = fault_here("socket file: probe")
                 ? (errno = EMFILE, -1)
                 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return failure_set(f, status_from_errno(-errno), DETAIL_SYSTEM, "socket: %s",
                           strerror(errno));
    int error = connect(fd, (const struct sockaddr *)address, sizeof *address) ? errno : 0;
    enum status st = STATUS_OK;
    if (error != ECONNREFUSED && error != ENOENT) st = tell_server(path, fd, error, f);
    close(fd);
    if (!st && unlink(path) && errno != ENOENT)
        return failure_set(f, status_from_errno(-errno), DETAIL_SYSTEM, "%s: cannot remove: %s",
                           path, strerror(errno));
    return st;
}

/* The file has this mode from its first moment, less what the umask takes, which chmod gives back;
 * the umask itself is the whole process's, and other threads make files meanwhile. */
static int bind_file(struct socket_file *s, const struct sockaddr_un *address, uint32_t mode,
                     int fd)
{
    struct stat sb;
    if (fault_here("socket file: bind")) return EACCES;
    if (fchmod(fd, mode) || bind(fd, (const struct sockaddr *)address, sizeof *address))
        return errno;
    if (lstat(s->path, &sb)) return errno;
    s->device = sb.st_dev;
    s->inode = sb.st_ino;
    if (fault_here("socket file: mode")) return EPERM;
    return chmod(s->path, mode) ? errno : 0;
}

enum status socket_file_bind(const char *path, uint32_t mode, struct socket_file *out, int *fd,
                             struct failure *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct socket_file s = {.lock_fd = -1};
    if (strlen(path) >= sizeof s.path)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM, "%s: path too long", path);
    memcpy(s.path, path, strlen(path) + 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    enum status st = take_lock(path, &s.lock_fd, f);
    if (st) return st;
    st = clear_socket(path, &address, f);
    int made = -1, error = 0;
    if (!st) {
        made = fault_here("socket file: socket")
                   ? (errno = EMFILE, -1)
                   : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        error = made < 0 ? errno : bind_file(&s, &address, mode, made);
    }
    if (error)
        st = failure_set(f, status_from_errno(-error), DETAIL_SYSTEM, "cannot listen on %s: %s",
                         path, strerror(error));
    if (st) {
        socket_file_release(&s);
        if (made >= 0) close(made);
        return st;
    }
    lock_byte(s.lock_fd, BYTE_LOOKING, F_UNLCK);
    *out = s;
    *fd = made;
    return STATUS_OK;
}

/* One that ends has no memory of its own any more. */
static bool process_ends(long pid)
{
    char name[40], line[256];
    bool has_memory = false;
    snprintf(name, sizeof name, "/proc/%ld/status", pid);
    FILE *status = pid > 0 ? fopen(name, "re") : NULL;
    if (!status) return false;
    while (!has_memory && fgets(line, sizeof line, status))
        has_memory = strncmp(line, "VmSize:", 7) == 0;
    fclose(status);
    return !has_memory;
}

bool socket_file_owner_ends(const char *path, long *pid)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = BYTE_OWNER, .l_len = 1};
    if (strlen(path) >= SOCKET_PATH_BYTES) return false;
    struct lock_name lock = name_lock(path);
    int fd = open(lock.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return false;
    bool owned = fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
    *pid = owned ? lock_pid_read(fd) : 0;
    close(fd);
    return owned && process_ends(*pid);
}

void socket_file_tell_owner(const struct socket_file *s)
{
    if (s->path[0]) lock_pid_write(s->lock_fd);
}

static bool is_its_own(const struct socket_file *s, struct stat *sb)
{
    return s->inode && lstat(s->path, sb) == 0 && sb->st_dev == s->device && sb->st_ino == s->inode;
}

enum status socket_file_set_mode(const struct socket_file *s, uint32_t mode, struct failure *f)
{
    struct stat sb;
    if (!is_its_own(s, &sb) || (sb.st_mode & 07777) == mode) return STATUS_OK;
    if (chmod(s->path, mode) == 0) return STATUS_OK;
    return failure_set(f, status_from_errno(-errno), DETAIL_SYSTEM, "socket.mode: %s: %s", s->path,
                       strerror(errno));
}

void socket_file_release(struct socket_file *s)
{
    struct stat sb;
    if (!s->path[0]) return;
    struct lock_name lock = name_lock(s->path);
    bool looking = look(s->lock_fd);
    if (is_its_own(s, &sb)) unlink(s->path);
    if (looking && is_at(s->lock_fd, lock.text)) unlink(lock.text);
    close(s->lock_fd);
    *s = (struct socket_file){.lock_fd = -1};
}
