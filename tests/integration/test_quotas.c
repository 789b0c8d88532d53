/* What a space may take, against the real daemon: memory, connections, VRAM, and new settings. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/sets.h"

enum { ROWS = 500, D = 512 }; /* 1 MiB a time, with its ids in one request */

struct load {
    float *rows; /* twice ROWS */
    uint64_t ids[ROWS];
};

static void load_make(struct load *l)
{
    l->rows = malloc((size_t)2 * ROWS * D * 4);
    reference_fill(3, l->rows, (size_t)2 * ROWS * D);
}

static ea_status load_send(struct load *l, ea_client *c, uint64_t times)
{
    for (uint64_t i = 0; i < ROWS; i++)
        l->ids[i] = times * ROWS + i;
    return ea_upsert(
        c,
        &(ea_rows){
            .collection = "much", .ids = l->ids, .rows = l->rows, .count = ROWS, .dimension = D},
        NULL);
}

/* Until the daemon says no; how often it took the load. */
static uint64_t fill(struct load *l, ea_client *c)
{
    uint64_t times = 0;
    ea_status st;
    while ((st = load_send(l, c, times)) == EA_OK)
        cr_assert_lt(++times, 200, "nobody said no");
    cr_assert_eq(st, EA_RESOURCE_EXHAUSTED, "%s", ea_error_text(c));
    cr_assert_eq(ea_error_detail(c), DETAIL_QUOTA, "%s", ea_error_text(c));
    cr_assert(ea_error_retryable(c));
    ea_collection_info info;
    cr_assert_eq(ea_collection_describe(c, "much", &info), EA_OK);
    cr_assert_eq(info.rows, times * ROWS, "nothing is half-applied");
    return times;
}

static void expect_answers(struct load *l, ea_client *c)
{
    ea_result r = {0};
    cr_assert_eq(
        ea_knn(
            c,
            &(ea_knn_question){
                .collection = "much", .queries = l->rows, .query_count = 1, .dimension = D, .k = 1},
            &r),
        EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(r.ids[0], 0);
    ea_result_free(&r);
}

Test(quotas, a_full_space_is_told_so_and_others_are_not)
{
    struct scene s;
    struct load l;
    load_make(&l);
    scene_open(&s, (const char *[]){"spaces.small.host_mib=16", "quotas.host_mib=64", NULL});
    ea_client *c = scene_client(&s, "small"), *other = scene_client(&s, "other");
    cr_assert_eq(ea_collection_create(other, "much", D, EA_SQUARED_EUCLIDEAN, NULL), EA_OK);
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(ea_collection_create(c, "much", D, EA_SQUARED_EUCLIDEAN, NULL), EA_OK);
        uint64_t times = fill(&l, c);
        cr_assert(times >= 8 && times < 16, "%llu MiB of 16", (unsigned long long)times);
        cr_assert(strstr(ea_error_text(c), "quota of 16777216 bytes (quotas.host_mib)"), "%s",
                  ea_error_text(c));
        expect_answers(&l, c);
        scene_check(&s);
        if (!round)
            for (uint64_t i = 0; i < 20; i++)
                cr_assert_eq(load_send(&l, other, i), EA_OK, "%s", ea_error_text(other));
        cr_assert_eq(ea_collection_drop(c, "much"), EA_OK, "%s", ea_error_text(c));
    }
    expect_answers(&l, other);
    cr_assert_gt(fill(&l, other), 40, "the default is 64 MiB");
    cr_assert_eq(ea_collection_drop(other, "much"), EA_OK);
    free(l.rows);
    ea_close(c);
    ea_close(other);
    scene_close(&s);
}

/* A body, and a reply, that are larger than all the space may have. */
Test(quotas, requests_past_it_are_answered_and_the_connection_goes_on)
{
    struct scene s;
    struct load l;
    load_make(&l);
    scene_open(&s, (const char *[]){"spaces.small.host_mib=1", NULL});
    ea_client *c = scene_client(&s, "small");
    ea_result r = {0};
    float *norms = malloc((size_t)4 * ROWS * sizeof *norms);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ea_norms(c, l.rows, ROWS / 5, D, norms), EA_OK, "%s", ea_error_text(c));
        cr_assert_eq(ea_norms(c, l.rows, 4 * ROWS, D / 2, norms), EA_RESOURCE_EXHAUSTED);
        cr_assert_eq(ea_error_detail(c), DETAIL_QUOTA, "%s", ea_error_text(c));
        cr_assert(strstr(ea_error_text(c), "a body of 2048000 bytes"), "%s", ea_error_text(c));
        cr_assert_gt(ea_error_retry_after_ms(c), 0);
        cr_assert_eq(ea_similarity(c,
                                   &(ea_similarity_question){.metric = EA_DOT,
                                                             .queries = l.rows,
                                                             .query_count = 600,
                                                             .rows = l.rows,
                                                             .row_count = 600,
                                                             .dimension = 32},
                                   &r),
                     EA_RESOURCE_EXHAUSTED);
        cr_assert_eq(ea_error_detail(c), DETAIL_QUOTA, "%s", ea_error_text(c));
        cr_assert(strstr(ea_error_text(c), "of reply"), "%s", ea_error_text(c));
        cr_assert_gt(ea_error_retry_after_ms(c), 0);
        cr_assert_eq(ea_ping(c), EA_OK);
    }
    free(norms);
    free(l.rows);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- connections */

static void expect_one_too_many(const struct scene *s, const char *space)
{
    ea_client *c = NULL;
    ea_options options = {.socket_path = s->daemon.socket_path,
                          .space = space,
                          .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    cr_assert_eq(ea_connect(c), EA_RESOURCE_EXHAUSTED);
    cr_assert_eq(ea_error_detail(c), DETAIL_QUOTA, "%s", ea_error_text(c));
    cr_assert(strstr(ea_error_text(c), "quotas.connections"), "%s", ea_error_text(c));
    cr_assert_gt(ea_error_retry_after_ms(c), 0);
    ea_close(c);
}

Test(quotas, connections_of_a_space)
{
    struct scene s;
    scene_open(&s, (const char *[]){"spaces.crowd.connections=3", NULL});
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = raw_connect(&s.daemon);
        raw_hello(fds[i], "crowd");
    }
    for (int i = 0; i < 20; i++)
        expect_one_too_many(&s, "crowd");
    for (int i = 0; i < 5; i++) {
        ea_client *other = scene_client(&s, "others");
        cr_assert_eq(ea_ping(other), EA_OK);
        ea_close(other);
    }
    for (int i = 0; i < 3; i++)
        expect_alive(fds[i]);
    close(fds[1]);
    ea_client *c = NULL;
    ea_options options = {.socket_path = s.daemon.socket_path, .space = "crowd"};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    int64_t until = give_up_ms();
    while (ea_connect(c) != EA_OK) {
        cr_assert(now_ms() < until, "a place that became free is given out again: %s",
                  ea_error_text(c));
        wait_ms(5);
    }
    expect_one_too_many(&s, "crowd");
    ea_close(c);
    close(fds[0]);
    close(fds[2]);
    scene_close(&s);
}

/* ---------------------------------------------------------------- new settings */

static void write_settings(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fputs(text, f);
    fclose(f);
}

static void hang_up(const struct scene *s, const char *logged)
{
    kill(s->daemon.pid, SIGHUP);
    int64_t until = give_up_ms();
    while (!daemon_logged(&s->daemon, logged)) {
        cr_assert(now_ms() < until, "'%s' is never logged", logged);
        wait_ms(5);
    }
}

Test(quotas, sighup_changes_them)
{
    struct scene s;
    struct load l;
    char path[64], option[96];
    load_make(&l);
    snprintf(path, sizeof path, "/tmp/engram-quotas.%d.json", getpid());
    snprintf(option, sizeof option, "--config=%s", path);
    write_settings(path, "{\"spaces\": {\"small\": {\"host_mib\": 16, \"connections\": 1}}}");
    scene_open(&s, (const char *[]){option, NULL});
    ea_client *c = scene_client(&s, "small");
    cr_assert_eq(ea_collection_create(c, "much", D, EA_SQUARED_EUCLIDEAN, NULL), EA_OK);
    uint64_t times = fill(&l, c);
    expect_one_too_many(&s, "small");

    write_settings(path, "{\"spaces\": {\"small\": {\"host_mib\": 32, \"connections\": 2}}}");
    hang_up(&s, "1 live settings changed");
    cr_assert_eq(load_send(&l, c, times), EA_OK, "%s", ea_error_text(c));
    cr_assert_gt(fill(&l, c), times + 8);
    ea_client *second = scene_client(&s, "small");
    cr_assert_eq(ea_ping(second), EA_OK, "%s", ea_error_text(second));
    expect_one_too_many(&s, "small");

    /* Less than there is: what is there stays and answers, and nothing comes. */
    write_settings(path, "{\"spaces\": {\"small\": {\"host_mib\": 8, \"connections\": 1}},"
                         "\"log\": {\"level\": \"debug\"}}");
    hang_up(&s, "2 live settings changed");
    cr_assert_eq(load_send(&l, c, 100), EA_RESOURCE_EXHAUSTED);
    cr_assert_eq(ea_error_detail(c), DETAIL_QUOTA);
    cr_assert_eq(ea_ping(second), EA_OK);
    cr_assert_eq(ea_collection_drop(second, "much"), EA_OK, "%s", ea_error_text(second));
    cr_assert_eq(ea_collection_create(c, "much", D, EA_SQUARED_EUCLIDEAN, NULL), EA_OK);
    times = fill(&l, c);
    cr_assert(times >= 3 && times < 8, "%llu MiB of 8", (unsigned long long)times);
    cr_assert_eq(ea_collection_drop(c, "much"), EA_OK);
    unlink(path);
    free(l.rows);
    ea_close(c);
    ea_close(second);
    scene_close(&s);
}

/* ---------------------------------------------------------------- shares */

static uint32_t weight_of(const struct scene *s, const char *space)
{
    ea_stats stats;
    ea_client *c = scene_client(s, space);
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
    ea_close(c);
    return stats.space.weight;
}

/* What comes of them: tests/unit/request/test_turns.c, on a clock that the test sets. */
Test(quotas, weights_are_told)
{
    struct scene s;
    scene_open(&s, (const char *[]){"spaces.three.weight=3", NULL});
    cr_assert_eq(weight_of(&s, "three"), 3);
    cr_assert_eq(weight_of(&s, "one"), 1);
    scene_close(&s);
}
