/* Hand-overs of daemons with a journal: whatever one of the two, or both, die of and when, a start
 * from the disk has all that was acknowledged, and the same answers.
 * ENGRAM_JOURNAL_HAND_OVERS: how many under load (3). */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/catalogue.h"
#include "daemon/handover/hand_over.h"
#include "daemon/handover/message.h"
#include "tests/support/data_place.h"
#include "tests/support/journal_keeper.h"
#include "tests/support/scene.h"

TestSuite(hand_over_journal, .timeout = 880);

/* After a kill: all of it is there, under the same instance or not. */
static void expect_after_kill(struct data_place *p, const struct data_state *before, bool stays)
{
    daemon_kill(&p->daemon);
    daemon_restart(&p->daemon, p->settings);
    struct data_state now = place_look(p);
    cr_assert_eq(now.bits, before->bits);
    cr_assert_eq(now.instance == before->instance, stays);
    cr_assert_gt(now.generation, before->generation);
    place_delete_tagged(p, 900000 - 11, EA_OK); /* the remembered answer */
}

static void delete_one(const struct data_place *p, uint64_t id)
{
    ea_delete_counts counts = {0};
    cr_assert_eq(ea_delete(p->client, "rows", &id, 1, &counts), EA_OK, "%s",
                 ea_error_text(p->client));
    cr_assert_eq(counts.deleted, 1);
}

/* What is hidden goes with its connection, before and after it, and is not there after a start. */
Test(hand_over_journal, it_goes_on)
{
    struct data_place p;
    place_open(&p, "persist.journal=always");
    place_fill(&p);
    cr_assert_eq(ea_collection_create(p.client, "~made", 4, EA_DOT, NULL), EA_OK);
    for (uint64_t i = 0; i < 3; i++) {
        struct data_state before = place_look(&p);
        cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
        place_expect(&p, &before);
        place_delete_tagged(&p, 900000 - 11, EA_OK);
        cr_assert_eq(ea_collection_create(p.client, "~made", 4, EA_DOT, NULL), EA_OK);
        delete_one(&p, 900000 - 11 * (2 + i));
    }
    struct data_state before = place_look(&p);
    expect_after_kill(&p, &before, true);
    cr_assert_eq(ea_collection_drop(p.client, "~made"), EA_NOT_FOUND);
    place_close(&p);
}

Test(hand_over_journal, it_is_turned_on_and_off)
{
    struct data_place p;
    place_open(&p, NULL);
    place_fill(&p);
    struct data_state before = place_look(&p);
    p.settings[3] = "persist.journal=always";
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    place_expect(&p, &before);
    wait_logged(&p.daemon, "the journal is sound again");
    delete_one(&p, 900000 - 22);
    before = place_look(&p);
    expect_after_kill(&p, &before, true);
    before = place_look(&p);
    p.settings[3] = "persist.journal=second";
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    place_expect(&p, &before);
    delete_one(&p, 900000 - 33);
    before = place_look(&p);
    p.settings[3] = NULL;
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    place_expect(&p, &before);
    expect_after_kill(&p, &before, false); /* nobody knows that nothing was written */
    place_close(&p);
}

/* ---- what dies, and when ---- */

enum death {
    ASKER_AT_ONCE,   /* before it is answered, or shortly after */
    ASKER_UNCLAIMED, /* it has everything, and has not claimed it */
    ASKER_CLAIMED,   /* it has */
    BOTH_BEFORE,     /* the daemon, too, when it has agreed */
    BOTH_UNCLAIMED,  /* when it has handed over everything */
    BOTH_CLAIMED,    /* and the other one has it */
    DEATHS
};

static int ask(const struct data_place *p)
{
    struct {
        char magic[16];
        uint32_t format, process;
        uint64_t unused;
    } a = {"EngramHandOver?", CATALOGUE_FORMAT, (uint32_t)getpid(), 0};
    int fd = raw_connect(&p->daemon);
    cr_assert(raw_send(fd, &a, sizeof a));
    return fd;
}

static void receive(int fd, enum message_kind kind, int fds[MESSAGE_FDS_MAX], int *count)
{
    struct hand_over_message m;
    cr_assert(message_receive(fd, &m, fds, count, GIVE_UP_MS));
    cr_assert_eq(m.kind, kind, "%u: %s", m.kind, m.text);
}

static void die(struct data_place *p, enum death how)
{
    int fds[MESSAGE_FDS_MAX], count = 0, fd = ask(p);
    if (how != ASKER_AT_ONCE) receive(fd, MESSAGE_ACCEPTED, fds, &count);
    if (how != ASKER_AT_ONCE && how != BOTH_BEFORE) {
        receive(fd, MESSAGE_GIVEN, fds, &count);
        cr_assert_geq(count, 3);
        uint32_t *claim = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[2], 0);
        cr_assert_neq(claim, MAP_FAILED);
        if (how == ASKER_CLAIMED || how == BOTH_CLAIMED) *claim = 1;
        munmap(claim, 4096);
    }
    if (how >= BOTH_BEFORE) daemon_kill(&p->daemon);
    place_close_all(fds, count);
    close(fd);
    if (how >= BOTH_BEFORE) daemon_restart(&p->daemon, p->settings);
}

/* How often the daemon went on by itself: not for one that was gone before it was answered. */
static void await_going_on(const struct data_place *p, enum death how, int *times)
{
    while (how == ASKER_AT_ONCE && !daemon_logged(&p->daemon, "going on") &&
           !daemon_logged(&p->daemon, "the successor is gone"))
        wait_ms(1);
    *times += how != ASKER_AT_ONCE || daemon_logged(&p->daemon, "going on");
    place_wait_logged(p, "going on", *times);
}

Test(hand_over_journal, one_or_both_die)
{
    struct data_place p;
    int times = 0;
    place_open(&p, "persist.journal=always");
    place_fill(&p);
    for (int how = 0; how < DEATHS; how++) {
        delete_one(&p, 900000 - 11 * (2 + 2 * (uint64_t)how));
        struct data_state before = place_look(&p);
        die(&p, (enum death)how);
        if (how < BOTH_BEFORE) await_going_on(&p, (enum death)how, &times);
        if (how < BOTH_BEFORE) place_expect(&p, &before);
        struct data_state now = place_look(&p);
        cr_assert_eq(now.bits, before.bits, "%d", how);
        cr_assert_eq(now.instance, before.instance, "%d", how);
        delete_one(&p, 900000 - 11 * (3 + 2 * (uint64_t)how)); /* and goes on */
        before = place_look(&p);
        expect_after_kill(&p, &before, true);
    }
    place_close(&p);
}

/* The successor has begun its first file, and then cannot serve: the daemon goes on behind that. */
Test(hand_over_journal, a_successor_that_cannot_listen)
{
    struct data_place p;
    place_open(&p, "persist.journal=always");
    place_fill(&p);
    const char *const wrong[] = {p.setting, "persist.journal=always",
                                 "socket.path=/nowhere/there/is/a/socket", NULL};
    for (int i = 0; i < 2; i++) {
        struct data_state before = place_look(&p);
        cr_assert_eq(daemon_succeed(&p.daemon, wrong), -1);
        place_wait_logged(&p, "going on", i + 1);
        place_expect(&p, &before);
        delete_one(&p, 900000 - 11 * (2 + (uint64_t)i));
    }
    struct data_state before = place_look(&p);
    expect_after_kill(&p, &before, true);
    place_close(&p);
}

/* ---- under load ---- */

enum { WIDTH = 5 }; /* rows of a write, of the same number each */

struct writer {
    struct journal_keeper *k;
    pthread_t thread;
    atomic_ulong acknowledged, sent; /* writes */
    atomic_bool stop;
    uint64_t again;
};

static void *write_on(void *writer)
{
    struct writer *w = writer;
    ea_client *c = NULL;
    const ea_options options = {.socket_path = w->k->daemon.socket_path,
                                .space = "kept",
                                .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    while (!atomic_load(&w->stop)) {
        uint64_t ids[WIDTH], n = w->acknowledged;
        float rows[WIDTH * 4];
        for (uint64_t i = 0; i < WIDTH; i++)
            ids[i] = n * WIDTH + i;
        for (uint64_t i = 0; i < WIDTH * 4; i++)
            rows[i] = (float)n + 1;
        const ea_rows what = {
            .collection = "log", .ids = ids, .rows = rows, .count = WIDTH, .dimension = 4};
        w->sent = n + 1;
        if (ea_upsert(c, &what, NULL) == EA_OK)
            w->acknowledged = n + 1;
        else
            w->again++;
    }
    ea_close(c);
    return NULL;
}

static void check_written(struct writer *w)
{
    struct journal_keeper *k = w->k;
    uint64_t ids[WIDTH], known = w->acknowledged, sent = w->sent;
    ea_collection_info info;
    ea_result r = {0};
    journal_keeper_need(k, ea_collection_describe(k->client, "log", &info), "describe");
    cr_assert(info.rows == known * WIDTH || info.rows == sent * WIDTH, "%llu rows, %llu of %llu",
              (unsigned long long)info.rows, (unsigned long long)known, (unsigned long long)sent);
    for (uint64_t i = 0; i < known; i += 1 + known / 64) {
        for (uint64_t n = 0; n < WIDTH; n++)
            ids[n] = i * WIDTH + n;
        journal_keeper_need(k, ea_fetch(k->client, "log", ids, WIDTH, &r), "fetch");
        for (uint64_t n = 0; n < (uint64_t)WIDTH * 4; n++)
            cr_assert_eq(r.vectors[n], (float)i + 1);
    }
    ea_result_free(&r);
}

static void wait_for_writes(struct writer *w, uint64_t count)
{
    uint64_t before = w->acknowledged;
    while (w->acknowledged < before + count)
        wait_ms(1);
}

/* Each successor takes over from one that writes, writes on, and is killed. */
Test(hand_over_journal, nothing_acknowledged_is_lost)
{
    const char *asked = getenv("ENGRAM_JOURNAL_HAND_OVERS");
    int times = asked ? atoi(asked) : 3; /* NOLINT(cert-err34-c) */
    struct journal_keeper k;
    struct writer w = {.k = &k};
    journal_keeper_open(&k, "persist.journal=always");
    journal_keeper_need(&k, ea_collection_create(k.client, "log", 4, EA_DOT, NULL), "create");
    uint64_t instance = ea_instance(k.client);
    for (int i = 0; i < times; i++) {
        w.stop = false;
        cr_assert_eq(pthread_create(&w.thread, NULL, write_on, &w), 0);
        for (int n = 0; n < 2; n++) {
            wait_for_writes(&w, 20);
            cr_assert_eq(daemon_succeed(&k.daemon, k.settings), 0);
        }
        if (i % 5 == 4) (void)ea_save(k.client, NULL, NULL);
        wait_for_writes(&w, (uint64_t)(i % 3));
        daemon_kill(&k.daemon);
        w.stop = true;
        pthread_join(w.thread, NULL);
        daemon_restart(&k.daemon, k.settings);
        journal_keeper_wait(&k);
        check_written(&w);
        cr_assert_eq(ea_instance(k.client), instance);
    }
    fprintf(stderr,
            "%d times two hand-overs and a kill: %lu writes, %lu told to try again: none "
            "lost\n",
            times, (unsigned long)w.acknowledged, (unsigned long)w.again);
    journal_keeper_close(&k);
}
