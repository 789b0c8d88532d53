/* Settings from the command line, and those that change while the daemon runs. */
#include "daemon/base/config.h"

#include <criterion/criterion.h>
#include <string.h>

static struct config defaults(void)
{
    struct config c;
    config_defaults(&c);
    return c;
}

Test(config_set, settings_from_the_command_line)
{
    static const struct {
        const char *assignment, *message;
    } wrong[] = {
        {"", "command line: '' is not KEY=VALUE"},
        {"=x", "command line: '=x' is not KEY=VALUE"},
        {"tcp.port", "command line: 'tcp.port' is not KEY=VALUE"},
        {"tcp.ports=1", "command line: tcp.ports: unknown setting"},
        {"tcp=1", "command line: tcp: unknown setting"},
        {"tcp.port=", "command line: tcp.port: '' is not a whole number"},
        {"tcp.port=1.5", "command line: tcp.port: '1.5' is not a whole number"},
        {"tcp.port=-1", "command line: tcp.port: '-1' is not a whole number"},
        {"tcp.port=65536", "command line: tcp.port: 65536 is out of range, 0 to 65535"},
        {"tcp.port=99999999999999999999",
         "command line: tcp.port: 18446744073709551615 is out of range, 0 to 65535"},
        {"tcp.enabled=yes", "command line: tcp.enabled: 'yes' is not true or false"},
        {"socket.mode=9",
         "command line: socket.mode: '9' is not an octal mode, \"0000\" to \"0777\""},
        {"log.level=loud",
         "command line: log.level: 'loud' is not one of: error warning info debug"},
    };
    struct failure f;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct config c = defaults(), before = c;
        cr_expect_eq(config_set(&c, wrong[i].assignment, &f), STATUS_INVALID_ARGUMENT);
        cr_expect_str_eq(f.text, wrong[i].message, "%s", f.text);
        cr_expect_eq(memcmp(&c, &before, sizeof c), 0);
    }
    struct config c = defaults();
    cr_expect_eq(config_set(&c, "socket.path=/a=b", &f), STATUS_OK);
    cr_expect_str_eq(c.socket_path, "/a=b");
    cr_expect_eq(config_set(&c, "socket.path=", &f), STATUS_OK);
    cr_expect_eq(config_set(&c, "tcp.enabled=true", &f), STATUS_OK);
    cr_expect(c.tcp_enabled);
    cr_expect_eq(config_set(&c, "tcp.enabled=false", &f), STATUS_OK);
    cr_expect_not(c.tcp_enabled);
    cr_expect_eq(config_set(&c, "socket.mode=0777", &f), STATUS_OK);
    cr_expect_eq(c.socket_mode, 0777);
    cr_expect_eq(config_set(&c, "memory.max_mib=0016", &f), STATUS_OK);
    cr_expect_eq(c.memory_mib_max, 16);
    char longest[300] = "";
    memset(longest, 'k', 250);
    strcpy(longest + 250, "=1");
    cr_expect_eq(config_set(&c, longest, &f), STATUS_INVALID_ARGUMENT);
}

Test(config_set, only_live_keys_change_live)
{
    struct config c = defaults(), from = defaults();
    uint32_t ignored = 9;
    cr_expect_eq(config_apply_live(&c, &from, &ignored), 0);
    cr_expect_eq(ignored, 0);
    const char *changes[] = {"log.level=debug",  "limits.stall_ms=77", "limits.drain_ms=78",
                             "tcp.port=9",       "socket.path=/other", "workers.pin=false",
                             "socket.mode=0600", "memory.max_mib=77"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        cr_assert_eq(config_set(&from, changes[i], NULL), STATUS_OK);
    cr_expect_eq(config_apply_live(&c, &from, &ignored), 3);
    cr_expect_eq(ignored, 5);
    cr_expect_str_eq(c.log_level, "debug");
    cr_expect_eq(c.stall_ms_max, 77);
    cr_expect_eq(c.drain_ms_max, 78);
    cr_expect_eq(c.tcp_port, defaults().tcp_port);
    cr_expect_eq(config_apply_live(&c, &from, NULL), 0);
}
