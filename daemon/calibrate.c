#include "daemon/calibrate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/calibrate_shapes.h"
#include "daemon/exec/gpu.h"
#include "daemon/exec/operation.h"
#include "daemon/exec/workers.h"
#include "daemon/jobs.h"
#include "daemon/store/collection.h"

enum {
    PASSES = 3, /* of which the fastest counts; the last only if there is time for it */
    ATTEMPTS_MAX = 3,
    MEMORY_SHARE = 4, /* of what is free, one part of so many at most */
};
#define PASSES_NS   UINT64_C(150000000)   /* no third pass after that */
#define LONG_NS     UINT64_C(4000000)     /* a trial this long is its own average: once will do */
#define TOO_LONG_NS UINT64_C(30000000)    /* a trial that would take so is left out */
#define LONGEST_NS  UINT64_C(1000000000)  /* and no trial after that: a machine this slow */
#define GIVE_UP_NS  UINT64_C(30000000000) /* of waiting for clients to pause */

/* A name that no client can ask for (space_name_parse). */
static const char space_name[] = ".calibration";

enum phase {
    PHASE_REST,
    PHASE_FILL,
    PHASE_MEASURE,
    PHASE_CLEAR,
};

/* What there is only while it measures. */
struct field {
    struct space *space;
    struct collection *collections[GROUNDS];
    struct heap_block memory;
    uint32_t shift;  /* of the grounds' rows */
    uint64_t filled; /* rows of the ground that is being filled or cleared */
    uint32_t ground;

    uint32_t pass, at; /* the trial that is under way or next */
    uint64_t submitted_ns, requests;
    uint64_t spent_ns, runs;
    uint64_t first_ns[GROUNDS]; /* of the first trial on each ground */
    uint32_t first_at[GROUNDS];
    struct cost_sample samples[TRIAL_SHAPES]; /* ns 0: not measured */
};

struct calibrate {
    struct pipeline *pipeline;
    struct cost_model *model;
    struct model_keeper *keeper;
    enum phase phase;
    enum half half; /* that is being measured */
    struct field *field;
    struct job *job;            /* under way */
    uint64_t begun_ns;          /* this half */
    uint64_t wanted_ns[HALVES]; /* since when it could be measured */
    uint32_t attempts[HALVES];
    bool over[HALVES]; /* given up */
    bool stopped;
    uint64_t requests; /* at the last check */
};

static const char *const half_titles[HALVES] = {"the CPU", "the GPUs"};

static void go_on(struct calibrate *c);

/* ---------------------------------------------------------------- ends */

static void free_field(struct calibrate *c)
{
    struct field *f = c->field;
    struct pipeline *p = c->pipeline;
    if (!f) return;
    for (uint32_t i = 0; i < GROUNDS; i++) {
        if (f->collections[i] && p->gpu) gpu_forget(p->gpu, collection_resident(f->collections[i]));
        collection_destroy(f->collections[i]);
    }
    heap_release(p->heap, &f->memory);
    if (f->space) store_space_release(p->store, f->space);
    free(f);
    c->field = NULL;
    c->phase = PHASE_REST;
}

/* Whatever it has comes down: rows first, by workers. */
static void clear(struct calibrate *c)
{
    if (!c->field) return;
    c->phase = PHASE_CLEAR;
    c->field->ground = 0;
    go_on(c);
}

/* This half is not tried again. */
static void resign(struct calibrate *c, enum half half, const char *why)
{
    log_info("calibration of %s: %s; requests will show", half_titles[half], why);
    c->over[half] = true;
}

static void give_up(struct calibrate *c, const char *why)
{
    resign(c, c->half, why);
    clear(c);
}

/* The GPU went away: it may be back in a moment, and then it is measured from the start. */
static void let_down(struct calibrate *c)
{
    if (c->half == HALF_CPU || c->attempts[c->half] >= ATTEMPTS_MAX)
        resign(c, c->half, "it could not be measured");
    else
        log_debug("calibration of the GPUs: interrupted, attempt %u", c->attempts[c->half]);
    clear(c);
}

/* ---------------------------------------------------------------- what is learnt */

/* Its time has an upload in it. */
static bool has_upload(const struct calibrate *c, uint32_t trial)
{
    const struct field *f = c->field;
    uint32_t ground = trials[trial].ground;
    return c->half == HALF_GPU && f->first_at[ground] == trial &&
           f->samples[trial].ns == f->first_ns[ground];
}

/* From how many trials. */
static uint32_t learn_operation(struct calibrate *c, enum operation operation)
{
    const struct field *f = c->field;
    struct cost_sample samples[TRIAL_SHAPES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < TRIAL_SHAPES; i++)
        if (trials[i].operation == operation && f->samples[i].ns && !has_upload(c, i))
            samples[count++] = f->samples[i];
    enum backend_id b = c->half == HALF_GPU ? BACKEND_GPU : BACKEND_CPU;
    cost_fit(c->model, b, operation, samples, count);
    return count;
}

/* What the first trial on a ground took longer than it did later was the upload; of the very first
 * ground also the device's awakening. */
static void learn_uploads(struct calibrate *c)
{
    const struct field *f = c->field;
    for (uint32_t i = 1; i < GROUNDS; i++) {
        uint64_t again_ns = f->samples[f->first_at[i]].ns;
        uint64_t bytes = collection_info(f->collections[i]).row_bytes;
        if (f->first_ns[i] > again_ns)
            cost_observe_upload(c->model, bytes, f->first_ns[i] - again_ns);
    }
}

static void learn(struct calibrate *c)
{
    static const enum operation measured[] = {OPERATION_KNN, OPERATION_SIMILARITY,
                                              OPERATION_SCORE_CANDIDATES,
                                              OPERATION_WEIGHTED_AVERAGE};
    uint32_t count = 0;
    for (uint32_t i = 0; i < sizeof measured / sizeof *measured; i++)
        count += learn_operation(c, measured[i]);
    if (!count) {
        resign(c, c->half, "there is no room for it");
        return;
    }
    if (c->half == HALF_GPU) learn_uploads(c);
    model_keeper_set_calibrated(c->keeper, c->half);
    log_info("calibrated %s in %" PRIu64 " ms: %" PRIu64 " runs of %" PRIu64 " us together",
             half_titles[c->half], (clock_now_ns() - c->begun_ns) / 1000000, c->field->runs,
             c->field->spent_ns / 1000);
}

/* ---------------------------------------------------------------- trials */

static bool is_wanted(const struct calibrate *c, enum half half)
{
    const struct pipeline *p = c->pipeline;
    if (c->over[half] || model_keeper_calibrated(c->keeper, half)) return false;
    return half == HALF_CPU ||
           (p->gpu && model_keeper_knows_gpus(c->keeper) && gpu_state(p->gpu) == GPU_READY &&
            strcmp(p->config->gpu_force, "cpu") != 0);
}

static void begin_half(struct calibrate *c, enum half half)
{
    struct field *f = c->field;
    c->half = half;
    c->attempts[half]++;
    f->pass = f->at = 0;
    f->spent_ns = f->runs = 0;
    memset(f->first_ns, 0, sizeof f->first_ns);
    memset(f->samples, 0, sizeof f->samples);
}

static void end_half(struct calibrate *c)
{
    learn(c);
    if (c->half == HALF_CPU && is_wanted(c, HALF_GPU)) {
        c->begun_ns = clock_now_ns();
        begin_half(c, HALF_GPU);
        go_on(c);
    } else {
        clear(c);
    }
}

static struct job *take_job(struct calibrate *c, uint32_t ground)
{
    struct job *j = job_take_own(c->pipeline, c->field->space, OPERATION_NONE);
    if (!j) return NULL;
    j->trial = true;
    j->reply_bytes_max =
        TRIAL_RESULT_BYTES; /* nobody reads it: limits.reply_body_mib is for others */
    j->collection = c->field->collections[ground];
    c->job = j;
    return j;
}

static void give_job(struct calibrate *c)
{
    struct job *j = c->job;
    c->job = NULL;
    j->collection = NULL;
    job_move(j, JOB_DONE);
    job_give(c->pipeline, j);
}

/* Nobody has asked for anything since the last look, and nothing runs. */
static bool is_quiet(const struct calibrate *c, uint64_t requests)
{
    return c->pipeline->job_count == calibrate_jobs(c) &&
           c->pipeline->stats.requests_total == requests;
}

static void next_trial(struct calibrate *c)
{
    struct field *f = c->field;
    do {
        if (++f->at < TRIAL_SHAPES) continue;
        f->at = 0;
        f->pass++;
    } while (f->pass && f->pass < PASSES && f->samples[f->at].ns > LONG_NS &&
             !has_upload(c, f->at));
}

static bool is_enough(const struct field *f)
{
    return f->pass == PASSES || f->spent_ns > LONGEST_NS ||
           (f->pass == PASSES - 1 && f->spent_ns > PASSES_NS);
}

/* By the last one of its kind before it, on the same ground: 0: nothing is known. */
static uint64_t expected_ns(const struct calibrate *c, uint32_t trial)
{
    const struct field *f = c->field;
    for (uint32_t i = trial; i-- > 0 && trials[i].operation == trials[trial].operation;) {
        const struct cost_sample *s = &f->samples[i];
        if (trials[i].ground == trials[trial].ground && s->ns && !has_upload(c, i))
            return s->ns * f->samples[trial].work.pairs / (s->work.pairs + 1);
    }
    return 0;
}

/* j's backend does well, but j is not for it: too large for the card, or of no form there. */
static bool is_unfit(const struct job *j)
{
    return j->gpu.gave_up == REASON_CHOSEN_FASTER || j->gpu.gave_up == REASON_VRAM_PRESSURE;
}

static void start_trial(struct calibrate *c)
{
    struct field *f = c->field;
    while (!is_enough(f)) {
        const struct trial *t = &trials[f->at];
        struct job *j = take_job(c, t->ground);
        if (!j) return; /* all are in use: at a later check */
        bool fits = trial_request(t, f->shift, f->memory.data, j);
        if (fits) f->samples[f->at].work = operation_work(j);
        if (!fits || expected_ns(c, f->at) > TOO_LONG_NS) {
            give_job(c);
            next_trial(c);
            continue;
        }
        f->requests = c->pipeline->stats.requests_total;
        f->submitted_ns = clock_now_ns();
        if (pipeline_trial(c->pipeline, j, c->half == HALF_GPU ? BACKEND_GPU : BACKEND_CPU)) return;
        bool unfit = is_unfit(j);
        give_job(c);
        if (!unfit) {
            let_down(c);
            return;
        }
        next_trial(c);
    }
    end_half(c);
}

/* c->job is back from its backend, took_ns after it was given there. */
static void end_trial(struct calibrate *c, uint64_t took_ns)
{
    struct field *f = c->field;
    bool alone = is_quiet(c, f->requests), unfit = is_unfit(c->job);
    bool failed = gpu_gave_up(c->job) || c->job->failure.code;
    uint32_t ground = trials[f->at].ground;
    give_job(c);
    f->runs++;
    f->spent_ns += took_ns;
    if (failed && !unfit) {
        let_down(c);
        return;
    }
    if (!alone) return; /* it says nothing, and clients go first: the same again when they pause */
    struct cost_sample *s = &f->samples[f->at];
    if (!failed && (!s->ns || took_ns < s->ns)) s->ns = took_ns;
    if (!failed && !f->first_ns[ground]) {
        f->first_ns[ground] = took_ns;
        f->first_at[ground] = f->at;
    }
    next_trial(c);
    go_on(c);
}

/* ---------------------------------------------------------------- the field */

static void run_step(struct calibrate *c, struct job *j, void (*step)(struct job *j))
{
    job_move(j, JOB_QUEUED);
    job_move(j, JOB_RUNNING);
    workers_run(c->pipeline->cpu, j, step);
}

/* The next rows, or the next ground's; when all are there: the trials. */
static void fill(struct calibrate *c)
{
    struct field *f = c->field;
    while (f->ground < GROUNDS && f->filled == ground_rows(f->ground, f->shift)) {
        f->ground++;
        f->filled = 0;
    }
    if (f->ground == GROUNDS) {
        c->phase = PHASE_MEASURE;
        begin_half(c, c->half);
        go_on(c);
        return;
    }
    uint64_t left = ground_rows(f->ground, f->shift) - f->filled;
    uint64_t count = left < CHUNK_ROWS ? left : CHUNK_ROWS;
    struct job *j = take_job(c, f->ground);
    if (!j) return;
    trial_set_fill(j, f->filled, count, f->memory.data);
    run_step(c, j, trial_fill);
    f->filled += count;
}

static void clear_next(struct calibrate *c)
{
    struct field *f = c->field;
    struct job *j = f->ground < GROUNDS && !c->stopped ? take_job(c, f->ground) : NULL;
    if (!j) {
        free_field(c);
        return;
    }
    f->ground++;
    run_step(c, j, trial_clear);
}

static void go_on(struct calibrate *c)
{
    switch (c->phase) {
    case PHASE_REST: return;
    case PHASE_FILL: fill(c); return;
    case PHASE_MEASURE: start_trial(c); return;
    case PHASE_CLEAR: clear_next(c); return;
    }
}

static enum status make_field(struct calibrate *c)
{
    struct pipeline *p = c->pipeline;
    struct heap_usage memory = heap_usage(p->heap);
    uint64_t left = memory.bytes_max - memory.bytes_used;
    uint32_t shift = 0;
    while (shift < SHIFT_MAX && trial_field_bytes(shift) > left / MEMORY_SHARE)
        shift += SHIFT_STEP;
    if (trial_field_bytes(shift) > left / MEMORY_SHARE) return STATUS_RESOURCE_EXHAUSTED;
    struct field *f = fault_here("calibrate: field") ? NULL : calloc(1, sizeof *f);
    if (!f) return STATUS_RESOURCE_EXHAUSTED;
    c->field = f;
    f->shift = shift;
    enum status st = store_space(p->store, space_name, &f->space);
    if (!st) st = heap_take(p->heap, trial_memory_bytes(), f->space->number, &f->memory);
    for (uint32_t i = 0; !st && i < GROUNDS; i++) {
        st = store_collection_create(p->store, f->space, "ground", grounds[i].dimension,
                                     METRIC_COSINE, NULL, &f->collections[i]);
        /* Nobody looks it up, and limits.collections may be one. */
        if (!st) store_collection_unlink(p->store, f->space, f->collections[i]);
    }
    return st;
}

static void begin(struct calibrate *c, enum half half)
{
    c->half = half;
    c->begun_ns = clock_now_ns();
    if (make_field(c)) {
        resign(c, half, "there is not enough memory (memory.max_mib)");
        free_field(c);
        return;
    }
    c->phase = PHASE_FILL;
    go_on(c);
}

/* ---------------------------------------------------------------- events */

void calibrate_check(struct calibrate *c, uint64_t now_ns)
{
    bool quiet = is_quiet(c, c->requests);
    c->requests = c->pipeline->stats.requests_total;
    if (!c->pipeline->config->calibrate || c->stopped || c->job) return;
    if (c->phase != PHASE_REST) {
        if (c->phase != PHASE_CLEAR && now_ns - c->begun_ns > GIVE_UP_NS)
            give_up(c, "clients leave no pause");
        else if (quiet || c->phase == PHASE_CLEAR)
            go_on(c);
        return;
    }
    for (enum half half = HALF_CPU; half < HALVES && c->phase == PHASE_REST; half++) {
        if (!is_wanted(c, half)) {
            c->wanted_ns[half] = 0;
            continue;
        }
        if (!c->wanted_ns[half]) c->wanted_ns[half] = now_ns;
        if (quiet)
            begin(c, half);
        else if (now_ns - c->wanted_ns[half] > GIVE_UP_NS)
            resign(c, half, "clients leave no pause");
    }
}

void calibrate_done(struct calibrate *c, struct job *j)
{
    uint64_t took_ns = clock_now_ns() - c->field->submitted_ns;
    bool filled_badly = c->phase == PHASE_FILL && j->failure.code;
    if (c->stopped) {
        give_job(c);
        free_field(c);
    } else if (c->phase == PHASE_MEASURE) {
        end_trial(c, took_ns);
    } else if (filled_badly) {
        give_job(c);
        give_up(c, "there is not enough memory (memory.max_mib)");
    } else {
        give_job(c);
        go_on(c);
    }
}

void calibrate_stop(struct calibrate *c)
{
    c->stopped = true;
    if (c->job)
        atomic_store(&c->job->cancelled, true);
    else
        free_field(c);
}

uint32_t calibrate_jobs(const struct calibrate *c)
{
    return c->job ? 1 : 0;
}

/* ---------------------------------------------------------------- life */

enum status calibrate_create(struct pipeline *p, struct cost_model *model,
                             struct model_keeper *keeper, struct calibrate **out)
{
    struct calibrate *c = fault_here("calibrate: allocate") ? NULL : calloc(1, sizeof *c);
    if (!c) return STATUS_RESOURCE_EXHAUSTED;
    c->pipeline = p;
    c->model = model;
    c->keeper = keeper;
    *out = c;
    return STATUS_OK;
}

void calibrate_destroy(struct calibrate *c)
{
    if (!c) return;
    free_field(c);
    free(c);
}
