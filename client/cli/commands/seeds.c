#include "client/cli/commands/seeds.h"

#include "client/cli/text/fields.h"
#include "client/cli/text/format.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST (double)FLT_TRUE_MIN /* an activation is above 0 */

bool seeds_add(struct seeds *s, uint64_t set, uint64_t id, float activation)
{
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct seed *list = reallocarray(s->list, room, sizeof *list);
        if (!list) {
            snprintf(s->error, sizeof s->error, "%zu seeds: out of memory", room);
            return false;
        }
        s->list = list;
        s->room = room;
    }
    s->list[s->count] = (struct seed){set, id, s->count, activation};
    s->count++;
    return true;
}

bool seeds_add_text(struct seeds *s, const char *text)
{
    char id_text[24];
    size_t length = strcspn(text, "=");
    uint64_t id;
    double activation = 1;
    snprintf(id_text, sizeof id_text, "%.*s", length < sizeof id_text ? (int)length : 0, text);
    if (!parse_u64(id_text, 0, UINT64_MAX - 1, &id)) {
        snprintf(s->error, sizeof s->error, "'%.60s' is not ID or ID=ACTIVATION", text);
        return false;
    }
    if (text[length] && !parse_number(text + length + 1, SMALLEST, (double)FLT_MAX, &activation)) {
        snprintf(s->error, sizeof s->error, "'%.60s': the activation is not a number above 0",
                 text);
        return false;
    }
    return seeds_add(s, 0, id, (float)activation);
}

static bool read_line(struct seeds *s, struct fields *f)
{
    uint64_t id, set = 0;
    double activation = 1;
    if (f->count > 3)
        return fields_fail(f, "%u fields; expected an id, and perhaps an activation and a set",
                           f->count);
    if (!fields_id(f, 0, "id", &id)) return false;
    if (f->count > 1 && !parse_number(f->at[1], SMALLEST, (double)FLT_MAX, &activation))
        return fields_fail(f, "activation '%.40s' is not a number above 0", f->at[1]);
    if (f->count > 2 && !parse_u64(f->at[2], 0, UINT64_MAX, &set))
        return fields_fail(f, "set '%.40s' is not a whole number", f->at[2]);
    return seeds_add(s, set, id, (float)activation) || fields_fail(f, "%s", s->error);
}

bool seeds_read(struct seeds *s, const char *path)
{
    struct fields f;
    bool good = fields_open(&f, path, '#') && fields_next(&f);
    while (good && f.count > 0)
        good = read_line(s, &f) && fields_next(&f);
    if (good && s->count == 0) good = fields_fail(&f, "the file ends without a seed");
    if (!good) memcpy(s->error, f.error, sizeof s->error);
    fields_close(&f);
    return good;
}

static int by_set(const void *a, const void *b)
{
    const struct seed *x = a, *y = b;
    if (x->set != y->set) return x->set < y->set ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

bool seeds_arrange(struct seeds *s)
{
    s->ids = calloc(s->count + 1, sizeof *s->ids);
    s->activations = calloc(s->count + 1, sizeof *s->activations);
    s->offsets = calloc(s->count + 2, sizeof *s->offsets);
    s->numbers = calloc(s->count + 1, sizeof *s->numbers);
    if (!s->ids || !s->activations || !s->offsets || !s->numbers) {
        snprintf(s->error, sizeof s->error, "%zu seeds: out of memory", s->count);
        return false;
    }
    if (s->count > 1) qsort(s->list, s->count, sizeof *s->list, by_set);
    for (size_t i = 0; i < s->count; i++) {
        const struct seed *seed = &s->list[i];
        if (i == 0 || seed->set != s->list[i - 1].set) s->numbers[s->sets++] = seed->set;
        s->offsets[s->sets] = i + 1;
        s->ids[i] = seed->id;
        s->activations[i] = seed->activation;
    }
    return true;
}

void seeds_free(struct seeds *s)
{
    free(s->list);
    free(s->ids);
    free(s->activations);
    free(s->offsets);
    free(s->numbers);
    *s = (struct seeds){0};
}
