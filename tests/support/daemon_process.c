#include "tests/support/daemon_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <pb_decode.h>
#include <pb_encode.h>

#include "proto/engram_accel.pb.h"

enum { START_MS = 300000, REPLY_S = 300, ARGUMENTS_MAX = 64 };

static void die(const char *what)
{
    fprintf(stderr, "test support: %s: %s\n", what, strerror(errno));
    abort();
}

static void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Whether a thread's line in /proc says that it is stopped. */
static bool stands(pid_t pid, const char *thread)
{
    char path[64 + NAME_MAX], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)pid, thread);
    FILE *f = fopen(path, "r");
    if (!f) return true; /* it has ended */
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    const char *end = n ? strrchr(text, ')') : NULL;
    return end && (end[2] == 'T' || end[2] == 'Z' || end[2] == 'X');
}

void process_pause(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    if (kill(pid, SIGSTOP)) die("SIGSTOP");
    for (bool all = false; !all;) {
        DIR *tasks = opendir(path);
        if (!tasks) die(path);
        all = true;
        for (struct dirent *e; (e = readdir(tasks));)
            if (e->d_name[0] != '.') all &= stands(pid, e->d_name);
        closedir(tasks);
        if (!all) sleep_ms(1);
    }
}

void build_path(const char *name, char *out, size_t size)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) die("/proc/self/exe");
    self[n] = 0;
    char *tests = NULL; /* the last: a checkout may lie under a folder of that name */
    for (char *at = self; (at = strstr(at, "/tests/")); at++)
        tests = at;
    if (!tests) die("tests lie under build/<variant>/tests");
    *tests = 0;
    snprintf(out, size, "%s/%s", self, name);
}

static int try_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
    return -1;
}

/* Becomes what the program would be under a service manager. */
static void take_surroundings(const struct daemon_surroundings *in)
{
    enum { FIRST = 3, ROOM = 8 };
    char names[256] = "", number[16];
    int high[ROOM];
    if (in->notify_socket) setenv("NOTIFY_SOCKET", in->notify_socket, 1);
    for (int i = 0; i < in->fd_count; i++)
        high[i] = fcntl(in->fds[i], F_DUPFD, FIRST + ROOM);
    for (int i = 0; i < in->fd_count; i++) {
        if (dup2(high[i], FIRST + i) < 0) _exit(127);
        close(high[i]);
        size_t at = strlen(names);
        snprintf(names + at, sizeof names - at, "%s%s", i ? ":" : "", in->fd_names[i]);
    }
    if (!in->fd_count) return;
    snprintf(number, sizeof number, "%d", in->fd_count);
    setenv("LISTEN_FDS", number, 1);
    setenv("LISTEN_FDNAMES", names, 1);
    snprintf(number, sizeof number, "%d", (int)getpid());
    setenv("LISTEN_PID", number, 1);
}

static pid_t launch(const struct daemon_process *d, const char *const *settings,
                    const struct daemon_surroundings *in)
{
    char path[4200], socket_setting[128], gpu_setting[128];
    build_path("engram-acceld", path, sizeof path);
    snprintf(socket_setting, sizeof socket_setting, "socket.path=%s", d->socket_path);
    /* ENGRAM_TEST_GPU=sim runs what can be run on a simulated GPU. */
    const char *gpu = getenv("ENGRAM_TEST_GPU");
    snprintf(gpu_setting, sizeof gpu_setting, "gpu.devices=%s", gpu ? gpu : "none");
    /* Nothing runs but what the test asks for, and where it runs depends on no stopwatch. */
    const char *const settings_first[] = {"memory.max_mib=1024", gpu_setting, socket_setting,
                                          "sched.calibrate=false", "sched.predict=false"};
    const char *arguments[ARGUMENTS_MAX] = {path};
    int count = 1;
    for (size_t i = 0; i < sizeof settings_first / sizeof *settings_first; i++) {
        arguments[count++] = "--set";
        arguments[count++] = settings_first[i];
    }
    bool has_file = false; /* which may say, and change it */
    for (int i = 0; settings && settings[i]; i++)
        has_file |= strncmp(settings[i], "--config", 8) == 0;
    if (gpu && !has_file) {
        arguments[count++] = "--set";
        arguments[count++] = "gpu.force=gpu";
    }
    for (int i = 0; settings && settings[i] && count + 3 < ARGUMENTS_MAX; i++) {
        if (strncmp(settings[i], "--", 2) != 0) arguments[count++] = "--set";
        arguments[count++] = settings[i];
    }
    arguments[count] = NULL;
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no daemon behind */
        int log = open(d->log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (log < 0 || dup2(log, 2) < 0) _exit(127);
        take_surroundings(in);
        execv(path, (char *const *)arguments);
        _exit(127);
    }
    return pid;
}

static void spawn(struct daemon_process *d, const char *const *settings)
{
    const struct daemon_surroundings none = {0};
    daemon_start_in(d, settings, &none);
}

void daemon_start_in(struct daemon_process *d, const char *const *settings,
                     const struct daemon_surroundings *in)
{
    d->pid = launch(d, settings, in);
    for (int waited = 0; waited < START_MS; waited += 5) {
        int fd = try_connect(d->socket_path);
        if (fd >= 0) {
            close(fd);
            return;
        }
        int status;
        if (waitpid(d->pid, &status, WNOHANG) == d->pid) {
            char command[160];
            snprintf(command, sizeof command, "cat %s >&2", d->log_path);
            if (system(command)) fprintf(stderr, "no log\n");
            die("the daemon did not start");
        }
        sleep_ms(5);
    }
    die("the daemon did not serve in time");
}

static void make_place(struct daemon_process *d)
{
    memset(d, 0, sizeof *d);
    strcpy(d->directory, "/tmp/engram-test-XXXXXX");
    if (!mkdtemp(d->directory)) die("mkdtemp");
    snprintf(d->socket_path, sizeof d->socket_path, "%s/socket", d->directory);
    snprintf(d->log_path, sizeof d->log_path, "%s/log", d->directory);
}

void daemon_start(struct daemon_process *d, const char *const *settings)
{
    make_place(d);
    spawn(d, settings);
}

void daemon_launch(struct daemon_process *d, const char *const *settings)
{
    const struct daemon_surroundings none = {0};
    make_place(d);
    int log = open(d->log_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* which is read at once */
    if (log < 0) die(d->log_path);
    close(log);
    d->pid = launch(d, settings, &none);
}

void daemon_restart(struct daemon_process *d, const char *const *settings)
{
    spawn(d, settings);
}

int daemon_succeed(struct daemon_process *d, const char *const *settings)
{
    const struct daemon_surroundings none = {0};
    char option[128];
    const char *all[ARGUMENTS_MAX] = {option};
    int count = 1, status;
    snprintf(option, sizeof option, "--hand-over=%s", d->socket_path);
    for (int i = 0; settings && settings[i] && count + 1 < ARGUMENTS_MAX; i++)
        all[count++] = settings[i];
    pid_t before = d->pid, pid = launch(d, all, &none);
    for (;;) {
        if (waitpid(before, &status, WNOHANG) == before) {
            d->pid = pid;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (waitpid(pid, &status, WNOHANG) == pid) return -1;
        sleep_ms(1);
    }
}

void daemon_clean(struct daemon_process *d)
{
    char lock[sizeof d->socket_path + 8]; /* of a daemon that was killed */
    snprintf(lock, sizeof lock, "%s.lock", d->socket_path);
    unlink(lock);
    unlink(d->socket_path);
    unlink(d->log_path);
    rmdir(d->directory);
}

static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) die("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int daemon_stop(struct daemon_process *d)
{
    kill(d->pid, SIGTERM);
    int code = wait_for(d->pid);
    if (code) {
        char command[160];
        snprintf(command, sizeof command, "tail -40 %s >&2", d->log_path);
        if (system(command)) fprintf(stderr, "no log\n");
    }
    daemon_clean(d);
    return code;
}

void daemon_kill(struct daemon_process *d)
{
    kill(d->pid, SIGKILL);
    wait_for(d->pid);
}

size_t process_descriptors(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    if (!dir) die(path);
    size_t count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

size_t process_resident_kib(pid_t pid)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    if (!f) die(path);
    size_t kib = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %zu kB", &kib) == 1) break;
    fclose(f);
    return kib;
}

bool daemon_logged(const struct daemon_process *d, const char *text)
{
    char line[1024];
    FILE *f = fopen(d->log_path, "r");
    if (!f) die(d->log_path);
    bool found = false;
    while (!found && fgets(line, sizeof line, f))
        found = strstr(line, text) != NULL;
    fclose(f);
    return found;
}

/* ---------------------------------------------------------------- raw sockets */

int raw_connect(const struct daemon_process *d)
{
    int fd = try_connect(d->socket_path);
    if (fd < 0) die("connect");
    struct timeval limit = {.tv_sec = REPLY_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return fd;
}

bool raw_send(int fd, const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count) {
        ssize_t n = send(fd, at, count, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        count -= (size_t)n;
    }
    return true;
}

bool raw_send_frame(int fd, uint8_t kind, uint64_t request_id, const void *message,
                    uint32_t message_bytes, const void *body, uint64_t body_bytes)
{
    struct frame_header h = {.kind = kind,
                             .request_id = request_id,
                             .message_bytes = message_bytes,
                             .body_bytes = body_bytes};
    uint64_t head = frame_body_offset(&h);
    unsigned char *bytes = calloc(1, head);
    if (!bytes) die("calloc");
    frame_write(&h, bytes);
    if (message_bytes) memcpy(bytes + FRAME_HEADER_BYTES, message, message_bytes);
    bool sent = raw_send(fd, bytes, head) && (!body_bytes || raw_send(fd, body, body_bytes));
    free(bytes);
    return sent;
}

static bool receive(int fd, void *bytes, size_t count)
{
    char *at = bytes;
    while (count) {
        ssize_t n = recv(fd, at, count, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) die("no reply in minutes");
        if (n <= 0) return false;
        at += n;
        count -= (size_t)n;
    }
    return true;
}

bool raw_receive_frame(int fd, struct frame_header *header, void *message, void **body)
{
    unsigned char head[FRAME_HEADER_BYTES], padding[FRAME_ALIGN];
    *body = NULL;
    if (!receive(fd, head, sizeof head)) return false;
    /* frame_parse refuses flags, which replies have: read those two bytes by hand. */
    uint16_t flags = (uint16_t)(head[6] | head[7] << 8);
    head[6] = head[7] = 0;
    struct failure f;
    if (frame_parse(head, UINT64_MAX, header, &f)) {
        fprintf(stderr, "reply frame: %s\n", f.text);
        abort();
    }
    header->flags = flags;
    uint64_t offset = frame_body_offset(header);
    if (!receive(fd, message, header->message_bytes)) return false;
    if (!receive(fd, padding, offset - FRAME_HEADER_BYTES - header->message_bytes)) return false;
    if (!header->body_bytes) return true;
    *body = aligned_alloc(64, header->body_bytes);
    if (!*body) die("aligned_alloc");
    return receive(fd, *body, header->body_bytes);
}

void raw_hello(int fd, const char *space)
{
    engram_accel_v1_HelloRequest hello = {.version_min = 1, .version_max = 1};
    snprintf(hello.space, sizeof hello.space, "%s", space);
    uint8_t message[512];
    static uint8_t reply[FRAME_MESSAGE_BYTES_MAX];
    pb_ostream_t out = pb_ostream_from_buffer(message, sizeof message);
    if (!pb_encode(&out, engram_accel_v1_HelloRequest_fields, &hello)) die("encode hello");
    if (!raw_send_frame(fd, 1, 1, message, (uint32_t)out.bytes_written, NULL, 0)) die("send hello");
    struct frame_header h;
    void *body;
    if (!raw_receive_frame(fd, &h, reply, &body)) die("hello reply");
    if (h.kind != 1 || h.flags != FRAME_FLAG_REPLY || h.request_id != 1) die("hello refused");
}

uint32_t raw_receive_error(int fd, uint64_t *request_id, uint32_t *detail, char text[256])
{
    static uint8_t message[FRAME_MESSAGE_BYTES_MAX];
    struct frame_header h;
    void *body;
    if (!raw_receive_frame(fd, &h, message, &body)) die("closed instead of an error");
    if (h.flags != (FRAME_FLAG_REPLY | FRAME_FLAG_ERROR)) die("a reply that is no error");
    engram_accel_v1_Error error = engram_accel_v1_Error_init_zero;
    pb_istream_t in = pb_istream_from_buffer(message, h.message_bytes);
    if (!pb_decode(&in, engram_accel_v1_Error_fields, &error)) die("an error that does not decode");
    if (request_id) *request_id = h.request_id;
    if (detail) *detail = error.detail;
    if (text) memcpy(text, error.message, sizeof error.message);
    free(body);
    return error.code;
}

bool raw_closed(int fd)
{
    char scrap[4096];
    for (;;) {
        ssize_t n = recv(fd, scrap, sizeof scrap, 0);
        if (n == 0 || (n < 0 && errno == ECONNRESET)) return true;
        if (n < 0 && errno != EINTR) return false;
    }
}
