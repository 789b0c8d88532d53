/* Who uploads next, over a GPU that always wants more. The source is built in here, over fakes of
 * what it asks of the GPU. */
#define gpu_wants_upload fake_gpu_wants_upload
#include "daemon/request/uploads.c" /* NOLINT(bugprone-suspicious-include) */

#include <criterion/criterion.h>

#include "daemon/store/graph.h"

static struct pipeline p;
static struct net net;
static struct config config;
static struct space *spaces[2];
static struct collection *rows[3]; /* two of the first space, one of the second */

bool gpu_wants_upload(const struct backend *b, const struct resident *of)
{
    return true;
}

static enum status take_it(struct backend *b, struct job *j)
{
    return STATUS_OK;
}

static const struct backend_ops played_ops = {.name = "played", .submit = take_it};
static struct backend played = {&played_ops};

static void begin(void)
{
    config_defaults(&config);
    p.kernels = vectors_choose("scalar");
    p.worker_count = 1;
    p.gpu = &played;
    p.net = &net;
    net.config = &config;
    config.connection_max = 0;
    cr_assert_eq(heap_create(64 << 20, &p.heap), STATUS_OK);
    cr_assert_eq(store_create(p.heap, p.kernels, &p.store), STATUS_OK);
    store_limit_collections(p.store, 10);
    cr_assert_eq(pipeline_init(&p, &config), STATUS_OK);
    cr_assert_eq(store_space(p.store, "alpha", &spaces[0]), STATUS_OK);
    cr_assert_eq(store_space(p.store, "beta", &spaces[1]), STATUS_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(store_collection_create(p.store, spaces[i / 2], i % 2 ? "odd" : "even", 16,
                                             METRIC_COSINE, NULL, &rows[i]),
                     STATUS_OK);
}

TestSuite(uploads, .init = begin);

/* The loop's part: what arrived goes to the GPU. */
static void submit_all(void)
{
    for (struct job *j; (j = queue_pop(&p.arrivals));)
        uploads_submit(&p, j);
}

static uint32_t under_way(const struct collection *c)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        count += p.uploads[i] && p.uploads[i]->collection == c;
    return count;
}

static void end_one_of(const struct collection *c)
{
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        if (p.uploads[i] && p.uploads[i]->collection == c) {
            uploads_done(&p, p.uploads[i]);
            return;
        }
}

static void alpha_takes_all(void)
{
    for (int i = 0; i < 2; i++)
        uploads_start(&p, collection_resident(rows[i]));
    submit_all();
    submit_all();
    cr_assert(under_way(rows[0]) == 2 && under_way(rows[1]) == 2);
    uploads_start(&p, collection_resident(rows[2]));
    cr_assert_eq(under_way(rows[2]), 0, "there is no place");
}

Test(uploads, who_found_no_place_has_the_next)
{
    alpha_takes_all();
    end_one_of(rows[1]);
    cr_assert_eq(under_way(rows[2]), 1, "alpha always has more, and nobody else ever a turn");
    submit_all();
    end_one_of(rows[0]);
    cr_assert_eq(under_way(rows[0]) + under_way(rows[1]), 3);
}

Test(uploads, who_found_no_place_and_went_is_forgotten)
{
    alpha_takes_all();
    store_collection_unlink(p.store, spaces[1], rows[2]);
    uploads_cancel(&p, collection_resident(rows[2]));
    collection_destroy(rows[2]);
    end_one_of(rows[1]);
    cr_assert(under_way(rows[0]) == 2 && under_way(rows[1]) == 2);
}

Test(uploads, graphs_have_their_turn_among_collections)
{
    struct graph *g;
    cr_assert_eq(store_graph_create(p.store, spaces[1], "even", NULL, &g), STATUS_OK);
    struct resident *of = graph_resident(g);
    alpha_takes_all();
    end_one_of(rows[0]);
    uploads_start(&p, of);
    end_one_of(rows[1]);
    uint32_t there = 0;
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        there += p.uploads[i] && p.uploads[i]->graph == g && !p.uploads[i]->collection;
    cr_assert_eq(there, 1);
    cr_assert_eq(of->turnstile.readers, 1);
    uploads_cancel(&p, of);
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        if (p.uploads[i])
            cr_assert_eq(atomic_load(&p.uploads[i]->cancelled), p.uploads[i]->graph == g);
    submit_all();
    cr_assert_eq(of->turnstile.readers, 0, "what is cancelled ends");
}
