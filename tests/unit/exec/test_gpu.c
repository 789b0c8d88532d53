/* The GPU backend against exec/gpu_process.h's contract, with processes of the test's own: this file
 * defines every gpu_process_ function, so the real ones are not linked. What a GPU process would
 * read from the ring is read here, and answered, or not, as a test likes. */
#include "daemon/exec/gpu.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/base/fault.h"
#include "daemon/exec/operation.h"
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
};

static struct gpu_process *processes[GPU_MAX];
static uint32_t process_count, devices_shown = 1;
static uint64_t budget_bytes;

static void live(struct gpu_process *p)
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

static void die(struct gpu_process *p)
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

enum { DIMENSION = 40, STRIDE = 64, ROWS = 3000, QUERIES = 3, BACK_MAX = 512 };

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

static void no_wake(void *owner) {}

static void upsert(struct house *h, uint64_t first, uint64_t count)
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

static void open_house(struct house *h, const char *devices)
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
    cr_assert_eq(workers_create(1, false, &h->done, &h->cpu), STATUS_OK);
    struct gpu_options options = {&h->loop, &h->config, h->heap, &h->done, h->cpu};
    cr_assert_eq(gpu_create(&options, &h->gpu), STATUS_OK);
    cr_assert_eq(heap_take(h->heap, 1 << 20, 1, &h->body), STATUS_OK);
    h->queries = h->body.data;
    h->weights = h->queries + 4096;
    h->ids = (uint64_t *)(h->queries + 8192);
    reference_fill(5, h->queries, QUERIES * DIMENSION);
}

static void close_house(struct house *h)
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

static struct job *make_job(struct house *h, enum operation operation)
{
    struct job *j = calloc(1, sizeof *j);
    j->operation = operation;
    j->space = h->space;
    j->collection = h->collection;
    j->heap = h->heap;
    j->kernels = vectors_choose("auto");
    j->worker_count = 1;
    j->reply_bytes_max = UINT64_C(1) << 27;
    j->received_ns = clock_now_ns();
    j->backend = BACKEND_GPU;
    j->reason = REASON_CHOSEN_FASTER;
    return j;
}

static struct job *make_knn(struct house *h)
{
    struct job *j = make_job(h, OPERATION_KNN);
    j->request.queries = (struct tensor){DTYPE_FLOAT32, QUERIES, DIMENSION, h->queries};
    j->request.k = 10;
    return j;
}

static void drop_job(struct job *j)
{
    heap_give(j->heap, &j->result.block);
    free(j);
}

/* The next order that is out; kind 0: none. */
static struct order next_order(struct gpu_process *p)
{
    const struct order *at = ring_peek(&p->peer_orders);
    struct order o = {0};
    if (!at) return o;
    o = *at;
    ring_release(&p->peer_orders);
    return o;
}

static void answer(struct gpu_process *p, const struct order *o, enum order_result result,
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
static void take_back(struct house *h)
{
    gpu_poll(h->gpu);
    for (struct job *j = done_take(&h->done), *next; j; j = next) {
        next = j->next;
        if (!gpu_resume(h->gpu, j)) h->back[h->back_count++ % BACK_MAX] = j;
    }
}

/* Waits until this job is back for good. */
static void expect_back(struct house *h, const struct job *wanted)
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

static void expect_none_back(struct house *h)
{
    gpu_poll(h->gpu);
    cr_assert_null(done_take(&h->done));
}

static void expect_gave_up(struct house *h, struct job *j, enum reason why)
{
    expect_back(h, j);
    cr_assert(gpu_gave_up(j));
    cr_assert_eq(j->gpu.gave_up, why, "%d", j->gpu.gave_up);
    cr_assert_eq(j->failure.code, STATUS_OK);
    cr_assert_null(j->result.block.data);
    cr_assert_null(j->plan.scratch.data);
    drop_job(j);
}

static void submit(struct house *h, struct job *j)
{
    cr_assert_eq(h->gpu->ops->submit(h->gpu, j), STATUS_OK, "gave up: %d", j->gpu.gave_up);
}

/* What the order carries is what the collection has. */
static void check_upload(struct house *h, const struct order *o)
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
static uint64_t upload(struct house *h, struct gpu_process *p)
{
    uint64_t replica = 0;
    while (gpu_wants_upload(h->gpu, h->collection)) {
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
    cr_assert(gpu_replica_ready(h->gpu, h->collection));
    return replica;
}

/* ---------------------------------------------------------------- replicas */

Test(gpu, none_is_absent)
{
    struct house h;
    open_house(&h, "none");
    cr_assert_eq(gpu_state(h.gpu), GPU_ABSENT);
    cr_assert_null(gpu_process_at(h.gpu, 0));
    cr_assert_not(gpu_wants_upload(h.gpu, h.collection));
    cr_assert_not(gpu_watch(h.gpu, uv_backend_fd(&h.loop)));
    close_house(&h);
}

Test(gpu, auto_takes_all_that_the_first_one_sees)
{
    struct house h;
    devices_shown = 3;
    open_house(&h, "auto");
    cr_assert_eq(process_count, 3);
    cr_assert_str_eq(processes[0]->options.which, "0");
    cr_assert_str_eq(processes[2]->options.which, "2");
    cr_assert_eq(gpu_process_at(h.gpu, 2), processes[2]);
    close_house(&h);
    open_house(&h, "sim, 5");
    cr_assert_eq(process_count, 2, "a list is a list");
    cr_assert_str_eq(processes[1]->options.which, "5");
    close_house(&h);
}

Test(gpu, a_first_upload_and_what_follows)
{
    struct house h;
    open_house(&h, "sim");
    struct gpu_process *p = processes[0];
    cr_assert_not(gpu_replica_ready(h.gpu, h.collection));
    struct job *j = make_job(&h, OPERATION_UPLOAD);
    submit(&h, j);
    uint64_t rows = 0;
    struct order o = next_order(p), last = o;
    cr_assert_eq(o.upload.fresh, 1);
    for (; o.kind; o = next_order(p)) {
        cr_assert_eq(last.version, rows ? last.version : o.version);
        check_upload(&h, &o);
        rows += o.upload.count;
        last = o;
        answer(p, &o, RESULT_OK, 0);
    }
    cr_assert_eq(rows, ROWS);
    cr_assert_eq(last.version, collection_version(h.collection), "the last one completes it");
    expect_back(&h, j);
    drop_job(j);
    cr_assert_not(gpu_wants_upload(h.gpu, h.collection));
    cr_assert_eq(gpu_replica_info(h.gpu, h.collection).version, last.version);

    upsert(&h, 100, 3); /* a block of rows, on the way of the next request */
    cr_assert(gpu_replica_ready(h.gpu, h.collection));
    j = make_knn(&h);
    submit(&h, j);
    o = next_order(p);
    check_upload(&h, &o);
    cr_assert_eq(o.upload.fresh, 0);
    cr_assert_leq(o.upload.first, 100);
    cr_assert_lt(o.upload.count, ROWS);
    cr_assert_eq(o.version, collection_version(h.collection));
    answer(p, &o, RESULT_OK, 0);
    expect_none_back(&h);
    o = next_order(p);
    cr_assert_eq(o.kind, ORDER_RUN);
    cr_assert_eq(o.version, collection_version(h.collection));
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);

    uint64_t ids[] = {7 + (ROWS - 1) * 3}, deleted, missing; /* the last row: nothing is dirty */
    collection_delete(h.collection, ids, 1, &deleted, &missing);
    j = make_knn(&h);
    submit(&h, j);
    o = next_order(p);
    check_upload(&h, &o);
    cr_assert_eq(o.upload.count, 0);
    answer(p, &o, RESULT_OK, 0);
    o = next_order(p);
    cr_assert_eq(o.run.row_count, ROWS - 1);
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);
    close_house(&h);
}

Test(gpu, a_failed_upload_is_forgotten_and_tried_again_later)
{
    struct house h;
    open_house(&h, "sim");
    struct gpu_process *p = processes[0];
    struct job *j = make_job(&h, OPERATION_UPLOAD);
    submit(&h, j);
    struct order o = next_order(p), other;
    uint64_t replica = o.replica;
    answer(p, &o, RESULT_NO_MEMORY, 0);
    while ((other = next_order(p)).kind)
        answer(p, &other, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);
    o = next_order(p);
    cr_assert_eq(o.kind, ORDER_FORGET);
    cr_assert_eq(o.replica, replica);
    answer(p, &o, RESULT_OK, 0);
    cr_assert_not(gpu_replica_ready(h.gpu, h.collection));
    cr_assert(gpu_replica_refused(h.gpu, h.collection));
    cr_assert_not(gpu_wants_upload(h.gpu, h.collection));
    usleep(1100000);
    cr_assert_not(gpu_replica_refused(h.gpu, h.collection));
    cr_assert_neq(upload(&h, p), replica, "a new build has a new name");
    close_house(&h);
}

Test(gpu, a_card_that_is_too_small_is_not_asked)
{
    struct house h;
    open_house(&h, "sim");
    processes[0]->share->device.budget_bytes = ROWS * STRIDE * 4;
    struct job *j = make_job(&h, OPERATION_UPLOAD);
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
    cr_assert_eq(j->gpu.gave_up, REASON_VRAM_PRESSURE);
    cr_assert(gpu_replica_refused(h.gpu, h.collection));
    cr_assert_eq(next_order(processes[0]).kind, 0);
    drop_job(j);
    close_house(&h);
}

Test(gpu, forgetting_a_collection_says_so)
{
    struct house h;
    open_house(&h, "sim");
    uint64_t replica = upload(&h, processes[0]);
    gpu_forget(h.gpu, h.collection);
    struct order o = next_order(processes[0]);
    cr_assert_eq(o.kind, ORDER_FORGET);
    cr_assert_eq(o.replica, replica);
    answer(processes[0], &o, RESULT_OK, 0);
    gpu_poll(h.gpu);
    cr_assert_str_eq(processes[0]->killed, "");
    close_house(&h);
}

/* ---------------------------------------------------------------- requests */

static const void *at(const struct house *h, uint64_t place)
{
    return (const char *)h->body.data - h->body.offset + place;
}

static struct order expect_run(struct gpu_process *p, enum run_operation operation)
{
    struct order o = next_order(p);
    cr_assert_eq(o.kind, ORDER_RUN, "%u", o.kind);
    cr_assert_eq(o.run.operation, operation);
    cr_assert_eq(o.run.dimension, DIMENSION);
    cr_assert_eq(o.run.row_count, ROWS);
    return o;
}

Test(gpu, an_order_for_knn)
{
    struct house h;
    open_house(&h, "sim");
    uint64_t replica = upload(&h, processes[0]);
    struct job *j = make_knn(&h);
    j->request.has_threshold = true;
    j->request.threshold = 0.25F;
    submit(&h, j);
    cr_assert_eq(gpu_in_flight(h.gpu), 1);
    struct order o = expect_run(processes[0], RUN_KNN);
    cr_assert_eq(o.replica, replica);
    cr_assert_eq(o.run.k, 10);
    cr_assert(o.run.has_threshold && o.run.threshold == 0.25F);
    cr_assert_eq(at(&h, o.run.queries), h.queries);
    cr_assert_eq(o.run.query_count, QUERIES);
    cr_assert_eq(o.run.allowed, PLACE_NONE);
    cr_assert_eq(at(&h, o.run.out_ids), j->result.tensors[0].data);
    cr_assert_eq(at(&h, o.run.out_scores), j->result.tensors[1].data);
    cr_assert_eq(at(&h, o.run.out_counts), j->result.tensors[2].data);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, j);
    cr_assert_not(gpu_gave_up(j));
    cr_assert_eq(processes[0]->worked, 1);
    cr_assert(j->received_ns <= j->started_ns && j->started_ns <= j->finished_ns);
    cr_assert_leq(j->copy_ns, j->finished_ns - j->started_ns);
    cr_assert_eq(gpu_in_flight(h.gpu), 0);
    drop_job(j);
    close_house(&h);
}

Test(gpu, a_filter_is_a_bitmap_or_not_for_the_gpu)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    for (uint64_t i = 0; i < 1000; i++)
        h.ids[i] = 7 + i * 6; /* every other row */
    struct job *j = make_knn(&h);
    j->request.filter_ids = (struct tensor){DTYPE_UINT64, 1000, 1, h.ids};
    submit(&h, j);
    struct order o = {0};
    for (int i = 0; i < 10000 && !o.kind; i++) { /* a worker prepares it */
        struct job *done = done_take(&h.done);
        if (done) cr_assert(gpu_resume(h.gpu, done));
        if (done) o = expect_run(processes[0], RUN_KNN);
        usleep(100);
    }
    const uint64_t *allowed = at(&h, o.run.allowed);
    for (uint32_t row = 0; row < ROWS; row++)
        cr_assert_eq(allowed[row / 64] >> row % 64 & 1, row % 2 == 0 && row < 2000, "%u", row);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);

    j = make_knn(&h);
    j->request.filter_ids = (struct tensor){DTYPE_UINT64, 5, 1, h.ids};
    submit(&h, j);
    expect_gave_up(&h, j, REASON_CHOSEN_FASTER);
    close_house(&h);
}

Test(gpu, orders_for_scores_lists_and_averages)
{
    struct house h;
    open_house(&h, "sim");
    struct gpu_process *p = processes[0];
    upload(&h, p);
    struct job *j = make_job(&h, OPERATION_SIMILARITY);
    j->request.queries = (struct tensor){DTYPE_FLOAT32, QUERIES, DIMENSION, h.queries};
    j->request.metric = METRIC_DOT;
    submit(&h, j);
    struct order o = expect_run(p, RUN_SCORES);
    cr_assert_eq(o.run.metric, METRIC_DOT);
    cr_assert_eq(o.run.positions, PLACE_NONE);
    cr_assert_eq(o.run.out_ids, PLACE_NONE, "so few ids the front writes");
    for (uint32_t i = 0; i < ROWS; i++)
        cr_assert_eq(((uint64_t *)j->result.tensors[0].data)[i], collection_id(h.collection, i));
    cr_assert_eq(at(&h, o.run.out_scores), j->result.tensors[1].data);
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);

    for (uint64_t i = 0; i < 6; i++) {
        h.ids[i] = collection_id(h.collection, (uint32_t)(i * 11));
        h.weights[i] = (float)i;
    }
    j = make_job(&h, OPERATION_SCORE_CANDIDATES);
    uint64_t *offsets = h.ids + 100;
    memcpy(offsets, (uint64_t[]){0, 4, 4, 6}, 32);
    j->request.queries = (struct tensor){DTYPE_FLOAT32, QUERIES, DIMENSION, h.queries};
    j->request.ids = (struct tensor){DTYPE_UINT64, 6, 1, h.ids};
    j->request.offsets = (struct tensor){DTYPE_UINT64, QUERIES + 1, 1, offsets};
    j->request.k = 2;
    submit(&h, j);
    o = expect_run(p, RUN_LISTS);
    cr_assert_eq(o.run.list_count, 6);
    cr_assert_eq(at(&h, o.run.offsets), offsets);
    for (uint32_t i = 0; i < 6; i++) {
        cr_assert_eq(((const uint32_t *)at(&h, o.run.positions))[i], i * 11);
        ((float *)at(&h, o.run.out_scores))[i] = (float)i; /* as the process would */
    }
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    const uint64_t *best = j->result.tensors[0].data;
    cr_assert(best[0] == h.ids[3] && best[1] == h.ids[2] && best[4] == h.ids[5]);
    cr_assert_eq(((uint32_t *)j->result.tensors[2].data)[1], 0);
    drop_job(j);

    j = make_job(&h, OPERATION_WEIGHTED_AVERAGE);
    j->request.ids = (struct tensor){DTYPE_UINT64, 6, 1, h.ids};
    j->request.weights = (struct tensor){DTYPE_FLOAT32, 6, 1, h.weights};
    submit(&h, j);
    o = expect_run(p, RUN_AVERAGE);
    cr_assert(o.run.total == 15 && o.run.list_count == 6);
    cr_assert_eq(at(&h, o.run.weights), h.weights);
    cr_assert_eq(at(&h, o.run.out_scores), j->result.tensors[0].data);
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);

    h.ids[3] = 1; /* unknown: the CPU says so */
    j = make_job(&h, OPERATION_WEIGHTED_AVERAGE);
    j->request.ids = (struct tensor){DTYPE_UINT64, 6, 1, h.ids};
    j->request.weights = (struct tensor){DTYPE_FLOAT32, 6, 1, h.weights};
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
    cr_assert_eq(j->gpu.gave_up, REASON_CHOSEN_FASTER);
    drop_job(j);
    close_house(&h);
}

/* ---------------------------------------------------------------- what goes wrong */

Test(gpu, every_other_result_is_for_the_cpu)
{
    static const struct {
        enum order_result result;
        enum reason why;
    } cases[] = {
        {RESULT_BAD_ROW, REASON_FALLBACK_AFTER_ERROR},
        {RESULT_NO_MEMORY, REASON_VRAM_PRESSURE},
        {RESULT_ERROR, REASON_FALLBACK_AFTER_ERROR},
        {RESULT_REFUSED, REASON_FALLBACK_AFTER_ERROR},
        {RESULT_NO_REPLICA, REASON_FALLBACK_AFTER_ERROR},
    };
    struct house h;
    open_house(&h, "sim");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        upload(&h, processes[0]);
        struct job *j = make_knn(&h);
        submit(&h, j);
        struct order o = expect_run(processes[0], RUN_KNN);
        answer(processes[0], &o, cases[i].result, 0);
        expect_gave_up(&h, j, cases[i].why);
        cr_assert_eq(gpu_in_flight(h.gpu), 0);
        cr_assert_eq(processes[0]->worked, 0);
    }
    cr_assert_not(gpu_replica_ready(h.gpu, h.collection), "NO_REPLICA: it is gone");
    close_house(&h);
}

Test(gpu, a_bad_query_is_refused_in_the_cpus_words)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    h.queries[2 * DIMENSION + 5] = 1.0F / 0.0F;
    struct job *j = make_knn(&h);
    submit(&h, j);
    struct order o = expect_run(processes[0], RUN_KNN);
    answer(processes[0], &o, RESULT_BAD_QUERY, 2);
    expect_back(&h, j);
    cr_assert_not(gpu_gave_up(j));
    cr_assert_eq(j->failure.code, STATUS_INVALID_ARGUMENT);
    cr_assert_eq(j->failure.detail, DETAIL_NOT_FINITE);
    cr_assert_str_eq(j->failure.text, "query 2: column 5 is not a finite number");
    drop_job(j);

    j = make_knn(&h);
    submit(&h, j);
    o = expect_run(processes[0], RUN_KNN);
    answer(processes[0], &o, RESULT_BAD_QUERY, QUERIES); /* there is no such query */
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
    close_house(&h);
}

Test(gpu, a_process_that_dies_takes_nothing_along)
{
    struct house h;
    open_house(&h, "sim");
    struct gpu_process *p = processes[0];
    uint64_t replica = upload(&h, p);
    struct job *first = make_knn(&h), *second = make_knn(&h),
               *third = make_job(&h, OPERATION_UPLOAD);
    submit(&h, first);
    upsert(&h, 0, ROWS);
    submit(&h, second);
    upsert(&h, 0, ROWS);
    submit(&h, third);
    struct order o = expect_run(p, RUN_KNN);
    answer(p, &o, RESULT_OK, 0); /* its last word counts */
    die(p);
    expect_back(&h, first);
    cr_assert_not(gpu_gave_up(first));
    drop_job(first);
    expect_gave_up(&h, second, REASON_FALLBACK_AFTER_ERROR);
    expect_back(&h, third);
    drop_job(third);
    cr_assert_eq(gpu_state(h.gpu), GPU_DOWN);
    cr_assert_not(gpu_replica_ready(h.gpu, h.collection));
    struct job *j = make_knn(&h);
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE, "nobody is there");
    drop_job(j);
    live(p);
    cr_assert_neq(upload(&h, p), replica, "it returns when it is wanted");
    close_house(&h);
}

Test(gpu, an_answer_that_nobody_asked_for_is_madness)
{
    struct house h;
    open_house(&h, "sim");
    struct gpu_process *p = processes[0];
    upload(&h, p);
    struct job *j = make_knn(&h);
    submit(&h, j);
    struct order o = expect_run(p, RUN_KNN), strange = o;
    strange.token ^= UINT64_C(1) << 40;
    answer(p, &strange, RESULT_OK, 0);
    answer(p, &o, RESULT_OK, 0); /* nothing after that is believed */
    expect_none_back(&h);
    cr_assert_neq(p->killed[0], 0);
    die(p);
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);

    live(p);
    upload(&h, p);
    j = make_knn(&h);
    submit(&h, j);
    o = expect_run(p, RUN_KNN);
    answer(p, &o, RESULT_OK, 0);
    answer(p, &o, RESULT_OK, 0); /* twice */
    expect_back(&h, j);
    cr_assert_not(gpu_gave_up(j));
    cr_assert_neq(p->killed[0], 0);
    drop_job(j);
    die(p);
    close_house(&h);
}

Test(gpu, an_answer_from_an_evicted_replica_does_not_count)
{
    struct house h;
    open_house(&h, "sim");
    struct gpu_process *p = processes[0];
    uint64_t replica = upload(&h, p);
    struct job *j = make_knn(&h);
    submit(&h, j);
    struct order o = expect_run(p, RUN_KNN);
    struct completion *c = ring_reserve(&p->peer_completions);
    *c = (struct completion){.kind = COMPLETION_EVICTED, .replica = replica};
    ring_publish(&p->peer_completions);
    answer(p, &o, RESULT_OK, 0);
    expect_gave_up(&h, j, REASON_VRAM_PRESSURE);
    cr_assert(gpu_replica_refused(h.gpu, h.collection));
    o = next_order(p);
    cr_assert(o.kind == ORDER_FORGET && o.replica == replica);
    close_house(&h);
}

Test(gpu, a_cancelled_job_stays_until_its_orders_are_done)
{
    struct house h;
    open_house(&h, "sim");
    struct gpu_process *p = processes[0];
    upload(&h, p);
    struct job *j = make_knn(&h);
    submit(&h, j);
    atomic_store(&j->cancelled, true);
    struct order o = expect_run(p, RUN_KNN);
    expect_none_back(&h);
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    cr_assert(!gpu_gave_up(j) && atomic_load(&j->skipped) && !j->result.block.data);
    drop_job(j);
    close_house(&h);
}

Test(gpu, a_job_that_hangs_costs_the_process_its_life)
{
    struct house h;
    open_house(&h, "sim");
    h.config.gpu_job_ms = 50;
    struct gpu_process *p = processes[0];
    upload(&h, p);
    struct job *j = make_knn(&h);
    submit(&h, j);
    gpu_check(h.gpu, clock_now_ns() + 20000000);
    cr_assert_eq(p->killed[0], 0);
    gpu_check(h.gpu, clock_now_ns() + 200000000);
    cr_assert_neq(p->killed[0], 0);
    die(p);
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
    close_house(&h);
}

Test(gpu, more_than_it_takes_is_for_the_cpu)
{
    struct house h;
    open_house(&h, "sim");
    struct gpu_process *p = processes[0];
    upload(&h, p);
    struct job *jobs[GPU_JOBS_MAX];
    for (int i = 0; i < GPU_JOBS_MAX; i++)
        submit(&h, jobs[i] = make_knn(&h));
    struct job *j = make_knn(&h);
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
    cr_assert_eq(j->gpu.gave_up, REASON_QUEUE_FULL);
    drop_job(j);
    for (struct order o; (o = next_order(p)).kind;)
        answer(p, &o, RESULT_OK, 0);
    for (int i = 0; i < GPU_JOBS_MAX; i++) {
        expect_back(&h, jobs[i]);
        drop_job(jobs[i]);
    }
    close_house(&h);
}

/* With jobs everywhere: with a worker, in the ring, and answered but not yet taken. */
Test(gpu, stopping_gives_everything_back)
{
    struct house h;
    open_house(&h, "sim");
    struct gpu_process *p = processes[0];
    upload(&h, p);
    h.ids[0] = 7;
    struct job *jobs[6];
    for (int i = 0; i < 6; i++) {
        jobs[i] = make_knn(&h);
        if (i % 2) jobs[i]->request.filter_ids = (struct tensor){DTYPE_UINT64, 1, 1, h.ids};
        submit(&h, jobs[i]);
    }
    struct order o = next_order(p);
    answer(p, &o, RESULT_OK, 0);
    gpu_stop(h.gpu);
    for (int i = 0; i < 6; i++) {
        expect_back(&h, jobs[i]);
        cr_assert(gpu_gave_up(jobs[i]));
        drop_job(jobs[i]);
    }
    close_house(&h);
}

/* ---------------------------------------------------------------- sleeping */

Test(gpu, watching_ends_with_news_or_asleep)
{
    struct house h;
    open_house(&h, "sim");
    struct gpu_process *p = processes[0];
    int fd = eventfd(0, EFD_NONBLOCK);
    upload(&h, p);
    cr_assert_not(gpu_watch(h.gpu, fd));
    cr_assert_eq(atomic_load(&p->completions.lines->sleeping), 1);
    struct job *j = make_knn(&h);
    submit(&h, j);
    struct order o = expect_run(p, RUN_KNN);
    cr_assert_not(gpu_watch(h.gpu, fd), "nothing came");
    answer(p, &o, RESULT_OK, 0);
    struct pollfd woken = {.fd = p->completions_fd, .events = POLLIN};
    cr_assert_eq(poll(&woken, 1, 0), 1, "asleep, it is woken");
    cr_assert(gpu_watch(h.gpu, fd), "and there it is");
    expect_back(&h, j);
    drop_job(j);
    h.config.gpu_spin_us = 10000000;
    submit(&h, j = make_knn(&h));
    o = expect_run(p, RUN_KNN);
    eventfd_write(fd, 1);
    uint64_t before_ns = clock_now_ns();
    cr_assert_not(gpu_watch(h.gpu, fd), "the loop has work");
    cr_assert_lt(clock_now_ns() - before_ns, UINT64_C(1000000000));
    answer(p, &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);
    close(fd);
    close_house(&h);
}

Test(gpu, every_want_of_memory)
{
    for (uint32_t nth = 1;; nth++) {
        struct house h;
        open_house(&h, "none");
        struct gpu_options options = {&h.loop, &h.config, h.heap, &h.done, h.cpu};
        strcpy(h.config.gpu_devices, "sim,sim");
        struct backend *b = NULL;
        fault_arm(nth);
        enum status st = gpu_create(&options, &b);
        bool fired = fault_fired() != NULL;
        fault_arm(0);
        cr_assert(st ? fired && st == STATUS_RESOURCE_EXHAUSTED && !b : b != NULL, "%u", nth);
        if (b) b->ops->destroy(b);
        close_house(&h);
        if (!fired) return;
    }
}

Test(gpu, want_of_memory_sends_a_job_to_the_cpu)
{
    bool fired = true;
    for (uint32_t nth = 1; fired; nth++) {
        struct house h;
        open_house(&h, "sim");
        struct job *j = make_job(&h, OPERATION_UPLOAD);
        fault_arm(nth);
        enum status st = h.gpu->ops->submit(h.gpu, j);
        fired = fault_fired() != NULL;
        fault_arm(0);
        cr_assert_eq(st, fired ? STATUS_UNAVAILABLE : STATUS_OK, "%u", nth);
        if (st) drop_job(j);
        if (st) upload(&h, processes[0]);
        for (struct order o; (o = next_order(processes[0])).kind;)
            answer(processes[0], &o, RESULT_OK, 0);
        if (!st) expect_back(&h, j);
        if (!st) drop_job(j);
        j = make_knn(&h);
        fault_arm(nth);
        st = h.gpu->ops->submit(h.gpu, j);
        fired |= fault_fired() != NULL;
        bool hit = fault_fired() != NULL;
        fault_arm(0);
        cr_assert_eq(st, hit ? STATUS_UNAVAILABLE : STATUS_OK, "%u", nth);
        cr_assert(!hit || j->gpu.gave_up == REASON_QUEUE_FULL);
        for (struct order o; (o = next_order(processes[0])).kind;)
            answer(processes[0], &o, RESULT_OK, 0);
        if (!st) expect_back(&h, j);
        drop_job(j);
        close_house(&h);
    }
}
