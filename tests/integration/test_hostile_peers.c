/* A peer that takes all that it gets: others are served beside it. The stranger comes over TCP, and
 * who is on the Unix socket is another peer. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/status.h"
#include "tests/support/scene.h"

enum { STRANGERS_MAX = 64 };

static uint16_t tcp_port_of(const struct scene *s)
{
    char line[512];
    unsigned port = 0;
    int64_t until = give_up_ms();
    while (!daemon_logged(&s->daemon, " port ") && now_ms() < until)
        wait_ms(1);
    FILE *f = fopen(s->daemon.log_path, "r");
    cr_assert(f);
    while (fgets(line, sizeof line, f)) {
        const char *at = strstr(line, " port ");
        if (at) port = (unsigned)atoi(at + 6);
    }
    fclose(f);
    cr_assert(port > 0);
    return (uint16_t)port;
}

/* Connects until it is refused. Returns how many it has. */
static unsigned take_all(const struct scene *s, ea_client *clients[STRANGERS_MAX], char text[256])
{
    unsigned count = 0;
    uint16_t port = tcp_port_of(s);
    for (; count < STRANGERS_MAX; count++) {
        char name[32];
        snprintf(name, sizeof name, "stranger-%u", count);
        ea_options options = {.tcp_host = "127.0.0.1",
                              .tcp_port = port,
                              .space = name,
                              .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
        cr_assert_eq(ea_open(&options, &clients[count]), EA_OK);
        if (ea_connect(clients[count]) == EA_OK) continue;
        cr_assert_eq(ea_error_detail(clients[count]), DETAIL_CONNECTIONS, "%s",
                     ea_error_text(clients[count]));
        snprintf(text, 256, "%s", ea_error_text(clients[count]));
        ea_close(clients[count]);
        break;
    }
    return count;
}

/* Half of all connections by default, or as many as it may; the others stay free. */
Test(hostile_peers, one_that_takes_all_connections_leaves_others_theirs)
{
    static const char *const limits[] = {"peers.connections=0", "peers.connections=5"};
    for (unsigned i = 0; i < 2; i++) {
        struct scene s;
        ea_client *strangers[STRANGERS_MAX];
        char text[256] = "";
        scene_open(&s, (const char *[]){"tcp.enabled=true", "tcp.port=0", "limits.connections=32",
                                        limits[i], NULL});
        unsigned count = take_all(&s, strangers, text);
        cr_expect_eq(count, i ? 5 : 16);
        cr_expect(strstr(text, "peers.connections"), "%s", text);
        int fds[8];
        for (unsigned n = 0; n < 8; n++)
            fds[n] = scene_connect(&s);
        scene_check(&s);
        for (unsigned n = 0; n < 8; n++)
            close(fds[n]);
        for (unsigned n = 0; n < count; n++)
            ea_close(strangers[n]);
        scene_close(&s);
    }
}

/* Root and the daemon's user see all peers, others themselves alone. */
Test(hostile_peers, nobody_sees_another_in_stats)
{
    struct scene s;
    ea_client *tcp, *local;
    ea_stats stats;
    scene_open(&s, (const char *[]){"tcp.enabled=true", "tcp.port=0", NULL});
    ea_options options = {.tcp_host = "127.0.0.1", .tcp_port = tcp_port_of(&s)};
    cr_assert_eq(ea_open(&options, &tcp), EA_OK);
    cr_assert_eq(ea_open(&(ea_options){.socket_path = s.daemon.socket_path}, &local), EA_OK);
    cr_assert_eq(ea_connect(local), EA_OK);
    cr_assert_eq(ea_get_stats(tcp, &stats), EA_OK);
    cr_expect(stats.peer_count == 1 && stats.peers_left_out == 0);
    cr_expect_str_eq(stats.peers[0].name, "127.0.0.0/8");
    cr_expect(stats.peers[0].own && stats.peers[0].connections == 1);
    cr_assert_eq(ea_get_stats(local, &stats), EA_OK); /* the tests' user started the daemon */
    cr_expect_eq(stats.peer_count, 2);
    cr_expect(strncmp(stats.peers[0].name, "uid ", 4) == 0 && stats.peers[0].own);
    cr_expect_str_eq(stats.peers[1].name, "127.0.0.0/8");
    cr_expect(!stats.peers[1].own && stats.peers[1].requests == 0);
    ea_close(tcp);
    ea_close(local);
    scene_close(&s);
}
