#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/config_inside.h"

/* The bounds themselves stand in config_table.c, a row for each key. */

static enum status store_number(struct config *c, const struct config_key *k, uint64_t value,
                                const struct origin *o)
{
    if (value < k->min || value > k->max)
        return refuse(o, k->name, "%" PRIu64 " is out of range, %" PRIu64 " to %" PRIu64, value,
                      k->min, k->max);
    if (k->type == CONFIG_NUMBER32)
        *(uint32_t *)config_field(c, k) = (uint32_t)value;
    else
        *(uint64_t *)config_field(c, k) = value;
    return STATUS_OK;
}

static enum status store_mode(struct config *c, const struct config_key *k, const char *text,
                              const struct origin *o)
{
    size_t digits = strspn(text, "01234567");
    unsigned long mode = digits && digits <= 4 && !text[digits] ? strtoul(text, NULL, 8) : ~0ul;
    if (mode < k->min || mode > k->max)
        return refuse(o, k->name, "'%.*s' is not an octal mode, \"0000\" to \"%04" PRIo64 "\"",
                      SHOWN_TEXT_BYTES, text, k->max);
    *(uint32_t *)config_field(c, k) = (uint32_t)mode;
    return STATUS_OK;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t bytes = strlen(text);
    for (const char *at = choices; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == bytes && memcmp(at, text, word) == 0) return true;
        at += word;
    }
    return false;
}

static enum status store_text(struct config *c, const struct config_key *k, const char *text,
                              const struct origin *o)
{
    size_t bytes = strlen(text);
    if (k->type == CONFIG_CHOICE && !is_choice(k->choices, text))
        return refuse(o, k->name, "'%.*s' is not one of: %s", SHOWN_TEXT_BYTES, text, k->choices);
    if (k->type == CONFIG_TEXT && bytes > k->max)
        return refuse(o, k->name, "%zu bytes long, at most %" PRIu64, bytes, k->max);
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return refuse(o, k->name, "a control character at byte %zu", i + 1);
    if (k->check && !k->check(text))
        return refuse(o, k->name, "'%.*s' is not %s", SHOWN_TEXT_BYTES, text, k->rule);
    char *field = config_field(c, k);
    memset(field, 0, CONFIG_TEXT_MAX);
    memcpy(field, text, bytes);
    return STATUS_OK;
}

/* ---------------------------------------------------------------- from a file */

const char *config_json_type(const cJSON *v)
{
    if (cJSON_IsBool(v)) return "a boolean";
    if (cJSON_IsNumber(v)) return "a number";
    if (cJSON_IsString(v)) return "a text";
    if (cJSON_IsArray(v)) return "a list";
    if (cJSON_IsObject(v)) return "an object";
    return "null";
}

static enum status read_number(struct config *c, const struct config_key *k, const cJSON *v,
                               const struct origin *o)
{
    double value = v->valuedouble;
    /* Far beyond every bound, and checked before a conversion could overflow. */
    if (!(value >= 0 && value <= 9e15))
        return refuse(o, k->name, "%g is out of range, %" PRIu64 " to %" PRIu64, value, k->min,
                      k->max);
    if (value != (double)(uint64_t)value)
        return refuse(o, k->name, "%g is not a whole number", value);
    return store_number(c, k, (uint64_t)value, o);
}

enum status config_store_json(struct config *c, const struct config_key *k, const cJSON *v,
                              const struct origin *o)
{
    switch (k->type) {
    case CONFIG_NUMBER32:
    case CONFIG_NUMBER64:
        if (cJSON_IsNumber(v)) return read_number(c, k, v, o);
        return refuse(o, k->name, "%s, a whole number wanted", config_json_type(v));
    case CONFIG_BOOLEAN:
        if (!cJSON_IsBool(v))
            return refuse(o, k->name, "%s, true or false wanted", config_json_type(v));
        *(bool *)config_field(c, k) = cJSON_IsTrue(v);
        return STATUS_OK;
    case CONFIG_MODE:
        if (cJSON_IsString(v)) return store_mode(c, k, v->valuestring, o);
        return refuse(o, k->name, "%s, octal digits in quotes wanted: \"0660\"",
                      config_json_type(v));
    case CONFIG_TEXT:
    case CONFIG_CHOICE: break;
    }
    if (cJSON_IsString(v)) return store_text(c, k, v->valuestring, o);
    return refuse(o, k->name, "%s, a text wanted", config_json_type(v));
}

/* ---------------------------------------------------------------- from the command line */

static enum status set_number(struct config *c, const struct config_key *k, const char *text,
                              const struct origin *o)
{
    size_t digits = strspn(text, "0123456789");
    if (!digits || text[digits])
        return refuse(o, k->name, "'%.*s' is not a whole number", SHOWN_TEXT_BYTES, text);
    /* 19 digits fit in 64 bits; longer numbers are beyond every bound. */
    return store_number(c, k, digits <= 19 ? strtoull(text, NULL, 10) : UINT64_MAX, o);
}

enum status config_store_text(struct config *c, const struct config_key *k, const char *text,
                              const struct origin *o)
{
    switch (k->type) {
    case CONFIG_NUMBER32:
    case CONFIG_NUMBER64: return set_number(c, k, text, o);
    case CONFIG_BOOLEAN:
        if (!is_choice("true false", text))
            return refuse(o, k->name, "'%.*s' is not true or false", SHOWN_TEXT_BYTES, text);
        *(bool *)config_field(c, k) = text[0] == 't';
        return STATUS_OK;
    case CONFIG_MODE: return store_mode(c, k, text, o);
    case CONFIG_TEXT:
    case CONFIG_CHOICE: break;
    }
    return store_text(c, k, text, o);
}
