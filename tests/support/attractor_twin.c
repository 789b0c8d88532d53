#include "tests/support/attractor_twin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attractor.h"
#include "tests/support/attractor_reference.h"

void attractor_refused(ea_client *c, ea_status st, ea_status code, uint32_t detail,
                       const char *text)
{
    cr_assert_eq(st, code, "%d: %s", st, ea_error_text(c));
    cr_assert_eq(ea_error_detail(c), detail, "%s", ea_error_text(c));
    cr_assert(strstr(ea_error_text(c), text), "'%s' is not in '%s'", text, ea_error_text(c));
}

/* All memory comes back. */
void attractor_end(struct scene *s, ea_client *c)
{
    ea_attractor_info *attractors;
    ea_collection_info *collections;
    size_t count;
    OK(ea_attractor_list(c, &attractors, &count));
    for (size_t i = 0; i < count; i++)
        OK(ea_attractor_drop(c, attractors[i].name));
    ea_attractor_list_free(attractors);
    OK(ea_collection_list(c, &collections, &count));
    for (size_t i = 0; i < count; i++)
        OK(ea_collection_drop(c, collections[i].name));
    ea_collection_list_free(collections);
    ea_close(c);
    scene_close(s);
}

static uint64_t random_state = 1;
static float random_number(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int64_t)random_state >> 40) * 0x1p-23f;
}

float *attractor_numbers(size_t count)
{
    float *p = malloc(count * sizeof *p);
    cr_assert(p);
    for (size_t i = 0; i < count; i++)
        p[i] = random_number();
    return p;
}

struct attractor_twin attractor_twin_create(ea_client *c, const char *name, uint32_t dimension,
                                            uint64_t stored_count)
{
    struct attractor_twin t = {.dimension = dimension, .kept = attractor_kept(dimension, 0.05f)};
    ea_attractor_info info;
    OK(ea_attractor_create(c, name, &(ea_attractor_shape){.dimension = dimension}, &info));
    cr_assert_eq(info.kept, t.kept);
    t.dentate = reference_dentate(dimension);
    t.w = reference_weights(dimension);
    t.stored = attractor_numbers((stored_count ? stored_count : 1) * dimension);
    t.stored_count = stored_count;
    OK(ea_collection_create(c, name, dimension, EA_DOT, NULL));
    uint64_t *ids = calloc(stored_count + 1, sizeof *ids);
    for (uint64_t i = 0; i < stored_count; i++)
        ids[i] = 1000 - 3 * i;
    /* the last two are one, so that the lower id must win */
    if (stored_count > 1)
        memcpy(t.stored + (stored_count - 1) * dimension, t.stored + (stored_count - 2) * dimension,
               dimension * sizeof *t.stored);
    if (stored_count)
        OK(ea_upsert(c,
                     &(ea_rows){.collection = name,
                                .ids = ids,
                                .rows = t.stored,
                                .count = stored_count,
                                .dimension = dimension},
                     NULL));
    free(ids);
    return t;
}

void attractor_twin_finish(struct attractor_twin *t)
{
    free(t->dentate);
    free(t->w);
    free(t->stored);
}

void attractor_twin_weights(ea_client *c, const char *name, const struct attractor_twin *t)
{
    ea_result r = {0};
    OK(ea_attractor_fetch(c, name, &r));
    cr_assert(r.rows == t->dimension && r.columns == t->dimension);
    cr_assert_eq(memcmp(r.vectors, t->w, sizeof(float) * t->dimension * t->dimension), 0);
    ea_result_free(&r);
}

static void expect_nearest(const struct attractor_twin *t, const ea_engine_completed *r, uint64_t i)
{
    float best = -INFINITY;
    uint64_t id = UINT64_MAX;
    for (uint64_t s = 0; s < t->stored_count; s++) {
        float cosine = reference_cosine(t->dimension, r->states + i * t->dimension,
                                        t->stored + s * t->dimension);
        if (cosine < best) continue;
        if (cosine > best || 1000 - 3 * s < id) id = 1000 - 3 * s;
        best = cosine;
    }
    cr_assert_eq(r->ids[i], id);
    cr_assert_eq(r->passes[i], best > 0.7f);
    cr_assert(t->stored_count ? r->cosines[i] == best : isnan(r->cosines[i]));
}

static void expect_completion(const struct attractor_twin *t, const ea_engine_question *q,
                              const ea_engine_completed *r)
{
    uint32_t d = t->dimension;
    float *x = attractor_numbers(d), *state = attractor_numbers(d);
    cr_assert(r->rows == q->count && r->columns == d);
    for (uint64_t i = 0; i < q->count; i++) {
        const uint8_t *mask = q->mask ? q->mask + (q->mask_rows == 1 ? 0 : i * d) : NULL;
        for (uint32_t k = 0; k < d; k++)
            x[k] = !mask || mask[k] ? q->cues[i * d + k] : 0.0f;
        struct reference_outcome o = reference_complete(d, t->dentate, t->w, t->kept, x, state);
        cr_assert_eq(memcmp(r->states + i * d, state, d * sizeof *state), 0, "cue %zu", (size_t)i);
        cr_assert_eq(r->confidences[i], o.confidence);
        cr_assert_eq(r->rounds[i], o.rounds);
        cr_assert_eq(r->converged[i], o.converged);
        if (q->collection)
            expect_nearest(t, r, i);
        else
            cr_assert(!r->ids && !r->cosines && !r->passes);
    }
    free(x);
    free(state);
}

void attractor_twin_learn(ea_client *c, const char *name, struct attractor_twin *t)
{
    float *patterns = attractor_numbers(6 * t->dimension);
    ea_learned learned;
    OK(ea_attractor_learn(
        c,
        &(ea_learn_question){
            .attractor = name, .rows = patterns, .count = 6, .dimension = t->dimension},
        &learned));
    cr_assert(learned.learned == 6 && learned.patterns == 6 && !learned.collection_version);
    for (int i = 0; i < 6; i++)
        reference_learn(t->dimension, 0.01f, patterns + i * t->dimension, t->w);
    free(patterns);
    if (t->stored_count < 3) return;
    const uint64_t ids[] = {994, 1000, 994};
    OK(ea_attractor_learn(
        c, &(ea_learn_question){.attractor = name, .collection = name, .ids = ids, .count = 3},
        &learned));
    cr_assert(learned.learned == 3 && learned.patterns == 9 && learned.collection_version);
    for (int i = 0; i < 3; i++)
        reference_learn(t->dimension, 0.01f, t->stored + (i == 1 ? 0 : 2) * t->dimension, t->w);
}

/* Many cues, so that there are several waves; few; one: and masks of each kind. */
void attractor_twin_complete(ea_client *c, const char *name, const struct attractor_twin *t,
                             uint64_t count, uint64_t mask_rows, bool stored)
{
    uint32_t d = t->dimension;
    float *cues = attractor_numbers(count * d);
    uint8_t *mask = mask_rows ? malloc(mask_rows * d) : NULL;
    for (uint64_t i = 0; mask && i < mask_rows * d; i++)
        mask[i] = random_number() < 0.2f ? 1 + i % 255 : 0;
    /* every other mask is of one run of numbers */
    static uint32_t masks;
    if (mask && masks++ % 2)
        for (uint64_t i = 0; i < mask_rows * d; i++)
            mask[i] = i % d >= d / 4 && i % d < d / 4 + d / 3 + 1;
    for (uint64_t i = 0; !mask && i < count * d; i++)
        cues[i] = (float)(int)(cues[i] * 3.0f); /* many are equal */
    /* what is not known may be anything */
    for (uint32_t k = 0; mask && k < d; k++)
        if (!mask[k]) cues[k] = NAN;
    ea_engine_completed r = {0};
    ea_engine_question q = {
        .attractor = name,
        .cues = cues,
        .count = count,
        .dimension = d,
        .mask = mask,
        .mask_rows = mask_rows,
        .collection = stored ? name : NULL,
    };
    OK(ea_complete_engine(c, &q, &r));
    cr_assert(r.attractor_version && !r.collection_version == !stored);
    expect_completion(t, &q, &r);
    ea_engine_completed_free(&r);
    free(cues);
    free(mask);
}
