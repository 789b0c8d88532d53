/* gpu_house: the GPU backend in a house of its own, with processes that are not: this file defines
 * every function of cards/process.h, so the real ones are not linked. What a GPU process would
 * read from its ring is read by next_order, and answered, or not, as a test likes.
 * Owner:  one test program each.
 * Thread: one, beside the house's workers.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_UNIT_CARDS_GPU_HOUSE_H
#define ENGRAM_TESTS_UNIT_CARDS_GPU_HOUSE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/base/fault.h"
#include "daemon/cards/cards.h"
#include "daemon/ops/operation.h"
#include "daemon/exec/workers.h"
#include "daemon/store/collection.h"
#include "tests/support/reference.h"

/* ---------------------------------------------------------------- a process that is not one */

struct gpu_process {
    struct gpu_process_options options;
    enum gpu_state state;
    struct share *share;
    int share_fd, orders_fd, completions_fd;
    struct ring orders, completions;           /* as the front has them */
    struct ring peer_orders, peer_completions; /* as the process would */
    char killed[160];
    uint32_t worked;
    bool stuck; /* it does not go when it is stopped */
};

static struct gpu_process *processes[GPU_MAX];
static uint32_t process_count, devices_shown = 1;
static uint64_t budget_bytes;

static inline void live(struct gpu_process *p)
{
    if (p->share) share_unmap(p->share);
    if (p->share_fd >= 0) close(p->share_fd);
    p->share = NULL;
    p->share_fd = -1;
    if (share_create(heap_file_bytes(p->options.heap), "test", &p->share_fd, &p->share)) return;
    share_orders(p->share, p->orders_fd, &p->orders);
    share_orders(p->share, p->orders_fd, &p->peer_orders);
    share_completions(p->share, p->completions_fd, &p->completions);
    share_completions(p->share, p->completions_fd, &p->peer_completions);
    p->share->device.device_count = devices_shown;
    p->share->device.budget_bytes = budget_bytes;
    p->killed[0] = 0;
    p->state = GPU_READY;
    p->options.events.on_ready(p->options.events.owner);
}

static inline void die(struct gpu_process *p)
{
    p->state = GPU_DOWN;
    p->options.events.on_completions(p->options.events.owner);
    p->options.events.on_gone(p->options.events.owner);
}

enum status gpu_process_create(const struct gpu_process_options *options, struct gpu_process **out)
{
    if (fault_here("test: process")) return STATUS_RESOURCE_EXHAUSTED;
    struct gpu_process *p = calloc(1, sizeof *p);
    p->options = *options;
    p->state = GPU_DOWN;
    p->share_fd = -1;
    p->orders_fd = eventfd(0, EFD_NONBLOCK);
    p->completions_fd = eventfd(0, EFD_NONBLOCK);
    processes[process_count++] = p;
    *out = p;
    return STATUS_OK;
}

void gpu_process_start(struct gpu_process *p)
{
    live(p);
}

void gpu_process_kill(struct gpu_process *p, const char *why)
{
    snprintf(p->killed, sizeof p->killed, "%s", why);
    p->state = GPU_DOWN;
}

void gpu_process_check(struct gpu_process *p, uint64_t now_ns) {}

void gpu_process_worked(struct gpu_process *p)
{
    p->worked++;
}

void gpu_process_stop(struct gpu_process *p)
{
    p->state = GPU_DOWN;
    if (p->stuck)
        p->options.events.on_stuck(p->options.events.owner);
    else
        p->options.events.on_gone(p->options.events.owner);
}

void gpu_process_destroy(struct gpu_process *p)
{
    share_unmap(p->share);
    if (p->share_fd >= 0) close(p->share_fd);
    close(p->orders_fd);
    close(p->completions_fd);
    free(p);
}

enum gpu_state gpu_process_state(const struct gpu_process *p)
{
    return p->state;
}

struct share *gpu_process_share(struct gpu_process *p)
{
    return p->share;
}

struct ring *gpu_process_orders(struct gpu_process *p)
{
    return &p->orders;
}

struct ring *gpu_process_completions(struct gpu_process *p)
{
    return &p->completions;
}

uint64_t gpu_process_restarts(const struct gpu_process *p)
{
    return 0;
}

uint64_t gpu_process_ready_ns(const struct gpu_process *p)
{
    return 0;
}

void gpu_process_describe(const struct gpu_process *p, char *text, size_t bytes)
{
    snprintf(text, bytes, "test");
}

/* ---------------------------------------------------------------- a house around the backend */

enum { DIMENSION = 40, STRIDE = 64, ROWS = 3000, QUERIES = 3, BACK_MAX = 512, WORKERS = 2 };

struct house {
    uv_loop_t loop;
    struct config config;
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *collection;
    struct done done;
    struct backend *cpu, *gpu;
    struct heap_block body; /* queries, then weights and ids */
    float *queries, *weights;
    uint64_t *ids;
    struct job *back[BACK_MAX];
    unsigned back_count;
};

static inline void no_wake(void *owner) {}

static inline void upsert(struct house *h, uint64_t first, uint64_t count)
{
    float *rows = aligned_alloc(64, (count * DIMENSION * 4 + 63) / 64 * 64);
    uint64_t *ids = calloc(count, 8);
    reference_fill(first + count, rows, count * DIMENSION);
    for (uint64_t i = 0; i < count; i++)
        ids[i] = 7 + (first + i) * 3;
    struct upsert_counts counts;
    struct failure f;
    cr_assert_eq(collection_upsert(h->collection, ids, rows, count, &counts, &f), STATUS_OK);
    free(rows);
    free(ids);
}

static inline void open_house(struct house *h, const char *devices)
{
    memset(h, 0, sizeof *h);
    process_count = 0;
    budget_bytes = UINT64_C(1) << 30;
    cr_assert_eq(uv_loop_init(&h->loop), 0);
    config_defaults(&h->config);
    snprintf(h->config.gpu_devices, sizeof h->config.gpu_devices, "%s", devices);
    h->done.wake = no_wake;
    cr_assert_eq(heap_create(UINT64_C(256) << 20, &h->heap), STATUS_OK);
    cr_assert_eq(store_create(h->heap, vectors_choose("auto"), &h->store), STATUS_OK);
    cr_assert_eq(store_space(h->store, "test", &h->space), STATUS_OK);
    cr_assert_eq(store_collection_create(h->store, h->space, "c", DIMENSION, METRIC_COSINE, NULL,
                                         &h->collection),
                 STATUS_OK);
    upsert(h, 0, ROWS);
    cr_assert_eq(workers_create(WORKERS, false, &h->done, &h->cpu), STATUS_OK);
    struct gpu_options options = {&h->loop, &h->config, h->heap, &h->done, h->cpu};
    cr_assert_eq(gpu_create(&options, &h->gpu), STATUS_OK);
    cr_assert_eq(heap_take(h->heap, 1 << 20, 1, &h->body), STATUS_OK);
    h->queries = h->body.data;
    h->weights = h->queries + 4096;
    h->ids = (uint64_t *)(h->queries + 8192);
    reference_fill(5, h->queries, QUERIES * DIMENSION);
}

static inline void close_house(struct house *h)
{
    gpu_stop(h->gpu);
    h->cpu->ops->destroy(h->cpu);
    h->gpu->ops->destroy(h->gpu);
    uv_run(&h->loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&h->loop), 0);
    heap_give(h->heap, &h->body);
    store_destroy(h->store);
    cr_assert_eq(heap_usage(h->heap).blocks, 0, "a block was not given back");
    heap_destroy(h->heap);
}

static inline struct job *make_job(struct house *h, enum operation operation)
{
    struct job *j = calloc(1, sizeof *j);
    j->operation = operation;
    j->ops = operation_find(operation);
    j->space = h->space;
    j->collection = h->collection;
    j->heap = h->heap;
    j->kernels = vectors_choose("auto");
    j->worker_count = WORKERS;
    j->reply_bytes_max = UINT64_C(1) << 27;
    j->received_ns = clock_now_ns();
    j->backend = BACKEND_GPU;
    j->reason = REASON_CHOSEN_FASTER;
    return j;
}

static inline struct job *make_knn(struct house *h)
{
    struct job *j = make_job(h, OPERATION_KNN);
    j->request.queries = (struct tensor){DTYPE_FLOAT32, QUERIES, DIMENSION, h->queries};
    j->request.k = 10;
    return j;
}

static inline void drop_job(struct job *j)
{
    heap_give(j->heap, &j->result.block);
    free(j);
}

/* The next order that is out; kind 0: none. */
static inline struct order next_order(struct gpu_process *p)
{
    const struct order *at = ring_peek(&p->peer_orders);
    struct order o = {0};
    if (!at) return o;
    o = *at;
    ring_release(&p->peer_orders);
    return o;
}

static inline void answer(struct gpu_process *p, const struct order *o, enum order_result result,
                          uint64_t number)
{
    struct completion *c = ring_reserve(&p->peer_completions);
    uint64_t now_ns = clock_now_ns();
    *c = (struct completion){.kind = COMPLETION_DONE,
                             .result = result,
                             .token = o->token,
                             .replica = o->replica,
                             .number = number,
                             .started_ns = now_ns,
                             .finished_ns = now_ns + 1,
                             .copy_ns = UINT64_MAX};
    ring_publish(&p->peer_completions);
}

/* Takes back what is done; what is done for good is noted. */
static inline void take_back(struct house *h)
{
    gpu_poll(h->gpu);
    for (struct job *j = done_take(&h->done), *next; j; j = next) {
        next = j->next;
        if (!gpu_resume(h->gpu, j)) h->back[h->back_count++ % BACK_MAX] = j;
    }
}

/* Waits until this job is back for good. */
static inline void expect_back(struct house *h, const struct job *wanted)
{
    for (int i = 0; i < 20000; i++) {
        take_back(h);
        for (int k = 0; k < BACK_MAX; k++)
            if (h->back[k] == wanted) {
                h->back[k] = NULL;
                return;
            }
        usleep(100);
    }
    cr_assert_fail("the job never came back");
}

static inline void expect_none_back(struct house *h)
{
    gpu_poll(h->gpu);
    cr_assert_null(done_take(&h->done));
}

static inline void expect_gave_up(struct house *h, struct job *j, enum reason why)
{
    expect_back(h, j);
    cr_assert(gpu_gave_up(j));
    cr_assert_eq(j->gpu.gave_up, why, "%d", j->gpu.gave_up);
    cr_assert_eq(j->failure.code, STATUS_OK);
    cr_assert_null(j->result.block.data);
    cr_assert_null(j->plan.scratch.data);
    drop_job(j);
}

static inline void submit(struct house *h, struct job *j)
{
    cr_assert_eq(h->gpu->ops->submit(h->gpu, j), STATUS_OK, "gave up: %d", j->gpu.gave_up);
}

/* What the order carries is what the collection has. */
static inline void check_upload(struct house *h, const struct order *o)
{
    const struct order_upload *up = &o->upload;
    const char *base = (const char *)h->body.data - h->body.offset;
    cr_assert_eq(o->kind, ORDER_UPLOAD);
    cr_assert_eq(o->space, h->space->number);
    cr_assert_eq(up->dimension, DIMENSION);
    cr_assert_eq(up->row_count, collection_rows(h->collection));
    cr_assert_leq(up->first + up->count, up->row_count);
    for (uint64_t i = 0; i < up->count; i++) {
        uint32_t row = (uint32_t)(up->first + i);
        cr_assert_eq(memcmp(base + up->rows + i * STRIDE * 4, collection_row(h->collection, row),
                            STRIDE * 4),
                     0);
        cr_assert_eq(((const uint64_t *)(base + up->ids))[i], collection_id(h->collection, row));
    }
}

/* Brings the replica up in the background, as the pipeline does. Returns what it is called. */
static inline uint64_t upload(struct house *h, struct gpu_process *p)
{
    uint64_t replica = 0;
    while (gpu_wants_upload(h->gpu, collection_resident(h->collection))) {
        struct job *j = make_job(h, OPERATION_UPLOAD);
        submit(h, j);
        for (struct order o; (o = next_order(p)).kind;) {
            if (o.kind == ORDER_UPLOAD) {
                check_upload(h, &o);
                replica = o.replica;
            }
            answer(p, &o, RESULT_OK, 0);
        }
        expect_back(h, j);
        cr_assert_not(gpu_gave_up(j));
        drop_job(j);
    }
    cr_assert(gpu_replica_ready(h->gpu, collection_resident(h->collection)));
    return replica;
}

static inline const void *at(const struct house *h, uint64_t place)
{
    return (const char *)h->body.data - h->body.offset + place;
}

static inline struct order expect_run(struct gpu_process *p, enum run_operation operation)
{
    struct order o = next_order(p);
    cr_assert_eq(o.kind, ORDER_RUN, "%u", o.kind);
    cr_assert_eq(o.run.operation, operation);
    cr_assert_eq(o.run.dimension, DIMENSION);
    cr_assert_eq(o.run.row_count, ROWS);
    return o;
}

#endif
