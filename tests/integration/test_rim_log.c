/* The log of a whole daemon, to outputs that take nothing: others are served. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cjson/cJSON.h>

#include "tests/support/scene.h"

/* More lines than a pipe of 64 KiB holds and the queue has room for. */
enum { BAD_FRAMES = 2000 };

static void send_bad_frames(const struct daemon_process *d, unsigned count)
{
    unsigned char junk[64];
    memset(junk, 'x', sizeof junk);
    for (unsigned i = 0; i < count; i++) {
        int fd = raw_connect(d);
        raw_send(fd, junk, sizeof junk);
        cr_assert(raw_closed(fd));
        close(fd);
    }
}

/* A daemon again whose log was replaced by what the caller made of d->log_path. */
static void restart(struct daemon_process *d)
{
    daemon_restart(d, (const char *[]){"peers.log_lines=65536", "log.level=debug", NULL});
}

static void expect_ping(struct daemon_process *d)
{
    int fd = raw_connect(d);
    raw_hello(fd, "alpha");
    cr_assert(raw_send_frame(fd, 2, 2, NULL, 0, NULL, 0));
    static unsigned char message[FRAME_MESSAGE_BYTES_MAX];
    struct frame_header h;
    void *body;
    cr_assert(raw_receive_frame(fd, &h, message, &body));
    cr_assert_eq(h.request_id, 2);
    close(fd);
}

static void expect_served(struct daemon_process *d)
{
    send_bad_frames(d, BAD_FRAMES); /* on a main that waits for its log it stands still here */
    expect_ping(d);
}

Test(rim_log, a_pipe_that_nobody_reads)
{
    struct daemon_process d;
    daemon_start(&d, NULL);
    daemon_kill(&d);
    cr_assert_eq(unlink(d.log_path), 0);
    cr_assert_eq(mkfifo(d.log_path, 0600), 0);
    int fifo = open(d.log_path, O_RDWR | O_CLOEXEC);
    restart(&d);
    expect_served(&d);
    cr_assert_eq(daemon_stop(&d), 0);
    close(fifo);
}

Test(rim_log, a_full_disk)
{
    struct daemon_process d;
    daemon_start(&d, NULL);
    daemon_kill(&d);
    cr_assert_eq(unlink(d.log_path), 0);
    cr_assert_eq(symlink("/dev/full", d.log_path), 0);
    restart(&d);
    expect_served(&d);
    cr_assert_eq(daemon_stop(&d), 0);
}

Test(rim_log, each_line_is_an_object_of_json)
{
    struct daemon_process d;
    char line[8192];
    unsigned lines = 0;
    daemon_start(&d, (const char *[]){"log.format=json", "gpu.devices=sim", NULL});
    wait_logged(&d, "gpu0: ");
    send_bad_frames(&d, 3);
    kill(d.pid, SIGTERM);
    int status;
    cr_assert_eq(waitpid(d.pid, &status, 0), d.pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    FILE *in = fopen(d.log_path, "r");
    while (fgets(line, sizeof line, in)) {
        cJSON *o = cJSON_Parse(line);
        cr_assert(o, "%s", line);
        cr_assert(cJSON_GetStringValue(cJSON_GetObjectItem(o, "message")), "%s", line);
        lines++;
        cJSON_Delete(o);
    }
    fclose(in);
    cr_expect_geq(lines, 8, "%u lines", lines);
    daemon_clean(&d);
}

/* It would lose every line, and libsystemd would call that a success. */
Test(rim_log, no_journal_is_no_place_for_a_log)
{
    char path[4200], command[4400], said[512] = "";
    if (access("/run/systemd/journal/socket", F_OK) == 0)
        cr_skip_test("SKIP a journal runs on this machine");
    build_path("engram-acceld", path, sizeof path);
    snprintf(command, sizeof command, "%s --check-config -s log.format=journald 2>&1", path);
    FILE *out = popen(command, "r"); /* NOLINT(cert-env33-c) */
    cr_assert(fgets(said, sizeof said, out));
    int status = pclose(out);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 2, "%s", said);
    cr_assert(strstr(said, "log.format: 'journald', but no journal runs here"), "%s", said);
}

/* What is opened first would be one of the three otherwise; libuv aborts if it closes one. */
Test(rim_log, without_standard_input_output_and_error)
{
    struct daemon_process d;
    char path[4200];
    daemon_start(&d, NULL);
    daemon_kill(&d);
    build_path("engram-acceld", path, sizeof path);
    d.pid = fork();
    cr_assert_geq(d.pid, 0);
    if (d.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        execl(path, path, "-S", d.socket_path, "-s", "gpu.devices=none", "-s", "memory.max_mib=256",
              "-s", "sched.calibrate=false", NULL);
        _exit(127);
    }
    int64_t until = give_up_ms();
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", d.socket_path);
    for (int rc = -1; rc; wait_ms(2)) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        cr_assert_lt(now_ms(), until);
        rc = connect(fd, (struct sockaddr *)&to, sizeof to);
        close(fd);
    }
    expect_served(&d);
    cr_assert_eq(daemon_stop(&d), 0);
}

/* One peer's bad frames cause peers.log_lines lines a minute, and never more than 50 in a second,
 * which is what one kind may have. */
Test(rim_log, one_peer_writes_few_lines)
{
    struct daemon_process d;
    char line[2048];
    unsigned lines = 0, seconds = 1;
    daemon_start(&d, (const char *[]){"peers.log_lines=65536", NULL});
    send_bad_frames(&d, BAD_FRAMES);
    kill(d.pid, SIGTERM);
    int status;
    cr_assert_eq(waitpid(d.pid, &status, 0), d.pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    FILE *in = fopen(d.log_path, "r");
    while (fgets(line, sizeof line, in)) {
        lines += strstr(line, "net: ") && !strstr(line, "more lines in that second");
        seconds += strstr(line, "more lines in that second") != NULL;
    }
    fclose(in);
    cr_expect_leq(lines, seconds * 50, "%u lines, %u seconds", lines, seconds);
    cr_expect_geq(lines, 50);
    cr_expect_gt(seconds, 1);
    daemon_clean(&d);
}
