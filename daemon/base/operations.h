/* operations: the table of operations (proto/operations.def) as the daemon sees it.
 * Owner:  base: every folder may read it.
 * Thread: any; constant.
 * Errors: none. */
#ifndef ENGRAM_BASE_OPERATIONS_H
#define ENGRAM_BASE_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The wire's numbers, and the daemon's own where no client asks for one. */
enum operation {
    OPERATION_NONE = 0,
#define ANSWERED(NAME, number, ...)  OPERATION_##NAME = (number),
#define OPERATION(NAME, number, ...) OPERATION_##NAME = (number),
#define INTERNAL(NAME, number, ...)  OPERATION_##NAME = (number),
#include "proto/operations.def"
};
enum { OPERATION_MAX = 64 };

/* Which line of the cost model. */
enum cost_kind {
#define COST_LINE(LINE, measure) COST_##LINE,
#include "proto/operations.def"
};

/* What must be looked up before it runs. */
enum needs {
    NEEDS_NOTHING,
    NEEDS_ROWS, /* a collection, unless it brings rows of its own */
    NEEDS_COLLECTION,
    NEEDS_GRAPH,
};

enum access {
    ACCESS_READ,
    ACCESS_WRITE,
    ACCESS_DROP, /* writes, and the name is gone at once */
};

/* In what a GPU's least work is counted. */
enum measure { MEASURE_NOTHING, MEASURE_PAIRS, MEASURE_CANDIDATES, MEASURE_NODES };

struct operation_row {
    const char *text; /* NULL: there is no such operation */
    enum needs needs;
    enum access access;
    enum cost_kind cost;
    bool answered; /* by the loop, as soon as it is decoded */
    bool joined;   /* several may run as one, and a large one in parts on both backends */
    bool internal; /* no client asks for it */
};

/* Any number; of one that is no operation's, a row whose text is NULL. */
const struct operation_row *operation_row(uint32_t operation);

struct cost_row {
    enum operation operation; /* whose line it is, NONE where many share it */
    enum measure measure;
};
#define COST_LINE(LINE, measure) +1
enum {
    COST_KINDS = 0
#include "proto/operations.def"
};
extern const struct cost_row cost_rows[COST_KINDS];

#endif
