/* Who gets how much of a busy CPU, and whether waiting for company ever costs who is alone. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/asks.h"

/* ---------------------------------------------------------------- shares */

enum { CLIENTS = 4, PENDING = 8, D = 128, ROWS = 4000 };

/* Clients of one space that always have something to ask. */
struct crowd {
    const char *space;
    const struct set *set;
    ea_client *clients[CLIENTS];
    uint64_t answered;
    bool over;
};

static void ask_on(ea_client *c, struct crowd *crowd);

static void note(ea_client *c, const ea_answer *answer, void *user)
{
    struct crowd *crowd = user;
    if (crowd->over) return;
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    crowd->answered++;
    ask_on(c, crowd);
}

static void ask_on(ea_client *c, struct crowd *crowd)
{
    cr_assert_eq(ea_knn_send(c,
                             &(ea_knn_question){.collection = crowd->set->name,
                                                .queries = crowd->set->queries,
                                                .query_count = 8,
                                                .dimension = D,
                                                .k = 5},
                             &(ea_send_options){.callback = note, .user = crowd}, NULL),
                 EA_OK, "%s", ea_error_text(c));
}

static void crowd_open(struct crowd *crowd, struct daemon_process *d, const char *space,
                       const struct set *set)
{
    *crowd = (struct crowd){.space = space, .set = set};
    asks_connect(d, space, crowd->clients, CLIENTS);
    set_send(set, crowd->clients[0]);
}

static void crowd_close(struct crowd *crowd)
{
    crowd->over = true;
    asks_disconnect(crowd->clients, CLIENTS);
}

static uint64_t busy_ns(ea_client *c)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
    return stats.space.use[EA_BACKEND_CPU].busy_ns;
}

static void both_pump(struct crowd *one, struct crowd *three, int for_ms)
{
    ea_client *all[2 * CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        all[i] = one->clients[i];
        all[CLIENTS + i] = three->clients[i];
    }
    asks_pump(all, (size_t)2 * CLIENTS, for_ms);
}

Test(sched_shares, weights_are_what_they_get, .timeout = 900)
{
    struct scene s;
    struct set t;
    struct crowd one, three;
    scene_open(&s, (const char *[]){"spaces.three.weight=3", "batch.requests=1", NULL});
    ea_client *of_one = scene_client(&s, "one"), *of_three = scene_client(&s, "three");
    asks_set(&t, D, REFERENCE_DOT, ROWS);
    crowd_open(&one, &s.daemon, "one", &t);
    crowd_open(&three, &s.daemon, "three", &t);
    for (int i = 0; i < CLIENTS * PENDING; i++) {
        ask_on(one.clients[i % CLIENTS], &one);
        ask_on(three.clients[i % CLIENTS], &three);
    }
    both_pump(&one, &three, scaled_ms(100));
    uint64_t one_ns = busy_ns(of_one), three_ns = busy_ns(of_three);
    both_pump(&one, &three, scaled_ms(1200));
    one_ns = busy_ns(of_one) - one_ns;
    three_ns = busy_ns(of_three) - three_ns;
    double share = (double)three_ns / (double)(one_ns + three_ns);
    fprintf(stderr, "weight 3 of 4 has %.3f; %llu and %llu answers\n", share,
            (unsigned long long)one.answered, (unsigned long long)three.answered);
    cr_assert(share > 0.75 * 0.75 && share < 0.75 * 1.25, "%.3f", share);
    crowd_close(&one);
    crowd_close(&three);
    cr_assert_eq(ea_collection_drop(of_one, t.name), EA_OK);
    cr_assert_eq(ea_collection_drop(of_three, t.name), EA_OK);
    ea_close(of_one);
    ea_close(of_three);
    set_free(&t);
    scene_close(&s);
}

/* ---------------------------------------------------------------- company */

/* Would wait a second, if it waited for company; the soonest of several shows that it does not. */
Test(sched_shares, who_is_alone_waits_for_nobody, .timeout = 900)
{
    enum { TIMES = 300 };
    struct scene s;
    struct set t;
    uint64_t soonest_ns = UINT64_MAX;
    scene_open(&s, (const char *[]){"batch.wait_us=1000000", NULL});
    ea_client *c = scene_client(&s, "one");
    asks_set(&t, 64, REFERENCE_DOT, 1000);
    set_send(&t, c);
    for (int i = 0; i < TIMES; i++) {
        ea_result r = {0};
        cr_assert_eq(ea_knn(c,
                            &(ea_knn_question){.collection = t.name,
                                               .queries = t.queries,
                                               .query_count = 1,
                                               .dimension = 64,
                                               .k = 5},
                            &r),
                     EA_OK);
        if (r.meta->queue_ns < soonest_ns) soonest_ns = r.meta->queue_ns;
        ea_result_free(&r);
    }
    cr_assert_lt(soonest_ns, UINT64_C(1000000000));
    cr_assert_eq(ea_collection_drop(c, t.name), EA_OK);
    ea_close(c);
    set_free(&t);
    scene_close(&s);
}

/* Two long ones of the same collection keep the CPU busy, so that those that come then are held,
 * for company: but no longer than that. */
Test(sched_shares, company_is_waited_for_so_long, .timeout = 900)
{
    enum { HELD_MS = 150, ASKS = 12 };
    struct scene s;
    struct set t;
    ea_client *clients[ASKS];
    scene_open(&s, (const char *[]){"batch.wait_us=150000", "workers.count=1", NULL});
    ea_client *c = scene_client(&s, "one");
    asks_set(&t, 256, REFERENCE_DOT, 20000);
    set_send(&t, c);
    struct asks *a = asks_make_plain(&t, ASKS, 2, 5), *busy = asks_make_plain(&t, 2, 64, 5);
    asks_alone(a, c, 0);
    asks_alone(busy, c, 0);
    asks_connect(&s.daemon, "one", clients, ASKS);
    asks_send(busy, clients, 2);
    wait_ms(2);
    asks_send(a, clients, ASKS);
    asks_collect(clients, ASKS);
    asks_expect(a, "held");
    asks_expect(busy, "busy");
    uint64_t longest = 0;
    for (size_t i = 0; i < ASKS; i++) {
        uint64_t ns = a->list[i].meta.queue_ns;
        if (ns > longest) longest = ns;
    }
    fprintf(stderr, "held %llu us at most, %zu with others\n", (unsigned long long)longest / 1000,
            asks_batched(a));
    cr_assert_gt(asks_batched(a), ASKS / 2);
    cr_assert_lt(longest, (uint64_t)scaled_ms(2 * HELD_MS) * 1000000);
    asks_disconnect(clients, ASKS);
    cr_assert_eq(ea_collection_drop(c, t.name), EA_OK);
    ea_close(c);
    asks_free(a);
    asks_free(busy);
    set_free(&t);
    scene_close(&s);
}
