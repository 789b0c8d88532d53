/* heap: the shared memory: two sealed memfds that CPU workers and GPU processes map. Request
 * bodies, scratch and collections are blocks of the first, which GPU processes only read; what they
 * write, results above all, lies in blocks of the second, the exchange (areas.h). References
 * between processes are offsets, never pointers.
 * Owner:  main creates it; everyone takes and gives blocks.
 * Thread: any; one short lock inside, never held across a system call.
 * Errors: STATUS_RESOURCE_EXHAUSTED when the bound on bytes is reached or no run fits,
 *         STATUS_PERMISSION_DENIED when it is the owner's quota, STATUS_UNAVAILABLE as
 *         heap_never_wait says (heap_refuse turns each into a reply); the heap is unchanged.
 *
 * An owner never sees bytes of another one: a block that last belonged to another owner comes back
 * zeroed, or as fresh zero pages, and so does every block for owner 0. */
#ifndef ENGRAM_HEAP_HEAP_H
#define ENGRAM_HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/status.h"

struct heap;

enum {
    HEAP_UNIT = 65536,              /* the smallest block */
    HEAP_POPULATE_BYTES_MIN = 65536 /* heap_populate costs more than it saves below this */
};

struct heap_block {
    void *data;      /* in this process's mapping, 64 KiB aligned; NULL: no block */
    uint64_t offset; /* the same place, for another process */
    uint64_t bytes;  /* usable, at least what was asked for */
    bool kept;       /* it was kept for reuse: its pages need no heap_populate */
};

struct heap_usage {
    uint64_t bytes_max;
    uint64_t bytes_used;    /* of blocks in use, and outside */
    uint64_t bytes_asked;   /* of them, what was asked for, of blocks rounded up to pages */
    uint64_t bytes_outside; /* of memory that is not the heap's own (outside.h) */
    uint64_t bytes_cached;  /* of blocks given back and kept for reuse */
    uint64_t bytes_peak;    /* the most that bytes_used ever was */
    uint64_t blocks;        /* in use */
    /* In a copy alone: on its way back to the system; not in use, what is cached included, and the
     * largest block that could be had of it (once it is back). */
    uint64_t bytes_releasing, bytes_free, bytes_largest;
};

/* bytes_max: the bound on blocks in use plus cached ones (the sparse file behind it is larger). */
enum status heap_create(uint64_t bytes_max, struct heap **out);
/* Starts a thread that returns large blocks to the system, so that nobody who gives one back waits
 * for that; without it the giver does. RESOURCE_EXHAUSTED: no thread. */
enum status heap_start_releaser(struct heap *h);
void heap_destroy(struct heap *h);

/* Takes a block of bytes >= 1; owner is a space's number (0: not known yet, or none). It holds
 * zeros or the same owner's old bytes. */
enum status heap_take(struct heap *h, uint64_t bytes, uint32_t owner, struct heap_block *out);

/* Sets what is asked before a take or growth is refused: it gives back blocks of a space (0: of
 * any) that can be spared, some `bytes` of them, and returns whether it gave any. Called on the
 * taker's thread, without the lock; NULL: nobody. */
void heap_on_shortage(struct heap *h, bool (*spare)(void *owner, uint32_t space, uint64_t bytes),
                      void *owner);
/* As heap_take, for what can be spared itself: nobody is asked. */
enum status heap_take_quietly(struct heap *h, uint64_t bytes, uint32_t owner,
                              struct heap_block *out);

/* As heap_take, from the exchange: a GPU process may write there, at any time. What is followed, as
 * an index or a pointer, must not lie there, or is copied and then checked. */
enum status heap_take_exchange(struct heap *h, uint64_t bytes, uint32_t owner,
                               struct heap_block *out);

/* As heap_take, but from untouched zero pages, never from the cache. For blocks that will stay: so
 * the cached blocks, whose pages exist already, are left to requests. */
enum status heap_take_fresh(struct heap *h, uint64_t bytes, uint32_t owner, struct heap_block *out);

/* As heap_take, but no quota refuses it, though the bytes count: a client at its quota must still
 * be able to send the request that drops something. */
enum status heap_take_past_quota(struct heap *h, uint64_t bytes, uint32_t owner,
                                 struct heap_block *out);

/* As heap_take, but only the first `begun` bytes (1 .. bytes) are taken: the block has addresses
 * for all, and heap_grow takes more where it lies. */
enum status heap_take_begun(struct heap *h, uint64_t bytes, uint64_t begun, uint32_t owner,
                            struct heap_block *out);
/* Takes more of such a block, so that its first `bytes` may be used. Errors: the block is as
 * before. */
enum status heap_grow(struct heap *h, struct heap_block *b, uint64_t bytes);

/* As heap_take_fresh, with addresses for `span` bytes (at least `bytes`): for blocks that will stay
 * and grow where they lie. heap_extend takes more of any block, up to heap_span, under the same
 * bound as heap_take_fresh; bytes not yet written are zero. Errors: the block is as before. */
enum status heap_take_wide(struct heap *h, uint64_t bytes, uint64_t span, uint32_t owner,
                           struct heap_block *out);
uint64_t heap_span(const struct heap *h, const struct heap_block *b);
enum status heap_extend(struct heap *h, struct heap_block *b, uint64_t bytes);

/* Whether a take of so many bytes would succeed now, as far as can be said without trying. */
enum status heap_fits(struct heap *h, uint64_t bytes, uint32_t owner);

/* Returns how many bytes large blocks could have more: what is kept for reuse or on its way back to
 * the system counts, since it makes room. */
uint64_t heap_room_bytes(struct heap *h);

/* Sets an owner's (not 0) quota, in bytes as asked for, rounded up to pages; 0: unlimited, as at
 * first. heap_take_fresh leaves a sixteenth of it to requests. Blocks already in use stay.
 * RESOURCE_EXHAUSTED: no memory to note the quota. */
enum status heap_quota(struct heap *h, uint32_t owner, uint64_t bytes_max);
/* Lets an owner (not 0) have so many bytes beyond its quota, until heap_lend_end takes them back:
 * for pages that others keep. Where there is no memory to note it, nothing is lent. */
void heap_lend(struct heap *h, uint32_t owner, uint64_t bytes);
void heap_lend_end(struct heap *h, uint32_t owner, uint64_t bytes);
/* Returns an owner's (not 0) bytes in use, counted in the same way. */
uint64_t heap_owner_bytes(struct heap *h, uint32_t owner);
/* Returns the most that the owner may have: its quota, or the heap's bound. */
uint64_t heap_owner_bytes_max(struct heap *h, uint32_t owner);

/* Describes to the client why a take for an owner failed with st: RESOURCE_EXHAUSTED with
 * DETAIL_QUOTA or DETAIL_MEMORY. what: such as "the new rows". */
enum status heap_refuse(struct heap *h, enum status st, uint32_t owner, const char *what,
                        struct failure *f);

/* Gives a block back and clears *b; an empty one is fine. The block may be kept for its owner's
 * next take; heap_release returns its pages to the system at once. */
void heap_give(struct heap *h, struct heap_block *b);
void heap_release(struct heap *h, struct heap_block *b);

/* From now on takes and growths of the calling thread do not wait while more than a MiB that they
 * need is on its way back to the system: they fail with STATUS_UNAVAILABLE, and freed(owner) is
 * called once they may succeed, by any thread, under the lock. freed NULL: as at first. One thread
 * can say so. */
void heap_never_wait(struct heap *h, void (*freed)(void *owner), void *owner);
/* Asked by that thread: whether a take was put off in that way, and whether freed was called, since
 * it last asked. */
bool heap_put_off(struct heap *h);
bool heap_freed(struct heap *h);

/* Returns cached memory to the system until at most keep_bytes are cached. Costs system calls. */
void heap_trim(struct heap *h, uint64_t keep_bytes);

/* Keeps `bytes` of the bound for blocks of at most block_bytes_max, so that large requests cannot
 * starve small ones. At first nothing is reserved. */
void heap_reserve(struct heap *h, uint64_t bytes, uint64_t block_bytes_max);

/* Limits the bytes that stay cached, from now on; at first 64 MiB. */
void heap_limit_cache(struct heap *h, uint64_t bytes_max);

/* Asks the system for all pages of a range that is about to be written: about a quarter cheaper
 * than faulting them one by one. A hint; the range lies inside a block in use. */
void heap_populate(void *data, uint64_t bytes);

struct heap_usage heap_usage(struct heap *h);

/* Returns the offset of p for another process, or PLACE_NONE (heap/order.h) outside the heap. */
uint64_t heap_place(const struct heap *h, const void *p);

/* Returns the size of both files behind the heap together; every offset is smaller. */
uint64_t heap_file_bytes(const struct heap *h);

/* Return memfds, sealed against resizing; the heap keeps them open. Of the first: heap_read_fd
 * cannot be mapped for writing. The exchange's first offset is the first's size. */
int heap_fd(const struct heap *h);
int heap_read_fd(const struct heap *h);
int heap_exchange_fd(const struct heap *h);

#endif
