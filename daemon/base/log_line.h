/* log_line: a line of the log as bytes, in one of three formats.
 *   text      2026-11-28T07:53:46.120Z warning net: ...      (or "<4>net: ..." under a journal)
 *   json      {"time":"...","level":"warning","program":"engram-acceld","message":"net: ..."}
 *   journald  MESSAGE=net: ...\nPRIORITY=4\n                  fields as sd_journal_send takes them
 * Fields beside the text are members of the object, or ENGRAM_NAME=value; a text line leaves them
 * out, its text says what they say. No byte of a text can end a line, a string or a field.
 * Owner:  base; no state. Thread: any. Errors: none; what does not fit is cut. */
#ifndef ENGRAM_BASE_LOG_LINE_H
#define ENGRAM_BASE_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOG_LINE_BYTES = 2560, LOG_FIELDS_MAX = 24 };

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* "operation": "knn". The name is of lower case letters, digits and _. */
struct log_field {
    const char *name;
    const char *text; /* NULL: number is meant */
    uint64_t number;
};

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_JOURNALD };

struct log_line {
    enum log_level level;
    enum log_format format;
    bool under_journal;  /* text: the reader of stderr takes priorities and has its own time */
    uint64_t time_ns;    /* of the calendar's clock */
    const char *program; /* json only */
    const char *text;
    const struct log_field *fields;
    unsigned field_count;
};

/* Writes the line, with its closing newline; returns its length. */
size_t log_line_lay_out(const struct log_line *l, char out[LOG_LINE_BYTES]);

#endif
