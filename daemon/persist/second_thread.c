#include "daemon/persist/second_thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/thread.h"

enum { PLACES = 16 };

struct second_thread {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given, done;
    second_thread_work work;
    void *owner;
    struct {
        const void *data;
        uint64_t bytes;
    } parts[PLACES];     /* a ring */
    uint64_t first, end; /* of what is to be done; the one under way counts */
    bool ends;
};

static void *run(void *arg)
{
    struct second_thread *t = arg;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->first == t->end && !t->ends)
            pthread_cond_wait(&t->given, &t->lock);
        if (t->first == t->end) break;
        const void *data = t->parts[t->first % PLACES].data;
        uint64_t bytes = t->parts[t->first % PLACES].bytes;
        pthread_mutex_unlock(&t->lock);
        t->work(t->owner, data, bytes);
        pthread_mutex_lock(&t->lock);
        t->first++;
        pthread_cond_signal(&t->done);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

struct second_thread *second_thread_make(second_thread_work work, void *owner)
{
    struct second_thread *t = fault_here("second thread") ? NULL : calloc(1, sizeof *t);
    if (!t) return NULL;
    t->work = work;
    t->owner = owner;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->given, NULL);
    pthread_cond_init(&t->done, NULL);
    if (!thread_start(&t->thread, run, t)) return t;
    free(t);
    return NULL;
}

void second_thread_end(struct second_thread *t)
{
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    t->ends = true;
    pthread_cond_signal(&t->given);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->done);
    pthread_cond_destroy(&t->given);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void second_thread_give(struct second_thread *t, const void *data, uint64_t bytes)
{
    pthread_mutex_lock(&t->lock);
    while (t->end - t->first == PLACES)
        pthread_cond_wait(&t->done, &t->lock);
    t->parts[t->end % PLACES].data = data;
    t->parts[t->end % PLACES].bytes = bytes;
    t->end++;
    pthread_cond_signal(&t->given);
    pthread_mutex_unlock(&t->lock);
}

void second_thread_wait(struct second_thread *t)
{
    pthread_mutex_lock(&t->lock);
    while (t->first != t->end)
        pthread_cond_wait(&t->done, &t->lock);
    pthread_mutex_unlock(&t->lock);
}
