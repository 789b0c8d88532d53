/* test-run: timeout=1800
 * The scheduler in random worlds, one per seed: whatever clients, servers and memory do, nothing is
 * lost or done twice, sums are right, nobody waits for ever, nobody idles beside work, and the same
 * seed is the same story. ENGRAM_SEED=n: that world alone, with its trace. ENGRAM_TEST_LONG=1:
 * 1,000,000 seeds. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/sim_world.h"

enum { SEEDS = 10000, SEEDS_LONG = 1000000 };

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* Chance for the settings comes from a world that never runs. */
static struct sim_settings settings_of(uint64_t seed, struct sim_world *dice)
{
    dice->random = seed * 2 + 1;
#define ONE_OF(...) \
    ((const uint64_t[]){__VA_ARGS__}[sim_random(dice, sizeof(uint64_t[]){__VA_ARGS__} / 8)])
#define SOMETIMES(probability) (sim_chance(dice, 0.5) ? (probability) : 0)
    struct sim_settings settings = {
        .seed = seed,
        .tenants = 1 + (uint32_t)sim_random(dice, 8),
        .clients = 1 + (uint32_t)sim_random(dice, 12),
        .gpus = (uint32_t)ONE_OF(0, 1, 1, 1, 2),
        .queue_max = (uint32_t)ONE_OF(0, 0, 4, 32),
        .truth = {{.fixed = 5e3, .per_row = 4, .per_pair = 1},
                  {.fixed = 30e3, .per_row = 0.1, .per_pair = (double)ONE_OF(2, 30, 80) / 100}},
        .noise = (double)ONE_OF(0, 1, 3) / 4,
        .scramble = (double)ONE_OF(0, 1, 20000, 300000),
        .put_back = SOMETIMES(0.05),
        .let_down = SOMETIMES(0.1),
        .give_back = SOMETIMES(0.1),
        .no_split = SOMETIMES(0.5),
        .cancel = SOMETIMES(0.2),
        .deadline = SOMETIMES(0.2),
        .filter = SOMETIMES(0.3),
        .no_replica = SOMETIMES(0.3),
        .gpu_up_ns = SOMETIMES(5 * MS),
        .gpu_down_ns = 1 * MS,
        .check = true,
        .shared_keys = sim_chance(dice, 0.5),
    };
    settings.scheduler = (struct scheduler_settings){
        .speedup_min = 1.5,
        .success_min = 0.95,
        .pairs_min = 64,
        .candidates_min = 1024,
        .window_ns = ONE_OF(10, 100, 1000) * US,
        .quantum_ns = ONE_OF(1, 50, 500) * US,
        .age_ns = ONE_OF(100, 1000, 20000) * US,
        .batch_wait_ns = ONE_OF(0, 50, 500) * US,
        .batch_queries_max = ONE_OF(1, 32, 256),
        .batch_requests_max = ONE_OF(1, 8, 256),
        .batch_bytes_max = ONE_OF(1 << 12, 1 << 26),
        .split = sim_chance(dice, 0.5),
        .force = (enum force)ONE_OF(FORCE_NONE, FORCE_NONE, FORCE_NONE, FORCE_NONE, FORCE_CPU,
                                    FORCE_GPU),
    };
    for (uint32_t i = 0; i < settings.tenants; i++)
        settings.weights[i] = (uint32_t)ONE_OF(1, 1, 2, 7, 1000);
    bool strangers = sim_chance(dice, 0.5);
    for (uint32_t i = 0; strangers && i < settings.tenants; i++)
        settings.principals[i] = 1 + (uint32_t)sim_random(dice, 3);
    return settings;
}

static void people(struct sim_world *w, struct sim_world *dice)
{
    for (uint32_t i = 0; i < w->settings.clients; i++) {
        bool large = sim_chance(dice, 0.3);
        w->clients[i] = (struct sim_client){
            .tenant = (uint32_t)sim_random(dice, w->settings.tenants),
            .key = (uint32_t)sim_random(dice, SIM_KEYS + 1),
            .random_key = sim_chance(dice, 0.3),
            .queries = {1, large ? 400 : ONE_OF(1, 8)},
            .rows = {ONE_OF(10, 1000), large ? 100000 : 2000},
            .k = {1, ONE_OF(1, 10, 1000)},
            .outstanding = (uint32_t)ONE_OF(1, 1, 4, 24),
            .requests = 1 + sim_random(dice, 40),
            .think_ns = ONE_OF(0, 0, 20, 500) * US,
        };
    }
}

struct totals {
    uint64_t sent, done, cancelled, refused, dispatches, put_backs, gave_up, waited_most_ns;
    struct scheduler_counters counters;
};

static uint64_t story(uint64_t seed, FILE *trace, struct totals *totals)
{
    static struct sim_world dice;
    struct sim_settings settings = settings_of(seed, &dice);
    settings.trace = trace;
    struct sim_world *w = sim_open(&settings);
    people(w, &dice);
    sim_run(w, UINT64_MAX); /* until all was sent and has ended */
    uint64_t hash = w->hash;
    if (totals) {
        const uint64_t *from = (const uint64_t *)&w->scheduler.counters;
        uint64_t *to = (uint64_t *)&totals->counters;
        for (uint32_t i = 0; i < sizeof totals->counters / sizeof *to; i++)
            to[i] += from[i];
        totals->sent += w->sent;
        totals->done += w->done;
        totals->cancelled += w->cancelled;
        totals->refused += w->refused;
        totals->dispatches += w->dispatches;
        totals->put_backs += w->put_backs;
        totals->gave_up += w->gave_up;
        if (w->waited_most_ns > totals->waited_most_ns) totals->waited_most_ns = w->waited_most_ns;
    }
    sim_close(w);
    return hash;
}

#define SHOW(name, value) printf(" %s %llu", name, (unsigned long long)(value))

Test(sim_scheduler, every_seed_ends_well)
{
    uint64_t only = number_from("ENGRAM_SEED", 0);
    if (only) {
        story(only, stdout, NULL);
        return;
    }
    uint64_t count = getenv("ENGRAM_TEST_LONG") ? SEEDS_LONG : SEEDS;
    struct totals totals = {0};
    for (uint64_t seed = 1; seed <= count; seed++)
        story(seed, NULL, &totals);
    printf("# seeds 1 to %llu:", (unsigned long long)count);
    SHOW("sent", totals.sent);
    SHOW("done", totals.done);
    SHOW("cancelled", totals.cancelled);
    SHOW("refused", totals.refused);
    SHOW("dispatches", totals.dispatches);
    SHOW("put back", totals.put_backs);
    SHOW("given up", totals.gave_up);
    SHOW("batches", totals.counters.batches);
    SHOW("of", totals.counters.batched_requests);
    SHOW("shrunk", totals.counters.shrunk_batches);
    SHOW("splits", totals.counters.splits);
    SHOW("steals", totals.counters.steals);
    SHOW("probes", totals.counters.probes);
    SHOW("aged", totals.counters.aged);
    SHOW("passes", totals.counters.passes);
    printf("; longest wait of a line %.1f ms\n", (double)totals.waited_most_ns / 1e6);
    /* Worlds in which nothing of it happens prove nothing. */
    const uint64_t *counted = (const uint64_t *)&totals.counters;
    for (uint32_t i = 0; i < sizeof totals.counters / sizeof *counted; i++)
        cr_assert_gt(counted[i], count / 100, "counter %u", i);
    cr_assert(totals.cancelled && totals.refused && totals.put_backs && totals.gave_up);
}

/* Byte for byte: the traces themselves, not only their hashes. */
Test(sim_scheduler, the_same_seed_is_the_same_story)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        char *text[2] = {0};
        size_t bytes[2];
        uint64_t hash[2];
        for (int i = 0; i < 2; i++) {
            FILE *f = open_memstream(&text[i], &bytes[i]);
            cr_assert(f);
            hash[i] = story(seed, f, NULL);
            fclose(f);
        }
        cr_assert_eq(hash[0], hash[1], "seed %llu", (unsigned long long)seed);
        cr_assert(bytes[0] == bytes[1] && !memcmp(text[0], text[1], bytes[0]), "seed %llu",
                  (unsigned long long)seed);
        cr_assert_gt(bytes[0], 0);
        free(text[0]);
        free(text[1]);
    }
    cr_assert_neq(story(1, NULL, NULL), story(2, NULL, NULL));
}
