/* error: the reason of a failure, which the handle keeps until the next failure. */
#include <stdio.h>

#include "client/client.h"

static bool retryable(ea_status code, uint32_t detail)
{
    if (detail == EA_DETAIL_BODY_TOO_LARGE) return false;
    return code == EA_RESOURCE_EXHAUSTED || code == EA_UNAVAILABLE || code == EA_ABORTED ||
           code == EA_DEADLINE_EXCEEDED;
}

static void note_fill(struct note *note, ea_status code, uint32_t detail, const char *format,
                      va_list args)
{
    note->code = code;
    note->detail = detail;
    note->retry_after_ms = note->loaded_percent = 0;
    note->version = note->instance = note->generation = 0;
    note->retryable = retryable(code, detail);
    vsnprintf(note->text, sizeof note->text, format, args);
}

ea_status ea_note_set(struct note *note, ea_status code, uint32_t detail, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    note_fill(note, code, detail, format, args);
    va_end(args);
    return code;
}

ea_status ea_fail(ea_client *c, ea_status code, uint32_t detail, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    note_fill(&c->error, code, detail, format, args);
    va_end(args);
    return code;
}

ea_status ea_fail_null(ea_client *c, const char *name)
{
    return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_NONE, "%s: NULL", name);
}

ea_status ea_fail_note(ea_client *c, const struct note *note)
{
    c->error = *note;
    return note->code;
}

const char *ea_error_text(const ea_client *c)
{
    return c ? c->error.text : "no handle";
}

uint32_t ea_error_detail(const ea_client *c)
{
    return c ? c->error.detail : 0;
}

bool ea_error_retryable(const ea_client *c)
{
    return c && c->error.retryable;
}

uint32_t ea_error_retry_after_ms(const ea_client *c)
{
    return c ? c->error.retry_after_ms : 0;
}

uint32_t ea_error_loaded_percent(const ea_client *c)
{
    return c ? c->error.loaded_percent : 0;
}

uint64_t ea_error_version(const ea_client *c)
{
    return c ? c->error.version : 0;
}

void ea_error_state(const ea_client *c, ea_state *out)
{
    ea_state state = {0};
    if (!c || !out) return;
    state.instance = c->error.instance;
    state.generation = c->error.generation;
    state.version = c->error.version;
    ea_copy_struct(out, c->sizes.state, &state, sizeof state);
}
