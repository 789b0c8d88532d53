/* metrics_text: Prometheus' text format (version 0.0.4), written into memory that grows.
 * Owner:  the caller; all zero is empty.
 * Thread: one at a time.
 * Errors: text.failed: there was no memory, or more than TEXT_BYTES_MAX; the text is not whole. */
#ifndef ENGRAM_REPORT_METRICS_TEXT_H
#define ENGRAM_REPORT_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/durations.h"

enum { METRICS_TEXT_BYTES_MAX = 8 << 20 };

struct metrics_text {
    char *data;
    size_t bytes, capacity;
    bool failed;
    const char *name; /* of the family that is written now */
};

void metrics_text_finish(struct metrics_text *t);
/* Begins a family; all of its samples follow. type: "counter", "gauge", "histogram". */
void metrics_text_family(struct metrics_text *t, const char *name, const char *type,
                         const char *help);
/* labels: "gpu=\"0\"", or NULL. A label's value must need no escapes. */
void metrics_text_count(struct metrics_text *t, const char *labels, uint64_t value);
/* ns as seconds, exactly. */
void metrics_text_seconds(struct metrics_text *t, const char *labels, uint64_t ns);
void metrics_text_histogram(struct metrics_text *t, const char *labels,
                            const struct duration_bounds *bounds, const struct durations *d);

#endif
