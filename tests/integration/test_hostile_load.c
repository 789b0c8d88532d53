/* Bounds that legal requests run into: memory, requests in flight, and races of one client with
 * another. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/reference.h"
#include "tests/support/scene.h"
#include "tests/support/sets.h"

static ea_client *open_client(const struct scene *s, const char *space)
{
    ea_client *c = NULL;
    ea_options options = {.socket_path = s->daemon.socket_path,
                          .space = space,
                          .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    return c;
}

/* Fills the daemon until it says no; others go on; dropping heals. */
Test(hostile_load, memory_bound)
{
    enum { ROWS = 1000, DIMENSION = 1024 }; /* 4 MiB a time, one request */
    struct scene s;
    scene_open(&s, (const char *[]){"memory.max_mib=96", NULL});
    ea_client *c = open_client(&s, "greedy");
    float *rows = malloc(ROWS * DIMENSION * sizeof *rows);
    uint64_t *ids = malloc(ROWS * sizeof *ids);
    reference_fill(3, rows, ROWS * DIMENSION);
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(ea_collection_create(c, "much", DIMENSION, EA_COSINE, NULL), EA_OK, "%s",
                     ea_error_text(c));
        ea_status st = EA_OK;
        int times = 0;
        for (; times < 40 && st == EA_OK; times++) {
            for (uint64_t i = 0; i < ROWS; i++)
                ids[i] = (uint64_t)times * ROWS + i;
            st = ea_upsert(c,
                           &(ea_rows){.collection = "much",
                                      .ids = ids,
                                      .rows = rows,
                                      .count = ROWS,
                                      .dimension = DIMENSION},
                           NULL);
            scene_check(&s);
        }
        cr_assert_eq(st, EA_RESOURCE_EXHAUSTED, "%s", ea_error_text(c));
        cr_assert_eq(ea_error_detail(c), DETAIL_MEMORY, "%s", ea_error_text(c));
        cr_assert(ea_error_retryable(c));
        cr_assert(ea_error_retry_after_ms(c) > 0, "a retry hint: %s", ea_error_text(c));
        cr_assert(times > 8, "refused after %d x 4 MiB of 96", times);
        ea_collection_info info;
        cr_assert_eq(ea_collection_describe(c, "much", &info), EA_OK);
        cr_assert_eq(info.rows, (uint64_t)(times - 1) * ROWS, "nothing is half-applied");
        cr_assert_eq(ea_collection_drop(c, "much"), EA_OK, "%s", ea_error_text(c));
    }
    free(rows);
    free(ids);
    ea_close(c);
    scene_close(&s);
}

/* Large replies of one space after the other: the pages of the last one are on their way back to
 * the system when the next one needs them. Nobody is refused for that, and all get the same. */
Test(hostile_load, memory_on_its_way_back)
{
    enum { ROWS = 1000, QUERIES = 10000, DIMENSION = 8, SPACES = 5, ROUNDS = 20 }; /* 40 MB */
    struct scene s;
    scene_open(&s, (const char *[]){"memory.max_mib=96", "memory.cache_mib=64",
                                    "limits.reply_body_mib=64", NULL});
    ea_client *clients[SPACES];
    static float rows[QUERIES * DIMENSION];
    float *first = malloc(sizeof *first * ROWS * QUERIES);
    reference_fill(5, rows, QUERIES * DIMENSION);
    for (int i = 0; i < SPACES; i++) {
        char space[16];
        snprintf(space, sizeof space, "space%d", i);
        clients[i] = open_client(&s, space);
    }
    for (int round = 0; round < ROUNDS; round++) {
        ea_result r = {0};
        ea_client *c = clients[round % SPACES];
        ea_similarity_question q = {.metric = EA_DOT,
                                    .queries = rows,
                                    .query_count = QUERIES,
                                    .rows = rows,
                                    .row_count = ROWS,
                                    .dimension = DIMENSION};
        cr_assert_eq(ea_similarity(c, &q, &r), EA_OK, "round %d: %s", round, ea_error_text(c));
        cr_assert(r.rows == QUERIES && r.columns == ROWS);
        if (!round) memcpy(first, r.scores, sizeof *first * ROWS * QUERIES);
        cr_assert_eq(memcmp(first, r.scores, sizeof *first * ROWS * QUERIES), 0, "round %d", round);
        ea_result_free(&r);
    }
    for (int i = 0; i < SPACES; i++)
        ea_close(clients[i]);
    free(first);
    scene_close(&s);
}

Test(hostile_load, a_reply_past_its_bound)
{
    struct scene s;
    scene_open(&s, (const char *[]){"limits.reply_body_mib=1", NULL});
    ea_client *c = open_client(&s, "greedy");
    enum { ROWS = 1000, DIMENSION = 32 };
    static float rows[ROWS * DIMENSION];
    reference_fill(4, rows, ROWS * DIMENSION);
    ea_result r = {0};
    cr_assert_eq(ea_similarity(c,
                               &(ea_similarity_question){.metric = EA_DOT,
                                                         .queries = rows,
                                                         .query_count = ROWS,
                                                         .rows = rows,
                                                         .row_count = ROWS,
                                                         .dimension = DIMENSION},
                               &r),
                 EA_RESOURCE_EXHAUSTED, "%s", ea_error_text(c));
    cr_assert_eq(ea_error_detail(c), DETAIL_REPLY_TOO_LARGE);
    cr_assert_not(ea_error_retryable(c));
    cr_assert_eq(ea_similarity(c,
                               &(ea_similarity_question){.metric = EA_DOT,
                                                         .queries = rows,
                                                         .query_count = 100,
                                                         .rows = rows,
                                                         .row_count = ROWS,
                                                         .dimension = DIMENSION},
                               &r),
                 EA_OK, "%s", ea_error_text(c));
    ea_result_free(&r);
    ea_close(c);
    scene_close(&s);
}

/* Pipelining past limits.requests_in_flight: reading waits, and goes on. (That no timer is needed
 * for it: tests/unit/request/test_pipeline.c.) */
Test(hostile_load, more_requests_than_may_be_in_flight)
{
    enum { REQUESTS = 100 };
    struct scene s;
    scene_open(&s, (const char *[]){"limits.requests_in_flight=1", NULL});
    int fd = scene_connect(&s);
    struct sample norms;
    sample_find("norms", &norms);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < REQUESTS; i++)
            send_sample(fd, &norms, i);
        for (uint64_t i = 0; i < REQUESTS; i++)
            expect_reply(fd, i); /* one at a time, so in order */
    }
    close(fd);
    scene_close(&s);
}

/* More jobs than the daemon has: refused with a hint, and all answered once. */
Test(hostile_load, more_requests_than_the_daemon_takes)
{
    enum { REQUESTS = 200 };
    struct scene s;
    scene_open(&s, (const char *[]){"limits.requests_total=16", "peers.queue=1000", NULL});
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    static uint8_t frames[REQUESTS * SAMPLE_BYTES_MAX];
    size_t count = 0;
    struct sample knn;
    sample_find("knn", &knn);
    for (uint64_t i = 0; i < REQUESTS; i++)
        count += sample_frame(&knn, i, frames + count);
    cr_assert(raw_send(fd, frames, count));
    static bool seen[REQUESTS];
    static uint8_t message[FRAME_MESSAGE_BYTES_MAX];
    size_t refused = 0;
    for (int i = 0; i < REQUESTS; i++) {
        struct frame_header h;
        void *body;
        cr_assert(raw_receive_frame(fd, &h, message, &body));
        cr_assert(h.request_id < REQUESTS && !seen[h.request_id]);
        seen[h.request_id] = true;
        refused += (h.flags & FRAME_FLAG_ERROR) != 0;
        free(body);
    }
    cr_assert(refused > 0 && refused <= REQUESTS - 16, "%zu of %d refused", refused, REQUESTS);
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

static size_t ok, not_found, others;

static void count_answer(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status status = answer->status;
    ok += status == EA_OK;
    not_found += status == EA_NOT_FOUND;
    others += status != EA_OK && status != EA_NOT_FOUND;
}

/* One client asks, another drops the collection and makes it anew, again and again. */
Test(hostile_load, drop_under_load)
{
    enum { ROWS = 3000, DIMENSION = 64, ROUNDS = 25, ASKED = 30 };
    struct scene s;
    scene_open(&s, NULL);
    ea_client *asker = open_client(&s, "shared"), *dropper = open_client(&s, "shared");
    float *rows = malloc(ROWS * DIMENSION * sizeof *rows);
    uint64_t *ids = malloc(ROWS * sizeof *ids);
    reference_fill(6, rows, ROWS * DIMENSION);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i;
    for (int round = 0; round < ROUNDS; round++) {
        cr_assert_eq(ea_collection_create(dropper, "target", DIMENSION, EA_COSINE, NULL), EA_OK);
        cr_assert_eq(ea_upsert(dropper,
                               &(ea_rows){.collection = "target",
                                          .ids = ids,
                                          .rows = rows,
                                          .count = ROWS,
                                          .dimension = DIMENSION},
                               NULL),
                     EA_OK, "%s", ea_error_text(dropper));
        for (int i = 0; i < ASKED; i++)
            cr_assert_eq(ea_knn_send(asker,
                                     &(ea_knn_question){.collection = "target",
                                                        .queries = rows,
                                                        .query_count = 20,
                                                        .dimension = DIMENSION,
                                                        .k = 10},
                                     &(ea_send_options){.callback = count_answer}, NULL),
                         EA_OK);
        cr_assert_eq(ea_pump(asker, 0), EA_OK);
        cr_assert_eq(ea_collection_drop(dropper, "target"), EA_OK, "%s", ea_error_text(dropper));
        while (ea_pending(asker))
            cr_assert_eq(ea_pump(asker, -1), EA_OK);
    }
    cr_assert_eq(ok + not_found, ROUNDS * ASKED);
    cr_assert_eq(others, 0);
    cr_assert(ok > 0);
    free(rows);
    free(ids);
    ea_close(asker);
    ea_close(dropper);
    scene_close(&s);
}

/* A client that asks for a drop and is gone: the drop is carried out. */
Test(hostile_load, drop_and_vanish)
{
    struct scene s;
    scene_open(&s, NULL);
    for (int round = 0; round < 30; round++) {
        scene_make_rows(&s);
        int fd = scene_connect(&s);
        struct sample knn, drop, describe;
        sample_find("knn", &knn);
        sample_find("drop", &drop);
        sample_find("describe", &describe);
        for (uint64_t i = 0; i < 20; i++)
            send_sample(fd, &knn, i);
        send_sample(fd, &drop, 100);
        send_sample(fd, &describe, 101); /* once it is refused, the drop was taken */
        for (;;) {
            static uint8_t message[FRAME_MESSAGE_BYTES_MAX];
            struct frame_header h;
            void *body;
            cr_assert(raw_receive_frame(fd, &h, message, &body));
            free(body);
            if (h.request_id != 101) continue;
            cr_assert(h.flags & FRAME_FLAG_ERROR);
            break;
        }
        close(fd);
    }
    scene_close(&s);
}

/* Cancels of everything, twice, and of what never was. */
Test(hostile_load, a_storm_of_cancels)
{
    enum { REQUESTS = 200 };
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    struct sample knn, cancel;
    sample_find("knn", &knn);
    sample_find("cancel", &cancel);
    for (uint64_t i = 0; i < REQUESTS; i++) {
        send_sample(fd, &knn, i);
        for (uint64_t k = 0; k < 3; k++) {
            cancel.message.cancel.request_id = k == 2 ? UINT64_MAX - i : i;
            send_sample(fd, &cancel, 1000 + i * 3 + k);
        }
    }
    static uint8_t seen[1000 + REQUESTS * 3], message[FRAME_MESSAGE_BYTES_MAX];
    for (int i = 0; i < REQUESTS * 4; i++) {
        struct frame_header h;
        void *body;
        cr_assert(raw_receive_frame(fd, &h, message, &body));
        free(body);
        cr_assert(h.request_id < sizeof seen && !seen[h.request_id]++, "answered twice");
    }
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

/* Large bodies that are announced and never sent reserve no more than leaves others a voice. They
 * stay for an hour: who had to wait for them would not be answered. */
Test(hostile_load, announced_bodies_do_not_starve_others)
{
    enum { COUNT = 48 };
    struct scene s;
    scene_open(&s, (const char *[]){"memory.max_mib=64", "limits.request_body_mib=16",
                                    "limits.stall_ms=3600000", NULL});
    int fds[COUNT];
    uint8_t header[FRAME_ALIGN * 4] = {0};
    for (int i = 0; i < COUNT; i++) { /* 16 MiB until they are refused, then 8, ... 192 KiB */
        uint64_t body_bytes = (uint64_t)(16u << 20) >> i / 6;
        if (body_bytes < 192 << 10) body_bytes = 192 << 10;
        frame_write(&(struct frame_header){.kind = OPERATION_UPSERT, .body_bytes = body_bytes},
                    header);
        fds[i] = scene_connect(&s);
        cr_assert(raw_send(fds[i], header, sizeof header));
    }
    wait_ms(400); /* harder for those that come: idle ones have given their buffers back */
    for (int round = 0; round < 20; round++) {
        int fd = scene_connect(&s);
        expect_alive(fd);
        close(fd);
        scene_check(&s);
    }
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
    scene_close(&s);
}

/* Memory full to the last row: a newcomer can still connect, look and drop. */
Test(hostile_load, a_full_daemon_still_listens)
{
    enum { D = 16, MOST = 65536 };
    struct scene s;
    scene_open(&s, (const char *[]){"memory.max_mib=32", "limits.stall_ms=3600000", NULL});
    ea_client *c = scene_client(&s, "greedy");
    float *rows = calloc((size_t)MOST * D, sizeof *rows);
    uint64_t *ids = malloc(MOST * sizeof *ids), next = 0;
    cr_assert_eq(ea_collection_create(c, "much", D, EA_DOT, NULL), EA_OK);
    for (uint64_t n = MOST; n > 0;) {
        for (uint64_t i = 0; i < n; i++)
            ids[i] = next + i;
        if (ea_upsert(
                c,
                &(ea_rows){
                    .collection = "much", .ids = ids, .rows = rows, .count = n, .dimension = D},
                NULL) == EA_OK)
            next += n;
        else
            n /= 2;
    }
    for (int i = 0; i < 200; i++) { /* and small ones into the cracks */
        char name[16];
        snprintf(name, sizeof name, "crack-%d", i);
        if (ea_collection_create(c, name, D, EA_DOT, NULL) ||
            ea_upsert(c,
                      &(ea_rows){
                          .collection = name, .ids = ids, .rows = rows, .count = 1, .dimension = D},
                      NULL))
            break;
    }
    wait_ms(400); /* harder, as above */
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = scene_connect(&s);
        expect_alive(fds[i]);
    }
    ea_client *helper = scene_client(&s, "greedy");
    ea_collection_info *list;
    size_t count;
    cr_assert_eq(ea_collection_list(helper, &list, &count), EA_OK, "%s", ea_error_text(helper));
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(ea_collection_drop(helper, list[i].name), EA_OK, "%s", ea_error_text(helper));
    ea_collection_list_free(list);
    ea_close(helper);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    free(rows);
    free(ids);
    ea_close(c);
    scene_close(&s);
}
