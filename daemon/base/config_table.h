/* config_table: one row for each setting: type, bounds, default, whether it may change live, help.
 * The reader, the sample file, the help and the man page use this table.
 * Owner:  base/config. Thread: any; const. Errors: none. */
#ifndef ENGRAM_BASE_CONFIG_TABLE_H
#define ENGRAM_BASE_CONFIG_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/config.h"

enum config_type {
    CONFIG_NUMBER32, /* uint32_t */
    CONFIG_NUMBER64, /* uint64_t */
    CONFIG_BOOLEAN,  /* bool */
    CONFIG_TEXT,     /* char[CONFIG_TEXT_MAX] */
    CONFIG_CHOICE,   /* char[CONFIG_TEXT_MAX], one of `choices` */
    CONFIG_MODE,     /* uint32_t, written as octal text */
};

struct config_key {
    const char *name; /* "socket.path"; keys of one section are adjacent */
    enum config_type type;
    bool live;
    size_t offset;                   /* of its field in struct config */
    uint64_t min, max;               /* of a number or mode; max bytes of a text */
    uint64_t number;                 /* default of a number, mode or boolean */
    const char *text;                /* default of a text or choice */
    const char *choices;             /* "auto scalar avx2" */
    const char *help;                /* one or two sentences, no trailing newline */
    const char *rule;                /* a text's rule, for messages and help; NULL: any text */
    bool (*check)(const char *text); /* checks the rule; NULL: any text */
};

extern const struct config_key config_keys[];
extern const unsigned config_key_count;

/* Returns NULL if there is no such key. */
const struct config_key *config_key_find(const char *name);
/* Returns the bytes of the section before the dot; 0 for a key without one. */
size_t config_key_section(const struct config_key *k);

/* Where the value of k lies. */
static inline void *config_field(const struct config *c, const struct config_key *k)
{
    return (char *)c + k->offset;
}

#endif
