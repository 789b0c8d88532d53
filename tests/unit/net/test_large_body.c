/* Large bodies: memory is taken as they come, and half-sent ones keep nobody's from completing. */
#include "tests/unit/net/body_rig.h"

#include "daemon/base/fault.h"

Test(large_body, takes_what_came_and_stays_where_it_is)
{
    open_net(64 * MIB);
    struct client *a = connect_as(STRANGER);
    begin(a, 20 * MIB);
    send_up(a, 64);
    const void *place = a->c->direct->block.data;
    cr_expect_leq(heap_usage(heap).bytes_used, RECEIVE_BYTES + 256 * KIB);
    for (uint64_t mib = 1; mib < 20; mib++) {
        cr_assert_eq(send_up(a, MIB), MIB);
        uint64_t came = a->c->direct_filled;
        cr_assert_leq(heap_usage(heap).bytes_used, came + came / 4 + RECEIVE_BYTES + 256 * KIB);
        cr_assert_eq(heap_owner_bytes(heap, STRANGER), heap_usage(heap).bytes_used);
        cr_assert_geq(a->c->peer->body_bytes, came);
        cr_assert_eq(a->c->direct->block.data, place);
    }
    keeps = true;
    send_up(a, 2 * MIB);
    cr_expect_eq(a->received, 1);
    cr_expect_eq(held->block.data, place);
    cr_expect_eq(a->c->peer->body_bytes, 20 * MIB);
    body_drop(held);
    held = NULL;
    cr_expect_eq(a->c->peer->body_bytes, 0);
    close_net();
}

/* 64 connections that sent 64 bytes each of 7 MiB hold little, and all may come true. */
Test(large_body, announcing_costs_nobody_memory)
{
    open_net(512 * MIB);
    for (int i = 0; i < 64; i++) {
        struct client *a = connect_as(STRANGER);
        begin(a, 7 * MIB);
        send_up(a, 64);
    }
    printf("# 64 bodies of 7 MiB, of each 64 bytes came: %llu KiB\n",
           (unsigned long long)(heap_usage(heap).bytes_used >> 10));
    cr_expect_leq(heap_usage(heap).bytes_used, 64 * (RECEIVE_BYTES + 256 * KIB));
    struct client *victim = connect_as(VICTIM);
    begin(victim, 64 * MIB);
    send_up(victim, 65 * MIB);
    cr_expect_eq(victim->received, 1);
    for (int i = 0; i < 64; i++)
        cr_expect(!clients[i].refused && clients[i].c->direct);
    close_net();
}

/* A stranger's half-sent bodies that fill the memory: those that began later than its first give
 * theirs to another's, and are told so. */
Test(large_body, half_sent_ones_make_room_for_another_peers)
{
    open_net(64 * MIB);
    config.peers.body_mib = 1024;
    for (int i = 0; i < 9; i++)
        begin(connect_as(STRANGER), 8 * MIB);
    for (int i = 0; i < 9; i++)
        send_up(&clients[i], 7 * MIB);
    uint64_t used = heap_usage(heap).bytes_used;
    cr_expect_gt(used, 50 * MIB);
    struct client *victim = connect_as(VICTIM);
    begin(victim, 32 * MIB);
    send_up(victim, 33 * MIB);
    cr_expect_eq(victim->received, 1);
    uint32_t refused = 0;
    for (int i = 0; i < 9; i++) {
        refused += clients[i].refused;
        if (!clients[i].refused) continue;
        cr_expect_eq(clients[i].why.code, STATUS_RESOURCE_EXHAUSTED);
        cr_expect_eq(clients[i].why.detail, DETAIL_MEMORY);
        cr_expect_gt(clients[i].why.retry_after_ms, 0);
    }
    cr_expect(refused >= 4 && refused <= 6, "%u", refused);
    cr_expect_not(clients[0].refused);
    turn(0);
    send_up(&clients[0], 8 * MIB);
    cr_expect_eq(clients[0].received, 1, "its peer's first is completed as well");
    /* Those that were refused are read to their end, and heard again. */
    for (int i = 1; i < 9; i++) {
        if (!clients[i].refused) continue;
        send_up(&clients[i], 8 * MIB);
        cr_expect(is_sent(&clients[i]));
        begin(&clients[i], 0);
        send_up(&clients[i], 64);
        cr_expect_eq(clients[i].received, 1);
    }
    close_net();
}

/* A body that is refused as soon as its head has come, with some of it: what follows it lies where
 * frames begin, for the kernels read its tensors where they are. */
Test(large_body, what_follows_a_refused_one_is_aligned)
{
    open_net(8 * MIB);
    struct client *a = connect_as(STRANGER);
    begin(a, 16 * MIB);
    send_up(a, 64 + 101);
    cr_assert_eq(a->refused, 1);
    cr_expect_eq(a->c->begin, a->c->end);
    cr_expect_eq(a->c->begin % FRAME_ALIGN, 0, "%u", a->c->begin);
    send_up(a, 17 * MIB);
    cr_expect(is_sent(a));
    begin(a, 0);
    send_up(a, 64);
    cr_expect_eq(a->received, 1);
    close_net();
}

/* Bodies of one peer that do not fit together wait unread for each other, and all arrive. */
Test(large_body, a_peers_own_wait_and_none_is_refused)
{
    open_net(32 * MIB);
    for (int i = 0; i < 8; i++)
        begin(connect_as(STRANGER), 8 * MIB);
    uint64_t waits = 0;
    for (int round = 0; round < 2000; round++) {
        bool all = true;
        for (int i = 0; i < 8; i++) {
            send_up(&clients[i], 100000);
            waits += clients[i].c->paused;
            all &= is_sent(&clients[i]);
        }
        if (all) break;
        turn(1);
    }
    for (int i = 0; i < 8; i++)
        cr_expect(clients[i].received == 1 && !clients[i].refused, "%d", i);
    cr_expect_gt(waits, 0);
    close_net();
}

/* First bodies of several peers that do not fit together: the oldest comes through. */
Test(large_body, of_several_firsts_the_oldest_is_completed)
{
    open_net(32 * MIB);
    for (int i = 0; i < 4; i++)
        begin(connect_as(STRANGER + (uint32_t)i), 16 * MIB);
    for (int round = 0; round < 400; round++)
        for (int i = 0; i < 4; i++)
            send_up(&clients[i], 100000);
    cr_expect_eq(clients[0].received, 1);
    cr_expect_eq(clients[0].refused, 0);
    uint32_t answered = 0;
    for (int round = 0; round < 400; round++) {
        for (int i = 1; i < 4; i++)
            send_up(&clients[i], 100000);
        turn(1);
    }
    for (int i = 1; i < 4; i++)
        answered += clients[i].received + clients[i].refused == 1;
    cr_expect_eq(answered, 3, "each is completed or refused, none is stuck");
    close_net();
}

Test(large_body, waiting_ends_with_a_refusal)
{
    open_net(32 * MIB);
    config.stall_ms_max = 1000;
    struct heap_block rows = {0};
    struct client *a = connect_as(STRANGER);
    begin(a, 16 * MIB);
    send_up(a, MIB);
    cr_assert_eq(heap_take(heap, 27 * MIB, 9, &rows), STATUS_OK); /* others' rows, meanwhile */
    send_up(a, 16 * MIB);
    cr_assert(a->c->paused && !a->c->reading && !a->refused);
    for (int i = 0; i < 8; i++)
        turn(100);
    cr_expect_not(a->refused);
    for (int i = 0; i < 6; i++)
        turn(100);
    cr_expect_eq(a->refused, 1);
    cr_expect(a->why.detail == DETAIL_MEMORY && a->why.retry_after_ms);
    cr_expect_eq(a->c->peer->body_bytes, 0);
    send_up(a, 16 * MIB);
    cr_expect(is_sent(a), "the rest is ignored");
    heap_give(heap, &rows);
    begin(a, 16 * MIB);
    send_up(a, 17 * MIB);
    cr_expect_eq(a->received, 1);
    close_net();
}

Test(large_body, a_peer_has_a_limit_but_for_one)
{
    open_net(64 * MIB);
    config.peers.body_mib = 4;
    struct client *a = connect_as(STRANGER), *b = connect_as(STRANGER), *c = connect_as(STRANGER);
    begin(a, 8 * MIB);
    begin(b, 2500 * KIB);
    send_up(a, 1 * MIB);
    send_up(b, 1 * MIB); /* there is room for both yet */
    send_up(a, 6 * MIB); /* past the limit: it is the first */
    send_up(b, 2 * MIB);
    cr_expect(!is_sent(b) && b->c->paused);
    begin(c, 1 * MIB);
    send_up(c, 64);
    cr_expect_eq(c->refused, 1);
    cr_expect_eq(c->why.detail, DETAIL_QUOTA);
    cr_expect(c->why.retry_after_ms && strstr(c->why.text, "peers.body_mib"));
    send_up(a, 8 * MIB);
    cr_expect_eq(a->received, 1);
    turn(0);
    send_up(b, 4 * MIB);
    cr_expect_eq(b->received, 1);
    struct client *victim = connect_as(VICTIM);
    begin(victim, 4 * MIB);
    send_up(victim, 5 * MIB);
    cr_expect_eq(victim->received, 1);
    close_net();
}

Test(large_body, a_spaces_quota_is_said_at_once_or_when_it_is_reached)
{
    open_net(64 * MIB);
    cr_assert_eq(heap_quota(heap, STRANGER, 10 * MIB), STATUS_OK);
    struct client *a = connect_as(STRANGER), *b = connect_as(STRANGER);
    begin(a, 16 * MIB);
    send_up(a, 64);
    cr_expect(a->refused == 1 && a->why.detail == DETAIL_QUOTA);
    send_up(a, 17 * MIB);
    begin(a, 8 * MIB);
    begin(b, 8 * MIB);
    send_up(a, 64);
    send_up(b, 64);
    cr_expect(b->refused == 0);
    send_up(a, 9 * MIB);
    keeps = true;
    begin(a, 6 * MIB);
    send_up(a, 7 * MIB);
    keeps = false;
    send_up(b, 9 * MIB);
    cr_expect(b->refused == 1 && b->why.detail == DETAIL_QUOTA, "%s", b->why.text);
    cr_expect_eq(a->received, 2);
    heap_quota(heap, STRANGER, 0);
    close_net();
}

/* A connection that ends in the middle of a body leaves nothing. */
Test(large_body, closing_gives_all_back)
{
    open_net(64 * MIB);
    for (int i = 0; i < 3; i++) {
        begin(connect_as(STRANGER), 8 * MIB);
        send_up(&clients[i], 5 * MIB);
    }
    struct peer *peer = clients[0].c->peer;
    connection_close(clients[1].c);
    connection_close(clients[0].c);
    connection_close(clients[2].c);
    cr_expect(!net.oldest_body && !net.newest_body);
    cr_expect_eq(peer->body_bytes, 0);
    cr_expect_eq(heap_usage(heap).bytes_used, 0);
    close_net();
}

/* Each fallible step on the way of two bodies fails once: each is answered, and nothing is lost. */
Test(large_body, every_failure_is_answered)
{
    for (uint32_t nth = 1;; nth++) {
        client_count = 0;
        memset(clients, 0, sizeof clients);
        open_net(64 * MIB);
        struct client *a = connect_as(STRANGER), *b = connect_as(VICTIM);
        begin(a, 2 * MIB);
        begin(b, 2 * MIB);
        fault_arm(nth);
        for (int round = 0; round < 100; round++) {
            send_up(a, 50000);
            send_up(b, 50000);
            turn(0);
        }
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert(is_sent(a) && is_sent(b));
        cr_assert(a->received + a->refused == 1 && b->received + b->refused == 1);
        close_net();
        if (!fired) break;
    }
}
