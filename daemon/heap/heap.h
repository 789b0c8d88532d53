/* heap: the one shared memory: a sealed memfd that CPU workers and GPU processes map.
 * Request bodies, results, scratch and collections live here; references between processes are
 * offsets, never pointers.
 * Owner:  main creates it; everyone takes and gives blocks.
 * Thread: any; one short lock inside, never held across a system call.
 * Errors: STATUS_RESOURCE_EXHAUSTED when the bound on bytes is reached or no run fits,
 *         STATUS_PERMISSION_DENIED when it is the owner's quota (heap_refuse says it to clients);
 *         the heap is unchanged.
 *
 * Bytes handed to an owner never show another owner's: a block that last belonged to another owner
 * comes back zeroed, or as fresh zero pages; so does every block for owner 0. */
#ifndef ENGRAM_HEAP_HEAP_H
#define ENGRAM_HEAP_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/status.h"

struct heap;

enum { HEAP_UNIT = 65536 }; /* smallest block */

struct heap_block {
    void *data;      /* this process's mapping, 64 KiB aligned; NULL: no block */
    uint64_t offset; /* the same place for another process */
    uint64_t bytes;  /* usable, at least what was asked for */
};

struct heap_usage {
    uint64_t bytes_max;
    uint64_t bytes_used;   /* in blocks handed out */
    uint64_t bytes_cached; /* given back, kept for reuse */
    uint64_t bytes_peak;   /* of used */
    uint64_t blocks;       /* handed out */
};

/* bytes_max: bound on blocks handed out plus cached (the sparse file behind it is larger). */
enum status heap_create(uint64_t bytes_max, struct heap **out);
void heap_destroy(struct heap *h);

/* bytes >= 1; owner names the space (0: not known yet, or none). Contents: zero, or the same
 * owner's old bytes. */
enum status heap_take(struct heap *h, uint64_t bytes, uint32_t owner, struct heap_block *out);

/* The same from untouched zero pages, never from what was given back: for what will stay, so that
 * the blocks that requests pass on to each other keep their pages. */
enum status heap_take_fresh(struct heap *h, uint64_t bytes, uint32_t owner, struct heap_block *out);

/* The same as heap_take, but no quota refuses it, though it counts: for what a client needs to be
 * heard at all, so that it can drop something. */
enum status heap_take_past_quota(struct heap *h, uint64_t bytes, uint32_t owner,
                                 struct heap_block *out);

/* At most so many bytes for an owner (not 0) at once, as asked for in whole pages; 0: no bound, as
 * at first. heap_take_fresh leaves a sixteenth of it to others. What it has already stays.
 * RESOURCE_EXHAUSTED: no memory to note it. */
enum status heap_quota(struct heap *h, uint32_t owner, uint64_t bytes_max);
/* What an owner (not 0) has, counted likewise. */
uint64_t heap_owner_bytes(struct heap *h, uint32_t owner);
/* The most that it may have: its quota, or the heap's bound. */
uint64_t heap_owner_bytes_max(struct heap *h, uint32_t owner);

/* Why a take for an owner failed (st), for the client: RESOURCE_EXHAUSTED with DETAIL_QUOTA or
 * DETAIL_MEMORY. what: "the new rows". */
enum status heap_refuse(struct heap *h, enum status st, uint32_t owner, const char *what,
                        struct failure *f);

/* Gives a block back and clears *b; nothing for an empty one. It may be kept for its owner's next
 * take; heap_release instead returns its pages to the system at once. */
void heap_give(struct heap *h, struct heap_block *b);
void heap_release(struct heap *h, struct heap_block *b);

/* Returns cached memory to the system until at most keep_bytes stay cached. Costs system calls. */
void heap_trim(struct heap *h, uint64_t keep_bytes);

/* Blocks larger than block_bytes_max leave this much of the bound to smaller ones, so that large
 * requests cannot silence small ones. Nothing is reserved at first. */
void heap_reserve(struct heap *h, uint64_t bytes, uint64_t block_bytes_max);

/* At most this many bytes stay cached from now on; 64 MiB at first. */
void heap_limit_cache(struct heap *h, uint64_t bytes_max);

/* Asks the system for the pages of a range about to be written, all at once: about a quarter
 * cheaper than faulting them one by one. A hint, inside a block that was taken. */
void heap_populate(void *data, uint64_t bytes);

struct heap_usage heap_usage(struct heap *h);

/* Where p lies for another process: its offset, or PLACE_NONE (heap/order.h) outside the heap. */
uint64_t heap_place(const struct heap *h, const void *p);

/* Of the file behind it: no offset is as large. */
uint64_t heap_file_bytes(const struct heap *h);

/* The memfd, sealed against resizing; the heap keeps it. */
int heap_fd(const struct heap *h);

#endif
