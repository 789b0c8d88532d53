/* answers_settings: the daemon's settings, shown and set by request.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: 0 is returned, and j->failure says why. */
#ifndef ENGRAM_REQUEST_ANSWERS_SETTINGS_H
#define ENGRAM_REQUEST_ANSWERS_SETTINGS_H

#include "daemon/request/pipeline_inside.h"

/* Each writes its reply to at (ENCODE_BYTES_MAX) and returns the bytes. */
size_t answer_config_get(struct pipeline *p, const struct connection *c, const struct job *j,
                         void *at);
size_t answer_config_reload(struct pipeline *p, const struct connection *c, struct job *j,
                            void *at);
size_t answer_config_set(struct pipeline *p, const struct connection *c, struct job *j, void *at);

#endif
