/* The daemon's data over its ends: stops, kills, and snapshots that are damaged. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <xxhash.h>

#include "tests/support/persist_house.h"
#include "tests/support/scene.h"
#include "tests/support/sets.h"

enum { D = 24, ROWS = 600, NODES = 300, EDGES = 3000, QUESTIONS = 10000 };

struct keeper {
    char folder[64], setting[96];
    const char *settings[5];
    struct daemon_process daemon;
    ea_client *client;
    float *rows;
};

static void open_keeper(struct keeper *k)
{
    memset(k, 0, sizeof *k);
    persist_house_folder(k->folder);
    snprintf(k->setting, sizeof k->setting, "persist.dir=%s", k->folder);
    k->settings[0] = k->setting;
    k->settings[1] = "workers.count=2";
    k->settings[2] = "workers.pin=false";
    k->settings[3] = "gpu.devices=none";
    daemon_start(&k->daemon, k->settings);
    ea_options options = {.socket_path = k->daemon.socket_path,
                          .space = "kept",
                          .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &k->client), EA_OK);
    k->rows = malloc(sizeof(float) * ROWS * D);
    reference_fill(7, k->rows, (size_t)ROWS * D);
}

static void close_keeper(struct keeper *k)
{
    ea_close(k->client);
    cr_assert_eq(daemon_stop(&k->daemon), 0);
    persist_house_remove(k->folder);
    free(k->rows);
}

static void fill(const struct keeper *k)
{
    uint64_t ids[ROWS], from[EDGES], to[EDGES];
    float weights[EDGES];
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = 9000 - 11 * i;
    for (uint64_t i = 0; i < EDGES; i++) {
        from[i] = i * i % NODES;
        to[i] = (i * 31 + 7) % NODES;
        weights[i] = k->rows[i];
    }
    cr_assert_eq(ea_collection_create(k->client, "rows", D, EA_COSINE, NULL), EA_OK, "%s",
                 ea_error_text(k->client));
    const ea_rows rows = {
        .collection = "rows", .ids = ids, .rows = k->rows, .count = ROWS, .dimension = D};
    cr_assert_eq(ea_upsert(k->client, &rows, NULL), EA_OK);
    cr_assert_eq(ea_graph_create(k->client, "web", NULL), EA_OK);
    const ea_graph_edges edges = {
        .sources = from, .targets = to, .weights = weights, .count = EDGES};
    cr_assert_eq(ea_graph_add_edges(k->client, "web", &edges, NULL), EA_OK);
}

/* The bits of the answers of so many questions of four kinds, all together, and their versions. */
static uint64_t ask_all(const struct keeper *k, int questions)
{
    XXH3_state_t *sum = XXH3_createState();
    ea_result r = {0};
    ea_spread_result s = {0};
    ea_completed c = {0};
    const float bound = 0.2f;
    XXH3_64bits_reset(sum);
    for (int i = 0; i < questions; i++) {
        const float *query = k->rows + (size_t)(i * 13 % (ROWS - 1)) * D + i % 7;
        uint64_t seed = (uint64_t)i % NODES;
        ea_status st = EA_OK;
        uint64_t version = 0;
        if (i % 4 == 0) {
            st = ea_knn(k->client,
                        &(ea_knn_question){
                            .collection = "rows", .queries = query, .query_count = 1, D, .k = 10},
                        &r);
        } else if (i % 4 == 1) {
            st = ea_similarity(k->client,
                               &(ea_similarity_question){.collection = "rows",
                                                         .queries = query,
                                                         .query_count = 1,
                                                         .dimension = D,
                                                         .threshold = &bound},
                               &r);
        } else if (i % 4 == 2) {
            st = ea_spread(k->client, "web", &(ea_spread_options){.mode = EA_LINEAR, .hops = 3},
                           &(ea_seeds){.ids = &seed, .count = 1}, &s);
            XXH3_64bits_update(sum, s.ids, s.count * sizeof *s.ids);
            XXH3_64bits_update(sum, s.activations, s.count * sizeof *s.activations);
            version = s.meta->version;
        } else {
            st = ea_complete(k->client,
                             &(ea_complete_question){.collection = "rows",
                                                     .states = query,
                                                     .state_count = 1,
                                                     .dimension = D,
                                                     .beta = 8,
                                                     .rounds = 3},
                             &c);
            XXH3_64bits_update(sum, c.states, c.columns * sizeof *c.states);
            XXH3_64bits_update(sum, c.energies, sizeof *c.energies);
            version = c.meta->version;
        }
        cr_assert_eq(st, EA_OK, "%s", ea_error_text(k->client));
        if (i % 4 < 2) {
            uint64_t count = i % 4 ? r.offsets[1] : r.columns;
            XXH3_64bits_update(sum, r.ids, count * sizeof *r.ids);
            XXH3_64bits_update(sum, r.scores, count * sizeof *r.scores);
            version = r.meta->version;
        }
        XXH3_64bits_update(sum, &version, sizeof version);
    }
    uint64_t bits = XXH3_64bits_digest(sum);
    XXH3_freeState(sum);
    ea_result_free(&r);
    ea_spread_result_free(&s);
    ea_completed_free(&c);
    return bits;
}

/* As systemd does: SIGTERM, and started again when it has ended. */
static void stop_and_start(struct keeper *k)
{
    int status;
    cr_assert_eq(kill(k->daemon.pid, SIGTERM), 0);
    cr_assert_eq(waitpid(k->daemon.pid, &status, 0), k->daemon.pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    daemon_restart(&k->daemon, k->settings);
}

static uint64_t instance_of(const struct keeper *k)
{
    /* The first request finds the old connection closed, or what was saved still on its way. */
    static ea_info info;
    int64_t until = give_up_ms();
    while (ea_get_info(k->client, &info) != EA_OK || !info.ready)
        cr_assert(now_ms() < until, "%s", ea_error_text(k->client));
    return ea_instance(k->client);
}

Test(persist, answers_are_the_same_after_a_stop)
{
    struct keeper k;
    open_keeper(&k);
    fill(&k);
    uint64_t instance = instance_of(&k), bits = ask_all(&k, QUESTIONS);
    stop_and_start(&k);
    cr_assert_eq(instance_of(&k), instance);
    cr_assert_eq(ask_all(&k, QUESTIONS), bits);
    close_keeper(&k);
}

/* What `engram-accel verify` says of the folder, which has a file of tokens. */
static int verify_tokens(const struct keeper *k, bool broken)
{
    char program[256], command[512], snapshot[128];
    size_t bytes;
    snprintf(snapshot, sizeof snapshot, "%s/snapshot-000000000001", k->folder);
    char *data = persist_house_read(snapshot, "tokens.npy", &bytes);
    if (broken) data[bytes / 2] ^= 1;
    persist_house_write(snapshot, "tokens.npy", data, bytes);
    if (broken) data[bytes / 2] ^= 1;
    build_path("engram-accel", program, sizeof program);
    snprintf(command, sizeof command, "%s verify %s >/dev/null 2>&1", program, k->folder);
    int status = system(command); /* NOLINT(cert-env33-c) */
    persist_house_write(snapshot, "tokens.npy", data, bytes);
    free(data);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A repetition after the restart gets the first one's answer, and applies nothing. */
Test(persist, a_write_is_known_by_its_token_after_a_stop)
{
    struct keeper k;
    uint64_t id = 5;
    ea_upsert_counts counts = {0};
    ea_collection_info before, after;
    const ea_write write = {.token = {11, 12}};
    open_keeper(&k);
    fill(&k);
    const ea_rows rows = {.collection = "rows",
                          .ids = &id,
                          .rows = k.rows,
                          .count = 1,
                          .dimension = D,
                          .write = &write};
    cr_assert_eq(ea_upsert(k.client, &rows, &counts), EA_OK, "%s", ea_error_text(k.client));
    cr_assert_eq(counts.inserted, 1);
    cr_assert_eq(ea_collection_describe(k.client, "rows", &before), EA_OK);
    uint64_t instance = instance_of(&k);
    stop_and_start(&k);
    cr_assert_eq(instance_of(&k), instance, "tokens do not cost the instance");
    counts = (ea_upsert_counts){0};
    cr_assert_eq(ea_upsert(k.client, &rows, &counts), EA_OK, "%s", ea_error_text(k.client));
    cr_assert(counts.inserted == 1 && counts.replaced == 0, "the first one's answer");
    cr_assert_eq(ea_collection_describe(k.client, "rows", &after), EA_OK);
    cr_assert_eq(after.version, before.version, "nothing was applied");
    cr_assert_eq(verify_tokens(&k, false), 0);
    cr_assert_eq(verify_tokens(&k, true), 1);
    id = 6; /* another request */
    cr_assert_eq(ea_upsert(k.client, &rows, &counts), EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_error_detail(k.client), EA_DETAIL_TOKEN_REUSED);
    close_keeper(&k);
}

Test(persist, a_kill_leaves_what_was_saved_under_a_new_instance)
{
    struct keeper k;
    uint64_t id = 1;
    ea_upsert_counts counts;
    open_keeper(&k);
    fill(&k);
    uint64_t bits = ask_all(&k, 100);
    stop_and_start(&k);
    uint64_t instance = instance_of(&k);
    const ea_rows rows = {
        .collection = "rows", .ids = &id, .rows = k.rows, .count = 1, .dimension = D};
    cr_assert_eq(ea_upsert(k.client, &rows, &counts), EA_OK, "%s", ea_error_text(k.client));
    cr_assert_eq(counts.inserted, 1);
    daemon_kill(&k.daemon);
    daemon_restart(&k.daemon, k.settings);
    cr_assert_neq(instance_of(&k), instance);
    cr_assert_eq(ask_all(&k, 100), bits); /* without the row */
    close_keeper(&k);
}

Test(persist, a_damaged_snapshot_stops_the_start_or_is_salvaged)
{
    struct keeper k;
    char program[256], command[768], snapshot[128];
    size_t bytes;
    open_keeper(&k);
    fill(&k);
    stop_and_start(&k);
    daemon_kill(&k.daemon);
    snprintf(snapshot, sizeof snapshot, "%s/snapshot-000000000001", k.folder);
    char *data = persist_house_read(snapshot, "000001-rows.npy", &bytes);
    data[bytes / 2] ^= 4;
    persist_house_write(snapshot, "000001-rows.npy", data, bytes);
    free(data);
    build_path("engram-acceld", program, sizeof program);
    snprintf(command, sizeof command, "%s --verify %s >/dev/null", program, k.folder);
    int status = system(command); /* NOLINT(cert-env33-c) */
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    snprintf(command, sizeof command, "%s -S %s -s %s 2>>%s", program, k.daemon.socket_path,
             k.setting, k.daemon.log_path);
    status = system(command); /* NOLINT(cert-env33-c) */
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    cr_assert(daemon_logged(&k.daemon, "000001-rows.npy: byte 0"));
    k.settings[1] = "persist.load=salvage";
    daemon_restart(&k.daemon, k.settings);
    wait_logged(&k.daemon, "space kept, rows: left out");
    ea_graph_info info;
    instance_of(&k);
    cr_assert_eq(ea_graph_describe(k.client, "web", &info), EA_OK);
    cr_assert_eq(info.edges, EDGES);
    cr_assert_eq(ea_collection_describe(k.client, "rows", &(ea_collection_info){0}), EA_NOT_FOUND);
    close_keeper(&k);
}

/* The folder that it saves to has gone. */
Test(persist, a_stop_that_cannot_save_says_so_by_its_exit_status)
{
    struct keeper k;
    open_keeper(&k);
    fill(&k);
    persist_house_remove(k.folder);
    ea_close(k.client);
    cr_assert_eq(daemon_stop(&k.daemon), 3);
    free(k.rows);
}
