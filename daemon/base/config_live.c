#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/config_inside.h"

static size_t field_bytes(const struct config_key *k)
{
    switch (k->type) {
    case CONFIG_NUMBER32:
    case CONFIG_MODE: return sizeof(uint32_t);
    case CONFIG_NUMBER64: return sizeof(uint64_t);
    case CONFIG_BOOLEAN: return sizeof(bool);
    case CONFIG_TEXT:
    case CONFIG_CHOICE: break;
    }
    return CONFIG_TEXT_MAX;
}

static bool same_spaces(const struct config *a, const struct config *b)
{
    bool same = a->space_count == b->space_count;
    for (uint32_t i = 0; same && i < a->space_count; i++)
        same = strcmp(a->spaces[i].name, b->spaces[i].name) == 0 &&
               memcmp(&a->spaces[i].quotas, &b->spaces[i].quotas, sizeof a->spaces[i].quotas) == 0;
    return same;
}

uint32_t config_apply_live(struct config *c, const struct config *from, uint32_t *ignored)
{
    uint32_t changed = 0, others = 0;
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        size_t bytes = field_bytes(k);
        if (k->live) c->sources[i] = from->sources[i];
        if (memcmp(config_field(c, k), config_field(from, k), bytes) == 0) continue;
        if (k->live) {
            memcpy(config_field(c, k), config_field(from, k), bytes);
            changed++;
        } else {
            others++;
        }
    }
    if (!same_spaces(c, from)) changed++;
    c->space_count = from->space_count;
    memcpy(c->spaces, from->spaces, sizeof c->spaces);
    if (ignored) *ignored = others;
    return changed;
}

enum status config_set_live(struct config *c, const char *name, const char *value,
                            struct failure *f)
{
    const struct origin o = {"", f, CONFIG_SET};
    struct config next = *c;
    const struct config_key *k = config_key_find(name);
    enum status st;
    if (strncmp(name, "spaces.", strlen("spaces.")) == 0)
        st = config_spaces_set(&next, name, value, &o);
    else if (!k)
        st = refuse(&o, name, "unknown setting");
    else if (!k->live)
        st = failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_NOT_LIVE,
                         "%s: does not change while the daemon runs; set it in the file, and start "
                         "the daemon anew",
                         k->name);
    else
        st = config_store_text(&next, k, value, &o);
    if (st == STATUS_INVALID_ARGUMENT && f) f->detail = DETAIL_BAD_SETTING;
    if (st) return st;
    if (k) next.sources[k - config_keys] = CONFIG_SET;
    *c = next;
    return STATUS_OK;
}

/* ---------------------------------------------------------------- what is set */

static void write_value(const struct config *c, const struct config_key *k, char *out, size_t size)
{
    const void *field = config_field(c, k);
    switch (k->type) {
    case CONFIG_NUMBER32: snprintf(out, size, "%" PRIu32, *(const uint32_t *)field); break;
    case CONFIG_NUMBER64: snprintf(out, size, "%" PRIu64, *(const uint64_t *)field); break;
    case CONFIG_BOOLEAN: snprintf(out, size, "%s", *(const bool *)field ? "true" : "false"); break;
    case CONFIG_MODE: snprintf(out, size, "%04" PRIo32, *(const uint32_t *)field); break;
    case CONFIG_TEXT:
    case CONFIG_CHOICE: snprintf(out, size, "%s", (const char *)field); break;
    }
}

static void describe(const struct config *c, const struct config *asked, const struct config_key *k,
                     struct config_setting *out)
{
    *out = (struct config_setting){.live = k->live};
    snprintf(out->name, sizeof out->name, "%s", k->name);
    write_value(c, k, out->value, sizeof out->value);
    out->wants_restart =
        !k->live && memcmp(config_field(c, k), config_field(asked, k), field_bytes(k)) != 0;
    if (out->wants_restart) write_value(asked, k, out->asked, sizeof out->asked);
}

/* The quota in this position of those that single spaces have of their own. */
static bool describe_space(const struct config *c, uint32_t position, struct config_setting *out)
{
    static const char *const members[CONFIG_QUOTAS] = {"host_mib", "vram_mib", "queue",
                                                       "connections", "weight"};
    for (uint32_t i = 0; i < c->space_count; i++)
        for (int m = 0; m < CONFIG_QUOTAS; m++) {
            char name[SETTING_NAME_BYTES];
            struct config_key k;
            uint32_t quota;
            snprintf(name, sizeof name, "spaces.%.64s.%s", c->spaces[i].name, members[m]);
            if (!config_spaces_key(c, i, members[m], name, &k, &quota) ||
                !config_spaces_given(c, &k) || position--)
                continue;
            describe(c, c, &k, out);
            out->space = c->spaces[i].name;
            out->source = (enum config_source)c->spaces[i].sources[quota];
            return true;
        }
    return false;
}

bool config_setting_at(const struct config *c, const struct config *asked, uint32_t position,
                       struct config_setting *out)
{
    if (position >= config_key_count) return describe_space(c, position - config_key_count, out);
    describe(c, asked, &config_keys[position], out);
    out->source = (enum config_source)c->sources[position];
    return true;
}

bool config_setting_find(const struct config *c, const struct config *asked, const char *name,
                         struct config_setting *out)
{
    const struct config_key *k = config_key_find(name);
    if (k) return config_setting_at(c, asked, (uint32_t)(k - config_keys), out);
    struct config_setting found;
    for (uint32_t i = 0; describe_space(c, i, &found); i++) {
        if (strcmp(found.name, name) != 0) continue;
        *out = found;
        return true;
    }
    return false;
}
