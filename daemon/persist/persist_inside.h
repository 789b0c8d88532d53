/* persist_inside: the state that persist.c and background.c share; nobody else includes it.
 * Owner:  persist.
 * Thread: the loop; while a save is in the background, its thread reads all but `background`.
 * Errors: none. */
#ifndef ENGRAM_PERSIST_PERSIST_INSIDE_H
#define ENGRAM_PERSIST_PERSIST_INSIDE_H

#include "daemon/persist/folder.h"
#include "daemon/persist/persist.h"
#include "daemon/persist/save.h"

struct persist {
    struct persist_options options;
    struct folder folder; /* fd < 0: nothing is kept on the disk */
    struct manifest_key key;
    uint64_t instance, generation;
    uint64_t number;               /* of the last snapshot that was loaded or written; 0: none */
    uint64_t number_next;          /* above all that there are */
    struct manifest last;          /* what is in it */
    bool linkable;                 /* it is whole, and objects of its versions are what they were */
    struct background *background; /* NULL: no save is under way */
    struct loader *loader;         /* NULL: nothing is on its way (loader.c) */
    bool unloaded;                 /* it was not loaded to its end: there is nothing to save */
    /* What the folder said of the daemon before; it may not be known. */
    struct folder_state before;
    bool asked_before, knows_before;
    struct persist_left *left; /* from malloc */
    uint64_t left_count;
};

/* The next snapshot in the folder, of everything as it is now, without its items. */
void persist_prepare(const struct persist *p, struct save *s);
/* It was written, and is the last one from now on. */
void persist_take(struct persist *p, struct manifest *m);

#endif
