#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/base/fault.h"
#include "daemon/exec/batch.h"
#include "daemon/cards/cards_inside.h"
#include "kernels/vectors.h"

/* A token is a slot's number and how often the slot was used, so that no two orders in flight
 * share one, and a token that is not in flight matches no slot. */
enum { TOKEN_SHIFT = 16 };
_Static_assert(SHARE_ORDERS <= 1 << TOKEN_SHIFT, "a slot fits its token");

/* Less than one part in LOW_SHARE counts as little. The driver itself takes at most one part in
 * UNEXPLAINED_SHARE of what was free at the start. */
enum { LOW_SHARE = 5, UNEXPLAINED_SHARE = 20 };

/* The wait after a build was lost by a failed upload, and by eviction. */
#define FAILED_RETRY_NS UINT64_C(1000000000)

bool card_init(struct card *card, struct cards *g, uint32_t number, const char *which)
{
    *card = (struct card){.gpu = g, .number = number, .gone = true};
    card->oldest = card->newest = CARD_NO_SLOT;
    card->slots = fault_here("gpu: slots") ? NULL : calloc(SHARE_ORDERS, sizeof *card->slots);
    if (!card->slots) return false;
    strncpy(card->which, which, sizeof card->which - 1);
    for (uint32_t i = 0; i < SHARE_ORDERS; i++)
        card->slots[i].next_free = i + 1 < SHARE_ORDERS ? i + 1 : CARD_NO_SLOT;
    return true;
}

void card_finish(struct card *card)
{
    free(card->slots);
    card->slots = NULL;
}

bool card_is_ready(const struct card *card)
{
    return gpu_process_state(card->process) == GPU_READY;
}

/* ---------------------------------------------------------------- out */

uint32_t card_room(struct card *card)
{
    if (!card_is_ready(card)) return 0;
    uint32_t room = ring_room(gpu_process_orders(card->process)), free = SHARE_ORDERS - card->out;
    return room < free ? room : free;
}

uint32_t cards_count(const struct backend *b)
{
    return ((const struct cards *)b)->card_count;
}

/* True if little memory is free, and less than our own share of the card explains. */
static bool others_took_memory(const struct share *s)
{
    uint64_t start = s->device.memory_free_bytes, now = atomic_load(&s->usage.free_bytes);
    uint64_t ours = atomic_load(&s->usage.replica_bytes) + atomic_load(&s->usage.slab_bytes);
    uint64_t unused = start > ours ? start - ours : 0;
    return now < start / LOW_SHARE && now + start / UNEXPLAINED_SHARE < unused;
}

struct cards_room cards_room_of(const struct backend *b, uint32_t number)
{
    const struct cards *g = (const struct cards *)b;
    struct cards_room room = {0};
    if (number >= g->card_count || g->stopping || !card_is_ready(&g->cards[number])) return room;
    const struct share *s = gpu_process_share(g->cards[number].process);
    /* The two were not measured at the same moment. */
    uint64_t used = atomic_load(&s->usage.request_bytes);
    uint64_t spare = atomic_load(&s->usage.spare_bytes);
    used -= spare < used ? spare : used;
    room.ready = true;
    room.jobs = g->jobs < GPU_JOBS_MAX ? GPU_JOBS_MAX - g->jobs : 0;
    room.bytes_all = atomic_load(&s->usage.slab_bytes);
    room.bytes = used < room.bytes_all ? room.bytes_all - used : 0;
    room.low = room.bytes < room.bytes_all / LOW_SHARE || others_took_memory(s);
    return room;
}

static double spread_ns(const struct order_spread *s, double sets)
{
    double levels = sets * (s->hops + 1);
    double similar = sets * (double)s->edges * (double)vector_stride(s->dimension) * sizeof(float);
    return levels * ((double)s->edges * 20 + (double)s->nodes * 10) + similar +
           (double)s->row_count * 10;
}

/* Rows of results that may lie elsewhere than in the reply, as those that a collection gets; a
 * second operand has as many at most. */
static double rows_made(const struct order_run *run)
{
    if (run->operation == RUN_SUPERPOSE || run->operation == RUN_PRODUCT ||
        run->operation == RUN_CLEANUP)
        return (double)run->query_count;
    if (run->operation != RUN_BIND) return 0;
    return (double)(run->list_count > run->other.count ? run->list_count : run->other.count);
}

static double run_ns(const struct job *j)
{
    const struct order_run *run = &j->gpu.order.run;
    double stride = (double)vector_stride(run->dimension), rows = (double)run->row_count;
    double read = (double)j->gpu.pairs * stride * 2 / 500 + rows * stride * 4;
    if (run->operation == RUN_COMPLETE) read *= 2.0 * run->k; /* scores and sums, each round */
    if (run->operation == RUN_CLUSTER) /* a merge: a scan, a mean, and others between */
        read += (double)run->list_count * (1e6 + (double)run->list_count * stride * 4 / 500);
    if (j->gpu.spread) read += spread_ns(j->gpu.spread, (double)run->list_count);
    return read + rows_made(run) * stride * 8 + (double)run->list_count * 4;
}

/* Assumes 0.5 TFLOP/s, 50 million edges a second, 1 GB/s. */
uint64_t order_estimate_ns(const struct job *j)
{
    double ns = (double)(j->body_bytes + j->result.body_bytes + batch_bytes(j));
    const struct order *o = &j->gpu.order;
    ns += o->kind == ORDER_SPREAD ? spread_ns(&o->spread, (double)o->spread.set_count) : run_ns(j);
    return ns < 3.6e12 ? (uint64_t)ns : UINT64_C(3600000000000);
}

static uint64_t limit_of(struct card *card, uint64_t ns, uint64_t now_ns)
{
    if (card->work_until_ns < now_ns || !card->out) card->work_until_ns = now_ns;
    card->work_until_ns += ns;
    return card->work_until_ns + card->gpu->options.config->gpu_job_ms * UINT64_C(1000000);
}

static void flight_join(struct card *card, uint32_t number)
{
    card->slots[number].older = card->newest;
    card->slots[number].newer = CARD_NO_SLOT;
    if (card->newest == CARD_NO_SLOT)
        card->oldest = number;
    else
        card->slots[card->newest].newer = number;
    card->newest = number;
}

static void flight_leave(struct card *card, const struct card_slot *slot)
{
    if (slot->older == CARD_NO_SLOT)
        card->oldest = slot->newer;
    else
        card->slots[slot->older].newer = slot->newer;
    if (slot->newer == CARD_NO_SLOT)
        card->newest = slot->older;
    else
        card->slots[slot->newer].older = slot->older;
}

/* Writes the query of a direct order beside it, if there is room, so that the process reads it
 * nowhere else. */
static void send_query(struct card *card, struct order *o, const struct job *j)
{
    struct ring *ring = gpu_process_orders(card->process);
    struct share *share = gpu_process_share(card->process);
    if (o->kind != ORDER_RUN || !order_run_is_direct(&o->run, share->device.direct_dimension))
        return;
    const float *query = j->request.queries.data;
    if (ring_room(ring) <= SHARE_ORDERS - SHARE_QUERIES ||
        heap_place(card->gpu->options.heap, query) != o->run.queries)
        return;
    memcpy(share_query(share, ring), query, o->run.dimension * sizeof *query);
    o->run.queries = PLACE_WITH_ORDER;
}

static struct resident_run run_of(const struct order *o)
{
    if (o->kind == ORDER_UPLOAD) return (struct resident_run){0, o->upload.first, o->upload.count};
    if (o->kind == ORDER_UPLOAD_PART)
        return (struct resident_run){o->part.part, o->part.first, o->part.count};
    return (struct resident_run){0};
}

void card_order(struct card *card, const struct order *order, struct job *j, struct card_replica *r,
                uint64_t ns)
{
    struct ring *ring = gpu_process_orders(card->process);
    struct order *at = ring_reserve(ring);
    uint32_t number = card->free_slot;
    struct card_slot *slot = &card->slots[number];
    uint64_t now_ns = clock_read_ns(card->gpu->options.clock);
    uint64_t limit_ns = limit_of(card, ns, now_ns);
    card->free_slot = slot->next_free;
    card->out++;
    slot->kind = (enum order_kind)order->kind;
    slot->generation++;
    slot->job = j;
    slot->replica = r;
    slot->number = order->replica;
    slot->run = run_of(order);
    slot->limit_ns = limit_ns;
    slot->sent_ns = now_ns;
    slot->foreseen_ns = order->foreseen_ns;
    slot->overdue = false;
    flight_join(card, number);
    *at = *order;
    at->token = (uint64_t)slot->generation << TOKEN_SHIFT | number;
    if (j) send_query(card, at, j);
    if (j) j->gpu.orders_out++;
    if (r) r->out++;
    ring_publish(ring);
}

struct progress_view cards_progress(const struct job *j)
{
    struct progress_view v = {.phase = PROGRESS_RUNNING};
    if (!j->gpu.orders_out || !j->gpu.merged) return v;
    uint32_t merged = atomic_load_explicit(j->gpu.merged, memory_order_relaxed);
    v.total = j->gpu.order.run.list_count - 1;
    v.done = merged < v.total ? merged : v.total;
    v.phase = merged ? PROGRESS_MERGES : PROGRESS_PAIRS;
    return v;
}

void cards_cancel(struct job *j)
{
    if (j->gpu.orders_out && j->gpu.stop)
        atomic_store_explicit(j->gpu.stop, 1, memory_order_relaxed);
}

/* ---------------------------------------------------------------- back */

static struct card_slot *slot_of(struct card *card, uint64_t token)
{
    uint64_t number = token & ((UINT64_C(1) << TOKEN_SHIFT) - 1);
    if (number >= SHARE_ORDERS) return NULL;
    struct card_slot *slot = &card->slots[number];
    return slot->kind && slot->generation == token >> TOKEN_SHIFT ? slot : NULL;
}

/* Times from another process are believed only within our own. */
static uint64_t between(uint64_t ns, uint64_t from_ns, uint64_t to_ns)
{
    return ns < from_ns ? from_ns : ns > to_ns ? to_ns : ns;
}

/* The process may say anything: no more than can be. */
static struct job_screen screen_of_run(const struct order_run *run, const struct completion *c)
{
    struct job_screen did = {0};
    if (run->operation != RUN_KNN || c->result != RESULT_OK) return did;
    did.rested = c->screen & SCREEN_RESTED;
    did.useless = c->screen & SCREEN_USELESS;
    if (!(c->screen & SCREEN_ASKED)) return did;
    uint64_t row_bytes = vector_stride(run->dimension) * sizeof(float);
    did.queries = run->query_count;
    did.screened = run->query_count * run->row_count;
    did.survived = c->number < did.screened ? c->number : did.screened;
    uint64_t most = 2 * row_bytes * did.screened;
    did.read_bytes = c->read_bytes < most ? c->read_bytes : most;
    return did;
}

static void note_run(struct job *j, const struct completion *c)
{
    uint64_t now_ns = clock_read_ns(j->clock);
    j->gpu.result = (enum order_result)c->result;
    j->gpu.number = c->number;
    if (j->gpu.order.kind == ORDER_RUN) j->screen = screen_of_run(&j->gpu.order.run, c);
    j->started_ns = between(c->started_ns, j->received_ns, now_ns);
    j->finished_ns = between(c->finished_ns, j->started_ns, now_ns);
    j->copy_ns = between(c->copy_ns, 0, j->finished_ns - j->started_ns);
    j->gpu.enqueued_ns =
        c->enqueued_ns ? between(c->enqueued_ns, j->started_ns, j->finished_ns) : 0;
}

static void note_upload(struct cards *g, const struct card_slot *was, const struct completion *c)
{
    struct card_replica *r = was->replica;
    if (!replica_is(r, was->number)) return;
    r->out--;
    r->pressed |= c->result == RESULT_NO_MEMORY && !r->shadow_only;
    if (c->result == RESULT_NO_MEMORY && r->shadow_only) /* or too few to be of use there */
        r->rows_missed_ns = clock_read_ns(g->options.clock);
    if (c->result == RESULT_OK)
        replica_set_bytes(r, c->number);
    else if (c->result == RESULT_NO_VERSION)
        replica_refused(r, &was->run);
    else
        replica_lose(g, r,
                     c->result == RESULT_NO_MEMORY ? REASON_VRAM_PRESSURE
                                                   : REASON_FALLBACK_AFTER_ERROR,
                     FAILED_RETRY_NS);
    if (r->refused && !r->out && replica_has_build(r)) replica_end_round(r);
}

static void slot_done(struct card *card, struct card_slot *slot, const struct completion *c)
{
    struct cards *g = card->gpu;
    struct card_slot was = *slot;
    card_learn(card, slot, c->result == RESULT_OK);
    flight_leave(card, slot);
    slot->kind = 0;
    slot->job = NULL;
    slot->replica = NULL;
    slot->next_free = card->free_slot;
    card->free_slot = (uint32_t)(slot - card->slots);
    card->out--;
    if (was.kind == ORDER_UPLOAD || was.kind == ORDER_UPLOAD_PART) note_upload(g, &was, c);
    if (was.kind == ORDER_RUN || was.kind == ORDER_SPREAD) {
        note_run(was.job, c);
        g->follow_up.answered = true;
        replicas_release(card, was.job, (enum order_result)c->result);
    }
    if (was.job && --was.job->gpu.orders_out == 0) cards_job_back(g, was.job);
}

/* False: this process has sent something invalid. */
static bool take_one(struct card *card, const struct completion *c)
{
    if (c->kind == COMPLETION_EVICTED) {
        replica_evicted(card->gpu, card, c->replica);
        return true;
    }
    struct card_slot *slot = slot_of(card, c->token);
    if (c->kind != COMPLETION_DONE || !slot || c->result >= RESULT_MAX) return false;
    slot_done(card, slot, c);
    return true;
}

bool card_take(struct card *card)
{
    if (card->mad) return false;
    struct ring *ring = gpu_process_completions(card->process);
    const struct completion *at;
    bool came = false, sane = true;
    while (sane && (at = ring_peek(ring))) {
        struct completion c = *at; /* a copy: what is checked is what is used */
        ring_release(ring);
        sane = take_one(card, &c);
        came = true;
    }
    card->mad = !sane || ring_broken(ring);
    if (card->mad) gpu_process_kill(card->process, "it answered what nobody asked");
    return came;
}

void card_lose(struct card *card)
{
    struct completion lost = {.kind = COMPLETION_DONE, .result = RESULT_ERROR};
    card->asleep = false;
    card->work_until_ns = 0;
    replicas_lose_card(card->gpu, card);
    for (uint32_t i = 0; card->out && i < SHARE_ORDERS; i++)
        if (card->slots[i].kind) slot_done(card, &card->slots[i], &lost);
}

/* If nobody checked for a while, the whole machine may have been paused: the process gets that
 * time, too. */
static void forgive_standstill(struct card *card, uint64_t now_ns)
{
    uint64_t since_ns = card->checked_ns;
    card->checked_ns = now_ns;
    if (!since_ns || now_ns < since_ns || now_ns - since_ns <= GPU_CHECK_GAP_NS) return;
    card->work_until_ns += now_ns - since_ns;
    for (uint32_t i = 0; card->out && i < SHARE_ORDERS; i++)
        card->slots[i].limit_ns += now_ns - since_ns;
}

void card_check(struct card *card, uint64_t now_ns)
{
    forgive_standstill(card, now_ns);
    for (uint32_t i = 0; card->out && i < SHARE_ORDERS; i++)
        if (card->slots[i].kind && now_ns > card->slots[i].limit_ns) {
            gpu_process_kill(card->process, "a request took longer than it can (gpu.job_ms)");
            return;
        }
}
