/* How daemon and GPU process end: neither outlives the other, whatever the other was doing. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/reference.h"

enum { D = 24, ROWS = 100, ASKED = 40 };

static float rows[ROWS * D];

static void make_rows(const struct gpu_scene *s)
{
    uint64_t ids[ROWS];
    reference_fill(8, rows, (size_t)ROWS * D);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i;
    cr_assert_eq(ea_collection_create(s->a, "rows", D, EA_COSINE, NULL), EA_OK);
    cr_assert_eq(
        ea_upsert(
            s->a,
            &(ea_rows){
                .collection = "rows", .ids = ids, .rows = rows, .count = ROWS, .dimension = D},
            NULL),
        EA_OK);
}

static pid_t wait_process(const struct gpu_scene *s)
{
    int64_t until = give_up_ms();
    for (pid_t pid;;) {
        if ((pid = gpu_process_of(s->daemon.pid))) return pid;
        cr_assert(now_ms() < until, "no GPU process");
        wait_ms(1);
    }
}

static void expect_gone(pid_t pid, const char *what)
{
    int64_t start = now_ms();
    while (process_lives(pid)) {
        cr_assert(now_ms() < start + GIVE_UP_MS, "%s: the GPU process stays", what);
        wait_ms(2);
    }
}

/* ---------------------------------------------------------------- questions in flight */

struct answers {
    int right, wrong, other;
    char text[200];
};

static void on_answer(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status status = answer->status;
    ea_result *r = answer->result;
    struct answers *a = user;
    struct reference_rows all = {D, REFERENCE_COSINE, ROWS, rows, NULL};
    uint64_t ids[4];
    float scores[4];
    if (status) {
        a->other++;
        snprintf(a->text, sizeof a->text, "%s: %s", ea_status_name(status), ea_error_text(c));
        return;
    }
    reference_knn(&all, rows, 4, NULL, NULL, ids, scores);
    bool right = r->columns == 4 && memcmp(r->ids, ids, sizeof ids) == 0 &&
                 memcmp(r->scores, scores, sizeof scores) == 0;
    a->right += right;
    a->wrong += !right;
}

static void ask(const struct gpu_scene *s, struct answers *a, int count)
{
    for (int i = 0; i < count; i++)
        cr_assert_eq(ea_knn_send(s->a,
                                 &(ea_knn_question){.collection = "rows",
                                                    .queries = rows,
                                                    .query_count = 1,
                                                    .dimension = D,
                                                    .k = 4},
                                 &(ea_send_options){.callback = on_answer, .user = a}, NULL),
                     EA_OK);
    ea_pump(s->a, 0);
}

/* Until the daemon has taken them up. */
static void wait_in_flight(const struct gpu_scene *s, uint64_t count)
{
    ea_stats stats = {0};
    int64_t until = give_up_ms();
    while (stats.jobs_in_flight < count && now_ms() < until)
        cr_assert_eq(ea_get_stats(s->b, &stats), EA_OK);
    cr_assert_geq(stats.jobs_in_flight, count);
}

/* ---------------------------------------------------------------- the front is killed */

static void kill_front(const char *sim, bool ask_first, bool stopped, const char *what)
{
    struct gpu_scene s;
    struct answers a = {0};
    gpu_scene_open_counting(&s, sim,
                            (const char *[]){"gpu.heartbeat_ms=60000", "gpu.job_ms=60000", NULL});
    if (ask_first) {
        make_rows(&s);
        gpu_scene_await(&s, EA_GPU_READY);
        ask(&s, &a, ASKED);
        wait_ms(100);
    }
    pid_t pid = wait_process(&s);
    if (stopped) kill(pid, SIGSTOP);
    daemon_kill(&s.daemon);
    expect_gone(pid, what);
    ea_close(s.a);
    ea_close(s.b);
    unlink(s.count_path);
    daemon_clean(&s.daemon);
}

Test(gpu_ends, front_killed, .timeout = 900)
{
    kill_front("", false, false, "idle");
    kill_front("latency_us=500000", true, false, "busy");
    kill_front("fail=1:hang@topk", true, false, "its device hangs");
    kill_front("fail=1:hang@event_query", true, false, "its device hangs in a query");
    kill_front("fail=1:hang@open", false, false, "its device hangs while it starts");
    kill_front("", true, true, "stopped");
}

/* In place of the GPU process: says its number in SCRIPT.pid, waits for SCRIPT.go (for minutes, if
 * the test is gone), and then becomes the real one. */
static void write_waiting_script(char *script)
{
    char program[4200];
    build_path("engram-accel-gpu", program, sizeof program);
    int fd = mkstemp(script);
    cr_assert(fd >= 0);
    FILE *f = fdopen(fd, "w");
    fprintf(f,
            "#!/bin/sh\necho $$ > $0.part; mv $0.part $0.pid; i=0\n"
            "until [ -e $0.go ] || [ $i = 6000 ]; do sleep 0.05; i=$((i + 1)); done\n"
            "exec %s \"$@\"\n",
            program);
    fclose(f);
    chmod(script, 0700);
}

static pid_t await_number(const char *path)
{
    int number = 0;
    for (int64_t until = give_up_ms(); !number; wait_ms(2)) {
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%d", &number) != 1) number = 0;
        if (f) fclose(f);
        cr_assert(now_ms() < until, "no GPU process");
    }
    return number;
}

/* Killed between the GPU process's start and its first look at who is there. */
Test(gpu_ends, front_killed_before_the_process_looks, .timeout = 900)
{
    struct gpu_scene s;
    char script[] = "/tmp/engram-late-XXXXXX", setting[80], go[80], said[80];
    write_waiting_script(script);
    snprintf(setting, sizeof setting, "gpu.program=%s", script);
    snprintf(go, sizeof go, "%s.go", script);
    snprintf(said, sizeof said, "%s.pid", script);
    gpu_scene_open_counting(&s, "fail=1:hang@open", (const char *[]){setting, NULL});
    pid_t pid = await_number(said);
    daemon_kill(&s.daemon);
    fclose(fopen(go, "w"));
    expect_gone(pid, "it started late");
    cr_assert_eq(gpu_scene_calls(&s), 0, "it went on to open its device");
    ea_close(s.a);
    ea_close(s.b);
    unlink(script);
    unlink(go);
    unlink(said);
    unlink(s.count_path);
    daemon_clean(&s.daemon);
}

/* ---------------------------------------------------------------- the front is stopped */

static int wait_end(pid_t pid)
{
    int status;
    int64_t until = give_up_ms();
    while (waitpid(pid, &status, WNOHANG) == 0) {
        cr_assert(now_ms() < until, "it does not stop");
        wait_ms(2);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* to: the daemon, or minus its group. */
static void stop_front(const char *sim, const char *setting, int number, bool group)
{
    struct gpu_scene s;
    struct answers a = {0};
    gpu_scene_open_counting(&s, sim, (const char *[]){setting, NULL});
    make_rows(&s);
    gpu_scene_await(&s, EA_GPU_READY);
    cr_assert_eq(ea_ping(s.b), EA_OK);
    ask(&s, &a, ASKED);
    wait_in_flight(&s, ASKED);
    pid_t gpu = wait_process(&s);
    if (group)
        kill(0, number);
    else
        kill(s.daemon.pid, number);
    while (ea_pending(s.a) && ea_pump(s.a, 1000000) == EA_OK) {
    }
    cr_assert_eq(a.right, ASKED, "%s, signal %d: %d right, %d wrong, %d others: %s", sim, number,
                 a.right, a.wrong, a.other, a.text);
    cr_assert_eq(wait_end(s.daemon.pid), 0);
    cr_assert(!process_lives(gpu), "the GPU process stays behind");
    ea_close(s.a);
    ea_close(s.b);
    unlink(s.count_path);
    daemon_clean(&s.daemon);
}

Test(gpu_ends, term_while_the_gpu_works, .timeout = 900)
{
    stop_front("latency_us=300000", "gpu.job_ms=10000", SIGTERM, false);
}

Test(gpu_ends, term_while_the_gpu_hangs, .timeout = 900)
{
    stop_front("fail=1:hang@topk", "gpu.job_ms=10000", SIGTERM, false);
    stop_front("fail=1+:hang@event_query", "gpu.job_ms=500", SIGTERM, false);
}

static void ignore(int number) {}

/* As a terminal does it. */
Test(gpu_ends, interrupt_of_the_group, .timeout = 900)
{
    setpgid(0, 0);
    signal(SIGINT, ignore);
    stop_front("latency_us=300000", "gpu.job_ms=10000", SIGINT, true);
}

/* What it cannot finish, it drops at limits.drain_ms; a second signal ends it at once. */
Test(gpu_ends, stopping_does_not_wait_for_ever, .timeout = 900)
{
    for (int i = 0; i < 2; i++) {
        struct gpu_scene s;
        struct answers a = {0};
        gpu_scene_open_counting(
            &s, "latency_us=10000000 slow=100000",
            (const char *[]){"gpu.job_ms=3600000",
                             i ? "limits.drain_ms=60000" : "limits.drain_ms=300", NULL});
        make_rows(&s);
        gpu_scene_await(&s, EA_GPU_READY);
        ask(&s, &a, ASKED);
        wait_in_flight(&s, ASKED);
        pid_t gpu = wait_process(&s);
        kill(s.daemon.pid, SIGTERM);
        for (int64_t until = give_up_ms(); !daemon_logged(&s.daemon, "stopping"); wait_ms(2))
            cr_assert(now_ms() < until, "it does not see the signal");
        if (i) kill(s.daemon.pid, SIGTERM);
        cr_assert_eq(wait_end(s.daemon.pid), 0);
        cr_assert(!process_lives(gpu));
        ea_close(s.a);
        ea_close(s.b);
        cr_assert_eq(a.right, 0);
        cr_assert_eq(a.other, ASKED);
        unlink(s.count_path);
        daemon_clean(&s.daemon);
    }
}

/* Nobody asked for an upload: it is given up. */
Test(gpu_ends, stopping_does_not_wait_for_an_upload, .timeout = 900)
{
    for (int i = 0; i < 2; i++) {
        struct gpu_scene s;
        struct answers a = {0};
        gpu_scene_open_counting(&s, "latency_us=10000000",
                                (const char *[]){"gpu.force=none", "gpu.job_ms=60000", NULL});
        make_rows(&s);
        gpu_scene_await(&s, EA_GPU_READY);
        ask(&s, &a, ASKED);
        while (ea_pending(s.a))
            cr_assert_eq(ea_pump(s.a, 1000000), EA_OK);
        cr_assert_eq(a.right, ASKED);
        if (i) ea_close(s.a); /* with and without a client */
        if (i) ea_close(s.b);
        kill(s.daemon.pid, SIGTERM);
        cr_assert_eq(wait_end(s.daemon.pid), 0);
        if (!i) ea_close(s.a);
        if (!i) ea_close(s.b);
        unlink(s.count_path);
        daemon_clean(&s.daemon);
    }
}
