/* seeds: the seed sets of a spread, from the command line, a file or elsewhere.
 * Owner:  the caller keeps the struct; seeds_free.
 * Thread: one at a time.
 * Errors: false, and error is one line.
 *
 * A file has lines of ID [ACTIVATION [SET]]; sets are told apart by their numbers and asked in rising
 * order. Within a set seeds keep the order in which they came. */
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
    /* After seeds_arrange, as ea_spread wants them: set i, called numbers[i], has
     * [offsets[i], offsets[i + 1]). */
    uint64_t *ids, *offsets, *numbers, sets;
    float *activations;
    char error[400];
};

bool seeds_add(struct seeds *s, uint64_t set, uint64_t id, float activation);
/* "17" or "17=0.5" into set 0. */
bool seeds_add_text(struct seeds *s, const char *text);
bool seeds_read(struct seeds *s, const char *path);
/* Once, when all are there. */
bool seeds_arrange(struct seeds *s);
void seeds_free(struct seeds *s);

#endif
