/* The fallible half of starting a GPU process: descriptors, arguments, uv_spawn. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/cards/process_inside.h"

enum {
    STDIO_COUNT = SHARE_LIFELINE_FD + 1,
    MADE_COUNT = 5, /* share, two eventfds, two ends of a pipe */
    ARGUMENT_COUNT = 10,
};

/* The child gets lent[i] as its descriptor i, for i from SHARE_FD on; libuv moves them there one
 * after the other after the fork. A descriptor that libuv itself has open at such a number would
 * be overwritten, even the pipe that reports exec's errors. So the originals, which the system
 * puts at the lowest free numbers, stay open until the spawn is over, and duplicates beyond those
 * numbers are lent to the child. */
struct descriptors {
    int made[MADE_COUNT];
    int lent[STDIO_COUNT];
    int lifeline; /* the write end, ours alone */
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

/* 0 or a negative errno value, with nothing left open. */
static int make_descriptors(const struct gpu_process *p, struct descriptors *d,
                            struct share **share)
{
    struct stat heap;
    memset(d, -1, sizeof *d);
    if (fstat(heap_fd(p->options.heap), &heap)) return -errno;
    errno = ENOMEM;
    enum status st = share_create((uint64_t)heap.st_size, ENGRAM_VERSION, &d->made[0], share);
    if (st) return -errno;
    enum { ORDERS = 1, COMPLETIONS, LIFELINE_READ, LIFELINE_WRITE };
    bool made = make_eventfd(&d->made[ORDERS]) && make_eventfd(&d->made[COMPLETIONS]) &&
                make_pipe(&d->made[LIFELINE_READ]) == 0 &&
                raise_descriptor(d->made[0], &d->lent[SHARE_FD]) &&
                raise_descriptor(heap_fd(p->options.heap), &d->lent[SHARE_HEAP_FD]) &&
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

/* gpu.program, or the one beside us. */
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
    ssize_t n = fault_here("gpu process: program") ? (errno = ENOENT, -1)
                                                   : readlink("/proc/self/exe", self, sizeof self);
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
    add_argument(a, "--copiers=%u", c->gpu_copiers);
    add_argument(a, "--streams=%u", c->gpu_streams);
    add_argument(a, "--memory=%s", c->gpu_memory);
    add_argument(a, "--memory-percent=%u", c->gpu_memory_percent);
    add_argument(a, "--memory-mib=%" PRIu64, c->gpu_memory_mib_max);
    add_argument(a, "--sim=%s", c->gpu_sim);
}

/* A session of its own: ^C at a terminal is for the daemon, which stops the process in its turn. */
static int spawn(struct gpu_life *l, struct gpu_process *p, const struct descriptors *d,
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

static int watch(struct gpu_life *l, uv_loop_t *loop, uv_poll_cb on_wake)
{
    int rc = fault_here("gpu process: poll") ? UV_ENOMEM
                                             : uv_poll_init(loop, &l->wake, l->completions_fd);
    if (rc) return rc;
    l->wake.data = l;
    return fault_here("gpu process: watch") ? UV_ENOMEM
                                            : uv_poll_start(&l->wake, UV_READABLE, on_wake);
}

int gpu_life_start(struct gpu_process *p, uv_exit_cb on_exit, uv_poll_cb on_wake,
                   struct gpu_life **out)
{
    struct descriptors d;
    int rc = find_program(p);
    if (rc) return rc;
    struct gpu_life *l = fault_here("gpu process: life") ? NULL : calloc(1, sizeof *l);
    if (!l) return UV_ENOMEM;
    l->owner = p;
    rc = make_descriptors(p, &d, &l->share);
    if (rc) {
        free(l);
        return rc;
    }
    l->orders_fd = d.lent[SHARE_ORDERS_FD];
    l->completions_fd = d.lent[SHARE_COMPLETIONS_FD];
    l->lifeline_fd = d.lifeline;
    rc = watch(l, p->options.loop, on_wake);
    if (!rc) rc = spawn(l, p, &d, on_exit);
    close_all(d.made, MADE_COUNT);
    close(d.lent[SHARE_FD]);
    close(d.lent[SHARE_HEAP_FD]);
    close(d.lent[SHARE_LIFELINE_FD]);
    if (rc)
        gpu_life_end(l);
    else
        *out = l;
    return rc;
}

static void on_closed(uv_handle_t *handle)
{
    struct gpu_life *l = handle->data;
    if (--l->handles_open == 0) free(l);
}

void gpu_life_end(struct gpu_life *l)
{
    /* A handle has its type once it wants closing: uv_spawn's does where it fails, too. */
    uv_handle_t *handles[] = {(uv_handle_t *)&l->wake, (uv_handle_t *)&l->process};
    for (int i = 0; i < 2; i++)
        l->handles_open += handles[i]->type != UV_UNKNOWN_HANDLE;
    bool open = l->handles_open > 0;
    for (int i = 0; i < 2; i++)
        if (handles[i]->type != UV_UNKNOWN_HANDLE) uv_close(handles[i], on_closed);
    close(l->orders_fd);
    close(l->completions_fd);
    close(l->lifeline_fd);
    if (!l->share_kept) share_unmap(l->share);
    if (!open) free(l);
}
