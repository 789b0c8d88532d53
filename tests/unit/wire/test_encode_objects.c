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
