/* What a request over HTTP gets by its head alone. */
#include "daemon/http/guard.h"

#include <string.h>

#include <criterion/criterion.h>

static struct guard guard(void)
{
    struct guard g = {.open = false};
    secret_keep(&g.token, "sec-ret", 7);
    return g;
}

static struct http_head head(const char *method, const char *path)
{
    return (struct http_head){
        .method = method, .path = path, .version = "HTTP/1.1", .host = "localhost", .hosts = 1};
}

static unsigned judge(const struct guard *g, const struct http_head *h)
{
    enum guarded_page page = PAGE_METRICS;
    return guard_judge(g, h, &page);
}

Test(guard, hosts_of_this_machine)
{
    static const char *const good[] = {"localhost", "LocalHost:80", "127.0.0.1", "127.1.2.3:65535",
                                       "[::1]",     "[::1]:7424",   "localhost:"};
    static const char *const bad[] = {"",
                                      "evil.example",
                                      "localhost.evil.example",
                                      "localhost:80x",
                                      "localhost:123456",
                                      "127.0.0.1.",
                                      "10.0.0.1",
                                      "::1",
                                      "[::1",
                                      "[::2]",
                                      "[::1]x",
                                      "[localhost]:80",
                                      "127.0.0.1 ",
                                      "[127.0.0.1]",
                                      ":80",
                                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_expect(guard_knows_host(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(!guard_knows_host(bad[i]), "%s", bad[i]);
}

Test(guard, tokens)
{
    struct guard g = guard();
    static const char *const good[] = {"Bearer sec-ret", "bearer  sec-ret", "BEARER sec-ret",
                                       "Basic eDpzZWMtcmV0", /* x:sec-ret */
                                       "basic OnNlYy1yZXQ=" /* :sec-ret */};
    static const char *const bad[] = {
        "",
        "Bearer",
        "Bearer ",
        "Bearer sec-re",
        "Bearer sec-rett",
        "Bearer Sec-ret",
        "Bearersec-ret",
        "sec-ret",
        " sec-ret",
        "Digest sec-ret",
        "Basic sec-ret",
        "Basic ",
        "Basic ====",
        "Basic =",
        "Basic eDpzZWMtcmV",      /* cut */
        "Basic c2VjLXJldA==",     /* sec-ret: no colon */
        "Basic eDp5OnNlYy1yZXQ=", /* x:y:sec-ret: the password is y:sec-ret */
        "Basic e*pzZWMtcmV0",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_expect(guard_knows_token(&g, good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(!guard_knows_token(&g, bad[i]), "%s", bad[i]);
    char longest[1100] = "Basic ";
    memset(longest + 6, 'Q', 1028);
    cr_expect(!guard_knows_token(&g, longest));
    longest[6 + 1024] = 0;
    cr_expect(!guard_knows_token(&g, longest));
}

Test(guard, statuses)
{
    struct guard g = guard(), open = {.open = true};
    enum guarded_page page;
    struct http_head h = head("GET", "/metrics");
    cr_expect_eq(judge(&g, &h), 401);
    cr_expect_eq(guard_judge(&open, &h, &page), 200);
    cr_expect_eq(page, PAGE_METRICS);
    h.authorization = "Bearer sec-ret";
    h.authorizations = 1;
    cr_expect_eq(judge(&g, &h), 200);
    h.authorization = "Bearer wrong";
    cr_expect_eq(judge(&g, &h), 401);
    h.authorizations = 2;
    cr_expect_eq(judge(&g, &h), 400);

    h = head("HEAD", "/readyz");
    cr_expect_eq(guard_judge(&g, &h, &page), 200);
    cr_expect_eq(page, PAGE_READYZ);
    h = head("GET", "/healthz");
    cr_expect_eq(guard_judge(&g, &h, &page), 200);
    cr_expect_eq(page, PAGE_HEALTHZ);
    h.host = "evil.example";
    cr_expect_eq(judge(&g, &h), 421);
    h.host = NULL;
    h.hosts = 0;
    cr_expect_eq(judge(&g, &h), 400);
    h.version = "HTTP/1.0";
    cr_expect_eq(judge(&g, &h), 200);
    h.hosts = 2;
    h.host = "localhost";
    cr_expect_eq(judge(&g, &h), 400);
    static const char *const paths[] = {"//",          "",          "/page.js/", "/page.html",
                                        "/../page.js", "/metrics/", "/metric",   "//metrics",
                                        "/METRICS"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        h = head("GET", paths[i]);
        cr_expect_eq(judge(&open, &h), 404, "%s", paths[i]);
    }
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "get", "TRACE"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        h = head(methods[i], "/metrics");
        cr_expect_eq(judge(&open, &h), 405, "%s", methods[i]);
    }
}

Test(guard, all_of_the_status_page_wants_the_token)
{
    static const char *const paths[] = {"/",         "/page.css",  "/icon.svg",
                                        "/page.js",  "/read.js",   "/sample.js",
                                        "/chart.js", "/tables.js", "/slow.json"};
    struct guard g = guard(), open = {.open = true};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        enum guarded_page page = PAGE_METRICS;
        struct http_head h = head("GET", paths[i]);
        cr_expect_eq(judge(&g, &h), 401, "%s", paths[i]);
        cr_expect_eq(guard_judge(&open, &h, &page), 200, "%s", paths[i]);
        cr_expect_neq(page, PAGE_METRICS, "%s", paths[i]);
        h.authorization = "Basic eDpzZWMtcmV0";
        h.authorizations = 1;
        cr_expect_eq(judge(&g, &h), 200, "%s", paths[i]);
        h.host = "evil.example";
        cr_expect_eq(judge(&g, &h), 421, "%s", paths[i]);
    }
}
