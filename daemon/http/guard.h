/* guard: what a request over HTTP gets, judged by its first lines and headers alone.
 * Owner:  http.
 * Thread: any.
 * Errors: none; what is wrong gets an HTTP status. */
#ifndef ENGRAM_HTTP_GUARD_H
#define ENGRAM_HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/secret.h"

/* Who may read what has numbers. */
struct guard {
    bool open;           /* everybody */
    struct secret token; /* else who knows it */
};

enum guarded_page {
    PAGE_METRICS,
    PAGE_SLOW,
    PAGE_HEALTHZ,
    PAGE_READYZ,
    PAGE_STATUS, /* and its files */
    PAGE_CSS,
    PAGE_ICON,
    PAGE_JS,
    PAGE_READ_JS,
    PAGE_SAMPLE_JS,
    PAGE_CHART_JS,
    PAGE_TABLES_JS,
};

/* A request's head. Texts end with a zero; NULL: it has none. */
struct http_head {
    const char *method, *path, *version;
    const char *host, *authorization;
    unsigned hosts, authorizations; /* headers of that name */
};

/* Returns 200 and writes *page, or the status that refuses it: 400, 401, 404, 405, 421. */
unsigned guard_judge(const struct guard *g, const struct http_head *head, enum guarded_page *page);

/* True for a name of this machine for itself: localhost, 127.0.0.0/8, [::1], with any port. A page
 * of another site whose name was made to point here says that name. */
bool guard_knows_host(const char *host);
/* True for "Bearer TOKEN", and "Basic" with the token as password. It takes as long for one wrong
 * token as for another. */
bool guard_knows_token(const struct guard *g, const char *authorization);

#endif
