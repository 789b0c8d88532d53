#include "tests/support/recall_job.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"

/* The cosine of two rows of so few numbers is often another two's. */
static float draw_number(struct recall_scene *b)
{
    return (float)spread_job_draw(&b->spread, 5) - 1.0F;
}

struct recall_scene recall_job_open(uint32_t nodes, uint64_t edges, uint32_t dimension,
                                    uint64_t rows, uint64_t seed)
{
    struct recall_scene b = {.spread = spread_job_open(nodes, edges, false, seed)};
    struct upsert_counts counts;
    b.ids = malloc((rows + 1) * sizeof *b.ids);
    b.data = malloc((rows * dimension + 1) * sizeof *b.data);
    for (uint64_t i = 0; i < rows; i++)
        b.ids[i] = i % 5 == 4 || i >= nodes ? 1 + 2 * i : b.spread.ids[i];
    for (uint64_t i = 0; i < rows * dimension; i++)
        b.data[i] = draw_number(&b);
    b.rows = (struct reference_rows){dimension, REFERENCE_COSINE, rows, b.data, b.ids};
    cr_assert_eq(store_collection_create(b.spread.store, b.spread.space, "c", dimension,
                                         METRIC_COSINE, NULL, &b.collection),
                 STATUS_OK);
    cr_assert_eq(collection_upsert(b.collection, b.ids, b.data, rows, &counts, NULL), STATUS_OK);
    return b;
}

void recall_job_close(struct recall_scene *b)
{
    spread_job_close(&b->spread);
    free(b->ids);
    free(b->data);
}

/* ---------------------------------------------------------------- questions */

void recall_job_ask(struct recall_scene *b, struct recall_asked *a)
{
    uint32_t d = b->rows.dimension;
    memset(a, 0, sizeof *a);
    spread_job_ask(&a->spread, SPREAD_ENGRAM, 4);
    a->cues = aligned_alloc(64, (RECALL_JOB_CUES * d * sizeof *a->cues + 63) / 64 * 64);
    for (uint64_t i = 0; i < RECALL_JOB_CUES * d; i++)
        a->cues[i] = draw_number(b);
    a->c = (struct recall_case){.graph = b->spread.graph,
                                .rows = b->rows,
                                .cues = a->cues,
                                .cue_count = 1,
                                .results = 100,
                                .k = 100,
                                .threshold = 0.4F,
                                .width = 0.5F,
                                .activation_min = 0.01F,
                                .boost = 1.1F,
                                .spread = a->spread.c};
}

static void draw_cues(struct recall_scene *b, struct recall_asked *a)
{
    uint32_t d = b->rows.dimension;
    struct recall_case *c = &a->c;
    c->cue_count =
        1 + spread_job_draw(&b->spread, spread_job_draw(&b->spread, 2) ? 3 : RECALL_JOB_CUES);
    a->by_id = spread_job_draw(&b->spread, 3) == 0;
    for (uint64_t i = 0; i < c->cue_count && a->by_id; i++) {
        uint32_t row = spread_job_draw(&b->spread, (uint32_t)b->rows.count);
        a->cue_ids[i] = b->ids[row];
        memcpy(a->cues + i * d, b->data + row * d, d * sizeof *a->cues);
    }
    if (spread_job_draw(&b->spread, 2)) return;
    while (a->cue_offsets[c->lists] < c->cue_count) { /* some lists without a cue */
        uint64_t left = c->cue_count - a->cue_offsets[c->lists];
        uint64_t n = spread_job_draw(&b->spread, 4);
        if (n > left || c->lists + 1 == RECALL_JOB_CUES) n = left;
        a->cue_offsets[c->lists + 1] = a->cue_offsets[c->lists] + n;
        c->lists++;
    }
    c->cue_offsets = a->cue_offsets;
}

void recall_job_ask_randomly(struct recall_scene *b, struct recall_asked *a)
{
    struct spread_scene *s = &b->spread;
    recall_job_ask(b, a);
    do {
        spread_job_ask_randomly(s, &a->spread,
                                spread_job_draw(s, 2) ? SPREAD_LINEAR : SPREAD_ENGRAM);
    } while (a->spread.c.within && spread_job_draw(s, 2));
    bool similar = a->spread.c.how.mode == SPREAD_ENGRAM && spread_job_draw(s, 2);
    a->c.spread = a->spread.c;
    if (similar) a->c.spread.embeddings = collection_now(b->collection);
    draw_cues(b, a);
    if (spread_job_draw(s, 2)) a->c.results = 1 + spread_job_draw(s, 30);
    if (spread_job_draw(s, 2)) a->c.k = 1 + spread_job_draw(s, 20);
    if (spread_job_draw(s, 2)) a->c.threshold = (float)spread_job_draw(s, 200) / 100.0F - 1.0F;
    if (spread_job_draw(s, 3) == 0) a->c.width = (float)(1 + spread_job_draw(s, 100)) / 50.0F;
    if (spread_job_draw(s, 3) == 0) a->c.activation_min = (float)spread_job_draw(s, 100) / 100.0F;
    if (spread_job_draw(s, 3) == 0) a->c.boost = (float)spread_job_draw(s, 300) / 100.0F;
}

void recall_job_free(struct recall_asked *a)
{
    free(a->cues);
}

struct job recall_job_of(struct recall_scene *b, const struct recall_asked *a)
{
    const struct recall_case *c = &a->c;
    struct job j = spread_job_of(&b->spread, &c->spread);
    j.operation = OPERATION_RECALL;
    j.ops = operation_find(OPERATION_RECALL);
    j.objects[2].resident = collection_resident(b->collection);
    j.objects[2].collection = collection_now(b->collection);
    struct job_request *r = &j.request;
    strcpy(r->names[0], "g");
    strcpy(r->names[2], "c");
    bool own = c->spread.embeddings == collection_now(b->collection); /* the default */
    if (own) j.objects[1] = (struct job_object){0};
    if (c->spread.embeddings && !own) strcpy(r->names[1], "e");
    r->ids = r->weights = r->offsets = (struct tensor){0};
    if (a->by_id) r->ids = spread_job_numbers(a->cue_ids, c->cue_count);
    if (!a->by_id)
        r->queries =
            (struct tensor){DTYPE_FLOAT32, c->cue_count, c->rows.dimension, (void *)c->cues};
    if (c->cue_offsets) r->offsets = spread_job_numbers(c->cue_offsets, c->lists + 1);
    r->k = c->k;
    r->threshold = c->threshold;
    r->has_threshold = true;
    r->recall = (struct job_recall){.results = c->results,
                                    .ignore_embeddings = c->spread.how.mode == SPREAD_ENGRAM &&
                                                         !c->spread.embeddings,
                                    .width = c->width,
                                    .activation_min = c->activation_min,
                                    .boost = c->boost,
                                    .has_width = true,
                                    .has_activation_min = true,
                                    .has_boost = true};
    for (int i = 0; i < SPREAD_TIERS; i++)
        r->spread.has_thresholds[i] = true;
    if (r->spread.decay == DECAY_TABLE || r->spread.decay == DECAY_CONSTANT)
        r->spread.decay_parameter = 0;
    return j;
}

struct recall_reply recall_job_reply(const struct job *j)
{
    const struct tensor *t = j->result.tensors;
    return (struct recall_reply){.lists = t[RESULT_RECALL_OFFSETS].rows - 1,
                                 .count = t[RESULT_RECALL_IDS].rows,
                                 .offsets = t[RESULT_RECALL_OFFSETS].data,
                                 .ids = t[RESULT_RECALL_IDS].data,
                                 .activations = t[RESULT_RECALL_ACTIVATIONS].data,
                                 .scores = t[RESULT_RECALL_SCORES].data,
                                 .marks = t[RESULT_RECALL_MARKS].data,
                                 .depths = t[RESULT_RECALL_DEPTHS].data,
                                 .seeds = t[RESULT_RECALL_SEEDS].data,
                                 .hops = t[RESULT_RECALL_HOPS].data,
                                 .touched = t[RESULT_RECALL_TOUCHED].data,
                                 .truncated = t[RESULT_RECALL_TRUNCATED].data,
                                 .path_offsets = t[RESULT_RECALL_PATH_OFFSETS].data,
                                 .path_ids = t[RESULT_RECALL_PATH_IDS].data};
}

bool recall_only_seeds(const struct recall_reply *r, uint64_t list)
{
    uint64_t first = r->offsets[list], end = r->offsets[list + 1];
    bool only = end - first == r->seeds[2 * list];
    for (uint64_t i = first; i < end; i++)
        only &= r->marks[i] == 1 && r->activations[i] >= 0.5F && r->depths[i] == 0;
    return only && r->truncated[list] == 1;
}
