#include "daemon/base/thread.h"

#include <sched.h>
#include <signal.h>

int thread_start(pthread_t *out, void *(*run)(void *owner), void *owner)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(out, NULL, run, owner);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

uint32_t thread_processors(void)
{
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable)) return 1;
    int count = CPU_COUNT(&usable);
    return count < 1 ? 1 : (uint32_t)count;
}
