#include "daemon/net/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"

#define MINUTE_NS UINT64_C(60000000000)

enum { V4_BYTES = 4, V6_BYTES = 8 };

struct peer_key peer_key_of_user(uint32_t uid)
{
    struct peer_key key = {.kind = PEER_USER};
    memcpy(key.bytes, &uid, sizeof uid);
    return key;
}

/* bytes: the four of an IPv4 address. */
static struct peer_key key_of_v4(const uint8_t *bytes)
{
    struct peer_key key = {.kind = PEER_ADDRESS, .prefix = bytes[0] == 127 ? 1 : V4_BYTES};
    memcpy(key.bytes, bytes, key.prefix);
    return key;
}

struct peer_key peer_key_of_address(const struct sockaddr *address)
{
    const uint8_t loopback[V4_BYTES] = {127};
    if (address->sa_family == AF_INET)
        return key_of_v4((const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr);
    if (address->sa_family != AF_INET6) return (struct peer_key){.kind = PEER_UNKNOWN};
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    if (IN6_IS_ADDR_LOOPBACK(v6)) return key_of_v4(loopback);
    if (IN6_IS_ADDR_V4MAPPED(v6)) return key_of_v4(v6->s6_addr + 12);
    struct peer_key key = {.kind = PEER_ADDRESS, .prefix = V6_BYTES};
    memcpy(key.bytes, v6->s6_addr, V6_BYTES);
    return key;
}

static void describe(struct peer *p, uint32_t operator_uid)
{
    char text[INET6_ADDRSTRLEN] = "?";
    uint32_t uid;
    memcpy(&uid, p->key.bytes, sizeof uid);
    switch ((enum peer_kind)p->key.kind) {
    case PEER_UNKNOWN: snprintf(p->name, sizeof p->name, "an unknown peer"); break;
    case PEER_USER:
        p->is_operator = uid == 0 || uid == operator_uid;
        snprintf(p->name, sizeof p->name, "uid %u", uid);
        break;
    case PEER_ADDRESS:
        inet_ntop(p->key.prefix == V6_BYTES ? AF_INET6 : AF_INET, p->key.bytes, text, sizeof text);
        snprintf(p->name, sizeof p->name, "%s/%d", text, p->key.prefix * 8);
        break;
    }
}

void peers_init(struct peers *p)
{
    *p = (struct peers){.operator_uid = geteuid()};
}

void peers_finish(struct peers *p)
{
    for (uint32_t i = 0; i < PEER_CHAINS; i++) {
        while (p->chains[i]) {
            struct peer *peer = p->chains[i];
            p->chains[i] = peer->next;
            free(peer);
        }
    }
}

static uint32_t chain_of(const struct peer_key *key)
{
    uint64_t halves[2];
    memcpy(halves, key->bytes, sizeof halves);
    uint64_t mixed = (halves[0] ^ halves[1] ^ key->kind) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 56);
}

_Static_assert(PEER_CHAINS == 1 << (64 - 56), "chain_of gives its upper bits");

struct peer *peers_find(struct peers *p, const struct peer_key *key)
{
    struct peer **chain = &p->chains[chain_of(key)];
    for (struct peer *peer = *chain; peer; peer = peer->next)
        if (memcmp(&peer->key, key, sizeof *key) == 0) return peer;
    struct peer *peer = fault_here("peer: struct") ? NULL : calloc(1, sizeof *peer);
    if (!peer) return NULL;
    peer->key = *key;
    describe(peer, p->operator_uid);
    peer->next = *chain;
    *chain = peer;
    return peer;
}

/* Ends p's minute if it is over. */
static void end_minute(struct peer *p, uint64_t now_ns)
{
    if (!p->logged_ns || now_ns - p->logged_ns < MINUTE_NS) return;
    if (p->log_left_out)
        log_info("net: %u lines about %s were left out (peers.log_lines)", p->log_left_out,
                 p->name);
    p->logged_ns = 0;
    p->log_lines = p->log_left_out = 0;
}

bool peer_may_log(struct peer *p, uint32_t lines_max, uint64_t now_ns)
{
    end_minute(p, now_ns);
    if (!p->logged_ns) p->logged_ns = now_ns;
    bool may = p->log_lines < lines_max;
    p->log_lines += may;
    p->log_left_out += !may;
    return may;
}

void peers_sweep(struct peers *p, bool (*forget)(void *owner, struct peer *peer), void *owner,
                 uint64_t now_ns)
{
    for (uint32_t i = 0; i < PEER_CHAINS; i++) {
        for (struct peer **at = &p->chains[i]; *at;) {
            struct peer *peer = *at;
            end_minute(peer, now_ns);
            if (peer->connections || peer->body_bytes || peer->logged_ns ||
                peer->refusals_until_ns > now_ns || peer->guesses_until_ns > now_ns ||
                (forget && !forget(owner, peer))) {
                at = &peer->next;
                continue;
            }
            *at = peer->next;
            free(peer);
        }
    }
}
