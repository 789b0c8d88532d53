/* ids: a list of ids from the command line or from a .npy file, read as a whole.
 * Owner:  the caller's struct; ids_free.
 * Thread: one at a time.
 * Errors: exit codes, as in cli.h. */
#ifndef ENGRAM_CLI_FILES_IDS_H
#define ENGRAM_CLI_FILES_IDS_H

#include <argp.h>
#include <stdint.h>

struct ids {
    uint64_t *list;
    uint64_t count, room;
};

int ids_add(struct ids *ids, uint64_t id);
/* For an argument parser: adds an id given as text, or calls argp_error. */
void ids_add_text(struct ids *ids, struct argp_state *state, const char *text);
/* The same for arguments NAME [ID...]: the first one is the name. */
void ids_add_behind(struct ids *ids, const char **name, struct argp_state *state, const char *text);
/* Appends all ids of a one-column file. */
int ids_read(struct ids *ids, const char *path);
void ids_free(struct ids *ids);

#endif
