#include "daemon/base/log_line.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/plain_text.h"

/* Of a line, what its text may take, and what the text of one field may. What a text line held
 * before there were formats fits. */
enum { TEXT_BYTES = 1088, FIELD_BYTES = 200, NAME_BYTES = 40 };

static const char *const names[] = {"error", "warning", "info", "debug"};
static const int priorities[] = {3, 4, 6, 7}; /* syslog's numbers */

/* What has been written; end: where the closing bytes begin, for which there is always room. */
struct laid {
    char *at, *end;
};

static void put_bytes(struct laid *to, const char *bytes, size_t count)
{
    if ((size_t)(to->end - to->at) < count) return;
    memcpy(to->at, bytes, count);
    to->at += count;
}

static void put_text(struct laid *to, const char *text)
{
    put_bytes(to, text, strlen(text));
}

/* What is not to be shown becomes \xNN, a byte at a time; all else is as it came. */
static void put_plain(struct laid *to, const char *text, const char *end)
{
    uint32_t value;
    while (*text && end - to->at > 16) {
        unsigned bytes = plain_text_character(text, 4, &value);
        bool is_shown = bytes && !plain_text_controls(value);
        if (!bytes) bytes = 1;
        if (is_shown) put_bytes(to, text, bytes);
        for (unsigned i = 0; i < bytes && !is_shown; i++)
            to->at += snprintf(to->at, 5, "\\x%02x", (unsigned char)text[i]);
        text += bytes;
    }
}

/* The inside of a JSON string: what is not to be shown is escaped; what is not UTF-8 becomes
 * U+FFFD. */
static void put_quoted(struct laid *to, const char *text, const char *end)
{
    uint32_t value;
    while (*text && end - to->at > 7) {
        unsigned bytes = plain_text_character(text, 4, &value);
        if (!bytes)
            put_text(to, "\\ufffd");
        else if (value == '"' || value == '\\')
            to->at += snprintf(to->at, 3, "\\%c", (char)value);
        else if (plain_text_controls(value))
            to->at += snprintf(to->at, 7, "\\u%04x", value);
        else
            put_bytes(to, text, bytes);
        text += bytes ? bytes : 1;
    }
}

static const char *limit(const struct laid *to, size_t bytes)
{
    return (size_t)(to->end - to->at) < bytes ? to->end : to->at + bytes;
}

static void put_time(struct laid *to, uint64_t time_ns)
{
    char text[48];
    time_t seconds = (time_t)(time_ns / 1000000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + n, sizeof text - n, ".%03uZ", (unsigned)(time_ns / 1000000 % 1000));
    put_text(to, text);
}

static void lay_out_text(const struct log_line *l, struct laid *to)
{
    char start[16];
    if (l->under_journal) {
        snprintf(start, sizeof start, "<%d>", priorities[l->level]);
    } else {
        put_time(to, l->time_ns);
        snprintf(start, sizeof start, " %-7s ", names[l->level]);
    }
    put_text(to, start);
    put_plain(to, l->text, limit(to, TEXT_BYTES));
}

static void put_json_field(struct laid *to, const struct log_field *f)
{
    char start[NAME_BYTES + 32];
    if (f->text) {
        snprintf(start, sizeof start, ",\"%.*s\":\"", NAME_BYTES, f->name);
        put_text(to, start);
        put_quoted(to, f->text, limit(to, FIELD_BYTES));
        put_text(to, "\"");
    } else {
        snprintf(start, sizeof start, ",\"%.*s\":%" PRIu64, NAME_BYTES, f->name, f->number);
        put_text(to, start);
    }
}

static void lay_out_json(const struct log_line *l, struct laid *to)
{
    put_text(to, "{\"time\":\"");
    put_time(to, l->time_ns);
    put_text(to, "\",\"level\":\"");
    put_text(to, names[l->level]);
    put_text(to, "\",\"program\":\"");
    put_quoted(to, l->program, limit(to, NAME_BYTES));
    put_text(to, "\",\"message\":\"");
    put_quoted(to, l->text, limit(to, TEXT_BYTES));
    put_text(to, "\"");
    for (unsigned i = 0; i < l->field_count; i++)
        if (limit(to, NAME_BYTES + FIELD_BYTES + 8) < to->end) put_json_field(to, &l->fields[i]);
    *to->at++ = '}';
}

static void put_journal_field(struct laid *to, const struct log_field *f)
{
    char number[24];
    put_text(to, "ENGRAM_");
    for (const char *c = f->name; *c && c < f->name + NAME_BYTES; c++)
        *to->at++ = (char)toupper((unsigned char)*c);
    put_text(to, "=");
    snprintf(number, sizeof number, "%" PRIu64, f->number);
    put_plain(to, f->text ? f->text : number, limit(to, FIELD_BYTES));
    put_text(to, "\n");
}

static void lay_out_fields(const struct log_line *l, struct laid *to)
{
    char priority[24];
    snprintf(priority, sizeof priority, "PRIORITY=%d\n", priorities[l->level]);
    put_text(to, priority);
    for (unsigned i = 0; i < l->field_count; i++)
        if (limit(to, TEXT_BYTES + NAME_BYTES + FIELD_BYTES + 16) < to->end)
            put_journal_field(to, &l->fields[i]);
    put_text(to, "MESSAGE=");
    put_plain(to, l->text, limit(to, TEXT_BYTES));
}

size_t log_line_lay_out(const struct log_line *l, char out[LOG_LINE_BYTES])
{
    struct laid to = {out, out + LOG_LINE_BYTES - 2}; /* a brace and the newline */
    switch (l->format) {
    case LOG_FORMAT_TEXT: lay_out_text(l, &to); break;
    case LOG_FORMAT_JSON: lay_out_json(l, &to); break;
    case LOG_FORMAT_JOURNALD: lay_out_fields(l, &to); break;
    }
    *to.at++ = '\n';
    return (size_t)(to.at - out);
}
