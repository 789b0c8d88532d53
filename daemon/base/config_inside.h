/* config_inside: storing one value, for the files that read settings.
 * Owner:  base/config. Thread: as config.h says.
 * Errors: INVALID_ARGUMENT with "FILE: KEY: reason"; the field is unchanged then. */
#ifndef ENGRAM_BASE_CONFIG_INSIDE_H
#define ENGRAM_BASE_CONFIG_INSIDE_H

#include <string.h>

#include <cjson/cJSON.h>

#include "daemon/base/config_table.h"

enum {
    SHOWN_TEXT_BYTES = 40, /* shown of a wrong value */
    SETTING_NAME_BYTES = 128,
    QUOTAS_SECTION = 7, /* bytes of "quotas." */
};

/* Where a value came from; messages are "FILE: KEY: reason". */
struct origin {
    const char *prefix; /* "FILE: " or "" */
    struct failure *failure;
    enum config_source source;
};

/* The longest key, which is one of a space, is shown whole. */
#define refuse(origin, key, format, ...)                                                     \
    failure_set((origin)->failure, STATUS_INVALID_ARGUMENT, DETAIL_NONE, "%s%.84s: " format, \
                (origin)->prefix, (key), ##__VA_ARGS__)

/* ---- config_bounds.c ---- */

/* "a number", "null" */
const char *config_json_type(const cJSON *v);
/* Stores a value from a file in the field of k. */
enum status config_store_json(struct config *c, const struct config_key *k, const cJSON *v,
                              const struct origin *o);
/* Stores a value from the command line. */
enum status config_store_text(struct config *c, const struct config_key *k, const char *text,
                              const struct origin *o);

/* True if the key of v occurs before v in its object, which begins with `first`. */
static inline bool config_stands_before(const cJSON *first, const cJSON *v)
{
    for (; first != v; first = first->next)
        if (strcmp(first->string, v->string) == 0) return true;
    return false;
}

/* ---- config_spaces.c ---- */

/* Reads {"alpha": {"weight": 4}} into c->spaces. After a failure c->spaces may be half changed. */
enum status config_spaces_read(struct config *c, const cJSON *object, const struct origin *o);
/* Makes a row as that of quotas.MEMBER, but for space i, with the name that is given, which must
 * stay valid. *quota: the number of the quota, in the table's order. */
bool config_spaces_key(const struct config *c, uint32_t i, const char *member, const char *name,
                       struct config_key *out, uint32_t *quota);
/* True if space i has a value of its own for this row. */
bool config_spaces_given(const struct config *c, const struct config_key *k);
/* Applies "spaces.alpha.weight", "4". A failure changes nothing. */
enum status config_spaces_set(struct config *c, const char *name, const char *text,
                              const struct origin *o);

#endif
