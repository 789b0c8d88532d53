/* calibrate_samples: the times that the trials of one half took, and what the model learns from
 * them.
 * Owner:  calibrate.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_LEARN_CALIBRATE_SAMPLES_H
#define ENGRAM_LEARN_CALIBRATE_SAMPLES_H

#include "daemon/learn/calibrate_shapes.h"
#include "daemon/learn/model_keeper.h"
#include "daemon/sched/cost.h"

struct samples {
    enum calibrated_half half;
    struct cost_sample of[TRIAL_SHAPES]; /* the fastest run of each; ns 0: not measured */
    uint64_t first_ns[GROUNDS];          /* of the first trial on each ground */
    uint32_t first_at[GROUNDS];
};

void samples_begin(struct samples *s, enum calibrated_half half);
/* Notes the work of a trial, and then a time that it took, and what of its rows it read in int8. */
void samples_take_work(struct samples *s, uint32_t trial, const struct work *w);
void samples_take(struct samples *s, uint32_t trial, uint64_t took_ns,
                  const struct job_screen *screen);

/* True if the trial's time includes an upload. */
bool samples_have_upload(const struct samples *s, uint32_t trial);
/* Predicts a trial's time from the last one of its kind on the same ground; 0: there is none. */
uint64_t samples_expect_ns(const struct samples *s, uint32_t trial);

/* Fits the model to what was measured; bytes: of each ground's rows or arrays. Returns how many
 * trials were used. */
uint32_t samples_learn(const struct samples *s, const uint64_t bytes[GROUNDS],
                       struct cost_model *model);

#endif
