/* seeds: the seed sets of a spread, from the command line, a file or elsewhere.
 * Owner:  the caller keeps the struct; seeds_free.
 * Thread: one at a time.
 * Errors: false, and error is one line.
 *
 * A file has lines of ID [ACTIVATION [SET]]. Sets are identified by their numbers and sent in
 * rising order. Within a set, seeds keep the order in which they were added. */
#ifndef ENGRAM_CLI_COMMANDS_SEEDS_H
#define ENGRAM_CLI_COMMANDS_SEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seeds {
    struct seed {
        uint64_t set, id;
        size_t order;
        float activation;
    } * list;
    size_t count, room;
    /* Set by seeds_arrange, as ea_spread needs them: set i, whose number is numbers[i], has
     * [offsets[i], offsets[i + 1]). */
    uint64_t *ids, *offsets, *numbers, sets;
    float *activations;
    char error[400];
};

bool seeds_add(struct seeds *s, uint64_t set, uint64_t id, float activation);
/* Adds "17" or "17=0.5" to set 0. */
bool seeds_add_text(struct seeds *s, const char *text);
bool seeds_read(struct seeds *s, const char *path);
/* Called once, when all seeds are added. */
bool seeds_arrange(struct seeds *s);
void seeds_free(struct seeds *s);

#endif
