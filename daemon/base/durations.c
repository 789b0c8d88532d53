#include "daemon/base/durations.h"

#include <stdlib.h>
#include <string.h>

#define MOST_US UINT64_C(1000000000)

bool durations_parse(const char *text, struct duration_bounds *out)
{
    struct duration_bounds read = {0};
    uint64_t before = 0;
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        size_t digits = strspn(text, "0123456789");
        if (!digits || digits > 10 || (text[digits] && text[digits] != ' ')) return false;
        uint64_t us = strtoull(text, NULL, 10);
        if (us <= before || us > MOST_US || read.count == DURATIONS_BOUNDS_MAX) return false;
        read.ns[read.count++] = us * 1000;
        before = us;
        text += digits;
    }
    if (!read.count) return false;
    if (out) *out = read;
    return true;
}
