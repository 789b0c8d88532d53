/* What of a text from elsewhere is shown as it is. */
#include "proto/plain_text.h"

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

/* UTF-8 of any value, also of those that have none: what an encoder without scruples writes. */
static unsigned encode(uint32_t v, char *out)
{
    if (v < 0x80) return (out[0] = (char)v, 1);
    if (v < 0x800) return (out[0] = (char)(0xc0 | v >> 6), out[1] = (char)(0x80 | (v & 63)), 2);
    unsigned bytes = v < 0x10000 ? 3 : 4;
    out[0] = (char)((bytes == 3 ? 0xe0 : 0xf0) | v >> (6 * (bytes - 1)));
    for (unsigned i = 1; i < bytes; i++)
        out[i] = (char)(0x80 | (v >> (6 * (bytes - 1 - i)) & 63));
    return bytes;
}

Test(plain_text, every_character)
{
    for (uint32_t v = 1; v < 0x120000; v++) {
        char text[5] = {0};
        uint32_t value = 0;
        unsigned bytes = encode(v, text);
        bool is_one = v <= 0x10ffff && (v < 0xd800 || v > 0xdfff);
        cr_assert_eq(plain_text_character(text, bytes, &value), is_one ? bytes : 0, "U+%04X", v);
        cr_assert(!is_one || value == v, "U+%04X", v);
        cr_assert_eq(plain_text_character(text, bytes - 1, &value), 0, "U+%04X is cut", v);
    }
}

Test(plain_text, controls_and_turns_are_not_shown)
{
    static const uint32_t hidden[] = {1,      9,      0x1b,   0x1f,   0x7f,   0x80,
                                      0x9b,   0x9f,   0x61c,  0x200e, 0x200f, 0x2028,
                                      0x2029, 0x202a, 0x202e, 0x2066, 0x2069};
    static const uint32_t shown[] = {0x20,   0x7e,   0xa0,   0xe9,   0x5d0,   0x2027,
                                     0x202f, 0x2065, 0x206a, 0x20ac, 0x1f600, 0x10ffff};
    char text[5];
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        text[encode(hidden[i], text)] = 0;
        cr_expect_eq(plain_text_shown(text), 0, "U+%04X", hidden[i]);
    }
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        text[encode(shown[i], text)] = 0;
        cr_expect_eq(plain_text_shown(text), strlen(text), "U+%04X", shown[i]);
    }
}

Test(plain_text, tamed)
{
    static const char *const pairs[][2] = {
        {"", ""},
        {"a\033[2Jb\n", "a?[2Jb?"},
        {"\xc3\xa9 \xc3", "\xc3\xa9 ?"},        /* cut */
        {"\xc0\xaf\xed\xa0\x80\xf5", "??????"}, /* no UTF-8 */
        {"\xc2\x9b"
         "31m\x9b",
         "??31m?"},                                    /* C1, whole and raw */
        {"user\xe2\x80\xaetxt.exe", "user???txt.exe"}, /* right to left */
        {"\xe2\x81\xa6x\xe2\x81\xa9\xe2\x82\xac", "???x???\xe2\x82\xac"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", pairs[i][0]);
        plain_text_tame(text);
        cr_expect_str_eq(text, pairs[i][1], "%zu: %s", i, text);
    }
}
