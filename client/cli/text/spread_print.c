#include "client/cli/text/spread_print.h"

#include "client/cli/text/format.h"
#include "client/cli/text/path.h"

#include <inttypes.h>

static const char *name_of(const struct spread_print *p, uint64_t id)
{
    return p->names ? names_find(p->names, id) : NULL;
}

static void print_head(const struct spread_print *p, uint64_t set)
{
    if (p->cue->collection && p->cue->query_ids.count) {
        uint64_t id = p->cue->query_ids.list[set];
        cli_head("query", "id ", id, name_of(p, id));
    } else if (p->cue->collection) {
        cli_head("query", "", set, NULL);
    } else if (p->seeds->sets > 1) {
        cli_head("set", "", p->seeds->numbers[set], NULL);
    }
}

static void print_rows(const struct spread_print *p, struct table *t, const ea_spread_result *r,
                       uint64_t set)
{
    struct text a;
    uint64_t first = r->offsets[set];
    for (uint64_t i = first; i < r->offsets[set + 1]; i++) {
        const char *name = name_of(p, r->ids[i]);
        table_cell(t, "%" PRIu64, i - first + 1);
        table_cell(t, "%" PRIu64, r->ids[i]);
        table_cell(t, "%s", format_score(&a, r->activations[i]));
        table_cell(t, "%s", format_score(&a, r->confidences[i]));
        table_cell(t, "%s", format_count(&a, r->visits[i]));
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

static void print_sums(const ea_spread_result *r, uint64_t set)
{
    struct text a, b, c;
    uint64_t shown = r->offsets[set + 1] - r->offsets[set];
    const float *sums = r->tier_sums + 3 * set;
    fprintf(cli_prints_csv() ? stderr : stdout,
            "%s touched, %s shown; activation of seeds %.4g, warm %.4g, cold %.4g; %s%s\n",
            format_many(&a, r->touched[set], "node"), format_count(&b, shown), (double)sums[0],
            (double)sums[1], (double)sums[2], format_many(&c, r->cycles[set], "cycle"),
            r->truncated[set] ? "; truncated: a bound ended it early" : "");
}

static void print_tables(const struct spread_print *p, const ea_spread_result *r)
{
    const char *last = p->paths ? "path" : p->names ? "name" : NULL;
    const char *const heads[] = {">rank",   ">id",    ">activation", ">confidence",
                                 ">visits", ">depth", last,          NULL};
    struct table *t = table_create(heads);
    for (uint64_t set = 0; set < r->sets; set++) {
        print_head(p, set);
        print_rows(p, t, r, set);
        print_sums(r, set);
    }
    table_destroy(t);
}

/* ---- JSON ---- */

static void json_node(const struct spread_print *p, struct json *j, const ea_spread_result *r,
                      uint64_t i)
{
    json_object(j, NULL);
    json_id(j, "id", r->ids[i]);
    if (p->names) json_string(j, "name", name_of(p, r->ids[i]));
    json_float(j, "activation", r->activations[i]);
    json_float(j, "confidence", r->confidences[i]);
    json_u64(j, "visits", r->visits[i]);
    json_u64(j, "depth", r->depths[i]);
    if (p->paths)
        path_json(j, r->path_ids + r->path_offsets[i], r->path_offsets[i + 1] - r->path_offsets[i]);
    json_end(j);
}

static void json_seeds(const struct spread_print *p, struct json *j, uint64_t set)
{
    json_array(j, "seeds");
    for (uint64_t i = p->seeds->offsets[set]; i < p->seeds->offsets[set + 1]; i++) {
        json_object(j, NULL);
        json_id(j, "id", p->seeds->ids[i]);
        json_float(j, "activation", p->seeds->activations[i]);
        json_end(j);
    }
    json_end(j);
}

static void json_cue(const struct spread_print *p, struct json *j, uint64_t set)
{
    json_object(j, "cue");
    json_string(j, "collection", p->cue->collection);
    json_u64(j, "query", set);
    if (p->cue->query_ids.count) json_id(j, "query_id", p->cue->query_ids.list[set]);
    meta_total_json(&p->cue->meta, j);
    json_end(j);
}

static void json_set(const struct spread_print *p, const ea_spread_result *r, uint64_t set)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "graph", p->graph);
    json_u64(&j, "set", p->seeds->numbers[set]);
    if (p->cue->collection) json_cue(p, &j, set);
    json_seeds(p, &j, set);
    json_array(&j, "nodes");
    for (uint64_t i = r->offsets[set]; i < r->offsets[set + 1]; i++)
        json_node(p, &j, r, i);
    json_end(&j);
    json_u64(&j, "touched", r->touched[set]);
    json_u64(&j, "cycles", r->cycles[set]);
    json_bool(&j, "truncated", r->truncated[set]);
    if (r->embeddings_version) json_u64(&j, "embeddings_version", r->embeddings_version);
    json_object(&j, "tiers");
    json_float(&j, "hot", r->tier_sums[3 * set]);
    json_float(&j, "warm", r->tier_sums[3 * set + 1]);
    json_float(&j, "cold", r->tier_sums[3 * set + 2]);
    json_end(&j);
    meta_json(r->meta, &j);
    json_end(&j);
}

void spread_print(const struct spread_print *p, const ea_spread_result *r)
{
    if (!p->cli->json) print_tables(p, r);
    for (uint64_t set = 0; p->cli->json && set < r->sets; set++)
        json_set(p, r, set);
}
