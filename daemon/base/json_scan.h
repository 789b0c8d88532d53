/* json_scan: refuses what cJSON lets pass but JSON does not (control characters, 01, NUL), what it
 * would cut short (\u0000 in a string), and nesting deeper than a bound; says where.
 * Owner:  base/config, before the real parser. Thread: any; no state. */
#ifndef ENGRAM_BASE_JSON_SCAN_H
#define ENGRAM_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

struct json_fault {
    size_t offset;      /* of the offending byte */
    const char *reason; /* a constant */
};

/* False and *out when the text cannot be JSON that we take; true: ask the parser. */
bool json_scan(const char *text, size_t bytes, unsigned depth_max, struct json_fault *out);

/* 1-based place of an offset; columns count bytes. */
void json_place(const char *text, size_t offset, unsigned *line, unsigned *column);

#endif
