/* Writes that are known again by their tokens: for how long, how many, and whose. */
#include "daemon/request/tokens.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/exec/digest.h"
#include "daemon/store/space.h"

#define SECOND_NS UINT64_C(1000000000)

static struct heap *heap;
static struct store *store;
static struct space *here, *elsewhere;
static struct tokens tokens;

static void begin(void)
{
    cr_assert_eq(heap_create(UINT64_C(1) << 26, &heap), STATUS_OK);
    cr_assert_eq(store_create(heap, vectors_variant(0), &store), STATUS_OK);
    cr_assert_eq(store_space(store, "here", &here), STATUS_OK);
    cr_assert_eq(store_space(store, "elsewhere", &elsewhere), STATUS_OK);
}

static void end(void)
{
    tokens_finish(&tokens);
    cr_assert(!tokens.by_key && !tokens.spaces && !tokens.count && !tokens.bytes);
    store_destroy(store);
    cr_assert_eq(heap_usage(heap).blocks, 0);
    heap_destroy(heap);
}

TestSuite(tokens, .init = begin, .fini = end);

static struct job write_of(struct space *space, uint64_t token, enum operation operation)
{
    struct job j = {.operation = operation, .space = space, .heap = heap, .body_bytes = 128};
    j.request.write.token_low = token;
    strcpy(j.request.names[0], "links");
    return j;
}

/* A whole write, which leaves that version. */
static void do_write(struct space *space, uint64_t token, uint64_t version, uint64_t now_ns)
{
    struct job j = write_of(space, token, OPERATION_GRAPH_SCALE);
    cr_assert_not(tokens_recall(&tokens, &j, now_ns));
    cr_assert(tokens_begin(&tokens, &j, now_ns) && j.token);
    j.result.version = version;
    j.result.counts[1] = version * 10;
    tokens_end(&tokens, &j, now_ns);
    cr_assert_null(j.token);
}

/* The version that a repetition is told; 0: it is not known. */
static uint64_t repeat(struct space *space, uint64_t token, uint64_t now_ns)
{
    struct job j = write_of(space, token, OPERATION_GRAPH_SCALE);
    if (!tokens_recall(&tokens, &j, now_ns)) return 0;
    cr_assert_eq(j.failure.code, STATUS_OK, "%s", j.failure.text);
    cr_assert_eq(j.result.counts[1], j.result.version * 10);
    return j.result.version;
}

Test(tokens, are_known_for_ten_minutes_in_their_space)
{
    do_write(here, 1, 70, SECOND_NS);
    do_write(elsewhere, 1, 71, 2 * SECOND_NS);
    cr_assert_eq(repeat(here, 1, 2 * SECOND_NS), 70);
    cr_assert_eq(repeat(elsewhere, 1, 2 * SECOND_NS), 71);
    cr_assert_eq(repeat(here, 2, 2 * SECOND_NS), 0);
    /* A repetition does not prolong it. */
    cr_assert_eq(repeat(here, 1, 601 * SECOND_NS - 1), 70);
    cr_assert_eq(repeat(here, 1, 601 * SECOND_NS), 0);
    cr_assert_eq(repeat(elsewhere, 1, 601 * SECOND_NS), 71);
    cr_assert_eq(tokens.count, 1);
    do_write(here, 1, 90, 601 * SECOND_NS);
    cr_assert_eq(repeat(here, 1, 1200 * SECOND_NS), 90);
    cr_assert_eq(repeat(elsewhere, 1, 1200 * SECOND_NS), 0);
}

Test(tokens, without_one_nothing_is_remembered)
{
    struct job j = write_of(here, 0, OPERATION_UPSERT);
    cr_assert_not(tokens_recall(&tokens, &j, 1));
    cr_assert(tokens_begin(&tokens, &j, 1));
    cr_assert_null(j.token);
    cr_assert_eq(tokens.count, 0);
}

Test(tokens, failed_writes_are_not_remembered)
{
    struct job j = write_of(here, 5, OPERATION_GRAPH_SCALE);
    cr_assert(tokens_begin(&tokens, &j, 1));
    failure_set(&j.failure, STATUS_CANCELLED, DETAIL_CANCELLED_BY_CLIENT, "cancelled");
    tokens_end(&tokens, &j, 2);
    cr_assert_eq(repeat(here, 5, 3), 0);
    do_write(here, 5, 80, 4);
    cr_assert_eq(repeat(here, 5, 5), 80);
}

Test(tokens, another_request_is_refused)
{
    do_write(here, 5, 80, 1);
    for (int i = 0; i < 3; i++) {
        struct job j = write_of(here, 5, i == 0 ? OPERATION_GRAPH_PRUNE : OPERATION_GRAPH_SCALE);
        if (i == 1) strcpy(j.request.names[0], "other");
        if (i == 2) j.body_bytes = 64;
        cr_assert(tokens_recall(&tokens, &j, 2));
        cr_assert_eq(j.failure.code, STATUS_INVALID_ARGUMENT);
        cr_assert_eq(j.failure.detail, DETAIL_TOKEN_REUSED);
    }
    cr_assert_eq(repeat(here, 5, 3), 80);
}

/* Upserts of n rows of 4 numbers. */
static struct job upsert_of(uint64_t token, uint64_t *ids, float *rows, uint64_t n)
{
    struct job j = write_of(here, token, OPERATION_UPSERT);
    j.request.ids = (struct tensor){DTYPE_UINT64, n, 1, ids};
    j.request.rows = (struct tensor){DTYPE_FLOAT32, n, 4, rows};
    j.body_bytes = n * 24;
    return j;
}

enum changed { NOTHING, AN_ID, A_NUMBER, THE_SHAPE, THE_NAME, WHAT_IS_EXPECTED };

static void change(struct job *j, enum changed what)
{
    float *rows = j->request.rows.data;
    uint64_t *ids = j->request.ids.data;
    switch (what) {
    case AN_ID: ids[0]++; break;
    case A_NUMBER: rows[j->request.rows.rows * 4 - 1] += 1; break;
    case THE_SHAPE:
        j->request.rows.rows /= 2;
        j->request.rows.columns *= 2;
        break;
    case THE_NAME: strcpy(j->request.names[0], "other"); break;
    case WHAT_IS_EXPECTED: j->request.write.at_least = true; break;
    case NOTHING: break;
    }
}

/* What is asked decides, whatever its size; what is large is left to a worker. */
Test(tokens, contents_are_compared)
{
    enum { LARGE = 10000 };
    static const uint64_t sizes[] = {2, LARGE};
    static uint64_t ids[LARGE];
    static float rows[LARGE * 4];
    for (int i = 0; i < 2; i++) {
        bool large = sizes[i] == LARGE;
        struct job first = upsert_of(7 + i, ids, rows, sizes[i]);
        cr_assert_not(tokens_want_digest(&tokens, &first, 1));
        cr_assert(tokens_begin(&tokens, &first, 1));
        cr_assert_eq(first.has_digest, !large);
        if (large) digest_take(&first);
        first.result.version = 60;
        tokens_end(&tokens, &first, 1);
        for (enum changed what = NOTHING; what <= WHAT_IS_EXPECTED; what++) {
            struct job j = upsert_of(7 + i, ids, rows, sizes[i]);
            change(&j, what);
            cr_assert_eq(tokens_want_digest(&tokens, &j, 2), large);
            if (large) digest_take(&j);
            cr_assert_not(tokens_want_digest(&tokens, &j, 2));
            cr_assert(tokens_recall(&tokens, &j, 2));
            cr_assert_eq(j.failure.detail, what ? DETAIL_TOKEN_REUSED : DETAIL_NONE, "%d", what);
            cr_assert_eq(j.result.version, what ? 0 : 60);
            memset(ids, 0, sizeof ids);
            memset(rows, 0, sizeof rows);
        }
        struct job smaller = upsert_of(7 + i, ids, rows, sizes[i] - 1);
        cr_assert_not(tokens_want_digest(&tokens, &smaller, 2), "its size tells");
        cr_assert(tokens_recall(&tokens, &smaller, 2));
        cr_assert_eq(smaller.failure.detail, DETAIL_TOKEN_REUSED);
    }
}

Test(tokens, one_under_way_is_waited_for)
{
    struct job first = write_of(here, 5, OPERATION_GRAPH_DROP);
    struct job second = write_of(here, 5, OPERATION_GRAPH_DROP);
    cr_assert(tokens_begin(&tokens, &first, 1));
    cr_assert_not(tokens_recall(&tokens, &second, 1));
    cr_assert_not(tokens_begin(&tokens, &second, 1));
    cr_assert(second.failure.code == STATUS_UNAVAILABLE && second.failure.retry_after_ms);
    cr_assert_eq(second.failure.detail, DETAIL_TOKEN_BUSY);
    first.result.counts[0] = 7;
    tokens_end(&tokens, &first, 2);
    second.failure = (struct failure){0};
    cr_assert_not(tokens_begin(&tokens, &second, 2));
    cr_assert(!second.failure.code && second.result.counts[0] == 7);
}

/* Weights come back with the answer. */
static struct job weights_of(uint64_t token, uint64_t n)
{
    struct job j = write_of(here, token, OPERATION_GRAPH_ADD_WEIGHTS);
    j.request.ids.rows = n;
    return j;
}

static void do_weights(uint64_t token, uint64_t n)
{
    struct job j = weights_of(token, n);
    cr_assert(tokens_begin(&tokens, &j, 1), "%s", j.failure.text);
    uint64_t bytes = (n * 4 + 63) / 64 * 64;
    cr_assert_eq(heap_take(heap, bytes, here->number, &j.result.block), STATUS_OK);
    j.result.body_bytes = bytes;
    j.result.tensors[0] = (struct tensor){DTYPE_FLOAT32, n, 1, j.result.block.data};
    memset(j.result.block.data, (int)token, bytes);
    tokens_end(&tokens, &j, 1);
    heap_give(heap, &j.result.block);
}

static bool repeats_weights(uint64_t token, uint64_t n)
{
    struct job j = weights_of(token, n);
    if (!tokens_recall(&tokens, &j, 2)) return false;
    cr_assert(!j.failure.code && j.result.tensors[0].rows == n);
    const uint8_t *bytes = j.result.tensors[0].data;
    cr_assert_eq((const void *)bytes, j.result.block.data);
    for (uint64_t i = 0; i < n * 4; i++)
        cr_assert_eq(bytes[i], (uint8_t)token);
    heap_give(heap, &j.result.block);
    return true;
}

Test(tokens, answers_have_their_bodies_within_a_bound)
{
    do_weights(1, 3);
    cr_assert(repeats_weights(1, 3));
    struct job large = weights_of(2, 16385);
    cr_assert_not(tokens_begin(&tokens, &large, 1));
    cr_assert_eq(large.failure.detail, DETAIL_REPLY_TOO_LARGE);
    for (uint64_t token = 2; token < 19; token++)
        do_weights(token, 16384);
    cr_assert_leq(tokens.bytes, TOKEN_SPACE_BYTES);
    cr_assert_not(repeats_weights(1, 3));
    cr_assert_not(repeats_weights(2, 16384));
    for (uint64_t token = 3; token < 19; token++)
        cr_assert(repeats_weights(token, 16384), "token %llu", (unsigned long long)token);
}

Test(tokens, the_oldest_of_a_space_makes_room)
{
    do_write(elsewhere, 1, 1, 1);
    for (uint64_t token = 1; token <= TOKENS_MAX + 5; token++)
        do_write(here, token, token, 1);
    cr_assert_eq(tokens.count, TOKENS_MAX + 1);
    cr_assert_eq(repeat(elsewhere, 1, 2), 1);
    cr_assert_eq(repeat(here, 5, 2), 0);
    cr_assert_eq(repeat(here, 6, 2), 6);
    cr_assert_eq(repeat(here, TOKENS_MAX + 5, 2), TOKENS_MAX + 5);
}

static void restore(const char *space, uint64_t token, bool yields)
{
    const struct token_known k = {.space = space,
                                  .token = {token},
                                  .operation = OPERATION_GRAPH_SCALE,
                                  .body_bytes = 128,
                                  .result = {.version = token},
                                  .yields = yields};
    cr_assert_eq(tokens_restore(&tokens, &k, 1), STATUS_OK);
}

/* As after a start: what the journal had was replayed before, and is newer. */
Test(tokens, what_a_snapshot_has_makes_no_room_for_itself)
{
    enum { REPLAYED = 10 };
    const struct token_entry *at = NULL;
    struct token_known k;
    for (uint64_t token = 1; token <= REPLAYED; token++)
        restore("here", TOKENS_MAX + token, false);
    for (uint64_t token = TOKENS_MAX + 1; token > 0; token--)
        restore("here", token, true);
    restore("elsewhere", 1, true);
    cr_assert_eq(tokens.count, TOKENS_MAX + 1);
    cr_assert(tokens_next(&tokens, &at, &k));
    cr_assert(strcmp(k.space, "elsewhere") == 0);
    for (uint64_t token = REPLAYED + 1; token <= TOKENS_MAX + REPLAYED; token++) {
        cr_assert(tokens_next(&tokens, &at, &k));
        cr_assert_eq(k.token[0], token, "the oldest first");
    }
    cr_assert_not(tokens_next(&tokens, &at, &k));
    do_write(here, 90000, 1, 2);
    at = NULL;
    cr_assert(tokens_next(&tokens, &at, &k) && tokens_next(&tokens, &at, &k));
    cr_assert_eq(k.token[0], REPLAYED + 2, "the oldest of its space went");
    cr_assert(tokens_remember(&tokens, TOKEN_LIFE_NS));
    cr_assert(tokens_remember(&tokens, TOKEN_LIFE_NS + 1));
    cr_assert_eq(tokens.count, 1, "the others are too old");
}

Test(tokens, are_bounded_in_all_spaces_together)
{
    char name[16];
    struct space *space;
    uint64_t spaces = TOKENS_ALL_MAX / TOKENS_MAX + 1;
    do_write(elsewhere, 1, 1, 1);
    for (uint64_t i = 0; i < spaces; i++) {
        snprintf(name, sizeof name, "space%llu", (unsigned long long)i);
        cr_assert_eq(store_space(store, name, &space), STATUS_OK);
        for (uint64_t token = 1; token <= TOKENS_MAX; token++)
            do_write(space, token, token, 1);
        cr_assert_leq(tokens.count, TOKENS_ALL_MAX);
    }
    cr_assert_eq(tokens.count, TOKENS_ALL_MAX);
    cr_assert_eq(repeat(elsewhere, 1, 2), 0, "the oldest went");
}

Test(tokens, without_memory_nothing_is_written)
{
    for (uint32_t nth = 1;; nth++) {
        struct job j = write_of(here, 9, OPERATION_UPSERT);
        fault_arm(nth);
        bool runs = tokens_begin(&tokens, &j, 1);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert_eq(runs, !fired);
        cr_assert_eq(j.failure.code, fired ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
        if (!fired) {
            tokens_end(&tokens, &j, 2);
            break;
        }
        cr_assert_null(j.token);
        cr_assert(!tokens.by_key && !tokens.spaces);
    }
}
