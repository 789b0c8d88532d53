/* screens: what kNN did with rows in int8, as a table and as JSON.
 * Owner:  the caller. Thread: one at a time. Errors: none. */
#ifndef ENGRAM_CLI_TEXT_SCREENS_H
#define ENGRAM_CLI_TEXT_SCREENS_H

#include "client/cli/text/json.h"
#include "client/cli/text/table.h"
#include "client/engram_accel.h"

/* A line for each collection and backend with such searches; an empty one before the table. */
void screens_print(const ea_collection_screens *list, uint32_t count, uint32_t left_out,
                   void (*print)(struct table *t));
/* Members of the object that is open: "screens", and how many were left out. */
void screens_json(struct json *j, const ea_collection_screens *list, uint32_t count,
                  uint32_t left_out);
/* A member that is an object. */
void screens_backend_json(struct json *j, const char *name, const ea_screens *s);

#endif
