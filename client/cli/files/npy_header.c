#include "client/cli/files/npy_header.h"

#include <stdio.h>
#include <string.h>

/* A cursor over the dictionary. `error` is set once, by the first syntax error. */
struct cursor {
    const char *at, *start, *end;
    char *error;
    size_t error_bytes;
};

static bool cursor_fail(struct cursor *c, const char *what)
{
    snprintf(c->error, c->error_bytes, "header: %s at byte %zu of the dictionary", what,
             (size_t)(c->at - c->start));
    return false;
}

static void cursor_skip_spaces(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool cursor_take(struct cursor *c, char wanted)
{
    cursor_skip_spaces(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool cursor_expect(struct cursor *c, char wanted)
{
    if (cursor_take(c, wanted)) return true;
    char what[32];
    snprintf(what, sizeof what, "expected '%c'", wanted);
    return cursor_fail(c, what);
}

static bool cursor_word(struct cursor *c, const char *word)
{
    size_t bytes = strlen(word);
    cursor_skip_spaces(c);
    if ((size_t)(c->end - c->at) < bytes || memcmp(c->at, word, bytes) != 0) return false;
    c->at += bytes;
    return true;
}

static bool cursor_string(struct cursor *c, char *out, size_t out_bytes)
{
    cursor_skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return cursor_fail(c, "expected a quoted string");
    char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote) {
        unsigned char byte = (unsigned char)*c->at;
        if (byte < 0x20 || byte > 0x7e || byte == '\\')
            return cursor_fail(c, "unexpected character in a string");
        if (n + 1 == out_bytes) return cursor_fail(c, "a string is too long");
        out[n++] = *c->at++;
    }
    if (c->at == c->end) return cursor_fail(c, "a string does not end");
    c->at++;
    out[n] = 0;
    return true;
}

static bool cursor_u64(struct cursor *c, uint64_t *out)
{
    uint64_t value = 0;
    cursor_skip_spaces(c);
    if (c->at == c->end || *c->at < '0' || *c->at > '9')
        return cursor_fail(c, "expected a whole number");
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*c->at - '0'), &value))
            return cursor_fail(c, "a number is too large");
    *out = value;
    return true;
}

static bool parse_shape(struct cursor *c, struct npy_header *out)
{
    if (!cursor_expect(c, '(')) return false;
    while (!cursor_take(c, ')')) {
        if (out->axes == 4) return cursor_fail(c, "the shape has more than 4 axes");
        if (!cursor_u64(c, &out->shape[out->axes])) return false;
        out->axes++;
        if (cursor_take(c, ',')) continue;
        /* (3) is a number in Python, not a tuple. */
        if (out->axes == 1) return cursor_fail(c, "expected ','");
        if (!cursor_expect(c, ')')) return false;
        break;
    }
    return true;
}

static bool parse_value(struct cursor *c, const char *key, unsigned *seen, struct npy_header *out)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned which = 0;
    while (which < 3 && strcmp(keys[which], key) != 0)
        which++;
    if (which == 3) return cursor_fail(c, "unknown key");
    if (*seen & 1u << which) return cursor_fail(c, "a key comes twice");
    *seen |= 1u << which;

    if (which == 2) return parse_shape(c, out);
    if (which == 1) {
        out->fortran_order = cursor_word(c, "True");
        return out->fortran_order || cursor_word(c, "False") ||
               cursor_fail(c, "expected True or False");
    }
    cursor_skip_spaces(c);
    if (c->at < c->end && *c->at == '[')
        return cursor_fail(c, "a structured dtype is not a matrix of numbers,");
    return cursor_string(c, out->dtype, sizeof out->dtype);
}

bool npy_header_parse(const char *text, size_t bytes, struct npy_header *out, char *error,
                      size_t error_bytes)
{
    struct cursor c = {text, text, text + bytes, error, error_bytes};
    struct npy_header header = {{0}, false, 0, {0}};
    unsigned seen = 0;

    if (!cursor_expect(&c, '{')) return false;
    while (!cursor_take(&c, '}')) {
        char key[16];
        if (!cursor_string(&c, key, sizeof key)) return false;
        if (!cursor_expect(&c, ':') || !parse_value(&c, key, &seen, &header)) return false;
        if (cursor_take(&c, ',')) continue;
        if (!cursor_expect(&c, '}')) return false;
        break;
    }
    cursor_skip_spaces(&c);
    if (c.at != c.end) return cursor_fail(&c, "unexpected text after the dictionary");
    if (seen != 7) return cursor_fail(&c, "descr, fortran_order or shape is missing");
    *out = header;
    return true;
}
