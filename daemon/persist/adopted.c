/* adopted: data that another daemon had in memory (handover/hand_over.h): nothing is loaded, and
 * its instance goes on. */
#include <stdlib.h>

#include "daemon/persist/persist_inside.h"

/* A start that loads the newest snapshot after all comes after this one, which may have changed
 * everything: it does not go on with that instance. */
enum status persist_adopt(struct persist *p, uint64_t instance, uint64_t generation,
                          struct failure *f)
{
    uint64_t *numbers = NULL, count = 0;
    struct folder_state before = {0}, now;
    struct failure why = {0};
    p->instance = instance;
    p->generation = generation;
    if (!persist_keeps(p)) return STATUS_OK;
    enum status st = folder_list(p->folder.fd, &numbers, &count, &why);
    now = (struct folder_state){count ? numbers[0] : 0, generation};
    free(numbers);
    if (!st && !folder_read_state(&p->folder, &before, NULL) && before.generation > generation)
        now.generation = before.generation;
    if (!st) st = folder_write_state(&p->folder, &now, &why);
    if (st) return failure_set(f, st, why.detail, "persist.dir: %.180s", why.text);
    p->number_next = now.snapshot + 1;
    return STATUS_OK;
}
