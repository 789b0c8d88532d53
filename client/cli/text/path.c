#include "client/cli/text/path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void path_cell(struct table *t, const struct names *names, const uint64_t *ids, uint64_t count)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return;
    for (uint64_t i = 0; i < count; i++) {
        const char *name = names ? names_find(names, ids[i]) : NULL;
        if (i > 0) fputs(" > ", out);
        if (name)
            fputs(name, out);
        else
            fprintf(out, "%" PRIu64, ids[i]);
    }
    if (fclose(out) == 0) table_cell(t, "%s", text);
    free(text);
}

void path_json(struct json *j, const uint64_t *ids, uint64_t count)
{
    json_array(j, "path");
    for (uint64_t i = 0; i < count; i++)
        json_id(j, NULL, ids[i]);
    json_end(j);
}
