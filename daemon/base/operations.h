/* operations: the table of operations (proto/operations.def) as the daemon sees it.
 * Owner:  base: every folder may read it.
 * Thread: any; constant.
 * Errors: none. */
#ifndef ENGRAM_BASE_OPERATIONS_H
#define ENGRAM_BASE_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The wire's numbers, and the daemon's own for operations that no client sends. */
enum operation {
    OPERATION_NONE = 0,
#define ANSWERED(NAME, number, ...)  OPERATION_##NAME = (number),
#define OPERATION(NAME, number, ...) OPERATION_##NAME = (number),
#define INTERNAL(NAME, number, ...)  OPERATION_##NAME = (number),
#include "proto/operations.def"
};
enum { OPERATION_MAX = 128 };

/* The lines of the cost model. */
enum cost_kind {
#define COST_LINE(LINE, measure) COST_##LINE,
#include "proto/operations.def"
};

/* What an operation names, which is looked up before it runs. */
enum object_kind { OBJECT_NONE, OBJECT_COLLECTION, OBJECT_GRAPH, OBJECT_ATTRACTOR };

enum access {
    ACCESS_READ,
    ACCESS_WRITE,
    ACCESS_DROP, /* writes, and the name is free at once */
};

/* The unit of the minimum for a GPU. */
enum measure { MEASURE_NOTHING, MEASURE_PAIRS, MEASURE_CANDIDATES, MEASURE_NODES };

struct operation_object {
    enum object_kind kind;
    enum access access;
    bool needed; /* otherwise its name may be empty */
};

enum { OPERATION_OBJECTS_MAX = 4 };
struct operation_row {
    const char *text; /* NULL: there is no such operation */
    /* In the order in which its messages name them; at most one is written. OBJECT_NONE: it names
     * nothing in this place. */
    struct operation_object objects[OPERATION_OBJECTS_MAX];
    enum cost_kind cost;
    bool answered; /* the loop answers it as soon as it is decoded */
    bool joined;   /* several may run as one, and a large one in parts on both backends */
    bool internal; /* no client sends it */
};

/* Rows that no operation has are blank. Read through operation_row. */
extern const struct operation_row operation_rows[OPERATION_MAX];
/* Takes any number; if it is not an operation's, the row's text is NULL. Inline, because a request
 * is looked up a dozen times on its way. */
static inline const struct operation_row *operation_row(uint32_t operation)
{
    bool known = operation < OPERATION_MAX && operation_rows[operation].text;
    return &operation_rows[known ? operation : OPERATION_NONE];
}

/* True if it drops what it names, which is then one thing. */
static inline bool operation_drops(uint32_t operation)
{
    return operation_row(operation)->objects[0].access == ACCESS_DROP;
}

struct cost_row {
    enum operation operation; /* the operation of this line, NONE if several share it */
    enum measure measure;
};
#define COST_LINE(LINE, measure) +1
enum {
    COST_KINDS = 0
#include "proto/operations.def"
};
extern const struct cost_row cost_rows[COST_KINDS];

#endif
