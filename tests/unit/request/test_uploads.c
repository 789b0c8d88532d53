/* Who uploads next, over a GPU that always wants more. */
#include "daemon/request/uploads.h"

#include <criterion/criterion.h>

#include "daemon/request/jobs.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

static struct pipeline *p;
static struct net net;
static struct config config;
static struct space *spaces[2];
static struct collection *rows[3]; /* two of the first space, one of the second */
static struct done done;

static bool always_wants(const struct backend *gpu, const struct resident *of)
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
    struct pipeline_options options = {
        .config = &config,
        .net = &net,
        .kernels = vectors_choose("scalar"),
        .done = &done,
        .gpu = &played,
        .worker_count = 1,
    };
    config_defaults(&config);
    net.config = &config;
    config.connection_max = 0;
    cr_assert_eq(heap_create(64 << 20, &options.heap), STATUS_OK);
    cr_assert_eq(store_create(options.heap, options.kernels, &options.store), STATUS_OK);
    store_limit_collections(options.store, 10);
    cr_assert_eq(pipeline_create(&options, &p), STATUS_OK);
    p->uploads.wants = always_wants;
    cr_assert_eq(store_space(p->store, "alpha", &spaces[0]), STATUS_OK);
    cr_assert_eq(store_space(p->store, "beta", &spaces[1]), STATUS_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(store_collection_create(p->store, spaces[i / 2], i % 2 ? "odd" : "even", 16,
                                             METRIC_COSINE, NULL, &rows[i]),
                     STATUS_OK);
}

TestSuite(uploads, .init = begin);

/* The loop's part: what arrived goes to the GPU. */
static void submit_all(void)
{
    for (struct job *j; (j = queue_pop(&p->arrivals));)
        uploads_submit(p, j);
}

static uint32_t under_way(const struct collection *c)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        count += p->uploads.jobs[i] &&
                 p->uploads.jobs[i]->resident == collection_resident((struct collection *)c);
    return count;
}

static void end_one_of(const struct collection *c)
{
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        if (p->uploads.jobs[i] &&
            p->uploads.jobs[i]->resident == collection_resident((struct collection *)c)) {
            p->uploads.jobs[i]->owner.done(p, p->uploads.jobs[i]);
            return;
        }
}

static void alpha_takes_all(void)
{
    for (int i = 0; i < 2; i++)
        uploads_start(p, collection_resident(rows[i]));
    submit_all();
    submit_all();
    cr_assert(under_way(rows[0]) == 2 && under_way(rows[1]) == 2);
    uploads_start(p, collection_resident(rows[2]));
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
    store_collection_unlink(p->store, spaces[1], rows[2]);
    uploads_cancel(p, collection_resident(rows[2]));
    collection_destroy(rows[2]);
    end_one_of(rows[1]);
    cr_assert(under_way(rows[0]) == 2 && under_way(rows[1]) == 2);
}

Test(uploads, graphs_have_their_turn_among_collections)
{
    struct graph *g;
    cr_assert_eq(store_graph_create(p->store, spaces[1], "even", NULL, &g), STATUS_OK);
    struct resident *of = graph_resident(g);
    alpha_takes_all();
    end_one_of(rows[0]);
    uploads_start(p, of);
    end_one_of(rows[1]);
    uint32_t there = 0;
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        there +=
            p->uploads.jobs[i] && p->uploads.jobs[i]->resident == of && p->uploads.jobs[i]->graph;
    cr_assert_eq(there, 1);
    cr_assert_eq(of->turnstile.readers, 1);
    uploads_cancel(p, of);
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        if (p->uploads.jobs[i])
            cr_assert_eq(atomic_load(&p->uploads.jobs[i]->cancelled),
                         p->uploads.jobs[i]->resident == of);
    submit_all();
    cr_assert_eq(of->turnstile.readers, 0, "what is cancelled ends");
}
