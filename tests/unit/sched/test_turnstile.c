/* The turnstile: many readers or one writer, nobody overtakes; and that of what keeps versions. */
#include "daemon/sched/turnstile.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 96 };
static struct job jobs[JOBS];

static struct job *reader(int i)
{
    memset(&jobs[i], 0, sizeof jobs[i]);
    return &jobs[i];
}

static struct job *writer(int i)
{
    struct job *j = reader(i);
    j->writer = true;
    return j;
}

Test(turnstile, lets_readers_in_together)
{
    struct turnstile t = {0};
    cr_assert(turnstile_idle(&t));
    for (int i = 0; i < 10; i++)
        cr_assert(turnstile_enter(&t, reader(i)));
    cr_assert_not(turnstile_idle(&t));
    for (int i = 0; i < 10; i++) {
        cr_assert(jobs[i].holds_turnstile);
        cr_assert_null(turnstile_leave(&t, &jobs[i]));
        cr_assert_not(jobs[i].holds_turnstile);
    }
    cr_assert(turnstile_idle(&t));
}

Test(turnstile, keeps_a_writer_alone)
{
    struct turnstile t = {0};
    cr_assert(turnstile_enter(&t, writer(0)));
    cr_assert_not(turnstile_enter(&t, writer(1)));
    cr_assert_not(turnstile_enter(&t, reader(2)));
    cr_assert_not(turnstile_enter(&t, reader(3)));
    cr_assert_eq(turnstile_leave(&t, &jobs[0]), &jobs[1]);
    cr_assert_null(jobs[1].next);
    cr_assert_not(jobs[2].holds_turnstile);
    struct job *both = turnstile_leave(&t, &jobs[1]);
    cr_assert_eq(both, &jobs[2]);
    cr_assert_eq(both->next, &jobs[3]);
    cr_assert_null(both->next->next);
    turnstile_leave(&t, &jobs[2]);
    cr_assert_not(turnstile_idle(&t));
    turnstile_leave(&t, &jobs[3]);
    cr_assert(turnstile_idle(&t));
}

/* A stream of readers must not starve a writer. */
Test(turnstile, nobody_overtakes_a_waiting_writer)
{
    struct turnstile t = {0};
    cr_assert(turnstile_enter(&t, reader(0)));
    cr_assert_not(turnstile_enter(&t, writer(1)));
    for (int i = 2; i < 20; i++)
        cr_assert_not(turnstile_enter(&t, reader(i)));
    cr_assert_eq(turnstile_leave(&t, &jobs[0]), &jobs[1]);
    cr_assert_not(turnstile_enter(&t, reader(20)), "there is a line: one joins its end");
    int count = 0;
    for (struct job *j = turnstile_leave(&t, &jobs[1]); j; j = j->next)
        cr_assert_eq(j, &jobs[2 + count++]);
    cr_assert_eq(count, 19);
}

Test(turnstile, a_writer_waits_for_the_last_reader)
{
    struct turnstile t = {0};
    turnstile_enter(&t, reader(0));
    turnstile_enter(&t, reader(1));
    cr_assert_not(turnstile_enter(&t, writer(2)));
    cr_assert_null(turnstile_leave(&t, &jobs[1]));
    cr_assert_eq(turnstile_leave(&t, &jobs[0]), &jobs[2]);
}

Test(turnstile, lets_those_behind_a_withdrawn_writer_pass)
{
    struct turnstile t = {0};
    turnstile_enter(&t, reader(0));
    turnstile_enter(&t, writer(1));
    turnstile_enter(&t, reader(2));
    turnstile_enter(&t, reader(3));
    turnstile_enter(&t, writer(4));
    cr_assert_null(turnstile_withdraw(&t, &jobs[3]), "the writer is still before them");
    cr_assert_eq(turnstile_withdraw(&t, &jobs[1]), &jobs[2]);
    cr_assert_null(jobs[2].next);
    cr_assert_null(turnstile_leave(&t, &jobs[0]));
    cr_assert_null(turnstile_withdraw(&t, &jobs[4]));
    cr_assert_null(turnstile_leave(&t, &jobs[2]));
    cr_assert(turnstile_idle(&t));
}

/* Random arrivals and departures: the invariants hold at each step, and passage is in order of
 * arrival. */
Test(turnstile, holds_its_invariants)
{
    struct turnstile t = {0};
    struct job *inside[JOBS];
    size_t inside_count = 0, arrived = 0, passed = 0;
    uint64_t order[JOBS] = {0};
    bool idle[JOBS];
    unsigned seed = 11;
    memset(idle, true, sizeof idle);
    for (int step = 0; step < 50000; step++) {
        int i = rand_r(&seed) % JOBS;
        struct job *in = NULL;
        if (rand_r(&seed) % 2 && inside_count) {
            size_t at = (size_t)rand_r(&seed) % inside_count;
            struct job *out = inside[at];
            inside[at] = inside[--inside_count];
            idle[out - jobs] = true;
            in = turnstile_leave(&t, out);
        } else if (idle[i]) {
            idle[i] = false;
            struct job *j = rand_r(&seed) % 4 ? reader(i) : writer(i);
            order[i] = ++arrived;
            if (turnstile_enter(&t, j)) in = j;
        }
        for (; in; in = in->next) {
            cr_assert_eq(order[in - jobs], ++passed, "passage in order of arrival");
            inside[inside_count++] = in;
        }
        size_t writers = 0;
        for (size_t k = 0; k < inside_count; k++) {
            cr_assert(inside[k]->holds_turnstile);
            writers += inside[k]->writer;
        }
        cr_assert(writers == 0 || inside_count == 1);
        cr_assert(inside_count || turnstile_idle(&t), "somebody waits and nobody is inside");
    }
    cr_assert(passed > 1000);
}

/* ---------------------------------------------------------------- of what keeps versions */

static struct job *of_client(struct job *j, uint64_t connection)
{
    j->key.connection = connection;
    j->operation = OPERATION_UPSERT;
    return j;
}

static struct job *drop(int i)
{
    struct job *j = writer(i);
    j->operation = OPERATION_COLLECTION_DROP;
    return j;
}

Test(turnstile, readers_of_versions_wait_for_no_stranger)
{
    struct turnstile t = {.versions = true};
    cr_assert(turnstile_enter(&t, of_client(reader(0), 1)));
    cr_assert(turnstile_enter(&t, of_client(writer(1), 2)), "nor a writer for readers");
    cr_assert(turnstile_enter(&t, of_client(reader(2), 3)));
    cr_assert_not(turnstile_enter(&t, of_client(writer(3), 3)), "but for the writer before it");
    cr_assert(turnstile_enter(&t, of_client(reader(4), 4)));
    cr_assert_eq(turnstile_leave(&t, &jobs[1]), &jobs[3]);
    cr_assert_null(jobs[3].next);
    for (int i = 0; i < 5; i++)
        if (jobs[i].holds_turnstile) cr_assert_null(turnstile_leave(&t, &jobs[i]));
    cr_assert(turnstile_idle(&t));
}

Test(turnstile, a_reader_of_versions_waits_for_its_own_writes)
{
    struct turnstile t = {.versions = true};
    cr_assert(turnstile_enter(&t, of_client(writer(0), 1)));
    cr_assert_not(turnstile_enter(&t, of_client(reader(1), 1)));
    cr_assert_not(turnstile_enter(&t, of_client(writer(2), 2)));
    cr_assert_not(turnstile_enter(&t, of_client(writer(3), 1)));
    cr_assert_not(turnstile_enter(&t, of_client(reader(4), 1)));
    cr_assert(turnstile_enter(&t, of_client(reader(5), 3)));
    struct job *next = turnstile_leave(&t, &jobs[0]);
    cr_assert_eq(next, &jobs[1], "its own write is done");
    cr_assert_eq(next->next, &jobs[2]);
    cr_assert_null(next->next->next);
    cr_assert_eq(turnstile_leave(&t, &jobs[2]), &jobs[3]);
    cr_assert_eq(turnstile_leave(&t, &jobs[3]), &jobs[4]);
    for (int i = 0; i < 6; i++)
        if (jobs[i].holds_turnstile) cr_assert_null(turnstile_leave(&t, &jobs[i]));
    cr_assert(turnstile_idle(&t));
}

Test(turnstile, lets_pass_a_reader_whose_own_write_was_withdrawn)
{
    struct turnstile t = {.versions = true};
    turnstile_enter(&t, of_client(writer(0), 1));
    cr_assert_not(turnstile_enter(&t, of_client(writer(1), 2)));
    cr_assert_not(turnstile_enter(&t, of_client(reader(2), 2)));
    cr_assert_eq(turnstile_withdraw(&t, &jobs[1]), &jobs[2]);
    cr_assert_null(turnstile_leave(&t, &jobs[0]));
    cr_assert_null(turnstile_leave(&t, &jobs[2]));
    cr_assert(turnstile_idle(&t));
}

Test(turnstile, who_drops_versions_waits_for_all)
{
    struct turnstile t = {.versions = true};
    turnstile_enter(&t, of_client(reader(0), 1));
    turnstile_enter(&t, of_client(writer(1), 2));
    turnstile_enter(&t, of_client(writer(2), 3));
    cr_assert_not(turnstile_enter(&t, drop(3)));
    cr_assert_eq(turnstile_leave(&t, &jobs[1]), &jobs[2]);
    cr_assert_null(turnstile_leave(&t, &jobs[2]));
    cr_assert_eq(turnstile_leave(&t, &jobs[0]), &jobs[3]);
    cr_assert_null(turnstile_leave(&t, &jobs[3]));
    cr_assert(turnstile_idle(&t));
}
