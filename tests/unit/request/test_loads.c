/* What was saved, on its way from the disk while others ask: what is refused until it is in. */
#include "daemon/request/loads.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/engine_load.h"
#include "daemon/persist/save.h"
#include "daemon/request/find.h"
#include "daemon/request/jobs.h"
#include "daemon/store/restore.h"
#include "tests/support/persist_house.h"
#include "tests/support/request_rig.h"
#include "tests/support/sweep.h"

#define FIRST "snapshot-000000000001"

static struct request_rig rig;
static struct rig_space *other; /* a space that nothing was saved of */
static struct readiness readiness;
static char path[64], notices[512];

static void note(const char *state)
{
    snprintf(notices, sizeof notices, "%s", state);
}

static struct engine_load loading = {.readiness = &readiness, .notify = note};

/* A daemon of a snapshot of seven objects, which begins to load. */
static enum status begin(const char *mode, struct failure *f)
{
    request_rig_open(&rig, NULL);
    strcpy(rig.config.persist_dir, path);
    strcpy(rig.config.persist_load, mode);
    struct pipeline *p = rig.pipeline;
    struct persist_options options = {
        .config = &rig.config, .heap = p->heap, .store = p->store, .kernels = p->kernels};
    loading.pipeline = p;
    other = request_rig_space(&rig, "other"); /* what is written later could be lost */
    enum status st = engine_load_begin(&loading, &options, f);
    if (!st) engine_load_start(&loading);
    return st;
}

static void open_loads(const char *mode)
{
    struct failure f = {0};
    log_set_level_name("error");
    persist_house_folder(path);
    persist_house_make_snapshot(path, false);
    cr_assert_eq(begin(mode, &f), STATUS_OK, "%s", f.text);
}

/* Until nothing is on its way. */
static bool load_all(void)
{
    bool fine = true;
    while (loading.under_way && fine) {
        fine = engine_load_turn(&loading);
        sched_yield();
    }
    return fine;
}

static void close_loads(void)
{
    engine_load_finish(&loading, false);
    persist_house_remove(path);
}

static struct failure ask(const char *space_name, enum operation operation, const char *name)
{
    struct space *space = NULL;
    cr_assert_eq(store_space(rig.pipeline->store, space_name, &space), STATUS_OK);
    struct job *j = job_take_own(rig.pipeline, space, operation, (struct job_owner){NULL, NULL});
    strcpy(j->request.names[0], name);
    enum status st = loads_begin(rig.pipeline, j);
    struct failure f = j->failure;
    cr_assert_eq(f.code, st);
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

static void expect_passes(const char *space, enum operation operation, const char *name)
{
    struct failure f = ask(space, operation, name);
    cr_assert_eq(f.code, STATUS_OK, "%s/%s: %d: %s", space, name, operation, f.text);
}

static void expect_all_refused(void)
{
    expect_loading("one", OPERATION_KNN, "three");
    expect_loading("one", OPERATION_SPREAD, "web");
    expect_loading("two", OPERATION_COMPLETE_ENGINE, "taught");
    expect_loading("one", OPERATION_UPSERT, "new");
    expect_loading("one", OPERATION_COLLECTION_DROP, "three");
    expect_loading("one", OPERATION_COLLECTION_CREATE, "new");
    expect_loading("one", OPERATION_COLLECTION_LIST, "");
    expect_loading("one", OPERATION_GRAPH_LIST, "");
    expect_loading("one", OPERATION_ATTRACTOR_LIST, "");
    expect_loading("one", OPERATION_CHANGES, "");
    expect_loading("one", OPERATION_SWAP, "three");
    expect_loading("one", OPERATION_COLLECTION_DESCRIBE, "three");
    expect_loading("one", OPERATION_GRAPH_DESCRIBE, "web");
    expect_loading("two", OPERATION_ATTRACTOR_DESCRIBE, "taught");
    expect_loading("other", OPERATION_SAVE, "");
}

Test(loads, what_is_on_its_way_is_refused_with_a_share)
{
    struct wire_info info = {0};
    struct job j = {0};
    open_loads("require");
    expect_all_refused();
    /* Neither what was not saved, nor a space that nothing was saved of, nor reports wait. */
    expect_passes("one", OPERATION_KNN, "unheard-of");
    expect_passes("one", OPERATION_GRAPH_DESCRIBE, "three");
    expect_passes("other", OPERATION_UPSERT, "rows");
    expect_passes("other", OPERATION_COLLECTION_CREATE, "new");
    expect_passes("other", OPERATION_COLLECTION_LIST, "");
    expect_passes("one", OPERATION_INFO, "");
    expect_passes("one", OPERATION_STATS, "");
    loads_report(rig.pipeline, &j, false, &info);
    cr_assert(info.loading && info.load_objects == 7 && info.load_bytes > 1000);
    cr_assert_eq(info.load_objects_done, 0, "names are entered by the loop");
    cr_assert(load_all());
    cr_assert_null(ask("one", OPERATION_KNN, "three").text[0] ? "refused" : NULL);
    expect_passes("one", OPERATION_UPSERT, "three");
    expect_passes("one", OPERATION_CHANGES, "");
    expect_passes("other", OPERATION_SAVE, "");
    memset(&info, 0, sizeof info);
    loads_report(rig.pipeline, &j, false, &info);
    cr_assert(!info.loading && info.load_objects == 0 && info.left_out_count == 0);
    cr_assert_eq(rig.pipeline->state.instance, persist_instance(loading.persist));
    close_loads();
}

Test(loads, the_service_manager_hears_when_all_is_in)
{
    open_loads("require");
    cr_assert_eq(atomic_load(&readiness.phase), LIFE_LOADING);
    cr_assert_str_eq(notices, "", "not ready");
    engine_load_tell(&loading, UINT64_C(5000000000));
    cr_assert(strncmp(notices, "STATUS=Loading: 0 of 7 objects", 30) == 0, "%s", notices);
    note("");
    engine_load_tell(&loading, UINT64_C(5000000001));
    cr_assert_str_eq(notices, "", "too early");
    cr_assert(load_all());
    cr_assert(strncmp(notices, "READY=1", 7) == 0, "%s", notices);
    cr_assert_eq(atomic_load(&readiness.phase), LIFE_SERVING);
    close_loads();
}

Test(loads, progress_extends_the_time_to_start)
{
    open_loads("require");
    struct load_seen seen = {0};
    while (!seen.bytes_done) {
        persist_load_seen(loading.persist, &seen);
        sched_yield();
    }
    engine_load_tell(&loading, UINT64_C(5000000000));
    cr_assert_not_null(strstr(notices, "\nEXTEND_TIMEOUT_USEC=60000000"), "%s", notices);
    cr_assert(load_all());
    close_loads();
}

static void break_rows(const char *file)
{
    size_t bytes;
    char *data = persist_house_read(path, file, &bytes);
    data[bytes - 1] ^= 1;
    persist_house_write(path, file, data, bytes);
    free(data);
}

/* What cannot be loaded ends the daemon, which saves nothing, and changes nothing of what there
 * is. */
Test(loads, a_damaged_snapshot_ends_the_daemon)
{
    struct failure f = {0};
    size_t before, after;
    log_set_level_name("error");
    persist_house_folder(path);
    persist_house_make_snapshot(path, false);
    char *state = persist_house_read(path, "state", &before);
    break_rows(FIRST "/000002-rows.npy");
    cr_assert_eq(begin("require", &f), STATUS_OK, "%s", f.text);
    cr_assert_not(load_all());
    cr_assert_not_null(strstr(loading.failure.text, FIRST ": 000002-rows.npy: byte 0"), "%s",
                       loading.failure.text);
    cr_assert_not_null(strstr(loading.failure.text, "(persist.load is require)"));
    cr_assert_eq(atomic_load(&readiness.phase), LIFE_LOADING);
    cr_assert_str_eq(notices, "");
    engine_load_finish(&loading, true);
    char *again = persist_house_read(path, "state", &after);
    cr_assert(before == after && memcmp(state, again, before) == 0);
    char name[128];
    snprintf(name, sizeof name, "%s/snapshot-000000000002", path);
    cr_assert_neq(access(name, F_OK), 0);
    free(state);
    free(again);
    persist_house_remove(path);
}

/* Nothing has a name until it is known which snapshot it is of, and no space takes a write. */
Test(loads, a_salvage_shows_all_at_once_and_names_what_it_left_out)
{
    struct failure f = {0};
    struct wire_info info = {0};
    log_set_level_name("error");
    persist_house_folder(path);
    persist_house_make_snapshot(path, false);
    break_rows(FIRST "/000002-rows.npy");
    cr_assert_eq(begin("salvage", &f), STATUS_OK, "%s", f.text);
    uint64_t instance = rig.pipeline->state.instance;
    expect_all_refused();
    expect_loading("other", OPERATION_COLLECTION_CREATE, "new");
    expect_loading("other", OPERATION_KNN, "unheard-of");
    cr_assert(load_all());
    cr_assert_neq(rig.pipeline->state.instance, instance, "it is not what was saved");
    expect_passes("one", OPERATION_UPSERT, "padded.not");
    struct space *one = NULL;
    cr_assert_eq(store_space(rig.pipeline->store, "one", &one), STATUS_OK);
    struct job *named = job_take_own(rig.pipeline, one, OPERATION_KNN, (struct job_owner){0});
    loads_report(rig.pipeline, named, false, &info);
    cr_assert_eq(info.left_out_count, 1);
    cr_assert_str_eq(info.left_out[0], "one/three (collection)");
    memset(&info, 0, sizeof info);
    named->space = other->space;
    loads_report(rig.pipeline, named, false, &info);
    cr_assert_eq(info.left_out_count, 0, "of other spaces only an operator hears");
    loads_report(rig.pipeline, named, true, &info);
    cr_assert_eq(info.left_out_count, 1);
    named->space = one;
    cr_assert_null(find_resident(rig.pipeline, named, OBJECT_COLLECTION, "three", &f));
    cr_assert_not_null(find_resident(rig.pipeline, named, OBJECT_GRAPH, "web", &f));
    close_loads();
}

/* A stop before all is in saves nothing; the next start is as this one was. */
Test(loads, a_stop_meanwhile_leaves_what_was_saved)
{
    struct persist_house a, b;
    uint64_t instance;
    open_loads("require");
    instance = rig.pipeline->state.instance;
    engine_load_finish(&loading, true);
    char name[128];
    snprintf(name, sizeof name, "%s/snapshot-000000000002", path);
    cr_assert_neq(access(name, F_OK), 0, "half of it was saved");
    persist_house_open(&a, path);
    struct persist *p = persist_house_start(&a);
    cr_assert_eq(persist_instance(p), instance);
    cr_assert_eq(persist_house_count(&a), 7);
    persist_destroy(p);
    persist_house_close(&a);
    persist_house_open(&b, path);
    p = persist_house_start(&b);
    cr_assert_neq(persist_instance(p), instance, "the daemon before it ended without a save");
    persist_destroy(p);
    persist_house_close(&b);
    persist_house_remove(path);
}

static uint64_t made_as(const char *space_name, enum object_kind kind, const char *name)
{
    struct space *space = NULL;
    struct failure f = {0};
    cr_assert_eq(store_space(rig.pipeline->store, space_name, &space), STATUS_OK);
    struct job *j = job_take_own(rig.pipeline, space, OPERATION_KNN, (struct job_owner){0});
    struct resident *r = find_resident(rig.pipeline, j, kind, name, &f);
    cr_assert_not_null(r, "%s", f.text);
    return r->number;
}

/* The order is that in which objects are made, which their numbers tell. */
Test(loads, what_was_asked_most_comes_first)
{
    struct persist_house h;
    struct failure f = {0};
    struct collection *c = NULL;
    struct graph *g = NULL;
    struct space *one = NULL;
    log_set_level_name("error");
    persist_house_folder(path);
    persist_house_open(&h, path);
    struct persist *p = persist_house_start(&h);
    persist_house_fill(&h, false);
    cr_assert_eq(store_space(h.store, "one", &one), STATUS_OK);
    cr_assert_eq(store_graph_find(h.store, one, "web", NULL, &g), STATUS_OK);
    cr_assert_eq(store_collection_find(h.store, one, "three", NULL, &c), STATUS_OK);
    graph_resident(g)->asked = 1000;
    collection_resident(c)->asked = 999;
    cr_assert_eq(persist_save(p, true, &f), STATUS_OK, "%s", f.text);
    store_space_release(h.store, one);
    persist_destroy(p);
    persist_house_close(&h);
    cr_assert_eq(begin("require", &f), STATUS_OK, "%s", f.text);
    cr_assert(load_all());
    uint64_t web = made_as("one", OBJECT_GRAPH, "web");
    uint64_t three = made_as("one", OBJECT_COLLECTION, "three");
    uint64_t padded = made_as("one", OBJECT_COLLECTION, "padded.not");
    uint64_t small = made_as("two", OBJECT_COLLECTION, "three");
    cr_assert(web < three && three < padded && three < small);
    cr_assert_lt(small, padded, "of what was asked as often, the smaller");
    struct job *j = job_take_own(rig.pipeline, other->space, OPERATION_KNN, (struct job_owner){0});
    cr_assert_eq(store_space(rig.pipeline->store, "one", &j->space), STATUS_OK);
    cr_assert_eq(find_resident(rig.pipeline, j, OBJECT_GRAPH, "web", &f)->asked, 500);
    close_loads();
}

/* Whatever fails, a start ends well or with a reason, and what was saved stays. */
Test(loads, a_start_may_fail_anywhere)
{
    struct failure f = {0};
    uint64_t objects;
    log_set_level_name("error");
    persist_house_folder(path);
    persist_house_make_snapshot(path, false);
    uint32_t fired = 0;
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
        cr_assert(!fine || persist_house_count(&h) == 7, "%s", site ? site : "none");
        persist_destroy(p);
        persist_house_close(&h);
        if (!site) break;
        fired++;
    }
    cr_assert_gt(fired, 50);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_OK);
    cr_assert_eq(objects, 7);
    persist_house_remove(path);
}
