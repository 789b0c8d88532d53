/* A GPU process gone wrong: nonsense in all memory that it may write, at any time. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "daemon/heap/order.h"
#include "tests/support/story.h"

enum { WORDS_A_RUN = 48, HITS = 24 };

/* Numbers that would lead somewhere: small ones, places of the heap, pointers, huge ones. */
static uint64_t nonsense(struct story *s)
{
    switch (story_random(s, 6)) {
    case 0: return story_random(s, 64);
    case 1: return UINT64_MAX - story_random(s, 64);
    case 2: return story_random(s, heap_file_bytes(s->heap));
    case 3: return UINT64_C(0x7f0000000000) + story_random(s, UINT64_C(1) << 40);
    case 4: return story_random(s, UINT64_C(1) << 32) << 32 | story_random(s, 1 << 20);
    }
    return story_random(s, UINT64_MAX);
}

static void spoil(struct story *s, uint64_t *words, uint64_t count)
{
    for (int hit = 0; hit < HITS; hit++) {
        uint64_t first = story_random(s, count), n = 1 + story_random(s, WORDS_A_RUN);
        for (uint64_t i = first; i < count && i < first + n; i++)
            words[i] = nonsense(s);
    }
}

/* In what was ever touched of the exchange, which is all that a GPU process can map to write. */
void story_scribble(struct story *s)
{
    int fd = heap_exchange_fd(s->heap);
    for (off_t at = lseek(fd, 0, SEEK_DATA), end; at >= 0; at = lseek(fd, end, SEEK_DATA)) {
        end = lseek(fd, at, SEEK_HOLE);
        uint64_t bytes = (uint64_t)(end - at);
        void *there = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
        STORY_CHECK(s, there != MAP_FAILED, "the exchange cannot be mapped");
        for (uint64_t first = 0; first < bytes; first += HEAP_UNIT) {
            uint64_t left = bytes - first;
            spoil(s, (uint64_t *)there + first / 8, (left < HEAP_UNIT ? left : HEAP_UNIT) / 8);
        }
        munmap(there, bytes);
    }
}
