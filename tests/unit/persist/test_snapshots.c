/* Snapshots: what is saved comes back, whatever happens on the way. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/persist/save.h"
#include "tests/support/persist_house.h"
#include "tests/support/sweep.h"

#define FIRST "snapshot-000000000001"

static void be_quiet(void)
{
    log_set_level_name("error");
}

TestSuite(snapshots, .init = be_quiet);

static void check_round_trip(bool large)
{
    char path[64];
    struct persist_house a, b;
    struct failure f = {0};
    persist_house_folder(path);
    persist_house_open(&a, path);
    struct persist *p = persist_house_start(&a);
    uint64_t instance = persist_instance(p);
    persist_house_fill(&a, large);
    cr_assert_eq(persist_save(p, true, &f), STATUS_OK, "%s", f.text);
    persist_destroy(p);
    persist_house_open(&b, path);
    p = persist_house_start(&b);
    cr_assert_eq(persist_instance(p), instance);
    persist_house_compare(&a, &b);
    persist_house_compare(&b, &a);
    persist_destroy(p);
    persist_house_close(&a);
    persist_house_close(&b);
    persist_house_remove(path);
}

Test(snapshots, what_was_saved_is_loaded)
{
    check_round_trip(false);
}

Test(snapshots, many_segments_and_edges_are_loaded)
{
    check_round_trip(true);
}

Test(snapshots, an_instance_goes_on_after_an_orderly_stop_alone)
{
    char path[64];
    struct persist_house h;
    struct failure f = {0};
    uint64_t instances[6];
    persist_house_folder(path);
    /* A stop; a crash of what began with that snapshot; another; a stop; one while running. */
    for (int i = 0; i < 6; i++) {
        persist_house_open(&h, path);
        struct persist *p = persist_house_start(&h);
        instances[i] = persist_instance(p);
        if (i == 0 || i == 3) cr_assert_eq(persist_save(p, true, &f), STATUS_OK);
        if (i == 4) cr_assert_eq(persist_save(p, false, &f), STATUS_OK);
        persist_destroy(p);
        persist_house_close(&h);
    }
    cr_assert_eq(instances[1], instances[0]);
    cr_assert_neq(instances[2], instances[1]);
    cr_assert_neq(instances[3], instances[2]);
    cr_assert_eq(instances[4], instances[3]);
    cr_assert_neq(instances[5], instances[4]);
    persist_house_remove(path);
}

/* A copy that is brought back without the state beside it: others may have begun with it. */
Test(snapshots, without_a_state_an_orderly_stop_is_a_new_generation)
{
    char path[64], state[96];
    struct persist_house h;
    struct failure f = {0};
    uint64_t instances[3], generations[3];
    persist_house_folder(path);
    snprintf(state, sizeof state, "%s/state", path);
    for (int i = 0; i < 3; i++) {
        persist_house_open(&h, path);
        struct persist *p = persist_house_start(&h);
        instances[i] = persist_instance(p);
        generations[i] = persist_generation(p);
        cr_assert_eq(persist_save(p, true, &f), STATUS_OK);
        if (i) cr_assert_eq(unlink(state), 0);
        persist_destroy(p);
        persist_house_close(&h);
    }
    cr_assert_eq(instances[1], instances[0]);
    cr_assert_neq(instances[2], instances[1]);
    cr_assert_eq(generations[2], generations[1] + 1);
    persist_house_remove(path);
}

static nlink_t links_of(const char *path, const char *file)
{
    char name[256];
    struct stat is;
    snprintf(name, sizeof name, "%s/%s", path, file);
    return stat(name, &is) ? 0 : is.st_nlink;
}

Test(snapshots, what_has_not_changed_is_linked)
{
    char path[64];
    struct persist_house a, b;
    struct failure f = {0};
    struct space *space = NULL;
    struct collection *c = NULL;
    struct upsert_counts counts;
    persist_house_folder(path);
    persist_house_open(&a, path);
    struct persist *p = persist_house_start(&a);
    persist_house_fill(&a, false);
    cr_assert_eq(persist_save(p, false, &f), STATUS_OK);
    cr_assert_eq(links_of(path, FIRST "/000001-rows.npy"), 1);
    cr_assert_eq(store_space(a.store, "two", &space), STATUS_OK);
    cr_assert_eq(store_collection_find(a.store, space, "three", NULL, &c), STATUS_OK);
    float row[16] __attribute__((aligned(64))) = {1, 2, 3};
    uint64_t id = 1;
    cr_assert_eq(collection_upsert(c, &id, row, 1, &counts, NULL), STATUS_OK);
    store_space_release(a.store, space);
    cr_assert_eq(persist_save(p, false, &f), STATUS_OK);
    int linked = 0, alone = 0;
    char name[128];
    for (int i = 1; i <= 7; i++)
        for (int k = 0; k < 3; k++) {
            static const char *const arrays[] = {"rows", "weights", "matrix"};
            snprintf(name, sizeof name, "snapshot-000000000002/%06d-%s.npy", i, arrays[k]);
            nlink_t links = links_of(path, name);
            linked += links == 2;
            alone += links == 1;
        }
    cr_assert_eq(linked, 6);
    cr_assert_eq(alone, 1);
    cr_assert_eq(persist_save(p, true, &f), STATUS_OK);
    cr_assert_eq(links_of(path, FIRST "/manifest.json"), 0); /* persist.keep is 2 */
    cr_assert_eq(links_of(path, "snapshot-000000000002/manifest.json"), 1);
    persist_destroy(p);
    persist_house_open(&b, path);
    persist_destroy(persist_house_start(&b));
    persist_house_compare(&a, &b);
    persist_house_close(&a);
    persist_house_close(&b);
    persist_house_remove(path);
}

Test(snapshots, a_folder_has_one_daemon)
{
    char path[64];
    struct persist_house h;
    uint64_t objects;
    struct failure f;
    persist_house_folder(path);
    persist_house_open(&h, path);
    struct persist *p = persist_house_start(&h);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_FAILED_PRECONDITION);
    cr_assert_not_null(strstr(f.text, "another daemon"));
    persist_destroy(p);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_OK);
    persist_house_close(&h);
    persist_house_remove(path);
}

Test(snapshots, a_folder_that_cannot_be_made_is_named)
{
    uint64_t objects;
    struct failure f;
    cr_assert_eq(persist_house_try("/nowhere/at/all", "require", &objects, &f), STATUS_UNAVAILABLE);
    cr_assert_not_null(strstr(f.text, "persist.dir: /nowhere/at/all"));
    cr_assert_neq(persist_house_try("/dev/null", "require", &objects, &f), STATUS_OK);
}

static enum status try_key(const char *path, const char *key, bool saves)
{
    struct persist_house h;
    struct persist *p = NULL;
    struct failure f = {0};
    persist_house_open(&h, path);
    strcpy(h.config.persist_key_file, key);
    struct persist_options options = {
        .config = &h.config, .heap = h.heap, .store = h.store, .kernels = vectors_variant(0)};
    enum status st = persist_create(&options, &p, &f);
    if (!st) st = persist_load(p, &f);
    if (!st && saves) {
        persist_house_fill(&h, false);
        st = persist_save(p, true, &f);
    }
    persist_destroy(p);
    persist_house_close(&h);
    return st;
}

Test(snapshots, a_key_signs)
{
    char path[64], keys[64], key[96], other[96], none[96], empty[96];
    persist_house_folder(path);
    persist_house_folder(keys);
    persist_house_write(keys, "key", "secret", 6);
    persist_house_write(keys, "other", "secreT", 6);
    persist_house_write(keys, "empty", "", 0);
    snprintf(key, sizeof key, "%s/key", keys);
    snprintf(other, sizeof other, "%s/other", keys);
    snprintf(none, sizeof none, "%s/none", keys);
    snprintf(empty, sizeof empty, "%s/empty", keys);
    const char *files[] = {key, other, empty};
    for (int i = 0; i < 3; i++)
        cr_assert_eq(chmod(files[i], 0600), 0);
    static const mode_t open[] = {0604, 0602, 0660, 0666};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(chmod(key, open[i]), 0);
        cr_assert_eq(try_key(path, key, true), STATUS_INVALID_ARGUMENT, "%o", open[i]);
    }
    cr_assert_eq(chmod(key, 0640), 0);
    cr_assert_eq(try_key(path, none, true), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(try_key(path, empty, true), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(try_key(path, key, true), STATUS_OK);
    cr_assert_eq(try_key(path, key, false), STATUS_OK);
    cr_assert_eq(try_key(path, other, false), STATUS_UNAUTHENTICATED);
    cr_assert_eq(try_key(path, "", false), STATUS_OK);
    cr_assert(persist_house_verify(path, key));
    cr_assert(persist_house_verify(path, ""));
    cr_assert_not(persist_house_verify(path, other));
    persist_house_remove(path);
    persist_house_folder(path);
    cr_assert_eq(try_key(path, "", true), STATUS_OK);
    cr_assert_eq(try_key(path, key, false), STATUS_UNAUTHENTICATED);
    persist_house_remove(path);
    persist_house_remove(keys);
}

/* ---------------------------------------------------------------- faults */

static uint32_t count_entries(const char *path)
{
    uint32_t count = 0;
    DIR *all = opendir(path);
    cr_assert_not_null(all);
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

/* A save that fails anywhere leaves the older snapshot, and nothing of its own. */
Test(snapshots, a_failed_save_keeps_the_last)
{
    char path[64];
    struct persist_house a, b;
    struct failure f = {0};
    uint64_t objects;
    persist_house_folder(path);
    persist_house_make_snapshot(path, false);
    persist_house_open(&a, path);
    struct persist *p = persist_house_start(&a);
    uint32_t before = count_entries(path), fired = 0;
    for (uint32_t nth = 1;; nth++) {
        fault_arm(nth);
        enum status st = persist_save(p, false, &f);
        const char *site = fault_fired();
        fault_arm(0);
        if (!site) break;
        fired++;
        if (!st) { /* an unchanged object was written again, or what is too old is still there */
            cr_assert(strncmp(site, "save: link", 10) == 0 || strcmp(site, "folder: list") == 0 ||
                          strcmp(site, "folder: snapshot") == 0 ||
                          strcmp(site, "folder: numbers") == 0 ||
                          strcmp(site, "folder: remove") == 0,
                      "%s", site);
            continue;
        }
        cr_assert_neq(f.text[0], 0);
        cr_assert_leq(count_entries(path), before + 2, "%s", site);
        cr_assert_eq(access(path, F_OK), 0);
    }
    cr_assert_gt(fired, 30);
    persist_destroy(p);
    persist_house_open(&b, path);
    persist_destroy(persist_house_start(&b));
    persist_house_compare(&a, &b);
    persist_house_close(&a);
    persist_house_close(&b);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_OK);
    cr_assert_eq(objects, 7);
    persist_house_remove(path);
}

/* The first save into an empty folder, where nothing can be linked. */
Test(snapshots, a_failed_first_save_leaves_nothing)
{
    char path[64];
    struct persist_house a, b;
    struct failure f = {0};
    persist_house_folder(path);
    persist_house_open(&a, path);
    struct persist *p = persist_house_start(&a);
    persist_house_fill(&a, false);
    uint32_t before = count_entries(path), fired = 0;
    for (uint32_t nth = 1;; nth++) {
        fault_arm(nth);
        enum status st = persist_save(p, false, &f);
        const char *site = fault_fired();
        fault_arm(0);
        if (!st) break;
        cr_assert_not_null(site);
        fired++;
        cr_assert_eq(count_entries(path), before, "%s", site);
    }
    cr_assert_gt(fired, 100);
    persist_destroy(p);
    persist_house_open(&b, path);
    persist_destroy(persist_house_start(&b));
    persist_house_compare(&a, &b);
    persist_house_close(&a);
    persist_house_close(&b);
    persist_house_remove(path);
}

/* A start that fails anywhere leaves no object and no memory behind, and the next one succeeds. */
Test(snapshots, a_failed_start_changes_nothing)
{
    char path[64];
    struct failure f;
    uint64_t objects;
    persist_house_folder(path);
    persist_house_make_snapshot(path, false);
    uint32_t stride = sweep_stride(3), fired = 0;
    for (uint32_t nth = 1;; nth += stride) {
        struct persist_house h;
        struct persist *p = NULL;
        persist_house_open(&h, path);
        struct persist_options options = {
            .config = &h.config, .heap = h.heap, .store = h.store, .kernels = vectors_variant(0)};
        fault_arm(nth);
        enum status st = persist_create(&options, &p, &f);
        if (!st) st = persist_load(p, &f);
        const char *site = fault_fired();
        fault_arm(0);
        if (st && strncmp(site, "folder: write", 13) != 0 &&
            strncmp(site, "folder: sync", 12) != 0 && strncmp(site, "folder: file", 12) != 0 &&
            strncmp(site, "folder: state", 13) != 0 && strcmp(site, "folder: memory") != 0 &&
            strcmp(site, "folder: read") != 0)
            cr_assert_eq(persist_house_count(&h), 0, "%s", site);
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

/* ---------------------------------------------------------------- in the background */

static enum status save_behind(struct persist_house *h, struct persist *p, const char *to,
                               bool stops, struct persist_report *out)
{
    struct failure f = {0};
    struct persist_wish wish = {.to = to, .instance = 5};
    cr_assert_eq(save_list(h->store, vectors_variant(0), &wish.items, &wish.count, &f), STATUS_OK);
    enum status st = persist_begin(p, &wish, &f);
    if (st) {
        free(wish.items);
        return st;
    }
    if (stops) atomic_store(&persist_meter(p)->stop, true);
    persist_wait(p, out);
    return out->failure.code;
}

/* Fails at every site; what was saved before stays, and nothing of its own. */
Test(snapshots, a_failed_save_in_the_background_keeps_the_last)
{
    char path[64], other[64];
    struct persist_house a;
    struct persist_report r;
    uint64_t objects;
    struct failure f;
    persist_house_folder(path);
    persist_house_folder(other);
    persist_house_open(&a, path);
    struct persist *p = persist_house_start(&a);
    persist_house_fill(&a, false);
    uint32_t fired = 0, stride = sweep_stride(3), before = count_entries(path);
    for (uint32_t nth = 2;; nth += stride) { /* the first is the list's, before it begins */
        bool elsewhere = nth % 2;
        fault_arm(nth);
        enum status st = save_behind(&a, p, elsewhere ? other : "", false, &r);
        const char *site = fault_fired();
        fault_arm(0);
        if (!site) break;
        fired++;
        if (st) cr_assert_leq(count_entries(path), before, "%s", site);
        if (!st) before = count_entries(path);
    }
    cr_assert_gt(fired, 30);
    enum status st = save_behind(&a, p, other, true, &r);
    cr_assert(st == STATUS_OK || st == STATUS_CANCELLED);
    cr_assert_eq(save_behind(&a, p, "", false, &r), STATUS_OK);
    cr_assert_eq(r.objects, 7);
    cr_assert_gt(r.number, 0);
    cr_assert_str_eq(r.path, path);
    cr_assert_eq(save_behind(&a, p, "", false, &r), STATUS_OK);
    cr_assert_eq(r.linked_bytes, r.bytes);
    cr_assert_eq(save_behind(&a, p, other, false, &r), STATUS_OK);
    cr_assert_eq(r.linked_bytes, 0);
    cr_assert_eq(save_behind(&a, p, path, false, &r), STATUS_INVALID_ARGUMENT);
    cr_assert(persist_house_verify(other, ""));
    persist_destroy(p);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_OK);
    cr_assert_eq(objects, 7);
    persist_house_close(&a);
    persist_house_remove(path);
    persist_house_remove(other);
}
