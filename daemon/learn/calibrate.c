#include "daemon/learn/calibrate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/cards/cards.h"
#include "daemon/learn/calibrate_field.h"
#include "daemon/learn/calibrate_samples.h"
#include "daemon/ops/operation.h"

enum {
    PASSES = 3, /* over all trials, of which the fastest counts; the last if there is time for it */
    ATTEMPTS_MAX = 3,
};
#define PASSES_NS   UINT64_C(150000000)  /* the last pass is left out after this time */
#define LONG_NS     UINT64_C(4000000)    /* a trial this long is measured only once */
#define TOO_LONG_NS UINT64_C(30000000)   /* a trial that is expected to last longer is left out */
#define LONGEST_NS  UINT64_C(1000000000) /* all trials that are left are left out after this time */
#define GIVE_UP_NS  UINT64_C(30000000000) /* the longest wait for clients to pause */

enum calibrate_phase {
    PHASE_REST,
    PHASE_FILL,
    PHASE_MEASURE,
    PHASE_CLEAR,
};

/* State that exists only during a measurement. */
struct measuring {
    struct field field;
    struct samples samples;
    uint32_t pass, at; /* the trial that is under way or next */
    uint64_t submitted_ns, requests;
    uint64_t spent_ns, runs;
};

struct calibrate {
    struct calibrate_options options;
    enum calibrate_phase phase;
    enum calibrated_half half; /* the one that is being measured */
    struct measuring *measuring;
    struct job *job;            /* under way */
    uint64_t begun_ns;          /* when this half was begun */
    uint64_t wanted_ns[HALVES]; /* since when it could be measured */
    uint32_t attempts[HALVES];
    bool over[HALVES]; /* given up */
    bool stopped;
    uint64_t requests; /* at the last check */
};

static const char *const half_titles[HALVES] = {"the CPU", "the GPUs"};

static void go_on(struct calibrate *c);
/* A job that a backend or a worker had is done. */
static void calibrate_on_done(void *owner, struct job *j);

/* ---------------------------------------------------------------- ends */

static void leave_field(struct calibrate *c)
{
    if (!c->measuring) return;
    field_finish(&c->measuring->field);
    free(c->measuring);
    c->measuring = NULL;
    c->phase = PHASE_REST;
}

/* Frees all grounds: their rows are dropped first, by workers. */
static void clear(struct calibrate *c)
{
    if (!c->measuring) return;
    c->phase = PHASE_CLEAR;
    c->measuring->field.ground = 0;
    go_on(c);
}

/* Gives up on this half for the life of the daemon. */
static void resign(struct calibrate *c, enum calibrated_half half, const char *why)
{
    log_info("calibration of %s: %s; requests will show", half_titles[half], why);
    c->over[half] = true;
}

static void give_up(struct calibrate *c, const char *why)
{
    resign(c, c->half, why);
    clear(c);
}

/* The GPU process ended. It may be back in a moment; then it is measured from the start. */
static void let_down(struct calibrate *c)
{
    if (c->half == HALF_CPU || c->attempts[c->half] >= ATTEMPTS_MAX)
        resign(c, c->half, "it could not be measured");
    else
        log_debug("calibration of the GPUs: interrupted, attempt %u", c->attempts[c->half]);
    clear(c);
}

static void learn(struct calibrate *c)
{
    const struct measuring *m = c->measuring;
    uint64_t bytes[GROUNDS];
    field_bytes(&m->field, bytes);
    if (!samples_learn(&m->samples, bytes, c->options.model)) {
        resign(c, c->half, "there is no room for it");
        return;
    }
    model_keeper_set_calibrated(c->options.keeper, c->half);
    log_info("calibrated %s in %" PRIu64 " ms: %" PRIu64 " runs of %" PRIu64 " us together",
             half_titles[c->half], (clock_read_ns(c->options.clock) - c->begun_ns) / 1000000,
             m->runs, m->spent_ns / 1000);
}

/* ---------------------------------------------------------------- trials */

static bool is_wanted(const struct calibrate *c, enum calibrated_half half)
{
    const struct calibrate_options *o = &c->options;
    if (c->over[half] || model_keeper_calibrated(o->keeper, half)) return false;
    return half == HALF_CPU ||
           (o->gpu && model_keeper_knows_gpus(o->keeper) && cards_state(o->gpu) == GPU_READY &&
            strcmp(o->config->gpu_force, "cpu") != 0);
}

static void begin_half(struct calibrate *c, enum calibrated_half half)
{
    struct measuring *m = c->measuring;
    c->half = half;
    c->attempts[half]++;
    m->pass = m->at = 0;
    m->spent_ns = m->runs = 0;
    samples_begin(&m->samples, half);
}

static void end_half(struct calibrate *c)
{
    learn(c);
    if (c->half == HALF_CPU && is_wanted(c, HALF_GPU)) {
        c->begun_ns = clock_read_ns(c->options.clock);
        begin_half(c, HALF_GPU);
        go_on(c);
    } else {
        clear(c);
    }
}

static struct job *take_job(struct calibrate *c, uint32_t ground)
{
    const struct trial_runner *runner = &c->options.runner;
    const struct field *f = &c->measuring->field;
    struct job *j = runner->take(runner->owner, f->space, (struct job_owner){calibrate_on_done, c});
    if (!j) return NULL;
    j->reply_bytes_max =
        TRIAL_RESULT_BYTES; /* nobody reads it, so limits.reply_body_mib does not hold */
    field_lend(f, ground, j);
    c->job = j;
    return j;
}

static void give_job(struct calibrate *c)
{
    struct job *j = c->job;
    c->job = NULL;
    j->resident = NULL;
    j->collection = NULL;
    j->graph = NULL;
    c->options.runner.give(c->options.runner.owner, j);
}

static uint64_t count_requests(const struct calibrate *c)
{
    return c->options.runner.requests(c->options.runner.owner);
}

/* True if no client has asked for anything since `requests` was read, and nothing runs. */
static bool is_quiet(const struct calibrate *c, uint64_t requests)
{
    return c->options.runner.is_idle(c->options.runner.owner) && count_requests(c) == requests;
}

static void next_trial(struct measuring *m)
{
    do {
        if (++m->at < TRIAL_SHAPES) continue;
        m->at = 0;
        m->pass++;
    } while (m->pass && m->pass < PASSES && m->samples.of[m->at].ns > LONG_NS &&
             !samples_have_upload(&m->samples, m->at));
}

static bool is_enough(const struct measuring *m)
{
    return m->pass == PASSES || m->spent_ns > LONGEST_NS ||
           (m->pass == PASSES - 1 && m->spent_ns > PASSES_NS);
}

/* True if the backend works but cannot run j: it is too large for the card, or not made for it. */
static bool is_unfit(const struct job *j)
{
    return j->gpu.gave_up == REASON_CHOSEN_FASTER || j->gpu.gave_up == REASON_VRAM_PRESSURE;
}

/* Makes the trial's request in j. False: the ground is too small for it, or it would take too
 * long. */
static bool set_up(struct measuring *m, struct job *j)
{
    const struct field *f = &m->field;
    if (!trial_request(&trials[m->at], f->shift, f->memory.data, j)) return false;
    j->ops = operation_find(j->operation);
    struct work w = operation_work(j);
    samples_take_work(&m->samples, m->at, &w);
    return samples_expect_ns(&m->samples, m->at) <= TOO_LONG_NS;
}

static void start_trial(struct calibrate *c)
{
    const struct trial_runner *runner = &c->options.runner;
    struct measuring *m = c->measuring;
    while (!is_enough(m)) {
        struct job *j = take_job(c, trials[m->at].ground);
        if (!j) return; /* all jobs are in use; a later check goes on */
        if (!set_up(m, j)) {
            give_job(c);
            next_trial(m);
            continue;
        }
        m->requests = count_requests(c);
        m->submitted_ns = clock_read_ns(c->options.clock);
        if (runner->run(runner->owner, j, c->half == HALF_GPU ? BACKEND_GPU : BACKEND_CPU)) return;
        bool unfit = is_unfit(j);
        give_job(c);
        if (!unfit) {
            let_down(c);
            return;
        }
        next_trial(m);
    }
    end_half(c);
}

/* The backend is done with c->job, took_ns after it was given the job. */
static void end_trial(struct calibrate *c, uint64_t took_ns)
{
    struct measuring *m = c->measuring;
    bool alone = is_quiet(c, m->requests), unfit = is_unfit(c->job);
    bool failed = cards_gave_up(c->job) || c->job->failure.code;
    struct job_screen screen = c->job->screen;
    give_job(c);
    m->runs++;
    m->spent_ns += took_ns;
    if (failed && !unfit) {
        let_down(c);
        return;
    }
    if (!alone) return; /* clients disturbed it: the same trial is run again when they pause */
    if (!failed) samples_take(&m->samples, m->at, took_ns, &screen);
    next_trial(m);
    go_on(c);
}

/* ---------------------------------------------------------------- the field */

static void run_step(struct calibrate *c, struct job *j, void (*step)(struct job *j))
{
    c->options.runner.run_step(c->options.runner.owner, j, step);
}

/* Adds the next rows to the grounds, or begins the trials if all rows are there. */
static void fill(struct calibrate *c)
{
    struct field *f = &c->measuring->field;
    if (!field_wants_rows(f)) {
        c->phase = PHASE_MEASURE;
        begin_half(c, c->half);
        go_on(c);
        return;
    }
    struct job *j = take_job(c, f->ground);
    if (!j) return;
    field_next_rows(f, j);
    run_step(c, j, trial_fill);
}

static void clear_next(struct calibrate *c)
{
    struct field *f = &c->measuring->field;
    struct job *j = f->ground < GROUNDS && !c->stopped ? take_job(c, f->ground) : NULL;
    if (!j) {
        leave_field(c);
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

static void begin(struct calibrate *c, enum calibrated_half half)
{
    c->half = half;
    c->begun_ns = clock_read_ns(c->options.clock);
    c->measuring = fault_here("calibrate: field") ? NULL : calloc(1, sizeof *c->measuring);
    if (!c->measuring ||
        field_make(&c->measuring->field, c->options.store, c->options.heap, c->options.gpu)) {
        resign(c, half, "there is not enough memory (memory.max_mib)");
        leave_field(c);
        return;
    }
    c->phase = PHASE_FILL;
    go_on(c);
}

/* ---------------------------------------------------------------- events */

void calibrate_check(struct calibrate *c, uint64_t now_ns)
{
    bool quiet = is_quiet(c, c->requests);
    c->requests = count_requests(c);
    if (!c->options.config->calibrate || c->stopped || c->job) return;
    if (c->phase != PHASE_REST) {
        if (c->phase != PHASE_CLEAR && now_ns - c->begun_ns > GIVE_UP_NS)
            give_up(c, "clients leave no pause");
        else if (quiet || c->phase == PHASE_CLEAR)
            go_on(c);
        return;
    }
    for (enum calibrated_half half = HALF_CPU; half < HALVES && c->phase == PHASE_REST; half++) {
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

static void calibrate_on_done(void *owner, struct job *j)
{
    struct calibrate *c = owner;
    uint64_t took_ns = clock_read_ns(c->options.clock) - c->measuring->submitted_ns;
    bool filled_badly = c->phase == PHASE_FILL && j->failure.code;
    if (c->stopped) {
        give_job(c);
        leave_field(c);
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
    if (!c) return;
    c->stopped = true;
    if (c->job)
        atomic_store(&c->job->cancelled, true);
    else
        leave_field(c);
}

/* ---------------------------------------------------------------- life */

enum status calibrate_create(const struct calibrate_options *options, struct calibrate **out)
{
    struct calibrate *c = fault_here("calibrate: allocate") ? NULL : calloc(1, sizeof *c);
    if (!c) return STATUS_RESOURCE_EXHAUSTED;
    c->options = *options;
    *out = c;
    return STATUS_OK;
}

void calibrate_destroy(struct calibrate *c)
{
    if (!c) return;
    leave_field(c);
    free(c);
}
