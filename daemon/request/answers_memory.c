#include "daemon/request/answers_memory.h"

#include <string.h>

#include "daemon/report/memory_report.h"

/* The space that is asked about, which a space alone or an operator may see. */
static struct space *find(const struct pipeline *p, const struct report_sources *from,
                          struct job *j)
{
    const char *name = j->request.names[0];
    if (!*name || strcmp(name, j->space->name) == 0) return j->space;
    if (!from->asking || !from->asking->is_operator) {
        failure_set(&j->failure, STATUS_PERMISSION_DENIED, DETAIL_NOT_OPERATOR,
                    "only root and the user that runs the daemon may ask about another space");
        return NULL;
    }
    struct space *s = store_space_next(p->store, NULL);
    while (s && strcmp(s->name, name) != 0)
        s = store_space_next(p->store, s);
    if (!s)
        failure_set(&j->failure, STATUS_NOT_FOUND, DETAIL_UNKNOWN_SPACE,
                    "there is no space '%.64s'", name);
    return s;
}

size_t answer_memory(const struct pipeline *p, const struct report_sources *from, struct job *j,
                     void *at)
{
    struct wire_memory page;
    struct space *s = find(p, from, j);
    if (!s) return 0;
    memory_report(from, s, j->request.offset, &page);
    return encode_memory(j->key.request_id, &page, at);
}

size_t answer_memory_history(const struct pipeline *p, const struct report_sources *from,
                             const struct job *j, void *at)
{
    struct wire_pools page;
    memory_history_page(&p->memory, from, j->request.offset, &page);
    return encode_memory_history(j->key.request_id, &page, at);
}
