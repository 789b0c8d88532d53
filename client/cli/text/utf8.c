#include "client/cli/text/utf8.h"

#include "proto/plain_text.h"

unsigned utf8_length(const unsigned char *s)
{
    uint32_t value;
    return plain_text_character(s, 4, &value);
}

unsigned utf8_shown(const unsigned char *s)
{
    return plain_text_shown((const char *)s);
}

void utf8_tame(char *text)
{
    plain_text_tame(text);
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
