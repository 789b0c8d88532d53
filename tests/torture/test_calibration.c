/* Calibration, in an engine in this process, while its fallible sites fail one after the other: it
 * ends, measured or not, says so in one line, and holds nothing any more. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/engine.h"
#include "tests/support/scene.h"

static char folder[] = "/tmp/engram-torture-XXXXXX", log_path[64];

static void *run(void *engine)
{
    engine_run(engine);
    return NULL;
}

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

/* Returns whether the site was reached; *measured: it did not matter. */
static bool calibrate_with(const struct engine_options *options, uint32_t nth, bool *measured)
{
    struct engine *e = NULL;
    struct failure f = {0};
    pthread_t thread;
    cr_assert_eq(truncate(log_path, 0), 0);
    cr_assert_eq(engine_create(options, &e, &f), STATUS_OK, "%s", f.text);
    fault_arm(nth); /* of those after the start */
    cr_assert_eq(pthread_create(&thread, NULL, run, e), 0);
    int64_t until = give_up_ms();
    while (!lines_with("alibrat")) {
        cr_assert(now_ms() < until, "site %u, %s: it does not end", nth, fault_fired());
        wait_ms(2);
    }
    wait_ms(20); /* so that most of it has come down when it is stopped */
    const char *site = fault_fired();
    fault_arm(0);
    cr_assert_eq(lines_with("alibrat"), 1, "site %u, %s", nth, site);
    *measured = lines_with("calibrated the CPU") == 1;
    engine_stop(e, false);
    pthread_join(thread, NULL);
    engine_destroy(e);
    return site != NULL;
}

Test(torture, every_site_of_calibrating, .timeout = 900)
{
    static struct engine_options options;
    bool measured = false;
    cr_assert(mkdtemp(folder));
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600), own = dup(2);
    cr_assert(log >= 0 && own >= 0 && dup2(log, 2) == 2);
    config_defaults(&options.config);
    snprintf(options.config.socket_path, sizeof options.config.socket_path, "%s/socket", folder);
    options.config.memory_mib_max = 256;
    options.config.worker_count = 2;
    options.config.worker_pin = false;
    strcpy(options.config.gpu_devices, "none");
    options.inherited_fd = -1;
    log_set_level_name("info");
    cr_assert(!calibrate_with(&options, UINT32_MAX, &measured) && measured); /* in peace */
    size_t descriptors = process_descriptors(getpid());
    uint32_t failed = 0, nth = 1;
    while (calibrate_with(&options, nth, &measured)) {
        failed += !measured;
        cr_assert_eq(process_descriptors(getpid()), descriptors, "site %u", nth);
        nth += 1 + nth / 8; /* the same few sites again and again */
    }
    dup2(own, 2);
    cr_assert_gt(failed, 5, "%u of the sites up to %u mattered", failed, nth);
    close(own);
    close(log);
    unlink(log_path);
    rmdir(folder);
}
