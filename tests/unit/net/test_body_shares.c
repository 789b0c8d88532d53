/* Large bodies of several peers: what one can be sure of, whatever others leave half sent. */
#include "daemon/heap/heap_inside.h"
#include "tests/unit/net/body_rig.h"
#include "tests/support/sweep.h"

/* Half-sent bodies of several peers, each its peer's first and older, fill the memory: one that is
 * no larger than a peer's share takes it from them. */
Test(body_shares, a_small_one_is_completed_beside_larger_that_are_half_sent)
{
    open_net(64 * MIB);
    for (int i = 0; i < 5; i++)
        begin(connect_as(STRANGER + (uint32_t)i), 30 * MIB);
    for (int round = 0; round < 400; round++)
        for (int i = 0; i < 5; i++)
            send_up(&clients[i], 64000);
    cr_assert_gt(heap_usage(heap).bytes_used, 50 * MIB);
    struct client *victim = connect_as(VICTIM + 100);
    begin(victim, 8 * MIB);
    send_up(victim, 9 * MIB);
    cr_expect(victim->received == 1 && !victim->refused);
    close_net();
}

static uint64_t random_state;

static uint64_t random_below(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (random_state >> 33) % below;
}

/* Any number of peers leave any bodies half sent, in any order: of each peer the first, if it is no
 * larger than its share, was not refused, and is completed while all others stay silent. */
Test(body_shares, one_of_each_peer_is_completed_while_others_stay_unread)
{
    enum { SEEDS = 16, EACH = 4 };
    for (random_state = 1; random_state <= SEEDS; random_state += sweep_stride(4)) {
        bool sure[CLIENTS_MAX] = {0};
        uint64_t seed = random_state;
        client_count = 0;
        memset(clients, 0, sizeof clients);
        open_net(64 * MIB);
        config.peers.body_mib = 1024;
        uint32_t peers = 2 + (uint32_t)random_below(7);
        /* what there is for bodies, once each connection has its buffer, by peer */
        uint64_t share = (60 * MIB - peers * EACH * RECEIVE_BYTES) / peers - 4096;
        for (uint32_t i = 0; i < peers * EACH; i++) {
            struct client *client = connect_as(STRANGER + i / EACH);
            bool first = sure[i] = i % EACH == 0 && random_below(4);
            begin(client, first ? 192 * KIB + random_below(share / 64 - 3072) * 64
                                : (1 + random_below(640)) * 64 * KIB);
        }
        for (int step = 0; step < 600; step++) {
            struct client *client = &clients[random_below(client_count)];
            uint64_t index = (uint64_t)(client - clients), head = index / EACH * EACH;
            if (index != head && sure[head] && !clients[head].sent) continue; /* it begins first */
            uint64_t most = sure[index] ? client->body_bytes / 2 : client->body_bytes - 64;
            if (client->sent < most && !client->refused) send_up(client, random_below(most));
        }
        for (uint32_t i = 0; i < client_count; i += EACH) {
            if (!sure[i]) continue;
            cr_assert_not(clients[i].refused, "client %u, seed %llu", i, (unsigned long long)seed);
            turn(0);
            while (!is_sent(&clients[i]))
                cr_assert(send_up(&clients[i], MIB), "client %u is stuck, seed %llu", i,
                          (unsigned long long)seed);
            cr_assert_eq(clients[i].received, 1);
        }
        close_net();
        random_state = seed;
    }
}

static void nobody(void *owner) {}

/* Memory that is on its way back to the system is waited for, not taken from others, and not by
 * the loop. The heap's thread is played. */
Test(body_shares, body_waits_for_memory_on_its_way)
{
    open_net(64 * MIB);
    struct client *half = connect_as(STRANGER), *whole = connect_as(VICTIM);
    begin(half, 8 * MIB);
    send_up(half, 4 * MIB);
    struct heap_block b;
    cr_assert_eq(heap_take(heap, 30 * MIB, 1, &b), STATUS_OK);
    heap->releaser.runs = true;
    heap_release(heap, &b);
    heap_never_wait(heap, nobody, NULL);
    begin(whole, 40 * MIB);
    while (send_up(whole, MIB))
        ;
    cr_assert(whole->c->paused && !is_sent(whole) && heap_put_off(heap));
    cr_assert_eq(send_up(whole, MIB), 0);
    cr_assert_not(half->refused || whole->refused);
    heap->releaser.runs = false;
    cr_assert_eq(heap_start_releaser(heap), STATUS_OK);
    while (!is_sent(whole)) {
        net_memory_freed(&net);
        net_flush(&net);
        send_up(whole, MIB);
    }
    cr_assert(whole->received == 1 && !half->refused);
    heap_never_wait(heap, NULL, NULL);
    close_net();
}
