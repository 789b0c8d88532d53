/* Wrong tokens: a peer that says several of them is read as seldom as time pays for them, its other
 * connections and other peers are not, and each client that waits in vain is told why. */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/net/net.h"
#include "daemon/net/ration.h"
#include "tests/support/unheard.h"

#define MS UINT64_C(1000000)

enum { GUESSER = 77000, OTHER = 78000, FRAME_BYTES = 64, HELLOS_MAX = 64, HANDSHAKE_MS = 10000 };
enum said { SAID_NOTHING, SAID_WRONG, SAID_RIGHT };

struct client {
    struct connection *c; /* NULL: closed */
    enum said says;
    bool sent, heard;
    uint32_t told; /* errors */
    enum detail why;
};

static struct net net;
static struct config config;
static struct heap *heap;
static uint64_t now_ns = 1000000 * MS;
static struct transport unheard;
static struct client clients[HELLOS_MAX];
static uint32_t client_count, guesses;

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
    struct client *client = client_of(c);
    client->heard = true;
    if (c->greeted) return;
    if (client->says == SAID_RIGHT) {
        c->greeted = true;
        return;
    }
    guesses++;
    ration_guessed(c);
    connection_finish(c);
}

static void on_bad_frame(void *owner, struct connection *c, const struct frame_header *h,
                         const struct failure *why)
{
    struct client *client = client_of(c);
    cr_assert(h->kind == 0 && h->request_id == 0, "it answers no request");
    client->told++;
    client->why = why->detail;
}

static void on_close(void *owner, struct connection *c)
{
    client_of(c)->c = NULL;
}

static void open_net(void)
{
    const struct net_events events = {
        .on_frame = on_frame, .on_bad_frame = on_bad_frame, .on_close = on_close};
    unheard = unheard_transport(connection_closed);
    unheard.shutdown = unheard_starts;
    config_defaults(&config);
    config.connection_max = 2 * HELLOS_MAX;
    config.peers.connections = HELLOS_MAX;
    config.handshake_ms_max = HANDSHAKE_MS;
    cr_assert_eq(heap_create(UINT64_C(64) << 20, &heap), STATUS_OK);
    cr_assert_eq(net_init(&net, NULL, &clock_set, heap, &config, &events), STATUS_OK);
}

static void close_net(void)
{
    net_close(&net);
    net_finish(&net);
    heap_destroy(heap);
    client_count = 0;
}

static struct client *connect_as(uint32_t uid, enum said says)
{
    const struct peer_key who = peer_key_of_user(uid);
    struct client *client = &clients[client_count++];
    cr_assert_leq(client_count, HELLOS_MAX);
    *client = (struct client){.says = says};
    client->c = connection_attach(&net, &who, &unheard, NULL);
    cr_assert(client->c);
    return client;
}

static void send_hello(struct client *client)
{
    if (client->sent || !client->c || !client->c->reading || client->says == SAID_NOTHING) return;
    uv_buf_t room = receive_buffer(client->c);
    if (!room.len) {
        receive_bytes(client->c, UV_ENOBUFS);
        return;
    }
    const struct frame_header header = {.kind = OPERATION_HELLO, .message_bytes = 1};
    memset(room.base, 0, FRAME_BYTES);
    frame_write(&header, room.base);
    client->sent = true;
    receive_bytes(client->c, FRAME_BYTES);
}

static void turn(void)
{
    net_turn(&net);
    net_flush(&net);
    for (uint32_t i = 0; i < client_count; i++)
        send_hello(&clients[i]);
}

static void pass(uint64_t ms)
{
    for (uint64_t past = 0; past < ms; past += SWEEP_MS) {
        now_ns += SWEEP_MS * MS;
        net_sweep(&net);
        turn();
    }
}

static void guess(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        connect_as(GUESSER, SAID_WRONG);
}

Test(guesses, a_peer_has_few_at_once_and_one_a_second)
{
    open_net();
    guess(30);
    turn();
    cr_expect_eq(guesses, RATION_GUESSES);
    for (uint32_t second = 1; second <= 8; second++) {
        pass(1000);
        cr_expect_eq(guesses, RATION_GUESSES + second, "%u after %u s", guesses, second);
    }
    close_net();
}

Test(guesses, the_loop_sleeps_until_the_next_may_come)
{
    open_net();
    guess(RATION_GUESSES + 1);
    turn();
    turn();
    uint64_t wake_ns = net_wake_ns(&net);
    cr_expect_eq(wake_ns, now_ns + RATION_GUESS_NS, "%.3f s", (double)(wake_ns - now_ns) / 1e9);
    close_net();
}

Test(guesses, other_peers_and_greeted_connections_do_not_wait)
{
    open_net();
    struct client *own = connect_as(GUESSER, SAID_RIGHT);
    turn();
    cr_assert(own->c->greeted);
    guess(30);
    turn();
    own->sent = own->heard = false; /* it has another request */
    struct client *other = connect_as(OTHER, SAID_RIGHT);
    turn();
    cr_expect(other->c->greeted, "another peer waits");
    cr_expect(own->heard, "a connection that said Hello before waits");
    close_net();
}

/* Who has the right token waits in its place, and no longer. */
Test(guesses, the_right_token_comes_through_in_its_turn)
{
    open_net();
    guess(RATION_GUESSES + 3);
    struct client *right = connect_as(GUESSER, SAID_RIGHT);
    turn();
    pass(3000);
    cr_expect_not(right->c->greeted);
    pass(1000);
    cr_expect(right->c && right->c->greeted);
    close_net();
}

Test(guesses, time_pays_for_them)
{
    open_net();
    guess(RATION_GUESSES);
    turn();
    pass(RATION_GUESSES * 1000);
    guess(RATION_GUESSES);
    turn();
    cr_expect_eq(guesses, 2 * RATION_GUESSES);
    close_net();
}

/* A connection that said nothing while it was its turn gives nobody a guess. */
Test(guesses, silence_saves_none)
{
    open_net();
    guess(RATION_GUESSES + 1);
    turn();
    struct client *late[8];
    for (uint32_t i = 0; i < 8; i++)
        late[i] = connect_as(GUESSER, SAID_NOTHING);
    pass(2000);
    uint32_t before = guesses;
    for (uint32_t i = 0; i < 8; i++)
        late[i]->says = SAID_WRONG;
    turn();
    turn();
    cr_expect_leq(guesses - before, 1, "%u at once", guesses - before);
    close_net();
}

Test(guesses, who_waits_in_vain_is_told_why)
{
    open_net();
    guess(40);
    struct client *silent = connect_as(OTHER, SAID_NOTHING);
    turn();
    struct client *last = &clients[39];
    pass(HANDSHAKE_MS + 2 * SWEEP_QUIET_MS);
    cr_expect_eq(last->told, 1);
    cr_expect_eq(last->why, DETAIL_BAD_TOKEN);
    cr_expect_eq(silent->told, 1);
    cr_expect_eq(silent->why, DETAIL_HELLO_REQUIRED);
    pass(2 * CONNECTION_LINGER_MS);
    cr_expect(!last->c && !silent->c, "they are closed once they could read it");
    cr_expect_eq(net.counters.open, 0);
    close_net();
}

Test(guesses, a_peer_that_owes_is_not_forgotten)
{
    open_net();
    guess(RATION_GUESSES);
    turn();
    pass(3000);
    cr_expect_eq(net.counters.open, 0);
    guess(RATION_GUESSES);
    turn();
    cr_expect_lt(guesses, 2 * RATION_GUESSES, "it guesses anew");
    close_net();
}
