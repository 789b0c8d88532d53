/* text: checks of a message's strings that nanopb does not make. A decoded string is a C string
 * without a length, so that a NUL inside would silently cut a name, and two names would become
 * one. Strings that are too long would only fail as "string overflow".
 * Owner:  wire; only decode uses it.
 * Thread: any; no state.
 * Errors: INVALID_ARGUMENT: the rule's detail, or BAD_MESSAGE when the bytes do not parse. */
#ifndef ENGRAM_WIRE_TEXT_H
#define ENGRAM_WIRE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/status.h"

struct text_rule {
    const char *name;
    uint32_t tag; /* a top-level field; 0: the rule is about nothing */
    uint32_t bytes_max;
    enum detail detail;
    bool printable; /* UTF-8 without control characters, because it will be part of a log line */
};

enum status text_check(const void *message, uint32_t message_bytes, const struct text_rule *rules,
                       size_t count, struct failure *f);

/* True for well-formed UTF-8 without control characters (C0, DEL, C1). */
bool text_printable(const uint8_t *text, size_t bytes);

#endif
