#include "daemon/http/http_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <microhttpd.h>

#include "daemon/base/fault.h"
#include "daemon/http/page_files.h"
#include "daemon/report/slow_json.h"

#define YOUNG_NS UINT64_C(20000000)   /* a text of this age is sent again */
#define WAIT_NS  UINT64_C(1000000000) /* the longest wait for a turn of the loop */

static const char text_type[] = "text/plain; charset=utf-8";
static const char json_type[] = "application/json";
static const char metrics_type[] = "text/plain; version=0.0.4; charset=utf-8";

static const struct {
    unsigned code;
    const char *text;
} answers[HTTP_CODES] = {
    {200, "ok\n"},
    {400, "bad request: one Host header wanted\n"},
    {401, "unauthorized: the token of metrics.token_file wanted\n"},
    {404, "not found: there are /, /metrics, /slow.json, /healthz and /readyz\n"},
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

static void forget(struct http_made *m)
{
    if (m->response) MHD_destroy_response(m->response);
    m->response = NULL;
}

void http_page_finish(struct http_page *p)
{
    forget(&p->metrics);
    forget(&p->slow);
}

static bool is_young(const struct http_page *p, const struct http_made *m)
{
    return m->response && clock_read_ns(p->clock) - m->made_ns < YOUNG_NS;
}

bool http_page_keeps(const struct http_page *p)
{
    return p->metrics.response || p->slow.response;
}

void http_page_forget(struct http_page *p)
{
    if (!is_young(p, &p->metrics)) forget(&p->metrics);
    if (!is_young(p, &p->slow)) forget(&p->slow);
}

/* ---------------------------------------------------------------- responses */

/* One request a connection: so its time is bounded by one number. A browser takes nothing from
 * elsewhere, makes no script of a text, shows no page inside another's, and lets no other site have
 * what it got here. */
static const char *const common_headers[][2] = {
    {"Connection", "close"},
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
};

static bool add_headers(struct MHD_Response *r, unsigned status, const char *type)
{
    bool added = MHD_add_response_header(r, "Content-Type", type) == MHD_YES;
    for (size_t i = 0; i < sizeof common_headers / sizeof *common_headers && added; i++)
        added = MHD_add_response_header(r, common_headers[i][0], common_headers[i][1]) == MHD_YES;
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
static const char *make_metrics(struct http_page *p, struct http_made *m)
{
    uint64_t begun_ns = clock_read_ns(p->clock);
    struct metrics_text text = {0};
    const struct look *look = exchange_take(p->exchange, LOOK_METRICS, WAIT_NS);
    if (!look) return "loop";
    bool made = metrics_render(&look->metrics, &text);
    metrics_render_process(&text);
    render_readiness(p, &text);
    render_itself(p, &text);
    if (!made || text.failed) {
        metrics_text_finish(&text);
        return "memory";
    }
    m->response = make_response(200, metrics_type, text.data, text.bytes, MHD_RESPMEM_MUST_FREE);
    p->made_ns += clock_read_ns(p->clock) - begun_ns;
    return m->response ? NULL : "memory";
}

/* ---------------------------------------------------------------- /slow.json */

static const char *make_slow(struct http_page *p, struct http_made *m)
{
    const struct look *look = exchange_take(p->exchange, LOOK_SLOW, WAIT_NS);
    if (!look) return "loop";
    char *text = slow_json(&look->slow, m->names);
    if (!text) return "memory";
    m->response = make_response(200, json_type, text, strlen(text), MHD_RESPMEM_MUST_FREE);
    return m->response ? NULL : "memory";
}

/* ---------------------------------------------------------------- all of them */

static bool answer_made(struct http_page *p, struct MHD_Connection *c, struct http_made *m,
                        const char *(*make)(struct http_page *p, struct http_made *m), bool names)
{
    int phase = atomic_load(&p->readiness->phase);
    bool turns = phase == LIFE_LOADING && atomic_load(&p->readiness->turned_ns);
    if (phase != LIFE_SERVING && !turns)
        return say_word(p, c, phase == LIFE_LOADING ? "loading" : "stopping");
    const char *why = NULL;
    if (!is_young(p, m) || m->names != names) {
        forget(m);
        m->names = names;
        why = make(p, m);
        m->made_ns = clock_read_ns(p->clock);
    }
    if (why)
        return strcmp(why, "memory") == 0 ? say(p, c, 500, "no memory\n") : say_word(p, c, why);
    return send_response(p, c, 200, m->response);
}

static bool answer_file(struct http_page *p, struct MHD_Connection *c, enum guarded_page which)
{
    const struct page_file file = page_files_find(which);
    struct MHD_Response *r =
        make_response(200, file.type, (char *)file.data, file.bytes, MHD_RESPMEM_PERSISTENT);
    bool sent = send_response(p, c, 200, r);
    if (r) MHD_destroy_response(r);
    return sent;
}

bool http_page_answer(struct http_page *p, struct MHD_Connection *c, unsigned status,
                      enum guarded_page which, bool names)
{
    uint64_t now_ns = clock_read_ns(p->clock);
    for (int i = 0; i < HTTP_CODES && status != 200; i++)
        if (answers[i].code == status) return say(p, c, status, answers[i].text);
    if (status != 200) return false;
    const char *word = readiness_word(p->readiness, now_ns);
    switch (which) {
    case PAGE_METRICS: return answer_made(p, c, &p->metrics, make_metrics, names);
    case PAGE_SLOW: return answer_made(p, c, &p->slow, make_slow, names);
    case PAGE_HEALTHZ:
        return readiness_alive(p->readiness, now_ns) ? say(p, c, 200, "ok\n")
                                                     : say_word(p, c, "loop");
    case PAGE_READYZ: return word ? say_word(p, c, word) : say(p, c, 200, "ready\n");
    case PAGE_STATUS:
    case PAGE_CSS:
    case PAGE_ICON:
    case PAGE_JS:
    case PAGE_READ_JS:
    case PAGE_SAMPLE_JS:
    case PAGE_CHART_JS:
    case PAGE_TABLES_JS: break;
    }
    return answer_file(p, c, which);
}
