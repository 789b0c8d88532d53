/* Encodes the replies to ConfigGet, ConfigSet, Save and Spaces. */
#include "daemon/wire/encode_inside.h"

_Static_assert(REPLY_FITS(engram_accel_v1_ConfigGetReply_size, ENCODE_BYTES_MAX) &&
                   REPLY_FITS(engram_accel_v1_SpacesReply_size, ENCODE_BYTES_MAX),
               "ENCODE_BYTES_MAX holds a page of settings, and one of spaces");
_Static_assert(COUNT(((engram_accel_v1_ConfigGetReply *)0)->settings) == ENCODE_SETTINGS_MAX &&
                   COUNT(((engram_accel_v1_SpacesReply *)0)->spaces) == ENCODE_SPACES_MAX,
               "the schema has a place for each of a page");

static void fill_setting(engram_accel_v1_ConfigSetting *m, const struct config_setting *s)
{
    *m = (engram_accel_v1_ConfigSetting){
        .source = (engram_accel_v1_ConfigSource)s->source,
        .live = s->live,
        .wants_restart = s->wants_restart,
    };
    COPY_TEXT(m->name, s->name);
    COPY_TEXT(m->value, s->value);
    COPY_TEXT(m->asked, s->asked);
}

size_t encode_config_get(uint64_t request_id, const struct config_setting *settings, size_t count,
                         uint64_t next, void *buffer)
{
    engram_accel_v1_ConfigGetReply m;
    m.next = next;
    m.settings_count = (pb_size_t)count;
    for (size_t i = 0; i < count; i++)
        fill_setting(&m.settings[i], &settings[i]);
    struct frame_header h = {.kind = OPERATION_CONFIG_GET, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_ConfigGetReply_fields, &m, buffer);
}

size_t encode_config_set(uint64_t request_id, const struct config_setting *setting,
                         const char *before, void *buffer)
{
    engram_accel_v1_ConfigSetReply m = {.has_setting = true};
    fill_setting(&m.setting, setting);
    COPY_TEXT(m.before, before);
    struct frame_header h = {.kind = OPERATION_CONFIG_SET, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_ConfigSetReply_fields, &m, buffer);
}

size_t encode_config_reload(uint64_t request_id, const struct config_reload *done, void *buffer)
{
    engram_accel_v1_ConfigReloadReply m = {.changed = done->changed,
                                           .want_restart = done->want_restart};
    COPY_TEXT(m.file, done->file);
    struct frame_header h = {.kind = OPERATION_CONFIG_RELOAD, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_ConfigReloadReply_fields, &m, buffer);
}

size_t encode_save(uint64_t request_id, const struct wire_saved *saved, void *buffer)
{
    engram_accel_v1_SaveReply m = {.number = saved->number,
                                   .objects = saved->objects,
                                   .bytes = saved->bytes,
                                   .linked_bytes = saved->linked_bytes,
                                   .free_bytes = saved->free_bytes,
                                   .version = saved->version};
    COPY_TEXT(m.path, saved->path);
    struct frame_header h = {.kind = OPERATION_SAVE, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_SaveReply_fields, &m, buffer);
}

size_t encode_spaces(uint64_t request_id, const struct wire_space *spaces, size_t count, bool more,
                     void *buffer)
{
    engram_accel_v1_SpacesReply m;
    m.more = more;
    m.spaces_count = (pb_size_t)count;
    for (size_t i = 0; i < count; i++) {
        const struct wire_space *s = &spaces[i];
        m.spaces[i] = (engram_accel_v1_SpaceInfo){
            .own = s->own,
            .collections = s->collections,
            .rows = s->rows,
            .graphs = s->graphs,
            .graph_nodes = s->graph_nodes,
            .graph_edges = s->graph_edges,
            .attractors = s->attractors,
            .attractor_patterns = s->attractor_patterns,
            .vram_bytes = s->vram_bytes,
            .has_use = true,
            .use = encode_space_stats(&s->use),
        };
        COPY_TEXT(m.spaces[i].name, s->name);
    }
    struct frame_header h = {.kind = OPERATION_SPACES, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_SpacesReply_fields, &m, buffer);
}
