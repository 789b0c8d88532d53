/* replacement: something that is made under a hidden name, and takes the place of what has its name
 * at one instant. Until then nobody sees it; if the command ends before, the daemon drops it.
 * Owner:  the caller's struct.
 * Thread: the main thread.
 * Errors: exit codes, as in cli.h. */
#ifndef ENGRAM_CLI_COMMANDS_REPLACEMENT_H
#define ENGRAM_CLI_COMMANDS_REPLACEMENT_H

#include "client/cli/cli.h"

struct replacement {
    char hidden[65]; /* the name under which it is made */
    ea_swapped done;
};

/* Invents a name that nobody has. */
void replacement_name(struct replacement *r);
/* Puts it in place, if what is there is as --expect says. */
int replacement_end(struct replacement *r, struct cli *cli, ea_object object, const char *name);

#endif
