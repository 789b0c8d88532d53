/* memory: what holds memory and VRAM, how much of it is not needed, and how it was. */
#include <stdlib.h>

#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"

struct memory {
    const char *space; /* NULL: all that may be seen */
    bool history;
};

static const struct argp_option memory_options[] = {
    {"history", 'H', NULL, 0, "Show how the pools were at the daemon's last looks", 0},
    {0},
};

static error_t memory_parse(int key, char *text, struct argp_state *state)
{
    struct memory *o = state->input;
    if (key == 'H') {
        o->history = true;
    } else if (key == ARGP_KEY_ARG && !o->space) {
        o->space = text;
    } else {
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const char *pool_name(ea_memory_of of)
{
    switch (of) {
    case EA_MEMORY_HOST: return "host";
    case EA_MEMORY_REQUESTS: return "requests";
    case EA_MEMORY_REPLICAS: return "replicas";
    }
    return "?";
}

static const char *what_name(ea_memory_what what)
{
    switch (what) {
    case EA_MEMORY_COLLECTION: return "collection";
    case EA_MEMORY_GRAPH: return "graph";
    case EA_MEMORY_ATTRACTOR: return "attractor";
    }
    return "?";
}

/* Which part of the whole is not the part that is meant: 0 to 1. */
static double rest_of(uint64_t part, uint64_t whole)
{
    return whole > part ? 1.0 - (double)part / (double)whole : 0.0;
}

/* All that is shown, so that nothing is printed if any of it cannot be had. */
struct found {
    ea_memory_pool *pools;
    size_t pool_count;
    struct space_memory {
        char name[65];
        ea_memory_space all;
        ea_memory_content *list;
        size_t count;
    } * spaces;
    size_t space_count;
};

/* ---------------------------------------------------------------- JSON */

static void pool_json(struct json *j, const ea_memory_pool *p)
{
    json_object(j, NULL);
    json_u64(j, "number", p->number);
    json_u64(j, "ago_ns", p->ago_ns);
    json_string(j, "of", pool_name(p->of));
    if (p->of == EA_MEMORY_HOST)
        json_null(j, "gpu");
    else
        json_u64(j, "gpu", p->card);
    json_u64(j, "asked_bytes", p->asked_bytes);
    json_u64(j, "used_bytes", p->used_bytes);
    json_u64(j, "kept_bytes", p->kept_bytes);
    json_u64(j, "free_bytes", p->free_bytes);
    json_u64(j, "largest_bytes", p->largest_bytes);
    json_float(j, "unused", (float)rest_of(p->asked_bytes, p->used_bytes));
    json_float(j, "fragmentation", (float)rest_of(p->largest_bytes, p->free_bytes));
    json_end(j);
}

static void content_json(struct json *j, const ea_memory_content *m)
{
    json_object(j, NULL);
    json_u64(j, "number", m->number);
    json_string(j, "what", what_name(m->what));
    json_string(j, "name", m->name);
    json_u64(j, "needed_bytes", m->needed_bytes);
    json_u64(j, "taken_bytes", m->taken_bytes);
    json_u64(j, "shared_bytes", m->shared_bytes);
    json_float(j, "unused", (float)rest_of(m->needed_bytes, m->taken_bytes));
    json_u64(j, "vram_needed_bytes", m->vram_needed_bytes);
    json_u64(j, "vram_taken_bytes", m->vram_taken_bytes);
    if (m->vram_taken_bytes)
        json_u64(j, "gpu", m->card);
    else
        json_null(j, "gpu");
    json_end(j);
}

static void space_json(struct json *j, const struct space_memory *s)
{
    json_object(j, NULL);
    json_string(j, "name", s->name);
    json_u64(j, "host_bytes", s->all.host_bytes);
    json_u64(j, "host_bytes_max", s->all.host_bytes_max);
    json_u64(j, "vram_bytes", s->all.vram_bytes);
    json_u64(j, "vram_bytes_max", s->all.vram_bytes_max);
    json_array(j, "contents");
    for (size_t i = 0; i < s->count; i++)
        content_json(j, &s->list[i]);
    json_end(j);
    json_end(j);
}

/* ---------------------------------------------------------------- tables */

static void part_cell(struct table *t, uint64_t part, uint64_t whole)
{
    if (whole)
        table_cell(t, "%.1f %%", 100 * rest_of(part, whole));
    else
        table_cell(t, "-");
}

static void bytes_cell(struct table *t, uint64_t bytes, bool known)
{
    struct text a;
    table_cell(t, "%s", known ? format_bytes(&a, bytes) : "-");
}

/* needed, taken, which part of this is not needed. */
static void three_cells(struct table *t, uint64_t needed, uint64_t taken, bool known)
{
    bytes_cell(t, needed, known);
    bytes_cell(t, taken, known);
    part_cell(t, needed, known ? taken : 0);
}

static void pool_row(struct table *t, const ea_memory_pool *p)
{
    bool host = p->of == EA_MEMORY_HOST;
    table_cell(t, "-");
    table_cell(t, "%s",
               host                          ? "all memory"
               : p->of == EA_MEMORY_REQUESTS ? "VRAM for requests"
                                             : "VRAM for replicas");
    table_cell(t, "-");
    three_cells(t, p->asked_bytes, p->used_bytes, host);
    three_cells(t, p->asked_bytes, p->used_bytes, !host);
    if (host)
        table_cell(t, "-");
    else
        table_cell(t, "%u", p->card);
    part_cell(t, p->largest_bytes, p->free_bytes);
}

static void content_row(struct table *t, const char *space, const ea_memory_content *m)
{
    table_cell(t, "%s", space);
    table_cell(t, "%s", what_name(m->what));
    table_cell(t, "%s", m->name);
    three_cells(t, m->needed_bytes, m->taken_bytes, true);
    three_cells(t, m->vram_needed_bytes, m->vram_taken_bytes, m->vram_taken_bytes);
    if (m->vram_taken_bytes)
        table_cell(t, "%u", m->card);
    else
        table_cell(t, "-");
    table_cell(t, "-");
}

/* Of all that the space has, requests and older versions included, which part is its contents'. */
static void space_row(struct table *t, const struct space_memory *s)
{
    uint64_t needed = 0, vram = 0;
    for (size_t i = 0; i < s->count; i++) {
        needed += s->list[i].needed_bytes;
        vram += s->list[i].vram_needed_bytes;
    }
    table_cell(t, "%s", s->name);
    table_cell(t, "space");
    table_cell(t, "-");
    three_cells(t, needed, s->all.host_bytes, true);
    three_cells(t, vram, s->all.vram_bytes, s->all.vram_bytes);
    table_cell(t, "-");
    table_cell(t, "-");
}

static void history_table(const ea_memory_pool *list, size_t count)
{
    static const char *const heads[] = {">ago",     "of",          "GPU",   ">asked",
                                        ">used",    ">unused",     ">kept", ">free",
                                        ">largest", ">fragmented", NULL};
    struct table *t = table_create(heads);
    struct text a;
    for (size_t i = 0; i < count; i++) {
        const ea_memory_pool *p = &list[i];
        table_cell(t, "%s", format_ns(&a, p->ago_ns));
        table_cell(t, "%s", pool_name(p->of));
        if (p->of == EA_MEMORY_HOST)
            table_cell(t, "-");
        else
            table_cell(t, "%u", p->card);
        three_cells(t, p->asked_bytes, p->used_bytes, true);
        bytes_cell(t, p->kept_bytes, true);
        bytes_cell(t, p->free_bytes, true);
        bytes_cell(t, p->largest_bytes, true);
        part_cell(t, p->largest_bytes, p->free_bytes);
    }
    cli_table_print(t);
    table_destroy(t);
}

/* ---------------------------------------------------------------- the command */

static int history_run(struct cli *cli)
{
    ea_memory_pool *list = NULL;
    size_t count = 0;
    ea_status st = ea_get_memory_pools(cli->client, true, &list, &count);
    if (st) return cli_failed(cli, st, "memory");
    if (!cli->json) {
        history_table(list, count);
    } else {
        struct json j;
        json_init(&j, stdout);
        json_array(&j, NULL);
        for (size_t i = 0; i < count; i++)
            pool_json(&j, &list[i]);
        json_end(&j);
    }
    ea_memory_free(list);
    return 0;
}

static void found_finish(struct found *f)
{
    for (size_t i = 0; i < f->space_count; i++)
        ea_memory_free(f->spaces[i].list);
    free(f->spaces);
    ea_memory_free(f->pools);
}

static ea_status find_space(struct cli *cli, struct found *f, const char *name)
{
    struct space_memory *s = &f->spaces[f->space_count];
    ea_status st = ea_get_memory(cli->client, name, &s->list, &s->count, &s->all);
    if (st) return st;
    snprintf(s->name, sizeof s->name, "%s", name);
    f->space_count++;
    return EA_OK;
}

/* A space that goes meanwhile is left out. */
static ea_status find_spaces(struct cli *cli, struct found *f)
{
    ea_space_info *list = NULL;
    size_t count = 0;
    ea_status st = ea_get_spaces(cli->client, &list, &count);
    if (!st) f->spaces = calloc(count + 1, sizeof *f->spaces);
    if (!st && !f->spaces) st = EA_RESOURCE_EXHAUSTED;
    for (size_t i = 0; i < count && !st; i++) {
        st = find_space(cli, f, list[i].name);
        if (st == EA_NOT_FOUND) st = EA_OK;
    }
    ea_spaces_free(list);
    return st;
}

static ea_status find(struct cli *cli, struct found *f, const char *space)
{
    ea_status st = ea_get_memory_pools(cli->client, false, &f->pools, &f->pool_count);
    if (st || !space) return st ? st : find_spaces(cli, f);
    f->spaces = calloc(1, sizeof *f->spaces);
    return f->spaces ? find_space(cli, f, space) : EA_RESOURCE_EXHAUSTED;
}

static void found_json(const struct found *f)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_array(&j, "pools");
    for (size_t i = 0; i < f->pool_count; i++)
        pool_json(&j, &f->pools[i]);
    json_end(&j);
    json_array(&j, "spaces");
    for (size_t i = 0; i < f->space_count; i++)
        space_json(&j, &f->spaces[i]);
    json_end(&j);
    json_end(&j);
}

static void found_table(const struct found *f)
{
    static const char *const heads[] = {"space",   "what",    "name",         ">needed",
                                        ">taken",  ">unused", ">VRAM needed", ">VRAM",
                                        ">unused", "GPU",     ">fragmented",  NULL};
    struct table *t = table_create(heads);
    for (size_t i = 0; i < f->pool_count; i++)
        pool_row(t, &f->pools[i]);
    for (size_t i = 0; i < f->space_count; i++) {
        space_row(t, &f->spaces[i]);
        for (size_t n = 0; n < f->spaces[i].count; n++)
            content_row(t, f->spaces[i].name, &f->spaces[i].list[n]);
    }
    cli_table_print(t);
    table_destroy(t);
}

static int contents_run(struct cli *cli, const char *space)
{
    struct found f = {0};
    ea_status st = find(cli, &f, space);
    int code = st ? cli_failed(cli, st, "memory") : 0;
    if (!st && cli->json) found_json(&f);
    if (!st && !cli->json) found_table(&f);
    found_finish(&f);
    return code;
}

static int memory_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct memory o = {0};
    cli_parse(cli, self, &o, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    return o.history ? history_run(cli) : contents_run(cli, o.space);
}

const struct command command_memory = {
    "memory",
    "what holds memory and VRAM",
    "[SPACE]",
    "List the daemon's pools of memory, and what each collection, graph and attractor of SPACE "
    "(all "
    "that may be seen) holds: what it needs, what it takes, which part of that is not needed, and "
    "the same of its VRAM. fragmented: which part of what is free cannot be had as one block. A "
    "space's own line has requests and older versions as well. --history: the pools at the last "
    "looks, one every observe.memory_s seconds. Root and the daemon's user see all spaces, anybody "
    "else its own.",
    memory_options,
    memory_parse,
    memory_run};
