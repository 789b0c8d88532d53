#include "daemon/base/json_scan.h"

#include <string.h>

struct scan {
    const char *text;
    size_t bytes, at;
    struct json_fault *fault;
};

static bool refuse(struct scan *s, size_t offset, const char *reason)
{
    *s->fault = (struct json_fault){.offset = offset, .reason = reason};
    return false;
}

static bool is_digit(const struct scan *s, size_t at)
{
    return at < s->bytes && s->text[at] >= '0' && s->text[at] <= '9';
}

/* Skips a string: s->at is at the opening quote, afterwards behind the closing one. */
static bool scan_string(struct scan *s)
{
    size_t start = s->at++;
    for (; s->at < s->bytes; s->at++) {
        unsigned char ch = (unsigned char)s->text[s->at];
        if (ch == '"') {
            s->at++;
            return true;
        }
        if (ch < 0x20) return refuse(s, s->at, "control character in a string");
        if (ch != '\\') continue;
        if (s->bytes - s->at >= 6 && memcmp(s->text + s->at, "\\u0000", 6) == 0)
            return refuse(s, s->at, "zero character in a string");
        s->at++; /* an escaped quote does not end the string */
    }
    return refuse(s, start, "string without an end");
}

/* -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? ; s->at is at its first character. */
static bool scan_number(struct scan *s)
{
    size_t start = s->at;
    if (s->text[s->at] == '-') s->at++;
    if (!is_digit(s, s->at)) return refuse(s, start, "not a number");
    if (s->text[s->at] == '0' && is_digit(s, s->at + 1))
        return refuse(s, start, "number with a leading zero");
    while (is_digit(s, s->at))
        s->at++;
    if (s->at < s->bytes && s->text[s->at] == '.') {
        if (!is_digit(s, ++s->at)) return refuse(s, start, "not a number");
        while (is_digit(s, s->at))
            s->at++;
    }
    if (s->at < s->bytes && (s->text[s->at] == 'e' || s->text[s->at] == 'E')) {
        s->at++;
        if (s->at < s->bytes && (s->text[s->at] == '+' || s->text[s->at] == '-')) s->at++;
        if (!is_digit(s, s->at)) return refuse(s, start, "not a number");
        while (is_digit(s, s->at))
            s->at++;
    }
    return true;
}

bool json_scan(const char *text, size_t bytes, unsigned depth_max, struct json_fault *out)
{
    struct scan s = {.text = text, .bytes = bytes, .fault = out};
    unsigned depth = 0;
    while (s.at < bytes) {
        unsigned char ch = (unsigned char)text[s.at];
        if (ch == '"') {
            if (!scan_string(&s)) return false;
        } else if (ch == '-' || is_digit(&s, s.at)) {
            if (!scan_number(&s)) return false;
        } else {
            if (ch < 0x20 && ch != '\n' && ch != '\r' && ch != '\t')
                return refuse(&s, s.at, ch ? "control character" : "NUL byte");
            if ((ch == '{' || ch == '[') && ++depth > depth_max)
                return refuse(&s, s.at, "nested too deeply");
            if ((ch == '}' || ch == ']') && depth > 0) depth--;
            s.at++;
        }
    }
    return true;
}

void json_place(const char *text, size_t offset, unsigned *line, unsigned *column)
{
    size_t start = 0;
    *line = 1;
    for (size_t i = 0; i < offset; i++)
        if (text[i] == '\n') {
            ++*line;
            start = i + 1;
        }
    *column = (unsigned)(offset - start) + 1;
}
