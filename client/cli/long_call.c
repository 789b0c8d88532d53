#include "client/cli/long_call.h"

#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/meta_total.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Of the whole if it was foreseen, else of this phase; 0: nobody knows. */
static uint64_t left_ns(const ea_progress_report *r, double a_second)
{
    if (r->foreseen_us > r->elapsed_us) return (r->foreseen_us - r->elapsed_us) * 1000;
    bool ends = r->total > r->done && r->phase != EA_PHASE_MERGES; /* whose total is a bound */
    return ends && a_second > 0 ? (uint64_t)((double)(r->total - r->done) / a_second * 1e9) : 0;
}

/* "merges 1,550 / 4,999, 129/s  12.3 s, some 27 s left" */
static void say(char *out, size_t bytes, const ea_progress_report *r,
                const ea_progress_report *first)
{
    struct text done, total, elapsed, rate, left;
    bool is_bytes = r->phase == EA_PHASE_SAVING;
    const char *(*count)(struct text *, uint64_t) = is_bytes ? format_bytes : format_count;
    double seconds = (double)(r->elapsed_us - first->elapsed_us) / 1e6, a_second = 0;
    if (r->done > first->done && seconds > 0) a_second = (double)(r->done - first->done) / seconds;
    int n = snprintf(out, bytes, "%s", ea_phase_name(r->phase));
    if (r->total)
        n += snprintf(out + n, bytes - (size_t)n, " %s / %s%s", count(&done, r->done),
                      r->phase == EA_PHASE_MERGES ? "at most " : "", count(&total, r->total));
    if (a_second >= 1)
        n += snprintf(out + n, bytes - (size_t)n, ", %s/s", count(&rate, (uint64_t)a_second));
    n += snprintf(out + n, bytes - (size_t)n, "  %s", format_ns(&elapsed, r->elapsed_us * 1000));
    if (left_ns(r, a_second))
        snprintf(out + n, bytes - (size_t)n, ", some %s left",
                 format_ns(&left, left_ns(r, a_second)));
}

void long_call_line(char *out, size_t out_bytes, const ea_progress_report *r,
                    const ea_progress_report *first, unsigned width)
{
    char said[160], tail[200], bar[41];
    say(said, sizeof said, r, first);
    double part = r->total ? (double)r->done / (double)r->total : 0;
    snprintf(tail, sizeof tail, " %3.0f %%  %s", 100 * part, said);
    size_t used = table_width(tail) + 3;
    size_t cells = width > used ? width - used : 0;
    if (cells > sizeof bar - 1) cells = sizeof bar - 1;
    if (!r->total || cells < 4) {
        snprintf(out, out_bytes, "%.*s", (int)width, said);
        return;
    }
    size_t full = (size_t)(part * (double)cells);
    memset(bar, '=', full);
    memset(bar + full, ' ', cells - full);
    if (full < cells && full > 0) bar[full] = '>';
    bar[cells] = 0;
    snprintf(out, out_bytes, "[%s]%s", bar, tail);
}

static void draw(struct long_call *l)
{
    struct winsize size = {0};
    char line[256];
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20;
    long_call_line(line, sizeof line, &l->last, &l->first, known ? size.ws_col : 80);
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    l->drawn = true;
}

/* Only a daemon that says how far it is can be asked politely: this is where Ctrl-C is seen. */
static bool hear(ea_client *c, const ea_progress_report *report, void *user)
{
    struct long_call *l = user;
    (void)c;
    if (!l->told || l->first.phase != report->phase || report->done < l->last.done)
        l->first = *report;
    l->last = *report;
    l->told = true;
    interrupt_politely(true);
    if (l->shown) draw(l);
    l->stopped = interrupt_seen();
    return !l->stopped;
}

void long_call_begin(struct long_call *l, struct cli *cli)
{
    *l = (struct long_call){.shown = isatty(STDERR_FILENO) == 1};
    ea_on_progress(cli->client, hear, l);
}

int long_call_between(const char *what)
{
    if (!interrupt_seen()) return CLI_OK;
    return cli_error(CLI_INTERRUPTED, "%s: interrupted: what was asked before is all", what);
}

int long_call_end(struct long_call *l, struct cli *cli, ea_status status, const char *what,
                  const char *undone)
{
    char said[160];
    ea_on_progress(cli->client, NULL, NULL);
    interrupt_politely(false);
    if (l->drawn) fputs("\r\033[K", stderr);
    l->drawn = false;
    if (!status) return CLI_OK;
    if (status != EA_CANCELLED || !l->stopped) return cli_failed(cli, status, what);
    say(said, sizeof said, &l->last, &l->last);
    return cli_error(CLI_INTERRUPTED, "%s: interrupted (%s): %s", what ? what : "the request", said,
                     undone);
}

void long_call_predicted(const struct cli *cli, const char *name, const ea_meta *meta,
                         const char *undone)
{
    struct text time;
    struct json j;
    if (!cli->json) {
        printf("%s: some %s on the %s, by prediction; %s\n", name,
               format_ns(&time, meta->predicted_ns), ea_backend_name(meta->backend), undone);
        return;
    }
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "collection", name);
    meta_json(meta, &j);
    json_end(&j);
}
