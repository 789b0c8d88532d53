/* save: snapshots on the daemon's disk. */
#include <stdlib.h>
#include <string.h>

#include "client/calls/calls.h"

enum { SPACE_MAX = 64, PATH_MAX_BYTES = 1000 };

/* The names one behind the other, each with its 0. */
static ea_status join_spaces(ea_client *c, const ea_save_options *o, char **out, size_t *bytes)
{
    size_t at = 0;
    if (o->space_count && !o->spaces) return ea_fail_null(c, "spaces");
    char *all = malloc(o->space_count * (SPACE_MAX + 1) + 1);
    if (!all) return ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY, "no memory");
    for (size_t i = 0; i < o->space_count; i++) {
        const char *name = o->spaces[i];
        size_t length = name ? strlen(name) : 0;
        if (!length || length > SPACE_MAX) {
            free(all);
            return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SPACE,
                           "spaces: a name has 1 to %d bytes", SPACE_MAX);
        }
        memcpy(all + at, name, length + 1);
        at += length + 1;
    }
    *out = all;
    *bytes = at;
    return EA_OK;
}

ea_status ea_save(ea_client *c, const ea_save_options *options, ea_saved *out)
{
    static const ea_save_options defaults = {0};
    static const ea_saved none;
    if (!c) return EA_INVALID_ARGUMENT;
    ea_save_options o = defaults;
    if (options) ea_copy_struct(&o, sizeof o, options, c->sizes.save_options);
    size_t path_bytes = o.to ? strlen(o.to) : 0, names_bytes = 0;
    char *names = NULL;
    if (path_bytes > PATH_MAX_BYTES)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_MESSAGE, "to: longer than %d bytes",
                       PATH_MAX_BYTES);
    ea_status st = join_spaces(c, &o, &names, &names_bytes);
    if (st) return st;
    engram_accel_v1_SaveRequest m = {.dry_run = o.dry_run};
    engram_accel_v1_SaveReply reply = {0};
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_SAVE);
    if (!r) {
        free(names);
        return EA_RESOURCE_EXHAUSTED;
    }
    r->answer = &reply;
    r->repeatable = false;
    if (path_bytes) st = TENSOR(m, to, U8, o.to, path_bytes, 1);
    if (!st && names_bytes) st = TENSOR(m, spaces, U8, names, names_bytes, 1);
    st = ea_build_end(c, r, st, engram_accel_v1_SaveRequest_fields, &m, &r);
    if (!st) st = ea_call(c, r, NULL);
    free(names);
    if (st || !out) return st;
    ea_saved saved = none;
    memcpy(saved.path, reply.path, sizeof saved.path);
    ea_text_plain(saved.path);
    saved.number = reply.number;
    saved.objects = reply.objects;
    saved.bytes = reply.bytes;
    saved.linked_bytes = reply.linked_bytes;
    saved.free_bytes = reply.free_bytes;
    saved.version = reply.version;
    ea_copy_struct(out, c->sizes.saved, &saved, sizeof saved);
    return EA_OK;
}
