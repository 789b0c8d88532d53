/* What single spaces are given, in the file and on the command line. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/config.h"

#define NAME64 "abcdefghijklmnopqrstuvwxyz_-0123456789_abcdefghijklmnopqrstuvwxy"

static struct config defaults(void)
{
    struct config c;
    config_defaults(&c);
    return c;
}

static void refused(const char *text, const char *message)
{
    struct config c = defaults(), before = c;
    struct failure f = {0};
    cr_expect_eq(config_read_text(&c, text, strlen(text), "f.json", &f), STATUS_INVALID_ARGUMENT,
                 "accepted: %s", text);
    cr_expect_str_eq(f.text, message, "\n for: %s\n  got: %s\n want: %s", text, f.text, message);
    cr_expect_eq(memcmp(&c, &before, sizeof c), 0, "changed by a refused text: %s", text);
}

static void read_over(struct config *c, const char *text)
{
    struct failure f = {0};
    cr_assert_eq(config_read_text(c, text, strlen(text), "f.json", &f), STATUS_OK, "%s", f.text);
}

static void expect_quotas(const struct config *c, const char *space, struct space_quotas want)
{
    struct space_quotas q = config_quotas(c, space);
    cr_expect_eq(memcmp(&q, &want, sizeof q), 0,
                 "%s: host %lu vram %lu queue %u connections %u weight %u", space, q.host_mib,
                 q.vram_mib, q.queue, q.connections, q.weight);
}

Test(config_spaces, a_space_has_its_own_quotas_and_the_rest_of_the_default)
{
    struct config c = defaults();
    read_over(&c, "{\"spaces\": {\"alpha\": {\"weight\": 4, \"host_mib\": 512}, \"beta\": {},"
                  "\"no-bound\": {\"host_mib\": 0, \"queue\": 1}},"
                  "\"quotas\": {\"host_mib\": 7, \"connections\": 3}}");
    expect_quotas(&c, "alpha", (struct space_quotas){512, 0, 4096, 3, 4, 0});
    expect_quotas(&c, "beta", (struct space_quotas){7, 0, 4096, 3, 1, 0});
    expect_quotas(&c, "no-bound", (struct space_quotas){0, 0, 1, 3, 1, 0});
    expect_quotas(&c, "somebody", (struct space_quotas){7, 0, 4096, 3, 1, 0});

    /* A later default reaches those who have not their own. */
    cr_assert_eq(config_set(&c, "quotas.weight=9", NULL), STATUS_OK);
    expect_quotas(&c, "alpha", (struct space_quotas){512, 0, 4096, 3, 4, 0});
    expect_quotas(&c, "beta", (struct space_quotas){7, 0, 4096, 3, 9, 0});
}

Test(config_spaces, every_quota_reads_to_its_bounds)
{
    struct config c = defaults();
    read_over(&c, "{\"spaces\": {\"" NAME64 "\": {\"host_mib\": 1073741824, \"vram_mib\": 16777216,"
                  "\"queue\": 1048576, \"connections\": 65536, \"weight\": 1000}}}");
    expect_quotas(&c, NAME64, (struct space_quotas){1 << 30, 1 << 24, 1 << 20, 65536, 1000, 0});
}

Test(config_spaces, wrong_settings)
{
    refused("{\"spaces\": {\"alpha\": {\"weight\": 0}}}",
            "f.json: spaces.alpha.weight: 0 is out of range, 1 to 1000");
    refused("{\"spaces\": {\"alpha\": {\"weight\": 1001}}}",
            "f.json: spaces.alpha.weight: 1001 is out of range, 1 to 1000");
    refused("{\"spaces\": {\"alpha\": {\"weight\": 1.5}}}",
            "f.json: spaces.alpha.weight: 1.5 is not a whole number");
    refused("{\"spaces\": {\"alpha\": {\"queue\": 0}}}",
            "f.json: spaces.alpha.queue: 0 is out of range, 1 to 1048576");
    refused("{\"spaces\": {\"alpha\": {\"host_mib\": -1}}}",
            "f.json: spaces.alpha.host_mib: -1 is out of range, 0 to 1073741824");
    refused("{\"spaces\": {\"alpha\": {\"vram_mib\": 16777217}}}",
            "f.json: spaces.alpha.vram_mib: 16777217 is out of range, 0 to 16777216");
    refused("{\"spaces\": {\"" NAME64 "\": {\"connections\": 65537}}}",
            "f.json: spaces." NAME64 ".connections: 65537 is out of range, 0 to 65536");
    refused("{\"spaces\": {\"alpha\": {\"weight\": \"4\"}}}",
            "f.json: spaces.alpha.weight: a text, a whole number wanted");
    refused("{\"spaces\": {\"alpha\": {\"heft\": 4}}}",
            "f.json: spaces.alpha.heft: unknown setting");
    refused("{\"spaces\": {\"alpha\": {\"\": 4}}}", "f.json: spaces.alpha.: unknown setting");
    refused("{\"spaces\": {\"alpha\": {\"weight\": 4, \"weight\": 4}}}",
            "f.json: spaces.alpha.weight: given twice");
    refused("{\"spaces\": {\"alpha\": 4}}",
            "f.json: spaces.alpha: a number, an object of quotas wanted");
    refused("{\"spaces\": {\"alpha\": {}, \"beta\": {}, \"alpha\": {}}}",
            "f.json: spaces.alpha: given twice");
    refused("{\"spaces\": [1]}", "f.json: spaces: a list, an object of settings wanted");
    refused("{\"spaces\": {}, \"spaces\": {}}", "f.json: spaces: given twice");
    refused("{\"spaces.alpha\": {}}", "f.json: spaces.alpha: unknown setting");
    refused("{\"quotas\": {\"weight\": 0}}", "f.json: quotas.weight: 0 is out of range, 1 to 1000");
    refused("{\"quotas\": {\"alpha\": {}}}", "f.json: quotas.alpha: unknown setting");
}

Test(config_spaces, wrong_names)
{
    const char *names[] = {
        "", "ab", "Alpha", "al pha", " alpha", "al.ph", "al\\tpha", "\xC3\xA4\xC3\xA4", NAME64 "x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[200];
        struct config c = defaults();
        struct failure f = {0};
        snprintf(text, sizeof text, "{\"spaces\": {\"%s\": {\"weight\": 4}}}", names[i]);
        cr_expect_eq(config_read_text(&c, text, strlen(text), "f.json", &f),
                     STATUS_INVALID_ARGUMENT, "%s", text);
        cr_expect_not_null(strstr(f.text, ": a space's name has 3 to 64 bytes of [a-z0-9_-]"), "%s",
                           f.text);
    }
}

Test(config_spaces, no_more_than_the_table_holds)
{
    char *text;
    size_t bytes;
    for (int count = CONFIG_SPACES_MAX; count <= CONFIG_SPACES_MAX + 1; count++) {
        FILE *out = open_memstream(&text, &bytes);
        fputs("{\"spaces\": {", out);
        for (int i = 0; i < count; i++)
            fprintf(out, "%s\"s%03d\": {\"weight\": %d}", i ? "," : "", i, i + 1);
        fputs("}}", out);
        fclose(out);
        if (count > CONFIG_SPACES_MAX) {
            refused(text, "f.json: spaces.s256: more than 256 spaces");
        } else {
            struct config c = defaults();
            read_over(&c, text);
            expect_quotas(&c, "s255", (struct space_quotas){0, 0, 4096, 0, 256, 0});
            struct config before = c;
            cr_expect_eq(config_set(&c, "spaces.other.weight=1", NULL), STATUS_INVALID_ARGUMENT);
            cr_expect_eq(memcmp(&c, &before, sizeof c), 0);
            cr_expect_eq(config_set(&c, "spaces.s000.weight=7", NULL), STATUS_OK);
        }
        free(text);
    }
}

Test(config_spaces, from_the_command_line)
{
    static const struct {
        const char *assignment, *message;
    } wrong[] = {
        {"spaces=1", "command line: spaces: unknown setting"},
        {"spaces.alpha=1", "command line: spaces.alpha: spaces.NAME.QUOTA wanted"},
        {"spaces.=1", "command line: spaces.: spaces.NAME.QUOTA wanted"},
        {"spaces.ab.weight=1",
         "command line: spaces.ab: a space's name has 3 to 64 bytes of [a-z0-9_-]"},
        {"spaces.alpha.=1", "command line: spaces.alpha.: unknown setting"},
        {"spaces.alpha.weight.x=1", "command line: spaces.alpha.weight.x: unknown setting"},
        {"spaces.alpha.weight=", "command line: spaces.alpha.weight: '' is not a whole number"},
        {"spaces.alpha.weight=0",
         "command line: spaces.alpha.weight: 0 is out of range, 1 to 1000"},
        {"spaces.alpha.weight=1001",
         "command line: spaces.alpha.weight: 1001 is out of range, 1 to 1000"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct config c = defaults(), before = c;
        struct failure f = {0};
        cr_expect_eq(config_set(&c, wrong[i].assignment, &f), STATUS_INVALID_ARGUMENT);
        cr_expect_str_eq(f.text, wrong[i].message, "%s", f.text);
        cr_expect_eq(memcmp(&c, &before, sizeof c), 0, "%s", wrong[i].assignment);
    }
    struct config c = defaults();
    read_over(&c, "{\"spaces\": {\"alpha\": {\"weight\": 4}}}");
    cr_expect_eq(config_set(&c, "spaces.alpha.host_mib=5", NULL), STATUS_OK);
    cr_expect_eq(config_set(&c, "spaces.beta.queue=6", NULL), STATUS_OK);
    expect_quotas(&c, "alpha", (struct space_quotas){5, 0, 4096, 0, 4, 0});
    expect_quotas(&c, "beta", (struct space_quotas){0, 0, 6, 0, 1, 0});
    struct config before = c;
    cr_expect_eq(config_set(&c, "spaces.alpha.weight=0", NULL), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(memcmp(&c, &before, sizeof c), 0);
}

Test(config_spaces, change_live)
{
    struct config c = defaults(), from = defaults();
    uint32_t ignored = 9;
    cr_assert_eq(config_set(&from, "spaces.alpha.weight=4", NULL), STATUS_OK);
    cr_assert_eq(config_set(&from, "spaces.beta.weight=5", NULL), STATUS_OK);
    cr_assert_eq(config_set(&from, "quotas.queue=6", NULL), STATUS_OK);
    cr_expect_eq(config_apply_live(&c, &from, &ignored), 2);
    cr_expect_eq(ignored, 0);
    expect_quotas(&c, "alpha", (struct space_quotas){0, 0, 6, 0, 4, 0});
    cr_expect_eq(config_apply_live(&c, &from, NULL), 0);
    from = defaults();
    cr_expect_eq(config_apply_live(&c, &from, NULL), 2);
    expect_quotas(&c, "alpha", (struct space_quotas){0, 0, 4096, 0, 1, 0});
}

Test(config_spaces, help_and_man_say_so)
{
    void (*const prints[])(FILE *) = {config_print_help, config_print_man};
    for (int i = 0; i < 2; i++) {
        char *text;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        prints[i](out);
        fclose(out);
        cr_expect_not_null(strstr(text, "spaces.alpha.weight=4"));
        free(text);
    }
}
