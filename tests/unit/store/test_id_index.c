/* The id index and growing arrays against naive models. */
#include "daemon/store/id_index.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/array.h"

enum { RANGE = 700 };

/* ids[row] dense as a collection keeps them; where[v] is the row of id v * 3. */
static void check(const struct id_index *x, const uint64_t *ids, const uint32_t *where)
{
    for (uint64_t v = 0; v < RANGE; v++)
        cr_assert_eq(id_index_find(x, ids, v * 3), where[v]);
    cr_assert_eq(id_index_find(x, ids, UINT64_MAX), ID_INDEX_NONE);
}

Test(id_index, follows_inserts)
{
    for (unsigned seed = 1; seed <= 30; seed++) {
        struct id_index x = {0};
        uint64_t ids[RANGE];
        uint32_t where[RANGE], rows = 0;
        unsigned s = seed;
        memset(where, 0xff, sizeof where);
        for (int step = 0; step < 3000; step++) {
            uint64_t v = (uint64_t)rand_r(&s) % RANGE;
            if (where[v] == ID_INDEX_NONE) {
                cr_assert(id_index_reserve(&x, ids, rows, rows + 1));
                ids[rows] = v * 3;
                id_index_insert(&x, ids, rows);
                where[v] = rows++;
            }
            cr_assert(rows <= x.slot_count / 4 * 3);
            if (step % 100 == 0) check(&x, ids, where);
        }
        check(&x, ids, where);
        id_index_finish(&x);
    }
}

Test(id_index, works_in_borrowed_memory)
{
    uint32_t slots[256];
    uint64_t ids[100];
    struct id_index x;
    cr_assert(id_index_slots(100) <= 256);
    id_index_borrow(&x, slots, id_index_slots(100));
    for (uint32_t i = 0; i < 100; i++) {
        ids[i] = i * UINT64_C(1) << 57 | i;
        cr_assert_eq(id_index_find(&x, ids, ids[i]), ID_INDEX_NONE);
        id_index_insert(&x, ids, i);
    }
    for (uint32_t i = 0; i < 100; i++)
        cr_assert_eq(id_index_find(&x, ids, ids[i]), i);
    cr_assert(!id_index_reserve(&x, ids, 100, 1000000));
    id_index_finish(&x);
}

Test(id_index, answers_when_empty)
{
    struct id_index x = {0};
    cr_assert_eq(id_index_find(&x, NULL, 0), ID_INDEX_NONE);
}

Test(id_index, stays_as_it_was_when_growing_fails)
{
    struct id_index x = {0};
    uint64_t ids[2000];
    for (uint64_t i = 0; i < 2000; i++)
        ids[i] = i;
    cr_assert(id_index_reserve(&x, ids, 0, 40));
    for (uint32_t i = 0; i < 40; i++)
        id_index_insert(&x, ids, i);
    fault_arm(1);
    cr_assert(!id_index_reserve(&x, ids, 40, 2000));
    fault_arm(0);
    for (uint32_t i = 0; i < 2000; i++)
        cr_assert_eq(id_index_find(&x, ids, i), i < 40 ? i : ID_INDEX_NONE);
    id_index_finish(&x);
}

Test(array, keeps_bytes_and_zeroes_new_ones)
{
    unsigned seed = 3;
    unsigned char *p = NULL, *model = calloc(1, 1 << 20);
    size_t bytes = 0;
    for (int step = 0; step < 300; step++) {
        size_t want = 1 + (size_t)rand_r(&seed) % (step % 2 ? 300000 : 70000);
        unsigned char *q = array_resize(p, bytes, want);
        cr_assert_not_null(q);
        if (want > bytes) memset(model + bytes, 0, want - bytes);
        p = q;
        bytes = want;
        cr_assert_eq(memcmp(p, model, bytes), 0, "step %d", step);
        for (int i = 0; i < 100; i++) {
            size_t at = (size_t)rand_r(&seed) % bytes;
            p[at] = model[at] = (unsigned char)rand_r(&seed);
        }
        p[bytes - 1] = model[bytes - 1] = 0xee;
    }
    array_free(p, bytes);
    array_free(NULL, 0);
    free(model);
}
