/* ConfigGet, ConfigSet, ConfigReload, Save, Spaces and Slowlog. */
#include "tests/unit/wire/reply.h"

static struct config_setting setting_of(bool live)
{
    struct config_setting s = {.live = live, .wants_restart = !live};
    snprintf(s.name, sizeof s.name, "%s", "sched.age_ms");
    snprintf(s.value, sizeof s.value, "%s", "7");
    snprintf(s.asked, sizeof s.asked, "%s", live ? "" : "8");
    return s;
}

Test(encode_settings, a_page_of_settings)
{
    const struct config_setting both[] = {setting_of(true), setting_of(false)};
    check_frame(encode_config_get(3, both, 2, 18, fresh()), OPERATION_CONFIG_GET, 1, 3);
    static engram_accel_v1_ConfigGetReply m;
    read_message(engram_accel_v1_ConfigGetReply_fields, &m);
    cr_assert_eq(m.next, 18);
    cr_assert_eq(m.settings_count, 2);
    cr_assert_str_eq(m.settings[0].name, "sched.age_ms");
    cr_assert_str_eq(m.settings[0].value, "7");
    cr_assert(m.settings[0].live && !m.settings[0].wants_restart);
    cr_assert(!m.settings[1].live && m.settings[1].wants_restart);
    cr_assert_str_eq(m.settings[1].asked, "8");
}

Test(encode_settings, one_that_was_set)
{
    const struct config_setting s = setting_of(true);
    check_frame(encode_config_set(4, &s, "6", fresh()), OPERATION_CONFIG_SET, 1, 4);
    engram_accel_v1_ConfigSetReply m;
    read_message(engram_accel_v1_ConfigSetReply_fields, &m);
    cr_assert_str_eq(m.before, "6");
    cr_assert_str_eq(m.setting.value, "7");
}

Test(encode_settings, a_reload)
{
    const struct config_reload done = {.file = "/etc/x.json", .changed = 2, .want_restart = 1};
    check_frame(encode_config_reload(5, &done, fresh()), OPERATION_CONFIG_RELOAD, 1, 5);
    engram_accel_v1_ConfigReloadReply m;
    read_message(engram_accel_v1_ConfigReloadReply_fields, &m);
    cr_assert_str_eq(m.file, "/etc/x.json");
    cr_assert_eq(m.changed, 2);
    cr_assert_eq(m.want_restart, 1);
}

Test(encode_settings, what_was_saved)
{
    const struct wire_saved saved = {.path = "/var/x",
                                     .number = 7,
                                     .objects = 3,
                                     .bytes = 1000,
                                     .linked_bytes = 400,
                                     .free_bytes = UINT64_MAX,
                                     .version = 12};
    check_frame(encode_save(9, &saved, fresh()), OPERATION_SAVE, 1, 9);
    engram_accel_v1_SaveReply m;
    read_message(engram_accel_v1_SaveReply_fields, &m);
    cr_assert_str_eq(m.path, "/var/x");
    cr_assert(m.number == 7 && m.objects == 3 && m.version == 12);
    cr_assert(m.bytes == 1000 && m.linked_bytes == 400 && m.free_bytes == UINT64_MAX);
}

Test(encode_settings, spaces)
{
    static struct wire_space spaces[2];
    spaces[0] = (struct wire_space){.name = "a", .own = true, .collections = 2, .rows = 30};
    spaces[1] = (struct wire_space){.name = "b", .graphs = 1, .graph_edges = 9, .vram_bytes = 64};
    check_frame(encode_spaces(6, spaces, 2, true, fresh()), OPERATION_SPACES, 1, 6);
    static engram_accel_v1_SpacesReply m;
    read_message(engram_accel_v1_SpacesReply_fields, &m);
    cr_assert(m.more);
    cr_assert_eq(m.spaces_count, 2);
    cr_assert_str_eq(m.spaces[0].name, "a");
    cr_assert(m.spaces[0].own && m.spaces[0].rows == 30 && m.spaces[0].collections == 2);
    cr_assert(!m.spaces[1].own && m.spaces[1].graph_edges == 9 && m.spaces[1].vram_bytes == 64);
}

Test(encode_settings, slow_requests_and_who_is_told_the_peer)
{
    static struct wire_slow slow;
    slow = (struct wire_slow){.number = 3,
                              .answered_ns = 100,
                              .operation = OPERATION_KNN,
                              .run_ns = 50,
                              .total_ns = 70,
                              .rows = 1000,
                              .k = 10};
    snprintf(slow.peer, sizeof slow.peer, "%s", "uid 7");
    struct wire_slowlog page = {.requests = {&slow, &slow},
                                .tells_peer = {true, false},
                                .count = 2,
                                .next = 4,
                                .total = 9,
                                .now_ns = 400,
                                .slow_ms = 100};
    check_frame(encode_slowlog(7, &page, fresh()), OPERATION_SLOWLOG, 1, 7);
    static engram_accel_v1_SlowlogReply m;
    read_message(engram_accel_v1_SlowlogReply_fields, &m);
    cr_assert(m.next == 4 && m.total == 9 && m.slow_ms == 100 && m.requests_count == 2);
    cr_assert_eq(m.requests[0].ago_ns, 300);
    cr_assert(m.requests[0].meta.run_ns == 50 && m.requests[0].meta.total_ns == 70);
    cr_assert(m.requests[0].rows == 1000 && m.requests[0].k == 10);
    cr_assert_str_eq(m.requests[0].peer, "uid 7");
    cr_assert_str_eq(m.requests[1].peer, "");
}
