#include "daemon/report/screens_report.h"

#include <stdio.h>

#include "daemon/store/collection.h"

uint32_t screens_report(const struct space *space, struct wire_screens out[WIRE_SCREENS_MAX],
                        uint32_t *left_out)
{
    const struct collection *found[WIRE_SCREENS_MAX];
    size_t others, count = store_collection_screens(space, found, WIRE_SCREENS_MAX, &others);
    for (size_t i = 0; i < count; i++) {
        snprintf(out[i].name, sizeof out[i].name, "%s", collection_info(found[i]).name);
        for (int where = 0; where < SCREENS; where++)
            out[i].counts[where] = *collection_screens(found[i], where);
    }
    *left_out = (uint32_t)others;
    return (uint32_t)count;
}
