/* build: which card gets a replica, whether the space's quota allows it, and its next piece. */
#include "daemon/base/clock.h"
#include "daemon/cards/cards_inside.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "daemon/store/space.h"

/* How long a card that is too small for a replica is not tried again. */
#define TOO_LARGE_NS UINT64_C(1000000000)
/* A replica that was asked for so lately is in use: it is not to be lost to another one's rows. */
#define IN_USE_NS UINT64_C(10000000000)
enum { PIECE_MAX = 1 << 30 }; /* what a process says is believed up to there */

/* ---------------------------------------------------------------- where */

/* The VRAM of a ready card for replicas. */
static uint64_t budget_of(const struct card *card)
{
    struct share *share = gpu_process_share(card->process);
    uint64_t budget = share->device.budget_bytes, slab = atomic_load(&share->usage.slab_bytes);
    return budget > slab ? budget - slab : 0;
}

/* Chooses the card with most room, if that many bytes fit there at all once others' replicas are
 * evicted; or `beside`, if they fit there. */
static const struct card *choose_card(const struct cards *g, uint64_t bytes,
                                      const struct card *beside)
{
    const struct card *best = NULL;
    uint64_t most = 0;
    for (uint32_t i = 0; i < g->card_count; i++) {
        const struct card *card = &g->cards[i];
        if (!card_is_ready(card)) continue;
        uint64_t budget = budget_of(card);
        uint64_t left = card->planned_bytes < budget ? budget - card->planned_bytes : 0;
        if (bytes > budget || (best && left <= most && card != beside)) continue;
        if (card == beside) return card;
        best = card;
        most = left;
    }
    return best;
}

/* Returns the ready card with the fewest orders. */
static uint32_t idlest_card(const struct cards *g)
{
    const struct card *best = NULL;
    for (uint32_t i = 0; i < g->card_count; i++) {
        const struct card *card = &g->cards[i];
        if (!card_is_ready(card)) continue;
        if (!best || card->out < best->out) best = card;
    }
    return best ? best->number : 0;
}

uint32_t replica_card(const struct backend *b, const struct resident *of)
{
    if (!of) return idlest_card((const struct cards *)b);
    const struct card_replica *r = replica_of(of);
    if (replica_has_build(r)) return r->card->number;
    const struct card *beside = r ? r->beside : NULL;
    const struct card *card = choose_card((const struct cards *)b, resident_bytes(of), beside);
    return card ? card->number : 0;
}

uint64_t replica_upload_bytes(const struct backend *b, const struct resident *of)
{
    const struct card_replica *r = replica_of(of);
    if (replica_is_current(r)) return 0;
    return replica_has_build(r) ? resident_dirty_bytes(of) : resident_bytes(of);
}

/* ---------------------------------------------------------------- a space's quota */

/* How a replica of each kind of resident is built. */
static const struct replica_kind {
    uint64_t (*bytes)(const struct resident *of);
    bool (*build)(struct cards *g, struct job *j, uint32_t operand, uint64_t bytes_max,
                  uint32_t orders_max);
} replica_kinds[RESIDENT_KINDS] = {
    [RESIDENT_COLLECTION] = {build_rows_bytes, build_rows},
    [RESIDENT_GRAPH] = {build_graph_bytes, build_graph},
    [RESIDENT_ATTRACTOR] = {build_attractor_bytes, build_attractor},
};

/* With rows. */
static uint64_t bytes_wanted(const struct resident *of)
{
    return replica_kinds[of->ops->kind].bytes(of);
}

/* Of r's build. */
static uint64_t bytes_of(const struct card_replica *r)
{
    return r->shadow_only ? build_codes_bytes(r->resident, BUILD_MAPPED_BYTES)
                          : bytes_wanted(r->resident);
}

bool build_fits_together(const struct cards *g, struct resident *const of[], uint32_t count,
                         uint32_t card)
{
    uint64_t bytes = 0, max = count ? of[0]->space->vram_bytes_max : 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += bytes_wanted(of[i]);
    if (max && bytes > max) return false;
    return !card_is_ready(&g->cards[card]) || bytes <= budget_of(&g->cards[card]);
}

/* Returns the bytes that r has, or will have once all orders in flight are done. */
static uint64_t bytes_held(const struct card_replica *r)
{
    uint64_t wanted = r->number && r->resident ? bytes_of(r) : 0;
    return r->bytes > wanted ? r->bytes : wanted;
}

static uint64_t held_by_others(const struct cards *g, const struct card_replica *but)
{
    uint64_t bytes = 0;
    for (const struct card_replica *r = g->replicas; r; r = r->next)
        if (r->space == but->space && r != but) bytes += bytes_held(r);
    return bytes;
}

uint64_t build_space_bytes_max(const struct cards *g, const struct card_replica *r)
{
    uint64_t max = r->resident->space->vram_bytes_max, elsewhere = 0;
    for (const struct card_replica *o = g->replicas; o && max; o = o->next)
        if (o->space == r->space && o->number && o->card != r->card) elsewhere += bytes_held(o);
    if (!max) return 0;
    return max > elsewhere ? max - elsewhere : 1;
}

/* Returns the least recently used other replica of the space; NULL: it has none. */
static struct card_replica *oldest_other(const struct cards *g, const struct card_replica *but)
{
    struct card_replica *oldest = NULL;
    for (struct card_replica *r = g->replicas; r; r = r->next)
        if (r->space == but->space && r != but && replica_has_build(r) && r->resident &&
            (!oldest || r->used < oldest->used))
            oldest = r;
    return oldest;
}

/* True if r fits in the space's quota, if necessary after evicting others of the space. */
static bool keep_quota(struct cards *g, const struct card_replica *r)
{
    uint64_t max = r->resident->space->vram_bytes_max;
    if (!max) return true;
    uint64_t wanted = bytes_of(r);
    if (wanted > max) return false;
    struct card_replica *other;
    while (held_by_others(g, r) > max - wanted && (other = oldest_other(g, r)))
        replica_lose(g, other, REASON_VRAM_PRESSURE, REPLICA_RETRY_NS);
    return held_by_others(g, r) <= max - wanted;
}

/* ---------------------------------------------------------------- with rows, or without */

static bool may_be_shadow_only(const struct cards *g, const struct resident *of)
{
    char memory = *g->options.config->screen_memory;
    return of->ops->kind == RESIDENT_COLLECTION && (memory == 'a' || memory == 'g');
}

/* True if the rows of a collection fit in a part of a card and of the space's quota, if everything
 * else goes. */
static bool rows_fit(const struct cards *g, const struct resident *of, uint32_t percent)
{
    uint64_t max = of->space->vram_bytes_max;
    return (!max || bytes_wanted(of) * 100 <= max * percent) &&
           choose_card(g, resident_bytes(of) * 100 / percent, NULL);
}

bool build_is_shadow_only(const struct cards *g, const struct resident *of)
{
    return may_be_shadow_only(g, of) && !rows_fit(g, of, 100);
}

void build_note_use(struct cards *g, struct card_replica *r)
{
    r->used = ++g->used_last;
    r->asked_ns = clock_read_ns(g->options.clock);
}

static bool was_lately(const struct cards *g, uint64_t then_ns)
{
    return then_ns && clock_read_ns(g->options.clock) - then_ns < IN_USE_NS;
}

static uint64_t piece_of(const struct card *card)
{
    uint64_t piece = gpu_process_share(card->process)->device.piece_bytes;
    return piece && piece <= PIECE_MAX ? piece : 1;
}

/* The VRAM of r's build, as its card maps it. */
static uint64_t bytes_mapped(const struct card_replica *r)
{
    if (r->resident->ops->kind != RESIDENT_COLLECTION) return resident_bytes(r->resident);
    return r->shadow_only ? build_codes_bytes(r->resident, piece_of(r->card))
                          : build_rows_bytes_by(r->resident, piece_of(r->card));
}

/* What others than r have of a card, or of the quota of r's space (card: NULL), and are asked
 * for. */
static uint64_t bytes_in_use(const struct cards *g, const struct card_replica *but,
                             const struct card *card)
{
    uint64_t bytes = 0;
    for (const struct card_replica *r = g->replicas; r; r = r->next) {
        if (r == but || !replica_has_build(r) || !r->resident) continue;
        if (card ? r->card != card : r->space != but->space) continue;
        if (was_lately(g, r->asked_ns)) bytes += card ? bytes_mapped(r) : bytes_of(r);
    }
    return bytes;
}

/* True if rows fit in that part of a room beside what is in use there; also where what codes them
 * would take hardly less. */
static bool rows_or_codes(uint64_t room, uint64_t in_use, uint64_t rows, uint64_t codes,
                          uint32_t percent)
{
    return codes > rows / 4 * 3 || (in_use + rows) * 100 <= room * percent;
}

/* The same of r's, a card and its space's quota. */
static bool rows_fit_beside(const struct cards *g, const struct card_replica *r, uint32_t percent)
{
    const struct resident *of = r->resident;
    const struct card *card = choose_card(g, resident_bytes(of) * 100 / percent, r->beside);
    if (!card) return false;
    uint64_t piece = piece_of(card), max = of->space->vram_bytes_max;
    bool fit = rows_or_codes(budget_of(card), bytes_in_use(g, r, card),
                             build_rows_bytes_by(of, piece), build_codes_bytes(of, piece), percent);
    return fit && (!max || rows_or_codes(max, bytes_in_use(g, r, NULL), bytes_wanted(of),
                                         build_codes_bytes(of, BUILD_MAPPED_BYTES), percent));
}

/* True if r's rows would cost others theirs, which would come back and cost r its own. */
static bool is_crowded(const struct cards *g, const struct card_replica *r)
{
    return may_be_shadow_only(g, r->resident) && !was_lately(g, r->rows_missed_ns) &&
           !rows_fit_beside(g, r, 100);
}

bool build_give_up_codes(struct cards *g, struct card_replica *r)
{
    enum { ROOM_PERCENT = 80 };
    if (!replica_has_build(r) || !r->shadow_only || r->pressed || r->out) return false;
    if (!rows_fit(g, r->resident, ROOM_PERCENT)) return false;
    if (!was_lately(g, r->rows_missed_ns) && !rows_fit_beside(g, r, ROOM_PERCENT)) return false;
    replica_lose(g, r, REASON_VRAM_PRESSURE, 0);
    return true;
}

/* ---------------------------------------------------------------- building, on a card */

/* Chooses whether r is built with rows, and returns the card for it; NULL: none has room. */
static const struct card *find_room(struct cards *g, struct card_replica *r)
{
    const struct resident *of = r->resident;
    bool fits = rows_fit(g, of, 100), pressed = r->pressed && !r->shadow_only;
    bool crowded = fits && !pressed && is_crowded(g, r);
    r->shadow_only = may_be_shadow_only(g, of) && (pressed || crowded || !fits);
    r->pressed = r->shadow_only && fits && pressed;
    if (!keep_quota(g, r)) return NULL;
    return choose_card(g, r->shadow_only ? build_codes_bytes(of, 1) : resident_bytes(of),
                       r->beside);
}

/* Makes an empty build. NONE, or the reason why not. */
static enum reason begin_build(struct cards *g, struct card_replica *r)
{
    if (r->condemned && !replica_flush(g, r)) return REASON_QUEUE_FULL;
    if (r->number) return REASON_NONE;
    if (clock_read_ns(g->options.clock) < r->retry_ns) return r->lost;
    if (cards_state(&g->backend) != GPU_READY) return REASON_GPU_DOWN;
    const struct card *card = find_room(g, r);
    if (!card) {
        replica_lose(g, r, REASON_VRAM_PRESSURE, TOO_LARGE_NS);
        return REASON_VRAM_PRESSURE;
    }
    r->card = &g->cards[card->number];
    r->beside = NULL; /* the next one may be alone */
    r->number = ++g->replica_last;
    r->version = 0;
    r->out = 0;
    r->round = 1;
    r->refused = r->held = false;
    r->begun = false;
    r->lost = REASON_NONE;
    resident_soil(r->resident);
    return REASON_NONE;
}

void build_order(struct cards *g, struct job *j, struct card_replica *r, struct order *o,
                 uint64_t bytes)
{
    o->space = r->space;
    o->replica = r->number;
    r->begun = true;
    /* at 1 GB/s, and a millisecond for its memory */
    card_order(r->card, o, j, r, bytes + 1000000);
}

static bool reads_newest(const struct job_object *o)
{
    if (o->collection) return o->collection == collection_now((struct collection *)o->resident);
    if (o->graph) return o->graph == graph_now((struct graph *)o->resident);
    return o->attractor == attractor_now((struct attractor *)o->resident);
}

/* False: what j reads first is on another card. */
static bool takes_card(struct job *j, uint32_t operand, const struct card_replica *r)
{
    bool alone = true;
    for (uint32_t i = 0; i < operand; i++)
        alone &= !job_operand(j, i);
    if (!alone && j->gpu.device != r->card->number) return false;
    j->gpu.replicas[operand] = r->number;
    j->gpu.device = r->card->number;
    return true;
}

/* For j, which began before the newest write: the replica as it is, if it is what j reads. Orders
 * that follow on the same card change it when j's order has been run. */
static enum reason replica_of_old(struct cards *g, struct job *j, uint32_t operand)
{
    struct card_replica *r = replica_of(job_operand(j, operand));
    if (!replica_has_build(r) || r->version != replica_version_of(j, operand))
        return REASON_PREDICTED_SLOWER;
    if (!card_is_ready(r->card)) return REASON_GPU_DOWN;
    if (!card_room(r->card)) return REASON_QUEUE_FULL;
    build_note_use(g, r);
    return takes_card(j, operand, r) ? REASON_NONE : REASON_PREDICTED_SLOWER;
}

enum reason replica_upload(struct cards *g, struct job *j, uint32_t operand, uint64_t bytes_max,
                           uint32_t spare)
{
    struct resident *of = job_operand(j, operand);
    if (!reads_newest(&j->objects[operand])) return replica_of_old(g, j, operand);
    struct card_replica *r = replica_take(g, of);
    if (!r || !resident_bytes(of)) return REASON_QUEUE_FULL;
    bool waits = j->operation != OPERATION_UPLOAD && j->reason != REASON_FORCED;
    if (build_give_up_codes(g, r) && waits) return REASON_PREDICTED_SLOWER;
    enum reason why = begin_build(g, r);
    if (why) return why;
    build_note_use(g, r);
    if (!takes_card(j, operand, r)) return REASON_PREDICTED_SLOWER;
    if (!card_is_ready(r->card)) return REASON_GPU_DOWN;
    if (r->held) return REASON_VRAM_PRESSURE;
    uint32_t room = card_room(r->card);
    if (room < spare + 1) return REASON_QUEUE_FULL;
    if (replica_is_current(r)) return REASON_NONE;
    if (!keep_quota(g, r)) { /* the resident grew, or the quota was lowered */
        replica_lose(g, r, REASON_VRAM_PRESSURE, TOO_LARGE_NS);
        return REASON_VRAM_PRESSURE;
    }
    if (!resident_track(of)) return REASON_QUEUE_FULL;
    bool given = replica_kinds[of->ops->kind].build(g, j, operand, bytes_max, room - spare);
    return given ? REASON_NONE : REASON_QUEUE_FULL;
}
