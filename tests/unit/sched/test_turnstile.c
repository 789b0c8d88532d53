/* The turnstile: readers keep their version and writers take turns; and jobs that name several
 * things at once. */
#include "daemon/sched/turnstile.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 96, THINGS = 4 };
static struct job jobs[JOBS];

/* What the residents are told. `version` rises when a writer ends; while in_place is set, no reader
 * can begin or renew. What a reader sees is kept in place of an edition. */
static struct thing {
    struct resident resident;
    uint64_t version;
    bool in_place;
    uint32_t pins, writers;
} things[THINGS];

static struct thing *thing_of(const struct job_object *o)
{
    return (struct thing *)o->resident;
}

static void see(struct job_object *o)
{
    o->collection = (struct edition *)(uintptr_t)thing_of(o)->version;
}

static uint64_t seen(const struct job *j, int slot)
{
    return (uint64_t)(uintptr_t)j->objects[slot].collection;
}

static bool thing_begin(struct job_object *o)
{
    struct thing *t = thing_of(o);
    if (o->writer) {
        cr_assert_eq(t->writers++, 0, "two writers");
        return true;
    }
    if (t->in_place) return false;
    t->pins++;
    see(o);
    return true;
}

/* Nobody writes in place what is pinned. */
static bool thing_renew(struct job_object *o)
{
    cr_assert(o->pinned && !thing_of(o)->in_place);
    see(o);
    return true;
}

static void thing_end(struct job_object *o)
{
    struct thing *t = thing_of(o);
    if (o->writer) {
        t->writers--;
        t->in_place = false;
        t->version++;
    } else {
        cr_assert(o->pinned);
        t->pins--;
    }
}

static const struct resident_ops thing_ops = {
    .begin = thing_begin, .renew = thing_renew, .end = thing_end};

static void lay_out(void)
{
    memset(things, 0, sizeof things);
    for (int i = 0; i < THINGS; i++) {
        things[i].resident.ops = &thing_ops;
        things[i].version = 1;
    }
}

TestSuite(turnstile, .init = lay_out);

static struct turnstile *line(int thing)
{
    return &things[thing].resident.turnstile;
}

/* A job that names nothing yet. */
static struct job *client(int i, uint64_t connection)
{
    memset(&jobs[i], 0, sizeof jobs[i]);
    jobs[i].key.connection = connection;
    jobs[i].operation = OPERATION_UPSERT;
    return &jobs[i];
}

static struct job *name(struct job *j, int slot, int thing, bool writes)
{
    j->objects[slot].resident = &things[thing].resident;
    j->objects[slot].writer = writes;
    return j;
}

static struct job *reader(int i, uint64_t connection)
{
    return name(client(i, connection), 0, 0, false);
}

static struct job *writer(int i, uint64_t connection)
{
    return name(client(i, connection), 0, 0, true);
}

static struct job *drop(int i)
{
    struct job *j = writer(i, 0);
    j->operation = OPERATION_COLLECTION_DROP;
    return j;
}

/* bind: reads two things and writes a third; less than 0: it names none there. */
static struct job *binds(int i, uint64_t connection, int a, int b, int into)
{
    struct job *j = client(i, connection);
    if (a >= 0) name(j, 0, a, false);
    if (b >= 0) name(j, 1, b, false);
    if (into >= 0) name(j, 2, into, true);
    return j;
}

static void expect_idle(void)
{
    for (int i = 0; i < THINGS; i++) {
        cr_assert(turnstile_idle(line(i)), "thing %d", i);
        cr_assert(!things[i].pins && !things[i].writers);
        cr_assert(!line(i)->waiting_writers);
    }
}

static void leave_all(int count)
{
    for (int i = 0; i < count; i++)
        if (jobs[i].holds_turnstile) cr_assert_null(turnstile_leave(&jobs[i]), "%d", i);
    expect_idle();
}

/* ---------------------------------------------------------------- one thing each */

Test(turnstile, lets_readers_in_together)
{
    for (int i = 0; i < 10; i++)
        cr_assert(turnstile_enter(reader(i, 0)));
    cr_assert_not(turnstile_idle(line(0)));
    cr_assert_eq(things[0].pins, 10);
    leave_all(10);
}

Test(turnstile, readers_wait_for_no_stranger)
{
    cr_assert(turnstile_enter(reader(0, 1)));
    cr_assert(turnstile_enter(writer(1, 2)), "nor a writer for readers");
    cr_assert(turnstile_enter(reader(2, 3)));
    cr_assert_not(turnstile_enter(writer(3, 3)), "but for the writer before it");
    cr_assert(turnstile_enter(reader(4, 4)));
    cr_assert_eq(turnstile_leave(&jobs[1]), &jobs[3]);
    cr_assert_null(jobs[3].next);
    leave_all(5);
}

Test(turnstile, a_reader_waits_for_its_own_writes)
{
    cr_assert(turnstile_enter(writer(0, 1)));
    cr_assert_not(turnstile_enter(reader(1, 1)));
    cr_assert_not(turnstile_enter(writer(2, 2)));
    cr_assert_not(turnstile_enter(writer(3, 1)));
    cr_assert_not(turnstile_enter(reader(4, 1)));
    cr_assert(turnstile_enter(reader(5, 3)));
    struct job *next = turnstile_leave(&jobs[0]);
    cr_assert_eq(next, &jobs[1], "its own write is done");
    cr_assert_eq(next->next, &jobs[2]);
    cr_assert_null(next->next->next);
    cr_assert_eq(turnstile_leave(&jobs[2]), &jobs[3]);
    cr_assert_eq(turnstile_leave(&jobs[3]), &jobs[4]);
    leave_all(6);
}

Test(turnstile, a_reader_waits_for_a_write_in_place)
{
    cr_assert(turnstile_enter(writer(0, 1)));
    things[0].in_place = true;
    cr_assert_not(turnstile_enter(reader(1, 2)));
    cr_assert_not(turnstile_enter(writer(2, 3)));
    struct job *next = turnstile_leave(&jobs[0]);
    cr_assert_eq(next, &jobs[1]);
    cr_assert_eq(next->next, &jobs[2]);
    cr_assert_eq(seen(&jobs[1], 0), 2);
    leave_all(3);
}

Test(turnstile, lets_pass_a_reader_whose_own_write_was_withdrawn)
{
    turnstile_enter(writer(0, 1));
    cr_assert_not(turnstile_enter(writer(1, 2)));
    cr_assert_not(turnstile_enter(reader(2, 2)));
    cr_assert_eq(turnstile_withdraw(&jobs[1]), &jobs[2]);
    leave_all(3);
}

/* Of two own writes before it, that which comes last. */
Test(turnstile, a_reader_waits_for_the_write_before_a_withdrawn_one)
{
    turnstile_enter(writer(0, 1));
    for (int i = 1; i < 4; i++)
        cr_assert_not(turnstile_enter(writer(i, 2)));
    cr_assert_not(turnstile_enter(reader(4, 2)));
    cr_assert_not(turnstile_enter(reader(5, 2)));
    cr_assert_null(turnstile_withdraw(&jobs[3]));
    cr_assert_null(turnstile_withdraw(&jobs[1]));
    cr_assert_not(turnstile_enter(reader(6, 2)));
    cr_assert_eq(turnstile_leave(&jobs[0]), &jobs[2]);
    cr_assert_null(jobs[2].next);
    cr_assert_not(turnstile_enter(reader(7, 2)), "its own write is under way");
    struct job *next = turnstile_leave(&jobs[2]);
    for (int i = 4; i < 8; i++, next = next->next)
        cr_assert_eq(next, &jobs[i]);
    cr_assert_null(next);
    leave_all(8);
}

/* Withdrawing while others write or wait: what was kept begins, and nothing else. */
Test(turnstile, withdrawing_wakes_only_what_it_kept)
{
    turnstile_enter(writer(0, 1));
    cr_assert_not(turnstile_enter(writer(1, 2)));
    cr_assert_not(turnstile_enter(writer(2, 3)));
    cr_assert_not(turnstile_enter(reader(3, 3)));
    cr_assert_not(turnstile_enter(reader(4, 2)));
    cr_assert_eq(turnstile_withdraw(&jobs[1]), &jobs[4]);
    cr_assert_null(jobs[4].next);
    cr_assert_null(turnstile_withdraw(&jobs[3]), "a reader whose write waits");
    cr_assert_eq(turnstile_leave(&jobs[0]), &jobs[2]);
    leave_all(5);
    turnstile_enter(name(client(0, 9), 0, 1, true));
    cr_assert_not(turnstile_enter(name(name(client(1, 1), 0, 1, true), 1, 0, false)));
    cr_assert_not(turnstile_enter(writer(2, 1)));
    cr_assert_not(turnstile_enter(drop(3)));
    cr_assert_not(turnstile_enter(name(client(4, 1), 0, 1, false)));
    struct job *next = turnstile_withdraw(&jobs[1]);
    cr_assert_eq(next, &jobs[4]);
    cr_assert_eq(next->next, &jobs[2], "in the line where it would have read");
    cr_assert_eq(turnstile_leave(&jobs[2]), &jobs[3]);
    leave_all(5);
}

Test(turnstile, who_drops_waits_for_all)
{
    turnstile_enter(reader(0, 1));
    turnstile_enter(writer(1, 2));
    turnstile_enter(writer(2, 3));
    cr_assert_not(turnstile_enter(drop(3)));
    cr_assert_eq(turnstile_leave(&jobs[1]), &jobs[2]);
    cr_assert_null(turnstile_leave(&jobs[2]));
    cr_assert_eq(turnstile_leave(&jobs[0]), &jobs[3]);
    leave_all(4);
}

/* ---------------------------------------------------------------- several things */

Test(turnstile, a_job_of_several_passes_them_at_once)
{
    cr_assert(turnstile_enter(binds(0, 1, 0, 1, 2)));
    cr_assert(things[0].pins == 1 && things[1].pins == 1 && things[2].writers == 1);
    cr_assert(turnstile_enter(binds(1, 2, 0, 2, 3)), "whose result is read as it was");
    cr_assert_not(turnstile_enter(binds(2, 3, 0, 1, 2)), "one writes at a time");
    cr_assert(turnstile_enter(name(client(3, 4), 0, 0, true)), "who waits keeps nobody out");
    cr_assert_eq(turnstile_leave(&jobs[0]), &jobs[2]);
    leave_all(4);
}

/* Whatever is written between its arrival and its turn, it sees both things as of one instant. */
Test(turnstile, reads_are_of_one_instant)
{
    cr_assert(turnstile_enter(name(client(0, 1), 0, 1, true)));
    things[1].in_place = true;
    cr_assert_not(turnstile_enter(binds(1, 2, 0, 1, -1)));
    cr_assert_eq(seen(&jobs[1], 0), 1);
    cr_assert_eq(things[0].pins, 1, "what is there is pinned");
    cr_assert(turnstile_enter(name(client(2, 3), 0, 0, true)));
    cr_assert_null(turnstile_leave(&jobs[2]));
    cr_assert_eq(turnstile_leave(&jobs[0]), &jobs[1]);
    cr_assert(seen(&jobs[1], 0) == 2 && seen(&jobs[1], 1) == 2);
    leave_all(3);
}

Test(turnstile, waits_for_its_own_writes_to_any_of_them)
{
    cr_assert(turnstile_enter(name(client(0, 1), 0, 1, true)));
    cr_assert_not(turnstile_enter(binds(1, 1, 0, 1, 2)));
    cr_assert(turnstile_enter(binds(2, 2, 0, 1, -1)), "a stranger's");
    cr_assert_eq(turnstile_leave(&jobs[0]), &jobs[1]);
    cr_assert_eq(seen(&jobs[1], 1), 2);
    leave_all(3);
}

/* A client sends: bind, and then a write to what the bind reads. */
Test(turnstile, later_writes_of_its_own_wait_for_it)
{
    cr_assert(turnstile_enter(name(client(0, 9), 0, 1, true)));
    things[1].in_place = true;
    cr_assert_not(turnstile_enter(binds(1, 1, 0, 1, 2)));
    cr_assert_not(turnstile_enter(writer(2, 1)), "it would be seen by the bind before it");
    cr_assert_not(turnstile_enter(reader(3, 1)), "which waits for its own write");
    cr_assert(turnstile_enter(reader(4, 2)));
    struct job *next = turnstile_leave(&jobs[0]);
    cr_assert_eq(next, &jobs[1]);
    cr_assert_eq(next->next, &jobs[2], "in another line than the one that moved");
    cr_assert_null(next->next->next);
    cr_assert_eq(seen(&jobs[1], 0), 1);
    cr_assert_eq(turnstile_leave(&jobs[2]), &jobs[3]);
    leave_all(5);
}

/* The reader waits for a write in place. When that ends, together with what else its writer wrote,
 * the client's later job is looked at in the other line first. */
Test(turnstile, later_jobs_of_its_own_do_not_overtake)
{
    cr_assert(turnstile_enter(binds(0, 9, 1, -1, 0)));
    cr_assert(turnstile_enter(name(client(1, 8), 0, 1, true)));
    things[0].in_place = true;
    cr_assert_not(turnstile_enter(reader(2, 1)));
    cr_assert_not(turnstile_enter(name(name(client(3, 1), 0, 1, false), 1, 0, true)));
    struct job *next = turnstile_leave(&jobs[0]);
    cr_assert_eq(next, &jobs[2]);
    cr_assert_eq(next->next, &jobs[3]);
    leave_all(4);
}

/* A <- bind(A, A). */
Test(turnstile, one_thing_may_be_read_twice_and_written)
{
    cr_assert(turnstile_enter(binds(0, 1, 0, 0, 0)));
    cr_assert(things[0].pins == 2 && things[0].writers == 1);
    cr_assert_not(turnstile_enter(binds(1, 1, 0, 0, 0)));
    cr_assert_not(turnstile_enter(binds(2, 2, 0, 0, 0)));
    cr_assert_eq(turnstile_leave(&jobs[0]), &jobs[1]);
    cr_assert(seen(&jobs[1], 0) == 2 && seen(&jobs[1], 1) == 2);
    cr_assert_eq(turnstile_leave(&jobs[1]), &jobs[2]);
    cr_assert_eq(seen(&jobs[2], 0), 3);
    leave_all(3);
}

/* bind A, B into C; bind B, C into A; bind C, A into B; twice, and of one client. */
Test(turnstile, crossing_jobs_do_not_lock_each_other)
{
    for (uint64_t connection = 0; connection < 2; connection++) {
        int inside = 0, done = 0;
        lay_out();
        for (int i = 0; i < 6; i++)
            inside += turnstile_enter(binds(i, connection, i % 3, (i + 1) % 3, (i + 2) % 3));
        cr_assert_eq(inside, connection ? 1 : 3, "strangers read what is there, and write apart");
        while (done < 6) {
            int at = 0;
            while (at < 6 && !jobs[at].holds_turnstile)
                at++;
            cr_assert(at < 6, "nobody is inside, and %d wait", 6 - done);
            turnstile_leave(&jobs[at]);
            done++;
        }
        expect_idle();
    }
}

/* Two thousand wait in three lines and pass one by one, beside a writer who waits all along. If
 * each of them looked at all others whenever one leaves, this would take half a minute. */
Test(turnstile, thousands_in_line_do_not_look_at_each_other)
{
    enum { WAITING = 2048, CLIENTS = 8 };
    struct job *many = calloc(WAITING, sizeof *many);
    cr_assert(many);
    turnstile_enter(name(client(0, 100), 0, 0, true));
    cr_assert_not(turnstile_enter(name(client(1, 101), 0, 0, true)));
    turnstile_enter(name(client(2, 102), 0, 2, true));
    for (int i = 0; i < WAITING; i++) {
        many[i].key.connection = 1 + (uint64_t)i % CLIENTS;
        many[i].operation = OPERATION_UPSERT;
        cr_assert_not(
            turnstile_enter(name(name(name(&many[i], 0, 0, false), 1, 1, false), 2, 2, true)));
    }
    struct job *next = turnstile_leave(&jobs[2]);
    for (int i = 0; i < WAITING; i++) {
        cr_assert(next == &many[i] && !next->next, "%d", i);
        next = turnstile_leave(next);
    }
    cr_assert_null(next);
    cr_assert_eq(turnstile_leave(&jobs[0]), &jobs[1]);
    leave_all(2);
    free(many);
}

Test(turnstile, who_is_withdrawn_leaves_all_lines)
{
    cr_assert(turnstile_enter(name(client(0, 9), 0, 2, true)));
    cr_assert_not(turnstile_enter(binds(1, 1, 0, 1, 2)));
    cr_assert_not(turnstile_enter(binds(2, 2, 0, 1, 2)));
    cr_assert_not(turnstile_enter(name(client(3, 1), 0, 0, true)));
    cr_assert_eq(turnstile_withdraw(&jobs[1]), &jobs[3], "nothing reads that any more");
    cr_assert_null(jobs[3].next);
    cr_assert_eq(turnstile_leave(&jobs[0]), &jobs[2]);
    leave_all(4);
}

/* What was pinned while it waited is let go. */
Test(turnstile, who_is_withdrawn_keeps_no_pin)
{
    cr_assert(turnstile_enter(name(client(0, 9), 0, 1, true)));
    things[1].in_place = true;
    cr_assert_not(turnstile_enter(binds(1, 1, 0, 1, 2)));
    cr_assert_eq(things[0].pins, 1);
    cr_assert_null(turnstile_withdraw(&jobs[1]));
    cr_assert_eq(things[0].pins, 0);
    leave_all(2);
}

Test(turnstile, a_drop_in_the_middle_waits_for_who_came_before)
{
    cr_assert(turnstile_enter(name(client(0, 9), 0, 2, true)));
    cr_assert_not(turnstile_enter(binds(1, 1, 0, 1, 2)));
    cr_assert_not(turnstile_enter(drop(2)));
    cr_assert_eq(turnstile_leave(&jobs[0]), &jobs[1]);
    cr_assert_null(jobs[1].next);
    cr_assert_eq(turnstile_leave(&jobs[1]), &jobs[2]);
    leave_all(3);
}

/* ---------------------------------------------------------------- whatever comes */

/* Writers of each thing are in order of arrival; what a client sends sees what it sent before. */
static void expect_in_order(const struct job *in, const uint64_t *order)
{
    for (int i = 0; i < JOBS; i++) {
        const struct job *j = &jobs[i];
        if (!order[i] || j->holds_turnstile || order[i] > order[in - jobs]) continue;
        for (int a = 0; a < THINGS * THINGS; a++) {
            const struct job_object *mine = &in->objects[a / THINGS];
            const struct job_object *theirs = &j->objects[a % THINGS];
            if (!mine->resident || mine->resident != theirs->resident) continue;
            bool own = j->key.connection && j->key.connection == in->key.connection;
            cr_assert_not(mine->writer && theirs->writer, "a writer overtook one");
            cr_assert_not(own && (mine->writer || theirs->writer), "its own order is lost");
        }
    }
}

/* Random arrivals, withdrawals and departures of jobs that name one to three things. */
Test(turnstile, holds_its_invariants)
{
    uint64_t order[JOBS] = {0}, arrived = 0, passed = 0; /* 0: it is idle */
    unsigned seed = 11;
    for (int step = 0; step < 60000; step++) {
        int i = rand_r(&seed) % JOBS, what = rand_r(&seed) % 8, t = rand_r(&seed) % THINGS;
        struct job *j = &jobs[i], *in = NULL;
        if (!order[i] && what < 4) {
            uint64_t connection = (uint64_t)rand_r(&seed) % 5;
            order[i] = ++arrived;
            binds(i, connection, what & 1 ? rand_r(&seed) % THINGS : -1, t,
                  rand_r(&seed) % 2 ? rand_r(&seed) % THINGS : -1);
            if (turnstile_enter(j)) (in = j)->next = NULL;
        } else if (order[i] && j->holds_turnstile) {
            order[i] = 0;
            in = turnstile_leave(j);
        } else if (order[i] && what == 7) {
            order[i] = 0;
            in = turnstile_withdraw(j);
        }
        if (line(t)->writer && !things[t].pins && what == 5) things[t].in_place = true;
        for (; in; in = in->next, passed++) {
            cr_assert(in->holds_turnstile);
            expect_in_order(in, order);
        }
    }
    cr_assert(passed > 1000);
    for (int left = 1; left;) {
        left = 0;
        for (int i = 0; i < JOBS; i++) {
            if (!jobs[i].holds_turnstile) continue;
            order[i] = 0;
            turnstile_leave(&jobs[i]);
            left++;
        }
    }
    for (int i = 0; i < JOBS; i++)
        cr_assert_not(order[i], "%d waits for nobody", i);
    expect_idle();
}
