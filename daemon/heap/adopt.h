/* adopt: a heap whose file another process had, which has ended or will: the blocks in use that are
 * told stay where they lie, and all else becomes free and zero. Nothing that is told is believed:
 * each block must lie in the file, at a multiple of its size, and be nobody else's.
 * Owner:  whoever makes the heap, before threads use it.
 * Thread: one.
 * Errors: with text. DATA_LOSS: what is told cannot be. RESOURCE_EXHAUSTED: memory, or the bound.
 *         FAILED_PRECONDITION: the file does not suit this heap. After an error the heap can only
 *         be destroyed, which leaves the file's pages as they are. */
#ifndef ENGRAM_HEAP_ADOPT_H
#define ENGRAM_HEAP_ADOPT_H

#include "daemon/heap/shared_block.h"
#include "daemon/heap/told.h"

/* As heap_create, of a memfd that was heap_fd of another heap; it remains the caller's. Blocks are
 * adopted until heap_adopt_end, and none is taken. */
enum status heap_adopt(uint64_t bytes_max, int fd, struct heap **out, struct failure *f);
enum status heap_adopt_block(struct heap *h, const struct heap_told *told, uint32_t owner,
                             struct heap_block *out, struct failure *f);
/* Bytes of a shared block that somebody holds: `bytes` at `offset` of the file. The first piece of
 * a block adopts it. */
enum status heap_adopt_piece(struct heap *h, const struct heap_told *told, uint32_t owner,
                             uint64_t offset, uint64_t bytes, struct shared_block **shared,
                             struct heap_block *out, struct failure *f);
/* All is told. What overlaps is found; no page was touched so far. */
enum status heap_adopt_check(struct heap *h, struct failure *f);
/* The file is this process's alone from now on: pages of nobody's go back to the system. */
void heap_adopt_end(struct heap *h);

/* The file is another process's from now on: pages stay as they are, whatever is given back, and no
 * thread is returning any when this returns. */
void heap_leave(struct heap *h);

#endif
