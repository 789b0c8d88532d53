#include "daemon/learn/calibrate_samples.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/operations.h"
#include "daemon/sched/work.h"

static enum backend_id backend_of(const struct samples *s)
{
    return s->half == HALF_GPU ? BACKEND_GPU : BACKEND_CPU;
}

void samples_begin(struct samples *s, enum calibrated_half half)
{
    memset(s, 0, sizeof *s);
    s->half = half;
}

void samples_take_work(struct samples *s, uint32_t trial, const struct work *w)
{
    if (!s->of[trial].ns)
        s->of[trial].work = *w; /* of what it read in int8 the fastest run tells */
}

void samples_take(struct samples *s, uint32_t trial, uint64_t took_ns,
                  const struct job_screen *screen)
{
    struct cost_sample *sample = &s->of[trial];
    uint32_t ground = trials[trial].ground;
    if (!sample->ns || took_ns < sample->ns) {
        sample->ns = took_ns;
        work_note_screen(&sample->work, backend_of(s), screen);
    }
    if (s->first_ns[ground]) return;
    s->first_ns[ground] = took_ns;
    s->first_at[ground] = trial;
}

bool samples_have_upload(const struct samples *s, uint32_t trial)
{
    uint32_t ground = trials[trial].ground;
    return s->half == HALF_GPU && s->first_at[ground] == trial &&
           s->of[trial].ns == s->first_ns[ground];
}

uint64_t samples_expect_ns(const struct samples *s, uint32_t trial)
{
    for (uint32_t i = trial; i-- > 0 && trials[i].operation == trials[trial].operation;) {
        const struct cost_sample *before = &s->of[i];
        if (trials[i].ground == trials[trial].ground && before->ns && !samples_have_upload(s, i))
            return before->ns * s->of[trial].work.pairs / (before->work.pairs + 1);
    }
    return 0;
}

static void tell(const struct samples *s, uint32_t trial, const char *left_out)
{
    const struct work *w = &s->of[trial].work;
    enum backend_id b = backend_of(s);
    log_debug("calibration of %s: %s, %" PRIu64 " rows of %" PRIu32 ", queries %" PRIu64
              ", pairs %" PRIu64 ", in and out %" PRIu64 " + %" PRIu64
              " bytes, in int8 %.2g: %" PRIu64 " ns%s",
              b == BACKEND_GPU ? "the GPUs" : "the CPU", operation_row(w->operation)->text, w->rows,
              w->stride, w->queries, w->pairs, w->bytes_in, w->bytes_out,
              (double)work_screen_on(w, b).asked, s->of[trial].ns, left_out);
}

/* Fits one operation; returns the number of trials that it used. */
static uint32_t learn_operation(const struct samples *s, enum operation operation,
                                struct cost_model *model)
{
    struct cost_sample samples[TRIAL_SHAPES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < TRIAL_SHAPES; i++)
        if (trials[i].operation == operation && s->of[i].ns) {
            bool uploads = samples_have_upload(s, i);
            if (!uploads) samples[count++] = s->of[i];
            tell(s, i, uploads ? ", with an upload: left out" : "");
        }
    cost_fit(model, backend_of(s), operation, samples, count);
    return count;
}

/* The first trial on a ground took longer than the later ones because of the upload; the very
 * first one also because the device's code was loaded. */
static void learn_uploads(const struct samples *s, const uint64_t bytes[GROUNDS],
                          struct cost_model *model)
{
    for (uint32_t i = 1; i < GROUNDS; i++) {
        uint64_t again_ns = s->of[s->first_at[i]].ns;
        if (s->first_ns[i] > again_ns)
            cost_observe_upload(model, bytes[i], s->first_ns[i] - again_ns);
    }
}

uint32_t samples_learn(const struct samples *s, const uint64_t bytes[GROUNDS],
                       struct cost_model *model)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TRIAL_SHAPES; i++)
        if (i == 0 || trials[i].operation != trials[i - 1].operation)
            count += learn_operation(s, trials[i].operation, model);
    if (count && s->half == HALF_GPU) learn_uploads(s, bytes, model);
    return count;
}
