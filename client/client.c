#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/un.h>

static const char default_socket[] = "/run/engram-accel/engram-accel.sock";

static char *copy_text(const char *text, const char *instead)
{
    return strdup(text ? text : instead);
}

static bool options_valid(const ea_options *o)
{
    if (o->tcp_host ? o->tcp_port == 0 : o->tcp_port != 0) return false;
    if (o->socket_path && strlen(o->socket_path) >= sizeof((struct sockaddr_un *)0)->sun_path)
        return false;
    if (o->space && strlen(o->space) >= sizeof((engram_accel_v1_HelloRequest *)0)->space)
        return false;
    if (o->client_name &&
        strlen(o->client_name) >= sizeof((engram_accel_v1_HelloRequest *)0)->client_name)
        return false;
    return o->token_bytes <= sizeof((ea_client *)0)->token && (o->token || !o->token_bytes);
}

ea_status ea_open(const ea_options *options, ea_client **out)
{
    static const ea_options none;
    const ea_options *o = options ? options : &none;
    if (!out || !options_valid(o)) return EA_INVALID_ARGUMENT;
    ea_client *c = NULL; /* aligned for the input buffer's sake */
    if (posix_memalign((void **)&c, EA_ALIGN, sizeof *c)) return EA_RESOURCE_EXHAUSTED;
    memset(c, 0, sizeof *c);
    c->fd = -1;
    c->next_id = 1;
    c->nearest_deadline_ns = INT64_MAX;
    c->socket_path = copy_text(o->socket_path, default_socket);
    c->tcp_host = copy_text(o->tcp_host, "");
    c->tcp_port = o->tcp_port;
    c->space = copy_text(o->space, "");
    c->client_name = copy_text(o->client_name, "libengram_accel");
    if (o->token_bytes) memcpy(c->token, o->token, o->token_bytes);
    c->token_bytes = o->token_bytes;
    c->connect_timeout_ms = o->connect_timeout_ms ? o->connect_timeout_ms : 1000;
    c->timeout_ms = o->timeout_ms;
    if (!c->socket_path || !c->tcp_host || !c->space || !c->client_name) {
        ea_close(c);
        return EA_RESOURCE_EXHAUSTED;
    }
    *out = c;
    return EA_OK;
}

void ea_close(ea_client *c)
{
    if (!c) return;
    c->closing = true; /* callbacks cannot send any more */
    struct note note;
    ea_note_set(&note, EA_CANCELLED, EA_DETAIL_CANCELLED_BY_CLIENT, "the handle was closed");
    ea_lose(c, &note, false);
    ea_pump(c, 0);
    while (c->free_list) {
        struct client_request *r = c->free_list;
        c->free_list = r->next;
        free(r);
    }
    free(c->socket_path);
    free(c->tcp_host);
    free(c->space);
    free(c->client_name);
    explicit_bzero(c->token, sizeof c->token);
    free(c);
}

ea_status ea_connect(ea_client *c)
{
    if (!c) return EA_INVALID_ARGUMENT;
    return ea_connect_until(c, 0);
}

void ea_set_timeout(ea_client *c, uint32_t timeout_ms)
{
    if (c) c->timeout_ms = timeout_ms;
}

uint64_t ea_instance(const ea_client *c)
{
    return c ? c->instance : 0;
}

void ea_result_free(ea_result *r)
{
    if (!r) return;
    free(r->memory);
    *r = (ea_result){0};
}

int64_t ea_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- errors ---- */

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
    note->retry_after_ms = 0;
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
