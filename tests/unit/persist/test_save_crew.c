/* Saves that several threads write. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/persist/persist_inside.h"
#include "tests/support/persist_house.h"
#include "tests/support/sweep.h"

static void be_quiet(void)
{
    log_set_level_name("error");
}

TestSuite(save_crew, .init = be_quiet);

enum { OBJECTS = 7 + 4 };

/* Files that are worth a thread each, and smaller ones. */
static void fill(struct persist_house *h, uint32_t threads)
{
    h->save_threads = threads;
    persist_house_fill(h, false);
    persist_house_add_rows(h, "one", "large.1", 32, 12000);
    persist_house_add_rows(h, "one", "large.2", 20, 16000); /* rows lie apart */
    persist_house_add_rows(h, "two", "large.3", 32, 12000);
    persist_house_add_rows(h, "two", "large.4", 64, 6000);
}

static void change(struct persist_house *h, const char *space_name, const char *name)
{
    struct space *space = NULL;
    struct collection *c = NULL;
    struct upsert_counts counts;
    float row[64] __attribute__((aligned(64))) = {1, 2, 3};
    uint64_t id = 1;
    cr_assert_eq(store_space(h->store, space_name, &space), STATUS_OK);
    cr_assert_eq(store_collection_find(h->store, space, name, NULL, &c), STATUS_OK);
    cr_assert_eq(collection_upsert(c, &id, row, 1, &counts, NULL), STATUS_OK);
    store_space_release(h->store, space);
}

/* As the daemon's save, and with what one can be told. */
static enum status save(struct persist *p, struct save_meter *meter, void (*object_done)(void *),
                        void *owner, uint64_t *objects)
{
    struct save s;
    struct manifest m = {0};
    struct failure f = {0};
    persist_prepare(p, &s);
    s.meter = meter;
    s.object_done = object_done;
    s.owner = owner;
    cr_assert_eq(save_list(p->options.store, p->options.kernels, &s.items, &s.count, &f),
                 STATUS_OK);
    enum status st = save_write(&s, &m, &f);
    if (objects) *objects = s.count;
    free(s.items);
    if (st) {
        cr_assert_neq(f.text[0], 0);
        return st;
    }
    persist_take(p, &m);
    return STATUS_OK;
}

struct watched {
    struct save_meter meter;
    _Atomic uint64_t calls;
};

static void count_call(void *owner)
{
    struct watched *w = owner;
    atomic_fetch_add(&w->calls, 1);
    cr_assert_leq(atomic_load(&w->meter.objects), OBJECTS);
    cr_assert_leq(atomic_load(&w->meter.done_bytes), atomic_load(&w->meter.all_bytes));
}

/* As many threads as there are: what they write is the same, and all of it is counted. */
Test(save_crew, any_number_of_threads_writes_the_same)
{
    char *first[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    for (uint32_t threads = 1; threads <= 5; threads++) {
        char path[64];
        struct persist_house a, b;
        struct watched w = {.calls = 0};
        uint64_t objects = 0;
        persist_house_folder(path);
        persist_house_open(&a, path);
        fill(&a, threads);
        struct persist *p = persist_house_start(&a);
        for (int again = 0; again < 2; again++) { /* the second links all but one */
            memset(&w, 0, sizeof w);
            cr_assert_eq(save(p, &w.meter, count_call, &w, &objects), STATUS_OK);
            cr_assert_eq(objects, OBJECTS);
            cr_assert_eq(atomic_load(&w.meter.objects), objects);
            cr_assert_eq(atomic_load(&w.meter.done_bytes), atomic_load(&w.meter.all_bytes));
            cr_assert_gt(atomic_load(&w.calls), 0);
            if (!again) change(&a, "two", "large.3");
        }
        cr_assert_gt(atomic_load(&w.meter.linked_bytes), 0);
        cr_assert_lt(atomic_load(&w.meter.linked_bytes), atomic_load(&w.meter.all_bytes));
        persist_destroy(p);
        cr_assert(persist_house_verify(path, ""));
        for (int i = 0; i < 2; i++) {
            static const char *const names[] = {"snapshot-000000000002/000001-rows.npy",
                                                "snapshot-000000000002/000002-ids.npy"};
            size_t n;
            char *data = persist_house_read(path, names[i], &n);
            if (!first[i]) {
                first[i] = data;
                bytes[i] = n;
                continue;
            }
            cr_assert(n == bytes[i] && memcmp(data, first[i], n) == 0, "%u threads", threads);
            free(data);
        }
        persist_house_open(&b, path);
        persist_destroy(persist_house_start(&b));
        persist_house_compare(&a, &b);
        persist_house_compare(&b, &a);
        persist_house_close(&a);
        persist_house_close(&b);
        persist_house_remove(path);
    }
    free(first[0]);
    free(first[1]);
}

static bool may_fail(const char *site)
{
    static const char *const fine[] = {"save: thread",     "second thread", "save: link",
                                       "save: link entry", "folder: list",  "folder: snapshot",
                                       "folder: numbers",  "folder: remove"};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        if (strcmp(site, fine[i]) == 0) return true;
    return false;
}

/* Whichever thread fails, the save fails, nothing of it stays, and what was saved before does. */
Test(save_crew, the_failure_of_any_thread_ends_all, .timeout = 300)
{
    char path[64];
    struct persist_house a, b;
    struct save_meter meter = {0};
    uint32_t stride = 2 + sweep_stride(9), failed = 0;
    uint64_t objects;
    struct failure f;
    persist_house_folder(path);
    persist_house_open(&a, path);
    fill(&a, 4);
    struct persist *p = persist_house_start(&a);
    for (uint32_t nth = 3;; nth += stride) {
        memset(&meter, 0, sizeof meter);
        fault_arm(nth);
        enum status st = save(p, &meter, NULL, NULL, NULL);
        const char *site = fault_fired();
        fault_arm(0);
        if (!site) break;
        if (!st) {
            cr_assert(may_fail(site), "%s", site);
            p->linkable = false; /* the next writes all */
            continue;
        }
        cr_assert_not(may_fail(site), "%s", site);
        failed++;
    }
    cr_assert_gt(failed, 10);
    p->linkable = false;
    memset(&meter, 0, sizeof meter);
    cr_assert_eq(save(p, &meter, NULL, NULL, NULL), STATUS_OK);
    persist_destroy(p);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(objects, OBJECTS);
    cr_assert(persist_house_verify(path, ""));
    persist_house_open(&b, path);
    persist_destroy(persist_house_start(&b));
    persist_house_compare(&a, &b);
    persist_house_close(&a);
    persist_house_close(&b);
    persist_house_remove(path);
}

static void stop_it(void *owner)
{
    struct save_meter *m = owner;
    atomic_store(&m->stop, true);
}

/* A save that nobody wants any more, at its start or when threads begin with what is not linked. */
Test(save_crew, all_threads_end_when_it_is_given_up)
{
    char path[64], hidden[128];
    struct persist_house a;
    persist_house_folder(path);
    persist_house_open(&a, path);
    fill(&a, 4);
    struct persist *p = persist_house_start(&a);
    for (int number = 1; number <= 2; number++) {
        struct save_meter meter = {0}, all = {0};
        atomic_store(&meter.stop, number == 1);
        cr_assert_eq(save(p, &meter, stop_it, &meter, NULL), STATUS_CANCELLED);
        cr_assert_eq(atomic_load(&meter.objects), number == 1 ? 0 : 1);
        snprintf(hidden, sizeof hidden, "%s/.saving-%012d", path, number);
        cr_assert_neq(access(hidden, F_OK), 0);
        snprintf(hidden, sizeof hidden, "%s/snapshot-%012d", path, number);
        cr_assert_neq(access(hidden, F_OK), 0);
        if (number == 1) cr_assert_eq(save(p, &all, NULL, NULL, NULL), STATUS_OK);
        change(&a, "one", "large.2");
        change(&a, "two", "large.3");
        change(&a, "two", "large.4");
    }
    persist_destroy(p);
    persist_house_close(&a);
    persist_house_remove(path);
}

/* The rate is that of all threads together, so a save is never faster. */
Test(save_crew, threads_share_the_rate)
{
    enum { MIB_PER_S = 20 };
    char path[64];
    struct persist_house a;
    persist_house_folder(path);
    persist_house_open(&a, path);
    fill(&a, 4);
    struct persist *p = persist_house_start(&a);
    struct save_meter meter = {.rate = (uint64_t)MIB_PER_S << 20};
    uint64_t begun = clock_now_ns();
    cr_assert_eq(save(p, &meter, NULL, NULL, NULL), STATUS_OK);
    double s = (double)(clock_now_ns() - begun) * 1e-9;
    double written = (double)(atomic_load(&meter.all_bytes)) - 40 * NPY_HEAD_BYTES;
    cr_assert_geq(s, 0.95 * written / (MIB_PER_S << 20));
    persist_destroy(p);
    persist_house_close(&a);
    persist_house_remove(path);
}
