/* Calibration in a story, as engine.c has it: trials among the requests of clients, who pause for
 * long enough now and then. */
#include "tests/support/story_calibrate.h"

#include "daemon/learn/calibrate.h"
#include "daemon/request/trials.h"

void story_calibrate_open(struct story *s, const struct vector_kernels *kernels)
{
    if (!s->settings.calibrates) return;
    struct model_keeper_options kept = {.workers = s->settings.workers,
                                        .kernels = kernels,
                                        .gpu = s->gpu,
                                        .model = pipeline_cost_model(s->pipeline),
                                        .path = "",
                                        .now_ns = s->now_ns};
    STORY_CHECK(s, !model_keeper_create(&kept, &s->keeper), "no memory for the model's keeper");
    struct calibrate_options options = {.config = &s->config,
                                        .clock = &s->clock,
                                        .store = s->store,
                                        .heap = s->heap,
                                        .gpu = s->gpu,
                                        .model = kept.model,
                                        .keeper = s->keeper,
                                        .runner = trials_runner(s->pipeline)};
    STORY_CHECK(s, !calibrate_create(&options, &s->calibrate), "no memory for calibration");
}

void story_calibrate_check(struct story *s)
{
    if (!s->calibrate) return;
    model_keeper_check(s->keeper, s->now_ns);
    calibrate_check(s->calibrate, s->now_ns);
}

void story_calibrate_stop(struct story *s)
{
    calibrate_stop(s->calibrate);
}

void story_calibrate_close(struct story *s)
{
    calibrate_destroy(s->calibrate);
    model_keeper_destroy(s->keeper);
}

uint32_t story_calibrated(const struct story *s)
{
    uint32_t halves = 0;
    for (int half = 0; s->keeper && half < HALVES; half++)
        halves += model_keeper_calibrated(s->keeper, (enum calibrated_half)half);
    return halves;
}
