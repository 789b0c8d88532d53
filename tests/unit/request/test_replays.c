/* A journal that is replayed by a thread while the daemon serves: nothing of the data is answered
 * before its end, which any failure and any stop leaves as a start without it would. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/engine_load.h"
#include "daemon/request/jobs.h"
#include "daemon/request/loads.h"
#include "tests/support/journal_house.h"
#include "tests/support/request_rig.h"
#include "tests/support/sweep.h"

#define FIRST  "journal-000000000001"
#define SECOND "journal-000000000002"
#define STATE  "snapshot 0 generation 1\n"

static struct request_rig rig;
static struct readiness readiness;
static char path[64], notices[512];

static void note(const char *state)
{
    snprintf(notices, sizeof notices, "%s", state);
}

static struct engine_load loading = {.readiness = &readiness, .notify = note};

/* The folder of a daemon that was killed: a journal of every kind of write, and no snapshot. */
static void make_folder(void)
{
    struct journal_house h;
    struct failure f;
    struct journal_counters c;
    uint64_t last = 0;
    log_set_level_name("none");
    persist_house_folder(path);
    persist_house_write(path, "state", STATE, sizeof STATE - 1);
    journal_house_open(&h, path);
    cr_assert_eq(journal_house_start(&h, true, &f), STATUS_OK, "%s", f.text);
    for (uint32_t i = 0; i < JOURNAL_HOUSE_WRITES; i++)
        last = journal_house_write(&h, i);
    journal_house_wait(&h, last, &c);
    journal_house_stop(&h);
    journal_house_close(&h);
}

static enum status begin(const char *mode, struct failure *f)
{
    request_rig_open(&rig, NULL);
    strcpy(rig.config.persist_dir, path);
    strcpy(rig.config.persist_load, mode);
    strcpy(rig.config.persist_journal, "always");
    struct pipeline *p = rig.pipeline;
    struct persist_options options = {
        .config = &rig.config, .heap = p->heap, .store = p->store, .kernels = p->kernels};
    loading.pipeline = p;
    note("");
    enum status st = engine_load_begin(&loading, &options, f);
    if (!st) engine_load_start(&loading);
    return st;
}

static bool load_all(void)
{
    bool fine = true;
    while (loading.under_way && fine) {
        fine = engine_load_turn(&loading);
        sched_yield();
    }
    return fine;
}

static struct failure ask(const char *space_name, enum operation operation, const char *name)
{
    struct space *space = NULL;
    cr_assert_eq(store_space(rig.pipeline->store, space_name, &space), STATUS_OK);
    struct job *j = job_take_own(rig.pipeline, space, operation, (struct job_owner){NULL, NULL});
    strcpy(j->request.names[0], name);
    loads_begin(rig.pipeline, j);
    struct failure f = j->failure;
    job_move(j, JOB_DONE);
    job_give(rig.pipeline, j);
    store_space_release(rig.pipeline->store, space);
    return f;
}

static void expect_loading(const char *space, enum operation operation, const char *name)
{
    struct failure f = ask(space, operation, name);
    cr_assert_eq(f.code, STATUS_UNAVAILABLE, "%s/%s: %d", space, name, operation);
    cr_assert_eq(f.detail, DETAIL_LOADING);
    cr_assert_not_null(strstr(f.text, "is being loaded"), "%s", f.text);
    cr_assert(f.retry_after_ms >= 20 && f.retry_after_ms <= 1000);
    cr_assert_leq(f.loaded_percent, 100);
}

static void expect_all_refused(void)
{
    expect_loading("alpha", OPERATION_KNN, "rows");
    expect_loading("alpha", OPERATION_SPREAD, "web");
    expect_loading("alpha", OPERATION_KNN, "unheard-of");
    expect_loading("alpha", OPERATION_UPSERT, "rows");
    expect_loading("alpha", OPERATION_COLLECTION_CREATE, "new");
    expect_loading("alpha", OPERATION_COLLECTION_LIST, "");
    expect_loading("alpha", OPERATION_CHANGES, "");
    expect_loading("alpha", OPERATION_COLLECTION_DESCRIBE, "rows");
    expect_loading("other", OPERATION_UPSERT, "rows");
    expect_loading("other", OPERATION_COLLECTION_CREATE, "new");
    expect_loading("other", OPERATION_KNN, "rows");
    expect_loading("other", OPERATION_SAVE, "");
    cr_assert_eq(ask("alpha", OPERATION_INFO, "").code, STATUS_OK);
    cr_assert_eq(ask("alpha", OPERATION_STATS, "").code, STATUS_OK);
}

static bool is_there(const char *file)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", path, file);
    return access(name, F_OK) == 0;
}

/* Nothing was written or removed. */
static void expect_untouched(const char *journal, size_t bytes)
{
    size_t now;
    char *state = persist_house_read(path, "state", &now);
    cr_assert(now == sizeof STATE - 1 && memcmp(state, STATE, now) == 0);
    free(state);
    char *file = persist_house_read(path, FIRST, &now);
    cr_assert(now == bytes && memcmp(file, journal, now) == 0);
    free(file);
    cr_assert(!is_there(SECOND) && !is_there("snapshot-000000000001"));
}

Test(replays, nothing_is_answered_before_the_journal_s_end)
{
    struct failure f = {0};
    struct wire_info info = {0};
    struct job j = {0};
    make_folder();
    cr_assert_eq(begin("require", &f), STATUS_OK, "%s", f.text);
    expect_all_refused();
    cr_assert_eq(atomic_load(&readiness.phase), LIFE_LOADING);
    cr_assert_eq(rig.pipeline->state.instance, 77, "who asks early is not told of another");
    cr_assert_eq(rig.pipeline->state.generation, 2);
    loads_report(rig.pipeline, &j, false, &info);
    cr_assert(info.loading && info.load_bytes > 1000 && info.load_bytes_done == 0);
    cr_assert(engine_load_turn(&loading));
    cr_assert(loading.under_way, "the thread has had no turn");
    expect_all_refused();
    engine_load_tell(&loading, UINT64_C(5000000000));
    cr_assert(strncmp(notices, "STATUS=Replaying the journal: 0 of 0 MiB", 40) == 0, "%s", notices);
    cr_assert(load_all());
    cr_assert(strncmp(notices, "READY=1", 7) == 0, "%s", notices);
    cr_assert_eq(atomic_load(&readiness.phase), LIFE_SERVING);
    cr_assert_eq(ask("alpha", OPERATION_KNN, "rows").code, STATUS_OK);
    cr_assert_eq(ask("other", OPERATION_UPSERT, "rows").code, STATUS_OK);
    cr_assert_eq(rig.pipeline->state.instance, 77);
    cr_assert_eq(rig.pipeline->state.generation, 2);
    cr_assert(is_there(SECOND), "the journal goes on");
    engine_load_finish(&loading, false);
    persist_house_remove(path);
}

Test(replays, progress_extends_the_time_to_start)
{
    struct failure f = {0};
    struct load_seen seen = {0};
    make_folder();
    cr_assert_eq(begin("require", &f), STATUS_OK, "%s", f.text);
    /* each turn lends the store for a few records at least */
    while (loading.under_way && !seen.replay_bytes_done) {
        cr_assert(engine_load_turn(&loading));
        persist_load_seen(loading.persist, &seen);
        sched_yield();
    }
    if (loading.under_way) {
        engine_load_tell(&loading, UINT64_C(5000000000));
        cr_assert_not_null(strstr(notices, "\nEXTEND_TIMEOUT_USEC=60000000"), "%s", notices);
    }
    cr_assert(load_all());
    engine_load_finish(&loading, false);
    persist_house_remove(path);
}

/* The same bits as without a thread. */
Test(replays, a_thread_makes_what_a_start_alone_makes)
{
    struct persist_house a, b;
    struct failure f = {0};
    make_folder();
    persist_house_open(&a, path);
    struct persist *p = persist_house_start(&a);
    persist_destroy(p);
    persist_house_open(&b, path);
    struct persist_options options = {
        .config = &b.config, .heap = b.heap, .store = b.store, .kernels = vectors_variant(0)};
    cr_assert_eq(persist_create(&options, &p, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(persist_load_begin(p, &f), STATUS_OK, "%s", f.text);
    cr_assert(persist_is_loading(p));
    while (!persist_load_turn(p, &f))
        sched_yield();
    cr_assert_eq(f.code, STATUS_OK, "%s", f.text);
    cr_assert_eq(persist_house_count(&b), 3);
    persist_house_compare(&a, &b);
    persist_destroy(p);
    persist_house_close(&a);
    persist_house_close(&b);
    persist_house_remove(path);
}

/* Before the thread is started, or when it is in the middle: it waits for its first turn. */
static void stop_meanwhile(const char *mode, bool begun)
{
    struct failure f = {0};
    size_t bytes;
    make_folder();
    char *journal = persist_house_read(path, FIRST, &bytes);
    cr_assert_eq(begin(mode, &f), STATUS_OK, "%s", f.text);
    if (begun) cr_assert(engine_load_turn(&loading));
    cr_assert(loading.under_way);
    cr_assert(engine_load_finish(&loading, true), "nothing was to be saved");
    expect_untouched(journal, bytes);
    struct persist_house h;
    persist_house_open(&h, path);
    struct persist *p = persist_house_start(&h);
    cr_assert_eq(persist_instance(p), 77);
    cr_assert_eq(persist_house_count(&h), 3);
    persist_destroy(p);
    persist_house_close(&h);
    free(journal);
    persist_house_remove(path);
}

Test(replays, a_stop_before_it_leaves_the_files_and_the_instance)
{
    stop_meanwhile("require", false);
}

Test(replays, a_stop_meanwhile_leaves_the_files_and_the_instance)
{
    stop_meanwhile("require", true);
}

Test(replays, a_stop_is_no_damage_that_a_salvage_cuts)
{
    stop_meanwhile("salvage", true);
}

static char *make_damaged(size_t *bytes)
{
    make_folder();
    char *journal = persist_house_read(path, FIRST, bytes);
    journal[*bytes / 2] ^= 1;
    persist_house_write(path, FIRST, journal, *bytes);
    return journal;
}

Test(replays, damage_stops_the_daemon)
{
    struct failure f = {0};
    size_t bytes;
    char *journal = make_damaged(&bytes);
    cr_assert_eq(begin("require", &f), STATUS_OK, "%s", f.text);
    cr_assert_not(load_all());
    cr_assert_not_null(strstr(loading.failure.text, FIRST ": byte "), "%s", loading.failure.text);
    cr_assert_not_null(strstr(loading.failure.text, "(persist.load is require)"));
    engine_load_finish(&loading, true);
    expect_untouched(journal, bytes);
    free(journal);
    persist_house_remove(path);
}

Test(replays, damage_is_salvaged_and_nothing_answered_before)
{
    struct failure f = {0};
    size_t bytes;
    free(make_damaged(&bytes));
    cr_assert_eq(begin("salvage", &f), STATUS_OK, "%s", f.text);
    expect_all_refused();
    cr_assert(load_all(), "%s", loading.failure.text);
    cr_assert_neq(rig.pipeline->state.instance, 77, "something is lost");
    cr_assert_eq(ask("alpha", OPERATION_KNN, "rows").code, STATUS_OK);
    engine_load_finish(&loading, false);
    persist_house_remove(path);
}

/* The state names the file that the daemon before this one began. */
Test(replays, a_file_that_the_state_names_is_missed)
{
    static const char names_second[] = "snapshot 0 generation 1 journal 2\n";
    struct failure f = {0};
    make_folder();
    persist_house_write(path, "state", names_second, sizeof names_second - 1);
    cr_assert_eq(begin("require", &f), STATUS_OK, "%s", f.text);
    cr_assert_not(load_all());
    cr_assert_not_null(strstr(loading.failure.text, SECOND ": missing"), "%s",
                       loading.failure.text);
    engine_load_finish(&loading, true);
    cr_assert(!is_there(SECOND));
    persist_house_remove(path);
}

Test(replays, a_salvage_goes_on_without_a_file_that_is_missed)
{
    static const char names_second[] = "snapshot 0 generation 1 journal 2\n";
    struct failure f = {0};
    size_t bytes;
    make_folder();
    persist_house_write(path, "state", names_second, sizeof names_second - 1);
    cr_assert_eq(begin("salvage", &f), STATUS_OK, "%s", f.text);
    cr_assert(load_all(), "%s", loading.failure.text);
    cr_assert_neq(rig.pipeline->state.instance, 77, "something is lost");
    char *state = persist_house_read(path, "state", &bytes);
    cr_assert_eq(bytes, sizeof names_second - 1);
    cr_assert_eq(memcmp(state, "snapshot 0 generation 2 journal 2\n", bytes), 0, "%s", state);
    free(state);
    engine_load_finish(&loading, false);
    persist_house_remove(path);
}

/* Also where none is left, and none is to be written. */
Test(replays, the_only_file_is_missed)
{
    static const char names_first[] = "snapshot 0 generation 1 journal 1\n";
    char name[128];
    uint64_t objects;
    struct failure f = {0};
    make_folder();
    persist_house_write(path, "state", names_first, sizeof names_first - 1);
    snprintf(name, sizeof name, "%s/" FIRST, path);
    cr_assert_eq(unlink(name), 0);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_DATA_LOSS);
    cr_assert_not_null(strstr(f.text, FIRST ": missing"), "%s", f.text);
    cr_assert_eq(persist_house_try(path, "salvage", &objects, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_OK, "%s", f.text);
    persist_house_remove(path);
}

Test(replays, a_start_may_fail_anywhere)
{
    struct failure f = {0};
    uint32_t fired = 0;
    make_folder();
    for (uint32_t nth = 1;; nth += sweep_stride(3)) {
        struct persist_house h;
        struct persist *p = NULL;
        persist_house_open(&h, path);
        struct persist_options options = {
            .config = &h.config, .heap = h.heap, .store = h.store, .kernels = vectors_variant(0)};
        memset(&f, 0, sizeof f);
        fault_arm(nth);
        enum status st = persist_create(&options, &p, &f);
        if (!st) st = persist_load_begin(p, &f);
        while (!st && persist_is_loading(p) && !persist_load_turn(p, &f))
            sched_yield();
        bool fine = !st && !f.code;
        const char *site = fault_fired();
        fault_arm(0);
        cr_assert(fine || f.text[0], "%s", site);
        cr_assert(!fine || persist_house_count(&h) == 3, "%s", site ? site : "none");
        persist_destroy(p);
        persist_house_close(&h);
        if (!site) break;
        fired++;
    }
    cr_assert_gt(fired, 20);
    persist_house_remove(path);
}
