/* Rations: what one peer sends lengthens a turn of the loop by a bounded number of requests, and
 * everybody's come in the end. */
#include "daemon/net/ration.h"

#include <criterion/criterion.h>
#include <string.h>

#include "daemon/net/net.h"
#include "tests/support/unheard.h"

#define MS UINT64_C(1000000)

enum {
    STRANGER = 77000,
    VICTIM = 78000,
    CLIENTS_MAX = 256,
    FRAME_BYTES = FRAME_HEADER_BYTES * 2, /* a header and an empty message */
    IN_A_TURN = RATION_BYTES / RATION_FRAME_BYTES + 1,
};

struct client {
    struct connection *c;
    uint64_t unsent; /* bytes that it still has to send */
    uint64_t frames; /* that were taken of it */
};

static struct net net;
static struct config config;
static struct heap *heap;
static uint64_t now_ns = 1000 * MS;
static struct transport unheard;
static struct client clients[CLIENTS_MAX];
static uint32_t client_count, taken, told;
static uint32_t refused_uid; /* whose requests find no room */

static uint64_t read_now(void *owner)
{
    return now_ns;
}

static const struct clock clock_set = {read_now, NULL};

static struct client *client_of(const struct connection *c)
{
    for (uint32_t i = 0; i < client_count; i++)
        if (clients[i].c == c) return &clients[i];
    cr_assert_fail("an unknown connection");
    return NULL;
}

static void on_frame(void *owner, struct connection *c, const struct frame *f)
{
    client_of(c)->frames++;
    taken++;
    ration_took(c, c->owner != refused_uid);
}

static void on_bad_frame(void *owner, struct connection *c, const struct frame_header *h,
                         const struct failure *why)
{
    cr_assert_eq(h->request_id, 0);
    cr_assert(strstr(why->text, "limits.stall_ms"), "%s", why->text);
    told++;
}

static void on_close(void *owner, struct connection *c) {}

static void open_net(void)
{
    const struct net_events events = {
        .on_frame = on_frame, .on_bad_frame = on_bad_frame, .on_close = on_close};
    unheard = unheard_transport(connection_closed);
    config_defaults(&config);
    config.connection_max = 2 * CLIENTS_MAX;
    config.peers.connections = CLIENTS_MAX;
    cr_assert_eq(heap_create(UINT64_C(256) << 20, &heap), STATUS_OK);
    cr_assert_eq(net_init(&net, NULL, &clock_set, heap, &config, &events), STATUS_OK);
}

static void close_net(void)
{
    net_close(&net);
    cr_expect(!net.first_behind && !net.last_behind && !net.behind_count);
    net_finish(&net);
    heap_destroy(heap);
}

static struct client *connect_as(uint32_t uid, uint64_t frames)
{
    const struct peer_key who = peer_key_of_user(uid);
    struct client *client = &clients[client_count++];
    client->c = connection_attach(&net, &who, &unheard, NULL);
    cr_assert(client->c);
    client->c->greeted = true;
    client->c->owner = uid;
    client->unsent = frames * FRAME_BYTES;
    return client;
}

/* What libuv does when a socket has bytes: it reads as long as it may and the buffer was filled. */
static void socket_is_readable(struct client *client)
{
    while (client->unsent && client->c->reading) {
        uv_buf_t room = receive_buffer(client->c);
        if (!room.len) {
            receive_bytes(client->c, UV_ENOBUFS);
            return;
        }
        uint64_t n = client->unsent < room.len ? client->unsent : room.len;
        cr_assert_eq(n % FRAME_BYTES, 0, "the loads below are of whole frames");
        const struct frame_header header = {.kind = OPERATION_PING, .message_bytes = 1};
        for (uint64_t at = 0; at < n; at += FRAME_BYTES) {
            memset(room.base + at, 0, FRAME_BYTES);
            frame_write(&header, room.base + at);
        }
        client->unsent -= n;
        receive_bytes(client->c, (ssize_t)n);
    }
}

/* One turn of the loop. Returns how many requests were taken in it. */
static uint32_t turn(void)
{
    taken = 0;
    net_turn(&net);
    net_flush(&net);
    for (uint32_t i = 0; i < client_count; i++)
        socket_is_readable(&clients[i]);
    return taken;
}

Test(ration, a_flood_is_read_a_ration_a_turn)
{
    open_net();
    struct client *stranger = connect_as(STRANGER, 1000), *victim = connect_as(VICTIM, 1);
    uint32_t first = turn();
    cr_expect_leq(first, IN_A_TURN + 1);
    cr_expect_eq(victim->frames, 1, "who sends little is read in the same turn");
    cr_expect_eq(net_wake_ns(&net), 0, "the loop must not sleep");
    uint32_t turns = 1;
    for (; stranger->frames < 1000; turns++) {
        cr_assert_lt(turns, 100);
        victim->unsent = FRAME_BYTES;
        cr_assert_leq(turn(), IN_A_TURN + 1);
        cr_assert_eq(victim->frames, turns + 1);
    }
    cr_expect_geq(turns, 1000 / IN_A_TURN);
    turn();
    cr_expect_eq(net_wake_ns(&net), UINT64_MAX);
    cr_expect(stranger->c->reading);
    close_net();
}

/* A peer's connections take turns, however much the ones before them send. */
Test(ration, connections_of_a_peer_stand_in_line)
{
    enum { COUNT = 64, EACH = 500 };
    open_net();
    for (int i = 0; i < COUNT; i++)
        connect_as(STRANGER, EACH);
    uint32_t turns = 0, all = 0;
    uint64_t least = 0;
    for (; !least; turns++) {
        cr_assert_lt(turns, COUNT, "each was to be served by now");
        cr_assert_leq(turn(), IN_A_TURN);
        least = UINT64_MAX;
        for (int i = 0; i < COUNT; i++)
            if (clients[i].frames < least) least = clients[i].frames;
    }
    for (uint32_t more = 0; all < COUNT * EACH; more++) {
        uint64_t least_now = UINT64_MAX, most = 0;
        cr_assert_lt(more, COUNT * EACH);
        cr_assert_leq(turn(), IN_A_TURN);
        all = 0;
        for (int i = 0; i < COUNT; i++) {
            all += (uint32_t)clients[i].frames;
            if (clients[i].frames < least_now) least_now = clients[i].frames;
            if (clients[i].frames > most) most = clients[i].frames;
        }
        /* the first found nobody in line and had the whole first turn */
        cr_assert_leq(most - least_now, 2 * IN_A_TURN);
    }
    close_net();
}

/* Peers that send too much share what one would have, so that a turn stays short. */
Test(ration, peers_in_line_share_a_turn)
{
    enum { PEERS = 40 };
    open_net();
    for (uint32_t i = 0; i < PEERS; i++)
        connect_as(STRANGER + i, 2000);
    turn(); /* nobody is known to send much yet */
    uint32_t goes = RATION_BYTES / RATION_GOES / RATION_FRAME_BYTES + 1;
    for (int i = 0; i < 40; i++)
        cr_assert_leq(turn(), IN_A_TURN + RATION_GOES * 2 + PEERS, "turn %d", i);
    for (uint32_t i = 0; i < PEERS; i++)
        cr_expect_geq(clients[i].frames, 2 * goes, "peer %u", i);
    close_net();
}

/* After some hundred refusals, more of them come at the pace of time alone; a connection of the
 * same peer that was not refused is read as ever. */
Test(ration, refused_ones_stand_aside)
{
    enum { CREDIT = RATION_CREDIT_NS / RATION_REFUSAL_NS };
    open_net();
    struct client *stranger = connect_as(STRANGER, 100000), *sibling = connect_as(STRANGER, 1);
    sibling->c->owner = VICTIM;
    refused_uid = STRANGER;
    for (int i = 0; i < 20; i++)
        turn();
    cr_expect_eq(stranger->frames, CREDIT + 1);
    cr_expect_eq(sibling->frames, 1);
    sibling->unsent = FRAME_BYTES;
    turn();
    cr_expect_eq(sibling->frames, 2);
    uint64_t wake_ns = net_wake_ns(&net);
    cr_expect_eq(wake_ns, now_ns + RATION_REFUSAL_NS + RATION_PAUSE_NS, "until then it may sleep");
    uint64_t begun_ns = now_ns;
    for (int i = 0; i < 100; i++) {
        now_ns = net_wake_ns(&net) > now_ns ? net_wake_ns(&net) : now_ns;
        turn();
    }
    uint64_t paid = (now_ns - begun_ns) / RATION_REFUSAL_NS + CREDIT + 1;
    cr_expect_geq(stranger->frames, CREDIT + 100, "it is not forgotten");
    cr_expect_leq(stranger->frames, paid + 1);
    refused_uid = 0; /* there is room now */
    uint64_t before = stranger->frames;
    now_ns += 100 * MS;
    for (int i = 0; i < 10; i++)
        turn();
    cr_expect_gt(stranger->frames, before + 5 * (IN_A_TURN - 1));
    close_net();
}

/* Time that passes while the daemon runs: it sweeps all along. */
static void pass(uint64_t ms)
{
    for (uint64_t past = 0; past < ms; past += SWEEP_MS) {
        now_ns += SWEEP_MS * MS;
        net_sweep(&net);
    }
}

/* The time in line is not the client's: half a request that waits there is not dropped for it. */
Test(ration, time_in_line_is_not_the_clients)
{
    open_net();
    config.stall_ms_max = 1000;
    struct client *half = connect_as(STRANGER, 0);
    uv_buf_t room = receive_buffer(half->c);
    memset(room.base, 0, 8);
    receive_bytes(half->c, 8);
    cr_assert(half->c->frame_started_ns);
    ration_wait(half->c);
    pass(5000);
    cr_expect_not(half->c->closing);
    cr_expect_eq(net.counters.dropped, 0);
    turn();
    cr_expect(half->c->reading && !half->c->waits_in);
    pass(500);
    cr_expect_eq(net.counters.dropped, 0);
    half->c = NULL;
    pass(1000);
    cr_expect_eq(net.counters.dropped, 1, "its own time counts on");
    cr_expect_eq(told, 1, "the client was not told why");
    close_net();
}

/* A standstill meanwhile counts once. */
Test(ration, a_standstill_in_line_is_not_the_clients)
{
    open_net();
    config.stall_ms_max = 1000;
    struct client *half = connect_as(STRANGER, 0);
    uv_buf_t room = receive_buffer(half->c);
    memset(room.base, 0, 8);
    receive_bytes(half->c, 8);
    ration_wait(half->c);
    now_ns += 20000 * MS;
    net_sweep(&net);
    turn();
    cr_expect(half->c->reading && !half->c->waits_in);
    cr_expect_leq(half->c->frame_started_ns, now_ns, "the standstill was counted twice");
    pass(100);
    cr_expect_eq(net.counters.dropped, 0);
    half->c = NULL;
    pass(2000);
    cr_expect_eq(net.counters.dropped, 1, "its own time counts on");
    cr_expect_eq(told, 1, "the client was not told why");
    close_net();
}

Test(ration, closing_in_line_leaves_it)
{
    open_net();
    for (int i = 0; i < 8; i++)
        connect_as(STRANGER, 1000);
    turn();
    cr_assert(net.first_behind);
    for (int i = 0; i < 8; i++) {
        struct connection *c = clients[(i * 3) % 8].c;
        clients[(i * 3) % 8].unsent = 0;
        clients[(i * 3) % 8].c = NULL;
        connection_close(c);
    }
    cr_expect_not(net.first_behind);
    cr_expect_eq(net_wake_ns(&net), UINT64_MAX);
    client_count = 0;
    turn();
    close_net();
}

/* What comes behind a refused header is ignored, also from the line. */
Test(ration, what_is_ignored_is_read_to_its_end)
{
    open_net();
    struct client *a = connect_as(STRANGER, 2000);
    turn();
    cr_assert(a->c->waits_in);
    connection_finish(a->c);
    for (int i = 0; i < 30 && a->unsent; i++) {
        net_turn(&net);
        socket_is_readable(a);
    }
    cr_expect_eq(a->unsent, 0);
    cr_expect_leq(a->frames, IN_A_TURN);
    close_net();
}
