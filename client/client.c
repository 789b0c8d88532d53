/* client: the handle and its options. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "client/client.h"

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

ea_status ea_open_sized(const ea_options *options, const ea_sizes *sizes, ea_client **out)
{
    ea_options own = {0};
    const ea_options *o = &own;
    if (!out || !sizes || sizes->sizes < sizeof sizes->sizes) return EA_INVALID_ARGUMENT;
    ea_sizes known;
    ea_copy_struct(&known, sizeof known, sizes, sizes->sizes);
    if (options) ea_copy_struct(&own, sizeof own, options, known.options);
    if (!options_valid(o)) return EA_INVALID_ARGUMENT;
    ea_client *c = NULL; /* aligned because the input buffer is */
    if (posix_memalign((void **)&c, EA_ALIGN, sizeof *c)) return EA_RESOURCE_EXHAUSTED;
    memset(c, 0, sizeof *c);
    c->fd = c->cancels.wake_fd = -1;
    c->sizes = known;
    c->next_id = 1;
    c->nearest_deadline_ns = INT64_MAX;
    c->socket_path = copy_text(o->socket_path, default_socket);
    c->tcp_host = copy_text(o->tcp_host, "");
    c->tcp_port = o->tcp_port;
    c->space = copy_text(o->space, "");
    c->client_name = copy_text(o->client_name, "libengram_accel");
    if (o->token_bytes) memcpy(c->token, o->token, o->token_bytes);
    c->token_bytes = o->token_bytes;
    c->connect_timeout_us = o->connect_timeout_us ? o->connect_timeout_us : EA_CONNECT_DEFAULT_US;
    ea_set_timeout(c, o->timeout_us);
    ea_watch_init(c, o->watch_percent);
    if (!c->socket_path || !c->tcp_host || !c->space || !c->client_name ||
        ea_cancels_init(&c->cancels)) {
        ea_close(c);
        return EA_RESOURCE_EXHAUSTED;
    }
    *out = c;
    return EA_OK;
}

void ea_close(ea_client *c)
{
    if (!c) return;
    c->closing = true; /* callbacks cannot send from here on */
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
    ea_cancels_finish(&c->cancels);
    if (c->addresses) freeaddrinfo(c->addresses);
    explicit_bzero(c->token, sizeof c->token);
    free(c);
}

ea_status ea_connect(ea_client *c)
{
    if (!c) return EA_INVALID_ARGUMENT;
    return ea_connect_until(c, 0);
}

void ea_set_timeout(ea_client *c, uint64_t timeout_us)
{
    if (c) c->timeout_us = timeout_us ? timeout_us : EA_TIMEOUT_DEFAULT_US;
}

uint64_t ea_instance(const ea_client *c)
{
    return c ? c->instance : 0;
}

uint64_t ea_generation(const ea_client *c)
{
    return c ? c->generation : 0;
}
