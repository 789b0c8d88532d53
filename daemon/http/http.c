#include "daemon/http/http.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <microhttpd.h>

#include "daemon/base/fault.h"
#include "daemon/base/thread.h"
#include "daemon/http/access.h"
#include "daemon/http/exchange.h"
#include "daemon/http/http_page.h"
#include "daemon/http/listening.h"
#include "daemon/http/places.h"

enum {
    HEAD_BYTES_MAX = 16 << 10, /* of a request's first lines and headers, and what they need */
    SWEEP_PLACES_MS = 100,
};
#define PLACE_NS       UINT64_C(10000000000)
#define PLACE_CROWD_NS UINT64_C(500000000)

struct http {
    const struct clock *clock;
    struct listening listening;
    char listen[CONFIG_TEXT_MAX]; /* metrics.listen, as it was read */
    int stop_fd;                  /* an eventfd that ends the thread */
    struct MHD_Daemon *mhd;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* of guard */
    struct guard guard;
    struct exchange exchange;
    struct http_places places; /* the thread's, and all behind it */
    struct http_page page;
};

/* ---------------------------------------------------------------- a request */

static enum MHD_Result note_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct http_head *head = cls;
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
        head->hosts++;
        head->host = value ? value : "";
    } else if (strcasecmp(name, MHD_HTTP_HEADER_AUTHORIZATION) == 0) {
        head->authorizations++;
        head->authorization = value ? value : "";
    }
    return MHD_YES;
}

/* Called when a request's head is there; what is answered now is answered without its body, and the
 * connection is closed behind it. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **request)
{
    struct http *h = cls;
    struct http_head head = {.method = method, .path = url, .version = version};
    enum guarded_page which = PAGE_HEALTHZ;
    const union MHD_ConnectionInfo *place =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (place->socket_context) ((struct http_place *)place->socket_context)->asked = true;
    MHD_get_connection_values(c, MHD_HEADER_KIND, note_header, &head);
    pthread_mutex_lock(&h->lock);
    unsigned status = guard_judge(&h->guard, &head, &which);
    bool names = !h->guard.open;
    pthread_mutex_unlock(&h->lock);
    return http_page_answer(&h->page, c, status, which, names) ? MHD_YES : MHD_NO;
}

static void on_connection(void *cls, struct MHD_Connection *c, void **place,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *h = cls;
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *place = places_take(&h->places, fd->connect_fd, clock_read_ns(h->clock));
    else if (*place)
        places_give(&h->places, *place);
}

/* ---------------------------------------------------------------- the thread */

/* How long the server may sleep. When it was full it listens again only in the run after one in
 * which connections ended. */
static int sleep_ms(struct http *h, bool some_ended)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (some_ended) return 0;
    if (MHD_get_timeout(h->mhd, &ms) == MHD_YES && ms < SWEEP_PLACES_MS) return (int)ms;
    return h->places.taken || http_page_keeps(&h->page) ? SWEEP_PLACES_MS : -1;
}

static void *serve(void *owner)
{
    struct http *h = owner;
    const union MHD_DaemonInfo *epoll = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd at[] = {{.fd = epoll->epoll_fd, .events = POLLIN},
                          {.fd = h->stop_fd, .events = POLLIN}};
    uint64_t ended = 0;
    pthread_setname_np(pthread_self(), "http");
    while (!at[1].revents) {
        bool some_ended = h->places.given_total != ended;
        ended = h->places.given_total;
        if (poll(at, 2, sleep_ms(h, some_ended)) < 0 && errno != EINTR) break;
        MHD_run(h->mhd);
        places_sweep(&h->places, clock_read_ns(h->clock));
        http_page_forget(&h->page);
    }
    MHD_stop_daemon(h->mhd);
    return NULL;
}

static bool start_mhd(struct http *h)
{
    if (fault_here("http: server")) return false;
    h->mhd = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, h->listening.fd,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)PLACES, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    return h->mhd != NULL;
}

static bool start_thread(struct http *h)
{
    h->running = !fault_here("http: thread") && !thread_start(&h->thread, serve, h);
    return h->running;
}

/* ---------------------------------------------------------------- life */

static enum status start(struct http *h, const struct http_options *o, struct failure *f)
{
    enum status st = access_read(o->config, &h->guard, f);
    if (!st) st = listening_open(o->config, &h->listening, f);
    if (st) return st;
    h->stop_fd = fault_here("http: eventfd") ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->stop_fd >= 0 && exchange_init(&h->exchange, o->wake, o->owner) && start_mhd(h) &&
        start_thread(h))
        return STATUS_OK;
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_SYSTEM,
                       "metrics.listen: no memory, thread or descriptor to serve HTTP");
}

enum status http_create(const struct http_options *options, struct http **out, struct failure *f)
{
    struct http *h = fault_here("http: allocate") ? NULL : calloc(1, sizeof *h);
    if (!h)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "metrics.listen: no memory");
    h->clock = options->clock;
    h->listening.fd = h->stop_fd = -1;
    strcpy(h->listen, options->config->metrics_listen);
    pthread_mutex_init(&h->lock, NULL);
    places_init(&h->places, options->time_ns ? options->time_ns : PLACE_NS, PLACE_CROWD_NS);
    http_page_init(&h->page, options->readiness, &h->exchange, &h->places, options->clock);
    enum status st = start(h, options, f);
    if (st)
        http_destroy(h);
    else
        *out = h;
    return st;
}

void http_destroy(struct http *h)
{
    if (!h) return;
    http_quiesce(h);
    listening_release(&h->listening); /* before the server closes the socket */
    if (h->running) {
        uint64_t one = 1;
        while (write(h->stop_fd, &one, sizeof one) < 0 && errno == EINTR)
            continue;
        pthread_join(h->thread, NULL);
    } else if (h->mhd) {
        MHD_stop_daemon(h->mhd);
    }
    /* the server has closed it */
    if (h->mhd) h->listening.fd = -1;
    listening_close(&h->listening);
    if (h->stop_fd >= 0) close(h->stop_fd);
    http_page_finish(&h->page);
    exchange_finish(&h->exchange);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

enum status http_renew(const struct http_options *options, struct http **h, struct failure *f)
{
    const struct config *c = options->config;
    struct http *fresh = NULL;
    struct guard guard;
    if (*h && strcmp((*h)->listen, c->metrics_listen) == 0) {
        enum status st = access_read(c, &guard, f);
        if (st) return st;
        pthread_mutex_lock(&(*h)->lock);
        (*h)->guard = guard;
        pthread_mutex_unlock(&(*h)->lock);
        return STATUS_OK;
    }
    enum status st = c->metrics_listen[0] ? http_create(options, &fresh, f) : STATUS_OK;
    if (st) return st;
    http_destroy(*h);
    *h = fresh;
    return STATUS_OK;
}

void http_turn(struct http *h, void (*look)(void *owner, struct look *out), void *owner)
{
    if (h) exchange_serve(&h->exchange, look, owner);
}

void http_quiesce(struct http *h)
{
    if (h && h->exchange.look) exchange_close(&h->exchange);
}

const char *http_address(const struct http *h)
{
    return h->listening.text;
}
