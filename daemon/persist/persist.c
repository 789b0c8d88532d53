#include "daemon/persist/persist.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/persist/load.h"
#include "daemon/persist/persist_inside.h"
#include "daemon/store/restore.h"

/* ---------------------------------------------------------------- life */

/* The setting, or systemd's state directory. False: neither. */
static bool choose_path(const struct config *c, char *path, size_t room)
{
    const char *state = getenv("STATE_DIRECTORY");
    int n = 0;
    if (strcmp(c->persist_dir, "none") == 0) return false;
    if (c->persist_dir[0])
        n = snprintf(path, room, "%s", c->persist_dir);
    else if (state && *state) /* it may name several directories; the first is used */
        n = snprintf(path, room, "%.*s/snapshots", (int)strcspn(state, ":"), state);
    return n > 0 && (size_t)n < room;
}

enum status persist_create(const struct persist_options *options, struct persist **out,
                           struct failure *f)
{
    char path[4096];
    struct failure why = {0};
    bool keeps = choose_path(options->config, path, sizeof path);
    *out = NULL;
    struct persist *p = fault_here("persist: struct") ? NULL : calloc(1, sizeof *p);
    if (!p) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "persist: no memory");
    p->options = *options;
    p->folder.fd = p->folder.lock = -1;
    enum status st = load_key(options->config->persist_key_file, &p->key, f);
    if (!st && keeps && (st = folder_open(path, &p->folder, &why)))
        failure_set(f, st, why.detail, "persist.dir: %.200s", why.text);
    if (st)
        persist_destroy(p);
    else
        *out = p;
    return st;
}

void persist_destroy(struct persist *p)
{
    if (!p) return;
    assert(!p->background);
    manifest_free(&p->last);
    folder_close(&p->folder);
    free(p);
}

const struct manifest *persist_last(const struct persist *p)
{
    static const struct manifest none;
    return p->linkable ? &p->last : &none;
}

bool persist_keeps(const struct persist *p)
{
    return p->folder.fd >= 0;
}

uint64_t persist_instance(const struct persist *p)
{
    return p->instance;
}

uint64_t persist_generation(const struct persist *p)
{
    return p->generation;
}

/* ---------------------------------------------------------------- loading */

static void forget_all(struct store *s)
{
    struct space *next;
    for (struct space *at = store_space_next(s, NULL); at; at = next) {
        next = store_space_next(s, at);
        store_space_empty(s, at);
    }
}

/* Loads objects of a snapshot, all or what is whole of them. */
static enum status load_objects(struct persist *p, int folder, const struct manifest *m,
                                bool salvage, uint64_t *lost, struct failure *f)
{
    struct loading l = {p->options.store, p->options.heap, p->options.kernels, folder, 0};
    for (uint64_t i = 0; i < m->object_count; i++) {
        const struct snapshot_object *o = &m->objects[i];
        enum status st = load_object(&l, o, f);
        if (!st) continue;
        if (!salvage || st == STATUS_RESOURCE_EXHAUSTED) {
            forget_all(p->options.store);
            return st;
        }
        log_error("persist: space %s, %s: left out: %s", o->space, o->name, f->text);
        ++*lost;
    }
    store_restore_version(p->options.store, m->version);
    return STATUS_OK;
}

static enum status load_number(struct persist *p, uint64_t number, bool salvage, struct failure *f)
{
    struct manifest m = {0};
    struct failure why = {0};
    uint64_t lost = 0, began_ns = clock_now_ns();
    int folder = folder_open_snapshot(p->folder.fd, number);
    enum status st = folder < 0 ? failure_set(&why, STATUS_UNAVAILABLE, DETAIL_SYSTEM,
                                              "cannot be opened: %s", strerror(errno))
                                : load_manifest(folder, &p->key, &m, &why);
    if (!st) st = load_objects(p, folder, &m, salvage, &lost, &why);
    if (folder >= 0) close(folder);
    if (st) {
        manifest_free(&m);
        return failure_set(f, st, why.detail, "snapshot-%012" PRIu64 ": %.180s", number, why.text);
    }
    log_info("persist: loaded %" PRIu64 " objects of %.100s/snapshot-%012" PRIu64 " in %.1f s",
             m.object_count - lost, p->folder.path, number,
             (double)(clock_now_ns() - began_ns) * 1e-9);
    manifest_free(&p->last);
    p->last = m;
    p->number = number;
    p->linkable = lost == 0;
    return STATUS_OK;
}

/* The newest that is whole; and where none is, what is whole in the newest that has a manifest. */
static enum status load_newest(struct persist *p, const uint64_t *numbers, uint64_t count,
                               struct failure *f)
{
    bool salvage = strcmp(p->options.config->persist_load, "salvage") == 0;
    if (!count) return STATUS_OK;
    enum status st = STATUS_NOT_FOUND;
    for (uint64_t i = 0; st && i < (salvage ? count : 1); i++) {
        st = load_number(p, numbers[i], false, f);
        if (st && salvage) log_error("persist: %s; trying what is older", f->text);
        if (st == STATUS_RESOURCE_EXHAUSTED) return st;
    }
    for (uint64_t i = 0; st && salvage && i < count; i++)
        st = load_number(p, numbers[i], true, f);
    return st;
}

static uint64_t random_number(void)
{
    uint64_t number = 0;
    while (!number)
        if (getrandom(&number, sizeof number, 0) != sizeof number) number = clock_now_ns();
    return number;
}

/* Whether the daemon goes on where one stopped. */
static enum status name_state(struct persist *p, uint64_t newest, struct failure *f)
{
    struct folder_state before = {0}, now;
    struct failure why = {0};
    bool salvage = strcmp(p->options.config->persist_load, "salvage") == 0;
    enum status st = folder_read_state(&p->folder, &before, &why);
    if (st && !salvage) return failure_set(f, st, why.detail, "persist.dir: %.180s", why.text);
    if (st) log_error("persist: %s; ignored", why.text);
    bool goes_on = !st && p->number && p->linkable && p->last.complete && p->number == newest &&
                   before.snapshot != p->number;
    p->instance = goes_on ? p->last.instance : random_number();
    p->generation = p->last.generation;
    if (before.generation > p->generation) p->generation = before.generation;
    if (!goes_on) p->generation++;
    now = (struct folder_state){p->number, p->generation};
    st = folder_write_state(&p->folder, &now, &why);
    if (st) return failure_set(f, st, why.detail, "persist.dir: %.180s", why.text);
    if (p->number && !goes_on)
        log_warning("persist: what was written after the snapshot is lost; the data has a new "
                    "instance, generation %" PRIu64,
                    p->generation);
    return STATUS_OK;
}

enum status persist_load(struct persist *p, struct failure *f)
{
    uint64_t *numbers = NULL, count = 0;
    struct failure why = {0};
    if (!persist_keeps(p)) return STATUS_OK;
    enum status st = folder_list(p->folder.fd, &numbers, &count, &why);
    if (!st) st = load_newest(p, numbers, count, &why);
    uint64_t newest = count ? numbers[0] : 0;
    free(numbers);
    if (st)
        return failure_set(f, st, why.detail, "%.190s (persist.load is %s)", why.text,
                           p->options.config->persist_load);
    st = name_state(p, newest, f);
    p->number_next = newest + 1;
    return st;
}

/* ---------------------------------------------------------------- saving */

void persist_prepare(const struct persist *p, struct save *s)
{
    *s = (struct save){
        .folder = &p->folder,
        .number = p->number_next,
        .key = &p->key,
        .about = {.instance = p->instance,
                  .generation = p->generation,
                  .version = store_last_version(p->options.store),
                  .saved_s = (uint64_t)time(NULL)},
        .last_number = p->linkable ? p->number : 0,
        .last = p->linkable ? &p->last : NULL,
    };
}

void persist_take(struct persist *p, struct manifest *m)
{
    manifest_free(&p->last);
    p->last = *m;
    p->linkable = true;
    p->number = p->number_next++;
    *m = (struct manifest){0};
}

enum status persist_save(struct persist *p, bool complete, struct failure *f)
{
    struct manifest m = {0};
    struct save s;
    struct save_meter meter = {0};
    uint64_t began_ns = clock_now_ns();
    persist_prepare(p, &s);
    s.about.complete = complete;
    s.meter = &meter;
    enum status st = save_list(p->options.store, p->options.kernels, &s.items, &s.count, f);
    if (!st) st = save_write(&s, &m, f);
    free(s.items);
    if (st) return st;
    persist_take(p, &m);
    folder_prune(&p->folder, p->options.config->persist_keep);
    save_log(&s, &p->folder, p->number, began_ns);
    return STATUS_OK;
}

enum status persist_start(const struct persist_options *options, struct persist **out,
                          struct failure *f)
{
    enum status st = persist_create(options, out, f);
    return st ? st : persist_load(*out, f);
}

void persist_stop(struct persist *p, bool complete)
{
    struct failure f = {0};
    if (p && persist_keeps(p) && p->options.config->persist_on_stop &&
        persist_save(p, complete, &f))
        log_error("persist: not saved, and what was saved before is kept: %s", f.text);
}
