/* Settings and spaces of a running daemon: an operator sees and sets, others see what is theirs. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/engram_accel.h"
#include "tests/support/scene.h"

static uint16_t port_of(const struct daemon_process *d)
{
    char line[512];
    unsigned port = 0;
    FILE *f = fopen(d->log_path, "r");
    while (f && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "listening on 127.0.0.1 port ");
        if (at) port = (unsigned)strtoul(strstr(at, "port ") + 5, NULL, 10);
    }
    if (f) fclose(f);
    return (uint16_t)port;
}

static ea_client *open_as(const struct scene *s, const char *space, bool tcp)
{
    ea_options options = {.space = space, .timeout_us = UINT64_C(600000000)};
    ea_client *c;
    if (tcp)
        options.tcp_host = "127.0.0.1", options.tcp_port = port_of(&s->daemon);
    else
        options.socket_path = s->daemon.socket_path;
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    return c;
}

/* The value of a setting, "" if it is not in the list. */
static ea_setting find(ea_client *c, const char *name)
{
    ea_setting *list, found = {0};
    size_t count;
    cr_assert_eq(ea_config_get(c, &list, &count), EA_OK, "%s", ea_error_text(c));
    cr_assert_gt(count, 64);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0) found = list[i];
    ea_settings_free(list);
    return found;
}

static void expect_refused(ea_client *c, const char *name, const char *value, ea_status st,
                           uint32_t detail)
{
    cr_expect_eq(ea_config_set(c, name, value, NULL, NULL), st, "%s", name);
    cr_expect_eq(ea_error_detail(c), detail, "%s: %s", name, ea_error_text(c));
    cr_expect(strstr(ea_error_text(c), name), "%s: %s", name, ea_error_text(c));
}

/* How many contents of a space c is shown; they are told once each, and by number. */
static size_t count_contents(ea_client *c, const char *space)
{
    ea_memory_content *list;
    ea_memory_space all;
    size_t count;
    cr_assert_eq(ea_get_memory(c, space, &list, &count, &all), EA_OK, "%s", ea_error_text(c));
    for (size_t i = 0; i < count; i++) {
        cr_expect(!i || list[i - 1].number < list[i].number);
        cr_expect_leq(list[i].needed_bytes, list[i].taken_bytes, "%s", list[i].name);
    }
    if (count > 1) cr_expect_gt(all.host_bytes, 0);
    ea_memory_free(list);
    return count;
}

Test(memory, an_operator_sees_all_and_others_their_own, .timeout = 900)
{
    enum { MADE = 70 }; /* three pages */
    struct scene s;
    scene_open(&s, (const char *[]){"tcp.enabled=true", "tcp.port=0", "observe.memory_s=1", NULL});
    ea_client *own = open_as(&s, "mine", false), *far = open_as(&s, "distant", true);
    const float row[4] = {1, 2, 3, 4};
    const uint64_t id = 7;
    for (int i = 0; i < MADE; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        const ea_rows one = {
            .collection = name, .ids = &id, .rows = row, .count = 1, .dimension = 4};
        cr_assert_eq(ea_collection_create(own, name, 4, EA_DOT, NULL), EA_OK);
        if (i < MADE - 1) cr_assert_eq(ea_upsert(own, &one, NULL), EA_OK);
    }
    cr_assert_eq(ea_graph_create(far, "g", NULL), EA_OK);
    cr_expect_eq(count_contents(own, NULL), MADE);
    cr_expect_eq(count_contents(own, "mine"), MADE);
    cr_expect_eq(count_contents(own, "distant"), 1);
    cr_expect_eq(count_contents(far, NULL), 1);
    cr_expect_eq(count_contents(far, "distant"), 1);

    ea_memory_content *list = NULL;
    size_t count = 0;
    cr_expect_eq(ea_get_memory(far, "mine", &list, &count, NULL), EA_PERMISSION_DENIED);
    cr_expect_eq(ea_error_detail(far), EA_DETAIL_NOT_OPERATOR);
    cr_expect_eq(ea_get_memory(far, "nobody", &list, &count, NULL), EA_PERMISSION_DENIED,
                 "nor whether there is such a space");
    cr_expect_eq(ea_get_memory(own, "nobody", &list, &count, NULL), EA_NOT_FOUND);
    cr_expect_eq(ea_error_detail(own), EA_DETAIL_UNKNOWN_SPACE);

    /* The daemon looks by itself. */
    ea_memory_pool *pools = NULL;
    for (int64_t until = give_up_ms(); count < 3; wait_ms(20)) {
        cr_assert_lt(now_ms(), until, "the daemon never looks");
        ea_memory_free(pools);
        cr_assert_eq(ea_get_memory_pools(far, true, &pools, &count), EA_OK);
    }
    for (size_t i = 0; i < count; i++) {
        cr_expect(pools[i].of == EA_MEMORY_HOST && pools[i].used_bytes >= pools[i].asked_bytes);
        cr_expect(pools[i].free_bytes >= pools[i].largest_bytes && pools[i].largest_bytes);
    }
    ea_memory_free(pools);
    cr_assert_eq(ea_get_memory_pools(far, false, &pools, &count), EA_OK);
    cr_expect_eq(count, 1);
    ea_memory_free(pools);
    for (int i = 0; i < MADE; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        cr_assert_eq(ea_collection_drop(own, name), EA_OK);
    }
    cr_assert_eq(ea_graph_drop(far, "g"), EA_OK);
    cr_expect_eq(count_contents(own, NULL), 0);
    ea_close(own);
    ea_close(far);
    scene_close(&s);
}

Test(settings, an_operator_sets_and_others_see, .timeout = 900)
{
    struct scene s;
    scene_open(&s, (const char *[]){"tcp.enabled=true", "tcp.port=0", "spaces.other.weight=7",
                                    "limits.connections=40", NULL});
    ea_client *own = open_as(&s, "mine", false), *far = open_as(&s, "distant", true);
    ea_setting now;
    char before[257];
    cr_assert_eq(ea_config_set(own, "spaces.distant.weight", "3", &now, before), EA_OK, "%s",
                 ea_error_text(own));
    cr_assert_str_eq(before, "");
    cr_assert(now.source == EA_SETTING_SET && now.live && !strcmp(now.value, "3"));
    cr_assert_eq(ea_config_set(own, "batch.wait_us", "123", &now, before), EA_OK);
    cr_assert_str_eq(before, "500");
    wait_logged(&s.daemon, "set batch.wait_us: 123, was 500");
    cr_assert_str_eq(find(far, "batch.wait_us").value, "123");
    cr_assert_eq(find(own, "limits.connections").source, EA_SETTING_COMMAND_LINE);
    cr_assert_str_eq(find(own, "spaces.other.weight").value, "7");
    cr_assert_str_eq(find(far, "spaces.other.weight").value, "", "that is not ours to see");
    cr_assert_str_eq(find(far, "spaces.distant.weight").value, "3");

    expect_refused(far, "batch.wait_us", "1", EA_PERMISSION_DENIED, EA_DETAIL_NOT_OPERATOR);
    expect_refused(far, "spaces.distant.weight", "9", EA_PERMISSION_DENIED, EA_DETAIL_NOT_OPERATOR);
    expect_refused(own, "limits.connections", "9", EA_FAILED_PRECONDITION, EA_DETAIL_NOT_LIVE);
    expect_refused(own, "batch.wait_us", "soon", EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SETTING);
    expect_refused(own, "batch.nix", "1", EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SETTING);
    char much[600];
    memset(much, '1', sizeof much);
    for (size_t i = 0; i < 3; i++) { /* of the daemon, of the library */
        much[(size_t[]){64, 100, 599}[i]] = 0;
        cr_expect_eq(ea_config_set(own, "batch.wait_us", much, NULL, NULL), EA_INVALID_ARGUMENT);
        cr_expect_eq(ea_config_set(own, much, "1", NULL, NULL), EA_INVALID_ARGUMENT);
        much[(size_t[]){64, 100, 599}[i]] = '1';
    }
    cr_assert_str_eq(find(own, "batch.wait_us").value, "123");
    ea_close(own);
    ea_close(far);
    scene_close(&s);
}

static void write_file(const char *path, int connections)
{
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fprintf(f, "{\"batch\": {\"wait_us\": 300}, \"limits\": {\"connections\": %d}}", connections);
    fclose(f);
}

Test(settings, the_file_is_read_again, .timeout = 900)
{
    struct scene s;
    char path[] = "/tmp/engram-settings-XXXXXX", option[64];
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    write_file(path, 40);
    snprintf(option, sizeof option, "--config=%s", path);
    scene_open(&s, (const char *[]){option, NULL});
    ea_client *c = open_as(&s, "mine", false);
    cr_assert_eq(find(c, "batch.wait_us").source, EA_SETTING_FILE);
    cr_assert_eq(ea_config_set(c, "batch.wait_us", "7", NULL, NULL), EA_OK);
    write_file(path, 41);
    kill(s.daemon.pid, SIGHUP);
    wait_logged(&s.daemon, "want a restart");
    ea_setting wait = find(c, "batch.wait_us"), connections = find(c, "limits.connections");
    cr_assert(wait.source == EA_SETTING_FILE && !strcmp(wait.value, "300"));
    cr_assert(connections.wants_restart && !connections.live);
    cr_assert_str_eq(connections.value, "40");
    cr_assert_str_eq(connections.asked, "41");
    unlink(path);
    ea_close(c);
    scene_close(&s);
}

Test(settings, a_quota_that_is_set_holds, .timeout = 900)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *first = open_as(&s, "narrow", false), *second = open_as(&s, "narrow", false);
    cr_assert_eq(ea_connect(first), EA_OK);
    cr_assert_eq(ea_config_set(first, "spaces.narrow.connections", "1", NULL, NULL), EA_OK);
    cr_assert_eq(ea_connect(second), EA_RESOURCE_EXHAUSTED);
    cr_assert_eq(ea_config_set(first, "spaces.narrow.connections", "2", NULL, NULL), EA_OK);
    cr_assert_eq(ea_connect(second), EA_OK, "%s", ea_error_text(second));
    ea_close(first);
    ea_close(second);
    scene_close(&s);
}

Test(settings, spaces_of_all_and_of_one, .timeout = 900)
{
    enum { MANY = 60 }; /* more than two pages */
    struct scene s;
    scene_open(&s,
               (const char *[]){"tcp.enabled=true", "tcp.port=0", "spaces.s05.host_mib=12", NULL});
    ea_client *held[MANY];
    for (int i = 0; i < MANY; i++) {
        char name[8];
        snprintf(name, sizeof name, "s%02d", i);
        held[i] = open_as(&s, name, i == 7);
        cr_assert_eq(ea_connect(held[i]), EA_OK, "%s", ea_error_text(held[i]));
    }
    cr_assert_eq(ea_graph_create(held[5], "g", NULL), EA_OK);
    cr_assert_eq(ea_collection_create(held[5], "c", 4, EA_DOT, NULL), EA_OK);
    const uint64_t ids[] = {1, 2};
    const float rows[8] = {1};
    const ea_rows some = {.collection = "c", .ids = ids, .rows = rows, .count = 2, .dimension = 4};
    cr_assert_eq(ea_upsert(held[5], &some, NULL), EA_OK);
    ea_space_info *list;
    size_t count, ours = 0;
    cr_assert_eq(ea_get_spaces(held[5], &list, &count), EA_OK, "%s", ea_error_text(held[5]));
    for (size_t i = 0; i < count; i++) {
        if (i) cr_assert_lt(strcmp(list[i - 1].name, list[i].name), 0);
        cr_assert_eq(list[i].own, strcmp(list[i].name, "s05") == 0);
        ours += list[i].name[0] == 's';
        if (!list[i].own) continue;
        cr_assert(list[i].collections == 1 && list[i].rows == 2 && list[i].graphs == 1);
        cr_assert(list[i].use.connections == 1 && list[i].use.host_bytes > 0);
        cr_assert_eq(list[i].use.host_bytes_max, 12 << 20);
    }
    cr_assert_eq(ours, MANY);
    ea_spaces_free(list);
    cr_assert_eq(ea_get_spaces(held[7], &list, &count), EA_OK);
    cr_assert(count == 1 && list[0].own, "by TCP one sees one's own: %zu", count);
    cr_assert_str_eq(list[0].name, "s07");
    ea_spaces_free(list);
    cr_assert_eq(ea_graph_drop(held[5], "g"), EA_OK);
    cr_assert_eq(ea_collection_drop(held[5], "c"), EA_OK);
    for (int i = 0; i < MANY; i++)
        ea_close(held[i]);
    scene_close(&s);
}
