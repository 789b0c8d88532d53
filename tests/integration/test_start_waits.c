/* A start that finds its folder or its socket in the hands of a process that is ending. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/persist_house.h"
#include "tests/support/scene.h"

/* It is told who has the folder, and stops when it is asked to. */
Test(start_waits, a_stop_ends_the_wait_for_the_folder)
{
    struct daemon_process d;
    char folder[64], setting[96], path[96], who[64];
    persist_house_folder(folder);
    snprintf(setting, sizeof setting, "persist.dir=%s", folder);
    snprintf(path, sizeof path, "%s/lock", folder);
    snprintf(who, sizeof who, "(process %d); waiting for it to end", (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    cr_assert_gt(dprintf(fd, "%d\n", (int)getpid()), 0);
    daemon_launch(&d, (const char *[]){setting, NULL});
    wait_logged(&d, who);
    cr_assert_eq(daemon_stop(&d), 0);
    close(fd);
    persist_house_remove(folder);
}

static void *end_when_told(void *from)
{
    char c;
    _exit(read(*(int *)from, &c, 1) == 1 ? 0 : 1);
}

/* A process whose first thread has ended, as that of one that was killed has while others take
 * memory down: it has no memory, and all its locks. */
static pid_t hold_socket(const char *path, const int until[2])
{
    int ready[2];
    char lock[128], c;
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        static int from;
        pthread_t thread;
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
        snprintf(lock, sizeof lock, "%s.lock", path);
        from = until[0];
        close(until[1]); /* it also ends with the test */
        int fd = open(lock, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd < 0 || fcntl(fd, F_OFD_SETLK, &l) || dprintf(fd, "%d\n", (int)getpid()) < 0 ||
            pthread_create(&thread, NULL, end_when_told, &from) || write(ready[1], "", 1) != 1)
            _exit(1);
        close(ready[1]);
        pthread_exit(NULL);
    }
    close(ready[1]);
    cr_assert_eq(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return pid;
}

static bool is_zombie(pid_t pid)
{
    char name[64], text[512] = "";
    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    int fd = open(name, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 && strstr(text, ") Z");
}

static pid_t begin(struct daemon_process *d, char directory[64], int until[2])
{
    char option[128], path[96];
    strcpy(directory, "/tmp/engram-test-XXXXXX");
    cr_assert_not_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/held", directory);
    snprintf(option, sizeof option, "--socket=%s", path);
    cr_assert_eq(pipe(until), 0);
    pid_t pid = hold_socket(path, until);
    while (!is_zombie(pid))
        wait_ms(1);
    daemon_launch(d, (const char *[]){option, NULL});
    wait_logged(d, "is ending; waiting for its socket");
    return pid;
}

static void finish(pid_t pid, const char *directory, const int until[2], bool tell)
{
    char command[128];
    int status;
    if (tell) cr_assert_eq(write(until[1], "", 1), 1);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    close(until[0]);
    close(until[1]);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    cr_assert_eq(system(command), 0);
}

Test(start_waits, for_a_socket_whose_owner_ends)
{
    struct daemon_process d;
    char directory[64];
    int until[2];
    pid_t pid = begin(&d, directory, until);
    cr_assert_eq(write(until[1], "", 1), 1);
    wait_logged(&d, "listening on");
    cr_assert_eq(daemon_stop(&d), 0);
    finish(pid, directory, until, false);
}

Test(start_waits, a_stop_ends_the_wait_for_the_socket)
{
    struct daemon_process d;
    char directory[64];
    int until[2];
    pid_t pid = begin(&d, directory, until);
    cr_assert_eq(daemon_stop(&d), 0);
    finish(pid, directory, until, true);
}
