#include "client/cli/text/progress.h"

#include "client/cli/text/format.h"
#include "client/cli/text/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_MS 100u

uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ENGRAM_ACCEL_REDRAW_MS, for terminals that are slow and tests that are fast. */
static uint64_t redraw_ns(void)
{
    const char *text = getenv("ENGRAM_ACCEL_REDRAW_MS");
    char *end = NULL;
    unsigned long ms = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : REDRAW_MS;
    if (end && (*end || ms > 60000)) ms = REDRAW_MS;
    return ms * 1000000u;
}

void progress_start(struct progress *p, uint64_t total, uint64_t row_bytes, uint64_t now_ns)
{
    *p = (struct progress){.shown = isatty(STDERR_FILENO) == 1,
                           .start_ns = now_ns,
                           .drawn_ns = now_ns,
                           .redraw_ns = redraw_ns(),
                           .total = total,
                           .row_bytes = row_bytes};
}

/* A bar before the tail, which begins with a space, if there is room for one. */
static void put_line(char *out, size_t out_bytes, const char *tail, double part, bool has_bar,
                     unsigned width)
{
    char bar[41];
    size_t used = table_width(tail) + 3;
    size_t cells = width > used ? width - used : 0;
    if (cells > sizeof bar - 1) cells = sizeof bar - 1;
    size_t full = (size_t)(part * (double)cells);
    memset(bar, '=', full);
    memset(bar + full, ' ', cells - full);
    if (full < cells && full > 0) bar[full] = '>';
    bar[cells] = 0;
    if (cells >= 4 && has_bar)
        snprintf(out, out_bytes, "[%s]%s", bar, tail);
    else
        snprintf(out, out_bytes, "%.*s", (int)width, tail + 1);
}

void progress_part_line(char *out, size_t out_bytes, const char *what, double part,
                        uint64_t elapsed_ns, unsigned width)
{
    struct text left;
    char tail[160];
    int n = snprintf(tail, sizeof tail, " %3.0f %%  %s", 100 * part, what);
    if (part > 0)
        snprintf(tail + n, sizeof tail - (size_t)n, "  %s left",
                 format_ns(&left, (uint64_t)((double)elapsed_ns / part * (1 - part))));
    put_line(out, out_bytes, tail, part, true, width);
}

void progress_line(char *out, size_t out_bytes, uint64_t done, uint64_t total, uint64_t row_bytes,
                   uint64_t elapsed_ns, unsigned width)
{
    struct text some, all, rate, left;
    double seconds = (double)elapsed_ns / 1e9, part = total ? (double)done / (double)total : 1;
    double a_second = seconds > 0 ? (double)done / seconds : 0;
    char tail[160];

    int n = 0;
    if (total)
        n = snprintf(tail, sizeof tail, " %3.0f %%  %s / %s%s", 100 * part,
                     row_bytes ? format_count(&some, done) : format_bytes(&some, done),
                     row_bytes ? format_count(&all, total) : format_bytes(&all, total),
                     row_bytes ? " rows" : "");
    else
        n = snprintf(tail, sizeof tail, " %s%s",
                     row_bytes ? format_count(&some, done) : format_bytes(&some, done),
                     row_bytes ? " rows" : "");
    if (a_second > 0 && !total)
        snprintf(tail + n, sizeof tail - (size_t)n, "  %s/s",
                 format_bytes(&rate, (uint64_t)(a_second * (double)(row_bytes ? row_bytes : 1))));
    if (a_second > 0 && total)
        snprintf(tail + n, sizeof tail - (size_t)n, "  %s/s  %s left",
                 format_bytes(&rate, (uint64_t)(a_second * (double)(row_bytes ? row_bytes : 1))),
                 format_ns(&left, (uint64_t)((double)(total - done) / a_second * 1e9)));
    put_line(out, out_bytes, tail, part, total > 0, width);
}

void progress_show(struct progress *p, uint64_t done, uint64_t now_ns)
{
    if (!p->shown || now_ns - p->drawn_ns < p->redraw_ns) return;
    struct winsize size = {0};
    char line[256];
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20;
    unsigned width = known ? size.ws_col : 80;
    double part = p->total ? (double)done / (double)p->total : 0;
    if (p->what)
        progress_part_line(line, sizeof line, p->what, part, now_ns - p->start_ns, width);
    else
        progress_line(line, sizeof line, done, p->total, p->row_bytes, now_ns - p->start_ns, width);
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    p->drawn = true;
    p->drawn_ns = now_ns;
}

void progress_finish(struct progress *p)
{
    if (p->drawn) fputs("\r\033[K", stderr);
    p->drawn = false;
}
