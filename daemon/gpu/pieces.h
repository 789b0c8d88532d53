/* pieces: what moves between the heap and the device, and the pieces of pinned memory that carry
 * it; transfer.h moves it.
 * Owner:  a task; the pieces are the process's.
 * Thread: the device thread; copiers run the parts.
 * Errors: none. */
#ifndef ENGRAM_GPU_PIECES_H
#define ENGRAM_GPU_PIECES_H

#include "daemon/gpu/copiers.h"
#include "daemon/gpu/device.h"
#include "daemon/gpu/numbers.h"
#include "daemon/gpu/vram_pool.h"

enum { PIECES = 48, PIECE_BYTES = 4 << 20, PIECE_PART_BYTES = 512 << 10, SECTIONS_MAX = 4 };

/* Lines of a tensor that are in one place of the heap. */
struct scatter_part {
    char *host;
    uint64_t end; /* the line behind the last one of this part */
    /* of each line there; a line may be longer on the device, and the rest does not come out */
    uint64_t bytes;
};

/* A tensor whose lines are in several places of the heap, one after the other. */
struct scatter {
    const struct scatter_part *parts;
    uint64_t line; /* bytes of a line on the device; unused for rows */
};

/* One tensor that moves. Rows are unpadded on the host and padded on the device; their norms are
 * computed on the way, unless the rows are bare, in which case the device computes them. */
struct section {
    char *host;
    const struct scatter *scatter; /* NULL: it is in one place, at host */
    uint64_t at;                   /* its offset in the task's block of VRAM */
    uint64_t bytes;                /* on the device */
    uint64_t rows;                 /* 0: plain bytes */
    uint32_t dimension;
    bool bare;
    /* of rows, a byte for each number, known_step bytes from row to row (0: the same ones for all):
     * where it is 0 the number is anything, and becomes 0; NULL: all count. Not for a scatter. */
    const uint8_t *known;
    uint64_t known_step;
    uint64_t norms_at;
    enum numbers numbers;
    uint64_t limit;
};

/* A section with its addresses: what a transfer moves. */
struct move {
    struct section from; /* or to, if it comes out */
    char *device;
    float *norms; /* on the device; NULL: none */
};

struct transfer {
    struct move *moves; /* `few`, or an array of its owner */
    struct move few[SECTIONS_MAX];
    uint32_t move_count;
    uint32_t owner; /* the space's number */
    bool out;
    bool failed; /* the device failed for a piece */
    device_stream stream;
    uint32_t move; /* the move to start next, and from which byte or row on */
    uint64_t at;
    uint32_t busy;            /* pieces in flight */
    uint32_t filling;         /* those among them that are not yet enqueued (in) */
    uint32_t stuck;           /* those among them that failed */
    _Atomic uint64_t bad_row; /* the first row that is not finite; UINT64_MAX: none */
    atomic_bool unsound;      /* invalid numbers were found */
};

enum piece_state {
    PIECE_FREE,
    PIECE_FILLING,  /* by copiers */
    PIECE_SENT,     /* on the bus to the device */
    PIECE_FETCHING, /* on the bus to the host */
    PIECE_EMPTYING, /* by copiers */
    PIECE_STUCK,    /* the device failed for it, but may still use it */
};

struct piece {
    enum piece_state state;
    struct transfer *transfer;
    struct vram_block block; /* of pinned memory */
    char *pinned;
    device_event event; /* made at its first use */
    struct move move;   /* a part of a move, with the part's addresses */
    uint64_t first;     /* the first row, or byte, of the move */
    uint64_t rows;      /* 0: plain bytes */
    uint64_t bytes;
    uint64_t norms_at; /* in the piece */
    const struct vector_kernels *kernels;
    struct copy_work work;
};

struct transfers {
    struct piece pieces[PIECES];
};

#endif
