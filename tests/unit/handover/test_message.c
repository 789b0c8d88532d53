/* What two daemons say to each other, in pieces, late, too short, and more than it may be. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/handover/hand_over.h"
#include "daemon/handover/message.h"

static void make_pair(int ends[2])
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

static void close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        cr_assert_eq(close(fds[i]), 0);
}

static int count_open(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static struct hand_over_message *new_message(enum message_kind kind, const char *text)
{
    struct hand_over_message *m = calloc(1, sizeof *m);
    m->kind = kind;
    strncpy(m->text, text, sizeof m->text - 1);
    return m;
}

/* With descriptors of pipes, so many as it may have; what arrives is the same files. */
Test(message, descriptors_arrive_in_order)
{
    int ends[2], fds[MESSAGE_FDS_MAX], got[MESSAGE_FDS_MAX], count;
    struct hand_over_message *m = new_message(MESSAGE_GIVEN, "all of it"), *n = new_message(0, "");
    struct stat is[2];
    int before = count_open();
    make_pair(ends);
    for (int i = 0; i < MESSAGE_FDS_MAX; i++) {
        int both[2];
        cr_assert_eq(pipe2(both, O_CLOEXEC), 0);
        fds[i] = both[0];
        close(both[1]);
    }
    m->listener_count = 3;
    m->listeners[2].port = 7;
    cr_assert(message_send(ends[0], m, fds, MESSAGE_FDS_MAX));
    cr_assert(message_send(ends[0], m, NULL, 0));
    cr_assert(message_receive(ends[1], n, got, &count, 10000));
    cr_assert_eq(count, MESSAGE_FDS_MAX);
    cr_assert_eq(memcmp(m, n, sizeof *m), 0);
    for (int i = 0; i < count; i++) {
        cr_assert_eq(fstat(fds[i], &is[0]), 0);
        cr_assert_eq(fstat(got[i], &is[1]), 0);
        cr_assert_eq(is[0].st_ino, is[1].st_ino);
        cr_assert(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
    }
    close_all(got, count);
    cr_assert(message_receive(ends[1], n, got, &count, 10000)); /* the second has none */
    cr_assert_eq(count, 0);
    close_all(fds, MESSAGE_FDS_MAX);
    close_all(ends, 2);
    cr_assert_eq(count_open(), before);
    free(m);
    free(n);
}

/* Bytes as they are, with descriptors at the first: what a stranger could send. */
static void send_raw(int fd, const void *data, size_t bytes, const int *fds, int fd_count)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * 64)];
    } control;
    struct iovec io = {(void *)(uintptr_t)data, bytes};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    memset(&control, 0, sizeof control);
    if (fd_count) {
        size_t each = sizeof *fds * (size_t)fd_count;
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(each);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(each);
        memcpy(CMSG_DATA(&control.head), fds, each);
    }
    cr_assert_eq(sendmsg(fd, &m, MSG_NOSIGNAL), (ssize_t)bytes);
}

/* Each piece has descriptors of its own: what there is room for comes, the rest is closed. */
Test(message, more_descriptors_than_it_may_have)
{
    int ends[2], fds[MESSAGE_FDS_MAX], got[MESSAGE_FDS_MAX], count;
    struct hand_over_message *m = new_message(MESSAGE_GIVEN, ""), *n = new_message(0, "");
    const char *data = (const char *)m;
    int before = count_open();
    make_pair(ends);
    for (int i = 0; i < MESSAGE_FDS_MAX; i++)
        fds[i] = dup(ends[0]);
    for (size_t at = 0, bytes; at < sizeof *m; at += bytes) {
        bytes = sizeof *m - at < 1000 ? sizeof *m - at : 1000;
        send_raw(ends[0], data + at, bytes, fds, MESSAGE_FDS_MAX - 1);
    }
    cr_assert(message_receive(ends[1], n, got, &count, 10000));
    cr_assert_eq(count, MESSAGE_FDS_MAX);
    close_all(got, count);
    close_all(fds, MESSAGE_FDS_MAX);
    close_all(ends, 2);
    cr_assert_eq(count_open(), before);
    free(m);
    free(n);
}

/* A text without an end is given one. */
Test(message, a_text_without_an_end)
{
    int ends[2], got[MESSAGE_FDS_MAX], count;
    struct hand_over_message *m = new_message(MESSAGE_REFUSED, ""), *n = new_message(0, "");
    make_pair(ends);
    memset(m->text, 'x', sizeof m->text);
    cr_assert(message_send(ends[0], m, NULL, 0));
    cr_assert(message_receive(ends[1], n, got, &count, 10000));
    cr_assert_eq(strlen(n->text), sizeof n->text - 1);
    close_all(ends, 2);
    free(m);
    free(n);
}

/* Nothing, or a part, and then nothing more, or the end: each is told apart. */
Test(message, too_short)
{
    for (int part = 0; part < 2; part++)
        for (int closed = 0; closed < 2; closed++) {
            int ends[2], got[MESSAGE_FDS_MAX], count, before = count_open();
            struct hand_over_message *m = new_message(MESSAGE_GIVEN, "");
            make_pair(ends);
            if (part) send_raw(ends[0], m, 100, ends, 2);
            if (closed) close(ends[0]);
            errno = EIO;
            cr_assert_not(message_receive(ends[1], m, got, &count, closed ? 10000 : 1));
            cr_assert_eq(errno, closed && !part ? 0 : closed ? errno : ETIMEDOUT);
            cr_assert_eq(count, 2 * part);
            close_all(got, count);
            if (closed && part) { /* what came held the other end open */
                cr_assert_not(message_receive(ends[1], m, got, &count, 10000));
                cr_assert_eq(errno, 0);
            }
            close_all(closed ? ends + 1 : ends, closed ? 1 : 2);
            cr_assert_eq(count_open(), before);
            free(m);
        }
}

struct reader {
    int fd;
    struct hand_over_message *m;
    bool ok;
};

static void *read_later(void *reader)
{
    struct reader *r = reader;
    int got[MESSAGE_FDS_MAX], count;
    r->ok = message_receive(r->fd, r->m, got, &count, 60000) && count == 0;
    return NULL;
}

/* A socket that takes nothing at first: what is sent waits. */
Test(message, a_reader_that_is_late)
{
    int ends[2], small = 1;
    pthread_t thread;
    struct hand_over_message *m = new_message(MESSAGE_SERVES, "late");
    struct reader r = {.m = new_message(0, "")};
    make_pair(ends);
    cr_assert_eq(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    cr_assert_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    uint64_t sent = 0;
    while (send(ends[0], m, 64, MSG_NOSIGNAL) > 0)
        sent += 64;
    char *before = malloc(sent);
    r.fd = ends[1];
    cr_assert_eq(recv(ends[1], before, sent, MSG_WAITALL), (ssize_t)sent);
    cr_assert_eq(pthread_create(&thread, NULL, read_later, &r), 0);
    cr_assert(message_send(ends[0], m, NULL, 0));
    pthread_join(thread, NULL);
    cr_assert(r.ok);
    cr_assert_str_eq(r.m->text, "late");
    close_all(ends, 2);
    free(before);
    free(m);
    free(r.m);
}

Test(message, nobody_is_there)
{
    int ends[2], got[MESSAGE_FDS_MAX], count;
    struct hand_over_message *m = new_message(MESSAGE_SERVES, "");
    make_pair(ends);
    close(ends[1]);
    cr_assert_not(message_send(ends[0], m, NULL, 0));
    cr_assert_eq(errno, EPIPE);
    fault_arm(1);
    cr_assert_not(message_send(ends[0], m, NULL, 0));
    cr_assert_str_eq(fault_fired(), "hand over: send");
    fault_arm(0);
    cr_assert_not(message_receive(-1, m, got, &count, 1));
    close(ends[0]);
    free(m);
}

static enum status ask_at(const char *path, const char *word)
{
    struct hand_over h;
    struct failure f = {0};
    enum status st = hand_over_ask(path, &h, &f);
    cr_assert_not_null(strstr(f.text, word), "%s", f.text);
    return st;
}

/* Where nobody serves a daemon starts as always; what was named by mistake is refused. */
Test(message, only_a_socket_can_have_nobody)
{
    char folder[] = "/tmp/engram-message-XXXXXX", file[64], socket_path[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cr_assert_not_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/file", folder);
    snprintf(socket_path, sizeof socket_path, "%s/socket", folder);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(address.sun_path, socket_path);
    cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(ask_at("", "no socket is named"), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(ask_at(folder, "not a socket"), STATUS_FAILED_PRECONDITION);
    cr_assert_eq(ask_at(file, "not a socket"), STATUS_FAILED_PRECONDITION);
    cr_assert_eq(ask_at(socket_path, "refused"), STATUS_UNAVAILABLE);
    close(fd);
    unlink(socket_path);
    cr_assert_eq(ask_at(socket_path, "No such file"), STATUS_UNAVAILABLE);
    unlink(file);
    rmdir(folder);
}
