/* output: replies -> socket bytes. Heads are encoded into pages, bodies are written from where
 * they lie; each turn of the loop makes one gathered write of everything that is ready. */
#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/net/connection.h"

enum { PAGE_BYTES = 65536, GATHER_MAX = 64, FREE_PAGES_MAX = 16, WRITE_BYTES_MAX = 1 << 30 };

struct output_page {
    struct output_page *next; /* in the free list */
    uint32_t used;
    uint32_t unsent;
    unsigned char bytes[PAGE_BYTES] __attribute__((aligned(64)));
};

struct span {
    struct span *next;
    const unsigned char *data;
    uint64_t bytes;
    struct output_page *page; /* NULL: this span is a body */
    struct job *job;          /* gets on_written when this span is done; or NULL */
};

static struct output_page *page_take(struct net *n)
{
    struct output_page *p = n->free_pages;
    if (p) {
        n->free_pages = p->next;
        n->free_page_count--;
    } else {
        p = fault_here("output: page") ? NULL : aligned_alloc(64, sizeof *p);
    }
    if (p) {
        p->next = NULL;
        p->used = p->unsent = 0;
    }
    return p;
}

/* Keeps only a few free pages, however many connections there were at once. */
static void page_give(struct net *n, struct output_page *p)
{
    if (n->free_page_count >= FREE_PAGES_MAX) {
        free(p);
        return;
    }
    n->free_page_count++;
    p->next = n->free_pages;
    n->free_pages = p;
}

static struct span *span_take(struct connection *c)
{
    struct net *n = c->net;
    struct span *s = n->free_spans;
    if (s)
        n->free_spans = s->next;
    else
        s = fault_here("output: span") ? NULL : malloc(sizeof *s);
    return s;
}

static void span_append(struct connection *c, struct span *s)
{
    if (!c->output_head) c->output_progress_ns = c->net->now_ns;
    if (c->output_tail)
        c->output_tail->next = s;
    else
        c->output_head = s;
    c->output_tail = s;
    c->output_bytes += s->bytes;
}

void *connection_reserve(struct connection *c, size_t bytes)
{
    if (c->closing) return NULL;
    struct output_page *p = c->page;
    if (p && p->used + bytes <= PAGE_BYTES) return p->bytes + p->used;
    struct output_page *fresh = page_take(c->net);
    if (!fresh) {
        connection_close(c);
        return NULL;
    }
    if (p && !p->unsent) page_give(c->net, p);
    c->page = fresh;
    return fresh->bytes;
}

void connection_commit(struct connection *c, size_t bytes)
{
    struct output_page *p = c->page;
    struct span *tail = c->output_tail;
    /* The lengths of a write in flight are fixed: only a span behind it may still grow. */
    if (tail && tail->page == p && !tail->job && !c->write_busy) {
        tail->bytes += bytes;
        c->output_bytes += bytes;
    } else {
        struct span *s = span_take(c);
        if (!s) {
            connection_close(c);
            return;
        }
        *s = (struct span){.data = p->bytes + p->used, .bytes = bytes, .page = p};
        span_append(c, s);
    }
    p->used += (uint32_t)bytes;
    p->unsent += (uint32_t)bytes;
    connection_wake(c);
}

/* Bytes that wait behind the body at the head of the queue. */
static uint64_t output_excess(const struct connection *c)
{
    const struct span *s = c->output_head;
    if (s && !s->job && s->next) s = s->next; /* the head of that body's reply */
    uint64_t first = s && s->job ? s->bytes : 0;
    return c->output_bytes - first;
}

void connection_send_body(struct connection *c, struct job *j, const void *data, uint64_t bytes)
{
    struct span *s = c->closing ? NULL : span_take(c);
    if (!s) {
        connection_close(c);
        c->net->events.on_written(c->net->events.owner, j);
        return;
    }
    *s = (struct span){.data = data, .bytes = bytes, .job = j};
    span_append(c, s);
    connection_wake(c);
    /* Waiting for the next sweep, the output could grow to many times the limit. */
    if (!c->closing && output_excess(c) > c->net->config->output_mib_max << 21)
        connection_drop(c, "too much unread output (limits.output_mib)");
}

static void span_end(struct connection *c, struct span *s)
{
    struct net *n = c->net;
    c->output_head = s->next;
    if (!c->output_head) c->output_tail = NULL;
    if (s->job) n->events.on_written(n->events.owner, s->job);
    s->next = n->free_spans;
    n->free_spans = s;
}

static void page_sent(struct connection *c, struct output_page *p, uint32_t bytes)
{
    p->unsent -= bytes;
    if (p->unsent) return;
    if (p == c->page)
        p->used = 0;
    else
        page_give(c->net, p);
}

/* Removes `bytes` bytes, which the system has taken, from the front of the queue. */
static void output_consume(struct connection *c, uint64_t bytes)
{
    c->output_bytes -= bytes;
    c->net->counters.bytes_out += bytes;
    if (bytes) c->output_progress_ns = c->net->now_ns;
    while (c->output_head) {
        struct span *s = c->output_head;
        uint64_t part = bytes < s->bytes ? bytes : s->bytes;
        bytes -= part;
        s->data += part;
        s->bytes -= part;
        if (s->page && part) page_sent(c, s->page, (uint32_t)part);
        if (s->bytes) return;
        span_end(c, s);
    }
}

static unsigned output_gather(const struct connection *c, uv_buf_t bufs[GATHER_MAX])
{
    unsigned count = 0;
    for (struct span *s = c->output_head; s && count < GATHER_MAX; s = s->next) {
        bool whole = s->bytes <= WRITE_BYTES_MAX;
        if (s->bytes)
            bufs[count++] =
                uv_buf_init((char *)s->data, whole ? (unsigned)s->bytes : WRITE_BYTES_MAX);
        if (!whole) break; /* the rest of this span is written before the next one */
    }
    return count;
}

void output_written(struct connection *c, bool well)
{
    c->write_busy = false;
    if (c->closing) return;
    if (!well) {
        connection_close(c);
        return;
    }
    output_consume(c, c->write_bytes);
    connection_wake(c);
}

void output_flush(struct connection *c)
{
    uv_buf_t bufs[GATHER_MAX];
    while (c->output_head && !c->write_busy && !c->closing) {
        unsigned count = output_gather(c, bufs);
        int n = count ? c->transport->try_write(c, bufs, count) : 0;
        if (n >= 0) {
            output_consume(c, (uint64_t)n);
            if (n || !count) continue;
        }
        if (n < 0 && n != UV_EAGAIN) {
            connection_close(c);
            return;
        }
        c->write_bytes = 0;
        for (unsigned i = 0; i < count; i++)
            c->write_bytes += bufs[i].len;
        c->write_busy = c->transport->write(c, bufs, count);
        if (!c->write_busy) {
            connection_close(c);
            return;
        }
    }
    if (c->finishing && !c->output_head && !c->closing && !c->shutdown_sent) {
        c->shutdown_sent = true;
        if (!c->transport->shutdown(c)) connection_close(c);
    }
}

bool output_stalled(struct connection *c, uint64_t now_ns)
{
    if (!c->output_head) return false;
    /* One write can be hundreds of MiB: what the system has taken of it so far is progress, too. */
    size_t left = c->transport->unwritten(c);
    if (left != c->output_left) {
        c->output_left = left;
        c->output_progress_ns = now_ns;
    }
    return now_ns > c->output_progress_ns &&
           now_ns - c->output_progress_ns > net_allowance_ns(c->net->config->stall_ms_max);
}

bool output_excessive(const struct connection *c)
{
    return output_excess(c) > c->net->config->output_mib_max << 20;
}

void output_relax(struct connection *c)
{
    if (!c->page || c->page->unsent) return;
    page_give(c->net, c->page);
    c->page = NULL;
}

void output_release(struct connection *c)
{
    struct output_page *current = c->page;
    c->page = NULL;
    bool current_seen = false;
    while (c->output_head) {
        struct span *s = c->output_head;
        if (s->page) {
            if (s->page == current) current_seen = true;
            page_sent(c, s->page, (uint32_t)s->bytes);
        }
        c->output_bytes -= s->bytes;
        span_end(c, s);
    }
    if (current && !current_seen) page_give(c->net, current);
}

void output_finish_pool(struct net *n)
{
    while (n->free_pages) {
        struct output_page *p = n->free_pages;
        n->free_pages = p->next;
        free(p);
    }
    while (n->free_spans) {
        struct span *s = n->free_spans;
        n->free_spans = s->next;
        free(s);
    }
}
