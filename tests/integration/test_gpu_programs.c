/* GPU processes that are not what the daemon expects: of another version, missing, not to be
 * executed, ending at once. One clear line, and the CPU answers. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/gpu_scene.h"

static char folder[] = "/tmp/engram-programs-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t count, mode_t mode)
{
    FILE *f = fopen(in_folder(name), "w");
    cr_assert(f);
    cr_assert_eq(fwrite(bytes, 1, count, f), count);
    fclose(f);
    chmod(in_folder(name), mode);
}

static void open_folder(void)
{
    cr_assert(mkdtemp(folder));
}

static void close_folder(void)
{
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

/* Copies the GPU program with version `to` in place of ours; both have the same length. */
static void copy_as_version(const char *name, const char *to)
{
    char path[4200];
    build_path("engram-accel-gpu", path, sizeof path);
    FILE *f = fopen(path, "r");
    cr_assert(f);
    struct stat sb;
    fstat(fileno(f), &sb);
    char *bytes = malloc((size_t)sb.st_size);
    size_t count = fread(bytes, 1, (size_t)sb.st_size, f), length = strlen(ENGRAM_VERSION);
    fclose(f);
    cr_assert_eq(strlen(to), length);
    int places = 0;
    for (char *at = bytes; (at = memmem(at, count - (size_t)(at - bytes), ENGRAM_VERSION, length));
         at += length, places++)
        memcpy(at, to, length);
    cr_assert_gt(places, 0);
    write_file(name, bytes, count, 0700);
    free(bytes);
}

static void expect_script(const struct gpu_scene *s)
{
    static struct transcript want, got;
    script_reference(&want);
    got.count = 0;
    script_run(s->a, s->b, &got);
    script_end(s->a, s->b, &got);
    transcript_compare(&got, &want, "a program that does not work");
    cr_assert_eq(transcript_on_gpu(&got), 0);
    for (size_t i = 0; i < got.count; i++)
        if (got.steps[i].backend)
            cr_assert_str_eq(ea_reason_name(got.steps[i].reason), "gpu_absent");
}

/* words: in info's line, and in the log. */
static void expect_absent(const char *program, const char *const *words)
{
    struct gpu_scene s;
    char setting[4300];
    ea_info info;
    snprintf(setting, sizeof setting, "gpu.program=%s", program);
    gpu_scene_open(&s, NULL, (const char *[]){setting, NULL});
    gpu_scene_await(&s, EA_GPU_ABSENT);
    cr_assert_eq(ea_get_info(s.a, &info), EA_OK);
    cr_assert_eq(strncmp(info.gpu, "absent: ", 8), 0, "%s", info.gpu);
    for (int i = 0; words[i]; i++) {
        cr_assert(strstr(info.gpu, words[i]), "'%s' not in '%s'", words[i], info.gpu);
        cr_assert(strstr(info.gpus[0].why, words[i]), "'%s' not in '%s'", words[i],
                  info.gpus[0].why);
        wait_logged(&s.daemon, words[i]);
    }
    expect_script(&s);
    wait_ms(150); /* as long as it would take to be tried again, or longer */
    cr_assert_eq(gpu_scene_stats(s.a).restarts, 0, "it was tried again");
    cr_assert_eq(gpu_process_of(s.daemon.pid), 0);
    gpu_scene_close(&s);
}

Test(gpu_programs, of_another_version, .timeout = 900)
{
    open_folder();
    copy_as_version("engram-accel-gpu", "9.8.7");
    expect_absent(in_folder("engram-accel-gpu"),
                  (const char *[]){"engram-accel-gpu is 9.8.7", "engram-acceld " ENGRAM_VERSION,
                                   "install both from one build", NULL});
    close_folder();
}

Test(gpu_programs, that_are_none, .timeout = 900)
{
    open_folder();
    static const char text[] = "this is no program\n";
    write_file("plain", text, sizeof text - 1, 0600);
    expect_absent(in_folder("nothing"), (const char *[]){"/nothing", "o such file", NULL});
    expect_absent(folder, (const char *[]){folder, "ermission denied", NULL});
    if (geteuid() == 0)
        fprintf(stderr, "root: a file without execute permission is refused all the same\n");
    expect_absent(in_folder("plain"), (const char *[]){"/plain", "ermission denied", NULL});
    close_folder();
}

/* ---------------------------------------------------------------- ending at once */

static void expect_breaker(const char *script, const char *word)
{
    struct gpu_scene s;
    char setting[200];
    ea_info info;
    open_folder();
    write_file("program", script, strlen(script), 0700);
    snprintf(setting, sizeof setting, "gpu.program=%s", in_folder("program"));
    gpu_scene_open(&s, NULL, (const char *[]){setting, NULL});
    static struct transcript want, got;
    script_reference(&want);
    got.count = 0;
    script_run(s.a, s.b, &got);
    script_end(s.a, s.b, &got);
    transcript_compare(&got, &want, "a program that ends at once");
    gpu_scene_await(&s, EA_GPU_BREAKER);
    size_t descriptors = process_descriptors(s.daemon.pid);
    cr_assert_eq(ea_get_info(s.a, &info), EA_OK);
    cr_assert(strstr(info.gpu, "breaker open: 6 failures in a row"), "%s", info.gpu);
    cr_assert(strstr(info.gpu, word), "'%s' not in '%s'", word, info.gpu);
    cr_assert(strstr(info.gpu, "next start in"), "%s", info.gpu);
    wait_logged(&s.daemon, "breaker open");
    cr_assert_eq(gpu_scene_stats(s.a).restarts, 5);
    wait_ms(200); /* the longest of the five pauses before was about that */
    cr_assert_eq(gpu_scene_stats(s.a).restarts, 5, "it goes on trying");
    cr_assert_eq(process_descriptors(s.daemon.pid), descriptors);
    gpu_scene_close(&s);
    close_folder();
}

Test(gpu_programs, that_end_at_once, .timeout = 900)
{
    expect_breaker("#!/bin/sh\nexit 0\n", "exited with code 0");
    memcpy(folder, "/tmp/engram-programs-XXXXXX", sizeof folder);
    expect_breaker("#!/bin/sh\nkill -11 $$\n", "signal 11");
}

/* Alive, and never ready: the CPU serves all the while, and stopping does not wait for it. */
Test(gpu_programs, that_never_get_ready, .timeout = 900)
{
    struct gpu_scene s;
    open_folder();
    static const char script[] = "#!/bin/sh\ntrap '' TERM INT\nwhile :; do sleep 1; done\n";
    char setting[200];
    write_file("program", script, sizeof script - 1, 0700);
    snprintf(setting, sizeof setting, "gpu.program=%s", in_folder("program"));
    gpu_scene_open(&s, NULL, (const char *[]){setting, NULL});
    static struct transcript want, got;
    script_reference(&want);
    script_run(s.a, s.b, &got);
    script_end(s.a, s.b, &got);
    transcript_compare(&got, &want, "a program that is never ready");
    for (size_t i = 0; i < got.count; i++)
        if (strncmp(got.steps[i].what, "knn", 3) == 0)
            cr_assert_str_eq(ea_reason_name(got.steps[i].reason), "gpu_down");
    gpu_scene_await(&s, EA_GPU_STARTING);
    gpu_scene_close(&s); /* which does not wait until it is ready: it never is */
    close_folder();
}
