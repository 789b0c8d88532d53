#include "daemon/http/guard.h"

#include <string.h>
#include <strings.h>
#include <openssl/evp.h>

#include "daemon/base/listen_address.h"

enum {
    HOST_BYTES_MAX = 64,
    BASIC_BYTES_MAX = 1024, /* of a name and a token in base64 */
};

static const char *const paths[] = {
    [PAGE_METRICS] = "/metrics",     [PAGE_SLOW] = "/slow.json",    [PAGE_HEALTHZ] = "/healthz",
    [PAGE_READYZ] = "/readyz",       [PAGE_STATUS] = "/",           [PAGE_CSS] = "/page.css",
    [PAGE_ICON] = "/icon.svg",       [PAGE_JS] = "/page.js",        [PAGE_READ_JS] = "/read.js",
    [PAGE_SAMPLE_JS] = "/sample.js", [PAGE_CHART_JS] = "/chart.js", [PAGE_TABLES_JS] = "/tables.js",
};

static bool is_basic(const struct guard *g, const char *text)
{
    uint8_t plain[BASIC_BYTES_MAX];
    size_t bytes = strlen(text), padding = 0;
    if (!bytes || bytes > BASIC_BYTES_MAX || bytes % 4) return false;
    while (padding < 2 && text[bytes - 1 - padding] == '=')
        padding++;
    int n = EVP_DecodeBlock(plain, (const uint8_t *)text, (int)bytes);
    if (n < (int)padding) return false;
    const uint8_t *colon = memchr(plain, ':', (size_t)n - padding);
    return colon && secret_matches(&g->token, colon + 1, (size_t)(plain + n - padding - colon - 1));
}

bool guard_knows_token(const struct guard *g, const char *authorization)
{
    const char *rest = strchr(authorization, ' ');
    if (!rest) return false;
    size_t scheme = (size_t)(rest - authorization);
    rest += strspn(rest, " ");
    if (scheme == strlen("bearer") && strncasecmp(authorization, "bearer", scheme) == 0)
        return secret_matches(&g->token, rest, strlen(rest));
    return scheme == strlen("basic") && strncasecmp(authorization, "basic", scheme) == 0 &&
           is_basic(g, rest);
}

bool guard_knows_host(const char *host)
{
    char name[HOST_BYTES_MAX];
    bool v6 = host[0] == '[';
    const char *end = v6 ? strchr(host, ']') : strchrnul(host, ':');
    if (!end) return false;
    const char *port = end + v6;
    size_t digits = *port == ':' ? strspn(port + 1, "0123456789") : 0;
    if (*port && (*port != ':' || digits > 5 || port[1 + digits])) return false;
    size_t bytes = (size_t)(end - host) - v6;
    if (bytes >= sizeof name) return false;
    memcpy(name, host + v6, bytes);
    name[bytes] = 0;
    if (!v6 && strcasecmp(name, "localhost") == 0) return true;
    return (strchr(name, ':') != NULL) == v6 && listen_address_is_loopback(name);
}

unsigned guard_judge(const struct guard *g, const struct http_head *head, enum guarded_page *page)
{
    size_t i = 0;
    if (head->hosts > 1 || head->authorizations > 1) return 400;
    if (!head->host && strcmp(head->version, "HTTP/1.0") != 0) return 400;
    if (head->host && !guard_knows_host(head->host)) return 421;
    while (i < sizeof paths / sizeof *paths && strcmp(head->path, paths[i]) != 0)
        i++;
    if (i == sizeof paths / sizeof *paths) return 404;
    if (strcmp(head->method, "GET") != 0 && strcmp(head->method, "HEAD") != 0) return 405;
    *page = (enum guarded_page)i;
    if (*page == PAGE_HEALTHZ || *page == PAGE_READYZ || g->open) return 200;
    return head->authorization && guard_knows_token(g, head->authorization) ? 200 : 401;
}
