/* complete_words: what may stand where a command line ends. The shells' own scripts, which the
 * command completion prints, call it as "engram-accel __complete WORD... LAST", where LAST is the
 * word that is being typed.
 * Owner:  nobody.
 * Thread: the main thread.
 * Errors: none: what cannot be known, as names without a daemon, is not offered. */
#ifndef ENGRAM_CLI_COMPLETE_WORDS_H
#define ENGRAM_CLI_COMPLETE_WORDS_H

/* Prints a line for each, with a TAB and what it is behind it, and the line ":files" where any file
 * may stand. */
int complete_words(int argc, char **argv);

#endif
