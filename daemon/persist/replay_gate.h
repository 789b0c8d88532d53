/* replay_gate: the store, while a thread replays the journal: the loop lends it for some
 * milliseconds at a time and sleeps meanwhile, so one of the two uses it. The thread enters for
 * what it does to tables of names and to what readers see, and is outside while it reads its files
 * and while it writes contents that no reader sees yet.
 * Owner:  loader_replay.c.
 * Thread: each function says which.
 * Errors: none. */
#ifndef ENGRAM_PERSIST_REPLAY_GATE_H
#define ENGRAM_PERSIST_REPLAY_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct replay_gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lent, inside, waits, ended;
    bool given;                /* for good: the loop does nothing but wait for the thread's end */
    void (*wake)(void *owner); /* the loop: the thread waits; or NULL */
    void *owner;
};

void replay_gate_init(struct replay_gate *g, void (*wake)(void *owner), void *owner);
void replay_gate_finish(struct replay_gate *g);

/* The thread. g NULL: nobody else uses the store. */
void replay_gate_enter(struct replay_gate *g);
void replay_gate_leave(struct replay_gate *g);
/* It does not come back. */
void replay_gate_end(struct replay_gate *g);

/* The loop: lends the store for that long, if the thread waits for it. True: it waits again. */
bool replay_gate_lend(struct replay_gate *g, uint64_t ns);
void replay_gate_give(struct replay_gate *g);
bool replay_gate_has_ended(struct replay_gate *g);

#endif
