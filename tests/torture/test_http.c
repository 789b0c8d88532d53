/* Pages of an engine in this process, while each site that can fail fails in turn. */
#include "daemon/engine.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "tests/support/daemon_process.h"

enum { PAGE_BYTES_MAX = 1 << 20 };

static char directory[] = "/tmp/engram-torture-XXXXXX";
static struct engine_options options;
static char page[PAGE_BYTES_MAX];

static void *run(void *engine)
{
    engine_run(engine);
    return NULL;
}

static void prepare(void)
{
    struct config *c = &options.config;
    signal(SIGPIPE, SIG_IGN);
    cr_assert(mkdtemp(directory));
    config_defaults(c);
    snprintf(c->socket_path, sizeof c->socket_path, "%s/socket", directory);
    snprintf(c->metrics_listen, sizeof c->metrics_listen, "%s/http", directory);
    c->metrics_open = true;
    c->memory_mib_max = 256;
    c->worker_count = 1;
    c->worker_pin = c->calibrate = false;
    strcpy(c->gpu_devices, "none");
    options.inherited_fd = -1;
    log_set_level_name("error");
}

/* Returns the status, 0 if the connection was closed without an answer; the answer is in page. */
static int ask(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char request[128];
    size_t bytes = 0;
    strcpy(address.sun_path, options.config.metrics_listen);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    cr_assert(raw_send(fd, request, strlen(request)));
    for (ssize_t n = 1; n > 0; bytes += n > 0 ? (size_t)n : 0)
        n = recv(fd, page + bytes, sizeof page - 1 - bytes, 0);
    close(fd);
    page[bytes] = 0;
    return bytes ? atoi(page + strlen("HTTP/1.1 ")) : 0;
}

/* A page that is made of what the loop says, or stands in the program; how it begins and ends. */
static const struct {
    const char *path, *first, *last;
    uint32_t sites; /* that can fail, at least */
} pages[] = {
    {"/metrics", "\nengram_accel_build_info{", "\nengram_accel_http_render_seconds_total ", 2},
    {"/slow.json", "\r\n\r\n{\"total\":", "]}\n", 3},
    {"/", "\r\n\r\n<!DOCTYPE html>", "</html>\n", 1},
};
enum { PAGES = sizeof pages / sizeof *pages };

static bool is_whole(int which)
{
    return strstr(page, pages[which].first) && strstr(page, pages[which].last);
}

/* The same, and again if the loop did not turn for a second, which a busy machine may do to it. */
static int ask_page(int which)
{
    int status;
    while ((status = ask(pages[which].path)) == 503 && strstr(page, "\r\n\r\nloop\n"))
        continue;
    return status;
}

/* A page that is younger than 20 ms would be sent again. */
static void let_it_age(void)
{
    struct timespec t = {.tv_nsec = 25000000};
    nanosleep(&t, NULL);
}

static void fail_each_site(int which)
{
    uint32_t nth = 1, failed = 0;
    cr_assert(ask_page(which) == 200 && is_whole(which), "%s: %s", pages[which].path, page);
    for (bool fired = true; fired; nth++) {
        let_it_age();
        fault_arm(nth);
        int status = ask_page(which);
        const char *site = fault_fired();
        fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert(status == 200 ? is_whole(which) : !status || status == 500, "%s: %s: %d",
                  pages[which].path, site ? site : "nothing", status);
        failed += status != 200;
        let_it_age();
        cr_assert(ask_page(which) == 200 && is_whole(which), "%s: after %s", pages[which].path,
                  site ? site : "nothing");
    }
    cr_assert(failed >= pages[which].sites, "%s: %u of %u sites", pages[which].path, failed, nth);
}

Test(torture_http, every_site_of_a_page)
{
    struct engine *e;
    struct failure f = {0};
    pthread_t loop;
    prepare();
    cr_assert_eq(engine_create(&options, &e, &f), STATUS_OK, "%s", f.text);
    size_t descriptors = process_descriptors(getpid());
    cr_assert_eq(ask("/metrics"), 503);
    cr_assert(strstr(page, "\r\n\r\nloading\n"));
    cr_assert_eq(ask("/readyz"), 503);
    cr_assert(strstr(page, "\r\n\r\nloading\n"));
    cr_assert_eq(ask("/slow.json"), 503);
    cr_assert(strstr(page, "\r\n\r\nloading\n"));
    cr_assert_eq(ask("/"), 200);
    cr_assert_eq(ask("/healthz"), 200);
    cr_assert_eq(pthread_create(&loop, NULL, run, e), 0);
    while (ask("/readyz") != 200)
        let_it_age();
    for (int which = 0; which < PAGES; which++)
        fail_each_site(which);
    /* the server closes its end a little after the client */
    for (int tries = 0; process_descriptors(getpid()) > descriptors && tries < 2400; tries++)
        let_it_age();
    cr_assert_leq(process_descriptors(getpid()), descriptors);
    engine_stop(e, true);
    pthread_join(loop, NULL);
    cr_assert_eq(ask("/readyz"), 503);
    cr_assert(strstr(page, "\r\n\r\nstopping\n"));
    cr_assert_eq(ask("/metrics"), 503);
    engine_destroy(e);
    rmdir(directory);
}
