/* Memory that is shared as a file: its size, its mode, and who may not have it. */
#include "daemon/base/memory_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/fault.h"

enum { BYTES = 1 << 20, NOBODY = 65534 };

Test(memory_file, has_a_size_and_is_its_owners)
{
    struct stat sb;
    mode_t old = umask(0);
    int fd = memory_file_create("test", BYTES);
    umask(old);
    cr_assert_geq(fd, 0);
    cr_assert_eq(fstat(fd, &sb), 0);
    cr_assert_eq(sb.st_size, BYTES);
    cr_assert_eq(sb.st_mode & 07777, 0600, "%o", sb.st_mode);
    cr_assert_lt(ftruncate(fd, 2 * BYTES), 0);
    cr_assert_lt(ftruncate(fd, BYTES / 2), 0);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    cr_assert(!memory_file_never_runs(STDIN_FILENO));
    close(fd);
}

Test(memory_file, is_never_run)
{
    int fd = memory_file_create("test", BYTES);
    cr_assert_geq(fd, 0);
    if (!memory_file_never_runs(fd)) cr_skip_test("SKIP this kernel knows no MFD_NOEXEC_SEAL");
    cr_assert_lt(fchmod(fd, 0700), 0);
    cr_assert_eq(errno, EPERM);
    close(fd);
}

/* Another user asks for it by its place in /proc. */
static int open_as_nobody(pid_t pid, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)) return -1;
    return open(path, O_RDONLY) < 0 && errno == EACCES ? 0 : 1;
}

/* A descriptor that another user has all the same opens nothing further. */
static int open_again_as_nobody(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)) return -1;
    return open(path, O_RDWR) < 0 && errno == EACCES ? 0 : 1;
}

Test(memory_file, other_users_cannot_open_it)
{
    if (geteuid() != 0) cr_skip_test("SKIP only root can be somebody else");
    int fd = memory_file_create("test", BYTES);
    cr_assert_geq(fd, 0);
    for (int how = 0; how < 2; how++) {
        pid_t parent = getpid(), pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0) _exit(how ? open_again_as_nobody(fd) : open_as_nobody(parent, fd));
        int status;
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), 0, "%s opened it",
                     how ? "a user who was given a descriptor" : "another user");
    }
    close(fd);
}

Test(memory_file, each_step_fails)
{
    for (uint32_t nth = 1; nth <= 4; nth++) {
        fault_arm(nth);
        cr_assert_lt(memory_file_create("test", BYTES), 0);
        cr_assert(fault_fired());
        fault_arm(0);
    }
    fault_arm(5);
    int fd = memory_file_create("test", BYTES);
    fault_arm(0);
    cr_assert_geq(fd, 0);
    close(fd);
}
