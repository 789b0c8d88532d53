/* fuzz_client_reply: what a daemon may send to the client library. Input: bytes of the stream after
 * Hello. The handle has one request of every kind in flight, with ids 1 to REPLY_REQUESTS in the
 * order of `kinds`; every result that reaches a callback is read from end to end. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client.h"
#include "daemon/base/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    uint8_t kind;
    struct expectation expect;
} kinds[] = {
    {2, {0}},
    {3, {0}},
    {4, {0}},
    {16, {0}},
    {17, {0}},
    {18, {0}},
    {19, {0}},
    {20, {0}},
    {21, {0}},
    {22, {.rows = 3}},
    {22, {.rows = 3, .by_position = true}},
    {32, {.queries = 2, .columns_max = UINT64_MAX}},
    {32, {.queries = 2, .columns_max = 3, .threshold = true}},
    {32, {.queries = 2, .rows = 5, .columns_max = 5, .inline_rows = true}},
    {33, {.queries = 2, .columns_max = 3}},
    {34, {.queries = 2, .rows = 5, .columns_max = 3}},
    {34, {.queries = 2, .rows = 5, .all_scores = true}},
    {35, {.rows = 5}},
    {36, {.dimension = 4}},
    {36, {.dimension = 0}},
    {6, {0}},
    {37, {.queries = 2, .columns_max = UINT64_MAX}},
    {37, {.queries = 2, .columns_max = 3, .paths = true}},
    {48, {0}},
    {49, {0}},
    {50, {0}},
    {51, {0}},
    {52, {0}},
    {53, {0}},
    {54, {0}},
    {55, {0}},
    {56, {0}},
    {57, {.rows = 3}},
    {57, {.rows = 3, .edges = true}},
    {47, {.queries = 2, .columns_max = 3}},
    {47, {.queries = 2, .columns_max = 3, .paths = true}},
    {72, {.dimension = 0}},
    {72, {.dry = true}},
    {73, {.rows = 3}},
    {73, {.by_position = true}},
    {73, {.dry = true}},
};
enum { REPLY_REQUESTS = sizeof kinds / sizeof *kinds };

static unsigned answered;
static volatile unsigned long sink;

static void read_bytes(const void *data, uint64_t bytes)
{
    const unsigned char *at = data;
    unsigned long sum = 0;
    for (uint64_t i = 0; data && i < bytes; i++)
        sum += at[i];
    sink = sum;
}

/* A column of n, each of so many bytes; and lists in another that these lead to. */
static void read_lists(const uint64_t *offsets, uint64_t lists, const void *data, uint64_t bytes)
{
    for (uint64_t i = 0; i < lists; i++)
        if (offsets[i + 1] > offsets[i])
            read_bytes((const char *)data + offsets[i] * bytes,
                       (offsets[i + 1] - offsets[i]) * bytes);
}

static void walk_spread(const ea_spread_result *r)
{
    read_lists(r->offsets, r->sets, r->ids, 8);
    read_lists(r->offsets, r->sets, r->activations, 4);
    read_lists(r->offsets, r->sets, r->confidences, 4);
    read_lists(r->offsets, r->sets, r->visits, 4);
    read_lists(r->offsets, r->sets, r->depths, 4);
    read_bytes(r->touched, r->sets * 8);
    read_bytes(r->cycles, r->sets * 8);
    read_bytes(r->truncated, r->sets);
    read_bytes(r->tier_sums, r->sets * 12);
    if (!r->path_offsets) return;
    read_lists(r->path_offsets, r->count, r->path_ids, 8);
    for (uint64_t i = 0; i < r->count; i++)
        if (r->path_ids[r->path_offsets[i + 1] - 1] != r->ids[i]) abort();
}

static void walk_recall(const ea_recall_result *r)
{
    read_lists(r->offsets, r->lists, r->ids, 8);
    read_lists(r->offsets, r->lists, r->activations, 4);
    read_lists(r->offsets, r->lists, r->scores, 4);
    read_lists(r->offsets, r->lists, r->marks, 1);
    read_lists(r->offsets, r->lists, r->depths, 4);
    read_bytes(r->seeds, r->lists * 8);
    read_bytes(r->hops, r->lists * 4);
    read_bytes(r->touched, r->lists * 8);
    read_bytes(r->truncated, r->lists);
    if (!r->path_offsets) return;
    read_lists(r->path_offsets, r->count, r->path_ids, 8);
    for (uint64_t i = 0; i < r->count; i++)
        if (r->path_ids[r->path_offsets[i + 1] - 1] != r->ids[i]) abort();
}

static void walk_nodes(const ea_nodes *n)
{
    read_bytes(n->found, n->count);
    read_bytes(n->kinds, n->count);
    read_bytes(n->factors, n->count * 4);
    read_bytes(n->out_counts, n->count * 4);
    read_bytes(n->in_counts, n->count * 4);
    if (!n->offsets) return;
    read_lists(n->offsets, n->count, n->targets, 8);
    read_lists(n->offsets, n->count, n->weights, 4);
}

static void walk_covariance(const ea_covariance_result *r)
{
    read_bytes(r->mean, r->dimension * 8);
    read_bytes(r->covariance, r->dimension * r->dimension * 8);
}

static void walk_clusters(const ea_clusters *r)
{
    read_bytes(r->labels, r->rows * 4);
    read_bytes(r->ids, r->ids ? r->rows * 8 : 0);
    read_bytes(r->sizes, r->count * 4);
    read_bytes(r->scores, r->count * 4);
    read_bytes(r->centroids, r->count * r->dimension * 4);
    for (uint64_t i = 0; i < r->rows; i++)
        if (r->labels[i] != EA_NO_CLUSTER && r->labels[i] >= r->count) abort();
}

/* Every third one ends its request. */
static bool hear(ea_client *c, const ea_progress_report *report, void *user)
{
    static unsigned heard;
    (void)user;
    if (!ea_phase_name(report->phase) || !report->operation || !ea_error_text(c)) abort();
    if (report->total && report->done > report->total) abort();
    return ++heard % 3;
}

static void walk(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status st = answer->status;
    ea_result *r = answer->result;
    answered++;
    if (st) {
        if (r || !ea_error_text(c)) abort();
        return;
    }
    if (answer->spread) walk_spread(answer->spread);
    if (answer->nodes) walk_nodes(answer->nodes);
    if (answer->recalled) walk_recall(answer->recalled);
    if (answer->covariance) walk_covariance(answer->covariance);
    if (answer->clusters) walk_clusters(answer->clusters);
    if (!r) return;
    read_bytes(r->meta, sizeof *r->meta);
    if (r->offsets) {
        read_bytes(r->offsets, (r->rows + 1) * 8);
        for (uint64_t i = 0; i < r->rows; i++)
            for (uint64_t h = r->offsets[i]; h < r->offsets[i + 1]; h++) {
                read_bytes(r->ids + h, 8);
                read_bytes(r->scores + h, 4);
            }
    } else {
        read_bytes(r->scores, r->rows * r->columns * 4);
    }
    for (uint64_t i = 0; r->counts && i < r->rows; i++)
        if (r->counts[i]) read_bytes(r->ids + i * r->columns, r->counts[i] * UINT64_C(8));
    read_bytes(r->vectors, r->rows * r->columns * 4);
    read_bytes(r->found, r->rows);
}

static void submit_all(ea_client *c)
{
    static union { /* pages of lists have no place of their own in a request */
        engram_accel_v1_CollectionListReply list;
        engram_accel_v1_GraphListReply graphs;
    } pages[REPLY_REQUESTS];
    for (size_t i = 0; i < REPLY_REQUESTS; i++) {
        struct client_request *r = ea_request_take(c, kinds[i].kind);
        if (!r) abort();
        r->expect = kinds[i].expect;
        r->owner = OWNER_CALLBACK;
        r->callback = walk;
        r->progress = hear;
        if (kinds[i].kind == OPERATION_COLLECTION_LIST || kinds[i].kind == OPERATION_GRAPH_LIST)
            r->answer = &pages[i];
        if (ea_answer_prepare(c, r)) abort();
        if (ea_submit(c, r)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];
    ea_client *c;
    if (size > 100000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair)) return 0;
    if (ea_open(NULL, &c)) abort();
    c->fd = pair[0];
    c->link = LINK_READY;
    c->limits.body_bytes_max = 1;
    answered = 0;
    submit_all(c);
    ea_flush(c);
    /* The daemon says it all, in two pieces, and goes. */
    size_t first = size ? data[size - 1] % size : 0;
    ssize_t wrote = write(pair[1], data, first);
    ea_pump(c, 0);
    if (c->fd >= 0 && wrote == (ssize_t)first) wrote = write(pair[1], data + first, size - first);
    (void)wrote;
    close(pair[1]);
    while (c->fd >= 0)
        ea_pump(c, 0);
    while (ea_pending(c))
        ea_pump(c, 0);
    if (answered != REPLY_REQUESTS) abort();
    ea_close(c);
    return 0;
}
