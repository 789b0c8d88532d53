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
#include "daemon/persist/loader.h"
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

static void forget_entry(void *owner, struct journal_entry *e)
{
    free(e);
}

void persist_destroy(struct persist *p)
{
    if (!p) return;
    assert(!p->background);
    struct journal_counters counters;
    if (p->journal) persist_close_journal(p, forget_entry, &counters, NULL);
    persist_load_stop(p);
    free(p->left);
    token_bytes_free(&p->tokens);
    manifest_free(&p->last);
    folder_close(&p->folder);
    free(p);
}

const struct manifest *persist_last(const struct persist *p)
{
    static const struct manifest none;
    return p->linkable ? &p->last : &none;
}

void persist_newest(const struct persist *p, struct persist_newest *out)
{
    *out = (struct persist_newest){.number = p->number, .saved_s = p->last.saved_s};
    for (uint64_t i = 0; i < p->last.object_count; i++)
        out->bytes += snapshot_object_bytes(&p->last.objects[i]);
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

/* ---------------------------------------------------------------- names */

static uint64_t random_number(void)
{
    uint64_t number = 0;
    while (!number)
        if (getrandom(&number, sizeof number, 0) != sizeof number) number = clock_now_ns();
    return number;
}

static enum status write_state(struct persist *p, const struct folder_state *state,
                               struct failure *f)
{
    struct failure why = {0};
    enum status st = folder_write_state(&p->folder, state, &why);
    return st ? failure_set(f, st, why.detail, "persist.dir: %.180s", why.text) : STATUS_OK;
}

/* What the daemon before this one began with. */
static enum status read_before(struct persist *p, struct failure *f)
{
    struct failure why = {0};
    if (p->asked_before) return STATUS_OK;
    enum status st = folder_read_state(&p->folder, &p->before, &why);
    if (st && strcmp(p->options.config->persist_load, "salvage") != 0)
        return failure_set(f, st, why.detail, "persist.dir: %.180s", why.text);
    if (st) log_error("persist: %s; ignored", why.text);
    p->asked_before = true;
    p->knows_before = !st && p->before.generation; /* 0: no daemon has begun with this folder */
    return STATUS_OK;
}

/* The file that the daemon before this one began is there, or a newer one, unless that daemon has
 * saved a snapshot since: a stop's has all, and no file stays beside it. */
static enum status check_newest(struct persist *p, uint64_t number, struct failure *f)
{
    char name[JOURNAL_NAME_MAX];
    if (!p->knows_before || number > p->before.snapshot) return STATUS_OK;
    if (p->before.journal <= p->replayed.newest) return STATUS_OK;
    journal_file_name(p->before.journal, name);
    failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED,
                "persist.dir: %s: missing; `state` says that the daemon before this one began it",
                name);
    if (strcmp(p->options.config->persist_load, "salvage") != 0) return f->code;
    log_error("persist: %s; what was written to it is lost", f->text);
    *f = (struct failure){0};
    p->replayed.lost = true;
    p->before.journal = 0; /* it is told once */
    return STATUS_OK;
}

enum status persist_name(struct persist *p, const struct manifest *m, uint64_t number, bool whole,
                         struct failure *f)
{
    enum status st = read_before(p, f);
    if (!st && !p->names_later) st = check_newest(p, number, f);
    if (st) return st;
    bool replayed = p->knows_before && (!number || whole) && journaling_is_whole(p);
    bool goes_on = p->knows_before && number && whole && m->complete &&
                   number + 1 == p->number_next && p->before.snapshot != number;
    uint64_t generation = m ? m->generation : 0;
    if (p->before.generation > generation) generation = p->before.generation;
    if (p->generation > generation && !p->foretold) generation = p->generation;
    if (p->replayed.last.generation > generation) generation = p->replayed.last.generation;
    if (generation > MANIFEST_COUNT_MAX) /* the state's or the journal's */
        return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED,
                           "persist.dir: generation: too large to go on from");
    if (!p->new_instance) p->new_instance = random_number();
    p->instance = goes_on ? m->instance : replayed ? p->replayed.last.instance : p->new_instance;
    p->generation = p->folder_generation = goes_on ? generation : generation + 1;
    p->foretold = p->names_later;
    if (p->foretold) return STATUS_OK;
    st = journaling_start(p, false, f); /* first: its file has the generation, too */
    struct folder_state now = {number, p->generation,
                               p->journal ? journal_file_now(p->journal) : 0};
    if (!st) st = write_state(p, &now, f);
    if (!st && number && !goes_on && !replayed)
        log_warning("persist: what was written after the snapshot%s is lost; the data has a new "
                    "instance, generation %" PRIu64,
                    p->replayed.files ? " and is not in the journal" : "", p->generation);
    return st;
}

void persist_name_back(struct persist *p)
{
    struct failure f = {0};
    if (p->knows_before && write_state(p, &p->before, &f)) log_error("persist: %s", f.text);
}

/* ---------------------------------------------------------------- saving */

void persist_set_tokens(struct persist *p, struct token_bytes *tokens)
{
    token_bytes_free(&p->tokens);
    p->tokens = *tokens;
    *tokens = (struct token_bytes){0};
}

struct token_bytes persist_take_tokens(struct persist *p)
{
    struct token_bytes t = p->tokens;
    p->tokens = (struct token_bytes){0};
    return t;
}

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
        .tokens = &p->tokens,
        .last_number = p->linkable ? p->number : 0,
        .last = p->linkable ? &p->last : NULL,
        .zstd = (int)p->options.config->persist_zstd,
        .threads = p->options.save_threads,
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
    s.before_commit = journaling_before_commit;
    s.owner = p;
    if (!st) st = journaling_begin_save(p, &s, f);
    if (!st) st = save_write(&s, &m, f);
    free(s.items);
    if (st) return st;
    persist_take(p, &m);
    journaling_end_save(p);
    folder_prune(&p->folder, p->options.config->persist_keep);
    save_log(&s, &p->folder, p->number, began_ns);
    return STATUS_OK;
}

/* The daemon before, if it was killed, has the folder until its memory is taken down. */
enum status persist_open(const struct persist_options *options, struct persist **out,
                         struct failure *f)
{
    enum { WAIT_MS = 10000, STEP_MS = 20 };
    const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};
    enum status st = persist_create(options, out, f);
    for (int ms = 0; st == STATUS_FAILED_PRECONDITION && ms < WAIT_MS; ms += STEP_MS) {
        if (!ms) log_info("%s; waiting for it to end", f->text);
        if (options->goes_on && !options->goes_on(options->owner))
            return failure_set(f, STATUS_CANCELLED, DETAIL_NONE, "asked to stop meanwhile");
        nanosleep(&step, NULL);
        st = persist_create(options, out, f);
    }
    return st;
}

enum status persist_start(const struct persist_options *options, struct persist **out,
                          struct failure *f)
{
    enum status st = persist_open(options, out, f);
    return st ? st : persist_load_begin(*out, f);
}

bool persist_stop(struct persist *p, bool complete)
{
    struct failure f = {0};
    if (!p || !persist_keeps(p)) return true;
    if (persist_is_loading(p)) {
        log_warning("persist: stopped while loading: nothing is saved, the snapshots stay");
        persist_load_stop(p);
    }
    if (!p->options.config->persist_on_stop || p->unloaded || !persist_save(p, complete, &f))
        return true;
    log_error("persist: not saved, and what was saved before is kept: %s", f.text);
    return false;
}
