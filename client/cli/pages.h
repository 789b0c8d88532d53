/* pages: the parts of the manual page that come from the tables of commands, options and exit
 * codes, so that page and --help cannot differ.
 * Owner:  constants.
 * Thread: any.
 * Errors: those of the stream. */
#ifndef ENGRAM_CLI_PAGES_H
#define ENGRAM_CLI_PAGES_H

#include <stdio.h>

/* Sections GLOBAL OPTIONS, COMMANDS and EXIT STATUS, as troff. */
void pages_print_man(FILE *out);

#endif
