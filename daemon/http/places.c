#include "daemon/http/places.h"

#include <string.h>
#include <sys/socket.h>

void places_init(struct http_places *p, uint64_t time_ns, uint64_t time_crowd_ns)
{
    memset(p, 0, sizeof *p);
    p->time_ns = time_ns;
    p->time_crowd_ns = time_crowd_ns;
    for (uint32_t i = 0; i < PLACES; i++)
        p->at[i].fd = -1;
}

struct http_place *places_take(struct http_places *p, int fd, uint64_t now_ns)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        if (p->at[i].fd >= 0) continue;
        p->at[i] = (struct http_place){.fd = fd, .since_ns = now_ns};
        p->taken++;
        p->taken_total++;
        return &p->at[i];
    }
    return NULL;
}

void places_give(struct http_places *p, struct http_place *place)
{
    place->fd = -1;
    p->taken--;
    p->given_total++;
}

static bool has_left(const struct http_place *at)
{
    char byte;
    return !at->asked && recv(at->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void places_sweep(struct http_places *p, uint64_t now_ns)
{
    uint64_t time_ns = p->taken == PLACES ? p->time_crowd_ns : p->time_ns;
    for (uint32_t i = 0; i < PLACES; i++) {
        struct http_place *at = &p->at[i];
        if (at->fd < 0 || at->cut) continue;
        bool late = now_ns - at->since_ns >= time_ns;
        if (!late && !has_left(at)) continue;
        shutdown(at->fd, SHUT_RDWR);
        at->cut = true;
        p->cut_total += late;
    }
}
