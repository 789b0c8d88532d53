/* The keeper: what it saves when, what it takes up again, how often it complains. */
#include "daemon/learn/model_keeper.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "kernels/vectors.h"

#define MINUTES UINT64_C(60000000000)

static char folder[] = "/tmp/engram-keeper-XXXXXX", path[96], log_path[64];
static uv_loop_t loop;
static uint32_t workers = 2;
static struct cost_model model;
static struct model_keeper *keeper;
static uint64_t now_ns;

static struct model_keeper_options options_of(const char *at)
{
    return (struct model_keeper_options){
        .loop = &loop,
        .workers = workers,
        .kernels = vectors_choose("scalar"),
        .model = &model,
        .path = at,
        .now_ns = now_ns,
    };
}

static void open_keeper(const char *at)
{
    struct model_keeper_options options = options_of(at);
    cr_assert_eq(model_keeper_create(&options, &keeper), STATUS_OK);
}

static void prepare(void)
{
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.json", folder);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    cr_assert(log >= 0 && dup2(log, 2) == 2);
    close(log);
    cr_assert_eq(uv_loop_init(&loop), 0);
    cost_init(&model, 2);
    now_ns = MINUTES;
}

static void clean_up(void)
{
    char command[96];
    cr_assert_eq(uv_loop_close(&loop), 0);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(model_keeper, .init = prepare, .fini = clean_up);

static unsigned lines_with(const char *text)
{
    char line[2048];
    unsigned count = 0;
    FILE *in = fopen(log_path, "r");
    cr_assert_not_null(in);
    while (fgets(line, sizeof line, in))
        count += strstr(line, text) != NULL;
    fclose(in);
    return count;
}

static void learn(void)
{
    struct work w = {.operation = OPERATION_KNN,
                     .stride = 32,
                     .queries = 1,
                     .rows = 1000,
                     .pairs = 1000,
                     .gpu_able = true};
    cost_observe(&model, BACKEND_CPU, &w, 70000, 70000);
}

static void check_after(uint64_t minutes)
{
    now_ns += minutes * MINUTES;
    model_keeper_check(keeper, now_ns);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static bool is_saved(void)
{
    return access(path, F_OK) == 0;
}

Test(model_keeper, saves_every_ten_minutes_what_was_learnt)
{
    open_keeper(path);
    check_after(11);
    cr_assert(!is_saved(), "nothing was learnt");
    learn();
    check_after(1);
    cr_assert(!is_saved(), "too early");
    check_after(10);
    cr_assert(is_saved());
    unlink(path);
    check_after(11);
    cr_assert(!is_saved(), "nothing new was learnt");
    learn();
    check_after(11);
    cr_assert(is_saved());
    struct cost_line line = model.lines[0][cost_line_of(OPERATION_KNN)];
    model_keeper_destroy(keeper);

    cost_init(&model, 2);
    open_keeper(path);
    struct cost_line *taken = &model.lines[0][cost_line_of(OPERATION_KNN)];
    cr_assert_eq(taken->seen, line.seen);
    cr_assert_eq(memcmp(taken->cells, line.cells, sizeof line.cells), 0);
    cr_assert(!model_keeper_calibrated(keeper, HALF_CPU), "requests are no calibration");
    model_keeper_set_calibrated(keeper, HALF_CPU);
    model_keeper_destroy(keeper);
    open_keeper(path);
    cr_assert(model_keeper_calibrated(keeper, HALF_CPU));
    cr_assert(!model_keeper_calibrated(keeper, HALF_GPU) && !model_keeper_knows_gpus(keeper));
    model_keeper_destroy(keeper);
}

Test(model_keeper, complains_once)
{
    char beside[64];
    snprintf(beside, sizeof beside, "%s/later", folder);
    snprintf(path, sizeof path, "%s/later/model.json", folder);
    open_keeper(path);
    for (int i = 0; i < 3; i++) {
        learn();
        check_after(11);
    }
    cr_assert_eq(lines_with("cannot write"), 1);
    cr_assert_eq(mkdir(beside, 0700), 0);
    check_after(11); /* though nothing was learnt since */
    cr_assert(is_saved());
    cr_assert_eq(lines_with("written again"), 1);
    model_keeper_destroy(keeper);
}

Test(model_keeper, another_machine_starts_anew)
{
    open_keeper(path);
    learn();
    model_keeper_set_calibrated(keeper, HALF_CPU);
    model_keeper_destroy(keeper);
    workers = 3;
    cost_init(&model, 3);
    struct cost_model *fresh = malloc(sizeof *fresh);
    *fresh = model;
    open_keeper(path);
    cr_assert_eq(memcmp(fresh, &model, sizeof model), 0);
    cr_assert(!model_keeper_calibrated(keeper, HALF_CPU));
    cr_assert_eq(lines_with("; ignored"), 1);
    free(fresh);
    model_keeper_destroy(keeper);
}

Test(model_keeper, nowhere_is_no_error)
{
    unsetenv("STATE_DIRECTORY");
    open_keeper("");
    learn();
    check_after(11);
    model_keeper_destroy(keeper);
    cr_assert_eq(lines_with("model"), 0);
    fault_arm(1);
    struct model_keeper_options options = options_of("");
    cr_assert_eq(model_keeper_create(&options, &keeper), STATUS_RESOURCE_EXHAUSTED);
    fault_arm(0);
}
