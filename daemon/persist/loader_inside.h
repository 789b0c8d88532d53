/* loader_inside: an object of a snapshot that is on its way, and how all of them are; loader.c and
 * load_places.c share it.
 * Owner:  persist.
 * Thread: the loop; as marked, those that fill objects.
 * Errors: as load.h says. */
#ifndef ENGRAM_PERSIST_LOADER_INSIDE_H
#define ENGRAM_PERSIST_LOADER_INSIDE_H

#define HASH_NONFATAL_OOM 1
#include <pthread.h>
#include <uthash.h>

#include "daemon/persist/load.h"
#include "daemon/persist/loader.h"
#include "daemon/persist/replay_gate.h"

enum { LOADERS_MAX = 4 };

struct place_key {
    uint32_t space;
    enum resident_kind kind;
    char name[COLLECTION_NAME_MAX + 1];
};

struct load_place {
    struct load_item item;
    struct place_key key;
    struct failure failure;
    struct load_place *next; /* in the list of those that a thread is through with */
    UT_hash_handle hh;       /* by key, until it is settled */
};

struct loader {
    struct persist *persist;
    uint64_t *numbers, count; /* all snapshots that there are */
    uint64_t attempt;         /* of the numbers; and once more of what is whole in them */
    bool salvage, partial;
    struct manifest m;
    struct token_bytes tokens;
    struct loading loading;
    _Atomic uint64_t versions; /* of what is filled */
    struct load_place *places; /* of the objects, in the order in which they are loaded */
    struct load_place *by_key;
    uint64_t place_count, settled, lost;
    uint64_t all_bytes, version_first, began_ns;
    struct failure failure; /* of the attempt */

    /* what follows: threads, too */
    pthread_mutex_t lock, attractors;
    uint64_t next;           /* the next place to fill */
    struct load_place *done; /* filled or not */
    pthread_t threads[LOADERS_MAX];
    uint32_t thread_count;
    atomic_uint running;

    /* the journal, when all objects are in */
    bool replays, replay_thread; /* it is under way; in a thread */
    struct replay_gate gate;
    pthread_t replayer;
    uint64_t replay_bytes, replay_began_ns;
    _Atomic uint64_t replay_done; /* bytes */
    struct journal_end replayed;  /* the replayer's, until it is joined */
    struct failure replay_failure;
};

/* Replays the journal over what was loaded: in a thread of its own, or on the spot.
 * RESOURCE_EXHAUSTED: there is no thread. */
enum status loader_replay_begin(struct loader *ld, bool thread, struct failure *f);
/* Lends the store to the thread for a while. False: it is still under way; true: it has ended, and
 * *st says how. */
bool loader_replay_turn(struct loader *ld, enum status *st, struct failure *f);
/* Waits until it has given up, if it is under way. */
void loader_replay_stop(struct loader *ld);

/* What was asked most comes first; of what was asked as often, the smaller. */
int load_place_compare(const void *a, const void *b);
/* Makes a place's object, whose item.object is set. After a failure there is none. */
enum status load_place_enter(struct loader *ld, struct load_place *p, struct failure *f);
/* Its name is there from now on; or it is gone. */
enum status load_place_link(struct loader *ld, struct load_place *p, struct failure *f);
void load_place_discard(struct loader *ld, struct load_place *p);
/* It has failed: it is left out, or ends the attempt. */
void load_place_fail(struct loader *ld, struct load_place *p, const struct failure *why);
/* NULL: that object is not on its way. */
struct load_place *load_place_find(const struct loader *ld, const struct space *space,
                                   enum resident_kind kind, const char *name);

#endif
