#include "daemon/wake_timer.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"

static void on_wake(uv_poll_t *poll, int status, int events)
{
    struct wake_timer *t = poll->data;
    uint64_t times;
    if (read(t->fd, &times, sizeof times) < 0 && errno != EAGAIN)
        log_warning("timer: %s", strerror(errno));
    t->ns = 0; /* the loop's turn comes next and does the rest */
}

int wake_timer_open(struct wake_timer *t, uv_loop_t *loop)
{
    t->fd = fault_here("engine: timer")
                ? -1
                : timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (t->fd < 0) return UV_ENOMEM;
    int rc = uv_poll_init(loop, &t->poll, t->fd);
    if (rc) return rc;
    t->poll.data = t;
    uv_poll_start(&t->poll, UV_READABLE, on_wake);
    return 0;
}

void wake_timer_set(struct wake_timer *t, uint64_t ns)
{
    if (ns == UINT64_MAX) ns = 0;
    if (ns == t->ns) return;
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)}};
    if (!timerfd_settime(t->fd, TFD_TIMER_ABSTIME, &at, NULL)) t->ns = ns;
}

void wake_timer_close(struct wake_timer *t)
{
    if (t->fd > 0) close(t->fd);
    t->fd = 0;
}
