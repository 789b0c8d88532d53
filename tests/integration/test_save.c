/* Snapshots while the daemon serves: of one instant, whatever is written, dropped or cancelled
 * meanwhile, and whoever asks. A rate of 1 MiB a second holds a save until the test lets it go. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/persist_house.h"
#include "tests/support/scene.h"
#include "tests/support/sets.h"

enum { D = 32, ROWS = 40000 }; /* 5 MB */

struct keep {
    char folder[64], other[64], setting[96];
    const char *settings[8];
    struct daemon_process daemon;
    ea_client *client;
    float *rows;
    uint64_t *ids;
};

static ea_client *open_client(const struct keep *k, const char *space)
{
    ea_client *c = NULL;
    ea_options options = {.socket_path = k->daemon.socket_path,
                          .space = space,
                          .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    return c;
}

static void open_keep(struct keep *k, const char *more, const char *other)
{
    memset(k, 0, sizeof *k);
    persist_house_folder(k->folder);
    persist_house_folder(k->other);
    snprintf(k->setting, sizeof k->setting, "persist.dir=%s", k->folder);
    const char *settings[] = {k->setting,
                              "workers.count=2",
                              "workers.pin=false",
                              "gpu.devices=none",
                              "sched.calibrate=false",
                              more,
                              other};
    memcpy(k->settings, settings, sizeof settings);
    daemon_start(&k->daemon, k->settings);
    k->client = open_client(k, "kept");
    k->rows = malloc(sizeof(float) * ROWS * D);
    k->ids = malloc(sizeof *k->ids * ROWS);
    reference_fill(7, k->rows, (size_t)ROWS * D);
    for (uint64_t i = 0; i < ROWS; i++)
        k->ids[i] = i;
}

static void close_keep(struct keep *k)
{
    ea_close(k->client);
    cr_assert_eq(daemon_stop(&k->daemon), 0);
    persist_house_remove(k->folder);
    persist_house_remove(k->other);
    free(k->rows);
    free(k->ids);
}

static ea_status put(const struct keep *k, ea_client *c, const char *name, uint64_t first,
                     uint64_t count)
{
    const ea_rows rows = {.collection = name,
                          .ids = k->ids + first,
                          .rows = k->rows + first * D,
                          .count = count,
                          .dimension = D};
    return ea_upsert(c, &rows, NULL);
}

static void fill(const struct keep *k, const char *name, uint64_t count)
{
    cr_assert_eq(ea_collection_create(k->client, name, D, EA_DOT, NULL), EA_OK, "%s",
                 ea_error_text(k->client));
    cr_assert_eq(put(k, k->client, name, 0, count), EA_OK, "%s", ea_error_text(k->client));
}

static void killed_and_started(struct keep *k)
{
    daemon_kill(&k->daemon);
    daemon_restart(&k->daemon, k->settings);
    static ea_info info;
    int64_t until = give_up_ms();
    while (ea_get_info(k->client, &info) != EA_OK || !info.ready)
        cr_assert(now_ms() < until, "%s", ea_error_text(k->client));
}

static uint64_t rows_of(const struct keep *k, const char *name)
{
    ea_collection_info info;
    ea_status st = ea_collection_describe(k->client, name, &info);
    cr_assert(st == EA_OK || st == EA_NOT_FOUND, "%s", ea_error_text(k->client));
    return st ? UINT64_MAX : info.rows;
}

/* ---------------------------------------------------------------- a save on another thread */

struct saver {
    const struct keep *keep;
    ea_client *client;
    ea_save_options options;
    pthread_t thread;
    ea_status status;
    ea_saved saved;
    char text[256];
};

static void *save(void *arg)
{
    struct saver *s = arg;
    s->status = ea_save(s->client, &s->options, &s->saved);
    snprintf(s->text, sizeof s->text, "%s", ea_error_text(s->client));
    return NULL;
}

static bool exists(const char *folder, const char *file)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return access(path, F_OK) == 0;
}

/* Returns when it writes its first file: then everything is pinned. */
static void begin_save(struct saver *s, const struct keep *k, const char *to)
{
    *s = (struct saver){.keep = k, .options = {.to = to}};
    s->client = open_client(k, "saver");
    cr_assert_eq(pthread_create(&s->thread, NULL, save, s), 0);
    int64_t until = give_up_ms();
    while (!exists(to ? to : k->folder, ".saving-000000000001/000001-ids.npy"))
        cr_assert(now_ms() < until);
}

static void end_save(struct saver *s)
{
    pthread_join(s->thread, NULL);
    ea_close(s->client);
}

static void full_speed(const struct keep *k)
{
    cr_assert_eq(ea_config_set(k->client, "persist.mib_per_s", "0", NULL, NULL), EA_OK);
}

/* ---------------------------------------------------------------- what is in it */

Test(save, what_was_saved_is_there_after_a_kill)
{
    struct keep k;
    ea_saved saved;
    open_keep(&k, NULL, NULL);
    fill(&k, "a", 1000);
    cr_assert_eq(ea_graph_create(k.client, "g", NULL), EA_OK);
    const ea_graph_edges edges = {
        .sources = k.ids, .targets = k.ids + 1, .weights = k.rows, .count = 100};
    cr_assert_eq(ea_graph_add_edges(k.client, "g", &edges, NULL), EA_OK);
    cr_assert_eq(ea_attractor_create(k.client, "w", &(ea_attractor_shape){.dimension = 16}, NULL),
                 EA_OK);
    cr_assert_eq(ea_save(k.client, NULL, &saved), EA_OK, "%s", ea_error_text(k.client));
    cr_assert_str_eq(saved.path, k.folder);
    cr_assert_eq(saved.number, 1);
    cr_assert_eq(saved.objects, 3);
    cr_assert_eq(saved.linked_bytes, 0);
    cr_assert_eq(put(&k, k.client, "a", 1000, 5), EA_OK);
    cr_assert_eq(ea_save(k.client, NULL, &saved), EA_OK);
    cr_assert_eq(saved.number, 2);
    cr_assert_gt(saved.linked_bytes, 0);
    cr_assert_lt(saved.linked_bytes, saved.bytes);
    cr_assert_eq(put(&k, k.client, "a", 1005, 5), EA_OK);
    killed_and_started(&k);
    cr_assert_eq(rows_of(&k, "a"), 1005);
    ea_graph_info info;
    cr_assert_eq(ea_graph_describe(k.client, "g", &info), EA_OK);
    cr_assert_eq(info.edges, 100);
    cr_assert(persist_house_verify(k.folder, ""));
    close_keep(&k);
}

struct two_writer {
    const struct keep *keep;
    ea_client *client;
    pthread_t thread;
    atomic_bool stop;
    uint64_t next;
};

/* A row into a, the same row into b, and so on. */
static void *write_both(void *arg)
{
    struct two_writer *w = arg;
    for (; !atomic_load(&w->stop) && w->next < ROWS; w->next++) {
        cr_assert_eq(put(w->keep, w->client, "a", w->next, 1), EA_OK);
        cr_assert_eq(put(w->keep, w->client, "b", w->next, 1), EA_OK);
    }
    return NULL;
}

Test(save, it_is_of_one_instant)
{
    struct keep k;
    struct two_writer w = {.next = 1};
    open_keep(&k, NULL, NULL);
    fill(&k, "a", 1);
    fill(&k, "b", 1);
    w.keep = &k;
    w.client = open_client(&k, "kept");
    cr_assert_eq(pthread_create(&w.thread, NULL, write_both, &w), 0);
    for (int i = 0; i < 12; i++) {
        ea_saved saved;
        char to[128], file[192];
        snprintf(to, sizeof to, "%s/%d", k.other, i);
        cr_assert_eq(ea_save(k.client, &(ea_save_options){.to = to}, &saved), EA_OK, "%s",
                     ea_error_text(k.client));
        struct stat a, b;
        snprintf(file, sizeof file, "%s/snapshot-000000000001/000001-ids.npy", to);
        cr_assert_eq(stat(file, &a), 0);
        snprintf(file, sizeof file, "%s/snapshot-000000000001/000002-ids.npy", to);
        cr_assert_eq(stat(file, &b), 0);
        cr_assert(a.st_size == b.st_size || a.st_size == b.st_size + 8, "%lld %lld",
                  (long long)a.st_size, (long long)b.st_size);
    }
    atomic_store(&w.stop, true);
    pthread_join(w.thread, NULL);
    ea_close(w.client);
    close_keep(&k);
}

Test(save, it_keeps_its_instant_while_all_is_written_and_dropped)
{
    struct keep k;
    struct saver s;
    open_keep(&k, "persist.mib_per_s=1", NULL);
    fill(&k, "a", ROWS);
    fill(&k, "b", 100);
    begin_save(&s, &k, NULL);
    /* In place before, and into copies now; a drop is answered, and its name is free. */
    cr_assert_eq(put(&k, k.client, "b", 0, 200), EA_OK);
    cr_assert_eq(ea_collection_drop(k.client, "a"), EA_OK, "%s", ea_error_text(k.client));
    fill(&k, "a", 7);
    cr_assert_eq(rows_of(&k, "a"), 7);
    full_speed(&k);
    end_save(&s);
    cr_assert_eq(s.status, EA_OK, "%s", s.text);
    killed_and_started(&k);
    cr_assert_eq(rows_of(&k, "a"), ROWS);
    cr_assert_eq(rows_of(&k, "b"), 100);
    close_keep(&k);
}

/* ---------------------------------------------------------------- who waits, who gives up */

Test(save, who_asks_meanwhile_gets_a_later_one)
{
    struct keep k;
    struct saver s, t[2];
    open_keep(&k, "persist.mib_per_s=1", NULL);
    fill(&k, "a", ROWS);
    begin_save(&s, &k, NULL);
    cr_assert_eq(put(&k, k.client, "a", 0, 1), EA_OK);
    for (int i = 0; i < 2; i++)
        begin_save(&t[i], &k, NULL);
    full_speed(&k);
    end_save(&s);
    end_save(&t[0]);
    end_save(&t[1]);
    cr_assert(s.status == EA_OK && t[0].status == EA_OK && t[1].status == EA_OK);
    cr_assert_eq(s.saved.number, 1);
    cr_assert_gt(t[0].saved.number, 1);
    cr_assert_gt(t[1].saved.number, 1);
    cr_assert_gt(t[0].saved.version, s.saved.version);
    close_keep(&k);
}

static bool never(ea_client *c, const ea_progress_report *r, void *user)
{
    *(uint32_t *)user = r->phase;
    return r->phase != EA_PHASE_SAVING || !r->done;
}

Test(save, it_is_cancelled)
{
    struct keep k;
    struct saver s;
    uint32_t phase = 0;
    open_keep(&k, "persist.mib_per_s=1", NULL);
    fill(&k, "a", ROWS);
    begin_save(&s, &k, NULL);
    ea_cancel_from_thread(s.client, 0);
    end_save(&s);
    cr_assert_eq(s.status, EA_CANCELLED, "%s", s.text);
    cr_assert_eq(ea_on_progress(k.client, never, &phase), EA_OK);
    cr_assert_eq(ea_save(k.client, NULL, NULL), EA_CANCELLED);
    cr_assert_eq(phase, EA_PHASE_SAVING);
    cr_assert_eq(ea_on_progress(k.client, NULL, NULL), EA_OK);
    full_speed(&k);
    ea_saved saved;
    cr_assert_eq(ea_save(k.client, NULL, &saved), EA_OK, "%s", ea_error_text(k.client));
    cr_assert_eq(saved.number, 1);
    ea_stats stats;
    cr_assert_eq(ea_get_stats(k.client, &stats), EA_OK);
    const ea_snapshot_stats *counted = &stats.snapshots;
    cr_assert(counted->given_up == 2 && counted->done == 1 && !counted->failed);
    cr_assert_not(exists(k.folder, ".saving-000000000001"));
    close_keep(&k);
}

Test(save, a_stop_does_not_wait_for_it)
{
    struct keep k;
    struct saver s;
    open_keep(&k, "persist.mib_per_s=1", NULL);
    fill(&k, "a", ROWS);
    begin_save(&s, &k, k.other);
    cr_assert_eq(kill(k.daemon.pid, SIGTERM), 0);
    end_save(&s);
    cr_assert_neq(s.status, EA_OK);
    int status;
    cr_assert_eq(waitpid(k.daemon.pid, &status, 0), k.daemon.pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_not(exists(k.other, ".saving-000000000001"));
    cr_assert(exists(k.folder, "snapshot-000000000001/manifest.json"));
    daemon_restart(&k.daemon, k.settings);
    close_keep(&k);
}

/* ---------------------------------------------------------------- memory */

/* Of 11 MiB, the rows take 6, and as much again while the save keeps those that it began with. */
Test(save, what_it_keeps_counts_for_nobodys_quota)
{
    enum { STEP = 4000 };
    struct keep k;
    struct saver s;
    open_keep(&k, "persist.mib_per_s=1", "spaces.kept.host_mib=11");
    fill(&k, "a", STEP);
    for (uint64_t at = STEP; at < ROWS; at += STEP)
        cr_assert_eq(put(&k, k.client, "a", at, STEP), EA_OK, "%s", ea_error_text(k.client));
    begin_save(&s, &k, NULL);
    for (int i = 0; i < 2; i++)
        for (uint64_t at = 0; at < ROWS; at += STEP)
            cr_assert_eq(put(&k, k.client, "a", at, STEP), EA_OK, "%s", ea_error_text(k.client));
    full_speed(&k);
    end_save(&s);
    cr_assert_eq(s.status, EA_OK, "%s", s.text);
    wait_logged(&k.daemon, "persist: saved"); /* at the first attempt */
    cr_assert_not(daemon_logged(&k.daemon, "writes want the memory"));
    close_keep(&k);
}

/* The daemon's memory holds the rows twice, and not three times: the save gives way to the write,
 * and comes again. */
Test(save, it_gives_way_to_writes)
{
    struct keep k;
    struct saver s;
    open_keep(&k, "persist.mib_per_s=1", "memory.max_mib=22");
    fill(&k, "a", ROWS);
    fill(&k, "b", 100);
    begin_save(&s, &k, NULL);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(put(&k, k.client, "a", 0, ROWS), EA_OK, "%s", ea_error_text(k.client));
    wait_logged(&k.daemon, "writes want the memory that a save keeps");
    full_speed(&k);
    end_save(&s);
    cr_assert_eq(s.status, EA_OK, "%s", s.text);
    cr_assert(persist_house_verify(k.folder, ""));
    close_keep(&k);
}

/* ---------------------------------------------------------------- elsewhere, and what is wrong */

static void refused(const struct keep *k, const ea_save_options *o, ea_status status,
                    const char *text)
{
    cr_assert_eq(ea_save(k->client, o, NULL), status, "%s", ea_error_text(k->client));
    cr_assert_not_null(strstr(ea_error_text(k->client), text), "%s", ea_error_text(k->client));
}

Test(save, chosen_spaces_in_another_folder)
{
    struct keep k;
    ea_saved saved;
    char to[128];
    open_keep(&k, NULL, NULL);
    fill(&k, "a", 10);
    ea_client *c = open_client(&k, "second");
    cr_assert_eq(ea_collection_create(c, "b", D, EA_DOT, NULL), EA_OK);
    snprintf(to, sizeof to, "%s/new", k.other);
    const char *const spaces[] = {"second"}, *const none[] = {"second", "third"};
    ea_save_options o = {.to = to, .spaces = spaces, .space_count = 1, .dry_run = true};
    cr_assert_eq(ea_save(k.client, &o, &saved), EA_OK, "%s", ea_error_text(k.client));
    cr_assert_eq(saved.number, 0);
    cr_assert_eq(saved.objects, 1);
    cr_assert_not(exists(k.other, "new"));
    o.dry_run = false;
    for (uint64_t i = 1; i < 5; i++) { /* all of them stay, whatever persist.keep is */
        cr_assert_eq(ea_save(k.client, &o, &saved), EA_OK, "%s", ea_error_text(k.client));
        cr_assert_eq(saved.number, i);
        cr_assert_eq(saved.objects, 1);
    }
    cr_assert(exists(to, "snapshot-000000000001/manifest.json"));
    cr_assert(persist_house_verify(to, ""));
    o.spaces = none;
    o.space_count = 2;
    refused(&k, &o, EA_NOT_FOUND, "third");
    o.to = NULL;
    refused(&k, &o, EA_INVALID_ARGUMENT, "only with a folder");
    ea_close(c);
    close_keep(&k);
}

Test(save, what_is_wrong_is_told)
{
    struct keep k;
    char to[160];
    open_keep(&k, NULL, NULL);
    fill(&k, "a", 10);
    refused(&k, &(ea_save_options){.to = "relative"}, EA_INVALID_ARGUMENT, "begin with /");
    refused(&k, &(ea_save_options){.to = "/nowhere/at/all"}, EA_UNAVAILABLE, "/nowhere/at/all");
    refused(&k, &(ea_save_options){.to = "/nowhere/at/all", .dry_run = true}, EA_UNAVAILABLE,
            "/nowhere/at");
    refused(&k, &(ea_save_options){.to = k.folder}, EA_INVALID_ARGUMENT, "persist.dir");
    refused(&k, &(ea_save_options){.to = "/dev/null"}, EA_UNAVAILABLE, "/dev/null");
    snprintf(to, sizeof to, "%s\n", k.other);
    refused(&k, &(ea_save_options){.to = to}, EA_INVALID_ARGUMENT, "control characters");
    struct keep other = k;
    snprintf(other.setting, sizeof other.setting, "persist.dir=%s", k.other);
    other.settings[0] = other.setting;
    daemon_start(&other.daemon, other.settings);
    refused(&k, &(ea_save_options){.to = k.other}, EA_FAILED_PRECONDITION, "another daemon");
    cr_assert_eq(daemon_stop(&other.daemon), 0);
    cr_assert_eq(ea_save(k.client, NULL, NULL), EA_OK);
    close_keep(&k);
}

Test(save, without_a_folder)
{
    struct keep k;
    ea_saved saved;
    open_keep(&k, "persist.dir=none", NULL);
    fill(&k, "a", 10);
    refused(&k, NULL, EA_FAILED_PRECONDITION, "persist.dir is not set");
    cr_assert_eq(ea_save(k.client, &(ea_save_options){.to = k.other}, &saved), EA_OK);
    cr_assert_eq(saved.objects, 1);
    cr_assert(persist_house_verify(k.other, ""));
    close_keep(&k);
}

Test(save, only_for_operators)
{
    struct keep k;
    char line[512] = "";
    ea_client *far = NULL;
    open_keep(&k, "tcp.enabled=true", "tcp.port=0");
    wait_logged(&k.daemon, "listening on 127.0.0.1 port ");
    FILE *f = fopen(k.daemon.log_path, "r");
    while (fgets(line, sizeof line, f) && !strstr(line, "listening on 127.0.0.1 port "))
        continue;
    fclose(f);
    ea_options options = {.tcp_host = "127.0.0.1",
                          .tcp_port = (uint16_t)strtoul(strstr(line, " port ") + 6, NULL, 10),
                          .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &far), EA_OK);
    cr_assert_eq(ea_save(far, NULL, NULL), EA_PERMISSION_DENIED, "%s", ea_error_text(far));
    ea_close(far);
    close_keep(&k);
}

Test(save, every_second)
{
    struct keep k;
    open_keep(&k, "persist.every_s=1", NULL);
    fill(&k, "a", 10);
    int64_t until = give_up_ms();
    while (!exists(k.folder, "snapshot-000000000001/manifest.json"))
        cr_assert(now_ms() < until);
    cr_assert_eq(put(&k, k.client, "a", 10, 1), EA_OK);
    while (!exists(k.folder, "snapshot-000000000002/manifest.json"))
        cr_assert(now_ms() < until);
    killed_and_started(&k);
    cr_assert_geq(rows_of(&k, "a"), 10);
    close_keep(&k);
}
