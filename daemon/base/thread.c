#include "daemon/base/thread.h"

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
