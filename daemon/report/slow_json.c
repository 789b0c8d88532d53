#include "daemon/report/slow_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <cjson/cJSON.h>

#include "daemon/base/fault.h"
#include "daemon/report/metrics.h"

struct slow_number {
    const char *name;
    uint64_t value;
};

static bool add_numbers(cJSON *to, const struct wire_slow *s, uint64_t now_ns)
{
    const struct slow_number numbers[] = {
        {"number", s->number},
        {"ago_ns", now_ns > s->answered_ns ? now_ns - s->answered_ns : 0},
        {"total_ns", s->total_ns},
        {"queue_ns", s->queue_ns},
        {"run_ns", s->run_ns},
        {"copy_ns", s->copy_ns},
        {"predicted_ns", s->predicted_ns},
        {"batch", s->batch},
        {"queries", s->queries},
        {"rows", s->rows},
        {"dimension", s->dimension},
        {"k", s->k},
        {"request_bytes", s->request_bytes},
        {"reply_bytes", s->reply_bytes},
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ok &= cJSON_AddNumberToObject(to, numbers[i].name, (double)numbers[i].value) != NULL;
    return ok;
}

static bool add_texts(cJSON *to, const struct wire_slow *s, bool names)
{
    char id[24]; /* a number of 64 bits is no number of JavaScript's */
    const char *operation = operation_row(s->operation)->text;
    bool ok = cJSON_AddStringToObject(to, "operation", operation ? operation : "other") &&
              cJSON_AddStringToObject(to, "space", s->space) &&
              cJSON_AddStringToObject(to, "backend", metrics_backend_name(s->backend)) &&
              cJSON_AddStringToObject(to, "reason", metrics_reason_name(s->reason)) &&
              cJSON_AddStringToObject(to, "status", status_name(s->code)) &&
              cJSON_AddStringToObject(to, "detail", detail_name(s->detail));
    if (!ok || !names) return ok;
    snprintf(id, sizeof id, "%" PRIu64, s->request_id);
    return cJSON_AddStringToObject(to, "name", s->name) &&
           cJSON_AddStringToObject(to, "peer", s->peer) &&
           cJSON_AddStringToObject(to, "request_id", id);
}

char *slow_json(const struct slow_copy *s, bool names)
{
    cJSON *all = fault_here("slow: json") ? NULL : cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(all, "requests");
    bool ok = list && cJSON_AddNumberToObject(all, "total", (double)s->total);
    for (uint32_t i = 0; i < s->count && ok; i++) {
        cJSON *one = cJSON_CreateObject();
        ok = cJSON_AddItemToArray(list, one) && add_numbers(one, &s->requests[i], s->now_ns) &&
             add_texts(one, &s->requests[i], names);
    }
    char *text = ok ? cJSON_PrintUnformatted(all) : NULL;
    cJSON_Delete(all);
    return text;
}
