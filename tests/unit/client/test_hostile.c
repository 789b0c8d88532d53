/* The client against a daemon that lies. Whatever comes, it says DATA_LOSS (or why it was refused),
 * reads nothing that it does not own, and works again on the next connection. */
#include "client/client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <pb_encode.h>

#include "tests/support/fake_daemon.h"

enum { FRAME_MAX = 1 << 16 };

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

/* ---- whole frames, over a socket ---- */

static struct fake_daemon daemon_;
static ea_client *client;

/* Bends the header of the first answer as `argument` says; later connections are served well. */
static void bend_header(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    static uint8_t frame[FRAME_MAX];
    if (atomic_load(&d->connections) > 1) {
        fake_serve(d, fd);
        return;
    }
    if (!fake_hello(d, fd) || !fake_read(fd, &r)) return;
    size_t n = fake_answer(&r, frame, sizeof frame);
    struct wire_head h;
    memcpy(&h, frame, sizeof h);
    switch (d->argument) {
    case 0: h.magic++; break;
    case 1: h.version++; break;
    case 2: h.flags = 0; break;
    case 3: h.flags = 5; break;
    case 4: h.message_bytes = 65537; break;
    case 5: h.body_bytes = 63; break;
    case 6: h.body_bytes = UINT64_MAX - 63; break;
    case 7: h.request_id++; break;
    case 8: h.kind++; break;
    case 9: h.flags = EA_FLAG_REPLY | EA_FLAG_ERROR; break; /* an Error with a body */
    case 10: h.body_bytes += 64; break;
    case 11: h.message_bytes--; break;
    case 12: /* the same answer twice */ fake_write(fd, frame, n); break;
    case 13: h.request_id = 0; break;
    default: break;
    }
    memcpy(frame, &h, sizeof h);
    fake_write(fd, frame, n);
    while (fake_read(fd, &r)) {
    }
}

Test(hostile, headers, .timeout = 900)
{
    for (unsigned i = 0; i <= 13; i++) {
        memset(&daemon_, 0, sizeof daemon_);
        daemon_.argument = i;
        fake_start(&daemon_, bend_header);
        ea_options o = {.socket_path = daemon_.path, .timeout_us = 5000000};
        cr_assert_eq(ea_open(&o, &client), EA_OK);
        ea_result r = {0};
        float row[4] = {0};
        ea_status st = ea_knn(
            client,
            &(ea_knn_question){
                .collection = "rows", .queries = row, .query_count = 1, .dimension = 4, .k = 3},
            &r);
        if (i == 12) { /* the first was good; the second is noticed later */
            cr_assert_eq(st, EA_OK);
            while (ea_fd(client) >= 0)
                ea_pump(client, 1000);
            st = EA_DATA_LOSS;
        }
        cr_assert_eq(st, EA_DATA_LOSS, "case %u: %d %s", i, (int)st, ea_error_text(client));
        cr_assert_eq(ea_fd(client), -1);
        cr_assert_eq(
            ea_knn(
                client,
                &(ea_knn_question){
                    .collection = "rows", .queries = row, .query_count = 1, .dimension = 4, .k = 3},
                &r),
            EA_OK);
        ea_result_free(&r);
        ea_close(client);
        fake_stop(&daemon_);
    }
}

/* Refuses before a word is said; or chooses a version; or names no limits. */
static void refuse_hello(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    uint8_t frame[ENCODE_BYTES_MAX];
    struct failure f;
    struct wire_hello h = {.version = 2, .server_version = "x", .space = "y"};
    size_t n = 0;
    if (d->argument == 0) {
        failure_set(&f, STATUS_RESOURCE_EXHAUSTED, DETAIL_CONNECTIONS, "full\x1b[2J");
        f.retry_after_ms = 70;
        f.loaded_percent = 170;
        n = encode_error(0, 0, &f, frame);
    } else {
        if (!fake_read(fd, &r)) return;
        failure_set(&f, STATUS_UNAUTHENTICATED, DETAIL_BAD_TOKEN, "who are you");
        if (d->argument == 1) n = encode_error(1, r.header.request_id, &f, frame);
        if (d->argument == 2) n = encode_hello(r.header.request_id, &h, frame);
        if (d->argument == 3) { /* an empty message: version 0 */
            struct frame_header bare = {.kind = 1, .flags = 1, .request_id = r.header.request_id};
            memset(frame, 0, 64);
            frame_write(&bare, frame);
            n = 64;
        }
        if (d->argument == 4) {
            failure_set(&f, (enum status)0, 0, "%s", "");
            n = encode_error(1, r.header.request_id, &f, frame);
        }
    }
    fake_write(fd, frame, n);
    while (fake_read(fd, &r)) {
    }
}

Test(hostile, hello, .timeout = 900)
{
    const ea_status want[] = {EA_RESOURCE_EXHAUSTED, EA_UNAUTHENTICATED, EA_UNIMPLEMENTED,
                              EA_UNIMPLEMENTED, EA_UNKNOWN};
    for (unsigned i = 0; i < 5; i++) {
        memset(&daemon_, 0, sizeof daemon_);
        daemon_.argument = i;
        fake_start(&daemon_, refuse_hello);
        ea_options o = {.socket_path = daemon_.path};
        cr_assert_eq(ea_open(&o, &client), EA_OK);
        cr_assert_eq(ea_connect(client), want[i], "case %u: %s", i, ea_error_text(client));
        cr_assert_eq(ea_fd(client), -1);
        if (i == 0) {
            cr_assert_str_eq(ea_error_text(client), "full?[2J");
            cr_assert_eq(ea_error_retry_after_ms(client), 70);
            cr_assert_eq(ea_error_loaded_percent(client), 100);
            cr_assert(ea_error_retryable(client));
        }
        ea_close(client);
        fake_stop(&daemon_);
    }
}

/* ---- messages, straight into the parser ---- */

static struct client_request request;
static struct note note;

static ea_status parse(int kind, struct expectation e, const pb_msgdesc_t *fields, const void *m,
                       uint64_t body_bytes)
{
    uint8_t message[1024];
    pb_ostream_t out = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&out, fields, m));
    uint8_t *exact = malloc(out.bytes_written + 1);
    memcpy(exact, message, out.bytes_written);
    ea_result_free(&request.result);
    request = (struct client_request){.kind = (uint8_t)kind, .expect = e};
    ea_status st = ea_reply_parse(&request, exact, (uint32_t)out.bytes_written, body_bytes, &note);
    free(exact);
    if (st == EA_OK && request.body) memset(request.body, 0, body_bytes);
    return st;
}

static engram_accel_v1_Tensor tensor(int dtype, uint64_t rows, uint64_t columns)
{
    return (engram_accel_v1_Tensor){(engram_accel_v1_Dtype)dtype, rows, columns};
}

static engram_accel_v1_KnnReply hits(uint64_t q, uint64_t m)
{
    return (engram_accel_v1_KnnReply){.has_ids = true,
                                      .ids = tensor(2, q, m),
                                      .has_scores = true,
                                      .scores = tensor(1, q, m),
                                      .has_counts = true,
                                      .counts = tensor(3, q, 1)};
}

#define HITS(e, m, body) \
    parse(engram_accel_v1_Kind_KIND_KNN, (e), engram_accel_v1_KnnReply_fields, &(m), (body))

Test(hostile, hits)
{
    const struct expectation e = {.queries = 2, .columns_max = 3};
    engram_accel_v1_KnnReply m = hits(2, 3);
    cr_assert_eq(HITS(e, m, 192), EA_OK);
    cr_assert_eq(HITS(e, m, 128), EA_DATA_LOSS);
    cr_assert_eq(HITS(e, m, 256), EA_DATA_LOSS);
    m = hits(2, 4); /* more than asked for */
    cr_assert_eq(HITS(e, m, 192), EA_DATA_LOSS);
    m = hits(3, 3);
    cr_assert_eq(HITS(e, m, 256), EA_DATA_LOSS);
    m = hits(2, 3), m.ids.columns = 2;
    cr_assert_eq(HITS(e, m, 192), EA_DATA_LOSS);
    m = hits(2, 3), m.counts.rows = 1;
    cr_assert_eq(HITS(e, m, 192), EA_DATA_LOSS);
    m = hits(2, 3), m.has_counts = false;
    cr_assert_eq(HITS(e, m, 128), EA_DATA_LOSS);
    m = hits(2, 3), m.has_ids = false;
    cr_assert_eq(HITS(e, m, 128), EA_DATA_LOSS);
    m = hits(2, 3), m.ids.dtype = engram_accel_v1_Dtype_DTYPE_FLOAT32;
    cr_assert_eq(HITS(e, m, 192), EA_DATA_LOSS);
    m = hits(2, 3), m.ids.rows = UINT64_MAX / 2;
    cr_assert_eq(HITS(e, m, 192), EA_DATA_LOSS);
    m = hits(2, 0); /* an empty collection */
    cr_assert_eq(HITS(e, m, 64), EA_OK);
    m = hits(2, 3);
    cr_assert_eq(HITS(e, m, 192), EA_OK);
    cr_assert_eq(ea_reply_check(&request, &note), EA_OK);
    ((uint32_t *)request.result.counts)[1] = 4; /* a reader would leave the row */
    cr_assert_eq(ea_reply_check(&request, &note), EA_DATA_LOSS);
    const struct expectation huge = {.queries = UINT64_C(1) << 50, .columns_max = 1};
    m = hits(UINT64_C(1) << 50, 1); /* what nobody has memory for */
    cr_assert_eq(HITS(huge, m, (UINT64_C(1) << 50) * 16), EA_RESOURCE_EXHAUSTED);
    cr_assert_null(request.result.memory);
    const struct expectation all = {.queries = 1, .rows = 5, .all_scores = true};
    m = (engram_accel_v1_KnnReply){.has_scores = true, .scores = tensor(1, 5, 1)};
    cr_assert_eq(HITS(all, m, 64), EA_OK);
    m.scores.rows = 4;
    cr_assert_eq(HITS(all, m, 64), EA_DATA_LOSS);
    m.scores.rows = 5, m.has_ids = true, m.ids = tensor(2, 4, 1);
    cr_assert_eq(HITS(all, m, 128), EA_DATA_LOSS);
    m.has_ids = false, m.has_counts = true, m.counts = tensor(3, 1, 1);
    cr_assert_eq(HITS(all, m, 128), EA_DATA_LOSS);
    ea_result_free(&request.result);
}

#define SIMILARITY(e, m, body)                                                                     \
    parse(engram_accel_v1_Kind_KIND_SIMILARITY, (e), engram_accel_v1_SimilarityReply_fields, &(m), \
          (body))

Test(hostile, similarity)
{
    struct expectation e = {.queries = 2, .columns_max = 10, .threshold = true};
    const engram_accel_v1_SimilarityReply good = {.has_ids = true,
                                                  .ids = tensor(2, 3, 1),
                                                  .has_scores = true,
                                                  .scores = tensor(1, 3, 1),
                                                  .has_offsets = true,
                                                  .offsets = tensor(2, 3, 1)};
    engram_accel_v1_SimilarityReply m = good;
    cr_assert_eq(SIMILARITY(e, m, 192), EA_OK);
    const uint64_t lists[][3] = {{0, 1, 3}, {1, 1, 3}, {0, 4, 3}, {0, 1, 2}, {0, 1, UINT64_MAX}};
    for (size_t i = 0; i < 5; i++) {
        memcpy((void *)request.result.offsets, lists[i], 24);
        cr_assert_eq(ea_reply_check(&request, &note), i ? EA_DATA_LOSS : EA_OK);
    }
    m = good, m.offsets.rows = 2;
    cr_assert_eq(SIMILARITY(e, m, 192), EA_DATA_LOSS);
    m = good, m.ids.rows = 2;
    cr_assert_eq(SIMILARITY(e, m, 192), EA_DATA_LOSS);
    m = good, m.scores = tensor(1, 1, 3);
    cr_assert_eq(SIMILARITY(e, m, 192), EA_DATA_LOSS);
    m = good, m.offsets.dtype = engram_accel_v1_Dtype_DTYPE_UINT8;
    cr_assert_eq(SIMILARITY(e, m, 192), EA_DATA_LOSS);
    e.threshold = false;
    m = good;
    cr_assert_eq(SIMILARITY(e, m, 192), EA_DATA_LOSS); /* offsets without a threshold */
    m.has_offsets = false, m.scores = tensor(1, 2, 3);
    cr_assert_eq(SIMILARITY(e, m, 128), EA_OK);
    m.ids.rows = 2;
    cr_assert_eq(SIMILARITY(e, m, 128), EA_DATA_LOSS);
    m.has_ids = false;
    cr_assert_eq(SIMILARITY(e, m, 64), EA_DATA_LOSS);
    m.scores = tensor(1, 2, 11); /* wider than the filter */
    cr_assert_eq(SIMILARITY(e, m, 128), EA_DATA_LOSS);
    const struct expectation in_line = {
        .queries = 2, .rows = 3, .columns_max = 3, .inline_rows = true};
    m.scores = tensor(1, 2, 3);
    cr_assert_eq(SIMILARITY(in_line, m, 64), EA_OK);
    m.scores = tensor(1, 2, 2);
    cr_assert_eq(SIMILARITY(in_line, m, 64), EA_DATA_LOSS);
    const struct expectation none = {.queries = 0, .columns_max = UINT64_MAX};
    m.scores = tensor(1, 0, UINT64_MAX); /* no bytes, but columns that a reader would walk */
    cr_assert_eq(SIMILARITY(none, m, 0), EA_DATA_LOSS);
    ea_result_free(&request.result);
}

#define FETCH(e, m, body) \
    parse(engram_accel_v1_Kind_KIND_FETCH, (e), engram_accel_v1_FetchReply_fields, &(m), (body))

Test(hostile, vectors)
{
    const struct expectation ids = {.rows = 3}, range = {.rows = 3, .by_position = true};
    const engram_accel_v1_FetchReply good = {.has_ids = true,
                                             .ids = tensor(2, 3, 1),
                                             .has_found = true,
                                             .found = tensor(4, 3, 1),
                                             .has_rows = true,
                                             .rows = tensor(1, 3, 4)};
    engram_accel_v1_FetchReply m = good;
    cr_assert_eq(FETCH(ids, m, 192), EA_OK);
    cr_assert_eq(FETCH(range, m, 192), EA_OK);
    m = good, m.rows.rows = 4;
    cr_assert_eq(FETCH(ids, m, 192), EA_DATA_LOSS);
    cr_assert_eq(FETCH(range, m, 192), EA_DATA_LOSS);
    m = good, m.rows.columns = 0;
    cr_assert_eq(FETCH(ids, m, 128), EA_DATA_LOSS);
    m = good, m.rows.columns = 16385;
    cr_assert_eq(FETCH(ids, m, 192), EA_DATA_LOSS);
    m = good, m.has_found = false;
    cr_assert_eq(FETCH(ids, m, 128), EA_DATA_LOSS);
    m = good, m.ids.rows = 2;
    cr_assert_eq(FETCH(ids, m, 192), EA_DATA_LOSS);
    m = good, m.found.dtype = engram_accel_v1_Dtype_DTYPE_UINT64;
    cr_assert_eq(FETCH(ids, m, 192), EA_DATA_LOSS);

    engram_accel_v1_NormsReply n = {.has_norms = true, .norms = tensor(1, 3, 1)};
    cr_assert_eq(parse(35, ids, engram_accel_v1_NormsReply_fields, &n, 64), EA_OK);
    n.norms.rows = 4;
    cr_assert_eq(parse(35, ids, engram_accel_v1_NormsReply_fields, &n, 64), EA_DATA_LOSS);
    n.norms.dtype = engram_accel_v1_Dtype_DTYPE_UINT32;
    cr_assert_eq(parse(35, ids, engram_accel_v1_NormsReply_fields, &n, 64), EA_DATA_LOSS);
    n.has_norms = false;
    cr_assert_eq(parse(35, ids, engram_accel_v1_NormsReply_fields, &n, 0), EA_DATA_LOSS);
    const struct expectation average = {.dimension = 4}, any = {.dimension = 0};
    n.has_norms = true, n.norms = tensor(1, 1, 4);
    cr_assert_eq(parse(36, average, engram_accel_v1_NormsReply_fields, &n, 64), EA_OK);
    cr_assert_eq(parse(36, any, engram_accel_v1_NormsReply_fields, &n, 64), EA_OK);
    n.norms = tensor(1, 1, 16385);
    cr_assert_eq(parse(36, average, engram_accel_v1_NormsReply_fields, &n, 64), EA_DATA_LOSS);
    cr_assert_eq(parse(36, any, engram_accel_v1_NormsReply_fields, &n, 65600), EA_DATA_LOSS);
    ea_result_free(&request.result);
}

Test(hostile, messages_that_do_not_decode)
{
    static const uint8_t bad[] = {0x0a, 0x7f};
    static union {
        engram_accel_v1_CollectionListReply list;
        ea_stats stats;
        ea_info info;
        ea_explanation explanation;
        ea_delete_counts deleted;
        ea_upsert_counts upserted;
    } out;
    for (unsigned kind = 1; kind <= 36; kind++) {
        if ((kind > 6 && kind < 16) || (kind > 22 && kind < 32)) continue;
        struct client_request r = {.kind = (uint8_t)kind, .answer = &out};
        if (kind == OPERATION_CANCEL) continue; /* Cancel's are never parsed */
        cr_assert_eq(ea_reply_parse(&r, bad, 2, 0, &note), EA_DATA_LOSS, "kind %u", kind);
        if (kind <= 21)
            cr_assert_eq(ea_reply_parse(&r, bad, 0, 64, &note), EA_DATA_LOSS, "kind %u", kind);
        cr_assert_null(r.result.memory);
    }
    struct client_request r = {.kind = 16, .answer = &out};
    cr_assert_eq(ea_reply_parse(&r, bad, 0, 0, &note), EA_DATA_LOSS); /* names no collection */
    cr_assert_eq(ea_reply_error(bad, 2, &note), EA_DATA_LOSS);
}

/* A list that never ends. */
static void list_for_ever(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    uint8_t frame[ENCODE_BYTES_MAX];
    struct collection_info info = {.name = "same"};
    if (!fake_hello(d, fd)) return;
    while (fake_read(fd, &r))
        fake_write(fd, frame,
                   encode_collection_list(r.header.request_id, &info, d->argument, true, frame));
}

Test(hostile, endless_list, .timeout = 900)
{
    for (unsigned i = 0; i < 2; i++) {
        memset(&daemon_, 0, sizeof daemon_);
        daemon_.argument = i;
        fake_start(&daemon_, list_for_ever);
        ea_options o = {.socket_path = daemon_.path};
        cr_assert_eq(ea_open(&o, &client), EA_OK);
        ea_collection_info *list;
        size_t count;
        cr_assert_eq(ea_collection_list(client, &list, &count), EA_DATA_LOSS);
        ea_close(client);
        fake_stop(&daemon_);
    }
}
