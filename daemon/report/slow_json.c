#include "daemon/report/slow_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/report/metrics.h"

struct slow_number {
    const char *name;
    uint64_t value;
};

/* Whatever bytes a text has, a string comes of it. */
static void put_text(FILE *to, const char *name, const char *text)
{
    fprintf(to, ",\"%s\":\"", name);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
            fprintf(to, "\\u%04x", c);
        else
            putc_unlocked(c, to);
    }
    putc_unlocked('"', to);
}

static void put_numbers(FILE *to, const struct wire_slow *s, uint64_t now_ns)
{
    const struct slow_number numbers[] = {
        {"ago_ns", now_ns > s->answered_ns ? now_ns - s->answered_ns : 0},
        {"total_ns", s->total_ns},
        {"queue_ns", s->queue_ns},
        {"run_ns", s->run_ns},
        {"copy_ns", s->copy_ns},
        {"predicted_ns", s->predicted_ns},
        {"batch", s->batch},
        {"queries", s->queries},
        {"rows", s->rows},
        {"dimension", s->dimension},
        {"k", s->k},
        {"request_bytes", s->request_bytes},
        {"reply_bytes", s->reply_bytes},
    };
    fprintf(to, "\"number\":%" PRIu64, s->number);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        fprintf(to, ",\"%s\":%" PRIu64, numbers[i].name, numbers[i].value);
}

static void put_texts(FILE *to, const struct wire_slow *s, bool names)
{
    char id[24]; /* a number of 64 bits is no number of JavaScript's */
    const char *operation = operation_row(s->operation)->text;
    put_text(to, "operation", operation ? operation : "other");
    put_text(to, "space", s->space);
    put_text(to, "backend", metrics_backend_name(s->backend));
    put_text(to, "reason", metrics_reason_name(s->reason));
    put_text(to, "status", status_name(s->code));
    put_text(to, "detail", detail_name(s->detail));
    if (!names) return;
    snprintf(id, sizeof id, "%" PRIu64, s->request_id);
    put_text(to, "name", s->name);
    put_text(to, "peer", s->peer);
    put_text(to, "request_id", id);
}

char *slow_json(const struct slow_copy *s, bool names)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = fault_here("slow: json") ? NULL : open_memstream(&text, &bytes);
    if (!to) return NULL;
    fprintf(to, "{\"total\":%" PRIu64 ",\"requests\":[", s->total);
    for (uint32_t i = 0; i < s->count; i++) {
        fputs(i ? ",{" : "{", to);
        put_numbers(to, &s->requests[i], s->now_ns);
        put_texts(to, &s->requests[i], names);
        putc_unlocked('}', to);
    }
    fputs("]}\n", to);
    bool whole = !ferror(to) && !fault_here("slow: text");
    if (!fclose(to) && whole) return text;
    free(text);
    return NULL;
}
