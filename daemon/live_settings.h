/* live_settings: what changes settings while the daemon runs: the file, read again, and single ones
 * that an operator sets.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: of a reload: "FILE: KEY: reason", logged as well; of a single setting: as
 *         config_set_live. Settings stay then. */
#ifndef ENGRAM_LIVE_SETTINGS_H
#define ENGRAM_LIVE_SETTINGS_H

#include "daemon/base/config.h"
#include "daemon/request/pipeline.h"

struct live_settings {
    struct config *config; /* in use */
    /* What file and command line said when they were last read. A setting of it that is another
     * than in use, and not live, wants a restart. */
    struct config asked;
    const char *path; /* of the file; "": there is none */
    const char *const *settings;
    unsigned setting_count; /* of the command line */
    struct pipeline *pipeline;
    /* What is served over HTTP follows the settings of metrics.*, or refuses them all. */
    enum status (*accept)(void *owner, const struct config *fresh, struct failure *f);
    void *owner;
    struct config_reloads reloads;
};

/* A setting of c is wrong, as `why` says: "KEY: reason". f: the same, with where it comes from. */
enum status live_settings_refuse(const struct live_settings *l, const struct config *c,
                                 const struct failure *why, struct failure *f);

/* reload_settings of the pipeline's options: reads the file again, with the command line over it.
 * What was set one by one is gone then. Logged. */
enum status live_settings_reload(void *live, const char *who, struct config_reload *out,
                                 struct failure *f);
/* The same for SIGHUP, which nobody waits for. */
void live_settings_hangup(struct live_settings *l);
/* settings_set of the pipeline's options. */
enum status live_settings_set(void *live, const char *name, const char *value, const char *who,
                              struct failure *f);

#endif
