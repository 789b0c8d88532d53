/* transfer: bytes between the heap and the device in pieces of pinned memory: copiers fill or empty
 * some while others are on the bus.
 * Owner:  a task; the pieces are the process's.
 * Thread: the device thread; copiers run the parts.
 * Errors: a refusal of the device sets transfer.failed; nothing more is started then. */
#ifndef ENGRAM_GPU_TRANSFER_H
#define ENGRAM_GPU_TRANSFER_H

#include "daemon/gpu/copiers.h"
#include "daemon/gpu/device.h"
#include "daemon/gpu/numbers.h"
#include "daemon/gpu/vram_pool.h"

struct gpu;

enum { PIECES = 48, PIECE_BYTES = 4 << 20, PIECE_PART_BYTES = 512 << 10, SECTIONS_MAX = 4 };

/* Lines of a tensor that lie in one place of the heap. */
struct scatter_part {
    char *host;
    uint64_t end;   /* lines up to here are in this part, or in one before */
    uint64_t bytes; /* of a line there; what a line has more on the device does not come out */
};

/* A tensor that lies in several places of the heap, line after line. */
struct scatter {
    const struct scatter_part *parts;
    uint64_t line; /* bytes on the device; unused for rows */
};

/* One tensor that moves. Rows: on the host unpadded, on the device padded, with their norms, or bare:
 * whoever wants norms computes them there. */
struct section {
    char *host;
    const struct scatter *scatter; /* NULL: it lies at host, in one */
    uint64_t at;                   /* in the task's block of VRAM */
    uint64_t bytes;                /* on the device */
    uint64_t rows;                 /* 0: plain bytes */
    uint32_t dimension;
    bool bare;
    uint64_t norms_at;
    enum numbers numbers;
    uint64_t limit;
};

/* The same with its addresses: what a transfer moves. */
struct move {
    struct section from; /* or to */
    char *device;
    float *norms; /* on the device, or NULL */
};

struct transfer {
    struct move *moves; /* `few`, or as many as its owner likes */
    struct move few[SECTIONS_MAX];
    uint32_t move_count;
    uint32_t owner; /* the space */
    bool out;
    bool failed; /* the device refused a piece */
    device_stream stream;
    uint32_t move; /* next to start, and from where: bytes, or rows */
    uint64_t at;
    uint32_t busy;            /* pieces under way */
    uint32_t filling;         /* of these, not yet enqueued (in) */
    uint32_t stuck;           /* of these, refused */
    _Atomic uint64_t bad_row; /* the smallest one that is not finite; UINT64_MAX: none */
    atomic_bool unsound;      /* numbers that are not as they must be */
};

enum piece_state {
    PIECE_FREE,
    PIECE_FILLING,  /* by copiers */
    PIECE_SENT,     /* on the bus to the device */
    PIECE_FETCHING, /* on the bus to the host */
    PIECE_EMPTYING, /* by copiers */
    PIECE_STUCK,    /* the device refused it, but may have it yet */
};

struct piece {
    enum piece_state state;
    struct transfer *transfer;
    struct vram_block block; /* of pinned memory */
    char *pinned;
    device_event event; /* its own, once it has been used */
    struct move move;   /* what this piece carries a part of; its addresses are the part's */
    uint64_t first;     /* row, or byte, of what moves */
    uint64_t rows;      /* 0: plain bytes */
    uint64_t bytes;
    uint64_t norms_at; /* in the piece */
    const struct vector_kernels *kernels;
    struct copy_work work;
};

struct transfers {
    struct piece pieces[PIECES];
};

/* Waits for the copiers and gives the events back; nothing may be started after it. */
void transfers_finish(struct gpu *g);

/* Starts what can be started; true if anything was. */
bool transfer_step(struct gpu *g, struct transfer *t);
/* In: all is enqueued; pieces may still be on the bus. Out: all is in the heap. */
bool transfer_issued(const struct transfer *t);
/* No piece is under way, but for those that are stuck. */
bool transfer_idle(const struct transfer *t);
/* Starts nothing more. */
void transfer_stop(struct transfer *t);
/* The device has let go of the stream: gives back what is stuck. */
void transfer_abandon(struct gpu *g, struct transfer *t);

/* Moves pieces of all transfers on; true if any moved. */
bool transfers_poll(struct gpu *g);

/* Rows first .. first + count of a tensor, by whoever has the pinned memory: copies and pads them,
 * and, unless they are bare, computes their norms; returns which of these is the first that is not
 * finite, or count. */
uint64_t transfer_rows(const struct vector_kernels *kernels, const struct section *s,
                       uint64_t first, uint64_t count, float *to, float *norms);
/* Bytes [first, first + bytes) of a tensor that does not consist of rows. */
void transfer_bytes(const struct section *s, uint64_t first, uint64_t bytes, char *pinned,
                    bool out);

#endif
