#include "client/cli/commands/vectors_out.h"

#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (8u << 20) /* of a request and a reply: progress shows, memory is bounded */
#define SLACK       1024u      /* tensors begin at multiples of 64 */

bool vectors_out_option(struct vectors_out *o, int key, char *text, struct argp_state *state)
{
    switch (key) {
    case 'o': o->path = text; return true;
    case OPTION_INTO: o->into = text; return true;
    case 'i':
        o->ids_text = text;
        o->ids_rise = text[0] && text[strspn(text, "0123456789")] == 0;
        if (o->ids_rise) o->first = cli_argument_u64(state, "--ids", text, 0, UINT64_MAX - 1);
        return true;
    default: return false;
    }
}

void vectors_out_check(struct vectors_out *o, struct argp_state *state)
{
    if (!o->path == !o->into) argp_error(state, "give --out or --into");
    if (!o->into != !o->ids_text) argp_error(state, "--into and --ids go together");
}

static int open_ids(struct vectors_out *o)
{
    if (o->ids_rise) {
        if (o->total - 1 <= UINT64_MAX - 1 - o->first) return CLI_OK;
        return cli_error(CLI_USAGE, "--ids: %" PRIu64 " ids from %" PRIu64 " on are too many",
                         o->total, o->first);
    }
    if (!vectors_file_open(&o->ids_file, o->ids_text, VECTORS_OF_IDS))
        return cli_file_error(o->ids_file.error);
    if (o->ids_file.columns == 1 && o->ids_file.rows == o->total) return CLI_OK;
    return cli_error(CLI_FILE,
                     "%s: holds %" PRIu64 " x %" PRIu64 " ids; there are %" PRIu64
                     " results, which need as many",
                     o->ids_text, o->ids_file.rows, o->ids_file.columns, o->total);
}

int vectors_out_open(struct vectors_out *o, struct cli *cli, uint64_t total, uint32_t dimension)
{
    o->total = total;
    o->dimension = dimension;
    if (cli->expects && !o->into) return cli_error(CLI_USAGE, "--expect belongs to --into");
    int code = o->into ? open_ids(o) : CLI_OK;
    if (!code && o->path &&
        !npy_writer_open(&o->writer, o->path, NPY_WRITE_FLOAT32, 2, total, dimension))
        code = cli_file_error(o->writer.error);
    progress_start(&o->progress, total, 4 * (uint64_t)dimension, clock_ns());
    if (o->into) interrupt_politely(true); /* what was kept is told */
    return code;
}

uint64_t vectors_out_fit(const struct vectors_out *o, const struct cli *cli, uint64_t fixed,
                         uint64_t each)
{
    uint64_t body = cli->info.body_bytes_max, reply = cli->info.reply_bytes_max;
    if (body > fixed + BLOCK_BYTES) body = fixed + BLOCK_BYTES;
    if (reply > BLOCK_BYTES) reply = BLOCK_BYTES;
    uint64_t n = cli_fit(body, fixed + SLACK, each + (o->into ? 8 : 0), o->total);
    return o->into ? n : cli_fit(reply, SLACK, 4 * (uint64_t)o->dimension, n);
}

uint64_t vectors_out_fit_body(const struct cli *cli, uint64_t each)
{
    uint64_t body = cli->info.body_bytes_max;
    if (body > BLOCK_BYTES) body = BLOCK_BYTES;
    /* half of it, since offsets and ids of results may take as much */
    return cli_fit(body / 2, SLACK, each, UINT64_MAX);
}

int vectors_out_prepare(struct vectors_out *o, uint64_t n)
{
    if (!o->into) return CLI_OK;
    o->ids = calloc(n, sizeof *o->ids);
    return o->ids ? CLI_OK : cli_error(CLI_NO_MEMORY, "out of memory for %" PRIu64 " ids", n);
}

int vectors_out_next(struct vectors_out *o, struct cli *cli, uint64_t n, const ea_into **into)
{
    *into = NULL;
    if (!o->into) return CLI_OK;
    uint64_t got = n;
    if (!o->ids_rise && !vectors_file_read_ids(&o->ids_file, o->ids, n, &got))
        return cli_file_error(o->ids_file.error);
    for (uint64_t i = 0; o->ids_rise && i < n; i++)
        o->ids[i] = o->first + o->done + i;
    o->question = (ea_into){.collection = o->into, .ids = o->ids, .write = cli_expectation(cli)};
    *into = &o->question;
    return CLI_OK;
}

int vectors_out_failed(const struct vectors_out *o, struct cli *cli, ea_status status,
                       const char *thing)
{
    char what[96];
    snprintf(what, sizeof what, "%ss from %" PRIu64 " on", thing, o->done);
    return cli_failed(cli, status, o->done ? what : NULL);
}

int vectors_out_take(struct vectors_out *o, struct cli *cli, const ea_hrr_result *r, uint64_t n)
{
    meta_total_add(&o->meta, r->meta);
    if (o->path && r->columns != o->dimension)
        return cli_error(CLI_REFUSED, "a collection was made anew while it was read");
    if (o->path && !npy_writer_append(&o->writer, r->vectors, n))
        return cli_file_error(o->writer.error);
    o->done += n;
    o->inserted += r->inserted;
    o->replaced += r->replaced;
    o->rows = r->into_rows;
    o->version = r->into_version;
    cli->expects = false;
    progress_show(&o->progress, o->done, clock_ns());
    return o->done < o->total && interrupt_seen() ? CLI_INTERRUPTED : CLI_OK;
}

static void print_json(struct vectors_out *o, bool complete)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_u64(&j, "results", o->done);
    json_u64(&j, "dimension", o->dimension);
    if (o->path) json_string(&j, "file", o->path);
    if (o->into) {
        json_string(&j, "collection", o->into);
        json_u64(&j, "inserted", o->inserted);
        json_u64(&j, "replaced", o->replaced);
        json_u64(&j, "rows", o->rows);
        json_u64(&j, "version", o->version);
        json_bool(&j, "complete", complete);
    }
    meta_total_json(&o->meta, &j);
    json_end(&j);
}

int vectors_out_finish(struct vectors_out *o, struct cli *cli, int code, const char *thing)
{
    struct text a, b, c;
    progress_finish(&o->progress);
    if (!code && o->path && !npy_writer_finish(&o->writer)) code = cli_file_error(o->writer.error);
    if (cli->json && (!code || (o->into && o->done)))
        print_json(o, !code);
    else if (!code && o->path)
        printf("%s  float32  %" PRIu64 " x %" PRIu32 "\n", o->path, o->done, o->dimension);
    else if (!code)
        printf("%s: %s inserted, %s replaced; the collection has %s\n", o->into,
               format_many(&a, o->inserted, "row"), format_count(&b, o->replaced),
               format_count(&c, o->rows));
    snprintf(c.c, sizeof c.c, "%s%s", thing, o->done == 1 ? "" : "s");
    if (!code) meta_total_print(&o->meta, o->done, c.c);
    if (code && o->into && o->done)
        cli_error(0, "%s: %s of %s results are in",
                  code == CLI_INTERRUPTED ? "interrupted" : "stopped", format_count(&a, o->done),
                  format_count(&b, o->total));
    return code;
}

void vectors_out_close(struct vectors_out *o)
{
    npy_writer_abandon(&o->writer);
    vectors_file_close(&o->ids_file);
    free(o->ids);
    o->ids = NULL;
}
