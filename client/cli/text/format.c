#include "client/cli/text/format.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *format_count(struct text *t, uint64_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n), out = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) t->c[out++] = ',';
        t->c[out++] = digits[i];
    }
    t->c[out] = 0;
    return t->c;
}

const char *format_many(struct text *t, uint64_t n, const char *what)
{
    size_t used = strlen(format_count(t, n));
    snprintf(t->c + used, sizeof t->c - used, " %s%s", what, n == 1 ? "" : "s");
    return t->c;
}

/* Prints three significant digits, without a point from 100 on. 999.6 would print as 1000, so the
 * caller uses the next unit from 999.5 on. */
static const char *three_digits(struct text *t, double value, const char *unit)
{
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(t->c, sizeof t->c, "%.*f %s", decimals, value, unit);
    return t->c;
}

const char *format_bytes(struct text *t, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(t->c, sizeof t->c, "%" PRIu64 " B", bytes);
        return t->c;
    }
    double value = (double)bytes / 1024;
    unsigned unit = 0;
    for (; value >= 1023.5 && unit < 5; unit++)
        value /= 1024;
    return three_digits(t, value, units[unit]);
}

const char *format_ns(struct text *t, uint64_t ns)
{
    if (ns < 1000) {
        snprintf(t->c, sizeof t->c, "%" PRIu64 " ns", ns);
        return t->c;
    }
    if (ns < 999500) return three_digits(t, (double)ns / 1e3, "µs");
    if (ns < 999500000) return three_digits(t, (double)ns / 1e6, "ms");
    if (ns < 59950000000) return three_digits(t, (double)ns / 1e9, "s");
    uint64_t seconds = (ns + 500000000) / 1000000000, minutes = seconds / 60;
    if (minutes < 60)
        snprintf(t->c, sizeof t->c, "%" PRIu64 " min %02" PRIu64 " s", minutes, seconds % 60);
    else if (minutes < 48 * 60)
        snprintf(t->c, sizeof t->c, "%" PRIu64 " h %02" PRIu64 " min", minutes / 60, minutes % 60);
    else
        snprintf(t->c, sizeof t->c, "%" PRIu64 " d %02" PRIu64 " h", minutes / 1440,
                 minutes / 60 % 24);
    return t->c;
}

static bool exactly;

void format_exactly(void)
{
    exactly = true;
}

const char *format_score(struct text *t, float score)
{
    double magnitude = fabs((double)score);
    if (exactly && isfinite(score))
        snprintf(t->c, sizeof t->c, "%.9g", (double)score);
    else if (!isfinite(score))
        snprintf(t->c, sizeof t->c, "-");
    else if (magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e6))
        snprintf(t->c, sizeof t->c, "%.6e", (double)score);
    else
        snprintf(t->c, sizeof t->c, "%.6f", (double)score);
    return t->c;
}

const char *format_ratio(struct text *t, double ratio)
{
    if (isfinite(ratio) && ratio > 0 && ratio < 1e6)
        snprintf(t->c, sizeof t->c, "%.*f", ratio < 9.995 ? 2 : ratio < 99.95 ? 1 : 0, ratio);
    else if (ratio >= 1e6 && isfinite(ratio))
        snprintf(t->c, sizeof t->c, "%.1e", ratio);
    else
        snprintf(t->c, sizeof t->c, "-");
    return t->c;
}

const char *format_fine_ns(struct text *t, double ns)
{
    if (!isfinite(ns) || ns <= 0)
        snprintf(t->c, sizeof t->c, "-");
    else if (ns < 0.0995)
        snprintf(t->c, sizeof t->c, "%.2g ns", ns);
    else if (ns < 999.5)
        three_digits(t, ns, "ns");
    else
        format_ns(t, ns < 1e18 ? (uint64_t)(ns + 0.5) : (uint64_t)1e18);
    return t->c;
}

const char *format_rate(struct text *t, double ns_each, const char *unit)
{
    static const char prefixes[] = " kMGTP";
    double each_second = 1e9 / ns_each;
    if (!(ns_each > 0) || !isfinite(each_second) || each_second >= 999.5e15) {
        snprintf(t->c, sizeof t->c, "-");
        return t->c;
    }
    unsigned prefix = 0;
    for (; each_second >= 999.5; prefix++)
        each_second /= 1000;
    three_digits(t, each_second, "");
    size_t used = strlen(t->c);
    snprintf(t->c + used, sizeof t->c - used, "%.*s%s", prefix > 0, &prefixes[prefix], unit);
    return t->c;
}

bool parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    if (!*text) return false;
    for (const char *at = text; *at; at++) {
        if (*at < '0' || *at > '9') return false;
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    }
    if (value < min || value > max) return false;
    *out = value;
    return true;
}

bool parse_number(const char *text, double min, double max, double *out)
{
    char *end;
    if (!*text || strchr(" \t\n\r\v\f", *text)) return false;
    double value = strtod(text, &end);
    if (*end || !isfinite(value) || value < min || value > max) return false;
    *out = value;
    return true;
}

bool parse_address(const char *text, char *host, size_t host_bytes, uint16_t *port)
{
    const char *colon = strrchr(text, ':'), *start = text;
    uint64_t number;
    if (!colon || !parse_u64(colon + 1, 1, 65535, &number)) return false;
    size_t length = (size_t)(colon - text);
    if (*text == '[') {
        if (length < 3 || text[length - 1] != ']') return false;
        start++;
        length -= 2;
    } else if (memchr(text, ':', length)) {
        return false; /* ::1:80 is ambiguous */
    }
    if (length == 0 || length >= host_bytes) return false;
    memcpy(host, start, length);
    host[length] = 0;
    *port = (uint16_t)number;
    return true;
}
