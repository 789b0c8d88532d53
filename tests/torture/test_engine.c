/* The engine, built and run in this process, while each fallible site fails in turn. */
#include "daemon/engine.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pb_decode.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/job.h"
#include "daemon/base/log.h"
#include "tests/support/scene.h"

enum { LARGE_ROWS = 20000, SITES_MAX = 2000 };

struct house {
    struct daemon_process place; /* only its folder and paths */
    struct engine_options options;
    struct engine *engine;
    pthread_t thread;
};

static void house_prepare(struct house *h)
{
    memset(h, 0, sizeof *h);
    signal(SIGPIPE, SIG_IGN);
    strcpy(h->place.directory, "/tmp/engram-torture-XXXXXX");
    cr_assert(mkdtemp(h->place.directory));
    snprintf(h->place.socket_path, sizeof h->place.socket_path, "%s/socket", h->place.directory);
    struct config *c = &h->options.config;
    config_defaults(c);
    snprintf(c->socket_path, sizeof c->socket_path, "%s", h->place.socket_path);
    c->memory_mib_max = 256;
    c->worker_count = 2;
    c->worker_pin = false;
    c->connection_max = 32;
    c->job_max = 64;
    c->calibrate = false;
    strcpy(c->gpu_devices, "none");
    h->options.inherited_fd = -1;
    log_set_level_name("error");
}

static void *run(void *argument)
{
    engine_run(argument);
    return NULL;
}

static void house_open(struct house *h)
{
    struct failure f = {0};
    cr_assert_eq(engine_create(&h->options, &h->engine, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(pthread_create(&h->thread, NULL, run, h->engine), 0);
}

static void house_close(struct house *h)
{
    engine_stop(h->engine, false);
    pthread_join(h->thread, NULL);
    engine_destroy(h->engine);
    h->engine = NULL;
}

/* ---------------------------------------------------------------- start-up */

/* What a killed daemon leaves: clearing it away can fail too. Returns its inode. */
static ino_t leave_stale_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat sb;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    cr_assert_eq(stat(path, &sb), 0);
    close(fd);
    return sb.st_ino;
}

Test(torture, every_site_of_starting_up)
{
    struct house h;
    char token_path[128];
    house_prepare(&h);
    snprintf(token_path, sizeof token_path, "%s/token", h.place.directory);
    int fd = open(token_path, O_WRONLY | O_CREAT, 0600);
    cr_assert(fd >= 0 && write(fd, "secret\n", 7) == 7);
    close(fd);
    strcpy(h.options.config.token_file, token_path);
    strcpy(h.options.config.metrics_token_file, token_path);
    snprintf(h.options.config.metrics_listen, CONFIG_TEXT_MAX, "%s/http", h.place.directory);
    h.options.config.tcp_enabled = true;
    h.options.config.tcp_port = 0;
    h.options.handle_signals = true;
    house_open(&h); /* once in peace: what libraries open, they keep */
    house_close(&h);
    size_t descriptors = process_descriptors(getpid());
    uint32_t nth = 1;
    for (;; nth++) {
        ino_t stale = leave_stale_socket(h.place.socket_path);
        ino_t stale_http = leave_stale_socket(h.options.config.metrics_listen);
        struct engine *e = NULL;
        struct failure f = {0};
        fault_arm(nth);
        enum status st = engine_create(&h.options, &e, &f);
        const char *site = fault_fired();
        fault_arm(0);
        if (site) {
            cr_assert(st != STATUS_OK && !e, "%s failed and nobody noticed", site);
            cr_assert(f.text[0], "%s: no text", site);
            cr_assert_eq(f.code, st, "%s", site);
        } else {
            cr_assert_eq(st, STATUS_OK, "%s", f.text);
        }
        engine_destroy(e);
        cr_assert_eq(process_descriptors(getpid()), descriptors, "%s leaks a descriptor",
                     site ? site : "nothing");
        struct stat sb;
        bool left = stat(h.place.socket_path, &sb) == 0;
        cr_assert(!left || (site && sb.st_ino == stale), "%s leaves its socket behind",
                  site ? site : "nothing");
        left = stat(h.options.config.metrics_listen, &sb) == 0;
        cr_assert(!left || (site && sb.st_ino == stale_http), "%s leaves HTTP's socket behind",
                  site ? site : "nothing");
        unlink(h.place.socket_path);
        unlink(h.options.config.metrics_listen);
        if (!site) break;
    }
    cr_assert(nth > 30, "only %u sites", nth);
    unlink(token_path);
    rmdir(h.place.directory);
}

/* ---------------------------------------------------------------- requests */

/* What came of one script. */
struct outcome {
    size_t replies, errors, closed;
    char first[300]; /* the first error */
};

static const char *const script[] = {
    "create",  "upsert",       "describe",   "list",
    "knn",     "fetch",        "similarity", "similarity_inline",
    "score",   "score_inline", "norms",      "info",
    "average", "average_ids",  "stats",      "fetch_range",
    "explain", "delete",       "cancel",     "drop",
};

/* True: answered; the reply or error is noted. */
static bool take_answer(int fd, struct outcome *o)
{
    static uint8_t message[FRAME_MESSAGE_BYTES_MAX];
    struct frame_header h;
    void *body;
    bool came = raw_receive_frame(fd, &h, message, &body);
    free(body);
    if (!came) {
        o->closed++;
        return false;
    }
    if (!(h.flags & FRAME_FLAG_ERROR)) {
        o->replies++;
        return true;
    }
    engram_accel_v1_Error e = engram_accel_v1_Error_init_zero;
    pb_istream_t in = pb_istream_from_buffer(message, h.message_bytes);
    cr_assert(pb_decode(&in, engram_accel_v1_Error_fields, &e), "an error that does not decode");
    cr_assert(e.message[0], "an error without a text");
    if (!o->errors++) snprintf(o->first, sizeof o->first, "%s: %s", status_name(e.code), e.message);
    return true;
}

/* Connected and greeted, however often that takes; each failure is noted. */
static int greet(const struct house *h, struct outcome *o)
{
    struct sample hello;
    uint8_t bytes[SAMPLE_BYTES_MAX];
    sample_find("hello", &hello);
    size_t count = sample_frame(&hello, 1, bytes);
    for (int tries = 0; tries < 5; tries++) {
        int fd = raw_connect(&h->place);
        size_t errors = o->errors;
        if (raw_send(fd, bytes, count) && take_answer(fd, o) && o->errors == errors) return fd;
        close(fd);
    }
    cr_assert_fail("refused five times: %s", o->first);
    return -1;
}

static size_t large_frame(uint8_t **out)
{
    struct sample s;
    sample_find("upsert", &s);
    s.message.upsert.ids.rows = s.message.upsert.rows.rows = LARGE_ROWS;
    uint64_t ids_bytes = LARGE_ROWS * 8, body = ids_bytes + (uint64_t)LARGE_ROWS * 16;
    struct frame_header h = {.kind = s.kind, .request_id = 2, .body_bytes = frame_align(body)};
    uint8_t message[1024];
    h.message_bytes = sample_message(&s, message, sizeof message);
    size_t head = frame_body_offset(&h), count = head + h.body_bytes;
    uint8_t *bytes = calloc(1, count);
    frame_write(&h, bytes);
    memcpy(bytes + FRAME_HEADER_BYTES, message, h.message_bytes);
    for (uint64_t i = 0; i < LARGE_ROWS; i++) {
        memcpy(bytes + head + i * 8, &i, 8);
        float row[4] = {(float)i, 1, 2, 3};
        memcpy(bytes + head + ids_bytes + i * 16, row, 16);
    }
    *out = bytes;
    return count;
}

/* Sends it and takes the answer; connects again when that ends in a close. */
static void step(const struct house *h, int *fd, const uint8_t *bytes, size_t count,
                 struct outcome *o)
{
    bool sent = raw_send(*fd, bytes, count);
    if (!sent) o->closed++;
    if (sent && take_answer(*fd, o)) return;
    close(*fd);
    *fd = greet(h, o);
}

/* A refusal and a polite close: the client sees an error or only the close. */
static void refuse_noise(const struct house *h)
{
    struct outcome o = {0};
    static const char noise[FRAME_ALIGN] = "not a frame";
    int fd = raw_connect(&h->place);
    raw_send(fd, noise, sizeof noise);
    while (take_answer(fd, &o)) {
    }
    cr_assert_eq(o.replies, 0);
    cr_assert(o.errors <= 1);
    close(fd);
}

static struct outcome play(const struct house *h)
{
    struct outcome o = {0};
    static uint8_t bytes[SAMPLE_BYTES_MAX];
    uint8_t *large;
    size_t large_bytes = large_frame(&large);
    int fd = greet(h, &o);
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct sample s;
        sample_find(script[i], &s);
        step(h, &fd, bytes, sample_frame(&s, 3 + i, bytes), &o);
        if (i != 1) continue;
        step(h, &fd, large, large_bytes, &o); /* a body of its own */
        sample_find("fetch_range", &s);       /* a reply larger than the socket takes at once */
        s.message.fetch.offset = 0;
        s.message.fetch.limit = LARGE_ROWS;
        step(h, &fd, bytes, sample_frame(&s, 2, bytes), &o);
    }
    free(large);
    close(fd);
    refuse_noise(h);
    return o;
}

/* What the asker takes: its buffer, and its space. */
enum { ASKER_BYTES = 131072 + 8192 };

/* After the script nothing may be left but the asker's own buffer, job and space. */
static void expect_clean(const struct house *h, const char *site)
{
    ea_client *c = NULL;
    ea_stats stats;
    cr_assert_eq(ea_open(&(ea_options){.socket_path = h->place.socket_path}, &c), EA_OK);
    int64_t until = give_up_ms();
    do {
        cr_assert_eq(ea_get_stats(c, &stats), EA_OK, "%s: %s", site, ea_error_text(c));
        cr_assert(now_ms() < until, "after %s: %llu jobs, %llu bytes, %llu connections", site,
                  (unsigned long long)stats.jobs_in_flight,
                  (unsigned long long)stats.memory_bytes_used,
                  (unsigned long long)stats.connections_open);
    } while (stats.jobs_in_flight != 1 || stats.memory_bytes_used > ASKER_BYTES ||
             stats.connections_open != 1);
    cr_assert_eq(stats.collections, 0, "after %s", site);
    ea_close(c);
}

static void drop_leftovers(const struct house *h)
{
    struct outcome ignored = {0};
    struct sample drop;
    uint8_t bytes[SAMPLE_BYTES_MAX];
    int fd = greet(h, &ignored);
    sample_find("drop", &drop);
    step(h, &fd, bytes, sample_frame(&drop, 9, bytes), &ignored);
    close(fd);
}

/* The process is as deaf as a program that knows nothing of us; it is killed after 600 ms. */
/* A GPU process that neither answers nor stops before it is killed; unlink its program after it. */
static void use_deaf_gpu(struct house *h)
{
    struct config *c = &h->options.config;
    snprintf(c->gpu_program, sizeof c->gpu_program, "%s/deaf", h->place.directory);
    FILE *f = fopen(c->gpu_program, "w");
    cr_assert(f && fputs("#!/bin/sh\nexec sleep 100\n", f) >= 0 && fclose(f) == 0);
    cr_assert_eq(chmod(c->gpu_program, 0700), 0);
    strcpy(c->gpu_devices, "sim");
}

Test(torture, waiting_for_a_gpu_process_sleeps)
{
    struct house h;
    house_prepare(&h);
    use_deaf_gpu(&h);
    house_open(&h);
    engine_stop(h.engine, false);
    pthread_join(h.thread, NULL);
    uint64_t start_ns = clock_now_ns();
    clock_t used = clock();
    engine_destroy(h.engine);
    used = clock() - used;
    cr_assert_gt(clock_now_ns() - start_ns, UINT64_C(150000000));
    cr_assert_lt((double)used / CLOCKS_PER_SEC, 0.1);
    unlink(h.options.config.gpu_program);
    daemon_clean(&h.place);
}

/* What comes after the GPUs cannot be built, and they take their time to go. */
Test(torture, half_built_it_waits_for_a_gpu_process)
{
    struct house h;
    house_prepare(&h);
    use_deaf_gpu(&h);
    const char *const wanted[] = {"model: keeper", "calibrate: allocate"};
    uint32_t nth = 1, found = 0;
    for (; found < 2 && nth < SITES_MAX; nth++) {
        struct engine *e = NULL;
        struct failure f = {0};
        fault_arm(nth);
        enum status st = engine_create(&h.options, &e, &f);
        const char *site = fault_fired();
        fault_arm(0);
        if (!site) break;
        found += strcmp(site, wanted[found]) == 0;
        if (!st) engine_destroy(e);
    }
    cr_assert_eq(found, 2, "after site %u", nth);
    unlink(h.options.config.gpu_program);
    daemon_clean(&h.place);
}

Test(torture, every_site_of_a_request, .timeout = 900)
{
    struct house h;
    house_prepare(&h);
    house_open(&h);
    struct outcome peace = play(&h);
    cr_assert_eq(peace.errors + peace.closed, 0, "%s", peace.first);
    expect_clean(&h, "nothing");
    house_close(&h);
    size_t descriptors = process_descriptors(getpid());
    size_t with_error = 0, with_close = 0, unseen = 0;
    uint32_t nth = 1;
    for (; nth < SITES_MAX; nth++) {
        house_open(&h); /* anew, so that no pool hides a site */
        fault_arm(nth);
        struct outcome o = play(&h);
        char site[64];
        bool fired = fault_fired() != NULL;
        snprintf(site, sizeof site, "%s", fired ? fault_fired() : "nothing");
        fault_arm(0);
        if (!fired) cr_assert_eq(o.errors + o.closed, 0, "%s", o.first);
        with_error += o.errors > 0;
        with_close += o.closed > 0;
        unseen += fired && !o.errors && !o.closed;
        fprintf(stderr, "%3u %-24s replies %zu errors %zu closes %zu %s\n", nth, site, o.replies,
                o.errors, o.closed, o.first);
        drop_leftovers(&h);
        o = play(&h);
        cr_assert_eq(o.errors + o.closed, 0, "after %s: %s", site, o.first);
        expect_clean(&h, site);
        house_close(&h);
        cr_assert_eq(process_descriptors(getpid()), descriptors, "%s leaks a descriptor", site);
        if (!fired) break;
    }
    fprintf(stderr, "%u sites: %zu gave an error, %zu a close, %zu were made up for\n", nth - 1,
            with_error, with_close, unseen);
    cr_assert(nth > 40 && nth < SITES_MAX, "%u sites", nth - 1);
    cr_assert(with_error > nth / 2, "most sites give the client an error");
    rmdir(h.place.directory);
}
