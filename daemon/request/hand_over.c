/* hand_over: what the pipeline does when another daemon takes this one's place, and what it tells
 * that one beside the store. */
#include "daemon/base/catalogue.h"
#include "daemon/request/cancel.h"
#include "daemon/request/jobs.h"
#include "daemon/request/tokens.h"

void pipeline_restart(struct pipeline *p)
{
    p->restarting = true;
    pipeline_drain(p);
}

/* Jobs of the daemon itself end by themselves; a drop is never stopped half-way. */
void pipeline_cut_off(struct pipeline *p)
{
    for (uint32_t i = 1; i < p->fresh_jobs; i++) {
        struct job *j = &p->jobs[i];
        if (j->state == JOB_FREE || !j->key.connection || job_drops(j)) continue;
        j->cut_off = true;
        cancel_job(p, j);
    }
}

struct told_state {
    uint64_t instance, generation;
};

void pipeline_tell(struct pipeline *p, struct catalogue_writer *w)
{
    uint64_t now_ns = clock_read_ns(p->clock);
    struct told_state told = {p->state.instance, p->state.generation};
    (void)tokens_remember(&p->tokens, now_ns); /* those that are too old are forgotten */
    catalogue_put(w, &told, sizeof told);
    tokens_tell(&p->tokens, now_ns, w);
}

enum status pipeline_adopt(struct pipeline *p, struct catalogue_reader *r, struct state_name *state,
                           struct failure *f)
{
    struct told_state told;
    catalogue_get(r, &told, sizeof told);
    if (r->bad || !told.instance || !tokens_adopt(&p->tokens, clock_read_ns(p->clock), r))
        return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED,
                           "what is told of remembered writes cannot be, or there is no memory for "
                           "it");
    p->state.instance = told.instance;
    p->state.generation = told.generation;
    *state = p->state;
    return STATUS_OK;
}
