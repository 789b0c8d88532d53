/* The daemon as a process: settings, socket file, signals, the service manager. */
#include <criterion/criterion.h>
#include <errno.h>
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

#include "daemon/base/job.h"
#include "tests/support/reference.h"
#include "tests/support/scene.h"

/* ---------------------------------------------------------------- running it by hand */

struct run {
    int code;
    char out[4096], err[4096];
};

static void slurp(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
    text[n > 0 ? n : 0] = 0;
    if (fd >= 0) close(fd);
}

/* Runs the daemon with arguments until it ends by itself (10 s at most). */
static struct run run_daemon(const char *const *arguments)
{
    char path[4200], directory[] = "/tmp/engram-run-XXXXXX", out[64], err[64];
    const char *argv[16] = {path};
    struct run r = {0};
    build_path("engram-acceld", path, sizeof path);
    cr_assert(mkdtemp(directory));
    snprintf(out, sizeof out, "%s/out", directory);
    snprintf(err, sizeof err, "%s/err", directory);
    for (int i = 0; arguments[i]; i++)
        argv[i + 1] = arguments[i];
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen(out, "w", stdout) || !freopen(err, "w", stderr)) _exit(126);
        execv(path, (char *const *)argv);
        _exit(127);
    }
    int status;
    int64_t until = give_up_ms();
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_ms() > until) {
            kill(pid, SIGKILL);
            cr_assert_fail("it serves instead of refusing");
        }
        wait_ms(5);
    }
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    slurp(out, r.out, sizeof r.out);
    slurp(err, r.err, sizeof r.err);
    unlink(out);
    unlink(err);
    rmdir(directory);
    return r;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fputs(text, f);
    fclose(f);
}

/* ---------------------------------------------------------------- settings */

static const struct {
    const char *text;  /* the file */
    const char *words; /* what stderr says besides the file's name; NULL: it is fine */
} files[] = {
    {"{}", NULL},
    {"{\"socket\": {\"path\": \"/tmp/x\", \"mode\": \"0600\"}, \"limits\": {\"connections\": 5}}",
     NULL},
    {"{\"sockets\": {}}", "sockets"},
    {"{\"limits\": {\"conections\": 5}}", "limits.conections"},
    {"{\"limits\": {\"connections\": \"many\"}}", "limits.connections"},
    {"{\"limits\": {\"connections\": 0}}", "limits.connections"},
    {"{\"limits\": {\"connections\": 65537}}", "limits.connections"},
    {"{\"limits\": {\"connections\": 1.5}}", "limits.connections"},
    {"{\"limits\": 7}", "limits"},
    {"{\"spaces\": {\"alpha\": {\"weight\": 4, \"host_mib\": 512}, \"beta\": {}}}", NULL},
    {"{\"quotas\": {\"weight\": 0}}", "quotas.weight: 0 is out of range, 1 to 1000"},
    {"{\"spaces\": {\"alpha\": {\"weight\": 0}}}", "spaces.alpha.weight: 0 is out of range"},
    {"{\"spaces\": {\"alpha\": {\"weight\": 1001}}}", "spaces.alpha.weight: 1001"},
    {"{\"spaces\": {\"alpha\": {\"wait\": 1}}}", "spaces.alpha.wait: unknown setting"},
    {"{\"spaces\": {\"Alpha\": {}}}", "spaces.Alpha: a space's name has 3 to 64 bytes"},
    {"{\"spaces\": {\"abc\": {}, \"abc\": {}}}", "spaces.abc: given twice"},
    {"{\"tcp\": {\"host\": \"0.0.0.0\"}}", "tcp.host"},
    {"{\"kernels\": \"mmx\"}", "kernels"},
    {"{\"socket\": {\"mode\": \"rw\"}}", "socket.mode"},
    {"{\"limits\": {\"connections\": 5", ""},
    {"", ""},
    {"[]", ""},
};

Test(lifecycle, check_config)
{
    const char *path = "/tmp/engram-check-config.json";
    char mine[64];
    snprintf(mine, sizeof mine, "%s.%d", path, getpid());
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file(mine, files[i].text);
        struct run r = run_daemon((const char *[]){"--check-config", "--config", mine, NULL});
        if (!files[i].words) {
            cr_assert_eq(r.code, 0, "%s: %s", files[i].text, r.err);
            cr_assert(strstr(r.out, "OK"));
            continue;
        }
        cr_assert_eq(r.code, 2, "%s: exit %d: %s", files[i].text, r.code, r.err);
        cr_assert(strstr(r.err, mine), "%s: the file is not named: %s", files[i].text, r.err);
        cr_assert(strstr(r.err, files[i].words), "%s: '%s' is not named: %s", files[i].text,
                  files[i].words, r.err);
    }
    unlink(mine);
}

Test(lifecycle, refuses_what_it_is_told_wrongly)
{
    static const struct {
        const char *arguments[6];
        const char *words;
    } wrong[] = {
        {{"--no-such-flag"}, "no-such-flag"},
        {{"surplus"}, ""},
        {{"--config", "/nowhere/at/all.json"}, "/nowhere/at/all.json"},
        {{"--config", "/"}, "/"},
        {{"--set", "limits.connections=none"}, "limits.connections"},
        {{"--set", "no.such.key=1"}, "no.such.key"},
        {{"--set", "nonsense"}, "nonsense"},
        {{"--set", "spaces.alpha.weight=1001"}, "spaces.alpha.weight: 1001 is out of range"},
        {{"--set", "socket.path="}, "nothing to listen on"},
        {{"--check-config", "--set", "workers.count=257"}, "workers.count"},
        {{"--check-config", "--set", "persist.journal=second", "--set", "persist.dir=none"},
         "command line: persist.journal: 'second'"},
        {{"--set", "persist.journal=always"}, "persist.journal: 'always'"},
        {{"--check-config", "--set", "persist.key_file=/dev/null"}, "persist.key_file: /dev/null"},
        {{"--check-config", "--set", "auth.token_file=/nowhere"}, "auth.token_file: /nowhere"},
        {{"--check-config", "--set", "metrics.listen=127.0.0.1:0"}, "metrics.token_file: empty"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct run r = run_daemon(wrong[i].arguments);
        cr_assert_eq(r.code, 2, "%s: exit %d: %s", wrong[i].arguments[0], r.code, r.err);
        cr_assert(strstr(r.err, wrong[i].words), "'%s' is not named: %s", wrong[i].words, r.err);
        cr_assert_str_eq(r.out, "");
    }
}

/* What it prints as a sample, it reads. */
Test(lifecycle, prints_settings_that_it_takes)
{
    char mine[64];
    snprintf(mine, sizeof mine, "/tmp/engram-sample.%d", getpid());
    struct run r = run_daemon((const char *[]){"--print-config", NULL});
    cr_assert_eq(r.code, 0);
    write_file(mine, r.out);
    r = run_daemon((const char *[]){"--check-config", "--config", mine, NULL});
    cr_assert_eq(r.code, 0, "%s", r.err);
    unlink(mine);
    r = run_daemon((const char *[]){"--help-config", NULL});
    cr_assert_eq(r.code, 0);
    cr_assert(strstr(r.out, "limits.stall_ms"));
    cr_assert_eq(run_daemon((const char *[]){"--version", NULL}).code, 0);
    cr_assert_eq(run_daemon((const char *[]){"--help", NULL}).code, 0);
}

/* ---------------------------------------------------------------- the socket file */

static void socket_argument(const struct daemon_process *d, char *out, size_t size)
{
    snprintf(out, size, "socket.path=%s", d->socket_path);
}

Test(lifecycle, replaces_a_dead_socket_only)
{
    struct scene s;
    char setting[128];
    scene_open(&s, NULL);
    socket_argument(&s.daemon, setting, sizeof setting);
    struct run r = run_daemon((const char *[]){"--set", setting, NULL});
    cr_assert_eq(r.code, 1, "two daemons on one socket: %s", r.err);
    cr_assert(strstr(r.err, s.daemon.socket_path));
    cr_assert(strstr(r.err, "another daemon"));
    scene_check(&s); /* and the first one still has its socket */
    daemon_kill(&s.daemon);
    struct stat sb;
    cr_assert_eq(stat(s.daemon.socket_path, &sb), 0, "a killed daemon leaves its file");
    daemon_restart(&s.daemon, NULL);
    int fd = scene_connect(&s);
    expect_alive(fd);
    close(fd);
    ea_close(s.witness);
    cr_assert_eq(daemon_stop(&s.daemon), 0);
    cr_assert_neq(stat(s.daemon.socket_path, &sb), 0, "a stopped one takes it away");
}

Test(lifecycle, leaves_other_files_alone)
{
    char path[64], setting[96], text[64];
    snprintf(path, sizeof path, "/tmp/engram-precious.%d", getpid());
    snprintf(setting, sizeof setting, "socket.path=%s", path);
    write_file(path, "precious");
    struct run r = run_daemon((const char *[]){"--set", setting, NULL});
    cr_assert_eq(r.code, 1);
    cr_assert(strstr(r.err, path) && strstr(r.err, "not a socket"), "%s", r.err);
    slurp(path, text, sizeof text);
    cr_assert_str_eq(text, "precious");
    unlink(path);
    r = run_daemon((const char *[]){"--set", "socket.path=/nowhere/at/all/socket", NULL});
    cr_assert_eq(r.code, 1);
    cr_assert(strstr(r.err, "/nowhere/at/all/socket"), "%s", r.err);
}

Test(lifecycle, socket_mode)
{
    static const struct {
        const char *setting;
        mode_t mode;
    } modes[] = {{NULL, 0660}, {"socket.mode=0600", 0600}, {"socket.mode=0666", 0666}};
    for (int i = 0; i < 3; i++) {
        struct scene s;
        struct stat sb;
        scene_open(&s, (const char *[]){modes[i].setting, NULL});
        cr_assert_eq(stat(s.daemon.socket_path, &sb), 0);
        cr_assert_eq(sb.st_mode & 0777, modes[i].mode, "%o", sb.st_mode);
        scene_close(&s);
    }
}
