#include "tests/support/data_place.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "tests/support/persist_house.h"
#include "tests/support/reference.h"
#include "tests/support/scene.h"

ea_client *place_client(const struct data_place *p)
{
    ea_client *c = NULL;
    ea_options options = {.socket_path = p->daemon.socket_path,
                          .space = "kept",
                          .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    return c;
}

void place_open(struct data_place *p, const char *more)
{
    memset(p, 0, sizeof *p);
    persist_house_folder(p->folder);
    snprintf(p->setting, sizeof p->setting, "persist.dir=%s", p->folder);
    p->settings[0] = p->setting;
    p->settings[1] = "workers.count=2";
    p->settings[2] = "workers.pin=false";
    p->settings[3] = more;
    daemon_start(&p->daemon, p->settings);
    p->client = place_client(p);
    p->rows = malloc(sizeof(float) * PLACE_ROWS * PLACE_D);
    reference_fill(7, p->rows, (size_t)PLACE_ROWS * PLACE_D);
}

void place_close(struct data_place *p)
{
    ea_close(p->client);
    cr_assert_eq(daemon_stop(&p->daemon), 0);
    persist_house_remove(p->folder);
    free(p->rows);
}

/* With a token, so that the write can be repeated later. */
void place_delete_tagged(const struct data_place *p, uint64_t id, ea_status want)
{
    ea_write w = {.token = {1, 2, 3, 4}};
    ea_delete_counts counts = {0};
    cr_assert_eq(ea_next_write(p->client, &w), EA_OK);
    cr_assert_eq(ea_delete(p->client, "rows", &id, 1, &counts), want, "%s",
                 ea_error_text(p->client));
    if (!want) cr_assert_eq(counts.deleted, 1);
}

void place_fill(const struct data_place *p)
{
    uint64_t *ids = malloc(PLACE_ROWS * sizeof *ids), from[PLACE_EDGES], to[PLACE_EDGES];
    float weights[PLACE_EDGES];
    ea_client *c = p->client;
    for (uint64_t i = 0; i < PLACE_ROWS; i++)
        ids[i] = 900000 - 11 * i;
    for (uint64_t i = 0; i < PLACE_EDGES; i++) {
        from[i] = i * i % PLACE_NODES;
        to[i] = (i * 31 + 7) % PLACE_NODES;
        weights[i] = p->rows[i];
    }
    cr_assert_eq(ea_collection_create(c, "rows", PLACE_D, EA_COSINE, NULL), EA_OK, "%s",
                 ea_error_text(c));
    const ea_rows rows = {.collection = "rows",
                          .ids = ids,
                          .rows = p->rows,
                          .count = PLACE_ROWS,
                          .dimension = PLACE_D};
    cr_assert_eq(ea_upsert(c, &rows, NULL), EA_OK);
    cr_assert_eq(ea_graph_create(c, "web", NULL), EA_OK);
    const ea_graph_edges edges = {
        .sources = from, .targets = to, .weights = weights, .count = PLACE_EDGES};
    cr_assert_eq(ea_graph_add_edges(c, "web", &edges, NULL), EA_OK);
    place_delete_tagged(p, 900000 - 11, EA_OK);
    free(ids);
}

static void add(XXH3_state_t *sum, const void *data, size_t bytes)
{
    if (bytes) XXH3_64bits_update(sum, data, bytes);
}

/* Whose the data are, and the bits of some answers with the versions. */
/* What is saved may still be on its way. */
static void wait_loaded(const struct data_place *p)
{
    ea_collection_info rows;
    ea_graph_info web;
    while (ea_collection_describe(p->client, "rows", &rows) == EA_UNAVAILABLE ||
           ea_graph_describe(p->client, "web", &web) == EA_UNAVAILABLE)
        wait_ms(1);
}

struct data_state place_look(const struct data_place *p)
{
    wait_loaded(p);
    XXH3_state_t *sum = XXH3_createState();
    ea_result r = {0};
    ea_spread_result s = {0};
    XXH3_64bits_reset(sum);
    for (int i = 0; i < PLACE_ASKS; i++) {
        uint64_t seed = (uint64_t)i % PLACE_NODES;
        const ea_knn_question q = {.collection = "rows",
                                   .queries = p->rows + (size_t)i * 977 * PLACE_D,
                                   .query_count = 1,
                                   .dimension = PLACE_D,
                                   .k = 10};
        cr_assert_eq(ea_knn(p->client, &q, &r), EA_OK, "%s", ea_error_text(p->client));
        add(sum, r.ids, r.columns * sizeof *r.ids);
        add(sum, r.scores, r.columns * sizeof *r.scores);
        add(sum, &r.meta->version, sizeof r.meta->version);
        cr_assert_eq(ea_spread(p->client, "web", &(ea_spread_options){.mode = EA_LINEAR, .hops = 3},
                               &(ea_seeds){.ids = &seed, .count = 1}, &s),
                     EA_OK, "%s", ea_error_text(p->client));
        add(sum, s.ids, s.count * sizeof *s.ids);
        add(sum, s.activations, s.count * sizeof *s.activations);
        add(sum, &s.meta->version, sizeof s.meta->version);
    }
    struct data_state all = {ea_instance(p->client), ea_generation(p->client),
                             XXH3_64bits_digest(sum)};
    XXH3_freeState(sum);
    ea_result_free(&r);
    ea_spread_result_free(&s);
    return all;
}

void place_expect(const struct data_place *p, const struct data_state *want)
{
    struct data_state now = place_look(p);
    cr_assert_eq(now.instance, want->instance);
    cr_assert_eq(now.generation, want->generation);
    cr_assert_eq(now.bits, want->bits);
}

void place_close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

void place_wait_logged(const struct data_place *p, const char *text, int times)
{
    int found = 0;
    while (found < times) {
        size_t bytes;
        char *log = persist_house_read(p->daemon.directory, "log", &bytes);
        log = realloc(log, bytes + 1);
        log[bytes] = 0;
        found = 0;
        for (const char *at = log; (at = strstr(at, text)); at++)
            found++;
        free(log);
        wait_ms(1);
    }
}
