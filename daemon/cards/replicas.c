#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/cards/cards_inside.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "daemon/store/space.h"

/* A job may upload this much before it runs, some 10 ms; whether that is worth while is
 * predicted. */
#define ON_THE_WAY_BYTES (UINT64_C(256) << 20)

/* ---------------------------------------------------------------- what there is */

bool replica_is(const struct card_replica *r, uint64_t number)
{
    return r && number && r->number == number && !r->condemned;
}

uint64_t replica_version_of(const struct job *j, uint32_t operand)
{
    const struct job_object *o = &j->objects[operand];
    if (o->collection) return collection_version(o->collection);
    return o->graph ? graph_version(o->graph) : attractor_version(o->attractor);
}

bool replica_is_current(const struct card_replica *r)
{
    return replica_has_build(r) && r->version && r->version == resident_version(r->resident);
}

bool replica_is_ready(const struct backend *b, const struct resident *of)
{
    const struct card_replica *r = replica_of(of);
    if (!replica_has_build(r) || r->held || !card_is_ready(r->card)) return false;
    return replica_is_current(r) || resident_dirty_bytes(of) <= ON_THE_WAY_BYTES;
}

bool replica_is_shadow_only(const struct backend *b, const struct job *j)
{
    const struct resident *of = job_operand(j, 0);
    const struct card_replica *r = b && of ? replica_of(of) : NULL;
    return replica_has_build(r) && r->shadow_only;
}

bool replica_was_refused(const struct backend *b, const struct resident *of)
{
    const struct cards *g = (const struct cards *)b;
    const struct card_replica *r = replica_of(of);
    return r && !replica_has_build(r) && r->lost == REASON_VRAM_PRESSURE &&
           clock_read_ns(g->options.clock) < r->retry_ns;
}

bool replica_wants_upload(const struct backend *b, const struct resident *of)
{
    const struct cards *g = (const struct cards *)b;
    const struct card_replica *r = replica_of(of);
    if (g->stopping || cards_state(b) != GPU_READY || !resident_bytes(of)) return false;
    if (!r) return true;
    return replica_has_build(r) ? !r->held && !replica_is_current(r)
                                : clock_read_ns(g->options.clock) >= r->retry_ns;
}

/* The process may write anything there at any time. */
static struct shadow_info shadow_of(const struct cards *g, const struct card_replica *r)
{
    struct shadow_info info = {0};
    if (!card_is_ready(r->card)) return info;
    struct share *share = gpu_process_share(r->card->process);
    struct share_shadow *s = &share->shadow_of[r->number % SHARE_SHADOWS];
    if (atomic_load_explicit(&s->replica, memory_order_acquire) != r->number) return info;
    uint64_t rows = atomic_load_explicit(&s->rows, memory_order_acquire);
    uint64_t made_ns = atomic_load_explicit(&s->made_ns, memory_order_acquire);
    uint64_t lost = atomic_load_explicit(&s->lost, memory_order_acquire);
    info.bytes = atomic_load_explicit(&s->bytes, memory_order_acquire);
    info.rests = atomic_load_explicit(&s->rests, memory_order_acquire);
    if (!rows || atomic_load_explicit(&s->replica, memory_order_relaxed) != r->number)
        return (struct shadow_info){0};
    uint64_t now_ns = clock_read_ns(g->options.clock);
    info.rows = rows;
    info.age_ns = now_ns > made_ns ? now_ns - made_ns : 0;
    memcpy(&info.lost, &lost, sizeof lost);
    if (!(info.lost >= 0 && info.lost <= 1e9)) info.lost = 0;
    return info;
}

/* With codes beside its rows, which come and go by themselves. */
static uint64_t bytes_now(const struct cards *g, const struct card_replica *r)
{
    return r->bytes + (replica_has_build(r) ? shadow_of(g, r).bytes : 0);
}

/* Of a build that has codes alone, or is not whole yet, all that it has counts as needed. */
static uint64_t needed_of(const struct card_replica *r)
{
    uint64_t whole = r->resident && !r->shadow_only ? resident_bytes(r->resident) : r->bytes;
    return whole < r->bytes ? whole : r->bytes;
}

struct replica_info replica_info(const struct backend *b, const struct resident *of)
{
    const struct card_replica *r = replica_of(of);
    if (!replica_has_build(r)) return (struct replica_info){0};
    struct shadow_info shadow = shadow_of((const struct cards *)b, r);
    return (struct replica_info){.bytes = r->bytes + shadow.bytes,
                                 .needed_bytes = needed_of(r),
                                 .version = r->out ? 0 : r->version,
                                 .card = r->card->number,
                                 .shadow = shadow};
}

uint64_t replicas_space_bytes(const struct backend *b, const struct space *s)
{
    const struct cards *g = (const struct cards *)b;
    uint64_t bytes = 0;
    for (const struct card_replica *r = g->replicas; r; r = r->next)
        if (r->space == s->number && r->number) bytes += bytes_now(g, r);
    return bytes;
}

void replicas_count(const struct backend *b,
                    void (*take)(void *to, const struct space *s, uint32_t card, uint64_t bytes,
                                 uint64_t needed),
                    void *to)
{
    const struct cards *g = (const struct cards *)b;
    for (const struct card_replica *r = g ? g->replicas : NULL; r; r = r->next)
        if (r->number && r->card)
            take(to, r->resident ? r->resident->space : NULL, r->card->number, bytes_now(g, r),
                 needed_of(r));
}

/* ---------------------------------------------------------------- losing */

static void list_remove(struct cards *g, struct card_replica *r)
{
    if (r->previous)
        r->previous->next = r->next;
    else
        g->replicas = r->next;
    if (r->next) r->next->previous = r->previous;
}

void replica_set_bytes(struct card_replica *r, uint64_t bytes)
{
    r->card->planned_bytes += bytes - r->bytes;
    r->bytes = bytes;
}

static void drop_build(struct cards *g, struct card_replica *r)
{
    replica_set_bytes(r, 0);
    row_places_give(g->options.heap, r->places);
    r->places = NULL;
    if (r->condemned) g->condemned--;
    r->condemned = false;
    r->number = r->version = 0;
    r->card = NULL;
}

/* Frees a replica whose resident is gone once its build needs no order any more. */
static void bury(struct cards *g, struct card_replica *r)
{
    if (r->resident || r->number) return;
    list_remove(g, r);
    free(r);
}

bool replica_flush(struct cards *g, struct card_replica *r)
{
    if (card_is_ready(r->card)) {
        if (!card_room(r->card)) return false;
        struct order order = {.kind = ORDER_FORGET, .space = r->space, .replica = r->number};
        card_order(r->card, &order, NULL, NULL, 0);
    }
    drop_build(g, r);
    return true;
}

static void condemn(struct cards *g, struct card_replica *r)
{
    if (!r->number || r->condemned) return;
    r->condemned = true;
    g->condemned++;
    replica_flush(g, r);
}

/* If it was lost again before it lasted twice the last wait, that wait was too short. */
static uint64_t wait_of(const struct card_replica *r, uint64_t delay_ns, uint64_t now_ns)
{
    uint64_t longer_ns = r->wait_ns * 2;
    if (now_ns > r->retry_ns + longer_ns || longer_ns < delay_ns) return delay_ns;
    return longer_ns < REPLICA_RETRY_MAX_NS ? longer_ns : REPLICA_RETRY_MAX_NS;
}

void replica_lose(struct cards *g, struct card_replica *r, enum reason why, uint64_t delay_ns)
{
    uint64_t now_ns = clock_read_ns(g->options.clock);
    r->lost = why;
    r->wait_ns = wait_of(r, delay_ns, now_ns);
    r->retry_ns = now_ns + r->wait_ns;
    condemn(g, r);
}

void replica_evicted(struct cards *g, struct card *card, uint64_t number)
{
    for (struct card_replica *r = g->replicas; r; r = r->next)
        if (r->card == card && replica_is(r, number)) {
            replica_lose(g, r, REASON_VRAM_PRESSURE, REPLICA_RETRY_NS);
            return;
        }
}

void replicas_lose_card(struct cards *g, struct card *card)
{
    for (struct card_replica *r = g->replicas, *next; r; r = next) {
        next = r->next;
        if (r->card != card) continue;
        r->lost = REASON_FALLBACK_AFTER_ERROR;
        r->retry_ns = r->wait_ns = 0;
        drop_build(g, r);
        bury(g, r);
    }
}

void replicas_flush(struct cards *g)
{
    for (struct card_replica *r = g->replicas, *next; r && g->condemned; r = next) {
        next = r->next;
        if (r->condemned && replica_flush(g, r)) bury(g, r);
    }
}

void replica_forget(struct backend *b, struct resident *of)
{
    struct cards *g = (struct cards *)b;
    struct card_replica *r = replica_of(of);
    if (!r) return;
    of->replica = NULL;
    r->resident = NULL;
    condemn(g, r);
    bury(g, r);
}

void replicas_free(struct cards *g)
{
    while (g->replicas) {
        struct card_replica *r = g->replicas;
        g->replicas = r->next;
        row_places_give(g->options.heap, r->places);
        if (r->resident) r->resident->replica = NULL;
        free(r);
    }
}

/* ---------------------------------------------------------------- held */

static bool reads(const struct job *j, const struct resident *of)
{
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++)
        if (j->objects[i].resident == of) return true;
    return false;
}

/* True if a request on r's resident is in flight on its card. */
static bool has_requests(const struct card_replica *r)
{
    for (uint32_t i = 0; i < SHARE_ORDERS; i++) {
        const struct card_slot *slot = &r->card->slots[i];
        bool request = slot->kind == ORDER_RUN || slot->kind == ORDER_SPREAD;
        if (request && reads(slot->job, r->resident)) return true;
    }
    return false;
}

void replica_refused(struct card_replica *r, const struct resident_run *run)
{
    r->version = 0;
    r->refused = r->held = true;
    resident_soil_run(r->resident, run);
}

void replica_end_round(struct card_replica *r)
{
    r->refused = false;
    r->round++;
    r->held = has_requests(r);
}

void replicas_release(struct card *card, const struct job *j, enum order_result result)
{
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++) {
        const struct resident *of = j->objects[i].resident;
        struct card_replica *r = of ? replica_of(of) : NULL;
        if (!r || r->card != card || r->refused || !r->held) continue;
        r->held = result == RESULT_NO_VERSION && has_requests(r);
    }
}

/* ---------------------------------------------------------------- of one more */

struct card_replica *replica_take(struct cards *g, struct resident *of)
{
    struct card_replica *r = replica_of(of);
    if (r) return r;
    r = fault_here("gpu: replica") ? NULL : calloc(1, sizeof *r);
    if (!r) return NULL;
    r->resident = of;
    r->space = of->space->number;
    r->next = g->replicas;
    if (r->next) r->next->previous = r;
    g->replicas = r;
    of->replica = r;
    return r;
}
