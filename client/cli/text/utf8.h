/* utf8: checks characters of untrusted text.
 * Owner:  nobody; pure functions over the caller's bytes, which end with a 0.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_CLI_TEXT_UTF8_H
#define ENGRAM_CLI_TEXT_UTF8_H

#include <stdio.h>

/* Returns the bytes of the UTF-8 character at s, or 0 if it is not one (RFC 3629: shortest form,
 * no surrogate). */
unsigned utf8_length(const unsigned char *s);
/* The same, but 0 also for characters that control a terminal or turn the direction of writing. */
unsigned utf8_shown(const unsigned char *s);
/* Replaces each byte of characters that are not shown by '?', in place or on the way to out. */
void utf8_tame(char *text);
void utf8_put(FILE *out, const char *text);

#endif
