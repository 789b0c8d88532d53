/* operands: what is known of all the replicas that one job reads, and that they come to one
 * card. */
#include "daemon/cards/cards_inside.h"

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

struct job_replicas replicas_of_job(const struct backend *b, const struct job *j)
{
    struct resident *of[JOB_OPERANDS];
    uint32_t count = operands_of(j, of);
    struct job_replicas known = {.card = choose_card(b, of, count), .ready = true};
    for (uint32_t i = 0; i < count; i++) {
        const struct card *card = card_of(of[i]);
        known.ready &= replica_is_ready(b, of[i]) && card && card->number == known.card;
        known.refused |= replica_was_refused(b, of[i]);
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

const char *query_name_of(const struct job *j)
{
    if (j->operation == OPERATION_COMPLETE) return "state";
    return j->operation == OPERATION_RECALL ? "cue" : "query";
}
