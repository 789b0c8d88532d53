#include "client/cli/text/json.h"

#include "proto/plain_text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

void json_init(struct json *j, FILE *out)
{
    *j = (struct json){.out = out};
}

static void write_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *s = text; *s;) {
        uint32_t value = 0;
        unsigned length = plain_text_character(s, 4, &value);
        if (length == 0)
            fputs("\\ufffd", out);
        else if (value == '"' || value == '\\')
            fprintf(out, "\\%c", (char)value);
        else if (plain_text_controls(value))
            fprintf(out, "\\u%04x", value);
        else
            fwrite(s, 1, length, out);
        s += length ? length : 1;
    }
    fputc('"', out);
}

static void begin_value(struct json *j, const char *key)
{
    if (j->depth) {
        bool *filled = &j->filled[j->depth - 1];
        if (*filled) fputc(',', j->out);
        *filled = true;
        assert((key != NULL) == (j->closing[j->depth - 1] == '}'));
    }
    if (!key) return;
    write_string(j->out, key);
    fputc(':', j->out);
}

static void end_value(struct json *j)
{
    if (j->depth == 0) fputc('\n', j->out);
}

static void open_scope(struct json *j, const char *key, char opening, char closing)
{
    begin_value(j, key);
    assert(j->depth < JSON_DEPTH_MAX);
    fputc(opening, j->out);
    j->filled[j->depth] = false;
    j->closing[j->depth++] = closing;
}

void json_object(struct json *j, const char *key)
{
    open_scope(j, key, '{', '}');
}

void json_array(struct json *j, const char *key)
{
    open_scope(j, key, '[', ']');
}

void json_end(struct json *j)
{
    assert(j->depth > 0);
    fputc(j->closing[--j->depth], j->out);
    end_value(j);
}

void json_string(struct json *j, const char *key, const char *text)
{
    if (!text) {
        json_null(j, key);
        return;
    }
    begin_value(j, key);
    write_string(j->out, text);
    end_value(j);
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
    begin_value(j, key);
    fprintf(j->out, "%" PRIu64, value);
    end_value(j);
}

void json_bool(struct json *j, const char *key, bool value)
{
    begin_value(j, key);
    fputs(value ? "true" : "false", j->out);
    end_value(j);
}

void json_null(struct json *j, const char *key)
{
    begin_value(j, key);
    fputs("null", j->out);
    end_value(j);
}

static void write_number(struct json *j, const char *key, double value, int digits)
{
    begin_value(j, key);
    if (isfinite(value))
        fprintf(j->out, "%.*g", digits, value);
    else
        fputs("null", j->out);
    end_value(j);
}

void json_float(struct json *j, const char *key, float value)
{
    write_number(j, key, (double)value, 9);
}

void json_double(struct json *j, const char *key, double value)
{
    write_number(j, key, value, 17);
}

static bool ids_are_strings;

void json_ids_are_strings(void)
{
    ids_are_strings = true;
}

void json_id(struct json *j, const char *key, uint64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, id);
    if (ids_are_strings)
        json_string(j, key, text);
    else
        json_u64(j, key, id);
}
