#include "client/cli/text/recall_print.h"

#include "client/cli/text/format.h"
#include "client/cli/text/path.h"

#include <inttypes.h>
#include <math.h>

static const char *name_of(const struct recall_print *p, uint64_t id)
{
    return p->names ? names_find(p->names, id) : NULL;
}

/* ---- tables ---- */

static void print_head(const struct recall_print *p, uint64_t list)
{
    uint64_t cue = p->done + list;
    const char *name = p->cue_ids ? name_of(p, p->cue_ids[cue]) : NULL;
    cli_head("cue", p->cue_ids ? "id " : "", p->cue_ids ? p->cue_ids[cue] : cue, name);
}

static void print_rows(const struct recall_print *p, struct table *t, const ea_recall_result *r,
                       uint64_t list)
{
    struct text a;
    uint64_t first = r->offsets[list];
    for (uint64_t i = first; i < r->offsets[list + 1]; i++) {
        const char *name = name_of(p, r->ids[i]);
        bool seed = r->marks[i] & EA_RECALL_SEED, touched = r->marks[i] & EA_RECALL_TOUCHED;
        table_cell(t, "%" PRIu64, i - first + 1);
        table_cell(t, "%" PRIu64, r->ids[i]);
        table_cell(t, "%s", format_score(&a, r->activations[i]));
        table_cell(t, "%s", isnan(r->scores[i]) ? "-" : format_score(&a, r->scores[i]));
        table_cell(t, "%s%s", seed ? "s" : "", touched ? "t" : "");
        table_cell(t, "%" PRIu32, r->depths[i]);
        /* With paths the name is the path's end. */
        if (p->paths)
            path_cell(t, p->names, r->path_ids + r->path_offsets[i],
                      r->path_offsets[i + 1] - r->path_offsets[i]);
        else if (p->names)
            table_cell(t, "%s", name ? name : "");
    }
    cli_table_print(t);
}

static void print_tables(const struct recall_print *p, const ea_recall_result *r)
{
    const char *last = p->paths ? "path" : p->names ? "name" : NULL;
    const char *const heads[] = {">rank", ">id",    ">activation", ">cosine",
                                 "marks", ">depth", last,          NULL};
    struct table *t = table_create(heads);
    for (uint64_t list = 0; list < r->lists; list++) {
        struct text a, b;
        print_head(p, list);
        print_rows(p, t, r, list);
        fprintf(cli_prints_csv() ? stderr : stdout,
                "%s, %" PRIu32 " of them nodes; %s touched in %" PRIu32 " hops%s\n",
                format_many(&a, r->seeds[2 * list], "seed"), r->seeds[2 * list + 1],
                format_many(&b, r->touched[list], "node"), r->hops[list],
                r->truncated[list] ? "; truncated: a bound ended it early" : "");
    }
    table_destroy(t);
}

/* ---- JSON ---- */

static void json_entry(const struct recall_print *p, struct json *j, const ea_recall_result *r,
                       uint64_t i)
{
    json_object(j, NULL);
    json_id(j, "id", r->ids[i]);
    if (p->names) json_string(j, "name", name_of(p, r->ids[i]));
    json_float(j, "activation", r->activations[i]);
    json_float(j, "cosine", r->scores[i]);
    json_bool(j, "seed", r->marks[i] & EA_RECALL_SEED);
    json_bool(j, "touched", r->marks[i] & EA_RECALL_TOUCHED);
    json_u64(j, "depth", r->depths[i]);
    if (p->paths)
        path_json(j, r->path_ids + r->path_offsets[i], r->path_offsets[i + 1] - r->path_offsets[i]);
    json_end(j);
}

static void json_list(const struct recall_print *p, const ea_recall_result *r, uint64_t list)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "collection", p->collection);
    json_string(&j, "graph", p->graph);
    json_u64(&j, "cue", p->done + list);
    if (p->cue_ids) json_id(&j, "cue_id", p->cue_ids[p->done + list]);
    json_array(&j, "recalled");
    for (uint64_t i = r->offsets[list]; i < r->offsets[list + 1]; i++)
        json_entry(p, &j, r, i);
    json_end(&j);
    json_u64(&j, "seeds", r->seeds[2 * list]);
    json_u64(&j, "seeds_spread", r->seeds[2 * list + 1]);
    json_u64(&j, "hops", r->hops[list]);
    json_u64(&j, "touched", r->touched[list]);
    json_bool(&j, "truncated", r->truncated[list]);
    json_u64(&j, "seek_ns", r->seek_ns);
    json_u64(&j, "spread_ns", r->spread_ns);
    json_u64(&j, "rank_ns", r->rank_ns);
    json_u64(&j, "graph_version", r->graph_version);
    json_u64(&j, "collection_version", r->collection_version);
    meta_json(r->meta, &j);
    json_end(&j);
}

void recall_print(struct recall_print *p, const ea_recall_result *r)
{
    meta_total_add(&p->meta, r->meta);
    if (!p->cli->json) print_tables(p, r);
    for (uint64_t list = 0; p->cli->json && list < r->lists; list++)
        json_list(p, r, list);
    p->done += r->lists;
}
