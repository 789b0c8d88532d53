/* Replies about graphs, and of a spread, that lie. */
#include "client/replies/replies.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <pb_encode.h>

#include "tests/support/fake_daemon.h"

/* Too much memory is a case here, not a fault. */
__attribute__((weak, visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

__attribute__((weak, visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static struct client_request request;
static struct note note;

/* The body is zeros. */
static ea_status parse(int kind, struct expectation e, const pb_msgdesc_t *fields, const void *m,
                       uint64_t body_bytes, void *out)
{
    uint8_t message[1024];
    pb_ostream_t stream = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&stream, fields, m));
    uint8_t *exact = malloc(stream.bytes_written + 1);
    memcpy(exact, message, stream.bytes_written);
    ea_result_free(&request.result);
    request = (struct client_request){.kind = (uint8_t)kind, .expect = e, .answer = out};
    ea_status st =
        ea_reply_parse(&request, exact, (uint32_t)stream.bytes_written, body_bytes, &note);
    free(exact);
    if (st == EA_OK && request.body) memset(request.body, 0, body_bytes);
    return st;
}

static engram_accel_v1_Tensor tensor(int dtype, uint64_t rows, uint64_t columns)
{
    return (engram_accel_v1_Tensor){(engram_accel_v1_Dtype)dtype, rows, columns};
}
#define HAVE(member, dtype, rows, columns) \
    .has_##member = true, .member = tensor((dtype), (rows), (columns))

/* ---- nodes ---- */

static ea_nodes nodes;

static ea_status parse_nodes(uint64_t n, bool edges, const engram_accel_v1_GraphFetchNodesReply *m,
                             uint64_t body_bytes)
{
    return parse(57, (struct expectation){.rows = n, .edges = edges},
                 engram_accel_v1_GraphFetchNodesReply_fields, m, body_bytes, &nodes);
}

static engram_accel_v1_GraphFetchNodesReply good_nodes(void)
{
    return (engram_accel_v1_GraphFetchNodesReply){
        HAVE(found, 4, 3, 1),      HAVE(kinds, 4, 3, 1),     HAVE(factors, 1, 3, 1),
        HAVE(out_counts, 3, 3, 1), HAVE(in_counts, 3, 3, 1), HAVE(offsets, 2, 4, 1),
        HAVE(targets, 2, 5, 1),    HAVE(weights, 1, 5, 1)};
}

Test(hostile_graphs, shapes_of_nodes)
{
    engram_accel_v1_GraphFetchNodesReply m = good_nodes();
    cr_assert_eq(parse_nodes(3, true, &m, 512), EA_OK);
    cr_assert_eq((const char *)nodes.weights - (const char *)nodes.found, 448);
    cr_assert_eq(parse_nodes(3, true, &m, 448), EA_DATA_LOSS);
    cr_assert_eq(parse_nodes(3, true, &m, 576), EA_DATA_LOSS);
    cr_assert_eq(parse_nodes(4, true, &m, 512), EA_DATA_LOSS, "of more than was asked for");
    cr_assert_eq(parse_nodes(2, true, &m, 512), EA_DATA_LOSS);
    cr_assert_eq(parse_nodes(3, false, &m, 512), EA_DATA_LOSS, "edges that nobody wanted");
    engram_accel_v1_Tensor *tensors[] = {&m.found,     &m.kinds,   &m.factors, &m.out_counts,
                                         &m.in_counts, &m.offsets, &m.targets, &m.weights};
    bool *there[] = {&m.has_found,     &m.has_kinds,   &m.has_factors, &m.has_out_counts,
                     &m.has_in_counts, &m.has_offsets, &m.has_targets, &m.has_weights};
    for (size_t i = 0; i < 8; i++) {
        engram_accel_v1_Tensor was = *tensors[i];
        for (int change = -1; change <= 1; change += 2) {
            tensors[i]->rows = was.rows + (uint64_t)change;
            cr_assert_eq(parse_nodes(3, true, &m, 512), EA_DATA_LOSS, "tensor %zu", i);
        }
        *tensors[i] = tensor((int)was.dtype, was.rows, 2);
        cr_assert_eq(parse_nodes(3, true, &m, 512), EA_DATA_LOSS, "tensor %zu", i);
        *tensors[i] = tensor(5, was.rows, 1);
        cr_assert_eq(parse_nodes(3, true, &m, 512), EA_DATA_LOSS, "tensor %zu", i);
        *tensors[i] = tensor((int)was.dtype, UINT64_MAX / 2, 1);
        cr_assert_eq(parse_nodes(3, true, &m, 512), EA_DATA_LOSS, "tensor %zu", i);
        *tensors[i] = was;
        *there[i] = false;
        cr_assert_eq(parse_nodes(3, true, &m, 448), EA_DATA_LOSS, "tensor %zu", i);
        *there[i] = true;
    }
    m.has_offsets = m.has_targets = m.has_weights = false;
    cr_assert_eq(parse_nodes(3, false, &m, 320), EA_OK);
    cr_assert_eq(parse_nodes(3, true, &m, 320), EA_DATA_LOSS);
    m = (engram_accel_v1_GraphFetchNodesReply){0};
    cr_assert_eq(parse_nodes(0, false, &m, 0), EA_OK);
    cr_assert_eq(ea_reply_check(&request, &note), EA_OK);
    cr_assert_eq(parse_nodes(0, true, &m, 0), EA_DATA_LOSS);
    const uint64_t huge = UINT64_C(1) << 50; /* what nobody has memory for */
    m = (engram_accel_v1_GraphFetchNodesReply){
        HAVE(found, 4, huge, 1), HAVE(kinds, 4, huge, 1), HAVE(factors, 1, huge, 1),
        HAVE(out_counts, 3, huge, 1), HAVE(in_counts, 3, huge, 1)};
    cr_assert_eq(parse_nodes(huge, false, &m, huge * 14), EA_RESOURCE_EXHAUSTED);
    cr_assert_null(request.result.memory);
}

Test(hostile_graphs, numbers_of_nodes)
{
    const struct {
        uint64_t offsets[4];
        uint32_t counts[3];
        ea_status want;
    } cases[] = {
        {{0, 1, 1, 5}, {1, 0, 4}, EA_OK},        {{0, 1, 1, 5}, {1, 0, 5}, EA_DATA_LOSS},
        {{1, 1, 1, 5}, {0, 0, 4}, EA_DATA_LOSS}, {{0, 2, 1, 5}, {2, 0, 4}, EA_DATA_LOSS},
        {{0, 1, 1, 4}, {1, 0, 3}, EA_DATA_LOSS}, {{0, 1, 1, 6}, {1, 0, 5}, EA_DATA_LOSS},
        {{0, 0, 0, 0}, {0, 0, 0}, EA_DATA_LOSS}, {{0, UINT64_MAX, 1, 5}, {1, 0, 4}, EA_DATA_LOSS},
    };
    engram_accel_v1_GraphFetchNodesReply m = good_nodes();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(parse_nodes(3, true, &m, 512), EA_OK);
        memcpy((void *)nodes.offsets, cases[i].offsets, sizeof cases[i].offsets);
        memcpy((void *)nodes.out_counts, cases[i].counts, sizeof cases[i].counts);
        cr_assert_eq(ea_reply_check(&request, &note), cases[i].want, "case %zu", i);
    }
    ea_result_free(&request.result);
}

/* ---- spread ---- */

static ea_spread_result spread;

static ea_status parse_spread(uint64_t sets, bool paths, const engram_accel_v1_SpreadReply *m,
                              uint64_t body_bytes)
{
    return parse(37,
                 (struct expectation){.queries = sets, .columns_max = UINT64_MAX, .paths = paths},
                 engram_accel_v1_SpreadReply_fields, m, body_bytes, &spread);
}

/* Two sets, three nodes, paths of six ids. */
static engram_accel_v1_SpreadReply good_spread(void)
{
    return (engram_accel_v1_SpreadReply){
        HAVE(offsets, 2, 3, 1),     HAVE(ids, 2, 3, 1),          HAVE(activations, 1, 3, 1),
        HAVE(confidences, 1, 3, 1), HAVE(visits, 3, 3, 1),       HAVE(depths, 3, 3, 1),
        HAVE(touched, 2, 2, 1),     HAVE(cycles, 2, 2, 1),       HAVE(truncated, 4, 2, 1),
        HAVE(tier_sums, 1, 2, 3),   HAVE(path_offsets, 2, 4, 1), HAVE(path_ids, 2, 6, 1)};
}

Test(hostile_graphs, shapes_of_a_spread)
{
    enum { ALL = 12 * 64 };
    engram_accel_v1_SpreadReply m = good_spread();
    cr_assert_eq(parse_spread(2, true, &m, ALL), EA_OK, "%s", note.text);
    cr_assert_eq((const char *)spread.path_ids - (const char *)spread.offsets, 11 * 64);
    cr_assert_eq(parse_spread(2, true, &m, ALL - 64), EA_DATA_LOSS);
    cr_assert_eq(parse_spread(2, true, &m, ALL + 64), EA_DATA_LOSS);
    cr_assert_eq(parse_spread(1, true, &m, ALL), EA_DATA_LOSS, "of more sets than were asked for");
    cr_assert_eq(parse_spread(3, true, &m, ALL), EA_DATA_LOSS);
    cr_assert_eq(parse_spread(2, false, &m, ALL), EA_DATA_LOSS, "paths that nobody wanted");
    engram_accel_v1_Tensor *tensors[] = {
        &m.offsets, &m.ids,    &m.activations, &m.confidences, &m.visits,       &m.depths,
        &m.touched, &m.cycles, &m.truncated,   &m.tier_sums,   &m.path_offsets, &m.path_ids};
    bool *there[] = {&m.has_offsets,   &m.has_ids,       &m.has_activations,  &m.has_confidences,
                     &m.has_visits,    &m.has_depths,    &m.has_touched,      &m.has_cycles,
                     &m.has_truncated, &m.has_tier_sums, &m.has_path_offsets, &m.has_path_ids};
    for (size_t i = 0; i < 12; i++) {
        engram_accel_v1_Tensor was = *tensors[i];
        for (int change = -1; change <= 1 && i < 11; change += 2) { /* any number of path ids */
            tensors[i]->rows = was.rows + (uint64_t)change;
            cr_assert_eq(parse_spread(2, true, &m, ALL), EA_DATA_LOSS, "tensor %zu", i);
        }
        *tensors[i] = tensor((int)was.dtype, was.rows, 2);
        cr_assert_eq(parse_spread(2, true, &m, ALL), EA_DATA_LOSS, "tensor %zu", i);
        *tensors[i] = tensor(5, was.rows, was.columns);
        cr_assert_eq(parse_spread(2, true, &m, ALL), EA_DATA_LOSS, "tensor %zu", i);
        *tensors[i] = tensor((int)was.dtype, UINT64_MAX, 1);
        cr_assert_eq(parse_spread(2, true, &m, ALL), EA_DATA_LOSS, "tensor %zu", i);
        *tensors[i] = tensor((int)was.dtype, was.rows, 0); /* no bytes, but rows */
        cr_assert_eq(parse_spread(2, true, &m, ALL - 64), EA_DATA_LOSS, "tensor %zu", i);
        *tensors[i] = was;
        *there[i] = false;
        ea_status st = parse_spread(2, true, &m, ALL - 64);
        if (i < 11)
            cr_assert_eq(st, EA_DATA_LOSS, "tensor %zu", i);
        else /* no ids at all are a shape; the numbers are then wrong */
            cr_assert(st || ea_reply_check(&request, &note) == EA_DATA_LOSS);
        *there[i] = true;
    }
    m.has_path_offsets = m.has_path_ids = false;
    cr_assert_eq(parse_spread(2, false, &m, ALL - 128), EA_OK);
    cr_assert_eq(parse_spread(2, true, &m, ALL - 128), EA_DATA_LOSS);
    m = good_spread(); /* nothing was touched */
    m.has_ids = m.has_activations = m.has_confidences = m.has_visits = m.has_depths = false;
    m.has_path_ids = false;
    m.path_offsets.rows = 1;
    cr_assert_eq(parse_spread(2, true, &m, 6 * 64), EA_OK, "%s", note.text);
    cr_assert_eq(ea_reply_check(&request, &note), EA_OK);
    cr_assert(spread.count == 0 && !spread.ids && !spread.path_ids);
    ea_result_free(&request.result);
}

Test(hostile_graphs, numbers_of_a_spread)
{
    static const uint64_t ids[3] = {7, 8, 9}, path_ids[6] = {7, 1, 8, 1, 2, 9};
    const struct {
        uint64_t k, offsets[3], path_offsets[4];
        ea_status want;
    } cases[] = {
        {3, {0, 1, 3}, {0, 1, 3, 6}, EA_OK},
        {2, {0, 1, 3}, {0, 1, 3, 6}, EA_OK},
        {1, {0, 1, 3}, {0, 1, 3, 6}, EA_DATA_LOSS}, /* more than the best k */
        {3, {0, 4, 3}, {0, 1, 3, 6}, EA_DATA_LOSS},
        {3, {1, 1, 3}, {0, 1, 3, 6}, EA_DATA_LOSS},
        {3, {0, 1, 2}, {0, 1, 3, 6}, EA_DATA_LOSS},
        {3, {0, 1, UINT64_MAX}, {0, 1, 3, 6}, EA_DATA_LOSS},
        {3, {0, 1, 3}, {0, 1, 3, 5}, EA_DATA_LOSS},
        {3, {0, 1, 3}, {1, 1, 3, 6}, EA_DATA_LOSS},
        {3, {0, 1, 3}, {0, 3, 1, 6}, EA_DATA_LOSS},
        {3, {0, 1, 3}, {0, 0, 3, 6}, EA_DATA_LOSS}, /* a path without its node */
        {3, {0, 1, 3}, {0, 2, 3, 6}, EA_DATA_LOSS}, /* that ends at another */
        {3, {0, 1, 3}, {0, 1, UINT64_MAX, 6}, EA_DATA_LOSS},
    };
    engram_accel_v1_SpreadReply m = good_spread();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(parse_spread(2, true, &m, 12 * 64), EA_OK);
        request.expect.columns_max = cases[i].k;
        memcpy((void *)spread.offsets, cases[i].offsets, sizeof cases[i].offsets);
        memcpy((void *)spread.path_offsets, cases[i].path_offsets, sizeof cases[i].path_offsets);
        memcpy((void *)spread.ids, ids, sizeof ids);
        memcpy((void *)spread.path_ids, path_ids, sizeof path_ids);
        cr_assert_eq(ea_reply_check(&request, &note), cases[i].want, "case %zu: %s", i, note.text);
    }
    ea_result_free(&request.result);
}

/* ---- without tensors ---- */

Test(hostile_graphs, messages_that_do_not_decode)
{
    static const uint8_t bad[] = {0x0a, 0x7f};
    static union {
        engram_accel_v1_GraphListReply list;
        engram_accel_v1_GraphInfo info;
        ea_graph_counts counts;
        ea_nodes nodes;
        ea_spread_result spread;
    } out;
    static const uint8_t kinds[] = {37, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57};
    for (size_t i = 0; i < sizeof kinds; i++) {
        struct client_request r = {.kind = kinds[i], .answer = &out};
        cr_assert_eq(ea_reply_parse(&r, bad, 2, 0, &note), EA_DATA_LOSS, "kind %u", kinds[i]);
        cr_assert_eq(ea_reply_parse(&r, bad, 0, 64, &note), EA_DATA_LOSS, "kind %u", kinds[i]);
        cr_assert_null(r.result.memory);
    }
    for (uint8_t kind = 48; kind <= 51; kind += 3) {
        struct client_request r = {.kind = kind, .answer = &out};
        cr_assert_eq(ea_reply_parse(&r, bad, 0, 0, &note), EA_DATA_LOSS);
        cr_assert(strstr(note.text, "names no graph"));
    }
}

Test(hostile_graphs, kinds_have_names)
{
    static const uint8_t kinds[] = {37, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57};
    static const char *const names[] = {
        "spread",          "graph_create",       "graph_drop",       "graph_list",
        "graph_describe",  "graph_add_edges",    "graph_add_csr",    "graph_remove_edges",
        "graph_set_nodes", "graph_remove_nodes", "graph_fetch_nodes"};
    for (size_t i = 0; i < sizeof kinds; i++)
        cr_assert_str_eq(ea_operation_name(kinds[i]), names[i]);
    cr_assert_str_eq(ea_operation_name(121), "?");
}

/* A list that never ends. */
static void list_for_ever(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    uint8_t frame[ENCODE_BYTES_MAX];
    struct graph_info info = {.name = "same"};
    if (!fake_hello(d, fd)) return;
    while (fake_read(fd, &r))
        fake_write(fd, frame,
                   encode_graph_list(r.header.request_id, &info, d->argument, true, frame));
}

Test(hostile_graphs, endless_list, .timeout = 900)
{
    static struct fake_daemon daemon_;
    for (unsigned i = 0; i < 2; i++) {
        memset(&daemon_, 0, sizeof daemon_);
        daemon_.argument = i;
        fake_start(&daemon_, list_for_ever);
        ea_options o = {.socket_path = daemon_.path};
        ea_client *client;
        cr_assert_eq(ea_open(&o, &client), EA_OK);
        ea_graph_info *list;
        size_t count;
        cr_assert_eq(ea_graph_list(client, &list, &count), EA_DATA_LOSS);
        ea_close(client);
        fake_stop(&daemon_);
    }
}

/* Whole calls: what was lost on the way leaves nothing in the caller's hands. */
static void bend_offsets(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    static _Alignas(64) uint8_t frame[1 << 16];
    if (!fake_hello(d, fd)) return;
    while (fake_read(fd, &r)) {
        size_t n = fake_answer(&r, frame, sizeof frame);
        const struct wire_head *h = (const struct wire_head *)frame;
        if (r.header.kind == OPERATION_SPREAD) frame[n - h->body_bytes] = 1; /* offsets[0] */
        if (r.header.kind == OPERATION_GRAPH_FETCH_NODES) frame[n - 64 * 3] = 1;
        fake_write(fd, frame, n);
    }
}

Test(hostile_graphs, calls_give_nothing_of_a_lie, .timeout = 900)
{
    static struct fake_daemon daemon_;
    static const uint64_t ids[3] = {1, 2, 3};
    fake_start(&daemon_, bend_offsets);
    ea_options o = {.socket_path = daemon_.path, .timeout_us = 5000000};
    ea_client *client;
    cr_assert_eq(ea_open(&o, &client), EA_OK);
    const ea_spread_options options = {.mode = EA_ENGRAM};
    ea_spread_result r = {0};
    cr_assert_eq(
        ea_spread(client, "links", &options, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, &r),
        EA_DATA_LOSS);
    cr_assert(!r.memory && !r.ids && !r.count);
    cr_assert_eq(ea_fd(client), -1);
    ea_nodes n = {0};
    cr_assert_eq(ea_graph_fetch_nodes(client, "links", ids, 3, true, &n), EA_DATA_LOSS);
    cr_assert(!n.memory && !n.found && !n.count);
    cr_assert_eq(ea_ping(client), EA_OK);
    ea_close(client);
    fake_stop(&daemon_);
}
