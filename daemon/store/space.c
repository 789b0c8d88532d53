#include "daemon/store/space_inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"

/* ---- names ---- */

enum status space_name_parse(const char *text, char *name_out, struct failure *f)
{
    while (*text == ' ' || *text == '\t')
        text++;
    size_t length = strlen(text);
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    if (length == 0) {
        memcpy(name_out, "default", sizeof "default");
        return STATUS_OK;
    }
    if (length < 3 || length > SPACE_NAME_MAX)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SPACE,
                           "a space name has 3 to 64 bytes, not %zu", length);
    for (size_t i = 0; i < length; i++) {
        char ch = text[i];
        if ((ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') || ch == '_' || ch == '-')
            continue;
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SPACE,
                           "byte %zu of the space name is not one of [a-z0-9_-]", i);
    }
    memcpy(name_out, text, length);
    name_out[length] = 0;
    return STATUS_OK;
}

enum status collection_name_check(const char *name, struct failure *f)
{
    size_t length = strnlen(name, COLLECTION_NAME_MAX + 1), first = name_is_hidden(name);
    if (length <= first || length > COLLECTION_NAME_MAX)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NAME,
                           "a collection name has 1 to 64 bytes");
    for (size_t i = first; i < length; i++) {
        char ch = name[i];
        if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
            ch == '.' || ch == '_' || ch == '-')
            continue;
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NAME,
                           "byte %zu of the collection name is not one of [A-Za-z0-9._-]", i);
    }
    return STATUS_OK;
}

/* ---- spaces ---- */

/* What others keep of each: its tenant and tenancies, tables of names, quotas, tokens. */
enum { SPACE_OUTSIDE_BYTES = 3072 };

enum status store_space(struct store *s, const char *name, struct space **out)
{
    struct entry *e = NULL;
    HASH_FIND_STR(s->by_name, name, e);
    if (!e) {
        /* Numbers are never reused; when they run out, only existing spaces are served. */
        if (s->number_last == UINT32_MAX || fault_here("store: space"))
            return STATUS_RESOURCE_EXHAUSTED;
        e = calloc(1, sizeof *e);
        if (!e) return STATUS_RESOURCE_EXHAUSTED;
        strncpy(e->space.name, name, SPACE_NAME_MAX);
        e->space.number = s->number_last + 1;
        e->space.versions = &s->versions;
        e->space.residents_named = &s->residents_named;
        e->space.calm = &s->calm;
        e->outside.heap = s->heap;
        if (!outside_count(&e->outside, sizeof *e + SPACE_OUTSIDE_BYTES))
            HASH_ADD_STR(s->by_name, space.name, e);
        if (!e->hh.tbl) {
            outside_end(&e->outside);
            free(e);
            return STATUS_RESOURCE_EXHAUSTED;
        }
        s->number_last++;
        e->space.hh_next = s->spaces;
        s->spaces = &e->space;
    }
    e->space.users++;
    *out = &e->space;
    return STATUS_OK;
}

void store_space_release(struct store *s, struct space *space)
{
    if (--space->users || space_resident_count(space)) return;
    struct entry *e = (struct entry *)space;
    HASH_DEL(s->by_name, e);
    struct space **at = &s->spaces;
    while (*at != space)
        at = &(*at)->hh_next;
    *at = space->hh_next;
    s->forget(s->forget_owner, space);
    outside_end(&e->outside);
    free(e);
}

struct space *store_space_next(const struct store *s, const struct space *after)
{
    return after ? after->hh_next : s->spaces;
}

void store_on_forget(struct store *s, void (*forget)(void *owner, struct space *space), void *owner)
{
    s->forget = forget;
    s->forget_owner = owner;
}

enum status store_check_room(const struct store *s, const struct space *space, struct failure *f)
{
    uint64_t count = space_resident_count(space);
    if (count < s->collections_max) return STATUS_OK;
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_COLLECTIONS,
                       "the space has %" PRIu64 " collections, graphs and attractors, its bound "
                       "(limits.collections)",
                       count);
}
