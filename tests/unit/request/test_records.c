/* Every operation that changes something says how it is recorded, and no other does. */
#include <criterion/criterion.h>

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
