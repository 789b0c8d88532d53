/* Hand-overs that go another way: one of the two daemons ends or hangs in the middle, requests are
 * not finished in time; and what moves while all goes well. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/handover/hand_over.h"
#include "daemon/handover/message.h"
#include "tests/support/data_place.h"
#include "tests/support/endless.h"
#include "tests/support/gpu_scene.h"

/* ---- between the two ---- */

enum moment {
    KILLED_BEFORE, /* the daemon, when it has agreed: nothing was handed over */
    KILLED_AFTER,  /* it has handed over everything, and knows nothing of its successor */
    MIXED_UP,      /* what it has handed over arrives with another file as the claim */
    TOO_LATE,      /* it has waited in vain, and goes on */
};

/* Stands between a daemon and its successor: what each says arrives when the moment is there. */
struct between {
    const struct data_place *p;
    enum moment moment;
    int fd;
    char path[96], option[128];
    pthread_t thread;
};

static void die_now(pid_t pid)
{
    siginfo_t info;
    kill(pid, SIGKILL);
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
}

static void pass(int from, int to, enum message_kind kind, int fds[MESSAGE_FDS_MAX], int *count,
                 struct hand_over_message *m)
{
    cr_assert(message_receive(from, m, fds, count, GIVE_UP_MS));
    cr_assert_eq(m->kind, kind, "%u: %s", m->kind, m->text);
    if (to >= 0) cr_assert(message_send(to, m, fds, *count));
}

static void *stand_between(void *between)
{
    struct between *b = between;
    struct hand_over_message m;
    int fds[MESSAGE_FDS_MAX], count = 0, successor = accept(b->fd, NULL, NULL);
    int daemon = raw_connect(&b->p->daemon);
    char ask[HAND_OVER_ASK_BYTES];
    cr_assert_eq(recv(successor, ask, sizeof ask, MSG_WAITALL), (ssize_t)sizeof ask);
    cr_assert(raw_send(daemon, ask, sizeof ask));
    pass(daemon, successor, MESSAGE_ACCEPTED, fds, &count, &m);
    if (b->moment != KILLED_BEFORE) pass(daemon, -1, MESSAGE_GIVEN, fds, &count, &m);
    if (b->moment == MIXED_UP)
        cr_assert_eq(dup3(fds[1], fds[2], O_CLOEXEC), fds[2]);
    else if (b->moment == TOO_LATE)
        wait_logged(&b->p->daemon, "the successor does not get on; going on");
    else
        die_now(b->p->daemon.pid);
    if (b->moment != KILLED_BEFORE) cr_assert(message_send(successor, &m, fds, count));
    place_close_all(fds, count);
    close(daemon);
    close(successor); /* nobody hears what it says later */
    return NULL;
}

/* As daemon_succeed, through what stands between. */
static int succeed_through(struct data_place *p, enum moment moment)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct between b = {.p = p, .moment = moment};
    const char *settings[8] = {b.option};
    for (int i = 0; p->settings[i]; i++)
        settings[i + 1] = p->settings[i];
    snprintf(b.path, sizeof b.path, "%s/between", p->folder);
    snprintf(b.option, sizeof b.option, "--hand-over=%s", b.path);
    strcpy(address.sun_path, b.path);
    b.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(b.fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(b.fd, 1), 0);
    cr_assert_eq(pthread_create(&b.thread, NULL, stand_between, &b), 0);
    int code = daemon_succeed(&p->daemon, settings);
    pthread_join(b.thread, NULL);
    close(b.fd);
    unlink(b.path);
    return code;
}

Test(hand_over_ends, the_daemon_is_killed_before_it_gave)
{
    struct data_place p;
    place_open(&p, NULL);
    place_fill(&p);
    cr_assert_eq(ea_save(p.client, NULL, NULL), EA_OK, "%s", ea_error_text(p.client));
    struct data_state before = place_look(&p);
    cr_assert_eq(succeed_through(&p, KILLED_BEFORE), 128 + SIGKILL);
    wait_logged(&p.daemon, "starting with what is on the disk");
    struct data_state now = place_look(&p);
    cr_assert_eq(now.bits, before.bits);
    cr_assert_neq(now.instance, before.instance); /* as after any crash */
    place_close(&p);
}

/* In the daemon's place: ends when it is asked. */
static pid_t end_when_asked(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char ask[HAND_OVER_ASK_BYTES];
    int ready[2];
    cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
    strcpy(address.sun_path, path);
    pid_t pid = fork();
    if (pid) {
        close(ready[1]);
        cr_assert_eq(read(ready[0], ask, 1), 1);
        close(ready[0]);
        return pid;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1)) _exit(1);
    if (write(ready[1], "", 1) != 1) _exit(1);
    _exit(recv(accept(fd, NULL, NULL), ask, sizeof ask, MSG_WAITALL) == sizeof ask ? 7 : 1);
}

Test(hand_over_ends, the_daemon_is_killed_before_it_agreed)
{
    struct data_place p;
    char path[96], option[128];
    place_open(&p, NULL);
    place_fill(&p);
    cr_assert_eq(ea_save(p.client, NULL, NULL), EA_OK, "%s", ea_error_text(p.client));
    struct data_state before = place_look(&p);
    daemon_kill(&p.daemon);
    snprintf(path, sizeof path, "%s/in-its-place", p.folder);
    snprintf(option, sizeof option, "--hand-over=%s", path);
    p.daemon.pid = end_when_asked(path);
    const char *settings[] = {option, p.settings[0], p.settings[1], p.settings[2], NULL};
    cr_assert_eq(daemon_succeed(&p.daemon, settings), 7);
    wait_logged(&p.daemon, "starting with what is on the disk");
    place_wait_logged(&p, "listening on", 2);
    struct data_state now = place_look(&p);
    cr_assert_eq(now.bits, before.bits);
    unlink(path);
    place_close(&p);
}

struct held_folder {
    const struct data_place *p;
    int fd;
};

static void *let_go(void *held)
{
    const struct held_folder *h = held;
    wait_logged(&h->p->daemon, "waiting for it to end");
    close(h->fd);
    return NULL;
}

/* As after a kill: the process still has what it had locked. */
Test(hand_over_ends, a_start_waits_for_the_folder)
{
    struct data_place p;
    char path[128];
    pthread_t thread;
    place_open(&p, NULL);
    daemon_kill(&p.daemon);
    snprintf(path, sizeof path, "%s/lock", p.folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    cr_assert_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    struct held_folder held = {&p, fd};
    cr_assert_eq(pthread_create(&thread, NULL, let_go, &held), 0);
    daemon_restart(&p.daemon, p.settings);
    pthread_join(thread, NULL);
    place_close(&p);
}

/* Without a snapshot: what is there afterwards was handed over. */
Test(hand_over_ends, the_daemon_is_killed_after_it_gave)
{
    struct data_place p;
    place_open(&p, NULL);
    place_fill(&p);
    struct data_state before = place_look(&p);
    cr_assert_eq(succeed_through(&p, KILLED_AFTER), 128 + SIGKILL);
    place_expect(&p, &before);
    place_delete_tagged(&p, 900000 - 11, EA_OK);
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    place_expect(&p, &before);
    place_close(&p);
}

/* The daemon gets everything back, also its socket's file. */
Test(hand_over_ends, what_arrives_is_not_whole)
{
    struct data_place p;
    place_open(&p, NULL);
    place_fill(&p);
    struct data_state before = place_look(&p);
    cr_assert_eq(succeed_through(&p, MIXED_UP), -1);
    wait_logged(&p.daemon, "what was handed over is not whole");
    wait_logged(&p.daemon, "the successor ended before it served; going on");
    cr_assert_eq(access(p.daemon.socket_path, F_OK), 0);
    place_expect(&p, &before);
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    place_expect(&p, &before);
    place_close(&p);
}

/* One that comes back when the daemon has given up on it gets nothing: there are never two. */
Test(hand_over_ends, the_successor_hangs)
{
    struct data_place p;
    place_open(&p, "limits.successor_ms=20");
    place_fill(&p);
    struct data_state before = place_look(&p);
    cr_assert_eq(succeed_through(&p, TOO_LATE), -1);
    wait_logged(&p.daemon, "the heap is another daemon's already");
    place_expect(&p, &before);
    place_delete_tagged(&p, 900000 - 11, EA_OK);
    place_close(&p);
}

/* ---- requests that are not finished in time ---- */

Test(hand_over_ends, what_takes_long_is_cut_off)
{
    struct data_place p;
    struct endless e;
    uint64_t id = 0;
    uint32_t detail = 0;
    char text[256];
    place_open(&p, "limits.hand_over_ms=1");
    place_fill(&p);
    endless_make(&e, p.client);
    struct data_state before = place_look(&p);
    int fd = raw_connect(&p.daemon);
    raw_hello(fd, "kept");
    endless_ask_raw(&e, fd, 41, ENDLESS_QUERIES, 0);
    while (endless_arrive(p.client) == 0)
        wait_ms(1);
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    cr_assert_eq(raw_receive_error(fd, &id, &detail, text), EA_UNAVAILABLE, "%s", text);
    cr_assert_eq(id, 41);
    cr_assert_eq(detail, EA_DETAIL_RESTARTING, "%u: %s", detail, text);
    cr_assert(raw_closed(fd));
    close(fd);
    wait_logged(&p.daemon, "1 request was still in flight after limits.hand_over_ms");
    place_expect(&p, &before);
    endless_free(&e, p.client);
    place_close(&p);
}

/* ---- other settings ---- */

/* Whether the process has a file open whose name has text in it. */
static bool has_open(pid_t pid, const char *text)
{
    char folder[64], path[400], name[256];
    bool found = false;
    snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
    DIR *all = opendir(folder);
    cr_assert_not_null(all);
    for (const struct dirent *at; (at = readdir(all));) {
        snprintf(path, sizeof path, "%s/%s", folder, at->d_name);
        ssize_t n = readlink(path, name, sizeof name - 1);
        name[n > 0 ? n : 0] = 0;
        found |= strstr(name, text) != NULL;
    }
    closedir(all);
    return found;
}

/* What of the other daemon's it has no use for is closed, and removed, once it serves. */
Test(hand_over_ends, the_successor_has_other_settings)
{
    struct data_place p;
    struct stat sb;
    char path[128], first[96], lock[128];
    place_open(&p, "socket.mode=0666");
    place_fill(&p);
    struct data_state before = place_look(&p);
    p.settings[3] = "socket.mode=0600";
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    place_expect(&p, &before);
    cr_assert_eq(stat(p.daemon.socket_path, &sb), 0);
    cr_assert_eq(sb.st_mode & 0777, 0600);
    strcpy(first, p.daemon.socket_path);
    snprintf(lock, sizeof lock, "%s.lock", first);
    snprintf(path, sizeof path, "socket.path=%s/other", p.daemon.directory);
    p.settings[4] = path;
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    snprintf(p.daemon.socket_path, sizeof p.daemon.socket_path, "%s/other", p.daemon.directory);
    ea_close(p.client);
    p.client = place_client(&p);
    place_expect(&p, &before); /* it has turned since it served */
    cr_assert(access(first, F_OK) && access(lock, F_OK));
    cr_assert(!has_open(p.daemon.pid, "engram-catalogue"));
    cr_assert(!has_open(p.daemon.pid, "engram-claim"));
    place_close(&p);
}

/* ---- what moves ---- */

/* A line of /proc/PID/status, in KiB. */
static uint64_t resident_kib(pid_t pid, const char *kind)
{
    char path[64], line[128];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, kind, strlen(kind)) == 0) kib = strtoull(line + strlen(kind), NULL, 10);
    fclose(f);
    return kib;
}

/* The successor has not even touched the pages in which rows lie. */
Test(hand_over_ends, rows_stay_where_they_are)
{
    enum { WIDE = 384, ROWS = 1 << 15, KIB = ROWS / 1024 * WIDE * 4, A_PART = KIB / 4 };
    struct data_place p;
    place_open(&p, NULL);
    float *rows = calloc((size_t)ROWS * WIDE, sizeof *rows);
    uint64_t *ids = malloc(ROWS * sizeof *ids);
    for (uint64_t i = 0; i < ROWS; i++)
        rows[i * WIDE + i % WIDE] = (float)(ids[i] = i);
    const ea_rows all = {
        .collection = "wide", .ids = ids, .rows = rows, .count = ROWS, .dimension = WIDE};
    cr_assert_eq(ea_collection_create(p.client, "wide", WIDE, EA_DOT, NULL), EA_OK);
    cr_assert_eq(ea_upsert(p.client, &all, NULL), EA_OK, "%s", ea_error_text(p.client));
    cr_assert_gt(resident_kib(p.daemon.pid, "RssShmem:"), KIB);
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    cr_assert_lt(resident_kib(p.daemon.pid, "RssShmem:"), A_PART);
    if (scaled_ms(1) == 1) cr_assert_lt(resident_kib(p.daemon.pid, "RssAnon:"), A_PART);
    ea_result r = {0};
    uint64_t last = ROWS - 1;
    cr_assert_eq(ea_fetch(p.client, "wide", &last, 1, &r), EA_OK);
    cr_assert_eq(r.vectors[last % WIDE], (float)last);
    ea_result_free(&r);
    free(rows);
    free(ids);
    place_close(&p);
}

/* ---- GPUs ---- */

/* What is handed over no GPU process maps any more. The successor never serves. */
static void expect_ended_first(const struct data_place *p, pid_t card)
{
    struct hand_over h;
    struct failure f = {0};
    cr_assert_eq(hand_over_ask(p->daemon.socket_path, &h, &f), STATUS_OK, "%s", f.text);
    cr_assert(!process_lives(card));
    hand_over_close(&h);
    wait_logged(&p->daemon, "the successor ended before it served; going on");
}

/* From none to a card, from that one's process to another, and back: the same bits. */
Test(hand_over_ends, with_a_card)
{
    static const char *const card[] = {"gpu.devices=sim", "gpu.force=gpu", "gpu.min_pairs=1",
                                       "gpu.heartbeat_ms=60000", "gpu.job_ms=300000"};
    struct data_place p;
    const char *settings[12];
    int count = 0;
    pid_t last = 0;
    place_open(&p, NULL);
    place_fill(&p);
    struct data_state before = place_look(&p);
    while (p.settings[count]) {
        settings[count] = p.settings[count];
        count++;
    }
    for (int i = 0; i < 5; i++)
        settings[count++] = card[i];
    settings[count] = NULL;
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(daemon_succeed(&p.daemon, settings), 0);
        cr_assert(!last || !process_lives(last));
        gpu_scene_await_answer(p.client, "rows", PLACE_D);
        place_expect(&p, &before);
        struct ea_gpu_stats g = gpu_scene_stats(p.client);
        cr_assert_geq(g.uploads, 1); /* its own replicas, again */
        cr_assert_geq(g.upload_bytes, (uint64_t)(PLACE_ROWS - 1) * PLACE_D * sizeof(float));
        cr_assert_eq(g.errors, 0);
        last = gpu_process_of(p.daemon.pid);
        cr_assert_gt(last, 0);
    }
    expect_ended_first(&p, last);
    gpu_scene_await_answer(p.client, "rows", PLACE_D);
    place_expect(&p, &before);
    last = gpu_process_of(p.daemon.pid);
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    cr_assert(!process_lives(last));
    place_expect(&p, &before);
    place_close(&p);
}
