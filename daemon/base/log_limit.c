#include "daemon/base/log_limit.h"

#include <stddef.h>

#define SECOND_NS UINT64_C(1000000000)

static const char others[] = "others";

static struct log_kind *find(struct log_limit *l, const char *format)
{
    uint64_t mixed = (uint64_t)(uintptr_t)format * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t at = (uint32_t)(mixed >> 40) % (LOG_KINDS - 1);
    for (uint32_t i = 0; i < LOG_KINDS - 1; i++) {
        struct log_kind *k = &l->kinds[(at + i) % (LOG_KINDS - 1)];
        if (!k->format) k->format = format;
        if (k->format == format) return k;
    }
    l->kinds[LOG_KINDS - 1].format = others;
    return &l->kinds[LOG_KINDS - 1];
}

static bool is_over(const struct log_kind *k, uint64_t now_ns)
{
    return now_ns - k->since_ns >= SECOND_NS;
}

static uint32_t begin_second(struct log_kind *k, uint64_t now_ns)
{
    uint32_t left_out = k->left_out;
    k->since_ns = now_ns;
    k->lines = k->left_out = 0;
    return left_out;
}

bool log_limit_take(struct log_limit *l, const char *format, uint64_t now_ns, uint32_t *left_out)
{
    struct log_kind *k = find(l, format);
    *left_out = is_over(k, now_ns) ? begin_second(k, now_ns) : 0;
    bool may = k->lines < LOG_KIND_LINES;
    k->lines += may;
    k->left_out += !may;
    return may;
}

const char *log_limit_over(struct log_limit *l, uint64_t now_ns, uint32_t *left_out,
                           uint64_t *next_ns)
{
    *next_ns = UINT64_MAX;
    for (struct log_kind *k = l->kinds; k < l->kinds + LOG_KINDS; k++) {
        if (k->lines < LOG_KIND_LINES) continue;
        if (is_over(k, now_ns)) {
            *left_out = begin_second(k, now_ns);
            if (*left_out) return k->format;
        } else if (k->since_ns + SECOND_NS < *next_ns) {
            *next_ns = k->since_ns + SECOND_NS;
        }
    }
    return NULL;
}
