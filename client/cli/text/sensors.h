/* sensors: what NVML says of a card, as lines and as JSON.
 * Owner:  the caller. Thread: one at a time. Errors: none. */
#ifndef ENGRAM_CLI_TEXT_SENSORS_H
#define ENGRAM_CLI_TEXT_SENSORS_H

#include "client/cli/text/format.h"
#include "client/cli/text/json.h"
#include "client/engram_accel.h"

struct sensors_text {
    char c[160];
};

/* "61 °C, 313 of 700 W, 1,980 MHz, busy 87 %": what is known of these; "" if nothing is. */
const char *sensors_now(struct sensors_text *t, const ea_gpu_sensors *s);
/* "power_cap, heat", as /metrics names them; "" if clocks are not lowered, or that is not known. */
const char *sensors_slowed(struct sensors_text *t, const ea_gpu_sensors *s);
/* Lines of what is known, each behind an indent; none if nothing is. */
void sensors_print(const ea_gpu_sensors *s, int indent);
/* A member "sensors" of the object that is open; what is not known is null. */
void sensors_json(struct json *j, const ea_gpu_sensors *s);

#endif
