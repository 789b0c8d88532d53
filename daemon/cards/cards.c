#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/exec/batch.h"
#include "daemon/cards/cards_inside.h"
#include "daemon/exec/operation.h"
#include "daemon/exec/workers.h"

enum card_phase {
    PHASE_NONE,
    PHASE_PREPARE, /* workers prepare it */
    PHASE_ORDER,   /* its orders are in flight */
    PHASE_FINISH,  /* workers finish it */
    PHASE_ENDED,   /* done, failed or given up */
};

/* One OPERATION_UPLOAD uploads this much, which takes some milliseconds: a graph's writers wait as
 * long, and of a collection what is written meanwhile is copied. */
#define PIECE_BYTES (UINT64_C(256) << 20)

/* ---------------------------------------------------------------- jobs: ways to end */

static void give_staging(struct job *j)
{
    for (uint32_t i = 0; i < JOB_OPERANDS; i++)
        heap_give(j->heap, &j->gpu.staging[i]);
    row_places_give(j->heap, j->gpu.places);
    j->gpu.places = NULL;
}

static void end(struct job *j)
{
    operation_give_scratch(j);
    give_staging(j);
    j->gpu.phase = PHASE_ENDED;
}

static void give_up(struct job *j, enum reason why)
{
    if (j->gpu.keeps) j->kept = operation_keep_exchange(j);
    operation_drop_all(j);
    batch_drop_results(j);
    end(j);
    memset(&j->failure, 0, sizeof j->failure);
    j->started_ns = j->finished_ns = j->copy_ns = 0;
    j->screen = (struct job_screen){0};
    j->gpu.gave_up = why;
}

static void end_cancelled(struct job *j)
{
    operation_drop_result(j);
    batch_drop_results(j);
    atomic_store_explicit(&j->skipped, true, memory_order_relaxed);
    j->finished_ns = clock_read_ns(j->clock);
    if (!j->started_ns) j->started_ns = j->finished_ns;
    end(j);
}

/* In a batch one member's query was bad; the other members have no result and are run again. */
static void refuse_query(struct job *j)
{
    uint64_t number = j->gpu.number;
    struct job *whose = j->members ? batch_find_query(j, number, &number) : j;
    const struct tensor *q = &whose->request.queries;
    uint32_t d = (uint32_t)q->columns;
    operation_refuse_known(whose, query_name_of(whose), whose->part_first + number,
                           (const float *)q->data + number * d, operation_mask(whose, number), d);
    operation_drop_result(j);
    batch_drop_results(j);
    j->gpu.again = whose != j;
    end(j);
}

/* Sums and products count their lists as queries, and cleanups their pairs, and have none. */
static bool has_query(const struct job *j, uint64_t number)
{
    const struct order *o = &j->gpu.order;
    return o->kind == ORDER_RUN && o->run.operation != RUN_SUPERPOSE &&
           o->run.operation != RUN_BIND && o->run.operation != RUN_CLEANUP &&
           o->run.operation != RUN_PRODUCT && number < o->run.query_count;
}

bool cards_gave_up(const struct job *j)
{
    return j->gpu.gave_up != REASON_NONE;
}

/* ---------------------------------------------------------------- jobs: the way out */

/* A job that brings its rows needs no replica, only a card: the one in whose queue it was. */
static enum reason ready_card(struct cards *g, struct job *j)
{
    uint32_t server = j->ticket.server;
    uint32_t number = server == SERVER_CPU ? replica_card(&g->backend, NULL) : server - SERVER_GPU;
    if (number >= g->card_count || !card_is_ready(&g->cards[number])) return REASON_GPU_DOWN;
    if (!card_room(&g->cards[number])) return REASON_QUEUE_FULL;
    j->gpu.device = number;
    return REASON_NONE;
}

/* Sends the orders of a prepared job. NONE, or the reason why not. */
static enum reason send_orders(struct cards *g, struct job *j)
{
    if (j->gpu.unfit) return REASON_CHOSEN_FASTER;
    if (g->stopping) return REASON_GPU_DOWN;
    enum reason why = job_reads_resident(j) ? replicas_make_ready(g, j) : ready_card(g, j);
    if (why && !j->gpu.orders_out) return why;
    j->gpu.phase = PHASE_ORDER;
    j->gpu.withheld = why;
    if (why) return REASON_NONE; /* it is given up when the uploads that it has ordered are done */
    j->gpu.order.foreseen_ns = j->foreseen_ns;
    card_order(&g->cards[j->gpu.device], &j->gpu.order, j, NULL, order_estimate_ns(j));
    if (j->gpu.meanwhile) j->gpu.meanwhile(j);
    return REASON_NONE;
}

static void prepare_step(struct job *j)
{
    if (is_cancelled(j)) return;
    if (j->gpu.prepare(j)) j->gpu.unfit = true;
}

static void end_step(struct job *j)
{
    /* freeing may return its pages to the system, which would take too long on the loop */
    operation_give_scratch(j);
    j->finished_ns = clock_read_ns(j->clock);
}

static void finish_step(struct job *j)
{
    j->step = end_step;
    j->gpu.finish(j);
}

static enum status refused(struct job *j, enum reason why)
{
    give_up(j, why);
    return STATUS_UNAVAILABLE;
}

static enum status submit_upload(struct cards *g, struct job *j)
{
    enum reason why = g->stopping ? REASON_GPU_DOWN : replica_upload(g, j, 0, PIECE_BYTES, 0);
    if (why || !j->gpu.orders_out) return refused(j, why ? why : REASON_CHOSEN_FASTER);
    j->gpu.phase = PHASE_ORDER;
    return STATUS_OK;
}

static bool no_memory_now(const struct job *j)
{
    return j->failure.detail == DETAIL_MEMORY || j->failure.detail == DETAIL_QUOTA;
}

static bool never_fits(const struct cards *g, const struct job *j)
{
    if (!j->gpu.vram_bytes) return false;
    struct cards_room room = cards_room_of(&g->backend, replicas_of_job(&g->backend, j).card);
    return room.ready && j->gpu.vram_bytes > room.bytes_all;
}

static enum status cards_submit(struct backend *b, struct job *j)
{
    struct cards *g = (struct cards *)b;
    memset(&j->gpu, 0, sizeof j->gpu);
    if (j->operation == OPERATION_UPLOAD) return submit_upload(g, j);
    j->gpu.pairs = operation_gpu_pairs(j);
    j->gpu.vram_bytes = operation_rows_bytes(j);
    if (g->jobs >= GPU_JOBS_MAX) return refused(j, REASON_QUEUE_FULL);
    if (!j->gpu.pairs || j->ops->gpu_plan(j))
        return refused(j, no_memory_now(j) ? REASON_QUEUE_FULL : REASON_CHOSEN_FASTER);
    if (never_fits(g, j)) return refused(j, REASON_VRAM_PRESSURE);
    if (j->gpu.prepare && j->gpu.prepare_is_long) {
        j->gpu.phase = PHASE_PREPARE;
        workers_run(g->options.cpu, j, prepare_step);
    } else {
        if (j->gpu.prepare) workers_run_here(j, prepare_step);
        enum reason why = send_orders(g, j);
        if (why) return refused(j, why);
    }
    g->jobs++;
    return STATUS_OK;
}

/* ---------------------------------------------------------------- jobs: the way back */

/* Ends a job whose results have come, unless they are invalid or there was no memory to use
 * them. */
static void finished(struct job *j)
{
    if (j->gpu.unfit)
        give_up(j, REASON_FALLBACK_AFTER_ERROR);
    else
        end(j);
}

static enum reason failure_of(const struct job *j)
{
    if (j->gpu.result == RESULT_NO_MEMORY || j->gpu.result == RESULT_NO_VERSION)
        return REASON_VRAM_PRESSURE;
    /* the CPU finds out what is wrong with a row */
    if (j->gpu.result == RESULT_BAD_ROW) return REASON_CHOSEN_FASTER;
    for (uint32_t i = 0; i < JOB_OPERANDS; i++) {
        const struct resident *of = job_operand(j, i);
        const struct card_replica *r = of ? replica_of(of) : NULL;
        if (r && !replica_is(r, j->gpu.replicas[i]) && r->lost) return r->lost;
    }
    return REASON_FALLBACK_AFTER_ERROR;
}

/* The process has no such replica, which it says is that of this operand: nor have we. */
static void lose_replica(struct cards *g, const struct job *j)
{
    uint32_t operand = j->gpu.number < JOB_OPERANDS ? (uint32_t)j->gpu.number : 0;
    const struct resident *of = job_operand(j, operand);
    if (of) replica_lose(g, replica_of(of), REASON_FALLBACK_AFTER_ERROR, REPLICA_RETRY_NS);
}

static void take_result(struct cards *g, struct job *j)
{
    struct card *card = &g->cards[j->gpu.device];
    bool sound = replicas_are_there(j);
    if (sound && j->gpu.result == RESULT_NO_REPLICA) {
        lose_replica(g, j);
        sound = false;
    }
    if (j->gpu.result == RESULT_OK && sound) {
        gpu_process_worked(card->process);
        if (!j->gpu.finish || is_cancelled(j)) {
            end(j);
        } else if (j->gpu.finish_is_long) {
            j->gpu.phase = PHASE_FINISH;
            workers_run(g->options.cpu, j, finish_step);
            return;
        } else {
            workers_run_here(j, finish_step);
            finished(j);
        }
    } else if (j->gpu.result == RESULT_BAD_QUERY && sound && has_query(j, j->gpu.number)) {
        refuse_query(j);
    } else {
        give_up(j, failure_of(j));
    }
    done_add(g->options.done, j);
}

void cards_job_back(struct cards *g, struct job *j)
{
    give_staging(j);
    if (j->operation == OPERATION_UPLOAD) {
        end(j);
        done_add(g->options.done, j);
    } else if (is_cancelled(j)) {
        end_cancelled(j);
        done_add(g->options.done, j);
    } else if (j->gpu.withheld) {
        give_up(j, j->gpu.withheld);
        done_add(g->options.done, j);
    } else {
        take_result(g, j);
    }
}

bool cards_resume(struct backend *b, struct job *j)
{
    struct cards *g = (struct cards *)b;
    if (j->gpu.phase == PHASE_PREPARE) {
        if (is_cancelled(j)) {
            end_cancelled(j);
        } else {
            enum reason why = send_orders(g, j);
            if (!why) return true;
            give_up(j, why);
        }
    }
    if (j->gpu.phase == PHASE_FINISH) finished(j);
    if (j->operation != OPERATION_UPLOAD) g->jobs--;
    return false;
}

/* ---------------------------------------------------------------- processes */

static enum status add_card(struct cards *g, const char *which);

static void on_ready(void *owner)
{
    struct card *card = owner;
    struct cards *g = card->gpu;
    card->asleep = card->mad = false;
    if (!g->all_devices || card->number) return;
    uint32_t count = gpu_process_share(card->process)->device.device_count;
    while (g->card_count < count && g->card_count < GPU_MAX) {
        char which[16];
        snprintf(which, sizeof which, "%u", g->card_count);
        if (add_card(g, which)) {
            log_warning("gpu%s: no memory for its process", which);
            return;
        }
        gpu_process_start(g->cards[g->card_count - 1].process);
    }
}

static void on_gone(void *owner)
{
    struct card *card = owner;
    card_lose(card);
    card->gone = true;
}

/* Stopping does not wait for such a process. */
static void on_stuck(void *owner)
{
    struct card *card = owner;
    card_lose(card);
    if (card->gpu->stopping) card->gone = true;
}

static void on_completions(void *owner)
{
    struct card *card = owner;
    ring_wake(gpu_process_completions(card->process));
    card->asleep = false;
    card_take(card);
}

static enum status add_card(struct cards *g, const char *which)
{
    struct card *card = &g->cards[g->card_count];
    if (!card_init(card, g, g->card_count, which)) return STATUS_RESOURCE_EXHAUSTED;
    struct gpu_process_options options = {
        .loop = g->options.loop,
        .clock = g->options.clock,
        .host = g->options.host,
        .host_owner = g->options.host_owner,
        .heap = g->options.heap,
        .config = g->options.config,
        .number = card->number,
        .which = card->which,
        .events = {card, on_ready, on_gone, on_completions, on_stuck},
    };
    enum status st = gpu_process_create(&options, &card->process);
    if (st)
        card_finish(card);
    else
        g->card_count++;
    return st;
}

/* Adds the devices of a list, "0, 2". */
static enum status add_cards(struct cards *g, const char *list)
{
    enum status st = STATUS_OK;
    while (!st && *list && g->card_count < GPU_MAX) {
        char which[sizeof g->cards[0].which] = "";
        list += strspn(list, ", \t");
        size_t bytes = strcspn(list, ", \t");
        if (bytes && bytes < sizeof which) {
            memcpy(which, list, bytes);
            st = add_card(g, which);
        }
        list += bytes;
    }
    return st;
}

/* ---------------------------------------------------------------- life */

void cards_begin_stop(struct backend *b)
{
    struct cards *g = (struct cards *)b;
    if (g->stopping) return;
    g->stopping = true;
    for (uint32_t i = 0; i < g->card_count; i++) {
        g->cards[i].gone = false;
        gpu_process_stop(g->cards[i].process);
    }
}

void cards_stop(struct backend *b)
{
    struct cards *g = (struct cards *)b;
    cards_begin_stop(b);
    for (uint32_t i = 0; i < g->card_count; i++)
        while (!g->cards[i].gone)
            gpu_process_wait(g->cards[i].process);
}

static void cards_destroy(struct backend *b)
{
    struct cards *g = (struct cards *)b;
    if (!g) return;
    cards_stop(b);
    for (uint32_t i = 0; i < g->card_count; i++) {
        gpu_process_destroy(g->cards[i].process);
        card_finish(&g->cards[i]);
    }
    replicas_free(g);
    free(g);
}

static const struct backend_ops cards_ops = {
    .name = "gpu",
    .submit = cards_submit,
    .destroy = cards_destroy,
};

enum status cards_create(const struct cards_options *options, struct backend **out)
{
    struct cards *g = fault_here("gpu: allocate") ? NULL : calloc(1, sizeof *g);
    if (!g) return STATUS_RESOURCE_EXHAUSTED;
    g->backend.ops = &cards_ops;
    g->options = *options;
    const char *devices = options->config->gpu_devices;
    foresight_budget_init(&g->budget, options->config->gpu_spin_percent,
                          clock_read_ns(options->clock));
    g->all_devices = strcmp(devices, "auto") == 0;
    enum status st = STATUS_OK;
    if (strcmp(devices, "none") != 0) st = add_cards(g, g->all_devices ? "0" : devices);
    if (st) {
        g->stopping = true; /* nothing was started */
        cards_destroy(&g->backend);
        return st;
    }
    for (uint32_t i = 0; i < g->card_count; i++)
        gpu_process_start(g->cards[i].process);
    *out = &g->backend;
    return STATUS_OK;
}

/* ---------------------------------------------------------------- asking */

enum gpu_state cards_state(const struct backend *b)
{
    static const int worth[] = {
        [GPU_ABSENT] = 0, [GPU_BREAKER] = 1, [GPU_DOWN] = 2, [GPU_STARTING] = 3, [GPU_READY] = 4};
    const struct cards *g = (const struct cards *)b;
    enum gpu_state best = GPU_ABSENT;
    for (uint32_t i = 0; i < g->card_count; i++) {
        enum gpu_state state = gpu_process_state(g->cards[i].process);
        if (worth[state] > worth[best]) best = state;
    }
    return best;
}

uint32_t cards_in_flight(const struct backend *b)
{
    return ((const struct cards *)b)->jobs;
}

const struct gpu_process *cards_process_at(const struct backend *b, uint32_t i)
{
    const struct cards *g = (const struct cards *)b;
    return i < g->card_count ? g->cards[i].process : NULL;
}
