#include "daemon/request/saves.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/persist/save.h"
#include "daemon/request/jobs.h"
#include "daemon/request/journals.h"
#include "daemon/request/line.h"
#include "daemon/request/reply.h"
#include "daemon/request/save_pins.h"
#include "daemon/request/saves_count.h"
#include "daemon/request/saved_tokens.h"
#include "daemon/request/turnstiles.h"
#include "daemon/store/restore.h"
#include "daemon/wire/encode.h"

/* Attempts before a save is refused for want of memory; and how long one waits until everything can
 * be pinned: attractors whose weights are being made cannot. */
enum { ATTEMPTS_MAX = 4, RETRY_SAVE_MS = 1000 };
#define CALM_NS        UINT64_C(10000000000)
#define AGAIN_NS       UINT64_C(1000000000)
#define CALM_GAP_NS    UINT64_C(1000000)
#define SECOND_NS      UINT64_C(1000000000)
#define JOURNAL_GAP_NS UINT64_C(2000000000) /* between two that the journal wants */
#define ROOM_SHARE     64 /* of the memory bound: where less is left, a save keeps nothing */

/* ---------------------------------------------------------------- who waits */

static bool is_plain(const struct job *j)
{
    return !j->request.to.rows && !j->request.dry_run;
}

static struct job *take_waiting(struct queue *from, bool plain)
{
    for (struct job *j = from->head; j; j = j->next)
        if (!plain || is_plain(j)) {
            queue_remove(from, j);
            return j;
        }
    return NULL;
}

static void refuse_job(struct pipeline *p, struct job *j, const struct failure *why)
{
    if (!j->failure.code) j->failure = *why;
    reply_send(p, j);
}

static void answer(struct pipeline *p, struct job *j, const struct persist_report *r)
{
    struct wire_saved saved = {
        .path = r->path,
        .number = r->number,
        .objects = r->objects,
        .bytes = r->bytes,
        .linked_bytes = r->linked_bytes,
        .free_bytes = r->free_bytes,
        .version = p->saves.version,
    };
    struct connection *c = net_find(p->net, j->key.connection);
    void *at = c ? connection_reserve(c, ENCODE_BYTES_MAX) : NULL;
    if (at) connection_commit(c, encode_save(j->key.request_id, &saved, at));
    job_move(j, JOB_DONE);
    reply_observe(p, j, BACKEND_NONE, clock_read_ns(p->clock));
    job_give(p, j);
}

static bool refuse_texts(struct job *j, const char *why)
{
    failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MESSAGE, "%s", why);
    return false;
}

/* Whether `to` is a path, and `spaces` are names that each end with a 0. */
static bool check_texts(struct job *j)
{
    const struct tensor *to = &j->request.to, *spaces = &j->request.spaces;
    const char *text = to->data, *names = spaces->data;
    if (to->rows > PERSIST_PATH_MAX) return refuse_texts(j, "to: longer than 1000 bytes");
    for (uint64_t i = 0; i < to->rows; i++)
        if ((unsigned char)text[i] < 32 || text[i] == 127)
            return refuse_texts(j, "to: a path has no control characters");
    if (spaces->rows && !to->rows)
        return refuse_texts(j, "spaces can be named only with a folder to save them to (to)");
    if (spaces->rows && names[spaces->rows - 1])
        return refuse_texts(j, "spaces: the last name does not end with a 0");
    return true;
}

bool saves_take(struct pipeline *p, struct connection *c, struct job *j)
{
    if (j->operation != OPERATION_SAVE) return false;
    if (!c->peer->is_operator)
        failure_set(&j->failure, STATUS_PERMISSION_DENIED, DETAIL_NOT_OPERATOR,
                    "only root and the user that runs the daemon may have it save");
    else if (!p->saves.persist)
        failure_set(&j->failure, STATUS_FAILED_PRECONDITION, DETAIL_SYSTEM,
                    "nothing can be saved here");
    else if (check_texts(j) && !j->request.to.rows && !persist_keeps(p->saves.persist))
        failure_set(&j->failure, STATUS_FAILED_PRECONDITION, DETAIL_SYSTEM,
                    "persist.dir is not set: there is no folder to save to");
    if (j->failure.code) {
        reply_send(p, j);
        return true;
    }
    job_move(j, JOB_WAITING);
    queue_push(&p->saves.waiting, j);
    return true;
}

/* ---------------------------------------------------------------- a save begins */

/* Equal numbers: the same objects of the same versions; names change places in a swap. */
static uint64_t mix(uint64_t sum, const char *text, uint64_t number)
{
    for (; *text; text++)
        sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (sum ^ number) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static uint64_t mix_object(uint64_t sum, const struct snapshot_object *o)
{
    return mix(mix(sum, o->space, o->kind), o->name, o->version);
}

static uint64_t state_of(const struct save_item *items, uint64_t count)
{
    uint64_t sum = count;
    for (uint64_t i = 0; i < count; i++)
        sum = mix_object(sum, &items[i].object);
    return sum;
}

/* Of what was loaded, whose objects have the same order. */
static uint64_t state_loaded(const struct manifest *m)
{
    uint64_t sum = m->object_count;
    for (uint64_t i = 0; i < m->object_count; i++)
        sum = mix_object(sum, &m->objects[i]);
    return sum;
}

/* 0: not known. */
static uint64_t state_now(const struct pipeline *p)
{
    struct save_item *items = NULL;
    uint64_t count = 0;
    if (save_list(p->store, NULL, &items, &count, NULL)) return 0;
    uint64_t state = state_of(items, count);
    free(items);
    return state;
}

/* Pins all of it and has it written. UNAVAILABLE: not now. */
static enum status begin(struct pipeline *p, const struct job *j, struct failure *f)
{
    struct saves *s = &p->saves;
    char to[PERSIST_PATH_MAX + 1] = "";
    struct persist_wish wish = {.to = to, .instance = p->state.instance};
    if (j) {
        memcpy(to, j->request.to.rows ? j->request.to.data : "", j->request.to.rows);
        to[j->request.to.rows] = 0;
        wish.dry_run = j->request.dry_run;
    }
    enum status st = save_list(p->store, NULL, &wish.items, &wish.count, f);
    if (!st && j && j->request.spaces.rows)
        st = save_pins_choose(&j->request.spaces, wish.items, &wish.count, f);
    if (!st) st = save_pins_hold(p, wish.items, wish.count, f);
    if (!st) st = saved_tokens_keep(p);
    uint64_t state = st ? 0 : state_of(wish.items, wish.count);
    if (!st) st = persist_begin(s->persist, &wish, f);
    if (!st) {
        s->now = state;
        s->version = store_last_version(p->store);
        s->began_ns = clock_read_ns(p->clock);
        return STATUS_OK;
    }
    free(wish.items);
    save_pins_leave_all(p);
    return st;
}

/* Moves those whom the save is for from those who wait: one that wishes something of its own, or
 * all others. */
static void gather(struct saves *s)
{
    struct job *first = s->waiting.head;
    if (first && !is_plain(first) && !s->own)
        queue_push(&s->served, take_waiting(&s->waiting, false));
    else
        for (struct job *j; (j = take_waiting(&s->waiting, true));)
            queue_push(&s->served, j);
}

/* Nothing is under way any more; what failed is told. */
static void end(struct pipeline *p, const struct failure *why, uint64_t now_ns)
{
    struct saves *s = &p->saves;
    if (why && why->code != STATUS_CANCELLED)
        log_error("persist: not saved, and what was saved before is kept: %s", why->text);
    for (struct job *j; why && (j = queue_pop(&s->served));)
        refuse_job(p, j, why);
    store_calm(p->store, false);
    s->phase = SAVES_IDLE;
    s->own = s->gave_room = false;
    s->attempts = 0;
    s->ended_ns = now_ns;
}

/* Tells the writer how fast it may be, and those who wait how far it is. */
static void steer(struct pipeline *p)
{
    const struct saves *s = &p->saves;
    struct save_meter *m = persist_meter(s->persist);
    atomic_store(&m->rate, (uint64_t)p->config->persist_mib_per_s << 20);
    uint64_t all = atomic_load(&m->all_bytes), done = atomic_load(&m->done_bytes);
    for (struct job *j = s->served.head; j; j = j->next) {
        if (all && atomic_load(&j->progress.total) != all)
            progress_begin(&j->progress, PROGRESS_SAVING, all);
        atomic_store(&j->progress.done, done);
    }
}

static void try_to_begin(struct pipeline *p, uint64_t now_ns)
{
    struct saves *s = &p->saves;
    struct failure why = {0};
    if (!s->served.head) gather(s);
    struct job *first = s->served.head;
    if (!first && !s->own) {
        end(p, NULL, now_ns);
        return;
    }
    store_calm(p->store, true);
    s->for_all = !first || is_plain(first);
    enum status st = begin(p, first, &why);
    if (st == STATUS_UNAVAILABLE && now_ns - s->calm_ns < CALM_NS) {
        s->again_ns = now_ns + CALM_GAP_NS;
        return;
    }
    if (st) {
        if (st == STATUS_UNAVAILABLE) why.retry_after_ms = RETRY_SAVE_MS;
        saves_count(s, NULL, &why, p->draining, now_ns);
        end(p, &why, now_ns);
        return;
    }
    store_calm(p->store, false);
    s->phase = SAVES_WRITING;
    steer(p);
    for (struct job *j = first; j; j = j->next) {
        if (j->state == JOB_RUNNING) continue;
        job_move(j, JOB_QUEUED);
        job_move(j, JOB_RUNNING);
        j->backend = BACKEND_CPU; /* then its progress is what it says itself */
    }
}

/* ---------------------------------------------------------------- memory */

/* Gives the save up if it keeps memory that nobody else would. */
static bool make_room(struct pipeline *p)
{
    struct saves *s = &p->saves;
    if (s->phase != SAVES_WRITING) return false;
    if (s->gave_room) return true;
    if (!save_pins_keep(p)) return false;
    s->gave_room = true;
    atomic_store(&persist_meter(s->persist)->stop, true);
    return true;
}

bool saves_make_room(struct pipeline *p, struct job *j)
{
    const struct failure *f = &j->failure;
    bool starved = f->code == STATUS_RESOURCE_EXHAUSTED &&
                   (f->detail == DETAIL_MEMORY || f->detail == DETAIL_QUOTA);
    if (!starved || !job_written(j) || j->whole || atomic_load(&j->cancelled) || !make_room(p))
        return false;
    memset(&j->failure, 0, sizeof j->failure);
    heap_give(p->heap, &j->result.block);
    memset(&j->result, 0, sizeof j->result);
    j->backend = BACKEND_NONE;
    j->started_ns = j->finished_ns = j->copy_ns = 0;
    job_move(j, JOB_QUEUED);
    queue_push(&p->saves.starved, j);
    return true;
}

/* The memory is there. */
static void feed(struct pipeline *p, uint64_t now_ns)
{
    for (struct job *j; (j = queue_pop(&p->saves.starved));)
        line_enter(p, j, now_ns);
    scheduler_resume(&p->scheduler);
}

static bool memory_is_scarce(struct pipeline *p)
{
    return heap_room_bytes(p->heap) < heap_usage(p->heap).bytes_max / ROOM_SHARE;
}

/* ---------------------------------------------------------------- it ends */

/* What was given up for want of memory begins again in a while. */
static bool begins_again(struct pipeline *p, const struct persist_report *r, uint64_t now_ns)
{
    struct saves *s = &p->saves;
    if (r->failure.code != STATUS_CANCELLED || !s->gave_room || p->draining) return false;
    if ((!s->served.head && !s->own) || s->attempts + 1 == ATTEMPTS_MAX) return false;
    s->attempts++;
    s->gave_room = false;
    log_warning("persist: writes want the memory that a save keeps; it begins again");
    s->phase = SAVES_CALMING;
    s->calm_ns = s->again_ns = now_ns + AGAIN_NS;
    return true;
}

static void say_why(const struct pipeline *p, struct failure *why)
{
    if (why->code != STATUS_CANCELLED) return;
    if (p->draining) {
        job_fail_stopping(p, why);
    } else if (p->saves.gave_room) {
        failure_set(why, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                    "writes want the memory that a save keeps, again and again");
        why->retry_after_ms = RETRY_SAVE_MS;
    }
}

static void take_end(struct pipeline *p, const struct persist_report *r, uint64_t now_ns)
{
    struct saves *s = &p->saves;
    struct failure why = r->failure;
    save_pins_leave_all(p);
    feed(p, now_ns);
    bool again = begins_again(p, r, now_ns);
    if (!again) say_why(p, &why);
    saves_count(s, r, &why, p->draining, now_ns);
    if (again) return;
    if (!why.code && s->for_all && r->number) s->saved = s->now;
    for (struct job *j; !why.code && (j = queue_pop(&s->served));)
        answer(p, j, r);
    end(p, why.code ? &why : NULL, now_ns);
}

/* Whether the daemon wants a save of its own; asked again in a second if nothing has changed. */
static bool is_due(struct pipeline *p, uint64_t now_ns)
{
    struct saves *s = &p->saves;
    uint64_t every_ns = p->config->persist_every_s * SECOND_NS;
    if (!persist_keeps(s->persist)) return false;
    if (journals_want_save(p)) return now_ns - s->ended_ns >= JOURNAL_GAP_NS;
    if (!every_ns || now_ns - s->ended_ns < every_ns || now_ns < s->look_ns) return false;
    s->look_ns = now_ns + SECOND_NS;
    bool changed = state_now(p) != s->saved;
    if (!changed) s->counted.current_ns = now_ns;
    return changed;
}

static void look_at_idle(struct pipeline *p, uint64_t now_ns)
{
    struct saves *s = &p->saves;
    bool first_is_plain = !s->waiting.head || is_plain(s->waiting.head);
    s->own = first_is_plain && is_due(p, now_ns);
    if (!s->own && !s->waiting.head) return;
    s->phase = SAVES_CALMING;
    s->calm_ns = s->again_ns = now_ns;
}

void saves_turn(struct pipeline *p)
{
    struct saves *s = &p->saves;
    struct persist_report report;
    if (!s->persist) return;
    uint64_t now_ns = clock_read_ns(p->clock);
    if (s->phase == SAVES_IDLE && !p->draining) look_at_idle(p, now_ns);
    if (s->phase == SAVES_CALMING && now_ns >= s->again_ns) try_to_begin(p, now_ns);
    if (s->phase != SAVES_WRITING) return;
    if (persist_poll(s->persist, &report)) {
        take_end(p, &report, now_ns);
        return;
    }
    save_pins_leave(p, atomic_load(&persist_meter(s->persist)->objects));
    if (memory_is_scarce(p)) make_room(p);
    steer(p);
}

uint64_t saves_wake_ns(const struct pipeline *p)
{
    return p->saves.phase == SAVES_CALMING ? p->saves.again_ns : UINT64_MAX;
}

/* ---------------------------------------------------------------- it is given up */

static bool is_in(const struct queue *q, const struct job *j)
{
    const struct job *at = q->head;
    while (at && at != j)
        at = at->next;
    return at != NULL;
}

/* A write that waits for memory. */
static bool cancel_starved(struct pipeline *p, struct job *j)
{
    if (!is_in(&p->saves.starved, j)) return false;
    if (job_is_wanted(j, clock_read_ns(p->clock))) return true;
    queue_remove(&p->saves.starved, j);
    turnstiles_leave(p, j);
    reply_send(p, j);
    return true;
}

bool saves_cancel(struct pipeline *p, struct job *j)
{
    struct saves *s = &p->saves;
    if (j->operation != OPERATION_SAVE) return cancel_starved(p, j);
    bool waits = is_in(&s->waiting, j);
    if (!waits && !is_in(&s->served, j)) return false;
    if (job_is_wanted(j, clock_read_ns(p->clock))) return true;
    queue_remove(waits ? &s->waiting : &s->served, j);
    reply_send(p, j);
    if (!s->served.head && !s->own && s->phase == SAVES_WRITING)
        atomic_store(&persist_meter(s->persist)->stop, true);
    return true;
}

void saves_drain(struct pipeline *p)
{
    struct saves *s = &p->saves;
    struct failure why = {0};
    job_fail_stopping(p, &why);
    for (struct job *j; (j = queue_pop(&s->waiting));)
        refuse_job(p, j, &why);
    if (s->phase == SAVES_CALMING) end(p, &why, clock_read_ns(p->clock));
    if (s->phase == SAVES_WRITING) atomic_store(&persist_meter(s->persist)->stop, true);
}

void saves_abandon(struct pipeline *p)
{
    struct persist_report report;
    saves_drain(p);
    if (p->saves.phase != SAVES_WRITING) return;
    persist_wait(p->saves.persist, &report);
    take_end(p, &report, clock_read_ns(p->clock));
}

void pipeline_set_persist(struct pipeline *p, struct persist *persist)
{
    p->saves.persist = persist;
    p->saves.saved = state_loaded(persist_last(persist));
    p->saves.ended_ns = p->saves.counted.current_ns = clock_read_ns(p->clock);
    if (persist_keeps(persist))
        p->state = (struct state_name){persist_instance(persist), persist_generation(persist), 0};
    journals_open(p, persist_journal(persist));
    if (journals_want_save(p)) p->saves.ended_ns -= JOURNAL_GAP_NS; /* at once */
    if (!persist_is_loading(persist)) saved_tokens_take(p);
}
