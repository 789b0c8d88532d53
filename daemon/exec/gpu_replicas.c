#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/exec/gpu_inside.h"
#include "daemon/store/space.h"

/* So little a job uploads on its way; a card that is too small is asked again after a while. */
#define ON_THE_WAY_BYTES (UINT64_C(4) << 20)
#define TOO_LARGE_NS     UINT64_C(1000000000)
/* VRAM is mapped in such pieces, by every driver so far. */
#define MAPPED_BYTES (UINT64_C(2) << 20)

/* Short rows count as long as this, for their ids are copied on the loop. */
enum { ROW_BYTES_MIN = 1024 };

/* ---------------------------------------------------------------- what there is */

bool replica_is(const struct replica *r, uint64_t number)
{
    return r && number && r->number == number && !r->condemned;
}

static bool has_build(const struct replica *r)
{
    return r && r->number && !r->condemned;
}

bool replica_is_current(const struct replica *r)
{
    return has_build(r) && r->version && r->version == collection_version(r->collection);
}

bool gpu_replica_ready(const struct backend *b, const struct collection *c)
{
    const struct replica *r = replica_of(c);
    if (!has_build(r) || !card_is_ready(r->card)) return false;
    return replica_is_current(r) || collection_dirty_bytes(c) <= ON_THE_WAY_BYTES;
}

bool gpu_replica_refused(const struct backend *b, const struct collection *c)
{
    const struct replica *r = replica_of(c);
    return r && !has_build(r) && r->lost == REASON_VRAM_PRESSURE && clock_now_ns() < r->retry_ns;
}

bool gpu_wants_upload(const struct backend *b, const struct collection *c)
{
    const struct gpu *g = (const struct gpu *)b;
    const struct replica *r = replica_of(c);
    if (g->stopping || gpu_state(b) != GPU_READY || !collection_rows(c)) return false;
    if (!r) return true;
    return has_build(r) ? !replica_is_current(r) : clock_now_ns() >= r->retry_ns;
}

struct gpu_replica_info gpu_replica_info(const struct backend *b, const struct collection *c)
{
    const struct replica *r = replica_of(c);
    if (!has_build(r)) return (struct gpu_replica_info){0};
    return (struct gpu_replica_info){r->bytes, r->out ? 0 : r->version};
}

uint64_t gpu_space_bytes(const struct backend *b, const struct space *s)
{
    const struct gpu *g = (const struct gpu *)b;
    uint64_t bytes = 0;
    for (const struct replica *r = g->replicas; r; r = r->next)
        if (r->space == s->number && r->number) bytes += r->bytes;
    return bytes;
}

/* ---------------------------------------------------------------- losing */

static void list_remove(struct gpu *g, struct replica *r)
{
    if (r->previous)
        r->previous->next = r->next;
    else
        g->replicas = r->next;
    if (r->next) r->next->previous = r->previous;
}

void replica_set_bytes(struct replica *r, uint64_t bytes)
{
    r->card->planned_bytes += bytes - r->bytes;
    r->bytes = bytes;
}

static void drop_build(struct gpu *g, struct replica *r)
{
    replica_set_bytes(r, 0);
    if (r->condemned) g->condemned--;
    r->condemned = false;
    r->number = r->version = 0;
    r->card = NULL;
}

/* Its collection is gone, and nothing is left to be said of it. */
static void bury(struct gpu *g, struct replica *r)
{
    if (r->collection || r->number) return;
    list_remove(g, r);
    free(r);
}

/* Tells the process to forget the condemned build. False: there is no room for that now. */
static bool flush(struct gpu *g, struct replica *r)
{
    if (card_is_ready(r->card)) {
        if (!card_room(r->card)) return false;
        struct order order = {.kind = ORDER_FORGET, .space = r->space, .replica = r->number};
        card_order(r->card, &order, NULL, NULL, 0);
    }
    drop_build(g, r);
    return true;
}

static void condemn(struct gpu *g, struct replica *r)
{
    if (!r->number || r->condemned) return;
    r->condemned = true;
    g->condemned++;
    flush(g, r);
}

/* Lost again before it was back for twice as long as it had waited: that wait was too short. */
static uint64_t wait_of(const struct replica *r, uint64_t delay_ns, uint64_t now_ns)
{
    uint64_t longer_ns = r->wait_ns * 2;
    if (now_ns > r->retry_ns + longer_ns || longer_ns < delay_ns) return delay_ns;
    return longer_ns < REPLICA_RETRY_MAX_NS ? longer_ns : REPLICA_RETRY_MAX_NS;
}

void replica_lose(struct gpu *g, struct replica *r, enum reason why, uint64_t delay_ns)
{
    uint64_t now_ns = clock_now_ns();
    r->lost = why;
    r->wait_ns = wait_of(r, delay_ns, now_ns);
    r->retry_ns = now_ns + r->wait_ns;
    condemn(g, r);
}

void replica_evicted(struct gpu *g, struct card *card, uint64_t number)
{
    for (struct replica *r = g->replicas; r; r = r->next)
        if (r->card == card && replica_is(r, number)) {
            replica_lose(g, r, REASON_VRAM_PRESSURE, REPLICA_RETRY_NS);
            return;
        }
}

void replicas_lose_card(struct gpu *g, struct card *card)
{
    for (struct replica *r = g->replicas, *next; r; r = next) {
        next = r->next;
        if (r->card != card) continue;
        r->lost = REASON_FALLBACK_AFTER_ERROR;
        r->retry_ns = r->wait_ns = 0;
        drop_build(g, r);
        bury(g, r);
    }
}

void replicas_flush(struct gpu *g)
{
    for (struct replica *r = g->replicas, *next; r && g->condemned; r = next) {
        next = r->next;
        if (r->condemned && flush(g, r)) bury(g, r);
    }
}

void gpu_forget(struct backend *b, struct collection *c)
{
    struct gpu *g = (struct gpu *)b;
    struct replica *r = replica_of(c);
    if (!r) return;
    collection_set_replica(c, NULL);
    r->collection = NULL;
    condemn(g, r);
    bury(g, r);
}

void gpu_replicas_finish(struct gpu *g)
{
    while (g->replicas) {
        struct replica *r = g->replicas;
        g->replicas = r->next;
        if (r->collection) collection_set_replica(r->collection, NULL);
        free(r);
    }
}

/* ---------------------------------------------------------------- building */

static uint64_t vram_bytes(const struct collection *c)
{
    uint64_t row_bytes = vector_stride(collection_dimension(c)) * sizeof(float);
    return collection_rows(c) * (row_bytes + sizeof(uint64_t) + sizeof(float));
}

/* The one with most room, if the collection fits there at all: others' replicas may make way. */
static const struct card *choose_card(const struct gpu *g, uint64_t bytes)
{
    const struct card *best = NULL;
    uint64_t most = 0;
    for (uint32_t i = 0; i < g->card_count; i++) {
        const struct card *card = &g->cards[i];
        if (!card_is_ready(card)) continue;
        struct share *share = gpu_process_share(card->process);
        uint64_t budget = share->device.budget_bytes, slab = atomic_load(&share->usage.slab_bytes);
        budget = budget > slab ? budget - slab : 0;
        uint64_t left = card->planned_bytes < budget ? budget - card->planned_bytes : 0;
        if (bytes > budget || (best && left <= most)) continue;
        best = card;
        most = left;
    }
    return best;
}

uint32_t gpu_card_of(const struct backend *b, const struct collection *c)
{
    const struct replica *r = replica_of(c);
    if (has_build(r)) return r->card->number;
    const struct card *card = choose_card((const struct gpu *)b, vram_bytes(c));
    return card ? card->number : 0;
}

uint64_t gpu_upload_bytes(const struct backend *b, const struct collection *c)
{
    const struct replica *r = replica_of(c);
    if (replica_is_current(r)) return 0;
    if (has_build(r)) return collection_dirty_bytes(c);
    return collection_rows(c) * vector_stride(collection_dimension(c)) * sizeof(float);
}

/* ---------------------------------------------------------------- a space's quota */

static uint64_t mapped(uint64_t bytes)
{
    return (bytes + MAPPED_BYTES - 1) / MAPPED_BYTES * MAPPED_BYTES;
}

/* What the collection's rows, norms and ids take, each mapped for itself. */
static uint64_t bytes_wanted(const struct collection *c)
{
    uint64_t rows = collection_rows(c);
    return mapped(rows * vector_stride(collection_dimension(c)) * sizeof(float)) +
           mapped(rows * sizeof(float)) + mapped(rows * sizeof(uint64_t));
}

/* What r has, or will have once all that was ordered is done. */
static uint64_t bytes_held(const struct replica *r)
{
    uint64_t wanted = r->number && r->collection ? bytes_wanted(r->collection) : 0;
    return r->bytes > wanted ? r->bytes : wanted;
}

static uint64_t held_by_others(const struct gpu *g, const struct replica *but)
{
    uint64_t bytes = 0;
    for (const struct replica *r = g->replicas; r; r = r->next)
        if (r->space == but->space && r != but) bytes += bytes_held(r);
    return bytes;
}

/* Another one of its space, used least recently; NULL: none that is there. */
static struct replica *oldest_other(const struct gpu *g, const struct replica *but)
{
    struct replica *oldest = NULL;
    for (struct replica *r = g->replicas; r; r = r->next)
        if (r->space == but->space && r != but && has_build(r) && r->collection &&
            (!oldest || r->used < oldest->used))
            oldest = r;
    return oldest;
}

/* Whether r fits in what its space may have; if need be others of the space make way. */
static bool keep_quota(struct gpu *g, const struct replica *r)
{
    uint64_t max = collection_space(r->collection)->vram_bytes_max;
    if (!max) return true;
    uint64_t wanted = bytes_wanted(r->collection);
    if (wanted > max) return false;
    struct replica *other;
    while (held_by_others(g, r) > max - wanted && (other = oldest_other(g, r)))
        replica_lose(g, other, REASON_VRAM_PRESSURE, REPLICA_RETRY_NS);
    return held_by_others(g, r) <= max - wanted;
}

/* ---------------------------------------------------------------- building, on a card */

static struct replica *replica_take(struct gpu *g, struct collection *c)
{
    struct replica *r = replica_of(c);
    if (r) return r;
    r = fault_here("gpu: replica") ? NULL : calloc(1, sizeof *r);
    if (!r) return NULL;
    r->collection = c;
    r->space = collection_space(c)->number;
    r->next = g->replicas;
    if (r->next) r->next->previous = r;
    g->replicas = r;
    collection_set_replica(c, r);
    return r;
}

/* Makes a build that has nothing yet. NONE, or why not. */
static enum reason begin_build(struct gpu *g, struct replica *r)
{
    if (r->condemned && !flush(g, r)) return REASON_QUEUE_FULL;
    if (r->number) return REASON_NONE;
    if (clock_now_ns() < r->retry_ns) return r->lost;
    if (gpu_state(&g->backend) != GPU_READY) return REASON_GPU_DOWN;
    if (!keep_quota(g, r)) {
        replica_lose(g, r, REASON_VRAM_PRESSURE, TOO_LARGE_NS);
        return REASON_VRAM_PRESSURE;
    }
    const struct card *card = choose_card(g, vram_bytes(r->collection));
    if (!card) {
        replica_lose(g, r, REASON_VRAM_PRESSURE, TOO_LARGE_NS);
        return REASON_VRAM_PRESSURE;
    }
    r->card = &g->cards[card->number];
    r->number = ++g->replica_last;
    r->version = 0;
    r->out = 0;
    r->begun = false;
    r->lost = REASON_NONE;
    collection_soil(r->collection);
    return REASON_NONE;
}

/* What one call gives: how many orders and rows. */
struct piece {
    uint32_t orders;
    uint64_t rows;
    bool last; /* nothing is left then */
};

static struct piece measure(const struct collection *c, uint64_t bytes_max, uint32_t orders_max)
{
    struct piece p = {.last = true};
    uint64_t row_bytes = vector_stride(collection_dimension(c)) * sizeof(float), first, count;
    if (row_bytes < ROW_BYTES_MIN) row_bytes = ROW_BYTES_MIN;
    for (uint64_t from = 0; collection_next_dirty(c, from, &first, &count); from = first + count) {
        if (p.orders && (p.orders == orders_max || (p.rows + count) * row_bytes > bytes_max)) {
            p.last = false;
            break;
        }
        p.orders++;
        p.rows += count;
    }
    return p;
}

static void order_rows(struct gpu *g, struct job *j, struct replica *r, struct order_upload up,
                       uint64_t version)
{
    struct order order = {
        .kind = ORDER_UPLOAD,
        .space = r->space,
        .replica = r->number,
        .version = version,
        .upload = up,
    };
    order.upload.fresh = !r->begun;
    r->begun = true;
    /* 1 GB/s, and a millisecond for its memory. */
    uint64_t ns = up.count * vector_stride(up.dimension) * sizeof(float) + 1000000;
    card_order(r->card, &order, j, r, ns);
}

/* Ids lie in this process's own memory: those of the whole piece travel in one block. */
static void give_piece(struct gpu *g, struct job *j, struct replica *r, const struct piece *p)
{
    struct collection *c = r->collection;
    uint64_t *staging = j->gpu.staging.data, first, count, from = 0;
    struct order_upload up = {
        .dimension = collection_dimension(c),
        .row_count = collection_rows(c),
        .rows = PLACE_NONE,
        .ids = PLACE_NONE,
    };
    uint64_t version = p->last ? collection_version(c) : 0;
    r->version = version;
    replica_set_bytes(r, vram_bytes(c));
    if (!p->orders) order_rows(g, j, r, up, version);
    for (uint32_t i = 0; i < p->orders; i++, from = first + count) {
        if (!collection_next_dirty(c, from, &first, &count)) return;
        const uint64_t *ids;
        struct row_block block = collection_block(c, first, (size_t)count, &ids);
        memcpy(staging, ids, count * sizeof *ids);
        up.first = first;
        up.count = count;
        up.rows = heap_place(g->options.heap, block.rows);
        up.ids = heap_place(g->options.heap, staging);
        staging += count;
        collection_clean(c, first, count);
        order_rows(g, j, r, up, i + 1 < p->orders ? 0 : version);
    }
}

enum reason replica_upload(struct gpu *g, struct job *j, uint64_t bytes_max, uint32_t spare)
{
    struct collection *c = j->collection;
    struct replica *r = replica_take(g, c);
    if (!r || !collection_rows(c)) return REASON_QUEUE_FULL;
    enum reason why = begin_build(g, r);
    if (why) return why;
    r->used = ++g->used_last;
    j->gpu.replica = r->number;
    j->gpu.device = r->card->number;
    if (!card_is_ready(r->card)) return REASON_GPU_DOWN;
    uint32_t room = card_room(r->card);
    if (room < spare + 1) return REASON_QUEUE_FULL;
    if (replica_is_current(r)) return REASON_NONE;
    if (!keep_quota(g, r)) { /* it grew, or the quota sank */
        replica_lose(g, r, REASON_VRAM_PRESSURE, TOO_LARGE_NS);
        return REASON_VRAM_PRESSURE;
    }
    if (!collection_track(c)) return REASON_QUEUE_FULL;
    struct piece p = measure(c, bytes_max, room - spare);
    if (!p.last && bytes_max == UINT64_MAX) return REASON_QUEUE_FULL;
    /* For the daemon's own ends, and soon given back: a space at its quota has its replicas too. */
    uint64_t staging = p.rows * sizeof(uint64_t);
    if (staging && heap_take_past_quota(g->options.heap, staging, r->space, &j->gpu.staging))
        return REASON_QUEUE_FULL;
    give_piece(g, j, r, &p);
    return REASON_NONE;
}
