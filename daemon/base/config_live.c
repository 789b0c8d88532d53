#include <string.h>

#include "daemon/base/config_table.h"

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

uint32_t config_apply_live(struct config *c, const struct config *from, uint32_t *ignored)
{
    uint32_t changed = 0, others = 0;
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        size_t bytes = field_bytes(k);
        if (memcmp(config_field(c, k), config_field(from, k), bytes) == 0) continue;
        if (k->live) {
            memcpy(config_field(c, k), config_field(from, k), bytes);
            changed++;
        } else {
            others++;
        }
    }
    if (c->space_count != from->space_count ||
        memcmp(c->spaces, from->spaces, sizeof c->spaces) != 0) {
        c->space_count = from->space_count;
        memcpy(c->spaces, from->spaces, sizeof c->spaces);
        changed++;
    }
    if (ignored) *ignored = others;
    return changed;
}
