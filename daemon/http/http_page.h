/* http_page: the answers over HTTP.
 * Owner:  http.
 * Thread: the server's.
 * Errors: http_page_answer: false: there is no memory, and the connection is to be closed. */
#ifndef ENGRAM_HTTP_HTTP_PAGE_H
#define ENGRAM_HTTP_HTTP_PAGE_H

#include "daemon/base/clock.h"
#include "daemon/http/exchange.h"
#include "daemon/http/guard.h"
#include "daemon/http/places.h"
#include "daemon/report/readiness.h"

struct MHD_Connection;
struct MHD_Response;

/* Statuses that are counted apart. */
enum { HTTP_CODES = 8 };

struct http_page {
    const struct clock *clock;
    const struct readiness *readiness;
    struct exchange *exchange;
    const struct http_places *places;
    struct MHD_Response *metrics; /* made at metrics_ns, and sent again while it is young */
    uint64_t metrics_ns;
    uint64_t made_ns; /* how long making it took, in all, waiting for the loop included */
    uint64_t answers[HTTP_CODES];
};

void http_page_init(struct http_page *p, const struct readiness *readiness,
                    struct exchange *exchange, const struct http_places *places,
                    const struct clock *clock);
void http_page_finish(struct http_page *p);

/* Answers with `status` as guard_judge gave it: with the page, if it is 200. */
bool http_page_answer(struct http_page *p, struct MHD_Connection *c, unsigned status,
                      enum guarded_page which);
/* Frees what is too old to be sent again. */
void http_page_forget(struct http_page *p);

#endif
