/* engine_wait: what a start waits for: a process that was killed has its folder and its socket
 * until its memory is taken down. */
#include <time.h>

#include "daemon/base/log.h"
#include "daemon/base/socket_file.h"
#include "daemon/engine_inside.h"

/* Takes signals, which is all that a half-built engine's loop has to do. */
bool engine_goes_on(void *owner)
{
    struct engine *e = owner;
    uv_run(&e->loop, UV_RUN_NOWAIT);
    return atomic_load(&e->stop_request) == STOP_NONE;
}

enum status engine_wait_for_socket(struct engine *e, struct failure *f)
{
    enum { WAIT_MS = 10000, STEP_MS = 20 };
    const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};
    const char *path = e->config.socket_path;
    long pid;
    if (!path[0] || e->options.inherited_fd >= 0 || e->options.adopts) return STATUS_OK;
    for (int ms = 0; ms < WAIT_MS && socket_file_owner_ends(path, &pid); ms += STEP_MS) {
        if (!ms) log_info("%s: process %ld is ending; waiting for its socket", path, pid);
        if (!engine_goes_on(e))
            return failure_set(f, STATUS_CANCELLED, DETAIL_NONE, "asked to stop meanwhile");
        nanosleep(&step, NULL);
    }
    return STATUS_OK;
}
