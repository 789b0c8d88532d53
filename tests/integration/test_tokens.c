/* Writes that carry a token: a repetition gets the first one's answer and applies nothing, whatever
 * became of the first one's connection. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/sets.h"

static const uint64_t ids[] = {1, 2, 3};
static const float rows[] = {1, 2, 3, 4, 5, 6};

static ea_write token_of(int number)
{
    ea_write write = {0};
    memcpy(write.token + 5, &number, sizeof number);
    write.token[15] = 1;
    return write;
}

static ea_graph_edges step_of(const ea_write *write)
{
    static const uint64_t one[] = {1};
    static const float step[] = {1};
    return (ea_graph_edges){.sources = one,
                            .targets = one,
                            .weights = step,
                            .count = 1,
                            .create = true,
                            .write = write};
}

Test(tokens, a_repetition_gets_the_first_answer)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "tokens"), *other = scene_client(&s, "tokens"),
              *stranger = scene_client(&s, "elsewhere");
    ea_graph_counts first, again;
    float sum;
    ea_write write = token_of(1), third = token_of(3);
    ea_graph_edges step = step_of(&write);
    cr_assert_eq(ea_graph_create(c, "links", NULL), EA_OK);
    cr_assert_eq(ea_graph_add_weights(c, "links", &step, &sum, &first), EA_OK, "%s",
                 ea_error_text(c));
    cr_assert(sum == 1 && first.edges_added == 1);
    ea_graph_edges plain = step_of(NULL);
    cr_assert_eq(ea_graph_add_weights(c, "links", &plain, &sum, NULL), EA_OK);
    cr_assert_eq(sum, 2);
    cr_assert_eq(ea_graph_add_weights(other, "links", &step, &sum, &again), EA_OK, "%s",
                 ea_error_text(other));
    cr_assert(sum == 1 && again.version == first.version && again.edges_added == 1);

    /* The version that the first one expected is long gone. */
    write = token_of(2);
    ea_graph_info info;
    cr_assert_eq(ea_graph_describe(c, "links", &info), EA_OK);
    write.version = info.version;
    cr_assert_eq(ea_graph_add_weights(c, "links", &step, &sum, NULL), EA_OK);
    cr_assert_eq(ea_graph_add_weights(other, "links", &step, &sum, NULL), EA_OK);
    cr_assert_eq(sum, 3);

    /* Another request, another space. */
    cr_assert_eq(ea_graph_add_edges(other, "links", &step, NULL), EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_error_detail(other), EA_DETAIL_TOKEN_REUSED);
    cr_assert_eq(ea_graph_add_weights(stranger, "links", &step, NULL, NULL), EA_NOT_FOUND);

    /* A write that failed is tried again. */
    step.write = &third;
    step.create = false;
    const uint64_t nine[] = {9};
    step.sources = nine;
    cr_assert_eq(ea_graph_add_weights(c, "links", &step, NULL, NULL), EA_NOT_FOUND);
    step.create = true;
    cr_assert_eq(ea_graph_add_weights(c, "links", &step, &sum, NULL), EA_OK);
    cr_assert_eq(sum, 1);
    ea_close(c);
    ea_close(other);
    ea_close(stranger);
    scene_close(&s);
}

static void note(ea_client *c, const ea_answer *answer, void *user)
{
    uint64_t *rows_then = user;
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    ++*rows_then;
}

/* Every kind of write, drops and what is gone by then included. */
Test(tokens, every_write_takes_one)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "tokens");
    ea_write write = token_of(0);
    uint64_t answers = 0;
    const ea_send_options how = {.callback = note, .user = &answers, .write = &write};
    ea_graph_edges edges = {.sources = ids, .targets = ids, .weights = rows, .count = 3};
    const uint64_t offsets[] = {0, 1, 2, 3};
    ea_graph_csr matrix = {.rows = 3, .offsets = offsets, .columns = ids, .weights = rows};
    const ea_graph_nodes nodes = {.ids = ids, .count = 3};
    const ea_rows some = {
        .collection = "rows", .ids = ids, .rows = rows, .count = 3, .dimension = 2};
    cr_assert_eq(ea_graph_create(c, "links", NULL), EA_OK);
    cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, NULL), EA_OK);
    for (int round = 0; round < 2; round++) {
#define SEND(number, call)                                   \
    do {                                                     \
        write = token_of(number);                            \
        cr_assert_eq((call), EA_OK, "%s", ea_error_text(c)); \
        while (ea_pending(c))                                \
            cr_assert_eq(ea_pump(c, -1), EA_OK);             \
    } while (0)
        SEND(1, ea_graph_add_edges_send(c, "links", &edges, &how, NULL));
        SEND(2, ea_graph_add_csr_send(c, "links", &matrix, &how, NULL));
        SEND(3, ea_graph_set_nodes_send(c, "links", &nodes, &how, NULL));
        SEND(4, ea_graph_scale_send(c, "links", 0.5f, &how, NULL));
        if (!round) {
            ea_graph_info info;
            cr_assert_eq(ea_graph_describe(c, "links", &info), EA_OK);
            cr_assert_eq(info.edges, 6);
        }
        SEND(5, ea_graph_prune_send(c, "links", 1, &how, NULL));
        SEND(6, ea_graph_remove_edges_send(c, "links", &edges, &how, NULL));
        SEND(7, ea_graph_remove_nodes_send(c, "links", ids, 1, &how, NULL));
        SEND(8, ea_upsert_send(c, &some, &how, NULL));
        SEND(9, ea_delete_send(c, "rows", ids, 1, &how, NULL));
        SEND(10, ea_graph_drop_send(c, "links", &how, NULL));
        SEND(11, ea_collection_drop_send(c, "rows", &how, NULL));
    }
    cr_assert_eq(answers, 22);
    ea_close(c);
    scene_close(&s);
}

/* The first one's connection is closed at some moment: before its request was read, while it waits,
 * or when it was done and its answer under way. The repetition makes it one increment. */
Test(tokens, lost_answers_do_not_count_twice)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "tokens");
    enum { ROUNDS = 100 };
    cr_assert_eq(ea_graph_create(c, "links", NULL), EA_OK);
    for (int round = 1; round <= ROUNDS; round++) {
        ea_client *hasty = scene_client(&s, "tokens");
        ea_write write = token_of(round);
        const ea_graph_edges step = step_of(&write);
        cr_assert_eq(ea_connect(hasty), EA_OK);
        cr_assert_eq(ea_graph_add_weights_send(hasty, "links", &step, NULL, NULL), EA_OK);
        ea_pump(hasty, 0);
        struct pollfd answered = {.fd = ea_fd(hasty), .events = POLLIN};
        /* unless the answer was there at once */
        if (round % 2 && ea_pending(hasty)) cr_assert_eq(poll(&answered, 1, GIVE_UP_MS), 1);
        ea_close(hasty);
        float sum;
        cr_assert_eq(ea_graph_add_weights(c, "links", &step, &sum, NULL), EA_OK, "%s",
                     ea_error_text(c));
        cr_assert_eq(sum, round);
    }
    ea_close(c);
    scene_close(&s);
}

/* After a lost reply a create is sent again: it is not told that the name is taken. */
Test(tokens, a_create_that_is_repeated_gets_the_first_answer)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "tokens"), *other = scene_client(&s, "tokens");
    ea_write rows_token = token_of(1), links_token = token_of(2), third = token_of(3);
    ea_collection_info first, again;
    ea_graph_info graph, repeated;
    ea_next_write(c, &rows_token);
    cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, &first), EA_OK, "%s", ea_error_text(c));
    ea_next_write(c, &links_token);
    cr_assert_eq(ea_graph_create(c, "links", &graph), EA_OK, "%s", ea_error_text(c));
    ea_rows all = {.collection = "rows", .ids = ids, .rows = rows, .count = 3, .dimension = 2};
    cr_assert_eq(ea_upsert(c, &all, NULL), EA_OK);

    ea_next_write(other, &rows_token);
    cr_assert_eq(ea_collection_create(other, "rows", 2, EA_DOT, &again), EA_OK, "%s",
                 ea_error_text(other));
    cr_assert(!memcmp(&again, &first, sizeof first), "as it was: empty");
    ea_next_write(other, &links_token);
    cr_assert_eq(ea_graph_create(other, "links", &repeated), EA_OK, "%s", ea_error_text(other));
    cr_assert(!memcmp(&repeated, &graph, sizeof graph));
    cr_assert_eq(ea_collection_create(other, "rows", 2, EA_DOT, NULL), EA_ALREADY_EXISTS);

    /* Another name, shape or metric is another request. */
    const struct {
        const char *name;
        uint32_t dimension;
        ea_metric metric;
    } wrong[] = {{"others", 2, EA_DOT}, {"rows", 3, EA_DOT}, {"rows", 2, EA_COSINE}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ea_next_write(c, &rows_token);
        cr_assert_eq(
            ea_collection_create(c, wrong[i].name, wrong[i].dimension, wrong[i].metric, NULL),
            EA_INVALID_ARGUMENT);
        cr_assert_eq(ea_error_detail(c), EA_DETAIL_TOKEN_REUSED);
    }
    /* A create that failed is tried again; one whose collection is gone is not made again. */
    ea_next_write(c, &third);
    cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, NULL), EA_ALREADY_EXISTS);
    cr_assert_eq(ea_collection_drop(c, "rows"), EA_OK);
    ea_next_write(c, &rows_token);
    cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, &again), EA_OK);
    cr_assert_eq(ea_collection_describe(c, "rows", &again), EA_NOT_FOUND);
    ea_next_write(c, &third);
    cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, &again), EA_OK);
    cr_assert_gt(again.version, first.version);
    ea_close(c);
    ea_close(other);
    scene_close(&s);
}

/* ---------------------------------------------------------------- contents */

enum { MANY = 20000, WIDE = 8 };

struct heard {
    ea_status status;
    uint32_t detail;
    uint64_t inserted, count;
};

static void hear(ea_client *c, const ea_answer *answer, void *user)
{
    struct heard *h = user;
    h->status = answer->status;
    h->detail = answer->status ? (uint32_t)ea_error_detail(c) : 0;
    h->inserted = answer->status ? 0 : answer->upserted->inserted;
    h->count++;
}

static void expect_first(ea_client *c, const float *value)
{
    ea_result r = {0};
    const uint64_t first = 0;
    cr_assert_eq(ea_fetch(c, "rows", &first, 1, &r), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(memcmp(r.vectors, value, sizeof *value), 0);
    ea_result_free(&r);
}

/* Large writes, whose contents a worker compares: before they are looked up, behind the first one
 * in line, and when what they wrote to is gone. */
Test(tokens, other_contents_are_another_request)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "tokens");
    uint64_t *many = malloc(MANY * sizeof *many);
    float *mine = calloc(MANY * WIDE, sizeof *mine), *changed = malloc(MANY * WIDE * sizeof *mine);
    for (uint64_t i = 0; i < MANY; i++)
        many[i] = i;
    for (int i = 0; i < MANY * WIDE; i++)
        mine[i] = (float)(i % 97);
    memcpy(changed, mine, MANY * WIDE * sizeof *mine);
    changed[0] = 5;
    ea_write write = token_of(1);
    ea_rows all = {.collection = "rows",
                   .ids = many,
                   .rows = mine,
                   .count = MANY,
                   .dimension = WIDE,
                   .write = &write};
    ea_upsert_counts counts;
    cr_assert_eq(ea_collection_create(c, "rows", WIDE, EA_DOT, NULL), EA_OK);
    struct heard heard[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        all.rows = i == 1 ? changed : mine;
        const ea_send_options how = {.callback = hear, .user = &heard[i]};
        cr_assert_eq(ea_upsert_send(c, &all, &how, NULL), EA_OK);
    }
    while (heard[0].count + heard[1].count + heard[2].count < 3)
        cr_assert_eq(ea_pump(c, 10000000), EA_OK, "%s", ea_error_text(c));
    cr_assert(heard[0].status == EA_OK && heard[0].inserted == MANY);
    cr_assert_eq(heard[1].status, EA_INVALID_ARGUMENT);
    cr_assert_eq(heard[1].detail, EA_DETAIL_TOKEN_REUSED);
    cr_assert(heard[2].status == EA_OK && heard[2].inserted == MANY);
    expect_first(c, mine);

    cr_assert_eq(ea_upsert(c, &all, &counts), EA_OK, "%s", ea_error_text(c));
    cr_assert(counts.inserted == MANY && counts.replaced == 0);
    all.rows = changed;
    cr_assert_eq(ea_upsert(c, &all, &counts), EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_error_detail(c), EA_DETAIL_TOKEN_REUSED);
    expect_first(c, mine);
    cr_assert_eq(ea_collection_drop(c, "rows"), EA_OK);
    cr_assert_eq(ea_upsert(c, &all, &counts), EA_INVALID_ARGUMENT);
    all.rows = mine;
    cr_assert_eq(ea_upsert(c, &all, &counts), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(counts.inserted, MANY);
    ea_close(c);
    free(many);
    free(mine);
    free(changed);
    scene_close(&s);
}
