#include "daemon/base/listen_address.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

enum { HOST_BYTES_MAX = 45 }; /* an IPv6 address in numbers */

bool listen_address_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool parse_path(const char *text, struct listen_address *out)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&out->address;
    size_t bytes = strlen(text);
    if (bytes >= sizeof un->sun_path || text[bytes - 1] == '/') return false;
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, text, bytes + 1);
    out->bytes = sizeof *un;
    return true;
}

static bool parse_port(const char *text, in_port_t *out)
{
    size_t digits = strspn(text, "0123456789");
    if (!digits || digits > 5 || text[digits]) return false;
    unsigned long port = strtoul(text, NULL, 10);
    *out = htons((in_port_t)port);
    return port <= 65535;
}

static bool parse_host(const char *text, struct listen_address *out)
{
    char host[HOST_BYTES_MAX + 1];
    bool v6 = text[0] == '[';
    const char *end = strrchr(text, ':');
    if (!end || (v6 && end[-1] != ']')) return false;
    size_t bytes = (size_t)(end - text) - 2 * v6;
    if (bytes > HOST_BYTES_MAX) return false;
    memcpy(host, text + v6, bytes);
    host[bytes] = 0;
    if ((strchr(host, ':') != NULL) != v6 || !listen_address_is_loopback(host)) return false;
    struct sockaddr_in *in = (struct sockaddr_in *)&out->address;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&out->address;
    out->address.ss_family = v6 ? AF_INET6 : AF_INET;
    out->bytes = v6 ? sizeof *in6 : sizeof *in;
    inet_pton(out->address.ss_family, host, v6 ? (void *)&in6->sin6_addr : &in->sin_addr);
    return parse_port(end + 1, v6 ? &in6->sin6_port : &in->sin_port);
}

bool listen_address_parse(const char *text, struct listen_address *out)
{
    struct listen_address read;
    memset(&read, 0, sizeof read);
    if (!(text[0] == '/' ? parse_path(text, &read) : parse_host(text, &read))) return false;
    if (out) *out = read;
    return true;
}
