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

/* A text that the loop's counters were made into. */
struct http_made {
    struct MHD_Response *response; /* NULL: none */
    uint64_t made_ns;              /* when; it is sent again while it is young */
    bool names;                    /* it tells names of collections and of peers */
};

struct http_page {
    const struct clock *clock;
    const struct readiness *readiness;
    struct exchange *exchange;
    const struct http_places *places;
    struct http_made metrics, slow;
    uint64_t made_ns; /* how long making metrics took, in all, waiting for the loop included */
    uint64_t answers[HTTP_CODES];
};

void http_page_init(struct http_page *p, const struct readiness *readiness,
                    struct exchange *exchange, const struct http_places *places,
                    const struct clock *clock);
void http_page_finish(struct http_page *p);

/* Answers with `status` as guard_judge gave it: with the page, if it is 200. names: who asks may
 * see names of collections and of peers, too. */
bool http_page_answer(struct http_page *p, struct MHD_Connection *c, unsigned status,
                      enum guarded_page which, bool names);
/* True while there is something that http_page_forget would free when it is old. */
bool http_page_keeps(const struct http_page *p);
/* Frees what is too old to be sent again. */
void http_page_forget(struct http_page *p);

#endif
