#include "tests/support/gpu_recall.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/scene.h"

#define OK(c, call) cr_assert_eq((call), EA_OK, "%s", ea_error_text(c))

/* The cosine of two rows of so few numbers is often another two's. */
static float draw_number(struct gpu_recall *s)
{
    return (float)twin_draw(&s->twin, 5) - 1.0F;
}

static float draw_share(struct gpu_recall *s)
{
    return (float)twin_draw(&s->twin, 101) / 100.0F;
}

void gpu_recall_write(struct gpu_recall *s, ea_client *c, uint64_t first, uint64_t count)
{
    uint32_t d = s->rows.dimension;
    struct upsert_counts counts;
    for (uint64_t i = first * d; i < (first + count) * d; i++)
        s->data[i] = draw_number(s);
    OK(c, ea_upsert(c,
                    &(ea_rows){.collection = "rows",
                               .ids = s->ids + first,
                               .rows = s->data + first * d,
                               .count = count,
                               .dimension = d},
                    NULL));
    float *aligned = aligned_alloc(64, (count * d * sizeof *aligned + 63) / 64 * 64);
    memcpy(aligned, s->data + first * d, count * d * sizeof *aligned);
    cr_assert_eq(collection_upsert(s->here, s->ids + first, aligned, count, &counts, NULL),
                 STATUS_OK);
    free(aligned);
}

void gpu_recall_make(struct gpu_recall *s, ea_client *c, uint32_t nodes, uint64_t edges,
                     uint64_t rows, uint32_t dimension, uint64_t seed)
{
    struct twin *t = &s->twin;
    memset(s, 0, sizeof *s);
    twin_make(t, c, "g", nodes, seed);
    twin_add_edges(t, c, edges, seed, false);
    s->ids = malloc(rows * sizeof *s->ids);
    s->data = malloc(rows * dimension * sizeof *s->data);
    for (uint64_t i = 0; i < rows; i++)
        s->ids[i] = i % 5 == 4 || i >= nodes ? 3 + 2 * i : t->ids[i];
    s->rows = (struct reference_rows){dimension, REFERENCE_COSINE, rows, s->data, s->ids};
    OK(c, ea_collection_create(c, "rows", dimension, EA_COSINE, NULL));
    cr_assert_eq(store_collection_create(t->store, t->space, "rows", dimension, METRIC_COSINE, NULL,
                                         &s->here),
                 STATUS_OK);
    gpu_recall_write(s, c, 0, rows);
}

void gpu_recall_drop(struct gpu_recall *s, ea_client *c)
{
    OK(c, ea_collection_drop(c, "rows"));
    twin_drop(&s->twin, c);
    free(s->ids);
    free(s->data);
}

/* ---------------------------------------------------------------- questions */

static void draw_cues(struct gpu_recall *s, struct gpu_recall_question *q)
{
    ea_recall_question *e = &q->question;
    uint32_t d = s->rows.dimension;
    e->cue_count = 1 + twin_draw(&s->twin, twin_draw(&s->twin, 2) ? 2 : GPU_RECALL_CUES);
    bool by_id = twin_draw(&s->twin, 3) == 0;
    for (uint64_t i = 0; i < e->cue_count; i++) {
        uint32_t row = twin_draw(&s->twin, (uint32_t)s->rows.count);
        q->cue_ids[i] = s->ids[row];
        for (uint32_t k = 0; k < d; k++)
            q->cues[i * d + k] = by_id ? s->data[row * d + k] : draw_number(s);
    }
    e->cues = by_id ? NULL : q->cues;
    e->cue_ids = by_id ? q->cue_ids : NULL;
    if (twin_draw(&s->twin, 2)) return;
    while (q->offsets[e->lists] < e->cue_count) { /* some lists without a cue */
        uint64_t left = e->cue_count - q->offsets[e->lists], n = twin_draw(&s->twin, 4);
        if (n > left || e->lists + 1 == GPU_RECALL_CUES) n = left;
        q->offsets[e->lists + 1] = q->offsets[e->lists] + n;
        e->lists++;
    }
    e->cue_offsets = q->offsets;
}

void gpu_recall_ask(struct gpu_recall *s, struct gpu_recall_question *q)
{
    struct twin *t = &s->twin;
    memset(q, 0, sizeof *q);
    ea_spread_mode mode = twin_draw(t, 2) ? EA_LINEAR : EA_ENGRAM;
    twin_ask_randomly(t, &q->spread, mode);
    q->spread.options.k = 0;
    q->threshold = draw_share(s) * 2 - 1;
    q->width = 0.02F + draw_share(s);
    q->least = draw_share(s);
    q->boost = draw_share(s) * 3;
    q->cues = malloc(GPU_RECALL_CUES * s->rows.dimension * sizeof *q->cues);
    q->question = (ea_recall_question){
        .collection = "rows",
        .graph = t->name,
        .dimension = s->rows.dimension,
        .results = twin_draw(t, 2) ? 1 + twin_draw(t, 30) : 0,
        .k = twin_draw(t, 2) ? 1 + twin_draw(t, 20) : 0,
        .threshold = twin_draw(t, 2) ? &q->threshold : NULL,
        .width = twin_draw(t, 3) ? NULL : &q->width,
        .activation_min = twin_draw(t, 3) ? NULL : &q->least,
        .boost = twin_draw(t, 3) ? NULL : &q->boost,
        .ignore_embeddings = mode == EA_ENGRAM && twin_draw(t, 2),
        .spread = &q->spread.options,
    };
    draw_cues(s, q);
}

void gpu_recall_free(struct gpu_recall_question *q)
{
    free(q->cues);
}

/* ---------------------------------------------------------------- answers */

void gpu_recall_compare(const struct gpu_recall *s, const struct gpu_recall_question *q,
                        const ea_recall_result *r)
{
    const ea_recall_question *e = &q->question;
    uint32_t results = e->results ? e->results : 100;
    struct recall_case wanted = {
        .graph = s->twin.graph,
        .rows = s->rows,
        .cues = q->cues,
        .cue_count = e->cue_count,
        .lists = e->lists,
        .cue_offsets = e->cue_offsets,
        .results = results,
        .k = e->k            ? e->k
             : results < 100 ? results
                             : 100,
        .threshold = e->threshold ? *e->threshold : 0.4F,
        .width = e->width ? *e->width : 0.5F,
        .activation_min = e->activation_min ? *e->activation_min : 0.01F,
        .boost = e->boost ? *e->boost : 1.1F,
        .spread = twin_case(&q->spread),
    };
    if (q->spread.options.mode == EA_ENGRAM && !e->ignore_embeddings)
        wanted.spread.embeddings = collection_now(s->here);
    struct recall_reply got = {
        .lists = r->lists,
        .count = r->count,
        .offsets = r->offsets,
        .ids = r->ids,
        .touched = r->touched,
        .path_offsets = q->spread.options.paths ? r->path_offsets : NULL,
        .path_ids = r->path_ids,
        .activations = r->activations,
        .scores = r->scores,
        .marks = r->marks,
        .truncated = r->truncated,
        .depths = r->depths,
        .seeds = r->seeds,
        .hops = r->hops,
    };
    const char *wrong = recall_reply_wrong(&wanted, &got);
    cr_assert_null(wrong, "%s (backend %d)", wrong, (int)r->meta->backend);
}

void gpu_recall_expect(struct gpu_recall *s, ea_client *c, const struct gpu_recall_question *q)
{
    ea_recall_result r = {0};
    OK(c, ea_recall(c, &q->question, &r));
    s->backend = r.meta->backend;
    s->reason = r.meta->reason;
    gpu_recall_compare(s, q, &r);
    ea_recall_result_free(&r);
}

void gpu_recall_expect_gpu(struct gpu_recall *s, ea_client *c, const struct gpu_recall_question *q)
{
    int64_t until = give_up_ms();
    while (gpu_recall_expect(s, c, q), s->backend != EA_BACKEND_GPU) {
        cr_assert(now_ms() < until, "the GPU does not answer: %s", ea_reason_name(s->reason));
        wait_ms(5);
    }
}
