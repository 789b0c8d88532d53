/* What a running daemon's settings are, where they come from, and what may be set. */
#include "daemon/base/config.h"

#include <criterion/criterion.h>
#include <string.h>

#include "daemon/base/config_table.h"

static struct config used, asked;
static struct failure why;

static void begin(void)
{
    static const char file[] = "{\"batch\": {\"wait_us\": 300}, \"workers\": {\"count\": 3},"
                               " \"spaces\": {\"alpha\": {\"weight\": 4}}}";
    config_defaults(&used);
    cr_assert_eq(config_read_text(&used, file, strlen(file), "f", &why), STATUS_OK);
    cr_assert_eq(config_set(&used, "log.level=error", &why), STATUS_OK);
    asked = used;
}

TestSuite(config_live, .init = begin);

static struct config_setting find(const char *name)
{
    struct config_setting s;
    cr_assert(config_setting_find(&used, &asked, name, &s), "%s", name);
    cr_assert_str_eq(s.name, name);
    return s;
}

static void expect(const char *name, const char *value, enum config_source source)
{
    struct config_setting s = find(name);
    cr_expect_str_eq(s.value, value, "%s", name);
    cr_expect_eq(s.source, source, "%s from %d", name, s.source);
}

static void expect_refused(const char *name, const char *value, enum status st, const char *word)
{
    static struct config before;
    before = used;
    cr_expect_eq(config_set_live(&used, name, value, &why), st, "%s", name);
    cr_expect(strstr(why.text, word), "%s: %s", name, why.text);
    cr_expect_eq(memcmp(&before, &used, sizeof used), 0, "%s changed something", name);
}

Test(config_live, sources)
{
    expect("batch.wait_us", "300", CONFIG_FILE);
    expect("workers.count", "3", CONFIG_FILE);
    expect("log.level", "error", CONFIG_COMMAND_LINE);
    expect("batch.queries", "256", CONFIG_DEFAULT);
    expect("socket.mode", "0660", CONFIG_DEFAULT);
    expect("workers.pin", "true", CONFIG_DEFAULT);
    expect("memory.cache_mib", "64", CONFIG_DEFAULT);
    expect("spaces.alpha.weight", "4", CONFIG_FILE);
    cr_assert_eq(config_set_live(&used, "batch.wait_us", "7", &why), STATUS_OK);
    expect("batch.wait_us", "7", CONFIG_SET);
    cr_expect_eq(used.batch_wait_us, 7);
}

Test(config_live, every_setting_has_a_position)
{
    struct config_setting s, same;
    uint32_t n = 0;
    for (; config_setting_at(&used, &asked, n, &s); n++) {
        cr_assert(config_setting_find(&used, &asked, s.name, &same), "%s", s.name);
        cr_assert_str_eq(s.value, same.value);
        cr_assert_not(s.wants_restart);
        if (n < config_key_count) cr_assert_eq(s.live, config_keys[n].live);
    }
    cr_assert_eq(n, config_key_count + 1, "and a space's quota: %u", n);
    same.live = true;
    cr_assert_not(config_setting_find(&used, &asked, "spaces.alpha.queue", &same));
    cr_assert(same.live, "it is as it was");
}

Test(config_live, a_restart_is_wanted)
{
    cr_assert_eq(config_set(&asked, "workers.count=9", &why), STATUS_OK);
    cr_assert_eq(config_set(&asked, "batch.wait_us=9", &why), STATUS_OK);
    struct config_setting s = find("workers.count");
    cr_assert(s.wants_restart && !s.live);
    cr_assert_str_eq(s.value, "3");
    cr_assert_str_eq(s.asked, "9");
    cr_assert_not(find("batch.wait_us").wants_restart, "it is live");
    uint32_t ignored;
    cr_assert_eq(config_apply_live(&used, &asked, &ignored), 1);
    cr_assert_eq(ignored, 1);
    expect("batch.wait_us", "9", CONFIG_COMMAND_LINE);
    expect("workers.count", "3", CONFIG_FILE);
}

Test(config_live, what_may_be_set)
{
    cr_assert_eq(config_set_live(&used, "log.level", "debug", &why), STATUS_OK);
    expect("log.level", "debug", CONFIG_SET);
    cr_assert_eq(config_set_live(&used, "workers.inline", "false", &why), STATUS_OK);
    cr_assert_not(used.worker_inline);
    cr_assert_eq(config_set_live(&used, "spaces.alpha.host_mib", "12", &why), STATUS_OK);
    expect("spaces.alpha.host_mib", "12", CONFIG_SET);
    expect("spaces.alpha.weight", "4", CONFIG_FILE);
    cr_assert_eq(config_set_live(&used, "spaces.beta.weight", "2", &why), STATUS_OK);
    cr_assert_eq(config_quotas(&used, "beta").weight, 2);
    /* the file, read again, takes all of it back */
    cr_assert_eq(config_apply_live(&used, &asked, NULL), 3);
    expect("log.level", "error", CONFIG_COMMAND_LINE);
    cr_assert_eq(config_quotas(&used, "beta").weight, 1);
}

Test(config_live, what_is_refused)
{
    expect_refused("workers.count", "2", STATUS_FAILED_PRECONDITION, "workers.count: does not");
    cr_expect_eq(why.detail, DETAIL_NOT_LIVE);
    expect_refused("batch.wait_us", "1000001", STATUS_INVALID_ARGUMENT, "0 to 1000000");
    cr_expect_eq(why.detail, DETAIL_BAD_SETTING);
    expect_refused("batch.wait_us", "", STATUS_INVALID_ARGUMENT, "whole number");
    expect_refused("batch.wait_us", "-1", STATUS_INVALID_ARGUMENT, "whole number");
    expect_refused("log.level", "loud", STATUS_INVALID_ARGUMENT, "one of");
    expect_refused("batch", "1", STATUS_INVALID_ARGUMENT, "unknown setting");
    expect_refused("", "1", STATUS_INVALID_ARGUMENT, "unknown setting");
    expect_refused("spaces.alpha", "1", STATUS_INVALID_ARGUMENT, "spaces.NAME.QUOTA");
    expect_refused("spaces.alpha.nix", "1", STATUS_INVALID_ARGUMENT, "unknown setting");
    expect_refused("spaces.no name.weight", "1", STATUS_INVALID_ARGUMENT, "name");
    expect_refused("spaces.gamma.weight", "0", STATUS_INVALID_ARGUMENT, "1 to 1000");
}
