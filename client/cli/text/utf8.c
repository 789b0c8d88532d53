#include "client/cli/text/utf8.h"

unsigned utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80) return 1;
    unsigned length = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
                      : (s[0] & 0xf0) == 0xe0        ? 3
                      : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                     : 0;
    for (unsigned i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return length;
}

unsigned utf8_shown(const unsigned char *s)
{
    if (s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0)) return 0;
    return utf8_length(s);
}

void utf8_tame(char *text)
{
    while (*text) {
        unsigned length = utf8_shown((const unsigned char *)text);
        if (length == 0) *text = '?';
        text += length ? length : 1;
    }
}

void utf8_put(FILE *out, const char *text)
{
    while (*text) {
        unsigned length = utf8_shown((const unsigned char *)text);
        if (length)
            fwrite(text, 1, length, out);
        else
            fputc('?', out);
        text += length ? length : 1;
    }
}
