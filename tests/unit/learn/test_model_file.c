/* Saved models: what comes back, what is refused, and what stays when writing fails. */
#include "daemon/learn/model_file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include "daemon/base/fault.h"

static struct model_file made, read_back;
static char folder[] = "/tmp/engram-model-XXXXXX", path[64];

static void make_place(void)
{
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.json", folder);
}

static void remove_place(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

/* Every number another, none of them round. */
static void make_model(struct model_file *m)
{
    double next = 0.1;
    memset(m, 0, sizeof *m);
    for (int h = 0; h < HALVES; h++) {
        struct model_half *half = &m->halves[h];
        half->known = half->calibrated = true;
        snprintf(half->machine, sizeof half->machine, "machine %d", h);
        half->upload_ns = 1234.5 + h;
        half->upload_ns_per_byte = 0.0251 + h;
        for (int i = 0; i < COST_OPERATIONS; i++) {
            struct cost_line *line = &half->lines[i];
            for (int n = 0; n < COST_FEATURES; n++) {
                line->coefficients[n] = next = next * 1.07 + 0.013;
                line->doubt[n][n] = (float)(0.3 + 0.01 * n);
                line->doubt[n][(n + 1) % COST_FEATURES] = -0.02F;
                line->doubt[(n + 1) % COST_FEATURES][n] = -0.02F;
            }
            line->drift = -0.37F;
            line->lean = 0.011F;
            line->spread = 0.21F;
            line->overlap = 0.83F;
            line->screened = (struct cost_cell){0.27F, 31.5F};
            line->seen = 1000003u * (unsigned)(i + 1);
            line->cells[i][i % COST_WIDTHS] = (struct cost_cell){-0.7F, 3.3F};
            line->cells[COST_SIZES - 1][COST_WIDTHS - 1] = (struct cost_cell){0.123F, 63.9F};
        }
    }
}

/* cJSON writes 15 digits where that is the number but for its last bit. */
static bool is_same(const struct model_file *a, const struct model_file *b)
{
    char *first = model_file_print(a), *second = model_file_print(b);
    bool same = first && second && strcmp(first, second) == 0;
    free(first);
    free(second);
    return same;
}

static enum status parse(const char *text, struct failure *f)
{
    memset(f, 0, sizeof *f);
    return model_file_parse(text, strlen(text), &read_back, f);
}

Test(model_file, comes_back)
{
    struct failure f = {0};
    struct stat sb;
    make_place();
    make_model(&made);
    cr_assert_eq(model_file_write(path, &made, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(stat(path, &sb), 0);
    cr_assert_eq(sb.st_mode & 0777, 0600);
    cr_assert_eq(model_file_read(path, &read_back, &f), STATUS_OK, "%s", f.text);
    cr_assert(is_same(&made, &read_back));
    cr_assert_float_eq(read_back.halves[HALF_GPU].lines[7].coefficients[5],
                       made.halves[HALF_GPU].lines[7].coefficients[5], 1e-12);
    cr_assert_eq(read_back.halves[HALF_CPU].lines[3].seen, 4000012);
    cr_assert_eq(read_back.halves[HALF_CPU].lines[3].cells[3][3].bias, -0.7F);
    cr_assert_eq(read_back.halves[HALF_CPU].lines[3].screened.bias, 0.27F);
    cr_assert_eq(read_back.halves[HALF_CPU].lines[3].screened.weight, 31.5F);
    cr_assert_str_eq(read_back.halves[HALF_GPU].machine, "machine 1");
    made.halves[HALF_CPU].known = false; /* one half alone */
    cr_assert_eq(model_file_write(path, &made, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(model_file_read(path, &read_back, &f), STATUS_OK, "%s", f.text);
    cr_assert(!read_back.halves[HALF_CPU].known && read_back.halves[HALF_GPU].known);
    remove_place();
}

Test(model_file, keeps_no_outcomes)
{
    struct failure f;
    make_model(&made);
    char *plain = model_file_print(&made);
    made.halves[HALF_GPU].lines[0].outcomes[0] = 0;
    made.halves[HALF_GPU].lines[0].outcome_count = 64; /* all bad */
    char *text = model_file_print(&made);
    cr_assert_str_eq(text, plain);
    cr_assert_eq(parse(text, &f), STATUS_OK);
    cr_assert_eq(read_back.halves[HALF_GPU].lines[0].outcome_count, 0);
    free(plain);
    free(text);
}

/* ---------------------------------------------------------------- what is refused */

Test(model_file, every_prefix_is_refused)
{
    struct failure f;
    make_model(&made);
    memset(&read_back, 0x5a, sizeof read_back);
    struct model_file *before = malloc(sizeof *before);
    *before = read_back;
    char *text = model_file_print(&made);
    size_t bytes = strlen(text);
    for (size_t n = 0; n < bytes; n += n < 200 || bytes - n < 200 ? 1 : 97) {
        memset(&f, 0, sizeof f);
        cr_assert_eq(model_file_parse(text, n, &read_back, &f), STATUS_INVALID_ARGUMENT, "%zu", n);
        cr_assert(f.text[0]);
        cr_assert_eq(memcmp(&read_back, before, sizeof read_back), 0, "changed by a prefix");
    }
    free(before);
    free(text);
}

/* The whole with the first `from` replaced. */
static void expect_refused(const char *from, const char *to, const char *word)
{
    struct failure f;
    make_model(&made);
    char *text = model_file_print(&made), *at = strstr(text, from);
    cr_assert_not_null(at, "there is no %s", from);
    char *changed = malloc(strlen(text) + strlen(to) + 1);
    sprintf(changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    enum status st = parse(changed, &f);
    cr_assert_eq(st, STATUS_INVALID_ARGUMENT, "%s -> %s was taken", from, to);
    cr_assert(strstr(f.text, word), "%s -> %s: '%s' does not say '%s'", from, to, f.text, word);
    free(changed);
    free(text);
}

Test(model_file, refuses_what_makes_no_sense)
{
    expect_refused("\"format\":6", "\"format\":1", "format");
    expect_refused("\"format\":6,", "", "format");
    expect_refused("\"version\":\"" ENGRAM_VERSION, "\"version\":\"9", "version");
    expect_refused("\"machine\":\"machine 0\"", "\"machine\":7", "machine");
    expect_refused("\"drift\":", "\"drift\":1e999,\"x\":", "finite");
    expect_refused("\"drift\":", "\"drift\":null,\"x\":", "number");
    expect_refused("\"drift\":", "\"shift\":", "drift");
    expect_refused("\"spread\":", "\"spread\":-", "negative");
    expect_refused("\"overlap\":", "\"overlap\":-", "negative");
    expect_refused("\"seen\":", "\"seen\":-", "negative");
    expect_refused("\"coefficients\":[", "\"coefficients\":[-", "negative");
    expect_refused("\"coefficients\":[", "\"coefficients\":[1,", "each feature");
    expect_refused("\"doubt\":[", "\"doubt\":[-", "negative");
    expect_refused("\"upload_ns\":", "\"upload_ns\":-", "negative");
    expect_refused("\"upload_ns_per_byte\":", "\"upload_ns_per_byte\":1e400,\"x\":", "finite");
    expect_refused("\"screened\":[", "\"screen\":[", "screened");
    expect_refused("\"screened\":[", "\"screened\":[1,", "screened");
    expect_refused("\"cells\":[[0,", "\"cells\":[[48,", "grid");
    expect_refused("\"cells\":[[0,0,", "\"cells\":[[0,6,", "grid");
    expect_refused("\"cells\":[[0,", "\"cells\":[[-1,", "negative");
    expect_refused("\"cells\":[[", "\"cells\":[[],[", "four");
    expect_refused("\"cells\":[[", "\"cells\":[7,[", "four");
    expect_refused("\"lines\":[", "\"lines\":[{},", "kind of work");
    expect_refused("\"lines\":[{", "\"lines\":{\"x\":[{", "JSON");
    expect_refused("\"cpu\":{", "\"cpu\":7,\"x\":{", "objects");
    expect_refused("{\"format\"", "[[[[[[[[[{\"format\"", "JSON");
}

Test(model_file, cuts_what_is_beyond_belief)
{
    struct failure f;
    make_model(&made);
    struct cost_line *line = &made.halves[HALF_CPU].lines[0];
    line->drift = 1e30F;
    line->coefficients[0] = 1e200;
    line->overlap = 7;
    line->doubt[0][0] = 0;
    line->doubt[2][3] = line->doubt[3][2] = 100; /* more than its variances */
    line->cells[0][0] = (struct cost_cell){-1e30F, 1e30F};
    char *text = model_file_print(&made);
    cr_assert_eq(parse(text, &f), STATUS_OK, "%s", f.text);
    const struct cost_line *got = &read_back.halves[HALF_CPU].lines[0];
    cr_assert(got->drift <= 20 && got->coefficients[0] <= 1e12 && got->overlap == 1);
    cr_assert(got->doubt[0][0] > 0 && got->doubt[2][3] == 0 && got->doubt[2][2] > 0.3F);
    cr_assert(got->cells[0][0].bias >= -20 && got->cells[0][0].weight <= 1e6F);
    free(text);
}

Test(model_file, reads_only_files_of_a_sensible_size)
{
    struct failure f = {0};
    make_place();
    cr_assert_eq(model_file_read(path, &read_back, &f), STATUS_NOT_FOUND);
    cr_assert_eq(model_file_read(folder, &read_back, &f), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(f.text, "regular"));
    cr_assert_eq(mkfifo(path, 0600), 0); /* without a writer: must not wait for one */
    cr_assert_eq(model_file_read(path, &read_back, &f), STATUS_INVALID_ARGUMENT);
    make_model(&made); /* nor is it replaced: it might be a device */
    cr_assert_eq(model_file_write(path, &made, &f), STATUS_INVALID_ARGUMENT);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    cr_assert(fd >= 0 && ftruncate(fd, MODEL_BYTES_MAX + 1) == 0);
    cr_assert_eq(model_file_read(path, &read_back, &f), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(f.text, "1 MiB"), "%s", f.text);
    cr_assert_eq(ftruncate(fd, 0), 0);
    cr_assert_eq(model_file_read(path, &read_back, &f), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(f.text, "empty"), "%s", f.text);
    close(fd);
    remove_place();
}

/* ---------------------------------------------------------------- when writing fails */

static void expect_only_the_old(void)
{
    struct failure f = {0};
    char beside[80];
    snprintf(beside, sizeof beside, "%s.new", path);
    cr_assert_neq(access(beside, F_OK), 0, "something is left beside it");
    cr_assert_eq(model_file_read(path, &read_back, &f), STATUS_OK, "%s", f.text);
    make_model(&made);
    cr_assert(is_same(&made, &read_back), "the old one has changed");
}

Test(model_file, a_full_disk_leaves_the_old_one)
{
    struct failure f = {0};
    make_place();
    make_model(&made);
    cr_assert_eq(model_file_write(path, &made, &f), STATUS_OK, "%s", f.text);
    made.halves[HALF_CPU].upload_ns = 99;
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit, full;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    full = limit;
    full.rlim_cur = 4096; /* writes end after that with EFBIG, as they do with ENOSPC */
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &full), 0);
    enum status st = model_file_write(path, &made, &f);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_neq(st, STATUS_OK);
    cr_assert(strstr(f.text, "cannot write"), "%s", f.text);
    expect_only_the_old();
    remove_place();
}

Test(model_file, every_site_of_writing_and_reading)
{
    make_place();
    make_model(&made);
    struct failure f = {0};
    cr_assert_eq(model_file_write(path, &made, &f), STATUS_OK, "%s", f.text);
    uint32_t nth = 1;
    for (;; nth++) {
        make_model(&made);
        made.halves[HALF_CPU].upload_ns = 99;
        memset(&f, 0, sizeof f);
        fault_arm(nth);
        enum status st = model_file_write(path, &made, &f);
        const char *site = fault_fired();
        fault_arm(0);
        if (!site) break;
        cr_assert(st != STATUS_OK && f.text[0], "%s failed and nobody noticed", site);
        expect_only_the_old();
    }
    cr_assert_geq(nth, 6, "only %u sites", nth - 1);
    for (nth = 1;; nth++) {
        memset(&f, 0, sizeof f);
        fault_arm(nth);
        enum status st = model_file_read(path, &read_back, &f);
        const char *site = fault_fired();
        fault_arm(0);
        if (!site) break;
        cr_assert(st != STATUS_OK && f.text[0], "%s failed and nobody noticed", site);
    }
    cr_assert_geq(nth, 5);
    remove_place();
}
