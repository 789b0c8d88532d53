#include "daemon/report/metrics_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/fault.h"

enum { FIRST_BYTES = 64 << 10, LINE_BYTES_MAX = 512, SECONDS_BYTES = 32 };

void metrics_text_finish(struct metrics_text *t)
{
    free(t->data);
    *t = (struct metrics_text){0};
}

static bool make_room(struct metrics_text *t)
{
    if (t->failed) return false;
    if (t->capacity - t->bytes >= LINE_BYTES_MAX) return true;
    size_t capacity = t->capacity ? 2 * t->capacity : FIRST_BYTES;
    char *data = capacity > METRICS_TEXT_BYTES_MAX || fault_here("metrics: text")
                     ? NULL
                     : realloc(t->data, capacity);
    t->failed = !data;
    if (!data) return false;
    t->data = data;
    t->capacity = capacity;
    return true;
}

static void append(struct metrics_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void append(struct metrics_text *t, const char *format, ...)
{
    if (!make_room(t)) return;
    va_list values;
    va_start(values, format);
    int n = vsnprintf(t->data + t->bytes, LINE_BYTES_MAX, format, values);
    va_end(values);
    if (n < 0 || n >= LINE_BYTES_MAX)
        t->failed = true;
    else
        t->bytes += (size_t)n;
}

static const char *seconds_text(uint64_t ns, char text[SECONDS_BYTES])
{
    int n =
        snprintf(text, SECONDS_BYTES, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
    while (text[n - 1] == '0')
        n--;
    if (text[n - 1] == '.') n--;
    text[n] = 0;
    return text;
}

void metrics_text_family(struct metrics_text *t, const char *name, const char *type,
                         const char *help)
{
    t->name = name;
    append(t, "# HELP %s %s\n", name, help);
    append(t, "# TYPE %s %s\n", name, type);
}

void metrics_text_count(struct metrics_text *t, const char *labels, uint64_t value)
{
    if (labels)
        append(t, "%s{%s} %" PRIu64 "\n", t->name, labels, value);
    else
        append(t, "%s %" PRIu64 "\n", t->name, value);
}

void metrics_text_seconds(struct metrics_text *t, const char *labels, uint64_t ns)
{
    char text[SECONDS_BYTES];
    seconds_text(ns, text);
    if (labels)
        append(t, "%s{%s} %s\n", t->name, labels, text);
    else
        append(t, "%s %s\n", t->name, text);
}

void metrics_text_histogram(struct metrics_text *t, const char *labels,
                            const struct duration_bounds *bounds, const struct durations *d)
{
    char text[SECONDS_BYTES];
    uint64_t seen = 0;
    const char *open = labels ? labels : "", *comma = labels ? "," : "";
    for (uint32_t i = 0; i < bounds->count; i++) {
        seen += d->buckets[i];
        append(t, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", t->name, open, comma,
               seconds_text(bounds->ns[i], text), seen);
    }
    seen += d->buckets[bounds->count];
    append(t, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", t->name, open, comma, seen);
    const char *left = labels ? "{" : "", *right = labels ? "}" : "";
    append(t, "%s_sum%s%s%s %s\n", t->name, left, open, right, seconds_text(d->sum_ns, text));
    append(t, "%s_count%s%s%s %" PRIu64 "\n", t->name, left, open, right, seen);
}
