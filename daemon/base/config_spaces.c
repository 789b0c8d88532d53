/* config_spaces: settings of single spaces, beside the default of all (quotas.*). */
#include <stdio.h>
#include <string.h>

#include "daemon/base/config_inside.h"

static const char section[] = "quotas.";

/* The rule of space_name_parse (store/space.h), but without trimming: a file must be exact. */
static bool is_space_name(const char *name)
{
    size_t bytes = strlen(name);
    return bytes >= 3 && bytes <= CONFIG_SPACE_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == bytes;
}

/* Returns the number of a space's entry, or space_count. */
static uint32_t find_space(const struct config *c, const char *name)
{
    uint32_t i = 0;
    while (i < c->space_count && strcmp(c->spaces[i].name, name) != 0)
        i++;
    return i;
}

/* As find_space, but makes the entry if there is none: all quotas are the default's. */
static enum status take_space(struct config *c, const char *name, const struct origin *o,
                              uint32_t *out)
{
    char key[SETTING_NAME_BYTES];
    snprintf(key, sizeof key, "spaces.%s", name);
    if (!is_space_name(name))
        return refuse(o, key, "a space's name has 3 to %d bytes of [a-z0-9_-]",
                      CONFIG_SPACE_NAME_MAX);
    uint32_t i = find_space(c, name);
    if (i == CONFIG_SPACES_MAX) return refuse(o, key, "more than %d spaces", CONFIG_SPACES_MAX);
    if (i == c->space_count) {
        c->space_count++;
        strcpy(c->spaces[i].name, name);
        memset(&c->spaces[i].quotas, 0xff, sizeof c->spaces[i].quotas);
    }
    *out = i;
    return STATUS_OK;
}

bool config_spaces_key(const struct config *c, uint32_t i, const char *member, const char *name,
                       struct config_key *out, uint32_t *quota)
{
    char of_all[SETTING_NAME_BYTES];
    snprintf(of_all, sizeof of_all, "%s%s", section, member);
    const struct config_key *k = config_key_find(of_all);
    *quota = 0;
    if (!k) return false;
    while (k - *quota > config_keys &&
           strncmp((k - *quota - 1)->name, section, QUOTAS_SECTION) == 0)
        ++*quota;
    *out = *k;
    out->name = name;
    out->offset = k->offset - offsetof(struct config, quotas) +
                  (size_t)((const char *)&c->spaces[i].quotas - (const char *)c);
    return true;
}

bool config_spaces_given(const struct config *c, const struct config_key *k)
{
    return k->type == CONFIG_NUMBER64 ? *(const uint64_t *)config_field(c, k) != UINT64_MAX
                                      : *(const uint32_t *)config_field(c, k) != UINT32_MAX;
}

static enum status read_space(struct config *c, const cJSON *space, const struct origin *o)
{
    char name[SETTING_NAME_BYTES];
    uint32_t i;
    enum status st = take_space(c, space->string, o, &i);
    if (st) return st;
    snprintf(name, sizeof name, "spaces.%s", space->string);
    if (!cJSON_IsObject(space))
        return refuse(o, name, "%s, an object of quotas wanted", config_json_type(space));
    for (const cJSON *v = space->child; v && !st; v = v->next) {
        struct config_key k;
        uint32_t quota;
        snprintf(name, sizeof name, "spaces.%s.%.40s", space->string, v->string);
        if (!config_spaces_key(c, i, v->string, name, &k, &quota))
            return refuse(o, name, "unknown setting");
        if (config_stands_before(space->child, v)) return refuse(o, name, "given twice");
        st = config_store_json(c, &k, v, o);
        if (!st) c->spaces[i].sources[quota] = (uint8_t)o->source;
    }
    return st;
}

enum status config_spaces_read(struct config *c, const cJSON *object, const struct origin *o)
{
    for (const cJSON *v = object->child; v; v = v->next) {
        char name[SETTING_NAME_BYTES];
        snprintf(name, sizeof name, "spaces.%s", v->string);
        if (config_stands_before(object->child, v)) return refuse(o, name, "given twice");
        enum status st = read_space(c, v, o);
        if (st) return st;
    }
    return STATUS_OK;
}

enum status config_spaces_set(struct config *c, const char *name, const char *text,
                              const struct origin *o)
{
    char space[SETTING_NAME_BYTES];
    snprintf(space, sizeof space, "%s", name + strlen("spaces."));
    char *dot = strchr(space, '.');
    if (!dot) return refuse(o, name, "spaces.NAME.QUOTA wanted");
    *dot = '\0';
    uint32_t before = c->space_count, i;
    enum status st = take_space(c, space, o, &i);
    if (st) return st;
    struct config_key k;
    uint32_t quota;
    st = config_spaces_key(c, i, dot + 1, name, &k, &quota) ? config_store_text(c, &k, text, o)
                                                            : refuse(o, name, "unknown setting");
    if (!st) c->spaces[i].sources[quota] = (uint8_t)o->source;
    if (st && before != c->space_count) c->spaces[--c->space_count] = (struct space_override){0};
    return st;
}

struct space_quotas config_quotas(const struct config *c, const char *space_name)
{
    struct space_quotas all = c->quotas;
    uint32_t i = find_space(c, space_name);
    if (i == c->space_count) return all;
    const struct space_quotas *own = &c->spaces[i].quotas;
    if (own->host_mib != UINT64_MAX) all.host_mib = own->host_mib;
    if (own->vram_mib != UINT64_MAX) all.vram_mib = own->vram_mib;
    if (own->queue != UINT32_MAX) all.queue = own->queue;
    if (own->connections != UINT32_MAX) all.connections = own->connections;
    if (own->weight != UINT32_MAX) all.weight = own->weight;
    return all;
}
