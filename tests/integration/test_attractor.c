/* Attractors and completion over a socket, beside the slow reference, bit for bit. */
/* test-run: timeout=600 */
#include "tests/support/attractor_twin.h"

static void story(ea_client *c, const char *name, uint32_t dimension, uint64_t stored,
                  uint64_t many)
{
    struct attractor_twin t = attractor_twin_create(c, name, dimension, stored);
    attractor_twin_weights(c, name, &t);
    attractor_twin_complete(c, name, &t, 1, 0, true);
    attractor_twin_learn(c, name, &t);
    attractor_twin_weights(c, name, &t);
    attractor_twin_complete(c, name, &t, 1, 1, true);
    attractor_twin_complete(c, name, &t, 1, 1, true);
    attractor_twin_complete(c, name, &t, 5, 1, false);
    attractor_twin_complete(c, name, &t, 7, 7, true);
    attractor_twin_complete(c, name, &t, many, many, true);
    OK(ea_attractor_drop(c, name));
    attractor_twin_finish(&t);
}

static void stories(const char *const *settings)
{
    struct scene s;
    scene_open(&s, settings);
    ea_client *c = scene_client(&s, "attractor");
    story(c, "small", 40, 20, 600);
    story(c, "odd", 33, 0, 65);
    story(c, "medium", 130, 300, 193);
    attractor_end(&s, c);
}

Test(attractor, one_worker_equals_the_reference)
{
    stories((const char *[]){"workers.count=1", NULL});
}

Test(attractor, three_workers_equal_the_reference)
{
    stories((const char *[]){"workers.count=3", NULL});
}

/* All of it on a card; the CPU is beside it where a collection is empty. */
Test(attractor, beside_a_card_it_equals_the_reference)
{
    stories((const char *[]){"gpu.devices=sim", "gpu.force=gpu", "gpu.min_pairs=1", NULL});
}

/* Above 1,024 dimensions sums are compensated. */
Test(attractor, a_large_one_equals_the_reference)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "large");
    struct attractor_twin t = attractor_twin_create(c, "large", 1040, 4);
    attractor_twin_learn(c, "large", &t);
    attractor_twin_weights(c, "large", &t);
    attractor_twin_complete(c, "large", &t, 2, 1, true);
    attractor_twin_complete(c, "large", &t, 1, 1, true);
    attractor_twin_complete(c, "large", &t, 1, 1, false);
    attractor_twin_finish(&t);
    attractor_end(&s, c);
}
