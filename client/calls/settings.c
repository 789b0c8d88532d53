/* settings: calls about the daemon's settings and spaces. */
#include <stdlib.h>
#include <string.h>

#include "client/calls/calls.h"
#include "client/replies/replies.h"

/* ---- spaces ---- */

static const char *space_name_at(const void *page, size_t i)
{
    return ((const engram_accel_v1_SpacesReply *)page)->spaces[i].name;
}

static void copy_space_at(const void *page, size_t i, void *to, size_t bytes)
{
    const engram_accel_v1_SpaceInfo *m = &((const engram_accel_v1_SpacesReply *)page)->spaces[i];
    ea_space_info info = {
        .own = m->own,
        .collections = m->collections,
        .rows = m->rows,
        .graphs = m->graphs,
        .graph_nodes = m->graph_nodes,
        .graph_edges = m->graph_edges,
        .attractors = m->attractors,
        .attractor_patterns = m->attractor_patterns,
        .vram_bytes = m->vram_bytes,
    };
    memcpy(info.name, m->name, sizeof info.name);
    ea_report_space(&m->use, &info.use);
    ea_copy_struct(to, bytes, &info, sizeof info);
}

ea_status ea_get_spaces(ea_client *c, ea_space_info **out, size_t *count)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail_null(c, "out or count");
    engram_accel_v1_SpacesRequest m = {0};
    engram_accel_v1_SpacesReply page;
    const struct listing listing = {
        .kind = engram_accel_v1_Kind_KIND_SPACES,
        .fields = engram_accel_v1_SpacesRequest_fields,
        .request = &m,
        .after = m.after,
        .page = &page,
        .count = &page.spaces_count,
        .more = &page.more,
        .name = space_name_at,
        .copy = copy_space_at,
        .info_bytes = c->sizes.space_info,
    };
    void *list;
    ea_status st = ea_list_all(c, &listing, &list, count);
    if (!st) *out = list;
    return st;
}

void ea_spaces_free(ea_space_info *list)
{
    free(list);
}

/* ---- settings ---- */

static void take_setting(const engram_accel_v1_ConfigSetting *m, ea_setting *out)
{
    *out = (ea_setting){
        .source = (ea_setting_source)m->source,
        .live = m->live,
        .wants_restart = m->wants_restart,
    };
    memcpy(out->name, m->name, sizeof out->name);
    memcpy(out->value, m->value, sizeof out->value);
    memcpy(out->asked, m->asked, sizeof out->asked);
    ea_text_plain(out->name);
    ea_text_plain(out->value);
    ea_text_plain(out->asked);
}

static void copy_setting_at(const void *page, size_t i, void *to, size_t bytes)
{
    ea_setting setting;
    take_setting(&((const engram_accel_v1_ConfigGetReply *)page)->settings[i], &setting);
    ea_copy_struct(to, bytes, &setting, sizeof setting);
}

ea_status ea_config_get(ea_client *c, ea_setting **out, size_t *count)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail_null(c, "out or count");
    engram_accel_v1_ConfigGetRequest m = {0};
    engram_accel_v1_ConfigGetReply page = {0};
    const struct listing listing = {
        .kind = engram_accel_v1_Kind_KIND_CONFIG_GET,
        .fields = engram_accel_v1_ConfigGetRequest_fields,
        .request = &m,
        .page = &page,
        .count = &page.settings_count,
        .first = &m.first,
        .next = &page.next,
        .copy = copy_setting_at,
        .info_bytes = c->sizes.setting,
    };
    void *list;
    ea_status st = ea_list_all(c, &listing, &list, count);
    if (!st) *out = list;
    return st;
}

void ea_settings_free(ea_setting *list)
{
    free(list);
}

/* Copies text that has to fit; false if it does not. */
static bool put(char *to, size_t bytes, const char *text, size_t used)
{
    if (used >= bytes) return false;
    memcpy(to, text, used);
    to[used] = 0;
    return true;
}

/* "spaces.alpha.weight" is the quota weight of space alpha. */
static bool put_name(engram_accel_v1_ConfigSetRequest *m, const char *name)
{
    static const char of_spaces[] = "spaces.";
    const char *space = name + strlen(of_spaces), *dot = NULL;
    if (strncmp(name, of_spaces, strlen(of_spaces)) == 0) dot = strchr(space, '.');
    if (!dot) return put(m->name, sizeof m->name, name, strlen(name));
    return put(m->space, sizeof m->space, space, (size_t)(dot - space)) &&
           put(m->name, sizeof m->name, dot + 1, strlen(dot + 1));
}

ea_status ea_config_set(ea_client *c, const char *name, const char *value, ea_setting *now,
                        char before[257])
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!name || !value) return ea_fail_null(c, "name or value");
    engram_accel_v1_ConfigSetRequest m = {0};
    engram_accel_v1_ConfigSetReply reply = {0};
    if (!put_name(&m, name) || !put(m.value, sizeof m.value, value, strlen(value)))
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SETTING,
                       "%.40s: no live setting has a name or value as long as that", name);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_CONFIG_SET);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->answer = &reply;
    r->repeatable = false;
    ea_status st = ea_build_end(c, r, EA_OK, engram_accel_v1_ConfigSetRequest_fields, &m, &r);
    if (!st) st = ea_call(c, r, NULL);
    if (st) return st;
    ea_setting setting;
    take_setting(&reply.setting, &setting);
    if (now) ea_copy_struct(now, c->sizes.setting, &setting, sizeof setting);
    if (before) memcpy(before, reply.before, sizeof reply.before), ea_text_plain(before);
    return EA_OK;
}

ea_status ea_config_reload(ea_client *c, uint32_t *changed, uint32_t *want_restart)
{
    if (!c) return EA_INVALID_ARGUMENT;
    engram_accel_v1_ConfigReloadReply reply = {0};
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_CONFIG_RELOAD);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->answer = &reply;
    ea_status st = ea_build_end(c, r, EA_OK, NULL, NULL, &r);
    if (!st) st = ea_call(c, r, NULL);
    if (st) return st;
    if (changed) *changed = reply.changed;
    if (want_restart) *want_restart = reply.want_restart;
    return EA_OK;
}
