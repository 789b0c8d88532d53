#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/config.h"
#include "daemon/base/config_table.h"
#include "daemon/base/fault.h"

static struct config defaults(void)
{
    struct config c;
    config_defaults(&c);
    return c;
}

/* Reads text over the defaults; nothing may change unless it is accepted. */
static enum status read_text(const char *text, struct config *c, struct failure *f)
{
    *c = defaults();
    struct config before = *c;
    memset(f, 0, sizeof *f);
    enum status st = config_read_text(c, text, strlen(text), "f.json", f);
    if (st) {
        cr_assert_eq(f->code, st);
        cr_assert_eq(memcmp(&before, c, sizeof before), 0, "changed by a refused text: %s", text);
    }
    return st;
}

static char *printed(void (*print)(FILE *))
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    print(out);
    fclose(out);
    return text;
}

Test(config, defaults_are_the_documented_ones)
{
    struct config c = defaults();
    cr_expect_str_eq(c.socket_path, "/run/engram-accel/engram-accel.sock");
    cr_expect_eq(c.socket_mode, 0660);
    cr_expect_not(c.tcp_enabled);
    cr_expect_str_eq(c.tcp_host, "127.0.0.1");
    cr_expect_eq(c.worker_count, 0);
    cr_expect(c.worker_pin);
    cr_expect_str_eq(c.kernels, "auto");
    cr_expect_eq(c.memory_mib_max, 0);
    cr_expect_eq(c.cache_mib_max, 64);
    cr_expect_str_eq(c.screen_memory, "auto");
    cr_expect_eq(c.body_mib_max, 64);
    cr_expect_eq(c.reply_mib_max, 256);
    cr_expect_eq(c.connection_max, 2048);
    cr_expect_eq(c.in_flight_max, 1024);
    cr_expect_eq(c.job_max, 16384);
    cr_expect_eq(c.collection_max, 1024);
    cr_expect_eq(c.output_mib_max, 512);
    cr_expect_eq(c.handshake_ms_max, 5000);
    cr_expect_eq(c.stall_ms_max, 30000);
    cr_expect_eq(c.spread_ms_max, 60000);
    cr_expect_eq(c.cluster_rows_max, 131072);
    cr_expect_eq(c.cluster_average_rows_max, 16384);
    cr_expect_eq(c.drain_ms_max, 10000);
    cr_expect_str_eq(c.token_file, "");
    cr_expect_str_eq(c.persist_dir, "");
    cr_expect_str_eq(c.persist_load, "require");
    cr_expect(c.persist_on_stop);
    cr_expect_str_eq(c.persist_journal, "off");
    cr_expect_eq(c.persist_journal_mib, 4096);
    cr_expect_eq(c.persist_every_s, 3600);
    cr_expect_eq(c.persist_mib_per_s, 0);
    cr_expect_eq(c.persist_zstd, 0);
    cr_expect_eq(c.persist_keep, 2);
    cr_expect_str_eq(c.persist_key_file, "");
    cr_expect_str_eq(c.metrics_listen, "");
    cr_expect_not(c.metrics_open);
    cr_expect_eq(c.metrics_spaces, 64);
    cr_expect_str_eq(c.log_level, "info");
    cr_expect_eq(c.quotas.host_mib, 0);
    cr_expect_eq(c.quotas.vram_mib, 0);
    cr_expect_eq(c.quotas.queue, 4096);
    cr_expect_eq(c.quotas.connections, 0);
    cr_expect_eq(c.quotas.weight, 1);
    cr_expect_eq(c.peers.queue, 0);
    cr_expect_eq(c.peers.connections, 0);
    cr_expect_eq(c.peers.body_mib, 0);
    cr_expect_eq(c.peers.log_lines, 60);
    cr_expect_eq(c.connection_kept, 16);
    cr_expect_eq(c.space_count, 0);
}

Test(config, every_default_is_within_its_own_bounds)
{
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        cr_expect_eq(config_key_find(k->name), k, "%s stands twice", k->name);
        cr_expect(strlen(k->help) > 10, "%s has no help", k->name);
        if (k->type == CONFIG_TEXT || k->type == CONFIG_CHOICE)
            cr_expect_not_null(k->text, "%s has no default", k->name);
        else if (k->type != CONFIG_BOOLEAN)
            cr_expect(k->number >= k->min && k->number <= k->max, "%s", k->name);
    }
}

Test(config, every_key_is_read)
{
    struct config c, want = defaults();
    struct failure f;
    strcpy(memset(want.socket_path, 0, CONFIG_TEXT_MAX), "/tmp/a b");
    want.socket_mode = 0600;
    want.tcp_enabled = true;
    strcpy(memset(want.tcp_host, 0, CONFIG_TEXT_MAX), "::1");
    want.tcp_port = 65535;
    want.worker_count = 256;
    want.worker_pin = false;
    want.worker_inline = false;
    strcpy(want.kernels, "scalar");
    want.memory_mib_max = 16777216;
    want.cache_mib_max = 0;
    strcpy(memset(want.screen_memory, 0, CONFIG_TEXT_MAX), "cpu");
    want.body_mib_max = 1024;
    want.reply_mib_max = 4096;
    want.connection_max = 65536;
    want.connection_kept = 0;
    want.in_flight_max = 1;
    want.job_max = 7;
    want.collection_max = 3;
    want.output_mib_max = 100;
    want.handshake_ms_max = 10;
    want.stall_ms_max = 11;
    want.spread_ms_max = 12;
    want.cluster_rows_max = 13;
    want.cluster_average_rows_max = 14;
    want.drain_ms_max = 0;
    want.hand_over_ms_max = 15;
    want.successor_ms_max = 16;
    strcpy(want.token_file, "/etc/token");
    strcpy(memset(want.gpu_devices, 0, CONFIG_TEXT_MAX), "0,2");
    strcpy(want.gpu_program, "/opt/gpu");
    strcpy(memset(want.gpu_memory, 0, CONFIG_TEXT_MAX), "managed");
    want.gpu_memory_percent = 95;
    want.gpu_memory_mib_max = 1 << 24;
    strcpy(memset(want.gpu_force, 0, CONFIG_TEXT_MAX), "cpu");
    want.gpu_pairs_min = 1;
    want.gpu_candidates_min = 2;
    want.gpu_nodes_min = 3;
    want.gpu_heartbeat_ms = 60000;
    want.gpu_job_ms = 10;
    want.gpu_spin_us = 0;
    want.gpu_spin_percent = 30;
    want.gpu_copiers = 64;
    want.gpu_streams = 1;
    strcpy(want.gpu_sim, "vram_mib=64");
    want.speedup_percent = 100;
    want.success_percent = 0;
    want.probe_percent = 20;
    want.window_us = 10;
    want.quantum_us = 1;
    want.age_ms = 3600000;
    want.predict = false;
    want.split = false;
    want.calibrate = false;
    strcpy(want.model_file, "/var/model");
    want.batch_wait_us = 0;
    want.batch_queries = 1024;
    want.batch_requests = 1;
    want.quotas = (struct space_quotas){1 << 30, 1 << 24, 1 << 20, 65536, 1000, 0};
    want.peers = (struct peer_limits){1 << 30, 1 << 20, 65536, 1, 0};
    strcpy(want.persist_dir, "/var/snapshots");
    strcpy(memset(want.persist_load, 0, CONFIG_TEXT_MAX), "salvage");
    strcpy(memset(want.persist_journal, 0, CONFIG_TEXT_MAX), "always");
    want.persist_journal_mib = 9;
    want.persist_on_stop = false;
    want.persist_hand_over = false;
    want.persist_every_s = 31536000;
    want.persist_mib_per_s = 1048576;
    want.persist_zstd = 19;
    want.persist_keep = 1000;
    strcpy(want.persist_key_file, "/etc/key");
    strcpy(want.metrics_listen, "[::1]:7424");
    strcpy(want.metrics_token_file, "/etc/metrics");
    want.metrics_open = true;
    want.metrics_spaces = 0;
    strcpy(memset(want.metrics_buckets, 0, CONFIG_TEXT_MAX), "1 2");
    want.observe = (struct observe_settings){"cluster=0", 7, 20, 5, false, {0}};
    strcpy(memset(want.log_level, 0, CONFIG_TEXT_MAX), "debug");
    strcpy(memset(want.log_format, 0, CONFIG_TEXT_MAX), "json");
    const char *text =
        "{\"socket\": {\"path\": \"/tmp/a b\", \"mode\": \"600\"},\n"
        "\"tcp\": {\"enabled\": true, \"host\": \"::1\", \"port\": 65535},\r\n"
        "\"workers\": {\"count\": 2.56e2, \"pin\": false, \"inline\": false}, \"kernels\": "
        "\"scalar\",\t"
        "\"memory\": {\"max_mib\": 16777216, \"cache_mib\": 0},"
        "\"screen\": {\"memory\": \"cpu\"},"
        "\"limits\": {\"request_body_mib\": 1024, \"reply_body_mib\": 4096, \"connections\": 65536,"
        "\"connections_kept\": 0, \"requests_in_flight\": 1, \"requests_total\": 7,"
        "\"collections\": 3, \"output_mib\": 100, \"handshake_ms\": 10, \"stall_ms\": 11,"
        "\"spread_ms\": 12, \"cluster_rows\": 13, \"cluster_average_rows\": 14, \"drain_ms\": 0,"
        "\"hand_over_ms\": 15, \"successor_ms\": 16},"
        "\"gpu\": {\"devices\": \"0,2\", \"program\": \"/opt/gpu\", \"memory\": \"managed\","
        "\"memory_percent\": 95, \"memory_mib\": 16777216, \"force\": \"cpu\", \"min_pairs\": 1,"
        "\"heartbeat_ms\": 60000, \"job_ms\": 10, \"spin_us\": 0,"
        "\"spin_percent\": 30, \"copiers\": 64,"
        "\"min_candidates\": 2, \"min_nodes\": 3, \"streams\": 1, \"sim\": "
        "\"vram_mib=64\"},"
        "\"sched\": {\"speedup_percent\": 100, \"success_percent\": 0, \"probe_percent\": 20,"
        "\"window_us\": 10, \"quantum_us\": 1, \"age_ms\": 3600000, \"predict\": false, \"split\": "
        "false,"
        "\"calibrate\": false, \"model_file\": \"/var/model\"},"
        "\"batch\": {\"wait_us\": 0, \"queries\": 1024, \"requests\": 1},"
        "\"quotas\": {\"host_mib\": 1073741824, \"vram_mib\": 16777216, \"queue\": 1048576,"
        "\"connections\": 65536, \"weight\": 1000},"
        "\"peers\": {\"queue\": 1048576, \"connections\": 65536, \"body_mib\": 1073741824, "
        "\"log_lines\": 1},"
        "\"persist\": {\"dir\": \"/var/snapshots\", \"load\": \"salvage\", "
        "\"journal\": \"always\", \"journal_mib\": 9, \"zstd\": 19, "
        "\"on_stop\": false,"
        "\"hand_over\": false, \"every_s\": 31536000, \"mib_per_s\": 1048576, \"keep\": 1000, "
        "\"key_file\": \"/etc/key\"},"
        "\"metrics\": {\"listen\": \"[::1]:7424\", \"token_file\": \"/etc/metrics\", \"open\": "
        "true, \"spaces\": 0, \"buckets\": \"1 2\"},"
        "\"auth\": {\"token_file\": \"/etc/token\"}, \"observe\": {\"enabled\": false, "
        "\"slow_ms\": 7, \"slow_operations\": \"cluster=0\", \"window\": 20, \"memory_s\": 5},"
        "\"log\": {\"level\": \"debug\", \"format\": "
        "\"json\"}}";
    cr_assert_eq(read_text(text, &c, &f), STATUS_OK, "%s", f.text);
    memset(want.sources, CONFIG_FILE, config_key_count);
    cr_expect_eq(memcmp(&c, &want, sizeof c), 0);
    for (unsigned i = 0; i < config_key_count; i++) {
        struct config standard = defaults();
        const char *a = (const char *)&standard + config_keys[i].offset;
        const char *b = (const char *)&c + config_keys[i].offset;
        cr_expect(memcmp(a, b, config_keys[i].type == CONFIG_BOOLEAN ? 1 : 4) != 0,
                  "%s is not in this test", config_keys[i].name);
    }
}

Test(config, an_empty_object_changes_nothing)
{
    struct config c, d = defaults();
    struct failure f;
    cr_expect_eq(read_text("{}", &c, &f), STATUS_OK);
    cr_expect_eq(read_text("\xEF\xBB\xBF{\"socket\": {}}\n", &c, &f), STATUS_OK, "%s", f.text);
    cr_expect_eq(memcmp(&c, &d, sizeof c), 0);
}

Test(config, a_shorter_text_leaves_nothing_behind)
{
    struct config a = defaults(), b = defaults();
    config_set(&a, "socket.path=/a/long/path", NULL);
    config_set(&a, "socket.path=/b", NULL);
    config_set(&b, "socket.path=/b", NULL);
    cr_expect_eq(memcmp(&a, &b, sizeof a), 0);
}

Test(config, truncated_anywhere_is_refused)
{
    char *sample = printed(config_print_sample);
    size_t bytes = strlen(sample) - 2; /* without the last brace */
    for (size_t n = 0; n <= bytes; n++) {
        struct config c = defaults();
        struct failure f;
        cr_assert_eq(config_read_text(&c, sample, n, "f", &f), STATUS_INVALID_ARGUMENT, "%zu", n);
    }
    free(sample);
}

Test(config, files)
{
    struct config c = defaults();
    struct failure f;
    cr_expect_eq(config_read_file(&c, "/nowhere/x.json", &f), STATUS_NOT_FOUND);
    cr_expect_str_eq(f.text, "/nowhere/x.json: No such file or directory");
    cr_expect_neq(config_read_file(&c, "/tmp", &f), STATUS_OK);
    cr_expect_str_eq(f.text, "/tmp: Is a directory");
    cr_expect_eq(config_read_file(&c, "/dev/zero", &f), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(f.text, "/dev/zero: not a regular file");
    cr_expect_eq(config_read_file(&c, "config/tiny.json", &f), STATUS_OK, "%s", f.text);
    cr_expect_eq(c.worker_count, 2);
    cr_expect_eq(c.connection_max, 16);
}

Test(config, the_nth_failure_changes_nothing)
{
    for (uint32_t nth = 1;; nth++) {
        struct config c = defaults(), before = c;
        struct failure f;
        fault_arm(nth);
        enum status st = config_read_file(&c, "config/tiny.json", &f);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert(fired ? st != STATUS_OK : st == STATUS_OK);
        if (!fired) break;
        cr_assert_eq(memcmp(&c, &before, sizeof c), 0);
        cr_assert_not_null(strstr(f.text, "tiny.json: "), "%s", f.text);
    }
}

Test(config, the_sample_reads_as_the_defaults_and_is_the_shipped_file)
{
    char *sample = printed(config_print_sample);
    struct config c = defaults(), before = c;
    c.worker_count = 9;
    struct failure f = {0};
    cr_expect_eq(config_read_text(&c, sample, strlen(sample), "sample", &f), STATUS_OK, "%s",
                 f.text);
    memset(before.sources, CONFIG_FILE, config_key_count); /* it has every key */
    cr_expect_eq(memcmp(&c, &before, sizeof c), 0);

    char shipped[8192] = "";
    FILE *in = fopen("config/engram-accel.json", "r");
    cr_assert_not_null(in, "run from the repository's root");
    cr_assert(fread(shipped, 1, sizeof shipped - 1, in) > 0);
    fclose(in);
    cr_expect_str_eq(shipped, sample, "run: make sample");
    free(sample);
}

Test(config, help_and_man_name_every_key)
{
    char *help = printed(config_print_help), *man = printed(config_print_man);
    for (unsigned i = 0; i < config_key_count; i++) {
        cr_expect_not_null(strstr(help, config_keys[i].name), "%s", config_keys[i].name);
        cr_expect_not_null(strstr(man, config_keys[i].name), "%s", config_keys[i].name);
    }
    for (char *line = strtok(help, "\n"); line; line = strtok(NULL, "\n"))
        cr_expect(strlen(line) <= 120, "%zu: %s", strlen(line), line);
    free(help);
    free(man);
}
