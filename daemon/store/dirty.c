#include "daemon/store/dirty.h"

#include <string.h>

#include "daemon/store/array.h"

enum { BLOCK_BYTES = 256 << 10, SHIFT_MIN = 6 };

void dirty_init(struct dirty *d, size_t row_bytes)
{
    *d = (struct dirty){.shift = SHIFT_MIN};
    while (row_bytes << (d->shift + 1) <= BLOCK_BYTES)
        d->shift++;
}

void dirty_forget(struct dirty *d)
{
    array_free(d->words, d->word_count * sizeof *d->words);
    d->words = NULL;
    d->word_count = 0;
}

static uint64_t blocks_of(const struct dirty *d, uint64_t rows)
{
    return (rows + (UINT64_C(1) << d->shift) - 1) >> d->shift;
}

/* New words are zero if the bitmap is to be clean there. */
static bool grow(struct dirty *d, uint64_t rows, bool dirty)
{
    uint64_t want = (blocks_of(d, rows) + 63) / 64;
    if (want <= d->word_count) return true;
    if (want < d->word_count * 2) want = d->word_count * 2;
    size_t word = sizeof *d->words;
    uint64_t *words = array_resize(d->words, d->word_count * word, want * word);
    if (!words) return false;
    if (dirty) memset(words + d->word_count, 0xff, (want - d->word_count) * word);
    d->words = words;
    d->word_count = want;
    return true;
}

bool dirty_track(struct dirty *d, uint64_t rows)
{
    return grow(d, rows, true);
}

bool dirty_cover(struct dirty *d, uint64_t rows)
{
    return grow(d, rows, false);
}

void dirty_merge(struct dirty *d, const struct dirty *more)
{
    for (uint64_t i = 0; i < d->word_count && i < more->word_count; i++)
        d->words[i] |= more->words[i];
}

/* A mask of at most `left` bits of a word, from `bit` on. */
static uint64_t mask_of(uint64_t bit, uint64_t left)
{
    uint64_t mask = left < 64 ? (UINT64_C(1) << left) - 1 : UINT64_MAX;
    return mask << bit;
}

void dirty_mark(struct dirty *d, uint64_t first, uint64_t count)
{
    if (!d->words || !count) return;
    uint64_t block = first >> d->shift, end = ((first + count - 1) >> d->shift) + 1;
    if (end > d->word_count * 64) end = d->word_count * 64;
    while (block < end) {
        uint64_t mask = mask_of(block % 64, end - block);
        d->words[block / 64] |= mask;
        block = (block / 64 + 1) * 64;
    }
}

/* Finds the first block at or after `block` whose dirtiness equals `dirty`; `end` if no block
 * before it does. */
static uint64_t find(const struct dirty *d, uint64_t block, uint64_t end, bool dirty)
{
    while (block < end) {
        uint64_t word = block / 64 < d->word_count ? d->words[block / 64] : UINT64_MAX;
        if (!dirty) word = ~word;
        word &= mask_of(block % 64, 64);
        if (word) {
            uint64_t found = block / 64 * 64 + (unsigned)__builtin_ctzll(word);
            return found < end ? found : end;
        }
        block = block / 64 < d->word_count ? (block / 64 + 1) * 64 : end;
    }
    return end;
}

bool dirty_next(const struct dirty *d, uint64_t from, uint64_t rows, uint64_t *first,
                uint64_t *count)
{
    uint64_t end = blocks_of(d, rows);
    uint64_t block = find(d, blocks_of(d, from), end, true);
    if (block >= end) return false;
    uint64_t row = block << d->shift, past = find(d, block, end, false) << d->shift;
    *first = row;
    *count = (past < rows ? past : rows) - row;
    return true;
}

void dirty_clean(struct dirty *d, uint64_t first, uint64_t count)
{
    uint64_t block = first >> d->shift, end = blocks_of(d, first + count);
    if (end > d->word_count * 64) end = d->word_count * 64;
    while (block < end) {
        uint64_t mask = mask_of(block % 64, end - block);
        d->words[block / 64] &= ~mask;
        block = (block / 64 + 1) * 64;
    }
}

uint64_t dirty_rows(const struct dirty *d, uint64_t rows)
{
    uint64_t first, count, dirty = 0;
    for (uint64_t from = 0; dirty_next(d, from, rows, &first, &count); from = first + count)
        dirty += count;
    return dirty;
}
