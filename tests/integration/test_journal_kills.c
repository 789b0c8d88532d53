/* A journal whose disk fails, and a daemon that is killed at a random instant of a load of writes:
 * nothing that was acknowledged is lost, nothing is half done. ENGRAM_JOURNAL_KILLS: how often (5).
 * test-run: timeout=900 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/journal_keeper.h"
#include "tests/support/scene.h"

TestSuite(journal_kills, .timeout = 880);

/* ---------------------------------------------------------------- a disk that fails */

static void limit_files(const struct journal_keeper *k, rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    cr_assert_eq(prlimit(k->daemon.pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static void expect_made_before(const struct journal_keeper *k, ea_status st)
{
    cr_assert_eq(st, EA_UNAVAILABLE);
    cr_assert_eq(ea_error_detail(k->client), EA_DETAIL_JOURNAL);
    cr_assert_not_null(strstr(ea_error_text(k->client), "'~hidden' was made before"), "%s",
                       ea_error_text(k->client));
}

/* What is hidden, and was made before the failure, takes no writes; it can be made again. */
static void check_hidden(const struct journal_keeper *k)
{
    const ea_rows rows = {
        .collection = "~hidden", .ids = k->ids, .rows = k->rows, .count = 5, .dimension = KEEPER_D};
    expect_made_before(k, ea_upsert(k->client, &rows, NULL));
    expect_made_before(k, ea_delete(k->client, "~hidden", k->ids, 1, NULL));
    expect_made_before(k, ea_swap(k->client, EA_COLLECTION, "rows", "~hidden", NULL));
    journal_keeper_need(k, ea_collection_drop(k->client, "~hidden"), "drop");
    journal_keeper_create(k, "~hidden");
    journal_keeper_put(k, "~hidden", 0, 5);
}

/* The journal's file must not grow: what is written meanwhile is refused, or said not to be on the
 * disk, questions are answered, and when a snapshot is saved writes go on. */
static void check_refusals(const char *journal)
{
    struct journal_keeper k;
    ea_result r = {0};
    ea_collection_info info;
    journal_keeper_open(&k, journal);
    journal_keeper_create(&k, "rows");
    journal_keeper_put(&k, "rows", 0, 100);
    journal_keeper_create(&k, "~hidden");
    limit_files(&k, 1000);
    const ea_rows rows = {.collection = "rows",
                          .ids = k.ids + 100,
                          .rows = k.rows,
                          .count = 1,
                          .dimension = KEEPER_D};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(ea_upsert(k.client, &rows, NULL), EA_UNAVAILABLE);
        cr_assert_eq(ea_error_detail(k.client), EA_DETAIL_JOURNAL);
        const char *told = i ? "nothing can be written" : "it is done, but not on the disk";
        cr_assert_not_null(strstr(ea_error_text(k.client), told), "%s", ea_error_text(k.client));
    }
    cr_assert_eq(ea_collection_create(k.client, "more", KEEPER_D, EA_COSINE, NULL), EA_UNAVAILABLE);
    cr_assert_eq(ea_collection_drop(k.client, "rows"), EA_UNAVAILABLE);
    journal_keeper_need(&k, ea_fetch(k.client, "rows", k.ids, 1, &r), "fetch");
    wait_logged(&k.daemon, "the journal cannot be written");
    limit_files(&k, RLIM_INFINITY);
    wait_logged(&k.daemon, "the journal is sound again");
    int64_t until = give_up_ms();
    while (ea_upsert(k.client, &rows, NULL) != EA_OK)
        cr_assert(now_ms() < until, "%s", ea_error_text(k.client));
    check_hidden(&k);
    journal_keeper_kill(&k);
    journal_keeper_need(&k, ea_collection_describe(k.client, "rows", &info), "describe");
    cr_assert_eq(info.rows, 101);
    ea_result_free(&r);
    journal_keeper_close(&k);
}

Test(journal_kills, a_journal_that_cannot_be_written_refuses_writes)
{
    check_refusals("persist.journal=always");
    check_refusals("persist.journal=second");
}

/* ---------------------------------------------------------------- kills */

enum { WIDTH = 5 }; /* rows of a write, of the same number each */

struct load {
    struct journal_keeper *k;
    uint64_t acknowledged, sent; /* writes of rows */
    uint64_t added, adding;      /* weights that were added */
};

static void *kill_later(void *arg)
{
    const struct load *l = arg;
    usleep((useconds_t)(rand() % 60000)); /* NOLINT(concurrency-mt-unsafe) */
    kill(l->k->daemon.pid, SIGKILL);
    return NULL;
}

static ea_status write_some(struct load *l)
{
    uint64_t ids[WIDTH], from = 1, to = 2;
    float rows[WIDTH * 4], one = 1;
    for (uint64_t i = 0; i < WIDTH; i++)
        ids[i] = l->acknowledged * WIDTH + i;
    for (uint64_t i = 0; i < WIDTH * 4; i++)
        rows[i] = (float)l->acknowledged + 1;
    const ea_rows what = {
        .collection = "log", .ids = ids, .rows = rows, .count = WIDTH, .dimension = 4};
    l->sent = l->acknowledged + 1;
    ea_status st = ea_upsert(l->k->client, &what, NULL);
    if (st) return st;
    l->acknowledged++;
    const ea_graph_edges edges = {
        .sources = &from, .targets = &to, .weights = &one, .count = 1, .create = true};
    l->adding = l->added + 1;
    float sum;
    st = ea_graph_add_weights(l->k->client, "web", &edges, &sum, NULL);
    if (!st) l->added++;
    return st;
}

/* What was acknowledged is there, what was sent may be, all of it, and nothing else is. */
static void check_load(struct load *l, int round)
{
    struct journal_keeper *k = l->k;
    uint64_t ids[WIDTH], from = 1, to = 2;
    ea_result r = {0};
    ea_collection_info info;
    journal_keeper_need(k, ea_collection_describe(k->client, "log", &info), "describe");
    cr_assert(info.rows == l->acknowledged * WIDTH || info.rows == l->sent * WIDTH,
              "kill %d: %llu rows, %llu writes acknowledged", round, (unsigned long long)info.rows,
              (unsigned long long)l->acknowledged);
    l->acknowledged = l->sent = info.rows / WIDTH;
    for (uint64_t i = 0; i < l->acknowledged; i += 1 + l->acknowledged / 64) {
        for (uint64_t n = 0; n < WIDTH; n++)
            ids[n] = i * WIDTH + n;
        journal_keeper_need(k, ea_fetch(k->client, "log", ids, WIDTH, &r), "fetch");
        for (uint64_t n = 0; n < (uint64_t)WIDTH * 4; n++)
            cr_assert_eq(r.vectors[n], (float)i + 1);
    }
    const float none = 0;
    float sum = 0;
    const ea_graph_edges edges = {
        .sources = &from, .targets = &to, .weights = &none, .count = 1, .create = true};
    journal_keeper_need(k, ea_graph_add_weights(k->client, "web", &edges, &sum, NULL), "sum");
    cr_assert(sum == (float)l->added || sum == (float)l->adding, "kill %d: %g, %llu acknowledged",
              round, (double)sum, (unsigned long long)l->added);
    l->added = l->adding = (uint64_t)sum;
    ea_result_free(&r);
}

/* After a kill `second` is another instance, since nobody knows whether power was lost. */
static void check_kills(const char *journal, bool stays)
{
    const char *asked = getenv("ENGRAM_JOURNAL_KILLS");
    int kills = asked ? atoi(asked) : 5; /* NOLINT(cert-err34-c) */
    struct journal_keeper k;
    struct load l = {.k = &k};
    pthread_t thread;
    journal_keeper_open(&k, journal);
    journal_keeper_need(&k, ea_collection_create(k.client, "log", 4, EA_DOT, NULL), "create");
    journal_keeper_need(&k, ea_graph_create(k.client, "web", NULL), "create");
    uint64_t instance = ea_instance(k.client);
    for (int i = 0; i < kills; i++) {
        cr_assert_eq(pthread_create(&thread, NULL, kill_later, &l), 0);
        bool saves = i % 7 == 3;
        if (saves) (void)ea_save(k.client, NULL, NULL);
        while (write_some(&l) == EA_OK)
            ;
        pthread_join(thread, NULL);
        cr_assert_eq(waitpid(k.daemon.pid, NULL, 0), k.daemon.pid);
        daemon_restart(&k.daemon, k.settings);
        journal_keeper_wait(&k);
        check_load(&l, i);
        cr_assert_eq(ea_instance(k.client) == instance, stays);
    }
    if (asked)
        fprintf(stderr, "%s: %d kills, %llu writes of rows, %llu of weights: none lost\n", journal,
                kills, (unsigned long long)l.acknowledged, (unsigned long long)l.added);
    journal_keeper_close(&k);
}

Test(journal_kills, nothing_acknowledged_is_lost_by_kills)
{
    check_kills("persist.journal=always", true);
}

Test(journal_kills, nothing_that_was_written_is_lost_by_kills)
{
    check_kills("persist.journal=second", false);
}
