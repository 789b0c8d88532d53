#include "client/cli/files/ids.h"

#include "client/cli/cli.h"
#include "client/cli/files/vectors_file.h"

#include <inttypes.h>
#include <stdlib.h>

static int reserve(struct ids *ids, uint64_t more)
{
    uint64_t room = ids->room ? ids->room : 16;
    while (room < ids->count + more)
        room *= 2;
    if (room == ids->room) return CLI_OK;
    uint64_t *list = reallocarray(ids->list, room, sizeof *list);
    if (!list) return cli_error(CLI_NO_MEMORY, "out of memory for %" PRIu64 " ids", room);
    ids->list = list;
    ids->room = room;
    return CLI_OK;
}

int ids_add(struct ids *ids, uint64_t id)
{
    int code = reserve(ids, 1);
    if (!code) ids->list[ids->count++] = id;
    return code;
}

void ids_add_text(struct ids *ids, struct argp_state *state, const char *text)
{
    if (ids_add(ids, cli_argument_u64(state, "id", text, 0, UINT64_MAX)))
        argp_failure(state, CLI_FILE, 0, "too many ids");
}

void ids_add_behind(struct ids *ids, const char **name, struct argp_state *state, const char *text)
{
    if (state->arg_num == 0)
        *name = text;
    else
        ids_add_text(ids, state, text);
}

int ids_read(struct ids *ids, const char *path)
{
    struct vectors_file file;
    int code = CLI_OK;
    if (!vectors_file_open(&file, path, VECTORS_OF_IDS))
        code = cli_file_error(file.error);
    else if (file.columns != 1)
        code = cli_error(CLI_FILE, "%s: %" PRIu64 " x %" PRIu64 " ids; one list is needed", path,
                         file.rows, file.columns);
    if (!code) code = reserve(ids, file.rows);
    uint64_t got = 0;
    if (!code && !vectors_file_read_ids(&file, ids->list + ids->count, file.rows, &got))
        code = cli_file_error(file.error);
    if (!code) ids->count += got;
    vectors_file_close(&file);
    return code;
}

void ids_free(struct ids *ids)
{
    free(ids->list);
    *ids = (struct ids){0};
}
