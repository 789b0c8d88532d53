/* config_table: every setting: its key, where it lies in struct config, what it may be.
 * Owner:  config. Thread: any; const. Errors: none. */
#ifndef ENGRAM_BASE_CONFIG_TABLE_H
#define ENGRAM_BASE_CONFIG_TABLE_H

#include <stddef.h>

#include "daemon/base/config.h"

enum setting_type { SETTING_TEXT, SETTING_BOOL, SETTING_U32, SETTING_U64, SETTING_OCTAL };

struct setting {
    const char *key; /* "socket.path" */
    enum setting_type type;
    size_t offset;         /* in struct config */
    uint64_t least, most;  /* numbers; texts: bytes */
    const char *initial;   /* as it would be written on the command line */
    bool live;             /* SIGHUP applies it */
    const char *choices;   /* "|auto|scalar|": the texts allowed; NULL: any */
    const char *help;
};

extern const struct setting config_table[];
extern const size_t config_table_count;

#endif
