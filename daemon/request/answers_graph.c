#include "daemon/request/answers_graph.h"

#include "daemon/report/cards_report.h"
#include "daemon/request/drops.h"
#include "daemon/request/records.h"
#include "daemon/request/writes.h"
#include "daemon/store/graph.h"
#include "daemon/wire/encode.h"

static void create(struct pipeline *p, struct job *j)
{
    struct failure none = {0};
    struct graph *g;
    bool there = !store_graph_find(p->store, j->space, j->request.names[0], &none, &g);
    if (!writes_create(p, j, there) ||
        store_graph_create(p->store, j->space, j->request.names[0], &j->failure, &g))
        return;
    j->result.version = graph_info(g).version;
    drops_note_made(net_find(p->net, j->key.connection), graph_resident(g));
    records_made(p, j, graph_resident(g));
}

size_t answer_graph_create(struct pipeline *p, struct job *j, void *at)
{
    struct graph_info info = {.name = j->request.names[0]};
    if (!writes_recall(p, j)) create(p, j);
    writes_end(p, j);
    if (j->failure.code) return 0;
    info.version = j->result.version;
    return encode_graph(j->operation, j->key.request_id, j, &info, at);
}

size_t answer_graph_describe(struct pipeline *p, struct job *j, void *at)
{
    struct graph *g;
    if (store_graph_find(p->store, j->space, j->request.names[0], &j->failure, &g)) return 0;
    struct graph_info info = cards_report_graph(p->gpu, g);
    return encode_graph(j->operation, j->key.request_id, NULL, &info, at);
}

size_t answer_graph_list(struct pipeline *p, const struct job *j, void *at)
{
    struct graph *found[64];
    struct graph_info infos[64];
    bool more;
    size_t count = store_graph_list(p->store, j->space, j->request.names[0], found, 64, &more);
    for (size_t i = 0; i < count; i++)
        infos[i] = cards_report_graph(p->gpu, found[i]);
    return encode_graph_list(j->key.request_id, infos, count, more, at);
}
