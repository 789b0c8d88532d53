#include "daemon/base/operations.h"

#include <stddef.h>

#define GROUPS_ALONE      false
#define GROUPS_JOINED     true
#define PRESENCE_NEEDED   true
#define PRESENCE_OPTIONAL false
#define NEEDS_COLLECTION  .kind = OBJECT_COLLECTION, .needed = true
#define NEEDS_ROWS        .kind = OBJECT_COLLECTION
#define NEEDS_NOTHING     .kind = OBJECT_NONE
#define NEEDS_GRAPH       .kind = OBJECT_GRAPH, .needed = true
#define NEEDS_ATTRACTOR   .kind = OBJECT_ATTRACTOR, .needed = true

const struct operation_row operation_rows[OPERATION_MAX] = {
    [OPERATION_NONE] = {.cost = COST_BYTES},
#define ANSWERED(NAME, number, name, request) \
    [OPERATION_##NAME] = {.text = #name, .cost = COST_BYTES, .answered = true},
#define OPERATION(NAME, number, name, what, how, groups, LINE, request, reply) \
    [OPERATION_##NAME] = {                                                     \
        .text = #name,                                                         \
        .objects = {{NEEDS_##what, .access = ACCESS_##how}},                   \
        .cost = COST_##LINE,                                                   \
        .joined = GROUPS_##groups,                                             \
    },
#define ALSO(NAME, slot, what, how, presence) \
    [OPERATION_##NAME].objects[slot] = {OBJECT_##what, ACCESS_##how, PRESENCE_##presence},
#define INTERNAL(NAME, number, name, LINE) \
    [OPERATION_##NAME] = {.text = #name, .cost = COST_##LINE, .internal = true},
#include "proto/operations.def"
};

/* A cost line has the name of its operation. */
#define OPERATION_BYTES OPERATION_NONE
const struct cost_row cost_rows[COST_KINDS] = {
#define COST_LINE(LINE, what) \
    [COST_##LINE] = {.operation = OPERATION_##LINE, .measure = MEASURE_##what},
#include "proto/operations.def"
};
