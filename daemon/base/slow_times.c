#include "daemon/base/slow_times.h"

#include <stdlib.h>
#include <string.h>

enum { MS_MAX = 3600000 };

static uint64_t ns_of(uint64_t ms)
{
    return ms ? ms * 1000000 : UINT64_MAX;
}

/* The operation that clients ask for under a name of so many bytes; OPERATION_NONE: none. */
static uint32_t find(const char *name, size_t bytes)
{
    for (uint32_t i = 1; i < OPERATION_MAX; i++) {
        const struct operation_row *row = operation_row(i);
        if (row->text && !row->internal && strlen(row->text) == bytes &&
            memcmp(row->text, name, bytes) == 0)
            return i;
    }
    return OPERATION_NONE;
}

bool slow_times_parse(const char *text, uint32_t ms, uint64_t over_ns[OPERATION_MAX])
{
    uint64_t times[OPERATION_MAX];
    for (uint32_t i = 0; i < OPERATION_MAX; i++)
        times[i] = operation_row(i)->text ? ns_of(ms) : UINT64_MAX;
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        size_t name = strcspn(at, "= ");
        uint32_t operation = find(at, name);
        const char *digits = at + name + 1;
        if (!operation || at[name] != '=') return false;
        size_t count = strspn(digits, "0123456789");
        if (!count || count > 7 || (digits[count] && digits[count] != ' ')) return false;
        unsigned long value = strtoul(digits, NULL, 10);
        if (value > MS_MAX) return false;
        times[operation] = ns_of(value);
        at = digits + count;
    }
    memcpy(over_ns, times, sizeof times);
    return true;
}

bool slow_times_valid(const char *text)
{
    uint64_t times[OPERATION_MAX];
    return slow_times_parse(text, 0, times);
}
