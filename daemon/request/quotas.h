/* quotas: what each space may take, from the settings to where it is enforced: memory (heap), VRAM
 * (cards), connections (here), queue depth and share (the scheduler, by the space's tenant).
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: as each function says. */
#ifndef ENGRAM_REQUEST_QUOTAS_H
#define ENGRAM_REQUEST_QUOTAS_H

#include "daemon/request/pipeline_inside.h"
#include "daemon/sched/tenant.h"

/* For a store without any space yet. A space that goes takes its tenant with it, also when the
 * pipeline is gone. */
void quotas_init(struct store *store, struct heap *heap);

/* What the settings say now. */
struct quotas quotas_of(const struct pipeline *p, const char *space);

/* The space's tenant, which is made when it is first asked for; its quotas hold from then on.
 * NULL: no memory. */
struct tenant *quotas_tenant(struct pipeline *p, struct space *space);

/* Counts c in its space and gives it its tenancy there. RESOURCE_EXHAUSTED: DETAIL_QUOTA when the
 * space has as many as it may, or DETAIL_MEMORY. */
enum status quotas_admit_connection(struct pipeline *p, struct connection *c, struct failure *f);
/* A connection that was admitted is gone. */
void quotas_release_connection(struct pipeline *p, struct connection *c);

/* The settings have changed. What a space has beyond its new quotas stays until it frees it. */
void quotas_refresh(struct pipeline *p);

#endif
