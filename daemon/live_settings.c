#include "daemon/live_settings.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/config_table.h"
#include "daemon/base/log.h"

static void apply(struct live_settings *l)
{
    pipeline_configure(l->pipeline);
    log_set_level_name(l->config->log_level);
}

enum status live_settings_refuse(const struct live_settings *l, const struct config *c,
                                 const struct failure *why, struct failure *f)
{
    enum { SHOWN_PATH_BYTES = 72 }; /* the end of it, so that the reason still fits */
    char name[CONFIG_SETTING_NAME_MAX];
    const char *from = "", *separator = ": ";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(why->text, ":"), why->text);
    const struct config_key *k = config_key_find(name);
    switch (k ? (enum config_source)c->sources[k - config_keys] : CONFIG_SET) {
    case CONFIG_SET: break;
    case CONFIG_COMMAND_LINE: from = "command line"; break;
    case CONFIG_DEFAULT:
    case CONFIG_FILE: from = l->path; break;
    }
    size_t bytes = strlen(from);
    if (!bytes) separator = "";
    if (bytes > SHOWN_PATH_BYTES) from += bytes - SHOWN_PATH_BYTES;
    return failure_set(f, why->code, why->detail, "%s%s%.148s", from, separator, why->text);
}

void live_settings_reload(struct live_settings *l)
{
    struct config fresh;
    struct failure f = {0};
    uint32_t ignored = 0;
    if (!l->path[0]) {
        log_info("SIGHUP: no configuration file is in use, nothing to re-read");
        return;
    }
    config_defaults(&fresh);
    enum status st = config_read_file(&fresh, l->path, &f);
    for (unsigned i = 0; !st && i < l->setting_count; i++)
        st = config_set(&fresh, l->settings[i], &f);
    if (!st) st = l->accept(l->owner, &fresh, &f);
    if (st) {
        log_error("SIGHUP: %s; the settings in use stay", f.text);
        return;
    }
    uint32_t changed = config_apply_live(l->config, &fresh, &ignored);
    l->asked = fresh;
    apply(l);
    log_info("SIGHUP: %s: %u live settings changed%s", l->path, changed,
             ignored ? "; others differ and want a restart" : "");
}

enum status live_settings_set(void *live, const char *name, const char *value, const char *who,
                              struct failure *f)
{
    struct live_settings *l = live;
    struct config_setting before, now;
    bool was = config_setting_find(l->config, &l->asked, name, &before);
    struct config fresh = *l->config;
    enum status st = config_set_live(&fresh, name, value, f);
    if (!st && strncmp(name, "metrics.", strlen("metrics.")) == 0)
        st = l->accept(l->owner, &fresh, f);
    if (st) return st;
    *l->config = fresh;
    apply(l);
    config_setting_find(l->config, &l->asked, name, &now);
    log_info("%s set %s: %s, was %s; until the file is read again or the daemon stops", who,
             now.name, now.value, was ? before.value : "as of all spaces");
    return STATUS_OK;
}
