/* What NVML says of the cards, as Prometheus reads it. */
#include <stdio.h>
#include <string.h>

#include "daemon/report/metrics.h"

enum { LABEL_BYTES = 160 };
/* metrics_text_seconds writes billionths of a unit. */
#define ONE       UINT64_C(1000000000)
#define THOUSANDS (ONE / 1000)
#define HUNDREDS  (ONE / 100)

struct sensor_series {
    const char *name, *type, *help;
    const char *label; /* beside the card's; "": none */
    enum share_sensor sensor;
    uint64_t scale, times; /* value * scale: billionths; or, if scale is 0, value * times */
};

/* Those of one name stand together. */
static const struct sensor_series sensor_series[] = {
    {"engram_accel_gpu_temperature_celsius", "gauge", "Of the chip.", "", SENSOR_CELSIUS, 0, 1},
    {"engram_accel_gpu_power_watts", "gauge", "Power that the card takes.", "", SENSOR_MILLIWATTS,
     THOUSANDS, 0},
    {"engram_accel_gpu_power_limit_watts", "gauge", "Power that it may take.", "",
     SENSOR_LIMIT_MILLIWATTS, THOUSANDS, 0},
    {"engram_accel_gpu_clock_hertz", "gauge", "Clocks as they are.", ",of=\"sm\"", SENSOR_MEGAHERTZ,
     0, 1000000},
    {"engram_accel_gpu_clock_hertz", "gauge", "Clocks as they are.", ",of=\"memory\"",
     SENSOR_MEMORY_MEGAHERTZ, 0, 1000000},
    {"engram_accel_gpu_busy_ratio", "gauge",
     "Part of the time with a kernel of any process, or an access to memory.", ",of=\"sm\"",
     SENSOR_BUSY_PERCENT, HUNDREDS, 0},
    {"engram_accel_gpu_busy_ratio", "gauge",
     "Part of the time with a kernel of any process, or an access to memory.", ",of=\"memory\"",
     SENSOR_MEMORY_BUSY_PERCENT, HUNDREDS, 0},
    {"engram_accel_gpu_device_used_bytes", "gauge", "VRAM in use by all processes.", "",
     SENSOR_MEMORY_USED_BYTES, 0, 1},
    {"engram_accel_gpu_device_bytes", "gauge", "VRAM of the card.", "", SENSOR_MEMORY_BYTES, 0, 1},
    {"engram_accel_gpu_ecc_errors_total", "counter",
     "Errors of memory since the driver was loaded.", ",kind=\"corrected\"", SENSOR_ECC_CORRECTED,
     0, 1},
    {"engram_accel_gpu_ecc_errors_total", "counter",
     "Errors of memory since the driver was loaded.", ",kind=\"uncorrected\"",
     SENSOR_ECC_UNCORRECTED, 0, 1},
};

static const struct {
    const char *name;
    enum share_slowed bit;
} slowed[] = {
    {"setting", SLOWED_BY_SETTING},
    {"power_cap", SLOWED_BY_POWER_CAP},
    {"hardware", SLOWED_BY_HARDWARE},
    {"sync", SLOWED_BY_SYNC},
    {"heat", SLOWED_BY_HEAT},
    {"hardware_heat", SLOWED_BY_HARDWARE_HEAT},
    {"power_brake", SLOWED_BY_POWER_BRAKE},
};

static bool is_known(const struct metrics_card *c, enum share_sensor which)
{
    return c->now.sensors_known >> which & 1;
}

/* Begins the family before its first sample. */
static void begin(struct metrics_text *t, const struct sensor_series *s, const char **begun)
{
    if (*begun && strcmp(*begun, s->name) == 0) return;
    metrics_text_family(t, s->name, s->type, s->help);
    *begun = s->name;
}

static void render_slowed(const struct metrics_view *v, struct metrics_text *t)
{
    const struct sensor_series family = {.name = "engram_accel_gpu_slowed",
                                         .type = "gauge",
                                         .help = "1: clocks are lower for that reason."};
    const char *begun = NULL;
    char labels[LABEL_BYTES];
    for (uint32_t n = 0; n < v->card_count; n++) {
        if (!is_known(&v->cards[n], SENSOR_SLOWED)) continue;
        begin(t, &family, &begun);
        for (size_t i = 0; i < sizeof slowed / sizeof *slowed; i++) {
            snprintf(labels, sizeof labels, "gpu=\"%u\",reason=\"%s\"", n, slowed[i].name);
            metrics_text_count(t, labels,
                               (v->cards[n].now.sensors[SENSOR_SLOWED] & slowed[i].bit) != 0);
        }
    }
}

void metrics_render_sensors(const struct metrics_view *v, struct metrics_text *out)
{
    const char *begun = NULL;
    char labels[LABEL_BYTES];
    for (size_t i = 0; i < sizeof sensor_series / sizeof *sensor_series; i++) {
        const struct sensor_series *s = &sensor_series[i];
        for (uint32_t n = 0; n < v->card_count; n++) {
            if (!is_known(&v->cards[n], s->sensor)) continue;
            uint64_t value = v->cards[n].now.sensors[s->sensor];
            begin(out, s, &begun);
            snprintf(labels, sizeof labels, "gpu=\"%u\"%s", n, s->label);
            if (s->scale)
                metrics_text_seconds(out, labels, value * s->scale);
            else
                metrics_text_count(out, labels, value * s->times);
        }
    }
    render_slowed(v, out);
}
