#include "daemon/request/answers_settings.h"

#include <stdio.h>
#include <string.h>

#include "daemon/wire/encode.h"

static const struct config *asked_of(const struct pipeline *p)
{
    return p->asked ? p->asked : p->config;
}

/* Quotas of other spaces are none of a space's business. */
static bool may_see(const struct connection *c, const struct job *j, const struct config_setting *s)
{
    return !s->space || c->peer->is_operator || strcmp(s->space, j->space->name) == 0;
}

size_t answer_config_get(struct pipeline *p, const struct connection *c, const struct job *j,
                         void *at)
{
    struct config_setting page[ENCODE_SETTINGS_MAX + 1];
    uint64_t position = j->request.offset, next = 0;
    size_t count = 0;
    while (position < UINT32_MAX && !next &&
           config_setting_at(p->config, asked_of(p), (uint32_t)position, &page[count])) {
        if (may_see(c, j, &page[count]) && count++ == ENCODE_SETTINGS_MAX) next = position;
        position++;
    }
    return encode_config_get(j->key.request_id, page, next ? count - 1 : count, next, at);
}

size_t answer_config_set(struct pipeline *p, const struct connection *c, struct job *j, void *at)
{
    const char *key = j->request.names[0], *space = j->request.names[1];
    const char *value = j->request.names[2];
    char name[2 * CONFIG_SETTING_NAME_MAX];
    struct config_setting before = {0}, now = {0};
    snprintf(name, sizeof name, "%s%s%s%s", *space ? "spaces." : "", space, *space ? "." : "", key);
    if (!c->peer->is_operator) {
        failure_set(&j->failure, STATUS_PERMISSION_DENIED, DETAIL_NOT_OPERATOR,
                    "%.100s: only root and the user that runs the daemon may set it", name);
        return 0;
    }
    if (!p->set_setting) {
        failure_set(&j->failure, STATUS_FAILED_PRECONDITION, DETAIL_NOT_LIVE,
                    "%.100s: nothing may be set here", name);
        return 0;
    }
    config_setting_find(p->config, asked_of(p), name, &before);
    if (p->set_setting(p->settings_owner, name, value, c->peer->name, &j->failure)) return 0;
    config_setting_find(p->config, asked_of(p), name, &now);
    return encode_config_set(j->key.request_id, &now, before.value, at);
}

size_t answer_config_reload(struct pipeline *p, const struct connection *c, struct job *j, void *at)
{
    struct config_reload done;
    if (!c->peer->is_operator) {
        failure_set(&j->failure, STATUS_PERMISSION_DENIED, DETAIL_NOT_OPERATOR,
                    "only root and the user that runs the daemon may have its file read again");
        return 0;
    }
    if (!p->reload_settings) {
        failure_set(&j->failure, STATUS_FAILED_PRECONDITION, DETAIL_NOT_LIVE,
                    "nothing may be read again here");
        return 0;
    }
    if (p->reload_settings(p->settings_owner, c->peer->name, &done, &j->failure)) return 0;
    return encode_config_reload(j->key.request_id, &done, at);
}
