/* spread: activation that spreads from seed sets. Several sets are divided into parts, each run by
 * one worker; a single set is run by all workers, step by step. */
#include "daemon/ops/spread_inside.h"

#include "daemon/base/clock.h"
#include "daemon/base/yield.h"
#include "daemon/ops/filter.h"

enum { WRITE_PART = 16 << 10, SETS_AT_ONCE = 4096, ENTRY_BYTES_MIN = 21 /* of a reply */ };

static void note_starved(struct spread_job *w, struct spread_set *s, enum status st)
{
    s->undone = true;
    s->kept = 0;
    atomic_store(&w->refused, (int)st);
}

/* ---- on every backend ---- */

enum status spread_begin(struct job *j, uint64_t more)
{
    struct spread_job w = {0};
    uint64_t bytes = 0;
    layout_add(&bytes, sizeof w);
    spread_ask_layout(j, &w.ask, &bytes);
    uint64_t sets = layout_add(&bytes, w.ask.set_count * sizeof *w.sets);
    uint64_t arenas = layout_add(&bytes, 2 * j->worker_count * sizeof *w.keep);
    uint64_t own = layout_add(&bytes, more);
    enum status st = operation_take_own(j, bytes);
    if (st) return operation_drop_all(j);
    operation_note_objects(j);
    operation_note_graph(j);
    spread_ask_place(j, &w.ask);
    w.sets = scratch_at(j, sets);
    w.keep = scratch_at(j, arenas);
    w.work = w.keep + j->worker_count;
    w.more = scratch_at(j, own);
    w.edges_expected = j->ticket.work.pairs;
    *spread_of(j) = w;
    return STATUS_OK;
}

static void prepare_answers(struct job *j, struct spread_job *w)
{
    yield_clear(w->sets, w->ask.set_count * sizeof *w->sets);
    for (uint32_t i = 0; i < 2 * j->worker_count; i++)
        arena_init(&w->keep[i], j->heap, operation_owner(j));
    pthread_mutex_init(&w->lock, NULL);
    w->prepared = true;
}

enum status spread_prepare(struct job *j)
{
    struct spread_job *w = spread_of(j);
    enum status st = spread_ask_prepare(j, &w->ask);
    if (!st) prepare_answers(j, w);
    return st;
}

enum status spread_begin_undone(struct job *j, uint64_t sets)
{
    struct spread_job w = {
        .ask = {.graph = graph_view(j->graph),
                .question = {.hops = j->request.spread.hops, .paths = j->request.spread.paths},
                .set_count = sets}};
    uint64_t bytes = 0;
    layout_add(&bytes, sizeof w);
    uint64_t sets_at = layout_add(&bytes, sets * sizeof *w.sets);
    uint64_t arenas = layout_add(&bytes, 2 * j->worker_count * sizeof *w.keep);
    enum status st = operation_take_own(j, bytes);
    if (st) return st;
    w.sets = scratch_at(j, sets_at);
    w.keep = scratch_at(j, arenas);
    w.work = w.keep + j->worker_count;
    *spread_of(j) = w;
    prepare_answers(j, spread_of(j));
    for (uint64_t i = 0; i < sets; i++)
        note_starved(spread_of(j), &spread_of(j)->sets[i], STATUS_RESOURCE_EXHAUSTED);
    return STATUS_OK;
}

static void clear_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct spread_job *w = spread_of(j);
    spread_run_part(&w->run, part);
    atomic_fetch_add_explicit(&w->cleared, 1, memory_order_relaxed);
}

/* Leaves parts in which all workers clear the run's workspace. False: it is clear, and given back.
 * Of a job that was cancelled no parts run, so that what is left of it is cleared here. */
static bool clears(struct job *j)
{
    struct spread_job *w = spread_of(j);
    if (!w->run.workspace.memory) return false;
    bool whole = atomic_load(&w->cleared) == w->round_parts;
    if (whole && !j->failure.code && !is_cancelled(j)) {
        spread_run_close(&w->run);
        w->round_parts = spread_run_next(&w->run);
        atomic_store(&w->cleared, 0);
        j->parts = (struct job_parts){clear_part, w->round_parts};
        if (w->round_parts) return true;
    }
    spread_run_end(&w->run);
    graph_give_workspace(j->graph, &w->run.workspace);
    return false;
}

void spread_end(struct job *j)
{
    struct spread_job *w = spread_of(j);
    j->step = spread_end;
    if (clears(j)) return;
    for (uint32_t i = 0; w->prepared && i < 2 * j->worker_count; i++)
        arena_finish(&w->keep[i]);
    if (w->prepared) pthread_mutex_destroy(&w->lock);
    w->prepared = false;
    if (j->failure.code || is_cancelled(j)) operation_drop_result(j);
    j->step = w->after;
}

static void write_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct spread_job *w = spread_of(j);
    uint64_t first = (uint64_t)part * WRITE_PART;
    spread_answer_write(j, &w->ask, w->sets, first,
                        smaller(first + WRITE_PART, spread_answer_entries(j)));
}

void spread_reply(struct job *j)
{
    struct spread_job *w = spread_of(j);
    j->step = spread_end;
    if (spread_answer_place(j, &w->ask, w->sets)) return;
    uint64_t parts = pieces_of(spread_answer_entries(j), WRITE_PART);
    j->parts = (struct job_parts){write_part, (uint32_t)parts};
}

/* ---- memory ---- */

static void *take_alone(void *owner, uint64_t bytes)
{
    return arena_take(owner, bytes);
}

static void *take_together(void *owner, uint64_t bytes)
{
    struct spread_job *w = owner;
    pthread_mutex_lock(&w->lock);
    void *memory = arena_take(w->work, bytes);
    pthread_mutex_unlock(&w->lock);
    return memory;
}

/* ---- a set ---- */

static void give_way(void *owner)
{
    yield_check();
}

static struct spread_run run_of(struct job *j, const struct spread_question *q)
{
    const struct clock *clock = j->clock ? j->clock : &clock_real;
    return (struct spread_run){
        .graph = &spread_of(j)->ask.graph,
        .question = q,
        .kernels = spread_kernels_for(j->kernels->name),
        .now_ns = clock->now_ns,
        .now_owner = clock->owner,
        .cancelled = &j->cancelled,
        .give_way = give_way,
    };
}

static bool answer_set(struct spread_job *w, const struct spread_run *r, uint64_t set, bool copy,
                       uint32_t worker)
{
    const struct spread_answerer *answerer = &w->answerer;
    struct arena *keep = &w->keep[worker], *work = &w->work[worker];
    if (answerer->set)
        return answerer->set(answerer->owner, &w->ask, set, r->records, r->record_count, keep, work,
                             &w->sets[set]);
    return spread_answer_set(&w->ask, r->records, r->record_count, copy, keep, work, &w->sets[set]);
}

/* Turns the run's records into the set's answer. copy: the records will be gone with the run. */
static void take_records(struct spread_job *w, const struct spread_run *r, uint64_t set, bool copy,
                         uint32_t worker)
{
    struct spread_set *s = &w->sets[set];
    struct arena *keep = &w->keep[worker], *work = &w->work[worker];
    s->undone = false;
    s->cycles = r->cycles;
    s->truncated = r->truncated;
    s->hops = r->hops_done;
    if (r->no_memory || !answer_set(w, r, set, copy, worker))
        note_starved(w, s, arena_refusal(work, keep));
    atomic_fetch_add_explicit(&w->entries, s->kept, memory_order_relaxed);
}

/* True if the reply is too large already, so that the remaining sets need not run. */
static bool is_too_large(const struct job *j)
{
    uint64_t entries = atomic_load_explicit(&spread_of(j)->entries, memory_order_relaxed);
    return entries > j->reply_bytes_max / ENTRY_BYTES_MIN;
}

/* Runs all steps on this thread, until the end or cancellation. */
static void run_alone(const struct job *j, struct spread_run *r)
{
    spread_run_begin(r);
    for (uint32_t parts; (parts = spread_run_next(r));)
        for (uint32_t part = 0; part < parts && !is_cancelled(j); part++) {
            yield_check();
            spread_run_part(r, part);
        }
}

static void run_set(struct job *j, struct spread_workspace space, uint64_t set, uint32_t worker)
{
    struct spread_job *w = spread_of(j);
    if (is_too_large(j)) return;
    struct spread_question q = spread_ask_set(&w->ask, set);
    struct spread_run r = run_of(j, &q);
    r.workspace = space;
    r.memory = (struct spread_memory){take_alone, &w->work[worker]};
    r.alone = true;
    if (j->on_trial) r.edges_max = spread_brief_edges(j) - w->edges;
    run_alone(j, &r);
    if (j->on_trial) {
        w->edges += r.edges_followed;
        j->outgrew = r.outgrown || w->edges >= spread_brief_edges(j);
    }
    if (!is_cancelled(j) && !j->outgrew) take_records(w, &r, set, true, worker);
    spread_run_end(&r);
    arena_clear(&w->work[worker]);
}

/* Runs sets [first, end), all of them or only those undone, in one workspace. */
static void run_sets(struct job *j, uint64_t first, uint64_t end, bool all, uint32_t worker)
{
    struct spread_job *w = spread_of(j);
    struct spread_workspace space;
    enum status st = graph_take_workspace(j->graph, &space);
    for (uint64_t i = first; i < end && !is_cancelled(j) && !j->outgrew; i++) {
        if (!all && !w->sets[i].undone) continue;
        yield_check();
        if (st)
            note_starved(w, &w->sets[i], st);
        else
            run_set(j, space, i, worker);
    }
    if (!st) graph_give_workspace(j->graph, &space);
}

/* Runs part_sets sets that no other part has taken; with `lanes`, it repeats this in one
 * workspace. */
static void set_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct spread_job *w = spread_of(j);
    uint64_t sets = w->ask.set_count, first;
    do {
        first = atomic_fetch_add_explicit(&w->next_set, w->part_sets, memory_order_relaxed);
        if (first < sets)
            run_sets(j, first, smaller(first + w->part_sets, sets), !w->undone_alone, worker);
    } while (w->lanes && first + w->part_sets < sets && !is_cancelled(j));
}

/* A part has as many sets as make waking a worker worth it: some 20 us. A set without edges takes
 * as long as SET_EDGES edges. If workspaces are so large that fewer are kept than there are
 * workers, there are only as many parts as are kept, or as justify new workspaces; each part then
 * takes sets as long as there are some. */
static struct job_parts parts_of_sets(struct job *j)
{
    enum { PART_EDGES = 1 << 10, SET_EDGES = 64, NEW_SPACE_EDGES = 1 << 20 };
    struct spread_job *w = spread_of(j);
    uint64_t sets = w->ask.set_count, pairs = w->edges_expected;
    uint64_t each = pairs / sets + SET_EDGES, lanes = graph_workspaces_kept(j->graph);
    w->part_sets = each >= PART_EDGES ? 1 : smaller(sets, PART_EDGES / each);
    uint64_t parts = pieces_of(sets, w->part_sets);
    if (lanes < pairs / NEW_SPACE_EDGES) lanes = pairs / NEW_SPACE_EDGES;
    w->lanes = lanes < j->worker_count;
    return (struct job_parts){set_part, (uint32_t)(w->lanes ? smaller(lanes, parts) : parts)};
}

void spread_run_undone(struct job *j)
{
    struct spread_job *w = spread_of(j);
    w->undone_alone = true;
    j->parts = parts_of_sets(j);
}

/* Runs the sets one after the other that found no memory when run together. */
static void undone_part(struct job *j, uint32_t part, uint32_t worker)
{
    run_sets(j, 0, spread_of(j)->ask.set_count, false, worker);
}

bool spread_any_undone(const struct spread_job *w)
{
    for (uint64_t i = 0; i < w->ask.set_count; i++) {
        if (i % SETS_AT_ONCE == 0) yield_check();
        if (w->sets[i].undone) return true;
    }
    return false;
}

/* ---- one set, by all workers ---- */

static void round_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct spread_job *w = spread_of(j);
    if (part < w->round_parts) spread_run_part(&w->run, part);
}

static void no_part(struct job *j, uint32_t part, uint32_t worker) {}

/* There is no workspace, and the answer can do without: the set is not run. */
static enum status go_without(struct job *j, enum status why)
{
    struct spread_job *w = spread_of(j);
    note_starved(w, &w->sets[0], why);
    w->again = true;
    j->plan.run_part = no_part;
    j->plan.parts = 1;
    return STATUS_OK;
}

static enum status begin_rounds(struct job *j)
{
    struct spread_job *w = spread_of(j);
    struct spread_workspace space;
    enum status st = graph_take_workspace(j->graph, &space);
    if (st && w->answerer.reply) return go_without(j, st);
    if (st) return operation_refuse_memory(j, st, "a spread's workspace");
    w->rounds = true;
    w->ask.question = spread_ask_set(&w->ask, 0);
    w->run = run_of(j, &w->ask.question);
    w->run.workspace = space;
    w->run.memory = (struct spread_memory){take_together, w};
    spread_run_begin(&w->run);
    w->round_parts = spread_run_next(&w->run);
    j->plan.run_part = round_part;
    j->plan.parts = w->round_parts ? w->round_parts : 1;
    return STATUS_OK;
}

/* Prepares the next round. False: there is none, and the records are taken. */
static bool next_round(struct job *j)
{
    struct spread_job *w = spread_of(j);
    if (w->round_parts) w->round_parts = spread_run_next(&w->run);
    if (w->round_parts)
        j->parts = (struct job_parts){round_part, w->round_parts};
    else
        take_records(w, &w->run, 0, false, 0);
    return w->round_parts != 0;
}

/* ---- on trial ---- */

/* Trials of spreads that look alike share their luck. */
static uint32_t trial_of(const struct job *j)
{
    const struct job_spread *s = &j->request.spread;
    uint32_t hops = s->hops < GRAPH_TRIALS / 2 ? s->hops : GRAPH_TRIALS / 2 - 1;
    return (s->mode == SPREAD_ENGRAM ? GRAPH_TRIALS / 2 : 0) + hops;
}

static bool spread_may_be_brief(const struct job *j)
{
    enum { SETS_MAX = 16, SEEDS_MAX = 256 };
    const struct work *w = &j->ticket.work;
    return w->queries <= SETS_MAX && j->request.ids.rows <= SEEDS_MAX && !filter_is_given(j) &&
           graph_wants_trial(j->graph, trial_of(j));
}

/* The scheduler learns from what was done, not from what was expected. */
static void note_work(struct job *j, const struct spread_job *w)
{
    struct ticket *t = &j->ticket;
    t->whole.pairs = t->work.pairs = w->edges + 1;
    t->whole.rows = t->work.rows = atomic_load(&w->entries);
    t->whole.unbounded = t->work.unbounded = false;
}

/* ---- on the CPU ---- */

/* Follows the parts: continues with the next round, or ends the run. */
static void spread_step(struct job *j)
{
    struct spread_job *w = spread_of(j);
    j->step = spread_end;
    if (j->on_trial) graph_note_trial(j->graph, trial_of(j), j->outgrew);
    if (j->failure.code || is_cancelled(j) || j->outgrew) return;
    if (j->on_trial) note_work(j, w);
    j->step = spread_step;
    if (w->rounds && next_round(j)) return;
    bool last = w->rounds || w->again, whole = !spread_any_undone(w) || is_too_large(j);
    if (whole || (last && w->answerer.reply)) {
        (w->answerer.reply ? w->answerer.reply : spread_reply)(j);
        return;
    }
    if (last) {
        j->step = spread_end;
        operation_refuse_memory(j, (enum status)atomic_load(&w->refused), "a spread");
        return;
    }
    w->again = true;
    j->parts = (struct job_parts){undone_part, 1};
}

static void spread_finish(struct job *j)
{
    spread_of(j)->after = j->step;
    spread_step(j);
}

/* True if one worker is sooner through it than all would be, which wait for each other at the end
 * of each step. */
static bool is_short(const struct job *j)
{
    enum { FEW_EDGES = 1 << 14 };
    const struct spread_job *w = spread_of(j);
    if (w->answerer.reply) return w->edges_expected <= FEW_EDGES;
    return work_is_brief(&j->ticket.work);
}

static enum status spread_cpu_prepare(struct job *j)
{
    struct spread_job *w = spread_of(j);
    enum status st = spread_prepare(j);
    if (st) return st;
    if (w->ask.set_count == 1 && j->worker_count > 1 && !j->on_trial && !is_short(j))
        return begin_rounds(j);
    struct job_parts sets = parts_of_sets(j);
    j->plan.run_part = sets.run;
    j->plan.parts = sets.count;
    return STATUS_OK;
}

static enum status spread_plan(struct job *j)
{
    enum status st = spread_begin(j, 0);
    if (st) return st;
    j->plan.prepare = spread_cpu_prepare;
    j->plan.run_part = set_part;
    j->plan.finish = spread_finish;
    j->plan.parts = 1;
    return STATUS_OK;
}

const struct operation_ops operation_spread = {
    .check = spread_check,
    .work = spread_work,
    .may_be_brief = spread_may_be_brief,
    .plan = spread_plan,
    .gpu_plan = spread_gpu_plan,
    .gpu_pairs = spread_gpu_pairs,
};
