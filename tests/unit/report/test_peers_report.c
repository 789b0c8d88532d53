/* What stats say of peers: an operator sees all, anyone else itself. */
#include "daemon/report/peers_report.h"

#include <criterion/criterion.h>
#include <string.h>

#include "daemon/sched/principal.h"

enum { OPERATOR = 0, SOMEBODY = 70000 };

static struct peers peers;
static struct wire_stats stats;

static struct peer *find(uint32_t uid, uint32_t connections)
{
    const struct peer_key key = peer_key_of_user(uid);
    struct peer *p = peers_find(&peers, &key);
    cr_assert(p);
    p->connections = connections;
    return p;
}

static void begin(void)
{
    peers_init(&peers);
    memset(&stats, 0xff, sizeof stats);
}

static void end(void)
{
    peers_finish(&peers);
}

TestSuite(peers_report, .init = begin, .fini = end);

Test(peers_report, one_sees_itself)
{
    struct principal owner = {
        .jobs = 7, .queued = 2, .coming = 3, .queue_max = 100, .refused_queue = 9};
    struct peer *p = find(SOMEBODY, 4);
    find(OPERATOR, 1);
    find(SOMEBODY + 1, 50);
    p->principal = &owner;
    p->body_bytes = 11;
    p->refused_connections = 12;
    p->refused_bodies = 13;
    peers_report(&peers, p, &stats);
    cr_assert_eq(stats.peer_count, 1);
    cr_assert_eq(stats.peers_left_out, 0, "nor how many there are");
    const struct wire_peer_stats *row = stats.peers;
    cr_assert_str_eq(row->name, "uid 70000");
    cr_assert(row->own && row->connections == 4 && row->requests == 7 && row->in_line == 5);
    cr_assert(row->in_line_max == 100 && row->refused_queue == 9 && row->body_bytes == 11);
    cr_assert(row->refused_connections == 12 && row->refused_bodies == 13);
    p->principal = NULL;
    peers_report(&peers, p, &stats);
    cr_assert(stats.peer_count == 1 && !stats.peers[0].requests && stats.peers[0].own);
}

Test(peers_report, an_operator_sees_the_busiest)
{
    enum { COUNT = 40 };
    static struct principal owners[COUNT];
    struct peer *own = find(OPERATOR, 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct peer *p = find(SOMEBODY + i, i % 3);
        owners[i].jobs = i * 7 % COUNT;
        p->principal = &owners[i];
    }
    peers_report(&peers, own, &stats);
    cr_assert_eq(stats.peer_count, WIRE_PEERS_MAX);
    cr_assert_eq(stats.peers_left_out, COUNT + 1 - WIRE_PEERS_MAX);
    cr_assert(stats.peers[0].own);
    cr_assert_str_eq(stats.peers[0].name, "uid 0");
    for (uint32_t i = 1; i < WIRE_PEERS_MAX; i++) {
        cr_assert_not(stats.peers[i].own);
        cr_assert_eq(stats.peers[i].requests, COUNT - i);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        find(SOMEBODY + i, 0)->principal = NULL;
}

Test(peers_report, who_is_gone_sees_nobody)
{
    find(SOMEBODY, 1);
    peers_report(&peers, NULL, &stats);
    cr_assert(!stats.peer_count && !stats.peers_left_out);
}
