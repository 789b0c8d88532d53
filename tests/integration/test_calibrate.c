/* Calibration at the start and the saved model, in the real daemon: what is measured, what is kept,
 * what a bad file, a kill or a busy client does to it, and that nobody sees any of it. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/learn/model_file.h"
#include "tests/support/gpu_scene.h"

static struct daemon_process d;
static char folder[] = "/tmp/engram-calibrate-XXXXXX", path[64], file_setting[96];

static void prepare(void)
{
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.json", folder);
    snprintf(file_setting, sizeof file_setting, "sched.model_file=%s", path);
}

static void clean_up(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(calibrate, .init = prepare, .fini = clean_up, .timeout = 900);

/* gpu: "sim" or "none". */
static void start(const char *gpu, const char *calibrate)
{
    char devices[32], measured[40];
    snprintf(devices, sizeof devices, "gpu.devices=%s", gpu);
    snprintf(measured, sizeof measured, "sched.calibrate=%s", calibrate);
    daemon_start(&d, (const char *[]){devices, measured, file_setting, "workers.count=2",
                                      "workers.pin=false", "memory.cache_mib=1", NULL});
}

static unsigned lines_with(const char *first, const char *second)
{
    char line[2048];
    unsigned count = 0;
    FILE *in = fopen(d.log_path, "r");
    cr_assert_not_null(in);
    while (fgets(line, sizeof line, in))
        count += strstr(line, first) && strstr(line, second);
    fclose(in);
    return count;
}

static void await_line(const char *text)
{
    int64_t until = give_up_ms();
    while (!daemon_logged(&d, text)) {
        cr_assert(now_ms() < until, "the log does not say '%s'", text);
        wait_ms(2);
    }
}

static ea_client *client_of(const char *space)
{
    ea_client *c = NULL;
    ea_options options = {
        .socket_path = d.socket_path, .space = space, .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    return c;
}

static void expect_served(void)
{
    static const float row[4] = {1, 2, 3, 4};
    static const uint64_t id = 7;
    ea_client *c = client_of("anyone");
    ea_result r = {0};
    cr_assert_eq(ea_collection_create(c, "one", 4, EA_COSINE, NULL), EA_OK);
    cr_assert_eq(
        ea_upsert(
            c, &(ea_rows){.collection = "one", .ids = &id, .rows = row, .count = 1, .dimension = 4},
            NULL),
        EA_OK);
    cr_assert_eq(
        ea_knn(c,
               &(ea_knn_question){
                   .collection = "one", .queries = row, .query_count = 1, .dimension = 4, .k = 1},
               &r),
        EA_OK);
    cr_assert_eq(r.ids[0], 7);
    ea_result_free(&r);
    cr_assert_eq(ea_collection_drop(c, "one"), EA_OK);
    ea_close(c);
}

static void expect_sound_file(void)
{
    static struct model_file m;
    struct failure f = {0};
    cr_assert_eq(model_file_read(path, &m, &f), STATUS_OK, "%s", f.text);
}

/* ---------------------------------------------------------------- what it does */

/* Its line is not the built-in one. */
static void expect_measured(const struct model_half *half, enum calibrated_half which,
                            uint32_t operation)
{
    static struct cost_model built_in;
    uint32_t line = cost_line_of(operation);
    cost_init(&built_in, 2);
    cr_assert_neq(half->lines[line].coefficients[0],
                  built_in.lines[which == HALF_GPU][line].coefficients[0],
                  "operation %u of half %d was not measured", operation, (int)which);
}

Test(calibrate, measures_both_and_remembers)
{
    struct stat sb;
    static struct model_file m;
    struct failure f = {0};
    start("sim", "true");
    await_line("calibrated the CPU in");
    await_line("calibrated the GPUs in");
    cr_assert_eq(daemon_stop(&d), 0);
    cr_assert_eq(stat(path, &sb), 0);
    cr_assert_eq(sb.st_mode & 0777, 0600);
    cr_assert_eq(model_file_read(path, &m, &f), STATUS_OK, "%s", f.text);
    for (enum calibrated_half half = HALF_CPU; half < HALVES; half++) {
        cr_assert(m.halves[half].known && m.halves[half].calibrated);
        expect_measured(&m.halves[half], half, OPERATION_KNN);
        expect_measured(&m.halves[half], half, OPERATION_SIMILARITY);
        expect_measured(&m.halves[half], half, OPERATION_SCORE_CANDIDATES);
        expect_measured(&m.halves[half], half, OPERATION_WEIGHTED_AVERAGE);
        expect_measured(&m.halves[half], half, OPERATION_SPREAD);
        expect_measured(&m.halves[half], half, OPERATION_SPREAD_ENGRAM);
    }
    cr_assert(strstr(m.halves[HALF_CPU].machine, "2 workers"));
    cr_assert(strstr(m.halves[HALF_GPU].machine, "GPU-simulated"));

    start("sim", "true");
    await_line("model: loaded");
    cr_assert_eq(lines_with("model: loaded", "the CPU"), 1);
    await_line("knows of the GPUs");
    expect_served();
    cr_assert(!daemon_logged(&d, "calibrated"), "measured again");
    cr_assert_eq(daemon_stop(&d), 0);

    start("none", "true"); /* without the card its half is kept */
    expect_served();
    cr_assert_eq(daemon_stop(&d), 0);
    start("sim", "true");
    await_line("knows of the GPUs");
    cr_assert_eq(daemon_stop(&d), 0);
}

Test(calibrate, off_means_off)
{
    start("sim", "false");
    await_line("ready after");
    cr_assert(!daemon_logged(&d, "alibrat"));
    cr_assert_eq(daemon_stop(&d), 0);
    cr_assert_neq(access(path, F_OK), 0, "something was saved though nothing was learnt");
}

/* What a client could see before, while and after. */
Test(calibrate, nobody_sees_it)
{
    static ea_stats stats;
    start("sim", "true");
    ea_client *c = client_of("default");
    ea_collection_info info;
    ea_graph_info graph;
    await_line("calibrated the GPUs in");
    int64_t until = give_up_ms();
    do {
        wait_ms(50);
        cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
        cr_assert(now_ms() < until, "blocks of %llu bytes, %llu replicas stay",
                  (unsigned long long)stats.memory_bytes_used,
                  (unsigned long long)stats.gpus[0].replicas);
    } while (stats.memory_bytes_used > 1 << 20 || stats.gpus[0].replicas);
    cr_assert_eq(stats.route_count, 0);
    cr_assert_eq(stats.collections + stats.rows + stats.vram_bytes + stats.errors_total, 0);
    for (uint32_t i = 0; i < stats.operation_count; i++)
        cr_assert(strcmp(stats.operations[i].name, "knn") != 0);
    for (int i = 0; i < EA_BACKENDS; i++)
        cr_assert_eq(stats.backend_requests[i], 0);
    cr_assert_eq(stats.jobs_in_flight, 1); /* this one */
    cr_assert_eq(ea_collection_describe(c, "ground", &info), EA_NOT_FOUND);
    cr_assert_eq(ea_graph_describe(c, "ground", &graph), EA_NOT_FOUND);
    ea_close(c);

    ea_options options = {.socket_path = d.socket_path, .space = ".calibration"};
    c = NULL;
    cr_assert(ea_open(&options, &c) || ea_ping(c), "a client may call itself so");
    ea_close(c);
    cr_assert_eq(daemon_stop(&d), 0);
}

/* What it has when a first client was served, and nothing was measured. */
Test(calibrate, memory_is_back)
{
    start("none", "false");
    expect_served();
    size_t before = process_resident_kib(d.pid), descriptors = 0;
    cr_assert_eq(daemon_stop(&d), 0);
    start("none", "true");
    descriptors = process_descriptors(d.pid);
    await_line("calibrated the CPU in");
    expect_served();
    int64_t until = give_up_ms();
    size_t after, left;
    while ((after = process_resident_kib(d.pid)) > before + 4096 * (size_t)scaled_ms(1) ||
           (left = process_descriptors(d.pid)) > descriptors) {
        cr_assert(now_ms() < until, "%zu KiB resident, %zu without; %zu descriptors, before %zu",
                  after, before, left, descriptors);
        wait_ms(50);
    }
    cr_assert_eq(daemon_stop(&d), 0);
}

/* ---------------------------------------------------------------- in its way */

/* What became of measuring the CPU when the daemon was asked to stop. */
enum stopped { STOPPED_AFTER_IT, STOPPED_IN_IT, STOPPED_TOO_LATE };

/* mib: how much it has filled when it is stopped; later, if this process was; on_card: while it
 * waits for a card that takes 10 s for each answer. */
static enum stopped stop_while_it_measures(unsigned mib, bool on_card)
{
    daemon_start(&d, (const char *[]){"gpu.devices=sim", "gpu.sim=latency_us=10000000 slow=100000",
                                      "gpu.job_ms=3600000", "sched.calibrate=true",
                                      "limits.drain_ms=3600000", file_setting, "workers.count=2",
                                      NULL});
    size_t enough = process_resident_kib(d.pid) + (size_t)1024 * mib;
    if (on_card) await_line("calibrated the CPU in");
    while (!daemon_logged(&d, "calibrated the CPU in") && process_resident_kib(d.pid) < enough)
        wait_ms(1);
    process_pause(d.pid);
    bool before = daemon_logged(&d, "calibrated the CPU in");
    kill(d.pid, SIGTERM);
    kill(d.pid, SIGCONT);
    int status;
    cr_assert_eq(waitpid(d.pid, &status, 0), d.pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%u MiB", mib);
    bool after = daemon_logged(&d, "calibrated the CPU in");
    cr_assert(!daemon_logged(&d, "calibrated the GPUs in"), "%u MiB", mib);
    daemon_clean(&d);
    unlink(path);
    return before ? STOPPED_AFTER_IT : after ? STOPPED_TOO_LATE : STOPPED_IN_IT;
}

/* Stopped before it begins, while it fills or measures for the CPU, and while it waits for a card.
 * What it had not finished when it was asked to stop, it does not finish; one that was at its very
 * last trial may, and is tried again. */
Test(calibrate, stops_at_once)
{
    enum { ROUNDS = 9, CARD_ROUNDS = 3 };
    unsigned in_it = 0;
    int64_t until = give_up_ms();
    for (unsigned i = 0; i < ROUNDS || !in_it; i++) {
        enum stopped how;
        while ((how = stop_while_it_measures(i % ROUNDS, false)) == STOPPED_TOO_LATE)
            cr_assert(now_ms() < until, "it always goes on to the end, from %u MiB", i % ROUNDS);
        in_it += how == STOPPED_IN_IT;
        cr_assert(now_ms() < until, "it cannot be stopped in the middle");
    }
    for (unsigned i = 0; i < CARD_ROUNDS; i++)
        cr_assert_eq(stop_while_it_measures(ROUNDS + i, true), STOPPED_AFTER_IT);
}

/* Of all processes the first is killed, when it is given the first kNN, which is a trial. */
Test(calibrate, outlives_the_gpu_process)
{
    char sim[128];
    snprintf(sim, sizeof sim, "gpu.sim=fail=1:crash@topk count=%s/calls", folder);
    daemon_start(&d, (const char *[]){"gpu.devices=sim", sim, file_setting, "sched.calibrate=true",
                                      "workers.count=2", NULL});
    await_line("calibrated the GPUs in");
    cr_assert_eq(lines_with("exited with signal 9", "restart 1"), 1);
    expect_served();
    cr_assert_eq(daemon_stop(&d), 0);
    expect_sound_file();
}

Test(calibrate, little_memory_is_enough)
{
    daemon_start(&d, (const char *[]){"sched.calibrate=true", "memory.max_mib=32", NULL});
    await_line("calibrated the CPU in");
    expect_served();
    cr_assert_eq(daemon_stop(&d), 0);
}

/* The longest collection has no room there. */
Test(calibrate, a_small_card_is_measured_with_what_fits)
{
    daemon_start(&d, (const char *[]){"sched.calibrate=true", "gpu.devices=sim", file_setting,
                                      "gpu.sim=vram_mib=16", NULL});
    await_line("calibrated the GPUs in");
    expect_served();
    cr_assert_eq(daemon_stop(&d), 0);
}

Test(calibrate, too_little_memory_is_one_line)
{
    daemon_start(&d, (const char *[]){"sched.calibrate=true", "memory.max_mib=8", NULL});
    await_line("not enough memory");
    expect_served();
    cr_assert_eq(lines_with("calibration of", "not enough memory"), 1);
    cr_assert_eq(daemon_stop(&d), 0);
}

/* ---------------------------------------------------------------- the file */

static void write_file(const char *text, size_t bytes)
{
    FILE *out = fopen(path, "w");
    cr_assert(out && fwrite(text, 1, bytes, out) == bytes && fclose(out) == 0);
}

static void expect_ignored(const char *what, const char *word)
{
    start("none", "false");
    await_line("; ignored");
    cr_assert_eq(lines_with("model: ", "; ignored"), 1, "%s: not one line", what);
    cr_assert_eq(lines_with("model: ", word), 1, "%s: the line does not say '%s'", what, word);
    cr_assert(!daemon_logged(&d, "model: loaded"), "%s", what);
    expect_served();
    cr_assert_eq(daemon_stop(&d), 0, "%s", what);
}

Test(calibrate, a_bad_file_is_one_line)
{
    static char text[MODEL_BYTES_MAX + 16];
    start("none", "true");
    await_line("calibrated the CPU in");
    cr_assert_eq(daemon_stop(&d), 0);
    FILE *in = fopen(path, "r");
    cr_assert_not_null(in);
    size_t bytes = fread(text, 1, sizeof text - 1, in);
    fclose(in);

    write_file(text, bytes / 2);
    expect_ignored("truncated", "not JSON");
    write_file("", 0);
    expect_ignored("empty", "empty");
    char *machine = strstr(text, "2 workers");
    cr_assert_not_null(machine);
    *machine = '3';
    write_file(text, bytes);
    expect_ignored("foreign", "3 workers");
    *machine = '2';
    char *format = strstr(text, "\"format\":");
    cr_assert_not_null(format);
    char digit = format[9];
    format[9] = '0';
    write_file(text, bytes);
    expect_ignored("another format", "format");
    format[9] = digit;
    memset(text + bytes, ' ', sizeof text - bytes);
    write_file(text, sizeof text);
    expect_ignored("large", "1 MiB");
    unlink(path);
    cr_assert_eq(mkdir(path, 0700), 0);
    expect_ignored("a folder", "regular");
    rmdir(path);
    cr_assert_eq(symlink("model.json", path), 0);
    expect_ignored("a link to itself", "cannot open");
}

Test(calibrate, nowhere_to_write_is_one_line)
{
    snprintf(file_setting, sizeof file_setting, "sched.model_file=%s/not/there.json", folder);
    start("none", "true");
    await_line("calibrated the CPU in");
    kill(d.pid, SIGTERM);
    int status;
    cr_assert_eq(waitpid(d.pid, &status, 0), d.pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(lines_with("model: ", "cannot write"), 1);
    daemon_clean(&d);
}

static unsigned files_in_folder(void)
{
    unsigned count = 0;
    DIR *dir = opendir(folder);
    cr_assert_not_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* Killed while it writes, or shortly before or after. */
Test(calibrate, a_kill_leaves_a_good_file)
{
    start("none", "true");
    await_line("calibrated the CPU in");
    cr_assert_eq(daemon_stop(&d), 0);
    for (int i = 0; i < 20; i++) {
        start("none", "false");
        await_line("model: loaded");
        cr_assert_eq(lines_with("model: loaded", "the CPU"), 1, "round %d", i);
        expect_served(); /* something is learnt */
        kill(d.pid, SIGTERM);
        usleep(150u * (unsigned)i);
        daemon_kill(&d);
        daemon_clean(&d);
        expect_sound_file();
        cr_assert_leq(files_in_folder(), 2);
    }
}

Test(calibrate, the_state_directory_is_the_default)
{
    setenv("STATE_DIRECTORY", folder, 1);
    strcpy(file_setting, "sched.model_file=");
    start("none", "true");
    await_line("calibrated the CPU in");
    cr_assert_eq(daemon_stop(&d), 0);
    unsetenv("STATE_DIRECTORY");
    expect_sound_file();
}
