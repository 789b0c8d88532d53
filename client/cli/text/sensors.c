#include "client/cli/text/sensors.h"

#include <stdarg.h>
#include <string.h>

static const struct {
    const char *name;
    ea_slowed bit;
} reasons[] = {
    {"setting", EA_SLOWED_BY_SETTING},
    {"power_cap", EA_SLOWED_BY_POWER_LIMIT},
    {"hardware", EA_SLOWED_BY_HARDWARE},
    {"sync", EA_SLOWED_BY_STEP},
    {"heat", EA_SLOWED_BY_HEAT},
    {"hardware_heat", EA_SLOWED_BY_HARDWARE_HEAT},
    {"power_brake", EA_SLOWED_BY_POWER_BRAKE},
};
enum { REASONS = sizeof reasons / sizeof *reasons };

static void add(struct sensors_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends one more, behind a comma; what does not fit is cut. */
static void add(struct sensors_text *t, const char *format, ...)
{
    size_t used = strlen(t->c);
    va_list args;
    if (used) used += (size_t)snprintf(t->c + used, sizeof t->c - used, ", ");
    if (used >= sizeof t->c) return;
    va_start(args, format);
    vsnprintf(t->c + used, sizeof t->c - used, format, args);
    va_end(args);
}

static bool is_slowed(const ea_gpu_sensors *s, int reason)
{
    return s->slowed >= 0 && (s->slowed & (int64_t)reasons[reason].bit) != 0;
}

const char *sensors_now(struct sensors_text *t, const ea_gpu_sensors *s)
{
    struct text a;
    *t = (struct sensors_text){""};
    if (s->celsius >= 0) add(t, "%s °C", format_count(&a, (uint64_t)s->celsius));
    if (s->milliwatts >= 0 && s->limit_milliwatts >= 0)
        add(t, "%.0f of %.0f W", (double)s->milliwatts / 1e3, (double)s->limit_milliwatts / 1e3);
    else if (s->milliwatts >= 0)
        add(t, "%.0f W", (double)s->milliwatts / 1e3);
    if (s->megahertz >= 0) add(t, "%s MHz", format_count(&a, (uint64_t)s->megahertz));
    if (s->memory_megahertz >= 0)
        add(t, "its memory %s MHz", format_count(&a, (uint64_t)s->memory_megahertz));
    if (s->busy_percent >= 0) add(t, "busy %s %%", format_count(&a, (uint64_t)s->busy_percent));
    return t->c;
}

const char *sensors_slowed(struct sensors_text *t, const ea_gpu_sensors *s)
{
    *t = (struct sensors_text){""};
    for (int i = 0; i < REASONS; i++)
        if (is_slowed(s, i)) add(t, "%s", reasons[i].name);
    return t->c;
}

void sensors_print(const ea_gpu_sensors *s, int indent)
{
    struct sensors_text t;
    struct text a, b;
    if (*sensors_now(&t, s)) printf("%*s%s\n", indent, "", t.c);
    if (s->used_bytes >= 0 && s->all_bytes >= 0)
        printf("%*s%s of the card's %s in use by all programs\n", indent, "",
               format_bytes(&a, (uint64_t)s->used_bytes), format_bytes(&b, (uint64_t)s->all_bytes));
    if (s->ecc_corrected >= 0 && s->ecc_uncorrected >= 0)
        printf("%*sECC errors: %s corrected, %s not\n", indent, "",
               format_count(&a, (uint64_t)s->ecc_corrected),
               format_count(&b, (uint64_t)s->ecc_uncorrected));
    if (*sensors_slowed(&t, s)) printf("%*sslowed by: %s\n", indent, "", t.c);
}

static void known(struct json *j, const char *key, int64_t value)
{
    if (value < 0)
        json_null(j, key);
    else
        json_u64(j, key, (uint64_t)value);
}

void sensors_json(struct json *j, const ea_gpu_sensors *s)
{
    json_object(j, "sensors");
    known(j, "celsius", s->celsius);
    known(j, "milliwatts", s->milliwatts);
    known(j, "limit_milliwatts", s->limit_milliwatts);
    known(j, "megahertz", s->megahertz);
    known(j, "memory_megahertz", s->memory_megahertz);
    known(j, "busy_percent", s->busy_percent);
    known(j, "memory_busy_percent", s->memory_busy_percent);
    known(j, "used_bytes", s->used_bytes);
    known(j, "all_bytes", s->all_bytes);
    known(j, "ecc_corrected", s->ecc_corrected);
    known(j, "ecc_uncorrected", s->ecc_uncorrected);
    if (s->slowed < 0) json_null(j, "slowed");
    if (s->slowed >= 0) json_array(j, "slowed");
    for (int i = 0; i < REASONS; i++)
        if (is_slowed(s, i)) json_string(j, NULL, reasons[i].name);
    if (s->slowed >= 0) json_end(j);
    json_end(j);
}
