/* plain_text: which characters of a text from elsewhere may be shown as they are. Whatever prints
 * such a text, a log, a table or an error, in the daemon or at its client, asks here.
 * Owner:  nobody; pure functions over the caller's bytes.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_PROTO_PLAIN_TEXT_H
#define ENGRAM_PROTO_PLAIN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the bytes of the UTF-8 character at text (RFC 3629: shortest form, no surrogate), of
 * which at most `left` are there, and its value; 0: it is none. A zero byte is a character: what
 * ends with one need not be measured before. */
static inline unsigned plain_text_character(const void *text, size_t left, uint32_t *value)
{
    const uint8_t *s = (const uint8_t *)text;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned bytes = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (s[0] > 0xf4 || bytes == 0 || bytes > left) return 0;
    uint32_t v = bytes == 1 ? s[0] : s[0] & (0x7fu >> bytes);
    for (unsigned i = 1; i < bytes; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        v = v << 6 | (s[i] & 0x3fu);
    }
    if (v < least[bytes] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) return 0;
    *value = v;
    return bytes;
}

/* True for what controls a terminal (C0, DEL, C1), ends a line (U+2028, U+2029), or turns the
 * direction of writing, so that a line shows something else than it says. */
static inline bool plain_text_controls(uint32_t value)
{
    if (value < 0x20 || (value >= 0x7f && value < 0xa0)) return true;
    if (value == 0x61c || value == 0x200e || value == 0x200f) return true;
    return (value >= 0x2028 && value <= 0x202e) || (value >= 0x2066 && value <= 0x2069);
}

/* The bytes of the character at s, which ends with a zero; 0: it is none, or not to be shown. */
static inline unsigned plain_text_shown(const char *s)
{
    uint32_t value;
    unsigned bytes = plain_text_character(s, 4, &value);
    return bytes && !plain_text_controls(value) ? bytes : 0;
}

/* Replaces each byte of what is not to be shown by '?'. A text that was cut in the middle of a
 * character is whole afterwards. */
static inline void plain_text_tame(char *text)
{
    while (*text) {
        unsigned bytes = plain_text_shown(text);
        if (bytes == 0) *text = '?';
        text += bytes ? bytes : 1;
    }
}

#endif
