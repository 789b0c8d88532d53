/* list: all objects of a kind, a page a request. */
#include <stdlib.h>
#include <string.h>

#include "client/calls/calls.h"

static ea_status ask_page(ea_client *c, const struct listing *l)
{
    struct client_request *r = ea_request_take(c, l->kind);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->answer = l->page;
    ea_status st = ea_build_end(c, r, EA_OK, l->fields, l->request, &r);
    return st ? st : ea_call(c, r, NULL);
}

/* Names and numbers must go on; otherwise a faulty daemon could make the library ask for ever. */
static bool page_goes_on(const struct listing *l)
{
    if (!l->name) {
        if (!*l->next) return true;
        return *l->count && (l->falls ? !*l->first || *l->next < *l->first : *l->next > *l->first);
    }
    const char *after = l->after;
    for (size_t i = 0; i < *l->count; i++) {
        if (strcmp(after, l->name(l->page, i)) >= 0) return false;
        after = l->name(l->page, i);
    }
    return *l->count || !*l->more;
}

/* Says in the request where the next page begins; false: there is none. */
static bool turn_page(const struct listing *l)
{
    if (!l->name) {
        *l->first = *l->next;
        return *l->next;
    }
    if (*l->count) {
        const char *last = l->name(l->page, *l->count - 1);
        memcpy(l->after, last, strlen(last) + 1);
    }
    return *l->more;
}

static bool add_page(const struct listing *l, char **list, size_t *used)
{
    char *larger = realloc(*list, (*used + *l->count + 1) * l->info_bytes);
    if (!larger) return false;
    *list = larger;
    for (size_t i = 0; i < *l->count; i++)
        l->copy(l->page, i, larger + (*used)++ * l->info_bytes, l->info_bytes);
    return true;
}

ea_status ea_list_all(ea_client *c, const struct listing *l, void **out, size_t *count)
{
    char *list = NULL;
    size_t used = 0;
    ea_status st;
    do {
        st = ask_page(c, l);
        if (!st && !page_goes_on(l))
            st = ea_fail(c, EA_DATA_LOSS, EA_DETAIL_BAD_MESSAGE,
                         "the daemon's reply: a list out of order");
        if (!st && !add_page(l, &list, &used))
            st = ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY, "no memory for the list");
    } while (!st && turn_page(l));
    if (st) {
        free(list);
        return st;
    }
    *out = list;
    *count = used;
    return EA_OK;
}
