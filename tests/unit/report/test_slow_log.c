#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "daemon/base/fault.h"
#include "daemon/report/slow_json.h"
#include "daemon/store/space.h"

static struct slow_log l;
static struct space alpha = {.name = "alpha"}, beta = {.name = "beta"};

static void add(struct space *space, const char *peer, uint64_t request_id)
{
    struct job j = {.operation = OPERATION_KNN,
                    .space = space,
                    .key.request_id = request_id,
                    .received_ns = 1000,
                    .started_ns = 3000,
                    .finished_ns = 7000,
                    .copy_ns = 5,
                    .backend = BACKEND_GPU,
                    .reason = REASON_PROBE,
                    .batch = 3,
                    .body_bytes = 64};
    j.ticket.cpu_ns = 11, j.ticket.gpu_ns = 12, j.ticket.wait_ns = 13;
    j.ticket.work.stride = 32, j.ticket.work.queries = 2, j.ticket.work.rows = 50;
    j.result.version = 9;
    strcpy(j.request.names[0], "rows");
    slow_log_add(&l, &j, peer, 9000);
}

static struct wire_slowlog page_of(const char *space, const char *peer, bool all, uint64_t before)
{
    struct wire_slowlog page;
    slow_log_page(&l, &(struct slow_log_view){space, peer, all}, before, &page);
    return page;
}

Test(slow_log, keeps_what_was_known)
{
    add(&alpha, "uid 7", 77);
    struct wire_slowlog page = page_of("alpha", "uid 7", false, 0);
    cr_assert(page.count == 1 && page.next == 0 && page.total == 1);
    const struct wire_slow *s = page.requests[0];
    cr_expect(s->number == 1 && s->request_id == 77 && s->operation == OPERATION_KNN);
    cr_expect(s->total_ns == 8000 && s->queue_ns == 2000 && s->run_ns == 4000 && s->copy_ns == 5);
    cr_expect(s->predicted_ns == 12 && s->other_ns == 11 && s->wait_ns == 13 && s->batch == 3);
    cr_expect(s->dimension == 32 && s->queries == 2 && s->rows == 50 && s->version == 9);
    cr_expect(s->backend == BACKEND_GPU && s->reason == REASON_PROBE && s->request_bytes == 64);
    cr_expect_str_eq(s->name, "rows");
    cr_expect_str_eq(s->space, "alpha");
    cr_expect(page.tells_peer[0]);
}

Test(slow_log, a_space_sees_its_own_and_an_operator_all)
{
    for (uint64_t i = 0; i < 6; i++)
        add(i % 2 ? &beta : &alpha, i < 3 ? "uid 7" : "uid 8", i);
    struct wire_slowlog page = page_of("alpha", "uid 7", false, 0);
    cr_assert_eq(page.count, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_expect_eq(page.requests[i]->request_id, 4 - 2 * i, "the newest first");
        cr_expect_eq(page.tells_peer[i], page.requests[i]->request_id < 3, "who else asked");
    }
    page = page_of("alpha", "uid 9", true, 0);
    cr_assert_eq(page.count, 6);
    cr_expect(page.tells_peer[0] && page.tells_peer[5]);
    cr_expect_eq(page_of("gamma", "uid 7", false, 0).count, 0);
}

Test(slow_log, the_oldest_make_room_and_pages_follow_each_other)
{
    enum { MANY = SLOW_KEPT + 37 };
    uint64_t seen = 0, before = 0, last = MANY + 1;
    for (uint64_t i = 1; i <= MANY; i++)
        add(&alpha, "uid 7", i);
    do {
        struct wire_slowlog page = page_of("alpha", "uid 7", false, before);
        cr_assert_eq(page.total, MANY);
        for (size_t i = 0; i < page.count; i++) {
            cr_assert_eq(page.requests[i]->number, last - 1);
            cr_assert_eq(page.requests[i]->request_id, last - 1);
            last = page.requests[i]->number;
        }
        seen += page.count;
        before = page.next;
    } while (before);
    cr_expect_eq(seen, SLOW_KEPT);
    cr_expect_eq(last, MANY - SLOW_KEPT + 1);
    cr_expect_eq(page_of("alpha", "uid 7", false, 1).count, 0);
    cr_expect_eq(page_of("alpha", "uid 7", false, 5).count, 0, "they are gone");
    cr_expect_eq(page_of("alpha", "uid 7", false, UINT64_MAX).requests[0]->number, MANY);
}

/* ---------------------------------------------------------------- who shares the places */

static size_t kept_of(const struct space *space, const char *peer)
{
    size_t found = 0;
    uint64_t last = 0;
    for (uint32_t i = 0; i < l.kept_count; i++) {
        const struct wire_slow *s = &l.kept[l.order[i]];
        cr_assert_lt(last, s->number, "the oldest first");
        last = s->number;
        found += strcmp(s->space, space->name) == 0 && strcmp(s->peer, peer) == 0;
    }
    cr_assert(!l.kept_count || last == l.count, "the newest is kept");
    return found;
}

Test(slow_log, a_space_pushes_out_its_own)
{
    for (uint64_t i = 0; i < 10; i++)
        add(&beta, "uid 7", i);
    for (uint64_t i = 0; i < 1000; i++)
        add(&alpha, "uid 7", i);
    cr_expect(kept_of(&beta, "uid 7") == 10 && kept_of(&alpha, "uid 7") == SLOW_KEPT - 10);
    for (uint64_t i = 0; i < 1000; i++)
        add(&beta, "uid 7", i);
    cr_expect(kept_of(&beta, "uid 7") == SLOW_KEPT / 2 &&
              kept_of(&alpha, "uid 7") == SLOW_KEPT / 2);
    struct wire_slowlog page = page_of("alpha", "uid 7", false, 0);
    cr_expect_eq(page.requests[0]->request_id, 999, "its newest are what stays");
}

Test(slow_log, a_peer_with_many_spaces_pushes_out_its_own)
{
    struct space made_up = {0};
    for (uint64_t i = 0; i < 20; i++)
        add(&beta, "uid 8", i);
    for (uint64_t i = 0; i < 1000; i++) {
        snprintf(made_up.name, sizeof made_up.name, "space-%u", (unsigned)i);
        add(&made_up, "uid 7", i);
    }
    cr_expect_eq(kept_of(&beta, "uid 8"), 20);
    cr_expect_eq(kept_of(&made_up, "uid 7"), 1);
    for (uint64_t i = 0; i < 1000; i++)
        add(&alpha, "uid 8", i);
    cr_expect_eq(kept_of(&beta, "uid 8"), 20, "of two peers each has half");
    cr_expect_eq(kept_of(&alpha, "uid 8"), SLOW_KEPT / 2 - 20);
}

Test(slow_log, each_of_many_keeps_its_newest)
{
    struct space made_up = {0};
    char peer[32];
    for (uint64_t i = 0; i < 5 * SLOW_KEPT; i++) {
        snprintf(made_up.name, sizeof made_up.name, "space-%u", (unsigned)i);
        snprintf(peer, sizeof peer, "uid %u", (unsigned)(i % SLOW_KEPT));
        add(&made_up, peer, i);
        cr_assert_eq(kept_of(&made_up, peer), 1);
    }
    add(&alpha, "uid new", 1);
    cr_expect_eq(kept_of(&alpha, "uid new"), 1);
}

/* With the longest texts a page is encoded whole, and fits where replies are made. */
Test(slow_log, a_full_page_fits)
{
    static _Alignas(64) unsigned char out[ENCODE_BYTES_MAX];
    for (uint64_t i = 0; i < ENCODE_SLOW_MAX; i++) {
        add(&alpha, "x", UINT64_MAX - i);
        struct wire_slow *s = &l.kept[i];
        memset(s->space, 'x', sizeof s->space - 1);
        memset(s->name, 'x', sizeof s->name - 1);
        memset(s->peer, 'x', sizeof s->peer - 1);
        s->version = s->queries = s->rows = s->total_ns = UINT64_MAX;
    }
    struct wire_slowlog page = page_of("alpha", "x", true, 0);
    size_t bytes = encode_slowlog(1, &page, out);
    cr_expect(bytes > ENCODE_SLOW_MAX * 200 && bytes < ENCODE_BYTES_MAX, "%zu", bytes);
}

/* ---------------------------------------------------------------- for the status page */

static struct slow_copy copy;

static const char *text_of(const cJSON *one, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(one, name));
}

Test(slow_log, all_that_are_kept_are_copied)
{
    slow_log_copy(&l, 5, &copy);
    cr_assert(copy.count == 0 && copy.total == 0 && copy.now_ns == 5);
    for (uint64_t i = 1; i <= SLOW_KEPT + 10; i++) {
        add(i % 2 ? &alpha : &beta, "uid 7", i);
        slow_log_copy(&l, 9000 + i, &copy);
        cr_assert_eq(copy.count, i < SLOW_KEPT ? i : SLOW_KEPT);
        cr_assert_eq(copy.total, i);
        for (uint32_t n = 0; n < copy.count; n++)
            cr_assert_eq(copy.requests[n].request_id, i - n);
    }
}

Test(slow_json, tells_what_the_copy_has)
{
    add(&alpha, "uid 7", UINT64_MAX);
    add(&beta, "a \"b\"\\", 2);
    l.kept[1].code = STATUS_RESOURCE_EXHAUSTED;
    slow_log_copy(&l, 10000, &copy);
    char *text = slow_json(&copy, true);
    cJSON *all = cJSON_Parse(text);
    cJSON *list = cJSON_GetObjectItem(all, "requests");
    cr_assert_eq(cJSON_GetArraySize(list), 2);
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(all, "total")), 2);
    const cJSON *newer = cJSON_GetArrayItem(list, 0), *older = cJSON_GetArrayItem(list, 1);
    cr_expect_str_eq(text_of(newer, "peer"), "a \"b\"\\");
    cr_expect_str_eq(text_of(newer, "space"), "beta");
    cr_expect_str_eq(text_of(newer, "status"), status_name(STATUS_RESOURCE_EXHAUSTED));
    cr_expect_str_eq(text_of(older, "status"), "OK");
    cr_expect_str_eq(text_of(older, "operation"), "knn");
    cr_expect_str_eq(text_of(older, "backend"), "gpu");
    cr_expect_str_eq(text_of(older, "reason"), "probe");
    cr_expect_str_eq(text_of(older, "name"), "rows");
    cr_expect_str_eq(text_of(older, "request_id"), "18446744073709551615");
    cr_expect_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(older, "total_ns")), 8000);
    cr_expect_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(older, "ago_ns")), 1000);
    cJSON_Delete(all);
    free(text);
    text = slow_json(&copy, false);
    cr_assert(text && strstr(text, "\"space\":\"alpha\"") && !strstr(text, "uid 7"));
    cr_assert(!strstr(text, "\"name\"") && !strstr(text, "\"rows\"}"));
    cr_assert(!strstr(text, "184467") && !strstr(text, "peer"));
    free(text);
}

Test(slow_json, the_longest_page_and_no_memory)
{
    static char longest[56];
    memset(longest, '"', sizeof longest - 1);
    for (uint64_t i = 0; i < SLOW_KEPT; i++)
        add(&alpha, longest, UINT64_MAX - i);
    slow_log_copy(&l, UINT64_MAX, &copy);
    char *text = slow_json(&copy, true);
    cr_assert(text && strlen(text) < 256 << 10, "%zu bytes", strlen(text));
    free(text);
    for (uint32_t nth = 1; nth <= 2; nth++) {
        fault_arm(nth);
        cr_assert_null(slow_json(&copy, true));
    }
    fault_arm(0);
}
