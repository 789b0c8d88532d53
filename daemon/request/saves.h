/* saves: snapshots while the daemon serves. A save begins in one turn of the loop, in which the
 * newest editions of all that there is are pinned; persist's thread writes them. Those that wait
 * for a save of everything share the next one. What it keeps of a space is lent to it beyond its
 * quota; where a write finds no memory, the save is given up and begins again later.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: in the failure of a job that waits for it. */
#ifndef ENGRAM_REQUEST_SAVES_H
#define ENGRAM_REQUEST_SAVES_H

#include "daemon/request/pipeline_inside.h"

/* True: j asks for a save; it waits for that, or is answered already. */
bool saves_take(struct pipeline *p, struct connection *c, struct job *j);
/* Begins what is due, and takes the end of what has ended. */
void saves_turn(struct pipeline *p);
/* When it wants to be called again; UINT64_MAX: it is woken. */
uint64_t saves_wake_ns(const struct pipeline *p);
/* True: j waited for a save, or for memory that one keeps; if nobody wants it any more, it has been
 * answered. */
bool saves_cancel(struct pipeline *p, struct job *j);
/* True: j is a write that found no memory; a save that keeps some is given up, and j runs again. */
bool saves_make_room(struct pipeline *p, struct job *j);
/* The daemon stops: nobody waits for saves. */
void saves_drain(struct pipeline *p);
/* The same, and waits for the thread. */
void saves_abandon(struct pipeline *p);
#endif
