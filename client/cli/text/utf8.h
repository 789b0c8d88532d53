/* utf8: characters of text that may come from anywhere.
 * Owner:  nobody; pure functions over the caller's bytes, which end with a 0.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_CLI_TEXT_UTF8_H
#define ENGRAM_CLI_TEXT_UTF8_H

#include <stdio.h>

/* Bytes of the UTF-8 character at s, 0 if it is not one (RFC 3629: shortest form, no surrogate). */
unsigned utf8_length(const unsigned char *s);
/* The same, but 0 also for what can steer a terminal: C0, DEL and C1. */
unsigned utf8_shown(const unsigned char *s);
/* Each byte that is not shown becomes '?', in place or on the way to out. */
void utf8_tame(char *text);
void utf8_put(FILE *out, const char *text);

#endif
