/* options: the options of a spread, as a spread and a recall send them. */
#include <inttypes.h>

#include "client/calls/calls.h"

void ea_take_number(const float *from, bool *present, float *value)
{
    *present = from != NULL;
    if (from) *value = *from;
}

ea_status ea_check_spread_options(ea_client *c, const ea_spread_options *o)
{
    if (o->hops > HOPS_MAX)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_HOPS,
                       "hops: %" PRIu32 ", 1 to %d wanted, or 0 for %d", o->hops, HOPS_MAX,
                       HOPS_DEFAULT);
    if ((o->decay == EA_DECAY_TABLE) != (o->decay_table != NULL))
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_DECAY, "decay_table: %s",
                       o->decay_table ? "only with the law table" : "NULL for the law table");
    return EA_OK;
}
