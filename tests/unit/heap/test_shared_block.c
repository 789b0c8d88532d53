/* A block whose pieces belong to several. */
#include "daemon/heap/shared_block.h"

#include <criterion/criterion.h>
#include <string.h>

#include "daemon/base/fault.h"

enum { PIECES = 4, PIECE = 1 << 20, OWNER = 7 };

static struct heap *heap;

static void begin(void)
{
    cr_assert_eq(heap_create(64 << 20, &heap), STATUS_OK);
}

static void end(void)
{
    cr_assert_eq(heap_usage(heap).blocks, 0);
    cr_assert_eq(heap_usage(heap).bytes_used, 0);
    cr_assert_eq(heap_owner_bytes(heap, OWNER), 0);
    heap_destroy(heap);
}

TestSuite(shared_block, .init = begin, .fini = end);

static struct shared_block *make(struct heap_block *b)
{
    cr_assert_eq(heap_take(heap, PIECES * PIECE, OWNER, b), STATUS_OK);
    memset(b->data, 1, b->bytes);
    struct shared_block *s = shared_block_make(heap, b);
    cr_assert(s && shared_block_lend(s));
    for (int i = 0; i < PIECES; i++)
        shared_block_hold(s);
    return s;
}

static void give(struct shared_block *s, char *data, int piece)
{
    shared_block_give(s, data + (size_t)piece * PIECE, PIECE);
}

static uint64_t used(void)
{
    cr_assert_eq(heap_owner_bytes(heap, OWNER), heap_usage(heap).bytes_used);
    return heap_usage(heap).bytes_used;
}

Test(shared_block, gives_pages_back_as_pieces_are_given_up)
{
    struct heap_block b;
    struct shared_block *s = make(&b);
    char *data = b.data;
    shared_block_expect(s);
    give(s, data, 0);
    cr_assert_eq(used(), PIECES * PIECE, "whoever made it still reads all of it");
    cr_assert_eq(data[0], 1);
    shared_block_end(s, &b);
    cr_assert_null(b.data);
    shared_block_expect(s);
    give(s, data, 2);
    cr_assert_eq(used(), (PIECES - 1) * PIECE);
    cr_assert(data[2 * PIECE - 1] == 1 && data[2 * PIECE] == 0 && data[3 * PIECE] == 1);
    for (int i = 1; i < PIECES; i += 2) {
        shared_block_expect(s);
        give(s, data, i);
    }
    cr_assert_eq(used(), 0);
    cr_assert_eq(heap_usage(heap).bytes_cached, 0, "holes are not kept for reuse");
}

/* Pages that a piece has only a part of stay until the block goes. */
Test(shared_block, gives_whole_pages_back)
{
    struct heap_block b;
    struct shared_block *s = make(&b);
    char *data = b.data;
    shared_block_end(s, &b);
    shared_block_expect(s);
    shared_block_give(s, data + 64, PIECE);
    cr_assert_eq(used(), PIECES * PIECE - PIECE + 4096);
    cr_assert(data[4095] == 1 && data[4096] == 0 && data[PIECE - 1] == 0 && data[PIECE] == 1);
    for (int i = 1; i < PIECES; i++)
        shared_block_expect(s);
    for (int i = 1; i < PIECES; i++)
        give(s, data, i);
}

Test(shared_block, is_used_again_if_all_pieces_go_at_once)
{
    struct heap_block b;
    struct shared_block *s = make(&b);
    char *data = b.data;
    shared_block_end(s, &b);
    for (int i = 0; i < PIECES; i++)
        shared_block_expect(s);
    for (int i = 0; i < PIECES; i++)
        give(s, data, i);
    cr_assert_eq(heap_usage(heap).bytes_cached, PIECES * PIECE);
    cr_assert_eq(data[5], 1);
}

Test(shared_block, goes_with_who_made_it_if_nothing_is_kept)
{
    struct heap_block b;
    cr_assert_eq(heap_take(heap, PIECE, OWNER, &b), STATUS_OK);
    struct shared_block *s = shared_block_make(heap, &b);
    shared_block_end(s, &b);
}

/* A block of 8 GiB of addresses, of which little is taken: two are lent, the third is not. */
Test(shared_block, is_not_lent_when_many_addresses_are)
{
    struct heap *large;
    struct heap_block b[3];
    struct shared_block *s[3];
    cr_assert_eq(heap_create(UINT64_C(16) << 30, &large), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(heap_take_begun(large, UINT64_C(8) << 30, 4096, OWNER, &b[i]), STATUS_OK);
        s[i] = shared_block_make(large, &b[i]);
        cr_assert_eq(shared_block_lend(s[i]), i < 2);
    }
    shared_block_end(s[0], &b[0]);
    cr_assert(shared_block_lend(s[2]));
    shared_block_end(s[1], &b[1]);
    shared_block_end(s[2], &b[2]);
    heap_destroy(large);
}

Test(shared_block, is_not_made_without_memory)
{
    struct heap_block b;
    cr_assert_eq(heap_take(heap, PIECE, OWNER, &b), STATUS_OK);
    fault_arm(1);
    cr_assert_null(shared_block_make(heap, &b));
    fault_arm(0);
    heap_give(heap, &b);
}
