#include "daemon/http/http_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <microhttpd.h>

#include "daemon/base/fault.h"

#define YOUNG_NS UINT64_C(20000000)   /* a text of this age is sent again */
#define WAIT_NS  UINT64_C(1000000000) /* the longest wait for a turn of the loop */

static const char text_type[] = "text/plain; charset=utf-8";
static const char metrics_type[] = "text/plain; version=0.0.4; charset=utf-8";

static const struct {
    unsigned code;
    const char *text;
} answers[HTTP_CODES] = {
    {200, "ok\n"},
    {400, "bad request: one Host header wanted\n"},
    {401, "unauthorized: the token of metrics.token_file wanted\n"},
    {404, "not found: there are /metrics, /healthz and /readyz\n"},
    {405, "method not allowed: GET or HEAD wanted\n"},
    {421, "misdirected: this is no host of that name\n"},
    {500, "no memory\n"},
    {503, ""},
};

void http_page_init(struct http_page *p, const struct readiness *readiness,
                    struct exchange *exchange, const struct http_places *places,
                    const struct clock *clock)
{
    *p = (struct http_page){
        .clock = clock, .readiness = readiness, .exchange = exchange, .places = places};
}

static void forget(struct http_page *p)
{
    if (p->metrics) MHD_destroy_response(p->metrics);
    p->metrics = NULL;
}

void http_page_finish(struct http_page *p)
{
    forget(p);
}

static bool is_young(const struct http_page *p)
{
    return clock_read_ns(p->clock) - p->metrics_ns < YOUNG_NS;
}

void http_page_forget(struct http_page *p)
{
    if (p->metrics && !is_young(p)) forget(p);
}

/* ---------------------------------------------------------------- responses */

/* One request a connection: so its time is bounded by one number. */
static bool add_headers(struct MHD_Response *r, unsigned status, const char *type)
{
    bool added = MHD_add_response_header(r, "Content-Type", type) == MHD_YES &&
                 MHD_add_response_header(r, "Connection", "close") == MHD_YES &&
                 MHD_add_response_header(r, "Cache-Control", "no-store") == MHD_YES &&
                 MHD_add_response_header(r, "X-Content-Type-Options", "nosniff") == MHD_YES;
    if (added && status == 401)
        added = MHD_add_response_header(r, "WWW-Authenticate",
                                        "Basic realm=\"engram-accel\", charset=\"UTF-8\"") &&
                MHD_add_response_header(r, "WWW-Authenticate", "Bearer realm=\"engram-accel\"");
    if (added && status == 405) added = MHD_add_response_header(r, "Allow", "GET, HEAD") == MHD_YES;
    return added;
}

/* Takes text over if mode is MUST_FREE. */
static struct MHD_Response *make_response(unsigned status, const char *type, char *text,
                                          size_t bytes, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *r =
        fault_here("http: response") ? NULL : MHD_create_response_from_buffer(bytes, text, mode);
    if (!r) {
        if (mode == MHD_RESPMEM_MUST_FREE) free(text);
        return NULL;
    }
    if (add_headers(r, status, type)) return r;
    MHD_destroy_response(r);
    return NULL;
}

static bool send_response(struct http_page *p, struct MHD_Connection *c, unsigned status,
                          struct MHD_Response *r)
{
    for (int i = 0; i < HTTP_CODES; i++)
        p->answers[i] += answers[i].code == status;
    return r && MHD_queue_response(c, status, r) == MHD_YES;
}

static bool say(struct http_page *p, struct MHD_Connection *c, unsigned status, const char *text)
{
    struct MHD_Response *r =
        make_response(status, text_type, (char *)text, strlen(text), MHD_RESPMEM_MUST_COPY);
    bool sent = send_response(p, c, status, r);
    if (r) MHD_destroy_response(r);
    return sent;
}

static bool say_word(struct http_page *p, struct MHD_Connection *c, const char *word)
{
    char line[32];
    int n = snprintf(line, sizeof line, "%s\n", word);
    return n > 0 && say(p, c, 503, line);
}

/* ---------------------------------------------------------------- /metrics */

static void render_itself(const struct http_page *p, struct metrics_text *t)
{
    char label[32];
    metrics_text_family(t, "engram_accel_http_requests_total", "counter",
                        "Requests over HTTP, by what they were answered.");
    for (int i = 0; i < HTTP_CODES; i++) {
        snprintf(label, sizeof label, "code=\"%u\"", answers[i].code);
        metrics_text_count(t, label, p->answers[i]);
    }
    metrics_text_family(t, "engram_accel_http_connections_total", "counter",
                        "Connections over HTTP.");
    metrics_text_count(t, NULL, p->places->taken_total);
    metrics_text_family(t, "engram_accel_http_connections_cut_total", "counter",
                        "Connections over HTTP that were ended because they took too long.");
    metrics_text_count(t, NULL, p->places->cut_total);
    metrics_text_family(t, "engram_accel_http_render_seconds_total", "counter",
                        "Time to make this page, so far.");
    metrics_text_seconds(t, NULL, p->made_ns);
}

static void render_readiness(const struct http_page *p, struct metrics_text *t)
{
    metrics_text_family(t, "engram_accel_ready", "gauge", "1: /readyz says so.");
    metrics_text_count(t, NULL, !readiness_word(p->readiness, clock_read_ns(p->clock)));
}

/* Makes the text anew. Returns NULL, or why there is none. */
static const char *make_metrics(struct http_page *p)
{
    uint64_t begun_ns = clock_read_ns(p->clock);
    struct metrics_text text = {0};
    forget(p);
    const struct metrics_view *view = exchange_take(p->exchange, WAIT_NS);
    if (!view) return "loop";
    bool made = metrics_render(view, &text);
    metrics_render_process(&text);
    render_readiness(p, &text);
    render_itself(p, &text);
    if (!made || text.failed) {
        metrics_text_finish(&text);
        return "memory";
    }
    p->metrics = make_response(200, metrics_type, text.data, text.bytes, MHD_RESPMEM_MUST_FREE);
    p->metrics_ns = clock_read_ns(p->clock);
    p->made_ns += p->metrics_ns - begun_ns;
    return p->metrics ? NULL : "memory";
}

static bool answer_metrics(struct http_page *p, struct MHD_Connection *c)
{
    int phase = atomic_load(&p->readiness->phase);
    if (phase != LIFE_SERVING)
        return say_word(p, c, phase == LIFE_LOADING ? "loading" : "stopping");
    const char *why = p->metrics && is_young(p) ? NULL : make_metrics(p);
    if (why)
        return strcmp(why, "memory") == 0 ? say(p, c, 500, "no memory\n") : say_word(p, c, why);
    return send_response(p, c, 200, p->metrics);
}

bool http_page_answer(struct http_page *p, struct MHD_Connection *c, unsigned status,
                      enum guarded_page which)
{
    uint64_t now_ns = clock_read_ns(p->clock);
    for (int i = 0; i < HTTP_CODES && status != 200; i++)
        if (answers[i].code == status) return say(p, c, status, answers[i].text);
    if (status != 200) return false;
    const char *word = readiness_word(p->readiness, now_ns);
    switch (which) {
    case PAGE_METRICS: return answer_metrics(p, c);
    case PAGE_HEALTHZ:
        return readiness_alive(p->readiness, now_ns) ? say(p, c, 200, "ok\n")
                                                     : say_word(p, c, "loop");
    case PAGE_READYZ: break;
    }
    return word ? say_word(p, c, word) : say(p, c, 200, "ready\n");
}
