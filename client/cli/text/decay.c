#include "client/cli/text/decay.h"

#include "client/cli/text/format.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_MAX 48u

bool decay_parse_list(const char *text, float *out, uint32_t max, uint32_t *count)
{
    uint32_t n = 0;
    for (;; text++) {
        char number[NUMBER_MAX];
        size_t length = strcspn(text, ",");
        double value;
        if (n == max || length >= sizeof number) return false;
        memcpy(number, text, length);
        number[length] = 0;
        if (!parse_number(number, 0, (double)FLT_MAX, &value)) return false;
        out[n++] = (float)value;
        text += length;
        if (!*text) break;
    }
    *count = n;
    return true;
}

bool decay_parse(const char *text, struct decay *out, char *error, size_t error_bytes)
{
    static const struct {
        const char *name;
        ea_decay law;
        float otherwise; /* if no parameter is given; below 0: one is required */
    } laws[] = {{"exponential", EA_DECAY_EXPONENTIAL, 0.7f},
                {"power", EA_DECAY_POWER, -1},
                {"linear", EA_DECAY_LINEAR, -1},
                {"constant", EA_DECAY_CONSTANT, 0},
                {"table", EA_DECAY_TABLE, -1}};
    enum { LAWS = sizeof laws / sizeof *laws };
    size_t length = strcspn(text, ":");
    const char *rest = text[length] ? text + length + 1 : NULL;
    unsigned i = 0;
    while (i < LAWS && (strlen(laws[i].name) != length || memcmp(laws[i].name, text, length) != 0))
        i++;
    if (i == LAWS) {
        snprintf(error, error_bytes,
                 "'%.60s' is not exponential:P, power:P, linear:P, table:F1,F2,... or constant",
                 text);
        return false;
    }
    *out = (struct decay){.law = laws[i].law};
    if (laws[i].otherwise > 0) out->parameter = laws[i].otherwise;
    if (out->law == EA_DECAY_CONSTANT) {
        if (rest) snprintf(error, error_bytes, "'%.60s': constant takes no number", text);
        return !rest;
    }
    if (!rest && laws[i].otherwise < 0) {
        snprintf(error, error_bytes, "'%.60s' needs %s", text,
                 out->law == EA_DECAY_TABLE ? "its factors, as table:0.9,0.5"
                                            : "a number, as power:1.5");
        return false;
    }
    if (out->law == EA_DECAY_TABLE) {
        if (decay_parse_list(rest, out->table, DECAY_HOPS_MAX, &out->count)) return true;
        snprintf(error, error_bytes, "'%.60s': a table has 1 to %u numbers from 0 up, with commas",
                 text, DECAY_HOPS_MAX);
        return false;
    }
    uint32_t one;
    if (!rest || decay_parse_list(rest, &out->parameter, 1, &one)) return true;
    snprintf(error, error_bytes, "'%.60s': '%.40s' is not a number from 0 up", text, rest);
    return false;
}
