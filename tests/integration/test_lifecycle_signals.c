/* Stopping, draining, re-reading settings, restarting, and what the service manager hands over. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
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

#include "daemon/base/job.h"
#include "tests/support/gpu_scene.h"
#include "tests/support/sets.h"

/* Waits for the daemon to end; returns its exit code. */
static int wait_end(const struct daemon_process *d)
{
    int status;
    int64_t until = give_up_ms();
    while (waitpid(d->pid, &status, WNOHANG) == 0) {
        cr_assert(now_ms() < until, "it does not stop");
        wait_ms(2);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---------------------------------------------------------------- draining */

enum { D = 32, ROWS = 2000, LARGE_ROWS = 300000, QUERIES = 10, ASKED = 8 };

/* Work is in flight for as long as a test likes: it is a GPU process's, which is paused. */
static const char *const patient[] = {"limits.drain_ms=3600000",
                                      "gpu.devices=sim",
                                      "gpu.force=gpu",
                                      "gpu.min_pairs=1",
                                      "gpu.heartbeat_ms=60000",
                                      "gpu.job_ms=3600000",
                                      "sched.window_us=60000000",
                                      NULL};

struct turn_work {
    float *rows;
    uint64_t *ids;
    pid_t gpu;
    int answered;
    ea_status statuses[64];
};

static void note(ea_client *c, const ea_answer *answer, void *user)
{
    struct turn_work *w = user;
    w->statuses[w->answered++] = answer->status;
}

/* Collection "work", of so many rows. */
static void make_work(struct turn_work *w, ea_client *c, uint64_t count)
{
    memset(w, 0, sizeof *w);
    w->rows = malloc(count * D * 4);
    w->ids = malloc(count * 8);
    reference_fill(1, w->rows, count * D);
    for (uint64_t i = 0; i < count; i++)
        w->ids[i] = i;
    cr_assert_eq(ea_collection_create(c, "work", D, EA_SQUARED_EUCLIDEAN, NULL), EA_OK);
    cr_assert_eq(ea_upsert(c,
                           &(ea_rows){.collection = "work",
                                      .ids = w->ids,
                                      .rows = w->rows,
                                      .count = count,
                                      .dimension = D},
                           NULL),
                 EA_OK);
}

/* ASKED questions are in flight, and stay so until the GPU process goes on. */
static void start_work(struct turn_work *w, struct scene *s, ea_client *c)
{
    make_work(w, c, ROWS);
    gpu_scene_await_answer(c, "work", D);
    w->gpu = gpu_process_of(s->daemon.pid);
    process_pause(w->gpu);
    for (int i = 0; i < ASKED; i++)
        cr_assert_eq(ea_knn_send(c,
                                 &(ea_knn_question){.collection = "work",
                                                    .queries = w->rows,
                                                    .query_count = QUERIES,
                                                    .dimension = D,
                                                    .k = 5},
                                 &(ea_send_options){.callback = note, .user = w}, NULL),
                     EA_OK);
    ea_stats stats = {0};
    while (stats.jobs_in_flight < ASKED + 1) /* all of it has arrived, and this */
        cr_assert_eq(ea_get_stats(c, &stats), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(w->answered, 0);
}

static void finish_work(struct turn_work *w, ea_client *c)
{
    while (ea_pending(c) && ea_pump(c, -1) == EA_OK) {
    }
    free(w->rows);
    free(w->ids);
}

/* The daemon has seen the signal once its socket's file is gone. */
static void wait_gone(const char *socket_path)
{
    int64_t until = give_up_ms();
    while (access(socket_path, F_OK) == 0) {
        cr_assert(now_ms() < until, "it does not see the signal");
        wait_ms(1);
    }
}

static void expect_drain(int signal_number)
{
    struct scene s;
    struct turn_work w;
    scene_open(&s, patient);
    ea_client *c = scene_client(&s, "worker");
    start_work(&w, &s, c);
    kill(s.daemon.pid, signal_number);
    wait_gone(s.daemon.socket_path);
    kill(w.gpu, SIGCONT);
    finish_work(&w, c);
    cr_assert_eq(w.answered, ASKED);
    for (int i = 0; i < ASKED; i++)
        cr_assert_eq(w.statuses[i], EA_OK, "request %d: %s", i, ea_status_name(w.statuses[i]));
    cr_assert_eq(wait_end(&s.daemon), 0);
    cr_assert_neq(access(s.daemon.socket_path, F_OK), 0, "the socket file is gone");
    cr_assert_eq(ea_ping(c), EA_UNAVAILABLE);
    ea_close(c);
    ea_close(s.witness);
    daemon_clean(&s.daemon);
}

Test(lifecycle_signals, term_finishes_accepted_work)
{
    expect_drain(SIGTERM);
}

Test(lifecycle_signals, int_does_the_same)
{
    expect_drain(SIGINT);
}

Test(lifecycle_signals, while_draining_new_work_is_refused)
{
    struct scene s;
    struct turn_work w;
    scene_open(&s, patient);
    ea_client *c = scene_client(&s, "worker");
    start_work(&w, &s, c);
    kill(s.daemon.pid, SIGTERM);
    wait_gone(s.daemon.socket_path);
    struct turn_work late = {0};
    cr_assert_eq(ea_ping_send(c, &(ea_send_options){.callback = note, .user = &late}, NULL), EA_OK);
    while (!late.answered)
        cr_assert_eq(ea_pump(c, GIVE_UP_MS * UINT64_C(1000)), EA_OK);
    cr_assert_eq(w.answered, 0);
    kill(w.gpu, SIGCONT);
    finish_work(&w, c);
    cr_assert_eq(late.answered, 1);
    cr_assert_eq(late.statuses[0], EA_UNAVAILABLE, "%s", ea_status_name(late.statuses[0]));
    cr_assert_eq(w.answered, ASKED);
    cr_assert_eq(wait_end(&s.daemon), 0);
    ea_close(c);
    ea_close(s.witness);
    daemon_clean(&s.daemon);
}

Test(lifecycle_signals, a_second_term_stops_at_once)
{
    struct scene s;
    struct turn_work w;
    scene_open(&s, patient);
    ea_client *c = scene_client(&s, "worker");
    start_work(&w, &s, c);
    kill(s.daemon.pid, SIGTERM);
    wait_gone(s.daemon.socket_path);
    kill(s.daemon.pid, SIGTERM);
    cr_assert_eq(wait_end(&s.daemon), 0);
    finish_work(&w, c);
    cr_assert_eq(w.answered, ASKED, "every callback runs");
    for (int i = 0; i < ASKED; i++)
        cr_assert_eq(w.statuses[i], EA_UNAVAILABLE, "that was no stop at once");
    ea_close(c);
    ea_close(s.witness);
    daemon_clean(&s.daemon);
}

/* A client that never reads its reply must not keep it from stopping. */
Test(lifecycle_signals, a_deaf_client_does_not_hold_up_the_end)
{
    struct scene s;
    scene_open(&s, (const char *[]){"limits.drain_ms=500", NULL});
    ea_client *c = scene_client(&s, "hostile");
    struct turn_work w;
    make_work(&w, c, LARGE_ROWS);
    finish_work(&w, c);
    struct sample fetch;
    sample_find("fetch_range", &fetch);
    strcpy(fetch.message.fetch.collection, "work");
    fetch.message.fetch.offset = 0;
    fetch.message.fetch.limit = LARGE_ROWS;
    int fd = scene_connect(&s);
    send_sample(fd, &fetch, 1); /* 40 MB */
    struct pollfd begun = {.fd = fd, .events = POLLIN};
    cr_assert_eq(poll(&begun, 1, GIVE_UP_MS), 1, "its reply does not begin");
    int64_t start = now_ms();
    kill(s.daemon.pid, SIGTERM);
    cr_assert_eq(wait_end(&s.daemon), 0);
    /* The daemon counts from a later moment than start: on a slow machine there is more between. */
    cr_assert(now_ms() - start >= 499, "it did not wait for limits.drain_ms");
    close(fd);
    ea_close(c);
    ea_close(s.witness);
    daemon_clean(&s.daemon);
}

/* ---------------------------------------------------------------- SIGHUP */

static void write_settings(const char *path, const struct daemon_process *d, const char *rest)
{
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fprintf(f, "{\"socket\": {\"path\": \"%s\"}, \"memory\": {\"max_mib\": 1024}, %s}",
            d->socket_path, rest);
    fclose(f);
}

/* Starts the daemon with a settings file; the scene is without a witness. */
static pid_t start_with_file(struct daemon_process *d, const char *path)
{
    char program[4200];
    build_path("engram-acceld", program, sizeof program);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int log = open(d->log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(log, 2);
        execl(program, program, "--config", path, "--set", "limits.stall_ms=20000", (char *)NULL);
        _exit(127);
    }
    return pid;
}

Test(lifecycle_signals, hup_applies_live_settings_only)
{
    struct daemon_process d = {.directory = "/tmp/engram-hup-XXXXXX"};
    char path[96];
    cr_assert(mkdtemp(d.directory));
    snprintf(d.socket_path, sizeof d.socket_path, "%s/socket", d.directory);
    snprintf(d.log_path, sizeof d.log_path, "%s/log", d.directory);
    snprintf(path, sizeof path, "%s/settings.json", d.directory);
    close(open(d.log_path, O_WRONLY | O_CREAT, 0600));
    write_settings(path, &d, "\"limits\": {\"handshake_ms\": 60000, \"connections\": 50}");
    d.pid = start_with_file(&d, path);
    wait_logged(&d, "listening on");
    int mute = raw_connect(&d);
    write_settings(path, &d, "\"limits\": {\"handshake_ms\": 100, \"connections\": 1}");
    kill(d.pid, SIGHUP);
    wait_logged(&d, "1 live settings changed");
    wait_logged(&d, "want a restart");
    expect_closed(mute); /* the new handshake limit holds */
    close(mute);
    int fds[5];
    for (int i = 0; i < 5; i++) { /* the old number of connections holds */
        fds[i] = raw_connect(&d);
        raw_hello(fds[i], "default");
        expect_alive(fds[i]);
    }
    write_settings(path, &d, "\"limits\": {\"handshake_ms\": \"soon\"}");
    kill(d.pid, SIGHUP);
    wait_logged(&d, "the settings in use stay");
    unlink(path);
    kill(d.pid, SIGHUP);
    wait_logged(&d, "o such file");
    for (int i = 0; i < 5; i++) {
        expect_alive(fds[i]);
        close(fds[i]);
    }
    cr_assert_eq(daemon_stop(&d), 0);
}

/* What the command line set goes over the file, also when it is read again. */
Test(lifecycle_signals, hup_keeps_what_the_command_line_set)
{
    struct daemon_process d = {.directory = "/tmp/engram-hup-XXXXXX"};
    char path[96];
    cr_assert(mkdtemp(d.directory));
    snprintf(d.socket_path, sizeof d.socket_path, "%s/socket", d.directory);
    snprintf(d.log_path, sizeof d.log_path, "%s/log", d.directory);
    snprintf(path, sizeof path, "%s/settings.json", d.directory);
    close(open(d.log_path, O_WRONLY | O_CREAT, 0600));
    write_settings(path, &d, "\"limits\": {\"stall_ms\": 500}");
    d.pid = start_with_file(&d, path);
    wait_logged(&d, "listening on");
    kill(d.pid, SIGHUP);
    wait_logged(&d, "0 live settings changed");
    unlink(path);
    cr_assert_eq(daemon_stop(&d), 0);
}

/* ---------------------------------------------------------------- the service manager */

static int bind_notify(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = GIVE_UP_MS / 1000};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

static void expect_notice(int fd, const char *text)
{
    char got[256] = {0};
    ssize_t n = recv(fd, got, sizeof got - 1, 0);
    cr_assert(n > 0, "no notice");
    cr_assert(strstr(got, text), "'%s' instead of '%s'", got, text);
}

Test(lifecycle_signals, notifies_the_service_manager)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/engram-notify.%d", getpid());
    int fd = bind_notify(path);
    setenv("NOTIFY_SOCKET", path, 1);
    struct daemon_process d;
    daemon_start(&d, NULL);
    expect_notice(fd, "READY=1");
    kill(d.pid, SIGTERM);
    expect_notice(fd, "STOPPING=1");
    cr_assert_eq(wait_end(&d), 0);
    daemon_clean(&d);
    close(fd);
    unlink(path);
}

/* WATCHDOG_USEC: the loop tells of itself, and no longer once the process stands still. */
Test(lifecycle_signals, feeds_the_watchdog_while_it_runs)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/engram-watchdog.%d", getpid());
    int fd = bind_notify(path);
    setenv("NOTIFY_SOCKET", path, 1);
    setenv("WATCHDOG_USEC", "200000", 1);
    struct daemon_process d;
    daemon_start(&d, NULL);
    expect_notice(fd, "READY=1");
    for (int i = 0; i < 3; i++)
        expect_notice(fd, "WATCHDOG=1");
    process_pause(d.pid);
    char rest[64];
    while (recv(fd, rest, sizeof rest, MSG_DONTWAIT) > 0)
        continue;
    wait_ms(250); /* longer than between three feedings */
    cr_expect_lt(recv(fd, rest, sizeof rest, MSG_DONTWAIT), 0, "fed by a daemon that is stopped");
    kill(d.pid, SIGCONT);
    expect_notice(fd, "WATCHDOG=1");
    kill(d.pid, SIGTERM);
    cr_assert_eq(wait_end(&d), 0);
    daemon_clean(&d);
    close(fd);
    unlink(path);
}

/* LISTEN_FDS: the socket is there before the daemon, and stays after it. */
Test(lifecycle_signals, inherits_a_listening_socket)
{
    struct daemon_process d = {.directory = "/tmp/engram-inherit-XXXXXX"};
    char program[4200];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cr_assert(mkdtemp(d.directory));
    snprintf(d.socket_path, sizeof d.socket_path, "%s/socket", d.directory);
    snprintf(d.log_path, sizeof d.log_path, "%s/log", d.directory);
    memcpy(address.sun_path, d.socket_path, sizeof d.socket_path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(listener, 16), 0);
    int early = raw_connect(&d); /* waits in the backlog */
    build_path("engram-acceld", program, sizeof program);
    d.pid = fork();
    if (d.pid == 0) {
        char pid[16];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int log = open(d.log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(log, 2);
        if (listener == 3)
            fcntl(3, F_SETFD, 0);
        else
            dup2(listener, 3);
        snprintf(pid, sizeof pid, "%d", getpid());
        setenv("LISTEN_FDS", "1", 1);
        setenv("LISTEN_PID", pid, 1);
        execl(program, program, "--set", "socket.path=/nowhere/socket", "--set",
              "memory.max_mib=256", (char *)NULL);
        _exit(127);
    }
    raw_hello(early, "default");
    expect_alive(early);
    close(early);
    kill(d.pid, SIGTERM);
    cr_assert_eq(wait_end(&d), 0);
    cr_assert_eq(access(d.socket_path, F_OK), 0, "it is the service manager's file");
    close(listener);
    daemon_clean(&d);
}

/* ---------------------------------------------------------------- restart */

Test(lifecycle_signals, a_client_finds_the_daemon_again)
{
    struct scene s;
    scene_open(&s, NULL);
    uint64_t first = ea_instance(s.witness);
    cr_assert_neq(first, 0);
    daemon_kill(&s.daemon);
    cr_assert_eq(ea_ping(s.witness), EA_UNAVAILABLE);
    cr_assert(ea_error_text(s.witness)[0]);
    cr_assert(ea_error_retryable(s.witness));
    daemon_restart(&s.daemon, NULL);
    cr_assert_eq(ea_ping(s.witness), EA_OK, "%s", ea_error_text(s.witness));
    cr_assert_neq(ea_instance(s.witness), first);
    cr_assert_neq(ea_instance(s.witness), 0);
    cr_assert_eq(ea_collection_describe(s.witness, "facts", &(ea_collection_info){0}),
                 EA_NOT_FOUND);
    daemon_kill(&s.daemon); /* between calls: the next one does not even notice */
    daemon_restart(&s.daemon, NULL);
    cr_assert_eq(ea_ping(s.witness), EA_OK, "%s", ea_error_text(s.witness));
    ea_close(s.witness);
    cr_assert_eq(daemon_stop(&s.daemon), 0);
}
