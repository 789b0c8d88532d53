/* quotas: what each space may take, from the settings to where it is enforced: memory (heap), VRAM
 * (cards), connections (here), line and share (the scheduler, by the space's tenant).
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: as each function says. */
#ifndef ENGRAM_REQUEST_QUOTAS_H
#define ENGRAM_REQUEST_QUOTAS_H

#include "daemon/request/pipeline_inside.h"
#include "daemon/sched/tenant.h"

/* Before the first space is known: its tenant ends with it, also after the pipeline. */
void quotas_init(struct store *store, struct heap *heap);

/* As the settings have it now. */
struct quotas quotas_of(const struct pipeline *p, const char *space);

/* The space's tenant, made when it is first asked for; from then on its quotas hold. NULL: no
 * memory. */
struct tenant *quotas_tenant(struct pipeline *p, struct space *space);

/* One connection more. RESOURCE_EXHAUSTED: QUOTA when the space has as many as it may, MEMORY. */
enum status quotas_admit_connection(struct pipeline *p, struct space *space, struct failure *f);
/* One that was admitted is gone. */
void quotas_release_connection(struct space *space);

/* The settings changed. What a space has beyond its new quotas stays until it lets go of it. */
void quotas_refresh(struct pipeline *p);

#endif
