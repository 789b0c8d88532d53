/* test-run: timeout=900
 * Who gets how much, in simulated worlds: shares of device time, waiting beside a greedy neighbour,
 * what batches gain and what they cost a client alone, and a backend that turns slow. Each prints a
 * line of figures. */
#include <criterion/criterion.h>
#include <math.h>

#include "tests/support/sim_world.h"

#define US     UINT64_C(1000)
#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

/* One CPU and gpus GPUs whose costs the model knows; the daemon's own settings. */
static struct sim_settings settings_of(uint32_t tenants, uint32_t clients, uint32_t gpus)
{
    return (struct sim_settings){
        .seed = 11,
        .tenants = tenants,
        .clients = clients,
        .gpus = gpus,
        .truth = {{.fixed = 5e3, .per_row = 0, .per_pair = 1},
                  {.fixed = 30e3, .per_row = 0.1, .per_pair = 0.02}},
        .noise = 0.2,
        .scheduler =
            {
                .speedup_min = 1.5,
                .success_min = 0.95,
                .pairs_min = 64,
                .candidates_min = 1024,
                .window_ns = MS,
                .quantum_ns = 500 * US,
                .age_ns = SECOND,
                .batch_wait_ns = 500 * US,
                .batch_queries_max = 256,
                .batch_requests_max = 256,
                .batch_bytes_max = 64 << 20,
            },
    };
}

/* A client that sends the same all the time, so many at once. */
static struct sim_client client_of(uint32_t tenant, uint32_t key, uint64_t rows,
                                   uint32_t outstanding)
{
    return (struct sim_client){
        .tenant = tenant,
        .key = key,
        .queries = {1, 1},
        .rows = {rows, rows},
        .k = {10, 10},
        .outstanding = outstanding,
        .requests = UINT64_MAX,
    };
}

static double jain(const double *shares, uint32_t count)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += shares[i];
        squares += shares[i] * shares[i];
    }
    return sum * sum / (count * squares);
}

static double busy_ms(const struct sim_world *w, uint32_t tenant)
{
    const struct tenant *t = w->tenants[tenant];
    return (double)(t->busy_ns[0] + t->busy_ns[1]) / 1e6;
}

/* ---------------------------------------------------------------- a greedy neighbour */

enum { NEIGHBOURS = 16, GREED = 100, GREEDY_SIZE = 10 };

/* The worst of the others' 99th percentiles, in ns; shares: of every tenant, in ms. */
static uint64_t with_neighbours(bool greedy, uint32_t outstanding, bool gpu,
                                double shares[NEIGHBOURS])
{
    struct sim_settings settings = settings_of(NEIGHBOURS, NEIGHBOURS, gpu);
    struct sim_world *w = sim_open(&settings);
    w->keep_latency = true;
    for (uint32_t i = 0; i < NEIGHBOURS; i++) {
        bool greed = greedy && i == 0;
        uint64_t size = greed ? GREEDY_SIZE : 1;
        /* 1 ms on the CPU; with a GPU, batches of one's own collection. */
        w->clients[i] = client_of(i, gpu ? 0 : SIM_KEYS, gpu ? 1000000 : size * 1000000,
                                  outstanding * (greed ? GREED : 1));
        if (gpu) w->clients[i].queries = (struct sim_range){size, size};
    }
    if (!greedy) w->clients[0].requests = 0;
    sim_run(w, 20 * SECOND);
    uint64_t worst = 0;
    for (uint32_t i = 0; i < NEIGHBOURS; i++) {
        shares[i] = (double)w->tenants[i]->busy_ns[gpu] / 1e6;
        uint64_t p99 = sim_latency_ns(&w->clients[i], 0.99);
        if (i && p99 > worst) worst = p99;
    }
    sim_close(w);
    return worst;
}

static void expect_fairness(uint32_t outstanding, bool gpu)
{
    double shares[NEIGHBOURS];
    uint64_t without = with_neighbours(false, outstanding, gpu, shares);
    uint64_t with = with_neighbours(true, outstanding, gpu, shares);
    double index = jain(shares, NEIGHBOURS);
    printf("# 16 tenants, %s, %u at once, one with %u of 10 times the size: Jain %.4f, others' p99 "
           "%.2f ms, without it %.2f ms (%.2f x)\n",
           gpu ? "GPU" : "CPU", outstanding, outstanding * GREED, index, (double)with / 1e6,
           (double)without / 1e6, (double)with / (double)without);
    cr_assert_geq(index, 0.95);
    cr_assert_leq(with, 2 * without);
}

Test(sim_fairness, a_greedy_neighbour_gets_its_share_and_no_more)
{
    for (uint32_t outstanding = 1; outstanding <= 16; outstanding *= 4)
        expect_fairness(outstanding, false);
}

Test(sim_fairness, nor_with_batches_on_a_gpu)
{
    for (uint32_t outstanding = 1; outstanding <= 16; outstanding *= 4)
        expect_fairness(outstanding, true);
}

/* ---------------------------------------------------------------- a stranger with many names */

enum { STRANGER_SPACES = 64, VICTIM = STRANGER_SPACES };

struct suffered {
    uint64_t p99_ns, asked, answered;
    double share; /* of the server's time, where the victim always asks */
};

/* A victim's requests of 1 ms beside a stranger's so many spaces, which ask all the time. */
static struct suffered beside_strangers(uint32_t spaces, uint32_t outstanding, bool gpu)
{
    struct sim_settings settings = settings_of(STRANGER_SPACES + 1, STRANGER_SPACES + 1, gpu);
    for (uint32_t i = 0; i < STRANGER_SPACES; i++)
        settings.principals[i] = 1;
    struct sim_world *w = sim_open(&settings);
    w->keep_latency = true;
    for (uint32_t i = 0; i <= STRANGER_SPACES; i++) {
        w->clients[i] =
            client_of(i, SIM_KEYS, gpu ? 8000000 : 1000000, i == VICTIM ? outstanding : 64);
        if (i >= spaces && i != VICTIM) w->clients[i].requests = 0;
    }
    if (outstanding == 1) w->clients[VICTIM].think_ns = 20 * MS;
    sim_run(w, 20 * SECOND);
    const struct sim_client *victim = &w->clients[VICTIM];
    double all = 0;
    for (uint32_t i = 0; i <= STRANGER_SPACES; i++)
        all += busy_ms(w, i);
    struct suffered s = {
        .p99_ns = sim_latency_ns(&w->clients[VICTIM], 0.99),
        .asked = victim->sent,
        .answered = victim->latency_count,
        .share = busy_ms(w, VICTIM) / all,
    };
    sim_close(w);
    return s;
}

static void expect_no_gain(bool gpu)
{
    struct suffered alone = beside_strangers(0, 1, gpu);
    for (uint32_t spaces = 1; spaces <= STRANGER_SPACES; spaces *= spaces == 4 ? 16 : 4) {
        struct suffered s = beside_strangers(spaces, 1, gpu);
        double share = beside_strangers(spaces, 64, gpu).share;
        printf("# %s, beside %2u spaces of one stranger: %llu of %llu answered, p99 %.2f ms, alone "
               "%.2f (%.2f x); share when busy %.3f\n",
               gpu ? "GPU" : "CPU", spaces, (unsigned long long)s.answered,
               (unsigned long long)s.asked, (double)s.p99_ns / 1e6, (double)alone.p99_ns / 1e6,
               (double)s.p99_ns / (double)alone.p99_ns, share);
        cr_assert_geq(s.answered + 1, s.asked);
        cr_assert_leq(s.p99_ns, 4 * alone.p99_ns);
        cr_assert_gt(share, 0.48);
    }
}

Test(sim_fairness, a_stranger_gains_nothing_by_inventing_spaces)
{
    expect_no_gain(false);
}

Test(sim_fairness, nor_on_a_gpu)
{
    expect_no_gain(true);
}

/* ---------------------------------------------------------------- weights */

Test(sim_fairness, shares_follow_weights)
{
    struct sim_settings settings = settings_of(3, 3, 0);
    for (uint32_t i = 0; i < 3; i++)
        settings.weights[i] = 1 << i;
    struct sim_world *w = sim_open(&settings);
    for (uint32_t i = 0; i < 3; i++) /* of three sizes: 3, 1 and 0.2 ms */
        w->clients[i] = client_of(i, SIM_KEYS, (const uint64_t[]){3000000, 1000000, 200000}[i], 16);
    sim_run(w, 20 * SECOND);
    double all = busy_ms(w, 0) + busy_ms(w, 1) + busy_ms(w, 2);
    printf("# weights 1 : 2 : 4: shares");
    for (uint32_t i = 0; i < 3; i++) {
        double share = busy_ms(w, i) / all, fair = (1 << i) / 7.0;
        printf(" %.4f (%+.2f %%)", share, 100 * (share / fair - 1));
        cr_assert_lt(fabs(share / fair - 1), 0.05, "tenant %u has %.3f", i, share);
    }
    printf("\n");
    sim_close(w);
}

/* ---------------------------------------------------------------- batches */

/* Requests done in a second by so many clients of one query each, on one collection of 1,000,000
 * rows: a scan of 700 us that all queries share, and 2 us for each. */
static double batched(uint32_t clients, bool batches, uint64_t enqueue_ns, double *p50_ms,
                      double *p99_ms)
{
    struct sim_settings settings = settings_of(1, clients, 1);
    settings.enqueue_ns = enqueue_ns;
    settings.truth[0] = (struct sim_truth){.fixed = 5e3, .per_row = 70, .per_pair = 0.2};
    settings.truth[1] = (struct sim_truth){.fixed = 20e3, .per_row = 0.7, .per_pair = 0.002};
    settings.noise = 0.05;
    if (!batches) settings.scheduler.batch_requests_max = 1;
    struct sim_world *w = sim_open(&settings);
    w->keep_latency = true;
    for (uint32_t i = 0; i < clients; i++) {
        w->clients[i] = client_of(0, batches ? 0 : SIM_KEYS, 1000000, 1);
        w->clients[i].think_ns = 10 * US;
    }
    sim_run(w, 2 * SECOND);
    struct sim_client *c = &w->clients[clients / 2];
    *p50_ms = (double)sim_latency_ns(c, 0.5) / 1e6;
    *p99_ms = (double)sim_latency_ns(c, 0.99) / 1e6;
    double done = (double)w->done / 2;
    sim_close(w);
    return done;
}

Test(sim_fairness, clients_of_one_collection_share_its_scans)
{
    double p50[2], p99[2];
    double alone = batched(64, false, 0, &p50[0], &p99[0]),
           with = batched(64, true, 0, &p50[1], &p99[1]);
    printf("# 64 clients of one query: %.0f requests/s (p99 %.2f ms) without batches, %.0f (p50 "
           "%.2f, p99 %.2f ms) with: %.1f x\n",
           alone, p99[0], with, p50[1], p99[1], with / alone);
    cr_assert_geq(with, 10 * alone);
    cr_assert_leq(p99[1], p99[0]);
}

/* However long it takes to wake the loop and to enqueue a batch, the card is handed the next one in
 * time. */
Test(sim_fairness, batches_are_handed_over_in_time_by_a_slow_hand)
{
    double p50, p99, quick = batched(64, true, 20 * US, &p50, &p99);
    for (uint64_t us = 100; us <= 500; us += 100) {
        double slow = batched(64, true, us * US, &p50, &p99);
        printf("# 64 clients of one query, %llu us to enqueue a batch: %.0f requests/s, p99 %.2f "
               "ms; 20 us: %.0f\n",
               (unsigned long long)us, slow, p99, quick);
        cr_assert_geq(slow, 0.9 * quick);
    }
}

Test(sim_fairness, a_client_alone_waits_for_nobody)
{
    double p50[2], p99[2];
    double without = batched(1, false, 0, &p50[0], &p99[0]),
           with = batched(1, true, 0, &p50[1], &p99[1]);
    printf("# one client: %.0f requests/s, p50 %.4f, p99 %.4f ms without batches; %.0f, %.4f, "
           "%.4f ms with\n",
           without, p50[0], p99[0], with, p50[1], p99[1]);
    cr_assert_eq(with, without);
    cr_assert_eq(p50[0], p50[1]);
    cr_assert_eq(p99[0], p99[1]);
}

/* ---------------------------------------------------------------- a backend turns slow */

/* Requests until of the last 20 at least 18 went to the server that is the better one now. */
static uint32_t requests_until(struct sim_world *w, uint32_t better)
{
    uint32_t recent = 0, count = 0;
    while (count < 2000) {
        uint64_t before = w->done, on = w->done_on[better];
        while (w->done == before)
            sim_run(w, w->now_ns + US);
        recent = (recent << 1 | (w->done_on[better] > on)) & 0xFFFFF;
        count++;
        if (count >= 20 && __builtin_popcount(recent) >= 18) return count - 20;
    }
    return count;
}

Test(sim_fairness, a_slow_backend_is_left_and_found_again)
{
    struct sim_settings settings = settings_of(1, 1, 1);
    settings.noise = 0.1;
    settings.truth[0] = (struct sim_truth){.fixed = 5e3, .per_pair = 0.6};
    settings.truth[1] = (struct sim_truth){.fixed = 20e3, .per_pair = 0.2};
    struct sim_world *w = sim_open(&settings);
    w->clients[0] = client_of(0, SIM_KEYS, 1000000, 1);
    sim_run(w, SECOND);
    cr_assert_gt(w->done_on[SERVER_GPU], 19 * w->done_on[SERVER_CPU]);
    w->slow[SERVER_GPU] = 10;
    uint32_t left = requests_until(w, SERVER_CPU);
    sim_run(w, w->now_ns + SECOND);
    w->slow[SERVER_GPU] = 1;
    uint32_t found = requests_until(w, SERVER_GPU);
    printf("# the GPU 10 times slower: left after %u requests, found again after %u\n", left,
           found);
    cr_assert_leq(left, 50);
    cr_assert_leq(found, 300); /* probes are a bounded share of the time */
    sim_close(w);
}
