/* utf8: characters of text that may come from anywhere.
 * Owner:  nobody; pure functions over the caller's bytes, which end with a 0.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_CLI_UTF8_H
#define ENGRAM_CLI_UTF8_H

/* Bytes of the UTF-8 character at s, 0 if it is not one (RFC 3629: shortest form, no surrogate). */
unsigned utf8_length(const unsigned char *s);

#endif
