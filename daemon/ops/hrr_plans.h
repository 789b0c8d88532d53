/* hrr_plans: the tables of holographic operations (kernels/hrr.h), kept by dimension, since they
 * take longer to make than a small request.
 * Owner:  the process; a few dimensions are kept, those used last. Where all of those are in use,
 *         further tables are made for one user each.
 * Thread: any; nobody waits while another thread makes tables.
 * Errors: NULL: no memory. */
#ifndef ENGRAM_OPS_HRR_PLANS_H
#define ENGRAM_OPS_HRR_PLANS_H

#include <stdint.h>

#include "kernels/hrr.h"

/* At most 16,384. The plan stays until it is given back as often as it was taken. */
const struct hrr_plan *hrr_plans_take(uint32_t dimension);
/* Each plan as often as it was taken. NULL is fine. */
void hrr_plans_give(const struct hrr_plan *plan);
/* Frees those that nobody has. */
void hrr_plans_finish(void);

#endif
