/* What a daemon leaves to the service manager, and the next start makes of it. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/memory_file.h"
#include "daemon/handover/hand_over.h"
#include "daemon/persist/folder.h"
#include "tests/support/data_place.h"
#include "tests/support/persist_house.h"
#include "tests/support/scene.h"

/* ---- through the service manager ---- */

struct manager {
    int fd;
    char path[96];
    int fds[HAND_OVER_STORED];
};

static void open_manager(struct manager *m, const struct data_place *p)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    for (int i = 0; i < HAND_OVER_STORED; i++)
        m->fds[i] = -1;
    snprintf(m->path, sizeof m->path, "%s/notify", p->folder);
    strcpy(address.sun_path, m->path);
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(m->fd, (struct sockaddr *)&address, sizeof address), 0);
}

static void close_manager(struct manager *m)
{
    place_close_all(m->fds, HAND_OVER_STORED);
    close(m->fd);
    unlink(m->path);
}

/* Takes what was said until now, with what is to be kept. */
static void hear(struct manager *m)
{
    char text[256];
    for (;;) {
        union {
            struct cmsghdr head;
            char room[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec io = {text, sizeof text - 1};
        struct msghdr h = {.msg_iov = &io,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
        ssize_t n = recvmsg(m->fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0) return;
        text[n] = 0;
        const char *name = strstr(text, "FDNAME=");
        for (int i = 0; i < HAND_OVER_STORED && name; i++) {
            if (strncmp(name + 7, hand_over_names[i], strlen(hand_over_names[i])) != 0) continue;
            if (strstr(text, "FDSTOREREMOVE=1")) {
                close(m->fds[i]);
                m->fds[i] = -1;
            } else if (strstr(text, "FDSTORE=1")) {
                cr_assert_not_null(CMSG_FIRSTHDR(&h));
                memcpy(&m->fds[i], CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(int));
            }
        }
    }
}

/* As systemctl restart: SIGTERM, and started again with what it left. */
static void restart_with(struct data_place *p, struct manager *m, const int *fds)
{
    const struct daemon_surroundings in = {m->path, fds, hand_over_names,
                                           fds ? HAND_OVER_STORED : 0};
    daemon_start_in(&p->daemon, p->settings, &in);
}

static void stop_kept(struct data_place *p, struct manager *m)
{
    int status;
    kill(p->daemon.pid, SIGTERM);
    waitpid(p->daemon.pid, &status, 0);
    cr_assert_eq(status, 0);
    hear(m);
    for (int i = 0; i < HAND_OVER_STORED; i++)
        cr_assert_geq(m->fds[i], 0);
}

static void begin_managed(struct data_place *p, struct manager *m)
{
    int status;
    place_open(p, "persist.on_stop=false");
    open_manager(m, p);
    const struct daemon_surroundings in = {.notify_socket = m->path};
    kill(p->daemon.pid, SIGTERM);
    waitpid(p->daemon.pid, &status, 0);
    daemon_start_in(&p->daemon, p->settings, &in);
    place_fill(p);
}

Test(hand_over_manager, through_the_service_manager)
{
    struct data_place p;
    struct manager m;
    begin_managed(&p, &m);
    struct data_state before = place_look(&p);
    for (int i = 0; i < 2; i++) {
        stop_kept(&p, &m);
        restart_with(&p, &m, m.fds);
        place_expect(&p, &before);
        place_delete_tagged(&p, 900000 - 11, EA_OK);
        hear(&m);
        for (int k = 0; k < HAND_OVER_STORED; k++)
            cr_assert_lt(m.fds[k], 0); /* they were given back */
    }
    close_manager(&m);
    place_close(&p);
}

static void delete_one(const struct data_place *p, uint64_t id)
{
    ea_delete_counts counts = {0};
    cr_assert_eq(ea_delete(p->client, "rows", &id, 1, &counts), EA_OK, "%s",
                 ea_error_text(p->client));
    cr_assert_eq(counts.deleted, 1);
}

static uint64_t snapshots(const struct data_place *p)
{
    uint64_t *numbers = NULL, count = 0;
    int fd = open(p->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(folder_list(fd, &numbers, &count, NULL), STATUS_OK);
    free(numbers);
    close(fd);
    return count;
}

/* With a journal that has everything nothing is saved at the stop: not if it is started again with
 * what it left, and not if it is not. */
Test(hand_over_manager, a_journal_is_enough)
{
    static const char *const kinds[] = {"persist.journal=always", "persist.journal=second"};
    for (int i = 0; i < 2; i++) {
        struct data_place p;
        struct manager m;
        begin_managed(&p, &m);
        struct data_state before = place_look(&p);
        stop_kept(&p, &m);
        p.settings[3] = kinds[i]; /* and saves at a stop */
        restart_with(&p, &m, m.fds);
        wait_logged(&p.daemon, "the journal begins with a snapshot");
        wait_logged(&p.daemon, "the journal is sound again");
        place_expect(&p, &before);
        place_delete_tagged(&p, 900000 - 11, EA_OK); /* the remembered answer */
        delete_one(&p, 900000 - 22);
        hear(&m);
        before = place_look(&p);
        stop_kept(&p, &m);
        wait_logged(&p.daemon, "not saved: all that was written is in the journal");
        cr_assert_eq(snapshots(&p), 1);
        restart_with(&p, &m, m.fds);
        place_expect(&p, &before);
        hear(&m);
        stop_kept(&p, &m);
        cr_assert_eq(snapshots(&p), 1);
        place_close_all(m.fds, HAND_OVER_STORED);
        restart_with(&p, &m, NULL); /* systemctl stop, and start */
        wait_logged(&p.daemon, "writes of the journal");
        struct data_state now = place_look(&p);
        cr_assert_eq(now.bits, before.bits);
        cr_assert_eq(now.instance, before.instance);
        cr_assert_gt(now.generation, before.generation);
        place_delete_tagged(&p, 900000 - 11, EA_OK);
        for (int k = 0; k < HAND_OVER_STORED; k++)
            m.fds[k] = -1;
        close_manager(&m);
        place_close(&p);
    }
}

/* Where it is turned on, it begins at the snapshot of the stop. */
Test(hand_over_manager, a_journal_that_is_turned_on)
{
    struct data_place p;
    struct manager m;
    begin_managed(&p, &m);
    p.settings[3] = NULL;
    stop_kept(&p, &m);
    restart_with(&p, &m, m.fds);
    hear(&m);
    struct data_state before = place_look(&p);
    stop_kept(&p, &m);
    cr_assert_eq(snapshots(&p), 1);
    p.settings[3] = "persist.journal=always";
    restart_with(&p, &m, m.fds);
    place_expect(&p, &before);
    delete_one(&p, 900000 - 22); /* at once */
    before = place_look(&p);
    daemon_kill(&p.daemon);
    restart_with(&p, &m, NULL);
    struct data_state now = place_look(&p);
    cr_assert_eq(now.bits, before.bits);
    cr_assert_eq(now.instance, before.instance);
    hear(&m);
    close_manager(&m);
    place_close(&p);
}

/* The successor of one that was killed while it had everything: the claim is taken. */
Test(hand_over_manager, what_was_claimed_is_not_adopted_again)
{
    struct data_place p;
    struct manager m;
    int kept[HAND_OVER_STORED];
    begin_managed(&p, &m);
    struct data_state before = place_look(&p);
    stop_kept(&p, &m);
    for (int i = 0; i < HAND_OVER_STORED; i++)
        kept[i] = dup(m.fds[i]);
    restart_with(&p, &m, m.fds);
    place_expect(&p, &before);
    daemon_kill(&p.daemon);
    restart_with(&p, &m, kept);
    wait_logged(&p.daemon, "another daemon's already");
    ea_collection_info info;
    cr_assert_eq(ea_collection_describe(p.client, "rows", &info), EA_NOT_FOUND);
    cr_assert_neq(ea_instance(p.client), before.instance);
    place_close_all(kept, HAND_OVER_STORED);
    close_manager(&m);
    place_close(&p);
}

/* What is damaged, or not all there, is left alone: the snapshot. */
Test(hand_over_manager, damaged_ones_are_not_used)
{
    struct data_place p;
    struct manager m;
    begin_managed(&p, &m);
    cr_assert_eq(ea_save(p.client, NULL, NULL), EA_OK);
    struct data_state before = place_look(&p);
    for (int i = 0; i < 4; i++) {
        int fds[HAND_OVER_STORED];
        stop_kept(&p, &m);
        memcpy(fds, m.fds, sizeof fds);
        off_t bytes = lseek(fds[1], 0, SEEK_END);
        char *data = malloc((size_t)bytes);
        cr_assert_eq(pread(fds[1], data, (size_t)bytes, 0), bytes);
        data[bytes / 7 * i] ^= 4;
        fds[1] = memory_file_begin("test");
        cr_assert_eq(write(fds[1], data, (size_t)bytes), bytes);
        if (i) cr_assert(memory_file_end(fds[1]));
        if (i == 3) fds[0] = fds[1]; /* that is no heap */
        restart_with(&p, &m, fds);
        place_wait_logged(&p, "nothing of it is used", i + 1);
        struct data_state now = place_look(&p);
        cr_assert_eq(now.bits, before.bits);
        cr_assert_neq(now.instance, before.instance); /* what came after the snapshot may be lost */
        close(fds[1]);
        free(data);
        place_close_all(m.fds, HAND_OVER_STORED);
        for (int k = 0; k < HAND_OVER_STORED; k++)
            m.fds[k] = -1;
        hear(&m);
    }
    close_manager(&m);
    place_close(&p);
}
