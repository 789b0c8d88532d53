/* The socket's path: whose it is, in races of processes, and after files were removed by hand.
 * RIM_RACES=1000 RIM_DAEMON_RACES=50: as many races; a few by default. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/socket_file.h"
#include "tests/support/scene.h"

enum { RACERS = 8, RACES = 40, DAEMON_RACES = 2 };

static unsigned asked(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/* ---------------------------------------------------------------- who serves */

/* The process that listens at path; 0: nobody. */
static pid_t server_at(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct ucred cred = {0};
    socklen_t size = sizeof cred;
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size))
        cred.pid = 0;
    close(fd);
    return cred.pid;
}

static bool is_there(const char *path)
{
    struct stat sb;
    return lstat(path, &sb) == 0;
}

/* What a killed daemon leaves. */
static void leave_stale(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    close(fd);
}

static void write_text(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    cr_assert(out && fputs(text, out) >= 0 && fclose(out) == 0);
}

/* ---------------------------------------------------------------- races of listeners */

struct outcome {
    pid_t pid;
    enum status status;
    bool bound;
    char text[224];
};

struct race {
    char directory[32], path[64], lock[80];
    int go[2], told[2], end[2]; /* pipes: closing the first and the last lets all go on */
    pid_t pids[RACERS];
};

static void wait_for_end_of(int fd)
{
    char byte;
    while (read(fd, &byte, 1) > 0)
        continue;
}

/* One of them, in a process of its own. */
static void run_racer(struct race *r, bool killed)
{
    struct outcome o = {.pid = getpid()};
    struct socket_file file;
    struct failure f = {0};
    int fd = -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(r->go[1]);
    close(r->end[1]);
    wait_for_end_of(r->go[0]);
    o.status = socket_file_bind(r->path, 0600, &file, &fd, &f);
    o.bound = !o.status && listen(fd, 4 * RACERS) == 0;
    memcpy(o.text, f.text, sizeof o.text);
    if (write(r->told[1], &o, sizeof o) != sizeof o) _exit(1);
    if (!o.status) {
        wait_for_end_of(r->end[0]);
        if (!killed) socket_file_release(&file);
    }
    _exit(0);
}

static void race_start(struct race *r, bool killed)
{
    cr_assert(!pipe(r->go) && !pipe(r->told) && !pipe(r->end));
    for (int i = 0; i < RACERS; i++) {
        r->pids[i] = fork();
        cr_assert_geq(r->pids[i], 0);
        if (r->pids[i] == 0) run_racer(r, killed);
    }
    close(r->go[1]);
}

/* Returns who has it; each of the others says so. */
static pid_t race_judge(const struct race *r, unsigned race)
{
    struct outcome o[RACERS];
    char who[40];
    pid_t winner = 0;
    for (int i = 0; i < RACERS; i++)
        cr_assert_eq(read(r->told[0], &o[i], sizeof o[i]), sizeof o[i]);
    for (int i = 0; i < RACERS; i++) {
        if (o[i].status) continue;
        cr_assert(o[i].bound && !winner, "race %u: two have it", race);
        winner = o[i].pid;
    }
    cr_assert(winner, "race %u: nobody has it: %s", race, o[0].text);
    snprintf(who, sizeof who, "(process %d)", (int)winner);
    for (int i = 0; i < RACERS; i++)
        if (o[i].status)
            cr_assert(o[i].status == STATUS_ALREADY_EXISTS && strstr(o[i].text, who),
                      "race %u: not %s: %s", race, who, o[i].text);
    cr_assert_eq(server_at(r->path), winner, "race %u: its file is not there", race);
    return winner;
}

static void race_end(struct race *r)
{
    close(r->end[1]);
    for (int i = 0; i < RACERS; i++)
        cr_assert_eq(waitpid(r->pids[i], NULL, 0), r->pids[i]);
    close(r->go[0]);
    close(r->told[0]);
    close(r->told[1]);
    close(r->end[0]);
}

/* Every other winner is killed; sometimes a lock file of one long gone lies there, or a file of one
 * that had no locks. */
Test(rim_socket, one_of_eight_wins)
{
    struct race r = {.directory = "/tmp/engram-race-XXXXXX"};
    unsigned races = asked("RIM_RACES", RACES);
    cr_assert(mkdtemp(r.directory));
    snprintf(r.path, sizeof r.path, "%s/socket", r.directory);
    snprintf(r.lock, sizeof r.lock, "%s.lock", r.path);
    for (unsigned i = 0; i < races; i++) {
        bool killed = i % 2 == 0;
        if (i % 4 == 2 && !is_there(r.path)) leave_stale(r.path);
        if (i % 8 == 6) write_text(r.lock, "1\n");
        race_start(&r, killed);
        race_judge(&r, i);
        race_end(&r);
        cr_assert_eq(is_there(r.path), killed, "race %u", i);
        cr_assert_eq(is_there(r.lock), killed, "race %u", i);
    }
    unlink(r.path);
    unlink(r.lock);
    cr_assert_eq(rmdir(r.directory), 0, "something else was left in %s", r.directory);
}

/* ---------------------------------------------------------------- what is left alone */

static void expect_refused(const char *path, const char *word)
{
    struct socket_file file;
    struct failure f = {0};
    int fd;
    cr_assert_eq(socket_file_bind(path, 0600, &file, &fd, &f), STATUS_ALREADY_EXISTS);
    cr_assert(strstr(f.text, word), "%s", f.text);
}

static void keep_refusing(const char *path, const char *lock)
{
    struct stat sb;
    write_text(path, "precious");
    expect_refused(path, "not a socket");
    cr_assert(stat(path, &sb) == 0 && sb.st_size == 8);
    cr_assert(!is_there(lock));
    unlink(path);
    cr_assert_eq(symlink("/dev/null", path), 0);
    expect_refused(path, "not a socket");
    unlink(path);
    cr_assert_eq(mkfifo(lock, 0600), 0);
    expect_refused(path, "not the lock file");
    unlink(lock);
    cr_assert_eq(mkdir(lock, 0700), 0);
    struct failure f = {0};
    struct socket_file file;
    int fd;
    cr_assert_neq(socket_file_bind(path, 0600, &file, &fd, &f), STATUS_OK);
    cr_assert(strstr(f.text, lock), "%s", f.text);
    rmdir(lock);
    cr_assert(!is_there(path));
}

/* A socket of a program that knows of no locks is served: it is asked first. */
Test(rim_socket, what_is_not_ours_stays)
{
    char directory[] = "/tmp/engram-left-XXXXXX", path[64], lock[80], who[40];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    cr_assert(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/socket", directory);
    snprintf(lock, sizeof lock, "%s.lock", path);
    keep_refusing(path, lock);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 4) == 0);
    snprintf(who, sizeof who, "(process %d)", (int)getpid());
    expect_refused(path, who);
    cr_assert_eq(server_at(path), getpid());
    close(fd);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unlink(path);
    cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    expect_refused(path, "cannot be told");
    close(fd);
    unlink(path);
    cr_assert_eq(rmdir(directory), 0);
}

/* Files are made with the mode that was asked for, whatever the umask, and while other threads make
 * files, which a umask of this one's would change. */
Test(rim_socket, modes_whatever_the_umask)
{
    static const mode_t masks[] = {0, 0777, 0077};
    char directory[] = "/tmp/engram-mode-XXXXXX", path[64], lock[80];
    cr_assert(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/socket", directory);
    snprintf(lock, sizeof lock, "%s.lock", path);
    for (int i = 0; i < 3; i++) {
        struct socket_file file;
        struct failure f = {0};
        struct stat sb;
        int fd;
        mode_t old = umask(masks[i]);
        enum status st = socket_file_bind(path, 0660, &file, &fd, &f);
        umask(old);
        cr_assert_eq(st, STATUS_OK, "%s", f.text);
        cr_assert(lstat(path, &sb) == 0 && (sb.st_mode & 07777) == 0660, "%o", sb.st_mode);
        cr_assert(lstat(lock, &sb) == 0 && (sb.st_mode & 07777) == 0600, "%o", sb.st_mode);
        socket_file_release(&file);
        close(fd);
        cr_assert(!is_there(path) && !is_there(lock));
    }
    cr_assert_eq(rmdir(directory), 0);
}

/* ---------------------------------------------------------------- whole daemons */

/* Another daemon, at the same socket path or with the same settings, in a folder of its own. */
static void daemon_beside(struct daemon_process *b, const struct daemon_process *a,
                          const char *const *settings)
{
    *b = *a;
    snprintf(b->log_path, sizeof b->log_path, "%s/log2", a->directory);
    daemon_restart(b, settings);
}

static void expect_end(pid_t pid)
{
    int status;
    kill(pid, SIGTERM);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* libuv used to remove whatever was there when it closed the first one's socket. */
Test(rim_socket, a_path_that_was_lost_is_the_next_ones)
{
    struct daemon_process a, b;
    daemon_start(&a, NULL);
    cr_assert_eq(unlink(a.socket_path), 0);
    daemon_beside(&b, &a, NULL);
    cr_assert_eq(server_at(b.socket_path), b.pid);
    expect_end(a.pid);
    cr_assert_eq(server_at(b.socket_path), b.pid, "the first one removed the second one's file");
    int fd = raw_connect(&b);
    raw_hello(fd, "alpha");
    expect_alive(fd);
    close(fd);
    expect_end(b.pid);
    cr_assert(!is_there(b.socket_path));
    unlink(b.log_path);
    daemon_clean(&a);
    cr_assert(!is_there(a.directory), "a lock file stays");
}

Test(rim_socket, the_metrics_path_as_well)
{
    struct daemon_process a, b;
    char http[128], setting[160];
    daemon_start(&a, NULL);
    daemon_kill(&a);
    snprintf(http, sizeof http, "%s/http", a.directory);
    snprintf(setting, sizeof setting, "metrics.listen=%s", http);
    daemon_restart(&a, (const char *[]){setting, "metrics.open=true", NULL});
    cr_assert_eq(server_at(http), a.pid);
    cr_assert(unlink(http) == 0 && unlink(a.socket_path) == 0);
    daemon_beside(&b, &a, (const char *[]){setting, "metrics.open=true", NULL});
    cr_assert_eq(server_at(http), b.pid);
    expect_end(a.pid);
    cr_assert_eq(server_at(http), b.pid, "the first one removed the second one's file");
    expect_end(b.pid);
    cr_assert(!is_there(http));
    unlink(b.log_path);
    daemon_clean(&a);
    cr_assert(!is_there(a.directory), "a lock file stays");
}

Test(rim_socket, starts_where_one_was_killed)
{
    struct daemon_process d;
    struct stat sb;
    daemon_start(&d, NULL);
    for (int i = 0; i < 3; i++) {
        daemon_kill(&d);
        cr_assert_eq(lstat(d.socket_path, &sb), 0);
        daemon_restart(&d, NULL);
        cr_assert_eq(server_at(d.socket_path), d.pid);
    }
    cr_assert_eq(daemon_stop(&d), 0);
    cr_assert(!is_there(d.directory));
}

struct daemon_race {
    char directory[32], path[64], log[RACERS][80];
    pid_t pids[RACERS];
};

static void start_daemon(const struct daemon_race *r, int i)
{
    char program[4200];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    build_path("engram-acceld", program, sizeof program);
    int log = open(r->log[i], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (log >= 0 && dup2(log, 2) == 2)
        execl(program, program, "-S", r->path, "-s", "gpu.devices=none", "-s", "memory.max_mib=64",
              "-s", "workers.count=1", "-s", "sched.calibrate=false", (char *)NULL);
    _exit(127);
}

static void expect_told(const char *log, const char *who)
{
    char line[512];
    bool told = false;
    FILE *in = fopen(log, "r");
    cr_assert(in);
    while (fgets(line, sizeof line, in))
        told |= strstr(line, "another daemon is serving there") && strstr(line, who);
    fclose(in);
    cr_assert(told, "%s says nothing of %s", log, who);
}

/* Seven end; the eighth serves. */
static pid_t judge_daemons(struct daemon_race *r, unsigned race)
{
    char who[40];
    pid_t winner = 0;
    for (int ended = 0; ended < RACERS - 1; ended++) {
        int status, i = 0;
        pid_t pid = waitpid(-1, &status, 0);
        while (i < RACERS && r->pids[i] != pid)
            i++;
        cr_assert_lt(i, RACERS);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1, "race %u: %x", race, status);
        r->pids[i] = 0;
    }
    for (int i = 0; i < RACERS; i++)
        if (r->pids[i]) winner = r->pids[i];
    cr_assert_eq(server_at(r->path), winner, "race %u", race);
    snprintf(who, sizeof who, "(process %d)", (int)winner);
    for (int i = 0; i < RACERS; i++)
        if (r->pids[i] != winner) expect_told(r->log[i], who);
    return winner;
}

Test(rim_socket, one_of_eight_daemons_wins)
{
    struct daemon_race r = {.directory = "/tmp/engram-race-XXXXXX"};
    unsigned races = asked("RIM_DAEMON_RACES", DAEMON_RACES);
    cr_assert(mkdtemp(r.directory));
    snprintf(r.path, sizeof r.path, "%s/socket", r.directory);
    for (int i = 0; i < RACERS; i++)
        snprintf(r.log[i], sizeof r.log[i], "%s/log%d", r.directory, i);
    for (unsigned race = 0; race < races; race++) {
        for (int i = 0; i < RACERS; i++) {
            r.pids[i] = fork();
            cr_assert_geq(r.pids[i], 0);
            if (r.pids[i] == 0) start_daemon(&r, i);
        }
        pid_t winner = judge_daemons(&r, race);
        if (race % 2 && race + 1 < races) {
            kill(winner, SIGKILL);
            cr_assert_eq(waitpid(winner, NULL, 0), winner);
        } else {
            expect_end(winner);
        }
    }
    for (int i = 0; i < RACERS; i++)
        unlink(r.log[i]);
    cr_assert_eq(rmdir(r.directory), 0, "something was left in %s", r.directory);
}
