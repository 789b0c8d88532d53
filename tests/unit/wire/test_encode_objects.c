/* Replies about collections, graphs and attractors alike. */
#include "tests/unit/wire/reply.h"

Test(encode_objects, a_swap)
{
    struct job j;
    engram_accel_v1_SwapReply m;
    memset(&j, 0, sizeof j);
    j.operation = OPERATION_SWAP;
    j.key.request_id = 9;
    j.result.version = UINT64_MAX;
    j.result.counts[0] = UINT64_MAX - 1;
    check_frame(encode_swap(&j, fresh()), 23, 1, 9);
    read_message(engram_accel_v1_SwapReply_fields, &m);
    cr_assert(m.has_meta && m.meta.version == UINT64_MAX);
    cr_assert_eq(m.replaced_version, UINT64_MAX - 1);
}

Test(encode_objects, changes)
{
    struct job j;
    static engram_accel_v1_ChangesReply m;
    struct wire_object objects[ENCODE_OBJECTS_MAX + 1];
    const struct state_name data = {UINT64_MAX, 7, 0};
    char longest[65] = {0};
    memset(longest, 'x', 64);
    memset(&j, 0, sizeof j);
    j.key.request_id = 9;
    j.data = &data;
    j.result.version = UINT64_MAX;
    for (size_t i = 0; i <= ENCODE_OBJECTS_MAX; i++)
        objects[i] = (struct wire_object){OBJECT_ATTRACTOR, longest, UINT64_MAX - i};
    for (int more = 0; more < 2; more++) {
        size_t count = ENCODE_OBJECTS_MAX + (size_t)more;
        check_frame(encode_changes(&j, objects, count, false, 99, fresh()), 24, 1, 9);
        read_message(engram_accel_v1_ChangesReply_fields, &m);
        cr_assert(m.has_meta && m.meta.version == UINT64_MAX && m.total == 99);
        cr_assert(m.meta.instance == UINT64_MAX && m.meta.generation == 7);
        cr_assert(m.objects_count == ENCODE_OBJECTS_MAX && m.more == more);
        cr_assert_str_eq(m.objects[63].name, longest);
        cr_assert_eq(m.objects[63].version, UINT64_MAX - 63);
    }
    check_frame(encode_changes(&j, NULL, 0, true, 0, fresh()), 24, 1, 9);
    read_message(engram_accel_v1_ChangesReply_fields, &m);
    cr_assert(m.objects_count == 0 && m.more);
}

Test(encode_objects, what_is_there_in_an_error)
{
    struct failure f = {0};
    engram_accel_v1_Error m;
    failure_set(&f, STATUS_ABORTED, DETAIL_STATE_CHANGED, "other");
    f.instance = UINT64_MAX;
    f.generation = 3;
    check_frame(encode_error(33, 5, &f, fresh()), 33, 3, 5);
    read_message(engram_accel_v1_Error_fields, &m);
    cr_assert(m.instance == UINT64_MAX && m.generation == 3 && m.detail == 93 && !m.retryable);
}
