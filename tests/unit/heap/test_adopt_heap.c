/* A heap made of another's file: what is told of its blocks is checked. */
#include "daemon/heap/adopt.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, OWNER = 3, UNIT = HEAP_UNIT };

static struct heap *old, *heap;
static struct heap_block one, two;
static struct failure f;

static void begin(void)
{
    cr_assert_eq(heap_create(64 * MIB, &old), STATUS_OK);
    cr_assert_eq(heap_take(old, 3 * UNIT, OWNER, &one), STATUS_OK);
    cr_assert_eq(heap_take_fresh(old, 100, 0, &two), STATUS_OK);
    memset(one.data, 1, one.bytes);
    memset(two.data, 2, two.bytes);
    cr_assert_eq(heap_adopt(64 * MIB, heap_fd(old), &heap, &f), STATUS_OK, "%s", f.text);
}

static void end(void)
{
    heap_destroy(heap);
    cr_assert_eq(*(const char *)one.data, 1); /* whatever a failed adoption gave back */
    cr_assert_eq(*(const char *)two.data, 2);
    heap_give(old, &one);
    heap_give(old, &two);
    heap_destroy(old);
}

TestSuite(adopt_heap, .init = begin, .fini = end);

static struct heap_told told_of(const struct heap_block *b)
{
    struct heap_told t;
    heap_tell(old, b, &t);
    return t;
}

static void refused(struct heap_told t, const char *why)
{
    struct heap_block b = {0};
    cr_assert_eq(heap_adopt_block(heap, &t, OWNER, &b, &f), STATUS_DATA_LOSS);
    cr_assert_not_null(strstr(f.text, why), "%s", f.text);
    cr_assert_null(b.data);
}

Test(adopt_heap, blocks_have_what_they_had)
{
    struct heap_block b = {0}, c = {0}, fresh = {0};
    struct heap_told t = told_of(&one), u = told_of(&two);
    cr_assert_eq(heap_adopt_block(heap, &t, OWNER, &b, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(heap_adopt_block(heap, &u, 0, &c, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(heap_adopt_check(heap, &f), STATUS_OK);
    cr_assert_eq(b.offset, one.offset);
    cr_assert_eq(b.bytes, one.bytes);
    cr_assert_eq(memcmp(b.data, one.data, one.bytes), 0);
    cr_assert_eq(memcmp(c.data, two.data, two.bytes), 0);
    cr_assert_eq(heap_owner_bytes(heap, OWNER), heap_owner_bytes(old, OWNER));
    cr_assert_eq(heap_usage(heap).bytes_used, heap_usage(old).bytes_used);
    cr_assert_eq(heap_usage(heap).blocks, 2);
    cr_assert_eq(heap_span(heap, &b), heap_span(old, &one));
    heap_leave(old);
    heap_adopt_end(heap);
    for (int i = 0; i < 200; i++) { /* nobody gets what is another's */
        cr_assert_eq(heap_take(heap, UNIT, 9, &fresh), STATUS_OK);
        cr_assert(fresh.offset + UNIT <= b.offset || fresh.offset >= b.offset + 4 * UNIT);
        cr_assert_neq(fresh.offset, c.offset);
        cr_assert_eq(*(const char *)fresh.data, 0);
    }
    cr_assert_eq(heap_extend(heap, &b, 4 * UNIT), STATUS_OK);
    cr_assert_eq(((const char *)b.data)[4 * UNIT - 1], 0);
}

Test(adopt_heap, nobody_has_a_block_twice)
{
    struct heap_block b = {0};
    struct heap_told t = told_of(&one);
    cr_assert_eq(heap_adopt_block(heap, &t, OWNER, &b, &f), STATUS_OK);
    refused(t, "another's");
    t.offset += UNIT;
    t.order = 0;
    t.bytes = t.charged = UNIT;
    refused(t, "another's");
    t.offset = one.offset / (8 * UNIT) * (8 * UNIT);
    t.order = 3; /* one that it is inside of */
    refused(t, "another's");
}

Test(adopt_heap, what_cannot_be_is_refused)
{
    const struct heap_told whole = told_of(&one);
    struct heap_told t = whole;
    t.order = 77;
    refused(t, "size");
    t = whole;
    t.offset += 1;
    refused(t, "aligned");
    t = whole;
    t.offset += UNIT;
    refused(t, "aligned");
    t = whole;
    t.offset = heap_file_bytes(old) / (4 * UNIT) * (4 * UNIT);
    refused(t, "not in it");
    t = whole;
    t.offset = UINT64_MAX / (4 * UNIT) * (4 * UNIT);
    refused(t, "not in it");
    t = whole;
    t.order = 30;
    t.offset = 0;
    refused(t, "not in it");
    t = whole;
    t.bytes = 0;
    refused(t, "sizes");
    t = whole;
    t.bytes = 4 * UNIT + 4096;
    refused(t, "sizes");
    t = whole;
    t.bytes -= 1;
    refused(t, "sizes");
    t = whole;
    t.charged = t.bytes + 4096;
    refused(t, "sizes");
    t = whole;
    t.cut = t.charged + 4096;
    refused(t, "sizes");
}

Test(adopt_heap, pieces_do_not_overlap)
{
    struct shared_block *s[3] = {0};
    struct heap_block b[3] = {0};
    struct heap_told t = told_of(&one), other = t;
    uint64_t at = one.offset;
    cr_assert_eq(heap_adopt_piece(heap, &t, OWNER, at, UNIT, &s[0], &b[0], &f), STATUS_OK);
    cr_assert_eq(heap_adopt_piece(heap, &t, OWNER, at + UNIT, UNIT, &s[1], &b[1], &f), STATUS_OK);
    cr_assert_eq(s[0], s[1]);
    cr_assert_eq(heap_adopt_check(heap, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(heap_adopt_piece(heap, &t, OWNER, at + 3 * UNIT, 1, &s[2], &b[2], &f),
                 STATUS_DATA_LOSS);
    cr_assert_eq(heap_adopt_piece(heap, &t, OWNER, at - UNIT, UNIT, &s[2], &b[2], &f),
                 STATUS_DATA_LOSS);
    other.charged -= 4096;
    cr_assert_eq(heap_adopt_piece(heap, &other, OWNER, at, UNIT, &s[2], &b[2], &f),
                 STATUS_DATA_LOSS);
    cr_assert_not_null(strstr(f.text, "two ways"), "%s", f.text);
    cr_assert_eq(heap_adopt_piece(heap, &t, OWNER, at + UNIT - 64, 64, &s[2], &b[2], &f),
                 STATUS_OK);
    cr_assert_eq(heap_adopt_check(heap, &f), STATUS_DATA_LOSS);
    cr_assert_not_null(strstr(f.text, "two pieces"), "%s", f.text);
    for (int i = 0; i < 3; i++) {
        shared_block_expect(s[i]);
        shared_block_give(s[i], b[i].data, b[i].bytes);
    }
}

/* The thread that returns pages is in the middle of it when the heap becomes another's: nothing
 * that is written from then on is lost. */
Test(adopt_heap, a_heap_that_is_left_changes_nothing)
{
    enum { ROUNDS = 20, LARGE = 32 };
    for (int round = 0; round < ROUNDS; round++) {
        struct heap *h;
        struct heap_block large, given;
        cr_assert_eq(heap_create(64 * MIB, &h), STATUS_OK);
        cr_assert_eq(heap_start_releaser(h), STATUS_OK);
        heap_limit_cache(h, 0);
        cr_assert_eq(heap_take(h, (uint64_t)LARGE * MIB, OWNER, &large), STATUS_OK);
        memset(large.data, 1, large.bytes);
        volatile char *bytes = large.data;
        given = large;
        heap_release(h, &given);
        heap_leave(h);
        for (int i = 1; i <= LARGE; i++)
            bytes[(size_t)i * MIB - 1] = 2;
        int fd = dup(heap_fd(h));
        heap_destroy(h);
        for (int i = 1; i <= LARGE; i++) {
            char byte = 0;
            off_t at = (off_t)(large.offset + (size_t)i * MIB - 1);
            cr_assert_eq(pread(fd, &byte, 1, at), 1);
            cr_assert_eq(byte, 2, "MiB %d, in round %d", i, round);
        }
        close(fd);
    }
}
