/* operands: what is known of all the replicas that one job reads, that they come to one card, and
 * that they are up to date there. */
#include "daemon/base/clock.h"
#include "daemon/cards/cards_inside.h"
#include "daemon/store/space.h"

/* What j reads, without repetition. */
static uint32_t operands_of(const struct job *j, struct resident *out[JOB_OPERANDS])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < JOB_OPERANDS; i++) {
        struct resident *of = job_operand(j, i);
        bool again = false;
        for (uint32_t n = 0; n < count; n++)
            again |= out[n] == of;
        if (of && !again) out[count++] = of;
    }
    return count;
}

static struct card *card_of(const struct resident *of)
{
    const struct card_replica *r = replica_of(of);
    return replica_has_build(r) ? r->card : NULL;
}

/* The first that is there says where the others are to be. */
static uint32_t choose_card(const struct backend *b, struct resident *const of[], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (card_of(of[i])) return card_of(of[i])->number;
    return replica_card(b, count ? of[0] : NULL);
}

static bool is_knn(const struct job *j)
{
    return j->operation == OPERATION_KNN || j->operation == OPERATION_KNN_BATCH ||
           j->operation == OPERATION_UPLOAD;
}

bool replica_serves(const struct card_replica *r, const struct job *j)
{
    return !replica_has_build(r) || !r->shadow_only || is_knn(j);
}

/* The same for a build that there may be soon. */
static bool may_serve(const struct cards *g, const struct resident *of, const struct job *j)
{
    const struct card_replica *r = replica_of(of);
    if (replica_has_build(r)) return replica_serves(r, j);
    return is_knn(j) || !build_is_shadow_only(g, of);
}

struct job_replicas replicas_of_job(const struct backend *b, const struct job *j)
{
    struct resident *of[JOB_OPERANDS];
    uint32_t count = operands_of(j, of);
    struct job_replicas known = {.card = choose_card(b, of, count), .ready = true};
    for (uint32_t i = 0; i < count; i++) {
        const struct card *card = card_of(of[i]);
        known.ready &= replica_is_ready(b, of[i]) && card && card->number == known.card;
        known.refused |=
            replica_was_refused(b, of[i]) || !may_serve((const struct cards *)b, of[i], j);
        known.upload_bytes += replica_upload_bytes(b, of[i]);
    }
    if (count > 1 && !build_fits_together((const struct cards *)b, of, count, known.card))
        known.refused = true;
    return known;
}

void replicas_put_together(struct backend *b, const struct job *j)
{
    struct cards *g = (struct cards *)b;
    struct resident *of[JOB_OPERANDS];
    uint32_t count = operands_of(j, of);
    if (count < 2) return;
    struct card *card = &g->cards[choose_card(b, of, count)];
    for (uint32_t i = 0; i < count; i++) {
        struct card_replica *r = replica_take(g, of[i]);
        if (r) r->beside = card;
    }
}

void replicas_miss_rows(struct backend *b, const struct job *j)
{
    struct cards *g = (struct cards *)b;
    struct resident *of = job_operand(j, 0);
    struct card_replica *r = of && !is_knn(j) ? replica_of(of) : NULL;
    if (!r || replica_serves(r, j)) return;
    r->rows_missed_ns = clock_read_ns(g->options.clock);
    build_give_up_codes(g, r);
}

/* ---- making them ready ---- */

/* Orders the uploads that bring the replica of an operand up to date. */
static enum reason make_ready(struct cards *g, struct job *j, uint32_t operand)
{
    const struct resident *of = job_operand(j, operand);
    bool forced = j->reason == REASON_FORCED;
    if (!forced && !replica_is_ready(&g->backend, of)) {
        const struct card_replica *r = replica_of(of);
        if (r && r->lost) return r->lost;
        if (r && r->held) return REASON_VRAM_PRESSURE;
        return cards_state(&g->backend) == GPU_READY ? REASON_PREDICTED_SLOWER : REASON_GPU_DOWN;
    }
    if (!may_serve(g, of, j)) return REASON_VRAM_PRESSURE;
    return replica_upload(g, j, operand, UINT64_MAX, 1);
}

bool replicas_are_there(const struct job *j)
{
    for (uint32_t i = 0; i < JOB_OPERANDS; i++) {
        const struct resident *of = job_operand(j, i);
        if (of && !replica_is(replica_of(of), j->gpu.replicas[i])) return false;
    }
    return true;
}

/* Of a replica without rows: j's order says where they are. False: there is no memory. */
static bool tell_places(struct cards *g, struct job *j)
{
    const struct resident *of = job_operand(j, 0);
    struct card_replica *r = of ? replica_of(of) : NULL;
    if (!r || !r->shadow_only) return true;
    if (!r->places || r->places->version != replica_version_of(j, 0)) {
        struct heap *heap = g->options.heap;
        row_places_give(heap, r->places);
        r->places = row_places_make(heap, j->objects[0].collection, r->space);
    }
    if (!r->places) return false;
    j->gpu.places = r->places;
    row_places_hold(r->places);
    j->gpu.order.run.host_rows = r->places->block.offset;
    j->gpu.order.run.host_segment_rows = r->places->segment_rows;
    return true;
}

enum reason replicas_make_ready(struct cards *g, struct job *j)
{
    enum reason why = REASON_NONE;
    replicas_put_together(&g->backend, j);
    for (uint32_t i = 0; i < JOB_OPERANDS && !why; i++)
        if (job_operand(j, i)) why = make_ready(g, j, i);
    if (!why && !replicas_are_there(j)) why = REASON_VRAM_PRESSURE;
    if (!why && !tell_places(g, j)) why = REASON_QUEUE_FULL;
    if (why) return why;
    struct order *o = &j->gpu.order;
    for (uint32_t i = 0; i < JOB_OPERANDS; i++) {
        bool is_read = job_operand(j, i) != NULL;
        o->reads[i].number = j->gpu.replicas[i];
        o->reads[i].version = is_read ? replica_version_of(j, i) : 0;
    }
    return REASON_NONE;
}

const char *query_name_of(const struct job *j)
{
    if (j->operation == OPERATION_COMPLETE) return "state";
    return j->operation == OPERATION_RECALL ? "cue" : "query";
}
