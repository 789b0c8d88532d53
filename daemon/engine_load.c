#include "daemon/engine_load.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/log.h"

#define TELL_NS UINT64_C(1000000000)

static void be_ready(struct engine_load *l)
{
    l->under_way = false;
    atomic_store(&l->readiness->phase, LIFE_SERVING);
    if (l->notify) l->notify("READY=1\nSTATUS=Ready");
}

enum status engine_load_begin(struct engine_load *l, const struct persist_options *options,
                              struct failure *f)
{
    enum status st = persist_start(options, &l->persist, f);
    if (!st) pipeline_set_persist(l->pipeline, l->persist);
    return st;
}

enum status engine_load_adopt(struct engine_load *l, const struct persist_options *options,
                              struct catalogue_reader *from, struct failure *f)
{
    struct state_name name;
    enum status st = pipeline_adopt(l->pipeline, from, &name, f);
    if (!st) st = persist_open(options, &l->persist, f);
    if (!st) st = persist_adopt(l->persist, name.instance, name.generation, from, f);
    if (!st) pipeline_set_persist(l->pipeline, l->persist);
    return st;
}

void engine_load_start(struct engine_load *l)
{
    l->under_way = persist_is_loading(l->persist);
    if (!l->under_way) be_ready(l);
}

bool engine_load_turn(struct engine_load *l)
{
    if (!l->under_way || !persist_load_turn(l->persist, &l->failure)) return true;
    l->under_way = false;
    if (l->failure.code) return false;
    pipeline_set_persist(l->pipeline, l->persist);
    be_ready(l);
    log_info("ready: all that was saved is in");
    return true;
}

static int describe(const struct load_seen *seen, char *text, size_t room)
{
    if (seen->replays)
        return snprintf(text, room, "STATUS=Replaying the journal: %" PRIu64 " of %" PRIu64 " MiB",
                        seen->replay_bytes_done >> 20, seen->replay_bytes >> 20);
    return snprintf(text, room,
                    "STATUS=Loading: %" PRIu64 " of %" PRIu64 " objects, %" PRIu64 " of %" PRIu64
                    " MiB",
                    seen->objects_done, seen->objects, seen->bytes_done >> 20, seen->bytes >> 20);
}

void engine_load_tell(struct engine_load *l, uint64_t now_ns)
{
    enum { AGAIN_S = 60 }; /* how long the manager waits for more progress */
    char text[256];
    struct load_seen seen;
    if (!l->under_way || !l->notify || now_ns - l->told_ns < TELL_NS) return;
    persist_load_seen(l->persist, &seen);
    bool goes_on = seen.bytes_done != l->told_bytes || seen.objects_done != l->told_objects;
    int n = describe(&seen, text, sizeof text);
    if (goes_on)
        snprintf(text + n, sizeof text - (size_t)n, "\nEXTEND_TIMEOUT_USEC=%d000000", AGAIN_S);
    l->notify(text);
    l->told_ns = now_ns;
    l->told_bytes = seen.bytes_done;
    l->told_objects = seen.objects_done;
}

bool engine_load_finish(struct engine_load *l, bool has_run)
{
    bool saved = !has_run || persist_stop(l->persist, pipeline_save_tokens(l->pipeline));
    persist_destroy(l->persist);
    return saved;
}
