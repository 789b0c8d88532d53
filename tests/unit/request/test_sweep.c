/* What old editions leave is freed on a worker, and does not wait for what is long there. */
#include "daemon/request/sweep.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/yield.h"
#include "daemon/exec/workers.h"
#include "daemon/store/collection.h"

enum { DIMENSION = 32, SEGMENTS = 8, ROWS = SEGMENTS << 14 }; /* 2 MiB each */

static struct pipeline *p;
static struct net net;
static struct config config;
static struct done done;
static struct heap *heap;
static struct collection *rows;

static void nobody(void *owner) {}

static void begin(void)
{
    struct failure f;
    struct space *space;
    config_defaults(&config);
    config.connection_max = 0;
    net.config = &config;
    done.wake = nobody;
    cr_assert_eq(heap_create(64 << 20, &heap), STATUS_OK);
    heap_limit_cache(heap, 0);
    struct pipeline_options options = {
        .config = &config,
        .net = &net,
        .kernels = vectors_choose("scalar"),
        .done = &done,
        .heap = heap,
        .worker_count = 1,
    };
    cr_assert_eq(workers_create(1, false, &done, &options.cpu), STATUS_OK);
    cr_assert_eq(store_create(heap, options.kernels, &options.store), STATUS_OK);
    store_limit_collections(options.store, 10);
    cr_assert_eq(pipeline_create(&options, &p), STATUS_OK);
    cr_assert_eq(store_space(p->store, "alpha", &space), STATUS_OK);
    cr_assert_eq(
        store_collection_create(p->store, space, "rows", DIMENSION, METRIC_COSINE, &f, &rows),
        STATUS_OK);
}

TestSuite(sweep, .init = begin, .timeout = 60);

static void write_all(void)
{
    struct failure f;
    struct upsert_counts counts;
    uint64_t *ids = malloc(ROWS * sizeof *ids);
    float *values = aligned_alloc(64, (size_t)ROWS * DIMENSION * sizeof *values);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i;
    for (size_t i = 0; i < (size_t)ROWS * DIMENSION; i++)
        values[i] = 1;
    cr_assert_eq(collection_upsert(rows, ids, values, ROWS, &counts, &f), STATUS_OK, "%s", f.text);
    free(ids);
    free(values);
}

/* A job that goes on and on until the heap has given so much back, or a broken run ends. */
static atomic_bool runs, ended, was_given_back;
static uint64_t until_bytes;

static uint64_t bytes_used(void)
{
    struct heap_usage usage = heap_usage(heap);
    return usage.bytes_used - usage.bytes_outside;
}

static void go_on(struct job *j)
{
    time_t end = time(NULL) + 20;
    atomic_store(&runs, true);
    while (bytes_used() > until_bytes && time(NULL) < end)
        yield_check();
    atomic_store(&was_given_back, bytes_used() <= until_bytes);
}

static void on_long_done(void *owner, struct job *j)
{
    atomic_store(&ended, true);
}

Test(sweep, does_not_wait_for_what_is_long)
{
    write_all();
    uint64_t once = bytes_used();
    struct edition *seen = collection_pin(rows);
    write_all();
    cr_assert_geq(bytes_used(), 2 * once);
    collection_release(seen);

    struct job *longer = calloc(1, sizeof *longer);
    longer->owner = (struct job_owner){on_long_done, NULL};
    until_bytes = once;
    workers_run(p->cpu, longer, go_on);
    while (!atomic_load(&runs))
        yield_check();
    sweep_gone(p, collection_resident(rows));
    while (!atomic_load(&ended))
        pipeline_collect(p);
    cr_assert(atomic_load(&was_given_back), "old segments were kept while the worker was busy");
    p->cpu->ops->destroy(p->cpu);
    free(longer);
}
