/* json_scan: refuses what cJSON accepts although it is not JSON (control characters, 01, NUL),
 * what it would cut short (\u0000 in a string), and nesting deeper than a limit; says where.
 * Owner:  base/config, before the real parser. Thread: any; no state. */
#ifndef ENGRAM_BASE_JSON_SCAN_H
#define ENGRAM_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

struct json_fault {
    size_t offset;      /* of the offending byte */
    const char *reason; /* a constant */
};

/* False, with *out set, if the text is certainly not JSON that we accept. True: the parser
 * decides. */
bool json_scan(const char *text, size_t bytes, unsigned depth_max, struct json_fault *out);

/* Finds the 1-based line and column of an offset; columns count bytes. */
void json_place(const char *text, size_t offset, unsigned *line, unsigned *column);

#endif
