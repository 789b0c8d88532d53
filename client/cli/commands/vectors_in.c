#include "client/cli/commands/vectors_in.h"

#include "client/cli/text/format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

/* FIRST-LAST, or one ID. */
static bool parse_range(struct vectors_in *o, const char *text)
{
    char first[32];
    const char *dash = strchr(text, '-');
    size_t bytes = dash ? (size_t)(dash - text) : strlen(text);
    if (bytes >= sizeof first) return false;
    memcpy(first, text, bytes);
    first[bytes] = 0;
    uint64_t last;
    if (!parse_u64(first, 0, UINT64_MAX - 1, &o->first)) return false;
    if (!parse_u64(dash ? dash + 1 : first, o->first, UINT64_MAX - 1, &last)) return false;
    o->count = last - o->first + 1;
    return true;
}

void vectors_in_parse(struct vectors_in *o, struct argp_state *state, const char *text)
{
    o->text = text;
    const char *colon = strchr(text, ':');
    size_t bytes = colon ? (size_t)(colon - text) : 0;
    if (!bytes || bytes > 64 || strspn(text, NAME_CHARACTERS) != bytes) return; /* a file */
    memcpy(o->collection, text, bytes);
    if (colon[1] == '@' && colon[2])
        o->ids_path = colon + 2;
    else if (!parse_range(o, colon + 1))
        argp_error(state, "'%s' is not NAME:ID, NAME:FIRST-LAST or NAME:@FILE.npy", text);
}

static int open_ids(struct vectors_in *o)
{
    if (!vectors_file_open(&o->file, o->ids_path, VECTORS_OF_IDS))
        return cli_file_error(o->file.error);
    if (o->file.columns != 1)
        return cli_error(CLI_FILE, "%s: %" PRIu64 " x %" PRIu64 " ids; one list is needed",
                         o->ids_path, o->file.rows, o->file.columns);
    o->count = o->file.rows;
    return o->count ? CLI_OK : cli_error(CLI_FILE, "%s: holds no id", o->ids_path);
}

int vectors_in_open(struct vectors_in *o, struct cli *cli)
{
    if (!o->collection[0]) {
        if (!vectors_file_open(&o->file, o->text, VECTORS_OF_FLOATS))
            return cli_file_error(o->file.error);
        o->count = o->file.rows;
        o->dimension = (uint32_t)o->file.columns;
        return o->count ? CLI_OK : cli_error(CLI_FILE, "%s: holds no vector", o->text);
    }
    int code = o->ids_path ? open_ids(o) : CLI_OK;
    if (code) return code;
    ea_collection_info info;
    ea_status status = ea_collection_describe(cli->client, o->collection, &info);
    if (status) return cli_failed(cli, status, o->collection);
    o->dimension = info.dimension;
    return CLI_OK;
}

int vectors_in_match(const struct vectors_in *a, const struct vectors_in *b, uint64_t *pairs)
{
    if (a->dimension != b->dimension)
        return cli_error(CLI_REFUSED, "%s has dimension %" PRIu32 ", %s has %" PRIu32, a->text,
                         a->dimension, b->text, b->dimension);
    if (a->count != b->count && a->count != 1 && b->count != 1)
        return cli_error(CLI_REFUSED,
                         "%s has %" PRIu64 " vectors, %s has %" PRIu64
                         "; as many, or one of either, are needed",
                         a->text, a->count, b->text, b->count);
    *pairs = a->count == 1 ? b->count : a->count;
    return CLI_OK;
}

uint64_t vectors_in_bytes(const struct vectors_in *o)
{
    return o->collection[0] ? 8 : 4 * (uint64_t)o->dimension;
}

int vectors_in_prepare(struct vectors_in *o, uint64_t n)
{
    o->room = n < o->count ? n : o->count;
    void *memory = calloc(o->room, vectors_in_bytes(o));
    if (!memory) return cli_error(CLI_NO_MEMORY, "%s: out of memory", o->text);
    if (o->collection[0])
        o->ids = memory;
    else
        o->rows = memory;
    return CLI_OK;
}

static int read_block(struct vectors_in *o, uint64_t n)
{
    uint64_t got = n;
    if (!o->collection[0] && !vectors_file_read(&o->file, o->rows, n, &got))
        return cli_file_error(o->file.error);
    if (o->ids_path && !vectors_file_read_ids(&o->file, o->ids, n, &got))
        return cli_file_error(o->file.error);
    for (uint64_t i = 0; o->collection[0] && !o->ids_path && i < n; i++)
        o->ids[i] = o->first + o->next + i;
    o->next += n;
    return CLI_OK;
}

int vectors_in_next(struct vectors_in *o, uint64_t n, ea_operand *out)
{
    if (o->count == 1) n = 1;
    int code = o->next < o->count ? read_block(o, n) : CLI_OK;
    *out = (ea_operand){.count = n,
                        .rows = o->rows,
                        .ids = o->ids,
                        .collection = o->collection[0] ? o->collection : NULL};
    return code;
}

void vectors_in_close(struct vectors_in *o)
{
    vectors_file_close(&o->file);
    free(o->rows);
    free(o->ids);
    o->rows = NULL;
    o->ids = NULL;
}
