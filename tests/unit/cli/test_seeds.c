/* What spread and graph set read: seeds, decay laws, lines about nodes. */
#include "client/cli/text/decay.h"
#include "client/cli/files/node_lines.h"
#include "client/cli/commands/seeds.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/lines.XXXXXX";

static void make_file(void)
{
    strcpy(path, "/tmp/lines.XXXXXX");
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && close(fd) == 0);
}

static void remove_file(void)
{
    cr_assert_eq(unlink(path), 0);
}

static void write_text(const char *text)
{
    FILE *out = fopen(path, "w");
    cr_assert(out && fputs(text, out) >= 0 && fclose(out) == 0);
}

/* What follows the file's name. */
static const char *after_name(const char *error)
{
    cr_assert_eq(strncmp(error, path, strlen(path)), 0, "%s", error);
    return error + strlen(path);
}

TestSuite(seeds, .init = make_file, .fini = remove_file);
TestSuite(node_lines, .init = make_file, .fini = remove_file);

Test(seeds, of_the_command_line)
{
    struct seeds s = {0};
    cr_assert(seeds_add_text(&s, "7") && seeds_add_text(&s, "3=0.25"));
    cr_assert(seeds_add_text(&s, "18446744073709551614=1e-40"));
    cr_assert(seeds_arrange(&s));
    cr_assert(s.sets == 1 && s.offsets[0] == 0 && s.offsets[1] == 3 && s.numbers[0] == 0);
    cr_assert(s.ids[0] == 7 && s.activations[0] == 1 && s.ids[1] == 3 &&
              s.activations[1] == 0.25f && s.activations[2] > 0);
    static const char *const bad[][2] = {
        {"", "'' is not ID or ID=ACTIVATION"},
        {"x", "'x' is not ID or ID=ACTIVATION"},
        {"18446744073709551615", "'18446744073709551615' is not ID or ID=ACTIVATION"},
        {"000000000000000000000000007", "'000000000000000000000000007' is not ID or ID=ACTIVATION"},
        {"7=", "'7=': the activation is not a number above 0"},
        {"7=0", "'7=0': the activation is not a number above 0"},
        {"7=-1", "'7=-1': the activation is not a number above 0"},
        {"7=inf", "'7=inf': the activation is not a number above 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_not(seeds_add_text(&s, bad[i][0]), "%s", bad[i][0]);
        cr_assert_str_eq(s.error, bad[i][1]);
    }
    seeds_free(&s);
}

Test(seeds, of_a_file_in_sets)
{
    struct seeds s = {0};
    write_text("# id activation set\n5\t0.5\t9\n6 1 2\r\n\n5 0.25 9\n8\n");
    cr_assert(seeds_read(&s, path), "%s", s.error);
    cr_assert(seeds_arrange(&s));
    cr_assert_eq(s.sets, 3);
    cr_assert(s.numbers[0] == 0 && s.numbers[1] == 2 && s.numbers[2] == 9);
    cr_assert(s.offsets[1] == 1 && s.offsets[2] == 2 && s.offsets[3] == 4);
    cr_assert(s.ids[0] == 8 && s.activations[0] == 1 && s.ids[1] == 6);
    cr_assert(s.ids[2] == 5 && s.activations[2] == 0.5f && s.activations[3] == 0.25f,
              "in the order given");
    seeds_free(&s);
}

Test(seeds, refused)
{
    static const char *const bad[][2] = {
        {"# none\n", ": line 1: the file ends without a seed"},
        {"1\n2 0\n", ": line 2: activation '0' is not a number above 0"},
        {"1\n2 1 1 1\n", ": line 2: 4 fields; expected an id, and perhaps an activation and a set"},
        {"x 1\n", ": line 1: id 'x' is not a whole number from 0 to 2^64 - 2"},
        {"1 1 -1\n", ": line 1: set '-1' is not a whole number"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct seeds s = {0};
        write_text(bad[i][0]);
        cr_assert_not(seeds_read(&s, path), "%s", bad[i][0]);
        cr_assert_str_eq(after_name(s.error), bad[i][1]);
        seeds_free(&s);
    }
}

Test(decay, laws)
{
    struct decay d;
    char error[200];
    cr_assert(decay_parse("exponential", &d, error, sizeof error));
    cr_assert(d.law == EA_DECAY_EXPONENTIAL && d.parameter == 0.7f);
    cr_assert(decay_parse("exponential:0", &d, error, sizeof error));
    cr_assert(d.law == EA_DECAY_EXPONENTIAL && d.parameter == 0);
    cr_assert(decay_parse("power:1.5", &d, error, sizeof error));
    cr_assert(d.law == EA_DECAY_POWER && d.parameter == 1.5f);
    cr_assert(decay_parse("linear:0.2", &d, error, sizeof error));
    cr_assert(d.law == EA_DECAY_LINEAR && d.parameter == 0.2f);
    cr_assert(decay_parse("constant", &d, error, sizeof error) && d.law == EA_DECAY_CONSTANT);
    cr_assert(decay_parse("table:0.9,0,2", &d, error, sizeof error));
    cr_assert(d.law == EA_DECAY_TABLE && d.count == 3 && d.table[0] == 0.9f && d.table[2] == 2);
    cr_assert_eq(d.parameter, 0);
    char many[2 * DECAY_HOPS_MAX + 8] = "table:1";
    for (unsigned i = 1; i < DECAY_HOPS_MAX; i++)
        strcat(many, ",1");
    cr_assert(decay_parse(many, &d, error, sizeof error) && d.count == DECAY_HOPS_MAX);
    cr_assert_not(decay_parse(strcat(many, ",1"), &d, error, sizeof error));
}

Test(decay, refused)
{
    static const char *const bad[][2] = {
        {"", "'' is not exponential:P, power:P, linear:P, table:F1,F2,... or constant"},
        {"exp:1", "'exp:1' is not exponential:P, power:P, linear:P, table:F1,F2,... or constant"},
        {"power", "'power' needs a number, as power:1.5"},
        {"linear:", "'linear:': '' is not a number from 0 up"},
        {"power:-1", "'power:-1': '-1' is not a number from 0 up"},
        {"power:1,2", "'power:1,2': '1,2' is not a number from 0 up"},
        {"constant:1", "'constant:1': constant takes no number"},
        {"table", "'table' needs its factors, as table:0.9,0.5"},
        {"table:", "'table:': a table has 1 to 100 numbers from 0 up, with commas"},
        {"table:1,", "'table:1,': a table has 1 to 100 numbers from 0 up, with commas"},
        {"table:1,x", "'table:1,x': a table has 1 to 100 numbers from 0 up, with commas"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct decay d;
        char error[200] = "";
        cr_assert_not(decay_parse(bad[i][0], &d, error, sizeof error), "%s", bad[i][0]);
        cr_assert_str_eq(error, bad[i][1]);
    }
}

Test(node_lines, by_what_they_give)
{
    struct node_lines n;
    write_text("9 concept\n5\tepisode\t0.5\r\n7 - 2\n# note\n3 - -\n2 plain -\n");
    cr_assert(node_lines_read(&n, path), "%s", n.error);
    cr_assert_eq(n.count, 5);
    static const uint64_t ids[] = {3, 2, 9, 7, 5};
    static const uint8_t gives[] = {GIVES_ID, GIVES_KIND, GIVES_KIND, GIVES_FACTOR, GIVES_BOTH};
    for (unsigned i = 0; i < 5; i++)
        cr_assert(n.list[i].id == ids[i] && n.list[i].gives == gives[i], "%u", i);
    cr_assert(n.list[2].kind == 2 && n.list[3].factor == 2 && n.list[4].kind == 1 &&
              n.list[4].factor == 0.5f);
    cr_assert_str_eq(node_kind_name(1), "episode");
    cr_assert_str_eq(node_kind_name(3), "?");
    node_lines_free(&n);
    write_text("");
    cr_assert(node_lines_read(&n, path) && n.count == 0);
    node_lines_free(&n);
}

Test(node_lines, refused)
{
    static const char *const bad[][2] = {
        {"1\n", ": line 1: 1 field; expected an id, a kind and perhaps a factor"},
        {"1 dream\n", ": line 1: kind 'dream' is not plain, episode, concept or -"},
        {"1 plain 65537\n", ": line 1: factor '65537' is not a number from 0 to 65,536 or -"},
        {"1 plain -1\n", ": line 1: factor '-1' is not a number from 0 to 65,536 or -"},
        {"1 plain\n2 plain\n1 concept 2\n", ": line 3: id 1 stands in line 1 already"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct node_lines n;
        write_text(bad[i][0]);
        cr_assert_not(node_lines_read(&n, path), "%s", bad[i][0]);
        cr_assert_str_eq(after_name(n.error), bad[i][1]);
        node_lines_free(&n);
    }
}
