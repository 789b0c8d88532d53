/* A daemon that takes another's place, with all its data as it lies in memory. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "daemon/base/catalogue.h"
#include "daemon/base/memory_file.h"
#include "daemon/handover/hand_over.h"
#include "daemon/handover/message.h"
#include "tests/support/data_place.h"
#include "tests/support/persist_house.h"
#include "tests/support/scene.h"

/* ---- on the socket ---- */

Test(hand_over, everything_is_there)
{
    struct data_place p;
    place_open(&p, NULL);
    place_fill(&p);
    struct data_state before = place_look(&p);
    const ea_state expect = {.instance = before.instance, .generation = before.generation};
    cr_assert_eq(ea_expect(p.client, &expect), EA_OK);
    pid_t old = p.daemon.pid;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
        cr_assert_neq(p.daemon.pid, old);
        place_expect(&p, &before);
        place_delete_tagged(&p, 900000 - 11, EA_OK); /* the remembered answer */
    }
    wait_logged(&p.daemon, "hand-over: 2 objects");
    wait_logged(&p.daemon, "the successor serves");
    /* written on, saved at the stop, and there is one instance after it */
    uint64_t id = 900000;
    ea_delete_counts counts;
    cr_assert_eq(ea_delete(p.client, "rows", &id, 1, &counts), EA_OK);
    cr_assert_eq(counts.deleted, 1);
    struct data_state after = place_look(&p);
    int status;
    kill(p.daemon.pid, SIGTERM);
    waitpid(p.daemon.pid, &status, 0);
    daemon_restart(&p.daemon, p.settings);
    cr_assert_eq(ea_expect(p.client, NULL), EA_OK);
    struct data_state last = place_look(&p);
    cr_assert_eq(last.bits, after.bits);
    place_close(&p);
}

Test(hand_over, a_kill_after_it_is_not_hidden)
{
    struct data_place p;
    place_open(&p, NULL);
    place_fill(&p);
    cr_assert_eq(ea_save(p.client, NULL, NULL), EA_OK, "%s", ea_error_text(p.client));
    struct data_state before = place_look(&p);
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    uint64_t id = 900000;
    cr_assert_eq(ea_delete(p.client, "rows", &id, 1, NULL), EA_OK);
    daemon_kill(&p.daemon);
    daemon_restart(&p.daemon, p.settings);
    struct data_state after = place_look(&p); /* of the snapshot: the delete is lost */
    cr_assert_neq(after.instance, before.instance);
    cr_assert_gt(after.generation, before.generation);
    place_close(&p);
}

/* ---- under load ---- */

struct load {
    const struct data_place *p;
    atomic_bool stop;
    atomic_ulong asked, wrong, written, again;
    int64_t longest_us; /* without an answer */
    uint64_t bits;
};

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

/* HAND_OVER_MIB: so much is resident besides, in rows of 768. */
static void fill_much(const struct data_place *p, uint64_t mib)
{
    enum { WIDE = 768, BATCH = 20000 };
    float *rows = calloc((size_t)BATCH * WIDE, sizeof *rows);
    uint64_t *ids = malloc(BATCH * sizeof *ids), left = (mib << 20) / (WIDE * sizeof *rows);
    ea_client *c = p->client;
    if (left) cr_assert_eq(ea_collection_create(c, "much", WIDE, EA_DOT, NULL), EA_OK);
    for (uint64_t first = 0; left; first += BATCH) {
        uint64_t count = left < BATCH ? left : BATCH;
        for (uint64_t i = 0; i < count; i++)
            rows[i * WIDE] = (float)(ids[i] = first + i);
        const ea_rows some = {
            .collection = "much", .ids = ids, .rows = rows, .count = count, .dimension = WIDE};
        cr_assert_eq(ea_upsert(c, &some, NULL), EA_OK, "%s", ea_error_text(c));
        left -= count;
    }
    free(rows);
    free(ids);
}

static void *ask_on(void *load)
{
    struct load *l = load;
    ea_client *c = place_client(l->p);
    ea_result r = {0};
    int64_t last_us = now_us();
    while (!atomic_load(&l->stop)) {
        const ea_knn_question q = {.collection = "rows",
                                   .queries = l->p->rows,
                                   .query_count = 1,
                                   .dimension = PLACE_D,
                                   .k = 10};
        ea_status st = ea_knn(c, &q, &r);
        if (st == EA_UNAVAILABLE) {
            l->again++;
            continue;
        }
        bool right = !st && XXH3_64bits(r.ids, 10 * sizeof *r.ids) == l->bits;
        if (!right) fprintf(stderr, "wrong: %d %s\n", (int)st, ea_error_text(c));
        l->wrong += !right;
        l->asked++;
        int64_t us = now_us();
        if (us - last_us > l->longest_us) l->longest_us = us - last_us;
        last_us = us;
    }
    ea_result_free(&r);
    ea_close(c);
    return NULL;
}

/* One row after the other; each that was acknowledged must be there in the end. */
static void *write_on(void *load)
{
    struct load *l = load;
    ea_client *c = place_client(l->p);
    float row[PLACE_D] = {1};
    uint64_t id = 0;
    while (!atomic_load(&l->stop)) {
        row[1] = (float)id;
        const ea_rows rows = {
            .collection = "written", .ids = &id, .rows = row, .count = 1, .dimension = PLACE_D};
        ea_status st = ea_upsert(c, &rows, NULL);
        if (st == EA_UNAVAILABLE) {
            l->again++;
            continue;
        }
        if (st) fprintf(stderr, "wrong: %d %s\n", (int)st, ea_error_text(c));
        l->wrong += st != EA_OK;
        id++;
    }
    l->written = id;
    ea_close(c);
    return NULL;
}

static void expect_written(const struct data_place *p, uint64_t count)
{
    ea_collection_info info;
    ea_result r = {0};
    cr_assert_eq(ea_collection_describe(p->client, "written", &info), EA_OK, "%s",
                 ea_error_text(p->client));
    cr_assert(info.rows == count || info.rows == count + 1, "%lu of %lu", (unsigned long)info.rows,
              (unsigned long)count);
    for (uint64_t id = 0; id < count; id++) {
        cr_assert_eq(ea_fetch(p->client, "written", &id, 1, &r), EA_OK, "%s",
                     ea_error_text(p->client));
        cr_assert_eq(r.vectors[1], (float)id);
    }
    ea_result_free(&r);
}

Test(hand_over, under_load)
{
    const char *wish = getenv("HAND_OVERS");
    int times = wish ? (int)strtol(wish, NULL, 10) : 4;
    struct data_place p;
    struct load l = {.p = &p};
    pthread_t threads[3];
    ea_result r = {0};
    const char *much = getenv("HAND_OVER_MIB");
    uint64_t mib = much ? strtoull(much, NULL, 10) : 0;
    char bound[64];
    snprintf(bound, sizeof bound, "memory.max_mib=%" PRIu64, 1024 + mib * 5 / 4);
    place_open(&p, bound);
    place_fill(&p);
    fill_much(&p, mib);
    cr_assert_eq(ea_collection_create(p.client, "written", PLACE_D, EA_DOT, NULL), EA_OK);
    const ea_knn_question q = {
        .collection = "rows", .queries = p.rows, .query_count = 1, .dimension = PLACE_D, .k = 10};
    cr_assert_eq(ea_knn(p.client, &q, &r), EA_OK);
    l.bits = XXH3_64bits(r.ids, 10 * sizeof *r.ids);
    ea_result_free(&r);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, i ? ask_on : write_on, &l), 0);
    for (int i = 0; i < times; i++) {
        unsigned long before = l.asked;
        while (l.asked < before + 20 && !l.wrong)
            wait_ms(1);
        cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    }
    l.stop = true;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%d hand-overs: %lu asked, %lu written, %lu told to try again, %lu wrong; %.1f ms "
           "without an answer at most\n",
           times, (unsigned long)l.asked, (unsigned long)l.written, (unsigned long)l.again,
           (unsigned long)l.wrong, (double)l.longest_us * 1e-3);
    cr_assert_eq(l.wrong, 0);
    expect_written(&p, l.written);
    place_close(&p);
}

/* ---- what fails ---- */

static int ask_as(const struct data_place *p, uint32_t format)
{
    struct {
        char magic[16];
        uint32_t format, process;
        uint64_t unused;
    } a = {"EngramHandOver?", format, (uint32_t)getpid(), 0};
    int fd = raw_connect(&p->daemon);
    cr_assert(raw_send(fd, &a, sizeof a));
    return fd;
}

static void expect_message(int fd, enum message_kind kind, const char *word,
                           int fds[MESSAGE_FDS_MAX], int *count)
{
    struct hand_over_message m;
    cr_assert(message_receive(fd, &m, fds, count, GIVE_UP_MS));
    cr_assert_eq(m.kind, kind, "%u: %s", m.kind, m.text);
    if (word) cr_assert_not_null(strstr(m.text, word), "%s", m.text);
}

static void take_all(int fd, int fds[MESSAGE_FDS_MAX], int *count)
{
    expect_message(fd, MESSAGE_ACCEPTED, NULL, fds, count);
    cr_assert_eq(*count, 0);
    expect_message(fd, MESSAGE_GIVEN, NULL, fds, count);
    cr_assert_eq(*count, 5, "%d", *count); /* heap, catalogue, claim, the socket and its lock */
}

/* Whatever becomes of the successor, the daemon goes on with all that it had. */
Test(hand_over, a_successor_that_fails)
{
    struct data_place p;
    int fds[MESSAGE_FDS_MAX], count;
    place_open(&p, NULL);
    place_fill(&p);
    struct data_state before = place_look(&p);
    for (int step = 0; step < 5; step++) {
        int fd = ask_as(&p, CATALOGUE_FORMAT);
        if (step == 0) {
            close(fd); /* before it is answered, or shortly after */
        } else {
            take_all(fd, fds, &count);
            uint32_t *claim = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[2], 0);
            cr_assert_neq(claim, MAP_FAILED);
            cr_assert_eq(*claim, 0);
            struct hand_over_message m = {.kind = MESSAGE_GIVES_UP, .text = "no such luck"};
            if (step == 2) *claim = 1; /* ended after it claimed, before it served */
            if (step == 3) cr_assert(message_send(fd, &m, NULL, 0));
            if (step == 4) cr_assert(raw_send(fd, "nonsense", 8));
            close(fd);
            if (step == 3) wait_logged(&p.daemon, "no such luck");
            place_wait_logged(&p, "going on", step);
            cr_assert_neq(*claim, 0); /* nobody else can have it now */
            munmap(claim, 4096);
            place_close_all(fds, count);
        }
        place_expect(&p, &before);
    }
    cr_assert_eq(daemon_succeed(&p.daemon, p.settings), 0);
    place_expect(&p, &before);
    place_close(&p);
}

Test(hand_over, refusals_change_nothing)
{
    struct data_place p;
    int fds[MESSAGE_FDS_MAX], count;
    const char *const other[] = {p.setting, "memory.max_mib=1000000", NULL};
    place_open(&p, "socket.mode=666");
    place_fill(&p);
    struct data_state before = place_look(&p);
    int fd = ask_as(&p, CATALOGUE_FORMAT + 1);
    expect_message(fd, MESSAGE_REFUSED, "format", fds, &count);
    close(fd);
    if (geteuid() == 0) { /* another user */
        chmod(p.daemon.directory, 0755);
        pid_t child = fork();
        if (child == 0) {
            struct hand_over_message m;
            if (setuid(65534)) _exit(2);
            fd = ask_as(&p, CATALOGUE_FORMAT);
            bool told = message_receive(fd, &m, fds, &count, GIVE_UP_MS) &&
                        m.kind == MESSAGE_REFUSED && !count && strstr(m.text, "only root");
            _exit(told ? 0 : 1);
        }
        int status;
        waitpid(child, &status, 0);
        cr_assert_eq(status, 0, "%d", status);
    } else {
        printf("SKIP another user: only root can become one\n");
    }
    place_expect(&p, &before);
    /* a bound that the heap was not made for */
    cr_assert_eq(daemon_succeed(&p.daemon, other), -1);
    wait_logged(&p.daemon, "the heap was made for less memory");
    wait_logged(&p.daemon, "going on");
    place_expect(&p, &before);
    cr_assert(daemon_logged(&p.daemon, "refused to uid"));
    place_close(&p);
}

/* Nobody hands anything over: what is on the disk. */
Test(hand_over, from_nobody)
{
    struct data_place p;
    int status;
    char option[160];
    place_open(&p, NULL);
    place_fill(&p);
    struct data_state before = place_look(&p);
    kill(p.daemon.pid, SIGTERM);
    waitpid(p.daemon.pid, &status, 0);
    snprintf(option, sizeof option, "--hand-over=%s", p.daemon.socket_path);
    p.settings[3] = option;
    daemon_restart(&p.daemon, p.settings);
    wait_logged(&p.daemon, "starting with what is on the disk");
    struct data_state now = place_look(&p);
    cr_assert_eq(now.bits, before.bits);
    place_close(&p);
}
