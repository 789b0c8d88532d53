/* fuzz_journal: no bytes of a journal's file make their reader crash, or take what no daemon
 * writes; what it took, it writes again as it was. The first byte says what the rest is: a head,
 * the head of a record, or a record's contents of that kind; sums are right, and as they are. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/persist/journal_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SALT = 7 };

static void parse_head(const uint8_t *data, size_t size)
{
    uint8_t bytes[JOURNAL_HEAD_BYTES] = {0}, again[JOURNAL_HEAD_BYTES];
    struct journal_head head;
    struct failure f = {0};
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    (void)journal_head_parse(bytes, &head, &f);
    uint64_t sum = XXH3_64bits(bytes, sizeof bytes - sizeof sum);
    memcpy(bytes + sizeof bytes - sizeof sum, &sum, sizeof sum);
    enum status st = journal_head_parse(bytes, &head, &f);
    if (st && (f.code != st || !f.text[0])) abort();
    if (st) return;
    journal_head_print(&head, again);
    if (memcmp(again, bytes, sizeof bytes) != 0) abort();
}

static void parse_record(const uint8_t *data, size_t size)
{
    uint8_t bytes[JOURNAL_RECORD_BYTES] = {0}, again[JOURNAL_RECORD_BYTES];
    struct journal_record record;
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    (void)journal_record_parse(bytes, SALT, &record);
    uint64_t sum = XXH3_64bits_withSeed(bytes, sizeof bytes - sizeof sum, SALT);
    memcpy(bytes + sizeof bytes - sizeof sum, &sum, sizeof sum);
    if (!journal_record_parse(bytes, SALT, &record)) return;
    journal_record_print(&record, SALT, again);
    if (memcmp(again, bytes, sizeof bytes) != 0) abort();
}

static void parse_contents(const uint8_t *data, size_t size, enum journal_kind kind)
{
    struct journal_write w;
    uint64_t byte = 0;
    struct failure f = {0};
    uint8_t again[JOURNAL_FIXED_BYTES];
    void *contents = aligned_alloc(64, journal_pad(size) + 64);
    if (!contents) return;
    if (size) memcpy(contents, data, size);
    enum status st = journal_contents_parse(contents, size, kind, &w, &byte, &f);
    if (st && (f.code != st || !f.text[0] || byte > size)) abort();
    if (!st) {
        journal_contents_print(&w, again);
        if (journal_contents_bytes(&w) != size || memcmp(again, contents, sizeof again) != 0)
            abort();
    }
    free(contents);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || data[0] >= JOURNAL_KINDS) return 0;
    if (data[0] == 0)
        parse_head(data + 1, size - 1);
    else if (data[0] <= JOURNAL_END)
        parse_record(data + 1, size - 1);
    else
        parse_contents(data + 1, size - 1, (enum journal_kind)data[0]);
    return 0;
}
