#include "client/cli/failure.h"

#include "client/cli/text/json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct {
    bool wanted, noted, with_status, printed;
    int code;
    char message[1200];
    ea_status status;
    uint32_t detail, retry_after_ms, loaded_percent;
    bool retryable;
    FILE *usage, *kept; /* what is printed now; standard error meanwhile */
    char *usage_text;
    size_t usage_bytes;
} failure;

/* argp ends the process by itself. */
static void at_exit(int code, void *unused)
{
    (void)unused;
    if (!failure.usage) return;
    if (failure.kept) stderr = failure.kept;
    fclose(failure.usage);
    fputs(failure.usage_text, stderr);
    const char *line = strncmp(failure.usage_text, "engram-accel", 12) == 0
                           ? strstr(failure.usage_text, ": ")
                           : NULL;
    if (line) {
        char message[1200];
        snprintf(message, sizeof message, "%.*s", (int)strcspn(line + 2, "\n"), line + 2);
        failure_note(code, message);
    }
    failure_print(code);
    fflush(stdout);
    free(failure.usage_text);
    failure.usage = NULL;
}

void failure_install(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "--format=json") == 0 ||
            (strcmp(argv[i], "--format") == 0 && strcmp(next, "json") == 0))
            failure.wanted = true;
        if (strcmp(argv[i], "--") == 0) break;
    }
    if (!failure.wanted) return;
    failure.usage = open_memstream(&failure.usage_text, &failure.usage_bytes);
    on_exit(at_exit, NULL);
}

void failure_usage_begin(void)
{
    failure.kept = stderr;
    if (failure.usage) stderr = failure.usage;
}

void failure_usage_end(void)
{
    stderr = failure.kept;
}

void failure_note(int code, const char *message)
{
    if (failure.noted && (failure.code || !code)) return;
    failure.noted = true;
    failure.code = code;
    snprintf(failure.message, sizeof failure.message, "%s", message);
}

void failure_note_status(ea_client *c, ea_status status)
{
    if (failure.with_status || (failure.noted && failure.code)) return;
    failure.with_status = true;
    failure.status = status;
    failure.detail = ea_error_detail(c);
    failure.retryable = ea_error_retryable(c);
    failure.retry_after_ms = ea_error_retry_after_ms(c);
    failure.loaded_percent = ea_error_loaded_percent(c);
}

void failure_print(int code)
{
    if (!failure.wanted || !code || failure.printed) return;
    failure.printed = true;
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_object(&j, "error");
    json_u64(&j, "exit", (uint64_t)code);
    json_string(&j, "message", failure.noted ? failure.message : "failed");
    json_string(&j, "status", failure.with_status ? ea_status_name(failure.status) : NULL);
    json_string(&j, "detail", failure.detail ? ea_detail_name(failure.detail) : NULL);
    json_u64(&j, "detail_number", failure.detail);
    json_bool(&j, "retryable", failure.retryable);
    json_u64(&j, "retry_after_ms", failure.retry_after_ms);
    if (failure.detail == EA_DETAIL_LOADING) json_u64(&j, "loaded_percent", failure.loaded_percent);
    json_end(&j);
    json_end(&j);
}
