/* How far long requests are, through the socket: of requests that last until they are ended, by the
 * callback, by a deadline, or by a client that leaves; and their memory, which comes back
 * (scene_close). */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/support/endless.h"
#include "tests/support/sets.h"

enum { CLUSTERED = 200000 };

static struct scene scene;
static struct endless endless;
static ea_client *c;
static uint64_t *ids;

#define OK(call) cr_assert_eq((call), EA_OK, "%s", ea_error_text(c))

static void begin(void)
{
    scene_open(&scene,
               (const char *const[]){ENDLESS_BODIES, "workers.count=2",
                                     "limits.cluster_rows=262144", "limits.output_mib=64", NULL});
    c = scene_client(&scene, "facts");
    endless_make(&endless, c);
    ids = malloc(CLUSTERED * sizeof *ids);
    for (uint64_t i = 0; i < CLUSTERED; i++)
        ids[i] = i;
}

static void end(void)
{
    endless_free(&endless, c);
    ea_close(c);
    scene_close(&scene);
    free(ids);
}

TestSuite(progress, .init = begin, .fini = end, .timeout = 900);

/* What was told of one request. */
struct told {
    uint64_t id;
    unsigned frames, phases; /* phases: bits */
    unsigned enough;         /* frames after which it is to end; 0: never */
    ea_progress_report last;
    ea_status ended; /* EA_UNKNOWN: not yet */
};

static bool tell(ea_client *client, const ea_progress_report *r, void *user)
{
    struct told *t = user;
    (void)client;
    cr_assert_eq(r->request_id, t->id);
    cr_assert(!r->total || r->done <= r->total);
    cr_assert_geq(r->elapsed_us, t->last.elapsed_us + 100000 * (t->frames > 0));
    if (r->phase == t->last.phase && r->total == t->last.total)
        cr_assert_geq(r->done, t->last.done);
    t->frames++;
    t->phases |= 1u << r->phase;
    t->last = *r;
    return t->frames != t->enough;
}

static void ended(ea_client *client, const ea_answer *answer, void *user)
{
    (void)client;
    ((struct told *)user)->ended = answer->status;
}

static ea_send_options watched(struct told *t)
{
    return (ea_send_options){
        .callback = ended, .user = t, .timeout_us = EA_NO_TIMEOUT, .progress = tell};
}

static void ask_cluster(ea_client *client, struct told *t, uint64_t timeout_us)
{
    const ea_cluster_question q = {.collection = "endless", .ids = ids, .count = CLUSTERED};
    ea_send_options how = watched(t);
    if (timeout_us) how.timeout_us = timeout_us;
    cr_assert_eq(ea_cluster_send(client, &q, &how, &t->id), EA_OK, "%s", ea_error_text(client));
}

static void wait_ended(ea_client *client)
{
    while (ea_pending(client))
        cr_assert_eq(ea_pump(client, -1), EA_OK, "%s", ea_error_text(client));
}

Test(progress, of_parts_until_the_callback_ends_it)
{
    struct told t = {.enough = 4, .ended = EA_UNKNOWN};
    const ea_send_options how = watched(&t);
    OK(ea_knn_send(c,
                   &(ea_knn_question){.collection = "endless",
                                      .queries = endless.rows,
                                      .query_count = ENDLESS_QUERIES,
                                      .dimension = ENDLESS_DIMENSION,
                                      .k = 1},
                   &how, &t.id));
    wait_ended(c);
    cr_assert(t.ended == EA_CANCELLED && t.frames >= 4, "%d after %u", (int)t.ended, t.frames);
    cr_assert_eq(t.last.phase, EA_PHASE_RUNNING);
    cr_assert_eq(t.last.backend, EA_BACKEND_CPU);
    cr_assert(t.last.total > 0);
    cr_assert_str_eq(t.last.operation, "knn");
}

/* Two on one connection are both told of. */
Test(progress, of_clusters)
{
    struct told one = {.enough = 2, .ended = EA_UNKNOWN}, two = {.enough = 5, .ended = EA_UNKNOWN};
    ask_cluster(c, &one, 0);
    ask_cluster(c, &two, 0);
    wait_ended(c);
    cr_assert(one.ended == EA_CANCELLED && two.ended == EA_CANCELLED);
    cr_assert(one.frames >= 2 && two.frames >= 5);
    cr_assert(two.phases & 1u << EA_PHASE_PAIRS, "phases %x", two.phases);
}

Test(progress, until_a_deadline)
{
    struct told t = {.ended = EA_UNKNOWN};
    ask_cluster(c, &t, 1000000);
    wait_ended(c);
    cr_assert_eq(t.ended, EA_DEADLINE_EXCEEDED);
}

/* Nobody else waits for what a client leaves behind: to drop the collection waits for its readers.
 */
Test(progress, until_its_client_leaves)
{
    struct told t = {.ended = EA_UNKNOWN};
    ea_client *leaver = scene_client(&scene, "facts");
    ask_cluster(leaver, &t, 0);
    while (!t.frames)
        cr_assert_eq(ea_pump(leaver, 1000000), EA_OK);
    ea_close(leaver);
    cr_assert_eq(t.ended, EA_CANCELLED);
}

/* Blocking calls; and Ctrl-C, which another thread or a callback stands for. */
Test(progress, of_a_blocking_call)
{
    struct told t = {.enough = 2};
    const ea_cluster_question q = {.collection = "endless", .ids = ids, .count = CLUSTERED};
    ea_clusters found = {0};
    ea_set_timeout(c, EA_NO_TIMEOUT);
    ea_collection_info info = {0};
    OK(ea_ping(c));
    OK(ea_collection_describe(c, "endless", &info));
    /* requests are numbered one after the other */
    ea_send_options how = {.timeout_us = EA_NO_TIMEOUT};
    OK(ea_ping_send(c, &how, &t.id));
    t.id++;
    OK(ea_on_progress(c, tell, &t));
    cr_assert_eq(ea_cluster(c, &q, &found), EA_CANCELLED, "%s", ea_error_text(c));
    cr_assert(t.frames >= 2);
    OK(ea_on_progress(c, NULL, NULL));
    ea_clusters_free(&found);
}
