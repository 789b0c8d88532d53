/* gpu_house: the GPU backend in a house of its own, with processes that are not, on a host that the
 * test plays (cards/process_host.h): they come to life and die when it says so. What a GPU process
 * would read from its ring is read by next_order, and answered, or not, as a test likes.
 * Owner:  one test program each.
 * Thread: one, beside the house's workers.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_UNIT_CARDS_GPU_HOUSE_H
#define ENGRAM_TESTS_UNIT_CARDS_GPU_HOUSE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/base/fault.h"
#include "daemon/cards/cards.h"
#include "daemon/cards/process_inside.h"
#include "daemon/ops/operation.h"
#include "daemon/exec/workers.h"
#include "daemon/store/collection.h"
#include "tests/support/reference.h"

/* ---------------------------------------------------------------- a process that is not one */

struct played_card {
    struct gpu_process *process; /* its supervision, which is real */
    struct process_life life;
    bool lives;
    struct share *share;
    int orders_fd, completions_fd;
    struct ring peer_orders, peer_completions; /* as the process would have them */
    char killed[160];
    bool stuck; /* it does not go when it is stopped */
};

static struct played_card *processes[GPU_MAX];
static uint32_t process_count, devices_shown = 1;
static uint64_t budget_bytes;

static inline struct played_card *played_of(const struct gpu_process *p)
{
    for (uint32_t i = 0; i < process_count; i++)
        if (processes[i]->process == p) return processes[i];
    return NULL;
}

static inline void played_begin(struct gpu_process *p)
{
    struct played_card *c = calloc(1, sizeof *c);
    c->process = p;
    c->orders_fd = eventfd(0, EFD_NONBLOCK);
    c->completions_fd = eventfd(0, EFD_NONBLOCK);
    processes[process_count++] = c;
}

static inline void played_forget(struct gpu_process *p)
{
    struct played_card *c = played_of(p);
    close(c->orders_fd);
    close(c->completions_fd);
    c->process = NULL;
    free(c);
    for (uint32_t i = 0, to = 0, all = process_count; i < all; i++)
        if (processes[i] == c)
            process_count--;
        else
            processes[to++] = processes[i];
    free(p);
}

static inline int played_start(struct gpu_process *p, struct process_life **out)
{
    struct played_card *c = played_of(p);
    int fd;
    if (share_create(heap_file_bytes(p->options.heap), "test", &fd, &c->share)) return -ENOMEM;
    close(fd);
    share_orders(c->share, c->orders_fd, &c->peer_orders);
    share_completions(c->share, c->completions_fd, &c->peer_completions);
    snprintf(c->share->gpu_version, sizeof c->share->gpu_version, "%s", ENGRAM_VERSION);
    c->share->device.device_count = devices_shown;
    c->share->device.budget_bytes = budget_bytes;
    atomic_store(&c->share->state, SHARE_READY);
    c->killed[0] = 0;
    c->lives = true;
    c->life = (struct process_life){.owner = p,
                                    .share = c->share,
                                    .orders_fd = c->orders_fd,
                                    .completions_fd = c->completions_fd};
    *out = &c->life;
    return 0;
}

static inline void played_kill(struct process_life *l)
{
    struct played_card *c = played_of(l->owner);
    snprintf(c->killed, sizeof c->killed, "%.150s", l->owner->why);
}

static inline void played_end(struct process_life *l)
{
    if (!l->share_kept) share_unmap(l->share);
}

static inline void played_set_timer(struct gpu_process *p, uint64_t ms, uint64_t repeat_ms) {}

static inline void played_stop_timer(struct gpu_process *p) {}

/* It is started, if it is not, and is ready. */
static inline void live(struct played_card *c)
{
    if (!c->lives) gpu_process_check(c->process, c->process->next_start_ns);
    cr_assert(c->lives);
    c->process->failures = 1; /* until it works */
    gpu_process_woken(&c->life);
}

static inline void die(struct played_card *c)
{
    c->lives = false;
    gpu_process_exited(&c->life, 0, SIGKILL);
}

/* It goes when it is to; or is killed, and does not. */
static inline void played_wait(struct gpu_process *p)
{
    struct played_card *c = played_of(p);
    if (!c->stuck) {
        die(c);
        return;
    }
    gpu_process_kill(p, "it is stuck");
    gpu_process_check(p, p->killed_ns + 2 * GPU_LINGER_NS);
}

static const struct process_host played_host = {
    .start = played_start,
    .kill = played_kill,
    .end = played_end,
    .set_timer = played_set_timer,
    .stop_timer = played_stop_timer,
    .begin = played_begin,
    .forget = played_forget,
    .wait = played_wait,
};

/* ---------------------------------------------------------------- a house around the backend */

enum { DIMENSION = 40, STRIDE = 64, ROWS = 3000, QUERIES = 3, BACK_MAX = 512, WORKERS = 2 };

struct house {
    uv_loop_t loop;
    struct clock clock;
    uint64_t stopped_ns; /* not 0: the clock stands there, until the test moves it */
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

static inline uint64_t house_now_ns(void *owner)
{
    const struct house *h = owner;
    return h->stopped_ns ? h->stopped_ns : clock_now_ns();
}

static inline void open_house(struct house *h, const char *devices)
{
    memset(h, 0, sizeof *h);
    h->clock = (struct clock){house_now_ns, h};
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
    h->config.gpu_heartbeat_ms = UINT32_MAX; /* they have none */
    struct cards_options options = {.host = &played_host,
                                    .clock = &h->clock,
                                    .loop = &h->loop,
                                    .config = &h->config,
                                    .heap = h->heap,
                                    .done = &h->done,
                                    .cpu = h->cpu};
    cr_assert_eq(cards_create(&options, &h->gpu), STATUS_OK);
    for (uint32_t i = 0; i < process_count; i++) /* the first may add more */
        live(processes[i]);
    cr_assert_eq(heap_take(h->heap, 1 << 20, 1, &h->body), STATUS_OK);
    h->queries = h->body.data;
    h->weights = h->queries + 4096;
    h->ids = (uint64_t *)(h->queries + 8192);
    reference_fill(5, h->queries, QUERIES * DIMENSION);
}

static inline void close_house(struct house *h)
{
    cards_stop(h->gpu);
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
    collection_resident(h->collection)->ops->lend(collection_resident(h->collection), j);
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
static inline struct order next_order(struct played_card *p)
{
    const struct order *at = ring_peek(&p->peer_orders);
    struct order o = {0};
    if (!at) return o;
    o = *at;
    ring_release(&p->peer_orders);
    return o;
}

/* read_bytes: of one that ASKED */
static inline void answer_screened(struct played_card *p, const struct order *o,
                                   enum order_result result, uint64_t number, unsigned screen,
                                   uint64_t read_bytes)
{
    struct completion *c = ring_reserve(&p->peer_completions);
    uint64_t now_ns = clock_now_ns();
    *c = (struct completion){.kind = COMPLETION_DONE,
                             .result = (uint16_t)result,
                             .screen = (uint16_t)screen,
                             .token = o->token,
                             .replica = screen & SCREEN_ASKED ? read_bytes : o->replica,
                             .number = number,
                             .started_ns = now_ns,
                             .finished_ns = now_ns + 1,
                             .copy_ns = UINT64_MAX};
    ring_publish(&p->peer_completions);
}

static inline void answer(struct played_card *p, const struct order *o, enum order_result result,
                          uint64_t number)
{
    answer_screened(p, o, result, number, 0, 0);
}

/* Takes back what is done; what is done for good is noted. */
static inline void take_back(struct house *h)
{
    cards_poll(h->gpu);
    for (struct job *j = done_take(&h->done), *next; j; j = next) {
        next = j->next;
        if (!cards_resume(h->gpu, j)) h->back[h->back_count++ % BACK_MAX] = j;
    }
}

/* Waits until this job is back for good; the bound only ends a broken run. */
static inline void expect_back(struct house *h, const struct job *wanted)
{
    const uint64_t end_ns = clock_now_ns() + UINT64_C(300000000000);
    while (clock_now_ns() < end_ns) {
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
    cards_poll(h->gpu);
    cr_assert_null(done_take(&h->done));
}

static inline void expect_gave_up(struct house *h, struct job *j, enum reason why)
{
    expect_back(h, j);
    cr_assert(cards_gave_up(j));
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
    cr_assert_eq(up->row_count, collection_rows(collection_now(h->collection)));
    cr_assert_leq(up->first + up->count, up->row_count);
    for (uint64_t i = 0; i < up->count; i++) {
        uint32_t row = (uint32_t)(up->first + i);
        cr_assert_eq(memcmp(base + up->rows + i * STRIDE * 4,
                            collection_row(collection_now(h->collection), row), STRIDE * 4),
                     0);
        cr_assert_eq(((const uint64_t *)(base + up->ids))[i],
                     collection_id(collection_now(h->collection), row));
    }
}

/* Brings the replica up in the background, as the pipeline does. Returns what it is called. */
static inline uint64_t upload(struct house *h, struct played_card *p)
{
    uint64_t replica = 0;
    while (replica_wants_upload(h->gpu, collection_resident(h->collection))) {
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
        cr_assert_not(cards_gave_up(j));
        drop_job(j);
    }
    cr_assert(replica_is_ready(h->gpu, collection_resident(h->collection)));
    return replica;
}

static inline const void *at(const struct house *h, uint64_t place)
{
    return (const char *)h->body.data - h->body.offset + place;
}

static inline struct order expect_run(struct played_card *p, enum run_operation operation)
{
    struct order o = next_order(p);
    cr_assert_eq(o.kind, ORDER_RUN, "%u", o.kind);
    cr_assert_eq(o.run.operation, operation);
    cr_assert_eq(o.run.dimension, DIMENSION);
    cr_assert_eq(o.run.row_count, ROWS);
    return o;
}

#endif
