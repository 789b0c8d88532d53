#include "client/cli/text/screens.h"

#include <stdio.h>

#include "client/cli/text/format.h"

static void add_line(struct table *t, const char *name, ea_backend on, const ea_screens *s)
{
    struct text a;
    if (!s->searches && !s->rested) return;
    double queries = s->queries ? (double)s->queries : 1;
    table_cell(t, "%s", name);
    table_cell(t, "%s", ea_backend_name(on));
    table_cell(t, "%s", format_count(&a, s->searches));
    table_cell(t, "%.1f", (double)s->survived / queries);
    table_cell(t, "%.3g %%", s->screened ? 100.0 * (double)s->survived / (double)s->screened : 0.0);
    table_cell(t, "%s", format_bytes(&a, (uint64_t)((double)s->read_bytes / queries)));
    table_cell(t, "%s", format_count(&a, s->useless));
    table_cell(t, "%s", format_count(&a, s->rested));
}

void screens_print(const ea_collection_screens *list, uint32_t count, uint32_t left_out,
                   void (*print)(struct table *t))
{
    static const char *const heads[] = {"int8 first", "on",
                                        ">searches",  ">rows scored a query",
                                        ">of all",    ">read a query",
                                        ">useless",   ">did without",
                                        NULL};
    struct text a;
    if (!count) return;
    struct table *t = table_create(heads);
    for (uint32_t i = 0; i < count; i++) {
        add_line(t, list[i].name, EA_BACKEND_CPU, &list[i].cpu);
        add_line(t, list[i].name, EA_BACKEND_GPU, &list[i].gpu);
    }
    putchar('\n');
    print(t);
    table_destroy(t);
    if (left_out) printf("and %s\n", format_many(&a, left_out, "more collection"));
}

void screens_backend_json(struct json *j, const char *name, const ea_screens *s)
{
    json_object(j, name);
    json_u64(j, "searches", s->searches);
    json_u64(j, "queries", s->queries);
    json_u64(j, "screened", s->screened);
    json_u64(j, "survived", s->survived);
    json_u64(j, "read_bytes", s->read_bytes);
    json_u64(j, "useless", s->useless);
    json_u64(j, "rested", s->rested);
    json_end(j);
}

void screens_json(struct json *j, const ea_collection_screens *list, uint32_t count,
                  uint32_t left_out)
{
    json_array(j, "screens");
    for (uint32_t i = 0; i < count; i++) {
        json_object(j, NULL);
        json_string(j, "collection", list[i].name);
        screens_backend_json(j, "cpu", &list[i].cpu);
        screens_backend_json(j, "gpu", &list[i].gpu);
        json_end(j);
    }
    json_end(j);
    json_u64(j, "screens_left_out", left_out);
}
