/* engine_load: what was saved, on its way from the disk while the engine runs: who is told of it,
 * and when the daemon is ready.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: engine_load_turn: in `failure`: the daemon stops. */
#ifndef ENGRAM_ENGINE_LOAD_H
#define ENGRAM_ENGINE_LOAD_H

#include "daemon/persist/persist.h"
#include "daemon/report/readiness.h"
#include "daemon/request/pipeline.h"

struct engine_load {
    struct persist *persist;
    struct pipeline *pipeline;
    struct readiness *readiness;
    void (*notify)(const char *state); /* the service manager; NULL: nobody */
    bool under_way;
    uint64_t told_ns, told_bytes, told_objects;
    struct failure failure;
};

/* Begins to load; l: without persist, which it makes. */
enum status engine_load_begin(struct engine_load *l, const struct persist_options *options,
                              struct failure *f);
/* In its place, where another daemon's data are in memory already: nothing is on its way. */
enum status engine_load_adopt(struct engine_load *l, const struct persist_options *options,
                              struct catalogue_reader *from, struct failure *f);
/* The loop begins. */
void engine_load_start(struct engine_load *l);
/* Once per turn of the loop. False: it has failed, and the daemon must stop. */
bool engine_load_turn(struct engine_load *l);
/* Now and then: tells the service manager how far it is, and to wait if there is progress. */
void engine_load_tell(struct engine_load *l, uint64_t now_ns);
/* All backends have ended: saves what there is, if the loop has run. False: that failed. */
bool engine_load_finish(struct engine_load *l, bool has_run);

#endif
