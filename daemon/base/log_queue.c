#include "daemon/base/log_queue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/thread.h"

/* How often a thread that waits for the output looks whether it is to stop. */
enum { LOOK_MS = 100 };

struct queued_line {
    uint16_t bytes;
    char text[LOG_LINE_BYTES];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* of the monotonic clock */
    pthread_t thread;
    struct log_queue_hooks hooks;
    bool runs, stopping, ended;
    uint64_t give_up_ns; /* while stopping */
    uint32_t first, count;
    uint64_t lost, told; /* lines since the start; those of them that the log tells of */
    struct queued_line lines[LOG_QUEUE_LINES];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether the thread is to go on although the output takes nothing. */
static bool may_wait(void)
{
    pthread_mutex_lock(&queue.lock);
    bool may = !queue.stopping || clock_now_ns() < queue.give_up_ns;
    pthread_mutex_unlock(&queue.lock);
    return may;
}

static ssize_t write_some(const char *text, size_t bytes)
{
    /* a socket may take less than poll promised for, a pipe takes a line as a whole */
    ssize_t n = send(STDERR_FILENO, text, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 && errno == ENOTSOCK ? write(STDERR_FILENO, text, bytes) : n;
}

/* Writes a line. False: it was lost, *part says whether the output has some of it. */
static bool write_line(const char *text, size_t bytes, bool *part)
{
    if (queue.hooks.send) return queue.hooks.send(text, bytes);
    size_t done = 0;
    while (done < bytes) {
        struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
        int ready = poll(&out, 1, LOOK_MS);
        if (ready == 0 || (ready < 0 && errno == EINTR)) {
            if (!may_wait()) break;
            continue;
        }
        ssize_t n = write_some(text + done, bytes - done);
        if (n < 0 && (errno == EINTR || errno == EAGAIN) && may_wait()) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (done == bytes) return true;
    *part |= done > 0;
    return false;
}

/* Writes a line, and before it, if lines were lost, how many. */
static bool write_told(const char *text, size_t bytes, bool *part)
{
    if (*part) {
        if (!write_line("\n", 1, part)) return false;
        *part = false;
    }
    pthread_mutex_lock(&queue.lock);
    uint64_t lost = queue.lost, untold = lost - queue.told;
    pthread_mutex_unlock(&queue.lock);
    if (untold) {
        char note[LOG_LINE_BYTES];
        if (!write_line(note, queue.hooks.tell(note, untold), part)) return false;
        pthread_mutex_lock(&queue.lock);
        queue.told = lost;
        pthread_mutex_unlock(&queue.lock);
    }
    return !bytes || write_line(text, bytes, part);
}

/* Waits for a line or for the end, with the lock held; calls idle when its time has come. */
static void wait_for_line(void)
{
    while (!queue.count && !queue.stopping) {
        pthread_mutex_unlock(&queue.lock);
        uint64_t until_ns = queue.hooks.idle();
        pthread_mutex_lock(&queue.lock);
        if (queue.count || queue.stopping) return;
        if (until_ns == UINT64_MAX) {
            pthread_cond_wait(&queue.changed, &queue.lock);
            continue;
        }
        struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                 .tv_nsec = (long)(until_ns % 1000000000)};
        pthread_cond_timedwait(&queue.changed, &queue.lock, &until);
    }
}

/* Takes the first line in the queue; the lock is held. */
static bool take(struct queued_line *out)
{
    if (!queue.count) return false;
    *out = queue.lines[queue.first];
    queue.first = (queue.first + 1) % LOG_QUEUE_LINES;
    queue.count--;
    return true;
}

static void *run(void *unused)
{
    static struct queued_line line;
    bool part = false;  /* the output ends within a line */
    bool tried = false; /* it took nothing: with the next line it is tried again */
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        if (tried || queue.lost == queue.told) wait_for_line();
        bool any = take(&line);
        if (!any && queue.stopping && (tried || queue.lost == queue.told)) break;
        if (!any && queue.lost == queue.told) continue;
        pthread_mutex_unlock(&queue.lock);
        tried = !write_told(line.text, any ? line.bytes : 0, &part);
        bool over = tried && !may_wait();
        pthread_mutex_lock(&queue.lock);
        queue.lost += any && tried;
        if (over) break;
    }
    queue.ended = true;
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

bool log_queue_start(const struct log_queue_hooks *hooks)
{
    pthread_condattr_t monotonic;
    queue.hooks = *hooks;
    queue.stopping = queue.ended = false;
    if (fault_here("log: thread") || pthread_condattr_init(&monotonic)) return false;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(&queue.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (rc) return false;
    rc = thread_start(&queue.thread, run, NULL);
    __atomic_store_n(&queue.runs, rc == 0, __ATOMIC_RELEASE);
    return rc == 0;
}

bool log_queue_runs(void)
{
    return __atomic_load_n(&queue.runs, __ATOMIC_ACQUIRE);
}

void log_queue_stop(void)
{
    enum { MARGIN_MS = 3 * LOOK_MS };
    if (!log_queue_runs()) return;
    __atomic_store_n(&queue.runs, false, __ATOMIC_RELEASE);
    pthread_mutex_lock(&queue.lock);
    queue.stopping = true;
    queue.give_up_ns = clock_now_ns() + LOG_STOP_MS * UINT64_C(1000000);
    uint64_t until_ns = queue.give_up_ns + MARGIN_MS * UINT64_C(1000000);
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                             .tv_nsec = (long)(until_ns % 1000000000)};
    pthread_cond_broadcast(&queue.changed);
    while (!queue.ended)
        if (pthread_cond_timedwait(&queue.changed, &queue.lock, &until)) break;
    bool ended = queue.ended;
    pthread_mutex_unlock(&queue.lock);
    /* a write that never returns, to a disk that is gone for instance, ends with the process */
    if (ended)
        pthread_join(queue.thread, NULL);
    else
        pthread_detach(queue.thread);
}

void log_queue_put(const char *line, size_t bytes)
{
    pthread_mutex_lock(&queue.lock);
    if (queue.count == LOG_QUEUE_LINES) {
        queue.lost++;
    } else {
        struct queued_line *to = &queue.lines[(queue.first + queue.count) % LOG_QUEUE_LINES];
        to->bytes = (uint16_t)bytes;
        memcpy(to->text, line, bytes);
        queue.count++;
        pthread_cond_signal(&queue.changed);
    }
    pthread_mutex_unlock(&queue.lock);
}

uint64_t log_queue_lost(void)
{
    pthread_mutex_lock(&queue.lock);
    uint64_t lost = queue.lost;
    pthread_mutex_unlock(&queue.lock);
    return lost;
}
