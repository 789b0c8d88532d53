/* Where metrics.listen may be. */
#include "daemon/base/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include <criterion/criterion.h>

Test(listen_address, loopback_and_paths)
{
    struct listen_address a;
    const struct sockaddr_in *in = (const struct sockaddr_in *)&a.address;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a.address;
    const struct sockaddr_un *un = (const struct sockaddr_un *)&a.address;
    cr_assert(listen_address_parse("127.0.0.1:7424", &a));
    cr_assert(in->sin_family == AF_INET && ntohs(in->sin_port) == 7424 && a.bytes == sizeof *in);
    cr_assert_eq(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
    cr_assert(listen_address_parse("127.9.8.7:0", &a));
    cr_assert(listen_address_parse("[::1]:65535", &a));
    cr_assert(in6->sin6_family == AF_INET6 && ntohs(in6->sin6_port) == 65535);
    cr_assert(a.bytes == sizeof *in6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr));
    cr_assert(listen_address_parse("/run/x.sock", &a));
    cr_assert(un->sun_family == AF_UNIX && strcmp(un->sun_path, "/run/x.sock") == 0);
}

Test(listen_address, anything_else_is_refused)
{
    static const char *const bad[] = {
        "",
        "0.0.0.0:1",
        "10.0.0.1:80",
        "[::]:80",
        "::1:80",
        "[::1]",
        "[::1]:",
        "[::1]x:5",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:8 ",
        " 127.0.0.1:8",
        "localhost:80",
        "[127.0.0.1]:80",
        ":80",
        "[]:80",
        "[:80",
        "]:80",
        "127.0.0.1:999999",
        "/",
        "/tmp/",
        "tmp/x",
        "[fe80::1]:80",
        "[::ffff:127.0.0.1]:80",
        "127.0.0.1:+8",
        "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0001]:80",
    };
    char path[109];
    struct listen_address a = {.bytes = 77};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(!listen_address_parse(bad[i], &a), "'%s'", bad[i]);
    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[108] = 0;
    cr_expect(!listen_address_parse(path, &a));
    cr_expect_eq(a.bytes, 77);
    path[107] = 0;
    cr_expect(listen_address_parse(path, NULL));
}
