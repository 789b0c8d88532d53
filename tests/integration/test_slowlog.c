/* Requests that took long: kept, shown to whom they concern, logged; and telemetry that is off. A
 * card that takes 3 ms for each answer makes them, whatever this machine is like. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <cjson/cJSON.h>

#include "client/engram_accel.h"
#include "tests/support/gpu_scene.h"
#include "tests/support/scene.h"

static const float query[4] = {1, 0, 0, 0};

static ea_client *open_space(const struct daemon_process *d, const char *space)
{
    const ea_options options = {
        .socket_path = d->socket_path, .space = space, .timeout_us = UINT64_C(600000000)};
    ea_client *c;
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    return c;
}

static void fill(ea_client *c)
{
    enum { ROWS = 128 };
    static float rows[ROWS * 4];
    uint64_t ids[ROWS];
    for (uint64_t i = 0; i < ROWS; i++) {
        ids[i] = i;
        rows[4 * i + i % 4] = (float)(i + 1);
    }
    const ea_rows some = {
        .collection = "rows", .ids = ids, .rows = rows, .count = ROWS, .dimension = 4};
    cr_assert_eq(ea_collection_create(c, "rows", 4, EA_DOT, NULL), EA_OK);
    cr_assert_eq(ea_upsert(c, &some, NULL), EA_OK, "%s", ea_error_text(c));
}

static void ask(ea_client *c)
{
    ea_result r = {0};
    const ea_knn_question q = {
        .collection = "rows", .queries = query, .query_count = 1, .dimension = 4, .k = 3};
    cr_assert_eq(ea_knn(c, &q, &r), EA_OK, "%s", ea_error_text(c));
    ea_result_free(&r);
}

/* How many slow kNN of a space are in the list that c sees. */
static size_t count_knn(ea_client *c, const char *space, ea_slow_request *newest)
{
    ea_slow_request *list;
    size_t count, found = 0;
    cr_assert_eq(ea_get_slowlog(c, &list, &count, NULL), EA_OK, "%s", ea_error_text(c));
    for (size_t i = count; i-- > 0;) {
        if (strcmp(list[i].operation, "knn") != 0 || strcmp(list[i].space, space) != 0) continue;
        found++;
        if (newest) *newest = list[i];
    }
    ea_slowlog_free(list);
    return found;
}

static void expect_line(const struct daemon_process *d)
{
    char line[8192];
    bool found = false;
    FILE *in = fopen(d->log_path, "r");
    while (!found && fgets(line, sizeof line, in)) {
        cJSON *o = cJSON_Parse(line);
        const char *operation = cJSON_GetStringValue(cJSON_GetObjectItem(o, "operation"));
        if (operation && strcmp(operation, "knn") == 0) {
            found = true;
            cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(o, "space")), "alpha");
            cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(o, "name")), "rows");
            cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(o, "backend")), "gpu");
            cr_expect_geq(cJSON_GetNumberValue(cJSON_GetObjectItem(o, "total_us")), 3000);
            cr_expect_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(o, "queries")), 1);
            cr_expect(cJSON_GetObjectItem(o, "version"), "whole to its last field: %s", line);
        }
        cJSON_Delete(o);
    }
    fclose(in);
    cr_expect(found);
}

static void expect_command(const struct daemon_process *d)
{
    static char out[65536];
    char path[4200], command[4500];
    build_path("engram-accel", path, sizeof path);
    snprintf(command, sizeof command, "%s --socket %s --json slowlog", path, d->socket_path);
    FILE *in = popen(command, "r"); /* NOLINT(cert-env33-c) */
    out[fread(out, 1, sizeof out - 1, in)] = 0;
    int status = pclose(in);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cJSON *list = cJSON_Parse(out);
    cr_assert(cJSON_GetArraySize(list) >= 3, "%s", out);
    for (int i = 0; i < cJSON_GetArraySize(list); i++) {
        const cJSON *o = cJSON_GetArrayItem(list, i);
        cr_expect_geq(cJSON_GetNumberValue(cJSON_GetObjectItem(o, "total_ns")), 1000000);
        cr_expect(cJSON_IsString(cJSON_GetObjectItem(o, "client")));
    }
    cJSON_Delete(list);
}

Test(slowlog, what_took_long_is_kept_told_and_logged, .timeout = 300)
{
    struct daemon_process d;
    daemon_start(&d, (const char *[]){"gpu.devices=sim", "gpu.sim=latency_us=3000", "gpu.force=gpu",
                                      "gpu.min_pairs=1", "observe.slow_ms=3600000",
                                      "observe.slow_operations=knn=1", "log.format=json", NULL});
    ea_client *alpha = open_space(&d, "alpha"), *beta = open_space(&d, "beta");
    fill(alpha);
    fill(beta);
    ea_slow_request one = {0};
    for (int64_t until = give_up_ms(); one.meta.backend != EA_BACKEND_GPU; wait_ms(2)) {
        cr_assert_lt(now_ms(), until, "a card never serves");
        ask(alpha);
        count_knn(alpha, "alpha", &one);
    }
    cr_expect(one.meta.total_ns >= 3000000 && one.meta.run_ns >= 3000000 && one.meta.version);
    cr_expect(one.status == EA_OK && one.queries == 1 && one.rows == 128 && one.dimension == 32);
    cr_expect_str_eq(one.name, "rows");
    cr_expect(strncmp(one.peer, "uid ", 4) == 0);

    size_t before = count_knn(alpha, "alpha", NULL);
    ask(beta), ask(beta);
    cr_expect_eq(count_knn(alpha, "beta", NULL), 2, "the daemon's user sees all");
    cr_expect_eq(count_knn(alpha, "alpha", NULL), before);
    expect_command(&d);
    wait_logged(&d, "\"operation\":\"knn\"");
    expect_line(&d);

    /* Nothing is kept or counted once telemetry is off, and all is again once it is on. */
    static ea_stats stats, off;
    cr_assert_eq(ea_config_set(alpha, "observe.enabled", "false", NULL, NULL), EA_OK);
    cr_assert_eq(ea_get_stats(alpha, &stats), EA_OK);
    ask(alpha), ask(beta);
    cr_assert_eq(ea_ping(alpha), EA_OK);
    cr_assert_eq(ea_get_stats(alpha, &off), EA_OK);
    cr_expect_eq(off.operation_count, stats.operation_count);
    for (uint32_t i = 0; i < off.operation_count; i++)
        cr_expect_eq(off.operations[i].requests, stats.operations[i].requests, "%s",
                     off.operations[i].name);
    cr_expect_eq(count_knn(alpha, "beta", NULL), 2);
    cr_assert_eq(ea_config_set(alpha, "observe.enabled", "true", NULL, NULL), EA_OK);
    ask(beta);
    cr_expect_eq(count_knn(alpha, "beta", NULL), 3);
    cr_assert_eq(ea_config_set(alpha, "observe.slow_operations", "knn=0", NULL, NULL), EA_OK);
    ask(beta);
    cr_expect_eq(count_knn(alpha, "beta", NULL), 3);
    cr_expect_eq(ea_config_set(alpha, "observe.slow_operations", "knn=soon", NULL, NULL),
                 EA_INVALID_ARGUMENT);
    ea_close(alpha);
    ea_close(beta);
    cr_assert_eq(daemon_stop(&d), 0);
}
