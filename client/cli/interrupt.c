#include "client/cli/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#define GUARDED_MAX 8

static volatile sig_atomic_t seen, polite;
static const char *volatile guarded[GUARDED_MAX];

static void (*volatile also)(void);

void interrupt_also(void (*function)(void))
{
    also = function;
}

void interrupt_unlink(void)
{
    if (also) also();
    for (unsigned i = 0; i < GUARDED_MAX; i++)
        if (guarded[i]) unlink(guarded[i]);
}

static void on_signal(int number)
{
    if (number == SIGINT && polite && !seen) {
        seen = 1;
        return;
    }
    static const char text[] = "\nengram-accel: interrupted\n";
    static const char files[] = "\nengram-accel: interrupted: what was not written whole is gone\n";
    bool writing = false;
    for (unsigned i = 0; i < GUARDED_MAX; i++)
        writing |= guarded[i] != NULL;
    interrupt_unlink();
    if (number == SIGINT && write(STDERR_FILENO, writing ? files : text,
                                  writing ? sizeof files - 1 : sizeof text - 1) < 0) {
        /* nothing is left to tell it to */
    }
    _exit(128 + number);
}

void interrupt_install(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    sigfillset(&action.sa_mask);
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        /* nohup and others chose to ignore the signal; it stays ignored. */
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN) continue;
        sigaction(signals[i], &action, NULL);
    }
}

void interrupt_politely(bool politely)
{
    polite = politely;
}

bool interrupt_seen(void)
{
    return seen;
}

bool interrupt_guard(const char *path)
{
    for (unsigned i = 0; i < GUARDED_MAX; i++)
        if (!guarded[i]) {
            guarded[i] = path;
            return true;
        }
    return false;
}

void interrupt_release(const char *path)
{
    for (unsigned i = 0; i < GUARDED_MAX; i++)
        if (guarded[i] == path) guarded[i] = NULL;
}
