/* config_inside: storing one value, for the files that read settings.
 * Owner:  base/config. Thread: as config.h says.
 * Errors: INVALID_ARGUMENT with "FILE: KEY: reason"; the field is unchanged then. */
#ifndef ENGRAM_BASE_CONFIG_INSIDE_H
#define ENGRAM_BASE_CONFIG_INSIDE_H

#include <cjson/cJSON.h>

#include "daemon/base/config.h"
#include "daemon/base/config_table.h"

enum {
    SHOWN_TEXT_BYTES = 40, /* of a wrong value */
    SETTING_NAME_BYTES = 128,
};

/* Where a value came from, for messages: "FILE: KEY: reason". */
struct origin {
    const char *prefix; /* "FILE: " or "" */
    struct failure *failure;
};

/* The longest key that there is, of a space, shows whole. */
#define refuse(origin, key, format, ...)                                                     \
    failure_set((origin)->failure, STATUS_INVALID_ARGUMENT, DETAIL_NONE, "%s%.84s: " format, \
                (origin)->prefix, (key), ##__VA_ARGS__)

/* "a number", "null" */
const char *config_json_type(const cJSON *v);
/* A value of a file into the field of k. */
enum status config_store_json(struct config *c, const struct config_key *k, const cJSON *v,
                              const struct origin *o);
/* A value of the command line. */
enum status config_store_text(struct config *c, const struct config_key *k, const char *text,
                              const struct origin *o);
/* Whether a key stands before v among those of one object, which begin with `first`. */
bool config_stands_before(const cJSON *first, const cJSON *v);

/* ---- config_spaces.c ---- */

/* {"alpha": {"weight": 4}} over c->spaces. On failure c->spaces may be half changed. */
enum status config_spaces_read(struct config *c, const cJSON *object, const struct origin *o);
/* "spaces.alpha.weight", "4". On failure nothing is changed. */
enum status config_spaces_set(struct config *c, const char *name, const char *text,
                              const struct origin *o);

#endif
