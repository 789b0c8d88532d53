/* path: the way by which activation came to a node, as a cell of a table or as JSON.
 * Owner:  nobody.
 * Thread: the main thread.
 * Errors: none; without memory the cell is missing. */
#ifndef ENGRAM_CLI_TEXT_PATH_H
#define ENGRAM_CLI_TEXT_PATH_H

#include "client/cli/text/json.h"
#include "client/cli/text/names.h"
#include "client/cli/text/table.h"

/* Adds "a > b > c": names, or ids where there are none. names: NULL: nothing has one. */
void path_cell(struct table *t, const struct names *names, const uint64_t *ids, uint64_t count);
/* Adds the member "path", an array of ids. */
void path_json(struct json *j, const uint64_t *ids, uint64_t count);

#endif
