/* The journal of a daemon that starts, replayed by a thread while the loop serves. */
#include <inttypes.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"
#include "daemon/persist/loader_inside.h"

/* How long the loop lets the thread have the store, at a time. */
#define SLICE_NS UINT64_C(4000000)

static void replay(struct loader *ld, struct replay_gate *gate)
{
    struct persist *p = ld->persist;
    struct journal_base base = {p->number, p->last.instance, p->last.generation};
    struct replay r = {.store = p->options.store,
                       .heap = p->options.heap,
                       .kernels = p->options.kernels,
                       .token = p->options.token,
                       .owner = p->options.token_owner,
                       .gate = gate,
                       .stop = &ld->loading.stop,
                       .done = &ld->replay_done};
    struct failure why = {0};
    enum status st = journal_chain_replay(&p->folder, &base, &r, ld->salvage, &ld->replayed, &why);
    if (!st) return;
    ld->replay_failure = why;
    ld->replay_failure.code = st;
}

static void *run(void *arg)
{
    struct loader *ld = arg;
    replay(ld, &ld->gate);
    replay_gate_end(&ld->gate);
    return NULL;
}

enum status loader_replay_begin(struct loader *ld, bool thread, struct failure *f)
{
    const struct persist *p = ld->persist;
    ld->replay_began_ns = clock_now_ns();
    if (ld->replay_bytes)
        log_info("persist: replaying %" PRIu64 " MiB of the journal", ld->replay_bytes >> 20);
    replay_gate_init(&ld->gate, p->options.wake, p->options.owner);
    if (!thread) {
        replay(ld, NULL);
        ld->gate.ended = true;
    } else if (fault_here("loader: replayer") || thread_start(&ld->replayer, run, ld)) {
        replay_gate_finish(&ld->gate);
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_SYSTEM,
                           "no thread to replay the journal");
    }
    ld->replays = true;
    ld->replay_thread = thread;
    return STATUS_OK;
}

static void join(struct loader *ld)
{
    if (ld->replay_thread) pthread_join(ld->replayer, NULL);
    replay_gate_finish(&ld->gate);
    ld->replays = false;
}

bool loader_replay_turn(struct loader *ld, enum status *st, struct failure *f)
{
    struct persist *p = ld->persist;
    if (replay_gate_lend(&ld->gate, SLICE_NS) && p->options.wake) p->options.wake(p->options.owner);
    if (!replay_gate_has_ended(&ld->gate)) return false;
    join(ld);
    *st = ld->replay_failure.code;
    if (*st)
        *f = ld->replay_failure;
    else
        journaling_replayed(p, &ld->replayed, clock_now_ns() - ld->replay_began_ns);
    return true;
}

void loader_replay_stop(struct loader *ld)
{
    if (!ld->replays) return;
    replay_gate_give(&ld->gate);
    join(ld);
}
