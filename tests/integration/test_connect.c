/* Ways to the daemon: TCP on loopback, and a token. */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/sets.h"

static uint16_t logged_port(const struct daemon_process *d)
{
    char line[512];
    unsigned port = 0;
    wait_logged(d, " port ");
    FILE *f = fopen(d->log_path, "r");
    while (fgets(line, sizeof line, f)) {
        const char *at = strstr(line, " port ");
        if (at) port = (unsigned)atoi(at + 6);
    }
    fclose(f);
    return (uint16_t)port;
}

static void expect_tcp(const char *host_setting, const char *host)
{
    struct scene s;
    scene_open(&s, (const char *[]){"tcp.enabled=true", "tcp.port=0", host_setting, NULL});
    uint16_t port = logged_port(&s.daemon);
    cr_assert(port > 0);
    ea_client *c = NULL;
    ea_options options = {.tcp_host = host,
                          .tcp_port = port,
                          .space = "tcp",
                          .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    struct set t;
    set_make(&t, 300, EA_COSINE, 2000, 8); /* 2.4 MB */
    set_send(&t, c);
    set_expect_knn(&t, c, 10, NULL, NULL, NULL);
    cr_assert_eq(ea_collection_drop(c, t.name), EA_OK);
    set_free(&t);
    ea_close(c);
    scene_close(&s);
}

Test(connect, by_tcp_on_loopback)
{
    expect_tcp("tcp.host=127.0.0.1", "127.0.0.1");
}

Test(connect, by_tcp_on_loopback_v6)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool none = fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address);
    if (fd >= 0) close(fd);
    if (none) cr_skip_test("SKIP: no IPv6 loopback here");
    expect_tcp("tcp.host=::1", "::1");
}

static void expect_token(const struct daemon_process *d, const char *token, size_t bytes,
                         ea_status want)
{
    ea_client *c = NULL;
    ea_options options = {.socket_path = d->socket_path, .token = token, .token_bytes = bytes};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    cr_assert_eq(ea_ping(c), want, "token of %zu bytes: %s", bytes, ea_error_text(c));
    if (want) {
        cr_assert_eq(ea_error_detail(c), DETAIL_BAD_TOKEN);
        cr_assert_not(ea_error_retryable(c));
        if (bytes) cr_assert_null(strstr(ea_error_text(c), token), "the token is in the text");
    }
    ea_close(c);
}

Test(connect, with_a_token)
{
    char path[64], setting[96];
    snprintf(path, sizeof path, "/tmp/engram-token.%d", getpid());
    snprintf(setting, sizeof setting, "auth.token_file=%s", path);
    FILE *f = fopen(path, "w");
    cr_assert_eq(fchmod(fileno(f), 0600), 0);
    fputs("open-sesame\n", f);
    fclose(f);
    struct daemon_process d;
    daemon_start(&d, (const char *[]){setting, NULL});
    expect_token(&d, "open-sesame", 11, EA_OK);
    expect_token(&d, NULL, 0, EA_UNAUTHENTICATED);
    expect_token(&d, "open-sesam", 10, EA_UNAUTHENTICATED);
    expect_token(&d, "open-sesamE", 11, EA_UNAUTHENTICATED);
    expect_token(&d, "open-sesame\n", 12, EA_UNAUTHENTICATED);
    char longest[256];
    memset(longest, 'x', sizeof longest);
    longest[255] = 0;
    expect_token(&d, longest, 255, EA_UNAUTHENTICATED);
    expect_token(&d, "open-sesame", 11, EA_OK);
    cr_assert_not(daemon_logged(&d, "sesam"), "a token in the log");
    cr_assert_eq(daemon_stop(&d), 0);
    unlink(path);
}
