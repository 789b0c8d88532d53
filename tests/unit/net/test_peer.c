/* Peers: who counts as one, how many connections each may have, and how often it is logged. */
#include "daemon/net/peer.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/net/connection.h"
#include "daemon/net/net.h"

#define SECOND UINT64_C(1000000000)

enum { OPERATOR = 0, STRANGER = 77000, OTHER = 77001 };

/* ---------------------------------------------------------------- who is one */

static struct peer_key key_of(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = (in_port_t)rand()};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = (in_port_t)rand()};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return peer_key_of_address((struct sockaddr *)&v4);
    cr_assert_eq(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return peer_key_of_address((struct sockaddr *)&v6);
}

static bool are_one(const char *a, const char *b)
{
    struct peer_key x = key_of(a), y = key_of(b);
    return memcmp(&x, &y, sizeof x) == 0;
}

Test(peer, addresses_that_anyone_may_take_are_one)
{
    cr_expect(are_one("127.0.0.1", "127.200.3.4"));
    cr_expect(are_one("127.0.0.1", "::1"));
    cr_expect(are_one("10.0.0.1", "::ffff:10.0.0.1"));
    cr_expect(are_one("2001:db8::1", "2001:db8::ffff:1"));
    cr_expect_not(are_one("10.0.0.1", "10.0.0.2"));
    cr_expect_not(are_one("127.0.0.1", "126.0.0.1"));
    cr_expect_not(are_one("2001:db8::1", "2001:db8:0:1::1"));
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    cr_expect_eq(peer_key_of_address(&none).kind, PEER_UNKNOWN);
    struct peer_key a = peer_key_of_user(1), b = peer_key_of_user(2);
    cr_expect_neq(memcmp(&a, &b, sizeof a), 0);
}

Test(peer, is_named_and_the_operator_is_known)
{
    struct peers p;
    peers_init(&p);
    struct peer_key user = peer_key_of_user(STRANGER), v4 = key_of("127.0.0.1"),
                    v6 = key_of("2001:db8::1"), root = peer_key_of_user(0),
                    self = peer_key_of_user(geteuid()), none = {0};
    cr_expect_str_eq(peers_find(&p, &user)->name, "uid 77000");
    cr_expect_str_eq(peers_find(&p, &v4)->name, "127.0.0.0/8");
    cr_expect_str_eq(peers_find(&p, &v6)->name, "2001:db8::/64");
    cr_expect_str_eq(peers_find(&p, &none)->name, "an unknown peer");
    cr_expect(peers_find(&p, &root)->is_operator && peers_find(&p, &self)->is_operator);
    cr_expect(!peers_find(&p, &user)->is_operator && !peers_find(&p, &v4)->is_operator);
    cr_expect_eq(peers_find(&p, &user), peers_find(&p, &user));
    peers_finish(&p);
}

static bool keeps(void *owner, struct peer *peer)
{
    return peer != owner;
}

Test(peer, is_forgotten_when_it_has_nothing)
{
    enum { PEERS = 1000 };
    struct peers p;
    peers_init(&p);
    struct peer *kept[3];
    for (uint32_t i = 0; i < PEERS; i++) {
        struct peer_key key = peer_key_of_user(i);
        struct peer *peer = peers_find(&p, &key);
        if (i < 3) kept[i] = peer;
    }
    kept[0]->connections = 1;
    peer_may_log(kept[2], 1, SECOND);
    peers_sweep(&p, keeps, kept[1], 2 * SECOND); /* a minute of log lines is not begun anew */
    for (uint32_t i = 0; i < 3; i++) {
        struct peer_key key = peer_key_of_user(i);
        cr_expect_eq(peers_find(&p, &key), kept[i]);
    }
    kept[0]->connections = 0;
    peers_sweep(&p, NULL, NULL, 100 * SECOND);
    for (uint32_t i = 0; i < PEER_CHAINS; i++)
        cr_expect_null(p.chains[i]);
    fault_arm(1);
    cr_expect_null(peers_find(&p, &(const struct peer_key){.kind = PEER_USER}));
    fault_arm(0);
    peers_finish(&p);
}

/* ---------------------------------------------------------------- log lines */

Test(peer, causes_so_many_lines_a_minute)
{
    struct peer p = {.name = "uid 1"};
    log_set_level_name("error");
    for (int i = 0; i < 10; i++)
        cr_expect_eq(peer_may_log(&p, 4, SECOND + (uint64_t)i * SECOND), i < 4, "line %d", i);
    cr_expect_eq(p.log_left_out, 6);
    cr_expect_not(peer_may_log(&p, 4, 60 * SECOND));
    cr_expect(peer_may_log(&p, 4, 61 * SECOND));
    cr_expect_eq(p.log_left_out, 0);
}

/* ---------------------------------------------------------------- connections */

static bool starts(struct connection *c)
{
    return true;
}

static void stops(struct connection *c) {}

static const struct transport silent = {
    .start_reading = starts, .stop_reading = stops, .close = connection_closed};

static void closed(void *owner, struct connection *c) {}

static struct net net;
static struct config config;
static struct heap *heap;

static void open_net(uint32_t connections)
{
    const struct net_events events = {.on_close = closed};
    config_defaults(&config);
    config.connection_max = connections;
    cr_assert_eq(heap_create(16 << 20, &heap), STATUS_OK);
    cr_assert_eq(net_init(&net, NULL, NULL, heap, &config, &events), STATUS_OK);
    net.peers.operator_uid = OPERATOR;
}

static void close_net(void)
{
    net_close(&net);
    net_finish(&net);
    heap_destroy(heap);
}

/* How many connections a user gets, of so many that it tries; they stay. */
static uint32_t connect_as(uint32_t uid, uint32_t tries)
{
    const struct peer_key who = peer_key_of_user(uid);
    uint32_t got = 0;
    for (uint32_t i = 0; i < tries; i++)
        got += connection_attach(&net, &who, &silent, NULL) != NULL;
    return got;
}

Test(peer, gets_half_of_all_connections_by_default)
{
    open_net(160);
    cr_expect_eq(connect_as(STRANGER, 200), 80);
    config.peers.connections = 90; /* live */
    cr_expect_eq(connect_as(STRANGER, 200), 10);
    close_net();
}

/* Of 160, 20 are left to peers without any, and of the rest 16 to operators. */
Test(peer, strangers_together_keep_nobody_out)
{
    open_net(160);
    cr_expect_eq(connect_as(STRANGER, 200), 80);
    cr_expect_eq(connect_as(OTHER, 200), 160 - 80 - 20 - 16);
    cr_expect_eq(connect_as(OTHER + 1, 3), 1);
    for (uint32_t i = 0; i < 30; i++)
        cr_expect_eq(connect_as(80000 + i, 2), i < 19, "newcomer %u", i);
    cr_expect_eq(connect_as(OPERATOR, 100), 16);
    cr_expect_eq(net.free_count, 0);
    close_net();
}

Test(peer, the_operator_may_have_all)
{
    open_net(64);
    cr_expect_eq(connect_as(OPERATOR, 100), 64);
    cr_expect_eq(connect_as(STRANGER, 1), 0);
    close_net();
}

Test(peer, a_small_daemon_keeps_what_it_can)
{
    open_net(1);
    cr_expect_eq(connect_as(STRANGER, 2), 1);
    close_net();
    open_net(8);
    cr_expect_eq(connect_as(STRANGER, 9), 4);
    cr_expect_eq(connect_as(OTHER, 9), 2);
    cr_expect_eq(connect_as(OTHER + 1, 9), 1);
    cr_expect_eq(connect_as(OPERATOR, 9), 1);
    close_net();
}

Test(peer, a_connection_that_ends_makes_room)
{
    open_net(16);
    const struct peer_key who = peer_key_of_user(STRANGER);
    struct connection *c = connection_attach(&net, &who, &silent, NULL);
    cr_assert(c);
    struct peer *peer = c->peer;
    cr_expect_eq(connect_as(STRANGER, 20), 7);
    cr_expect_eq(peer->connections, 8);
    connection_close(c);
    cr_expect_eq(peer->connections, 7);
    cr_expect_eq(connect_as(STRANGER, 20), 1);
    close_net();
}
