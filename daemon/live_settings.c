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

/* Reads what file and command line say, and takes what may change live, or nothing. */
static enum status take(struct live_settings *l, struct config_reload *out, struct failure *f)
{
    struct config fresh;
    if (!l->path[0])
        return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_NONE,
                           "no configuration file is in use: there is nothing to read again");
    config_defaults(&fresh);
    enum status st = config_read_file(&fresh, l->path, f);
    for (unsigned i = 0; !st && i < l->setting_count; i++)
        st = config_set(&fresh, l->settings[i], f);
    if (!st) st = l->accept(l->owner, &fresh, f);
    if (st) return st;
    out->file = l->path;
    out->changed = config_apply_live(l->config, &fresh, &out->want_restart);
    l->asked = fresh;
    apply(l);
    return STATUS_OK;
}

enum status live_settings_reload(void *live, const char *who, struct config_reload *out,
                                 struct failure *f)
{
    struct live_settings *l = live;
    enum status st = take(l, out, f);
    if (st) {
        l->reloads.refused++;
        if (st == STATUS_INVALID_ARGUMENT && !f->detail) f->detail = DETAIL_BAD_SETTING;
        log_error("%s: %s; the settings in use stay", who, f->text);
        return st;
    }
    l->reloads.taken++;
    log_info("%s: %s: %u live settings changed%s", who, l->path, out->changed,
             out->want_restart ? "; others differ and want a restart" : "");
    return STATUS_OK;
}

void live_settings_hangup(struct live_settings *l)
{
    struct config_reload out = {0};
    struct failure f = {0};
    (void)live_settings_reload(l, "SIGHUP", &out, &f);
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
