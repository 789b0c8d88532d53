/* Every operation that changes something says how it is recorded, and no other does. */
#include <criterion/criterion.h>

#include <string.h>

#include "daemon/base/operations.h"
#include "daemon/request/records.h"

static bool writes(const struct operation_row *row)
{
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++)
        if (row->objects[i].kind != OBJECT_NONE && row->objects[i].access != ACCESS_READ)
            return true;
    return false;
}

static bool drops(uint32_t operation)
{
    return operation_drops(operation) && operation_row(operation)->text;
}

Test(records, every_write_of_the_table_is_recorded)
{
    uint32_t recorded = 0;
    for (uint32_t i = 0; i < OPERATION_MAX; i++) {
        const struct operation_row *row = operation_row(i);
        if (!row->text || row->answered) continue;
        enum journal_kind kind = records_kind((enum operation)i);
        cr_expect_eq(kind != JOURNAL_KINDS, writes(row), "%s", row->text);
        cr_expect_eq(kind == JOURNAL_DROP, drops(i), "%s", row->text);
        recorded += kind != JOURNAL_KINDS;
    }
    cr_assert_gt(recorded, 20);
}

/* What the loop answers names nothing in the table; these change what is saved. */
Test(records, what_the_loop_makes_is_recorded)
{
    uint32_t recorded = 0;
    for (uint32_t i = 0; i < OPERATION_MAX; i++)
        if (operation_row(i)->answered)
            recorded += records_kind((enum operation)i) != JOURNAL_KINDS;
    cr_assert_eq(recorded, 4);
    cr_assert_eq(records_kind(OPERATION_COLLECTION_CREATE), JOURNAL_CREATE);
    cr_assert_eq(records_kind(OPERATION_GRAPH_CREATE), JOURNAL_CREATE);
    cr_assert_eq(records_kind(OPERATION_ATTRACTOR_CREATE), JOURNAL_CREATE);
    cr_assert_eq(records_kind(OPERATION_SWAP), JOURNAL_SWAP);
}

/* A snapshot that begins while a reply waits for the disk has the write, and so its token. */
Test(records, a_write_whose_reply_waits_is_known_by_its_token)
{
    static struct pipeline p;
    static int journal;
    struct job j = {.operation = OPERATION_GRAPH_SCALE, .body_bytes = 128};
    const struct token_entry *at = NULL;
    struct token_known known;
    cr_assert_eq(heap_create(UINT64_C(1) << 26, &j.heap), STATUS_OK);
    cr_assert_eq(store_create(j.heap, vectors_variant(0), &p.store), STATUS_OK);
    cr_assert_eq(store_space(p.store, "here", &j.space), STATUS_OK);
    j.request.write.token_low = 5;
    strcpy(j.request.names[0], "links");
    cr_assert(tokens_begin(&p.tokens, &j, 1) && j.token);
    p.journals.journal = (struct journal *)&journal; /* nobody looks into it */
    j.recorded = 1;
    cr_assert(records_hold(&p, &j, NULL, 0));
    cr_assert_eq(p.journals.held.head, &j);
    cr_assert(tokens_next(&p.tokens, &at, &known));
    cr_assert_eq(known.token[0], 5);
    p.journals.now.written = 1;
    cr_assert_not(records_hold(&p, &j, NULL, 0));
    tokens_finish(&p.tokens);
    store_destroy(p.store);
    heap_destroy(j.heap);
}
