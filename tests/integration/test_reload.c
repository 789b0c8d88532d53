/* engram-accel reload: the file read again while somebody waits for the outcome. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/engram_accel.h"
#include "tests/support/scene.h"

static char path[64], out[8192];

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fputs(text, f);
    fclose(f);
}

/* Returns the exit code; what was said on both outputs is in `out`. */
static int reload(const struct daemon_process *d, const char *options)
{
    char program[4200], command[4600];
    build_path("engram-accel", program, sizeof program);
    snprintf(command, sizeof command, "%s --socket %s %s reload 2>&1", program, d->socket_path,
             options);
    FILE *in = popen(command, "r"); /* NOLINT(cert-env33-c) */
    out[fread(out, 1, sizeof out - 1, in)] = 0;
    int status = pclose(in);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_said(const char *text)
{
    cr_expect(strstr(out, text), "'%s' not in '%s'", text, out);
}

static void expect_value(ea_client *c, const char *name, const char *value)
{
    ea_setting *list;
    size_t count;
    bool found = false;
    cr_assert_eq(ea_config_get(c, &list, &count), EA_OK);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0) {
            found = true;
            cr_expect_str_eq(list[i].value, value);
        }
    cr_expect(found);
    ea_settings_free(list);
}

static void expect_counts(ea_client *c, uint64_t taken, uint64_t refused)
{
    static ea_stats stats;
    for (int64_t until = give_up_ms(); now_ms() < until; wait_ms(2)) {
        cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
        if (stats.config_reloads + stats.config_reloads_refused >= taken + refused) break;
    }
    cr_expect_eq(stats.config_reloads, taken);
    cr_expect_eq(stats.config_reloads_refused, refused, "a refused file is none that was taken");
}

Test(reload, whoever_asks_is_told_what_became_of_it, .timeout = 300)
{
    struct daemon_process d;
    char config[96], log_line[128];
    snprintf(path, sizeof path, "/tmp/engram-reload.%d.json", getpid());
    snprintf(config, sizeof config, "--config=%s", path);
    write_file("{\"limits\": {\"handshake_ms\": 60000, \"connections\": 50}}");
    daemon_start(&d, (const char *[]){config, "tcp.enabled=true", "tcp.port=0", NULL});
    const ea_options options = {.socket_path = d.socket_path, .timeout_us = UINT64_C(300000000)};
    ea_client *c;
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    expect_counts(c, 0, 0);

    write_file("{\"limits\": {\"handshake_ms\": 70000, \"connections\": 40}}");
    cr_expect_eq(reload(&d, ""), 0);
    expect_said("1 live setting changed");
    expect_said("limits.connections wants a restart: it is 50, and would be 40");
    expect_value(c, "limits.handshake_ms", "70000");
    expect_counts(c, 1, 0);
    cr_expect_eq(reload(&d, "--json"), 0);
    cr_expect_str_eq(out, "{\"changed\":0,\"want_restart\":[{\"name\":\"limits.connections\","
                          "\"value\":\"50\",\"asked\":\"40\"}]}\n");
    expect_counts(c, 2, 0);

    /* What is wrong is told with file, setting and reason; nothing of the file is taken. */
    write_file("{\"limits\": {\"stall_ms\": 77, \"handshake_ms\": \"soon\"}}");
    cr_expect_eq(reload(&d, ""), 1);
    expect_said(path);
    expect_said("limits.handshake_ms: a text, a whole number wanted");
    expect_value(c, "limits.handshake_ms", "70000");
    expect_value(c, "limits.stall_ms", "30000");
    expect_counts(c, 2, 1);
    cr_expect_eq(ea_config_reload(c, NULL, NULL), EA_INVALID_ARGUMENT);
    cr_expect_eq(ea_error_detail(c), EA_DETAIL_BAD_SETTING);
    expect_counts(c, 2, 2);
    kill(d.pid, SIGHUP);
    expect_counts(c, 2, 3);
    snprintf(log_line, sizeof log_line, "SIGHUP: %s: limits.handshake_ms", path);
    wait_logged(&d, log_line);
    write_file("{\"limits\": {\"handshake_ms\": 80000}}");
    kill(d.pid, SIGHUP);
    expect_counts(c, 3, 3);
    expect_value(c, "limits.handshake_ms", "80000");
    unlink(path);
    cr_expect_eq(reload(&d, ""), 1);
    expect_said("o such file");
    expect_counts(c, 3, 4);
    cr_expect_eq(ea_ping(c), EA_OK);
    ea_close(c);
    cr_assert_eq(daemon_stop(&d), 0);
}

Test(reload, only_an_operator_may_and_only_of_a_file, .timeout = 300)
{
    struct scene s;
    char line[512] = "";
    ea_client *far;
    scene_open(&s, (const char *[]){"tcp.enabled=true", "tcp.port=0", NULL});
    cr_expect_eq(reload(&s.daemon, ""), 1);
    expect_said("no configuration file is in use");
    wait_logged(&s.daemon, "listening on 127.0.0.1 port ");
    FILE *f = fopen(s.daemon.log_path, "r");
    while (fgets(line, sizeof line, f) && !strstr(line, "listening on 127.0.0.1 port "))
        continue;
    fclose(f);
    const ea_options options = {.tcp_host = "127.0.0.1",
                                .tcp_port = (uint16_t)strtoul(strstr(line, " port ") + 6, NULL, 10),
                                .timeout_us = UINT64_C(300000000)};
    cr_assert_eq(ea_open(&options, &far), EA_OK);
    cr_expect_eq(ea_config_reload(far, NULL, NULL), EA_PERMISSION_DENIED, "%s", ea_error_text(far));
    cr_expect_eq(ea_error_detail(far), EA_DETAIL_NOT_OPERATOR);
    ea_close(far);
    scene_close(&s);
}
