/* process_host_system: the real host of processes: descriptors, arguments and uv_spawn, libuv's
 * timers and polls. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/cards/process_inside.h"

enum {
    STDIO_COUNT = SHARE_LIFELINE_FD + 1,
    MADE_COUNT = 5, /* share, two eventfds, two ends of a pipe */
    ARGUMENT_COUNT = 10,
};

struct system_life {
    struct process_life life; /* first, so that hosts can cast to their own struct */
    uv_process_t process;
    uv_poll_t wake;  /* watches the completions' eventfd */
    int lifeline_fd; /* the write end: the process exits when it is closed */
    uint32_t handles_open;
};

/* The child gets lent[i] as its descriptor i, for i from SHARE_FD on; libuv moves them there one
 * after the other after the fork. A descriptor that libuv itself has open at such a number would
 * be overwritten, even the pipe that reports exec's errors. So the originals, which the system
 * puts at the lowest free numbers, stay open until the spawn is over, and duplicates beyond those
 * numbers are lent to the child. */
struct descriptors {
    int made[MADE_COUNT];
    int lent[STDIO_COUNT];
    int lifeline; /* the write end, which only the daemon has */
};

static void close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0) close(fds[i]);
}

static void close_descriptors(struct descriptors *d)
{
    close_all(d->made, MADE_COUNT);
    close_all(d->lent, STDIO_COUNT);
    close_all(&d->lifeline, 1);
}

static bool make_eventfd(int *fd)
{
    if (fault_here("gpu process: eventfd"))
        errno = EMFILE;
    else
        *fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return *fd >= 0;
}

static bool raise_descriptor(int fd, int *raised)
{
    if (fault_here("gpu process: descriptor"))
        errno = EMFILE;
    else
        *raised = fcntl(fd, F_DUPFD_CLOEXEC, STDIO_COUNT);
    return *raised >= 0;
}

static int make_pipe(int ends[2])
{
    if (!fault_here("gpu process: lifeline")) return pipe2(ends, O_CLOEXEC);
    errno = EMFILE;
    return -1;
}

/* Returns 0, or a negative errno value with nothing left open. */
static int make_descriptors(const struct gpu_process *p, struct descriptors *d,
                            struct share **share)
{
    const struct heap *heap = p->options.heap;
    memset(d, -1, sizeof *d);
    errno = ENOMEM;
    enum status st = share_create(heap_file_bytes(heap), ENGRAM_VERSION, &d->made[0], share);
    if (st) return -errno;
    enum { ORDERS = 1, COMPLETIONS, LIFELINE_READ, LIFELINE_WRITE };
    bool made = make_eventfd(&d->made[ORDERS]) && make_eventfd(&d->made[COMPLETIONS]) &&
                make_pipe(&d->made[LIFELINE_READ]) == 0 &&
                raise_descriptor(d->made[0], &d->lent[SHARE_FD]) &&
                raise_descriptor(heap_read_fd(heap), &d->lent[SHARE_HEAP_FD]) &&
                raise_descriptor(heap_exchange_fd(heap), &d->lent[SHARE_EXCHANGE_FD]) &&
                raise_descriptor(d->made[ORDERS], &d->lent[SHARE_ORDERS_FD]) &&
                raise_descriptor(d->made[COMPLETIONS], &d->lent[SHARE_COMPLETIONS_FD]) &&
                raise_descriptor(d->made[LIFELINE_READ], &d->lent[SHARE_LIFELINE_FD]) &&
                raise_descriptor(d->made[LIFELINE_WRITE], &d->lifeline);
    if (made) return 0;
    int rc = -errno;
    close_descriptors(d);
    share_unmap(*share);
    *share = NULL;
    return rc;
}

/* ---------------------------------------------------------------- the program */

/* Without /proc the kernel still says by which name the program was started. */
static ssize_t find_self(char *self, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", self, size);
    const char *started = (const char *)getauxval(AT_EXECFN);
    if (n >= 0 || !started) return n;
    n = (ssize_t)strnlen(started, size);
    memcpy(self, started, (size_t)n);
    return n;
}

/* Finds gpu.program, or the program beside the daemon's. */
static int find_program(struct gpu_process *p)
{
    const char *set = p->options.config->gpu_program;
    if (set[0]) {
        snprintf(p->program, sizeof p->program, "%s", set);
        return 0;
    }
    static const char name[] = "engram-accel-gpu";
    snprintf(p->program, sizeof p->program, "%s", name);
    char self[GPU_PROGRAM_BYTES - sizeof name];
    ssize_t n =
        fault_here("gpu process: program") ? (errno = ENOENT, -1) : find_self(self, sizeof self);
    if (n < 0) return -errno;
    const char *slash = memrchr(self, '/', (size_t)n);
    if ((size_t)n == sizeof self || !slash) return -ENAMETOOLONG;
    snprintf(p->program, sizeof p->program, "%.*s/%s", (int)(slash - self), self, name);
    return 0;
}

struct process_arguments {
    char text[ARGUMENT_COUNT][CONFIG_TEXT_MAX + 32];
    char *list[ARGUMENT_COUNT + 2];
    uint32_t count;
};

__attribute__((format(printf, 2, 3))) static void add_argument(struct process_arguments *a,
                                                               const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(a->text[a->count], sizeof a->text[0], format, values);
    va_end(values);
    a->list[a->count + 1] = a->text[a->count];
    a->count++;
}

static void list_arguments(struct gpu_process *p, struct process_arguments *a)
{
    const struct config *c = p->options.config;
    *a = (struct process_arguments){.list[0] = p->program};
    add_argument(a, "--number=%u", p->options.number);
    add_argument(a, "--device=%s", p->options.which);
    add_argument(a, "--spin-us=%u", c->gpu_spin_us);
    add_argument(a, "--spin-percent=%u", c->gpu_spin_percent);
    add_argument(a, "--copiers=%u", c->gpu_copiers);
    add_argument(a, "--streams=%u", c->gpu_streams);
    add_argument(a, "--memory=%s", c->gpu_memory);
    add_argument(a, "--memory-percent=%u", c->gpu_memory_percent);
    add_argument(a, "--memory-mib=%" PRIu64, c->gpu_memory_mib_max);
    add_argument(a, "--sim=%s", c->gpu_sim);
}

/* The process gets a session of its own, so that ^C at a terminal reaches only the daemon. */
static int spawn(struct system_life *l, struct gpu_process *p, const struct descriptors *d,
                 uv_exit_cb on_exit)
{
    struct process_arguments arguments;
    list_arguments(p, &arguments);
    uv_stdio_container_t stdio[STDIO_COUNT] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
    };
    for (int i = SHARE_FD; i < STDIO_COUNT; i++)
        stdio[i] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = d->lent[i]};
    uv_process_options_t options = {.exit_cb = on_exit,
                                    .file = p->program,
                                    .args = arguments.list,
                                    .flags = UV_PROCESS_DETACHED,
                                    .stdio_count = STDIO_COUNT,
                                    .stdio = stdio};
    if (fault_here("gpu process: spawn")) return UV_EAGAIN;
    l->process.data = l;
    return uv_spawn(p->options.loop, &l->process, &options);
}

/* ---------------------------------------------------------------- a life */

static void end_life(struct process_life *life);

static void on_exit_of(uv_process_t *process, int64_t code, int number)
{
    gpu_process_exited(process->data, code, number);
}

static void on_wake(uv_poll_t *poll, int status, int events)
{
    struct process_life *life = poll->data;
    if (status >= 0) {
        gpu_process_woken(life);
        return;
    }
    uv_poll_stop(poll);
    gpu_process_kill(life->owner, "its eventfd fails");
}

static int watch(struct system_life *l, uv_loop_t *loop)
{
    int rc = fault_here("gpu process: poll") ? UV_ENOMEM
                                             : uv_poll_init(loop, &l->wake, l->life.completions_fd);
    if (rc) return rc;
    l->wake.data = l;
    return fault_here("gpu process: watch") ? UV_ENOMEM
                                            : uv_poll_start(&l->wake, UV_READABLE, on_wake);
}

static int start_life(struct gpu_process *p, struct process_life **out)
{
    struct descriptors d;
    int rc = find_program(p);
    if (rc) return rc;
    struct system_life *l = fault_here("gpu process: life") ? NULL : calloc(1, sizeof *l);
    if (!l) return UV_ENOMEM;
    l->life.owner = p;
    rc = make_descriptors(p, &d, &l->life.share);
    if (rc) {
        free(l);
        return rc;
    }
    l->life.orders_fd = d.lent[SHARE_ORDERS_FD];
    l->life.completions_fd = d.lent[SHARE_COMPLETIONS_FD];
    l->lifeline_fd = d.lifeline;
    rc = watch(l, p->options.loop);
    if (!rc) rc = spawn(l, p, &d, on_exit_of);
    if (!rc) l->life.process_id = uv_process_get_pid(&l->process);
    close_all(d.made, MADE_COUNT);
    close(d.lent[SHARE_FD]);
    close(d.lent[SHARE_HEAP_FD]);
    close(d.lent[SHARE_EXCHANGE_FD]);
    close(d.lent[SHARE_LIFELINE_FD]);
    if (rc)
        end_life(&l->life);
    else
        *out = &l->life;
    return rc;
}

static void kill_life(struct process_life *life)
{
    uv_process_kill(&((struct system_life *)life)->process, SIGKILL);
}

static void on_closed(uv_handle_t *handle)
{
    struct system_life *l = handle->data;
    if (--l->handles_open == 0) free(l);
}

/* Frees l when the loop has turned once more. */
static void end_life(struct process_life *life)
{
    struct system_life *l = (struct system_life *)life;
    /* A handle has its type once it must be closed; uv_spawn sets it even if it fails. */
    uv_handle_t *handles[] = {(uv_handle_t *)&l->wake, (uv_handle_t *)&l->process};
    for (int i = 0; i < 2; i++)
        l->handles_open += handles[i]->type != UV_UNKNOWN_HANDLE;
    bool open = l->handles_open > 0;
    for (int i = 0; i < 2; i++)
        if (handles[i]->type != UV_UNKNOWN_HANDLE) uv_close(handles[i], on_closed);
    close(life->orders_fd);
    close(life->completions_fd);
    close(l->lifeline_fd);
    if (!life->share_kept) share_unmap(life->share);
    if (!open) free(l);
}

/* ---------------------------------------------------------------- the timer */

static void on_timer(uv_timer_t *timer)
{
    gpu_process_timed(timer->data);
}

static void begin(struct gpu_process *p)
{
    uv_timer_init(p->options.loop, &p->timer); /* it never fails */
    p->timer.data = p;
}

static void set_timer(struct gpu_process *p, uint64_t ms, uint64_t repeat_ms)
{
    uv_update_time(p->options.loop);
    int rc = uv_timer_start(&p->timer, on_timer, ms, repeat_ms);
    assert(rc == 0); /* it fails only for a closing handle, and without a callback */
    (void)rc;
}

static void stop_timer(struct gpu_process *p)
{
    uv_timer_stop(&p->timer);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void forget(struct gpu_process *p)
{
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

static void wait_for_it(struct gpu_process *p)
{
    uv_run(p->options.loop, UV_RUN_ONCE);
}

const struct process_host process_host_system = {
    .start = start_life,
    .kill = kill_life,
    .end = end_life,
    .set_timer = set_timer,
    .stop_timer = stop_timer,
    .begin = begin,
    .forget = forget,
    .wait = wait_for_it,
};
