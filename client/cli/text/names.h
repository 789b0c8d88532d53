/* names: a text file with the names of ids.
 * Owner:  names_open to names_close. Holds the file and 16 bytes a line.
 * Thread: one at a time.
 * Errors: false and one line in error.
 *
 * If the first line is a whole number, a TAB and a name, every line must be; otherwise line i
 * (from 0) is the name of id i. A repeated id keeps its first name. */
#ifndef ENGRAM_CLI_TEXT_NAMES_H
#define ENGRAM_CLI_TEXT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct names {
    char *text;
    struct name {
        uint64_t id;
        const char *name;
    } * list; /* sorted by id */
    size_t count;
    char error[400];
};

bool names_open(struct names *n, const char *path);
void names_close(struct names *n);
/* Returns NULL if the id has no name. */
const char *names_find(const struct names *n, uint64_t id);

#endif
