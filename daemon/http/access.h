/* access: who may read the metrics, from the settings and the file that they name.
 * Owner:  http.
 * Thread: the loop.
 * Errors: with "metrics.token_file: reason". */
#ifndef ENGRAM_HTTP_ACCESS_H
#define ENGRAM_HTTP_ACCESS_H

#include "daemon/base/config.h"
#include "daemon/http/guard.h"

/* INVALID_ARGUMENT: there is no token though one is needed, or the file is none for a secret. */
enum status access_read(const struct config *c, struct guard *out, struct failure *f);

#endif
