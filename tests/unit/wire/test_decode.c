#include <math.h>

#include "tests/unit/wire/request.h"

Test(decode, every_sample_is_accepted)
{
    for (size_t i = 0; i < sample_count(); i++) {
        struct sample s;
        sample_get(i, &s);
        if (s.kind == OPERATION_HELLO) continue;
        cr_assert_eq(decode(&s), STATUS_OK, "%s: %s", s.name, job.failure.text);
        cr_assert_eq((int)job.operation, s.kind);
    }
}

Test(decode, fields_reach_the_job)
{
    struct sample s;
    sample_find("knn", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert_str_eq(job.request.names[0], "rows");
    cr_assert_eq(job.request.k, 10);
    cr_assert(job.request.has_threshold);
    cr_assert_float_eq(job.request.threshold, -1.0F, 0);
    cr_assert_eq(job.request.queries.rows, 3);
    cr_assert_eq(job.request.queries.columns, 4);
    cr_assert_eq(job.request.filter_ids.rows, 20);
    cr_assert_eq(job.request.filter_bitmap.dtype, DTYPE_NONE);
    cr_assert_eq((char *)job.request.filter_ids.data - (char *)job.request.queries.data, 64);

    sample_find("similarity", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert_eq(job.request.filter_bitmap_first, 64);
    cr_assert_eq(job.request.filter_bitmap.rows, 70);
    cr_assert_eq(job.request.metric, 0);

    sample_find("average", &s); /* weights first, then rows */
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert_eq((char *)job.request.rows.data - (char *)job.request.weights.data, 64);

    sample_find("cancel", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert_eq(job.request.cancel_request_id, 77);

    sample_find("explain", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert_eq(job.request.last, 20);

    sample_find("create", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert_eq(job.request.dimension, 4);
    cr_assert_eq(job.request.metric, 1);

    sample_find("fetch_range", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert_eq(job.request.offset, 10);
    cr_assert_eq(job.request.limit, 100);
}

Test(decode, cut_at_every_byte)
{
    for (size_t i = 0; i < sample_count(); i++) {
        struct sample s;
        sample_get(i, &s);
        if (s.kind == OPERATION_HELLO) continue;
        uint8_t message[1024];
        uint32_t bytes = sample_message(&s, message, sizeof message);
        for (uint32_t n = 0; n < bytes; n++) {
            enum status st = decode_bytes(s.kind, message, n, s.body, s.body_bytes);
            /* Only a message without tensors can be whole without its last fields. */
            cr_assert(
                st == STATUS_INVALID_ARGUMENT || s.body_bytes == 0 || s.kind == OPERATION_KNN ||
                    s.kind == OPERATION_SIMILARITY || s.kind == OPERATION_SCORE_CANDIDATES ||
                    s.kind == OPERATION_GRAPH_ADD_EDGES || s.kind == OPERATION_GRAPH_FETCH_NODES ||
                    s.kind == OPERATION_GRAPH_ADD_WEIGHTS || s.kind == OPERATION_SPREAD ||
                    s.kind == OPERATION_SAVE ||
                    (s.kind >= OPERATION_BIND && s.kind <= OPERATION_COMPLETE_ENGINE) ||
                    s.kind == OPERATION_ATTRACTOR_LEARN || s.kind == OPERATION_CLUSTER,
                "%s cut at %u", s.name, n);
        }
        for (uint64_t n = 0; n < s.body_bytes; n += 64)
            cr_assert_eq(decode_bytes(s.kind, message, bytes, s.body, n), STATUS_INVALID_ARGUMENT);
        if (s.body_bytes + 64 <= sizeof s.body)
            cr_assert_eq(decode_bytes(s.kind, message, bytes, s.body, s.body_bytes + 64),
                         STATUS_INVALID_ARGUMENT, "%s with a longer body", s.name);
    }
}

/* An operation that names several things says which name is wrong. */
Test(decode, several_names)
{
    struct sample s;
    uint8_t message[1024];
    sample_find("bind", &s);
    uint32_t bytes = sample_message(&s, message, sizeof message);
    cr_assert_eq(decode_bytes(s.kind, message, bytes, s.body, s.body_bytes), STATUS_OK);
    cr_assert_str_eq(job.request.names[0], "rows");
    cr_assert_str_eq(job.request.names[1], "");
    cr_assert_str_eq(job.request.names[2], "rows");
    memset(s.message.bind.into, 'x', 65);
    bytes = sample_message(&s, message, sizeof message);
    cr_assert_eq(decode_bytes(s.kind, message, bytes, s.body, s.body_bytes),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_eq(job.failure.detail, DETAIL_BAD_NAME);
    cr_assert_not_null(strstr(job.failure.text, "into: 65 bytes"), "%s", job.failure.text);
}

Test(decode, unknown_kinds)
{
    struct sample s;
    sample_find("ping", &s);
    for (unsigned kind = 0; kind < 256; kind++) {
        bool known = kind >= 1 && (kind <= 6 || (kind >= 8 && kind <= 15) ||
                                   (kind >= 16 && kind <= 24) || (kind >= 32 && kind <= 47) ||
                                   (kind >= 48 && kind <= 60) || (kind >= 64 && kind <= 70) ||
                                   kind == OPERATION_COVARIANCE || kind == OPERATION_CLUSTER);
        if (known) continue;
        s.kind = (uint8_t)kind;
        cr_assert_eq(decode(&s), STATUS_UNIMPLEMENTED);
        cr_assert_eq(job.failure.detail, DETAIL_UNKNOWN_KIND);
    }
    sample_find("hello", &s);
    cr_assert_eq(decode(&s), STATUS_FAILED_PRECONDITION);
    cr_assert_eq(job.failure.detail, DETAIL_HELLO_REQUIRED);
}

Test(decode, bytes_that_are_no_message)
{
    static const uint8_t group[] = {0x0b, 0x0c}, cut[] = {0x0a, 0x05, 'a'}, tag[] = {0xff},
                         huge[] = {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 'x'},
                         number[] = {0x08, 0x01}, /* field 1 as a varint */
        skip[] = {0x92, 0x01, 0x7f};              /* an unknown field past the end */
    const struct {
        const uint8_t *bytes;
        uint32_t count;
    } cases[] = {{group, 2}, {cut, 3}, {tag, 1}, {huge, 7}, {number, 2}, {skip, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(
            decode_bytes(OPERATION_COLLECTION_DROP, cases[i].bytes, cases[i].count, NULL, 0),
            STATUS_INVALID_ARGUMENT, "case %zu", i);
        cr_assert(job.failure.detail == DETAIL_BAD_MESSAGE ||
                  job.failure.detail == DETAIL_BAD_NAME);
    }
    cr_assert_eq(decode_bytes(OPERATION_PING, cut, 3, NULL, 0), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(decode_bytes(OPERATION_CANCEL, tag, 1, NULL, 0), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(decode_bytes(OPERATION_NORMS, tag, 1, NULL, 0), STATUS_INVALID_ARGUMENT);
    /* Every request with a name refuses the same way. */
    for (uint8_t kind = OPERATION_COLLECTION_CREATE; kind <= OPERATION_ATTRACTOR_SET; kind++) {
        if (kind > OPERATION_FETCH && kind < OPERATION_SIMILARITY) continue;
        if (kind > OPERATION_COMPLETE_ENGINE && kind < OPERATION_GRAPH_CREATE) continue;
        if (kind > OPERATION_GRAPH_PRUNE && kind < OPERATION_ATTRACTOR_CREATE) continue;
        cr_assert_eq(decode_bytes(kind, cut, 3, NULL, 0), STATUS_INVALID_ARGUMENT);
        cr_assert_eq(job.failure.detail, DETAIL_BAD_MESSAGE, "kind %u", kind);
    }
    /* A field of a newer client is skipped. */
    static const uint8_t newer[] = {0x98, 0x06, 0x01};
    cr_assert_eq(decode_bytes(OPERATION_PING, newer, 3, NULL, 0), STATUS_OK);
}

Test(decode, names)
{
    uint8_t m[200] = {0x0a, 3, 'a', 0, 'b'};
    cr_assert_eq(decode_bytes(OPERATION_COLLECTION_DROP, m, 5, NULL, 0), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(job.failure.detail, DETAIL_BAD_NAME);
    cr_assert(strstr(job.failure.text, "NUL"));
    memcpy(m, "\x0a\x02z\x00", 4); /* a NUL at the end is as bad */
    cr_assert_eq(decode_bytes(OPERATION_COLLECTION_LIST, m, 4, NULL, 0), STATUS_INVALID_ARGUMENT);
    memset(m, 'x', sizeof m);
    m[0] = 0x0a;
    for (uint8_t n = 60; n < 128; n++) {
        m[1] = n;
        enum status st = decode_bytes(OPERATION_COLLECTION_DESCRIBE, m, 2U + n, NULL, 0);
        cr_assert_eq(st, n <= 64 ? STATUS_OK : STATUS_INVALID_ARGUMENT, "%u bytes", n);
        if (st) cr_assert_eq(job.failure.detail, DETAIL_BAD_NAME);
    }
    /* Whether characters are allowed is the store's to say. */
    memcpy(m, "\x0a\x03../", 5);
    cr_assert_eq(decode_bytes(OPERATION_COLLECTION_DROP, m, 5, NULL, 0), STATUS_OK);
    cr_assert_str_eq(job.request.names[0], "../");
}

Test(decode, lies_about_shapes)
{
    struct sample s;
    sample_find("upsert", &s);
    s.message.upsert.ids.rows = 4;
    refused(&s, DETAIL_BAD_SHAPE, "ids: 4 rows, rows have 5");
    sample_find("upsert", &s);
    s.message.upsert.has_rows = false;
    refused(&s, DETAIL_BAD_SHAPE, "rows: missing");
    sample_find("upsert", &s);
    s.message.upsert.has_ids = false;
    refused(&s, DETAIL_BAD_SHAPE, "ids: missing");
    sample_find("upsert", &s);
    s.message.upsert.ids.dtype = engram_accel_v1_Dtype_DTYPE_UINT32;
    refused(&s, DETAIL_BAD_SHAPE, "ids: dtype 3, 2 (uint64) wanted");
    s.message.upsert.ids.dtype = (engram_accel_v1_Dtype)250;
    refused(&s, DETAIL_BAD_SHAPE, "ids: dtype 250");
    sample_find("upsert", &s);
    s.message.upsert.ids.columns = 2;
    refused(&s, DETAIL_BAD_SHAPE, "ids: 2 columns, 1 wanted");
    sample_find("upsert", &s);
    s.message.upsert.rows.columns = 0;
    refused(&s, DETAIL_BAD_SHAPE, "rows: 0 columns");
    s.message.upsert.rows.columns = 16385;
    refused(&s, DETAIL_BAD_SHAPE, "rows: 16385 columns");
    s.message.upsert.rows.columns = 17; /* 5 x 17 floats need more than the 128 bytes there are */
    refused(&s, DETAIL_BODY_MISMATCH, "rows: 5 x 17 float32 are 384 bytes");
    sample_find("similarity_inline", &s);
    s.message.similarity.queries.columns = 3;
    refused(&s, DETAIL_BAD_SHAPE, "queries: 3 columns, rows have 4");
    sample_find("knn_plain", &s);
    s.message.knn.queries.dtype = engram_accel_v1_Dtype_DTYPE_UINT32;
    refused(&s, DETAIL_BAD_SHAPE, "queries: dtype 3, 1 (float32) wanted");
    sample_find("similarity", &s);
    s.message.similarity.filter.bitmap.dtype = engram_accel_v1_Dtype_DTYPE_UINT64;
    refused(&s, DETAIL_BAD_SHAPE, "filter.bitmap: dtype 2, 4 (uint8)");
    sample_find("ping", &s);
    s.body_bytes = 64;
    refused(&s, DETAIL_BODY_MISMATCH, "body: 64 bytes, the tensors fill 0");
}

/* What lies between tensors is zeros, and so is what lies behind the last. */
Test(decode, padding_is_checked)
{
    struct sample s;
    sample_find("upsert", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    uint64_t ids_end = job.request.ids.rows * 8;
    s.body[ids_end] = 1;
    refused(&s, DETAIL_BODY_MISMATCH, "ids: the bytes between it");
    s.body[ids_end] = 0;
    s.body[s.body_bytes - 1] = 0x80;
    refused(&s, DETAIL_BODY_MISMATCH, "rows: the bytes between it");
}

Test(decode, sizes_that_overflow)
{
    const uint64_t rows[] = {UINT64_MAX,          UINT64_MAX / 4,    UINT64_MAX / 16,
                             UINT64_C(1) << 62,   UINT64_C(1) << 60, (UINT64_C(1) << 60) - 1,
                             UINT64_MAX / 16 - 3, UINT64_C(1) << 32, UINT64_C(1) << 58};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sample s;
        sample_find("norms", &s);
        s.message.norms.rows.rows = rows[i];
        s.message.norms.rows.columns = 4;
        cr_assert_eq(decode(&s), STATUS_INVALID_ARGUMENT);
        cr_assert(job.failure.detail == DETAIL_BAD_SHAPE ||
                  job.failure.detail == DETAIL_BODY_MISMATCH);
        sample_find("delete", &s);
        s.message.delete.ids.rows = rows[i];
        cr_assert_eq(decode(&s), STATUS_INVALID_ARGUMENT);
    }
}

Test(decode, nothing_in_gives_nothing_out)
{
    struct sample s;
    sample_find("similarity_inline", &s);
    s.message.similarity.rows.rows = 0;
    s.body_bytes = 64;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    cr_assert_eq(job.request.rows.dtype, DTYPE_FLOAT32);
    s.message.similarity.queries.rows = 0;
    s.body_bytes = 0;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    s.message.similarity.queries.columns = 0;
    refused(&s, DETAIL_BAD_SHAPE, "queries: 0 columns");
    sample_find("average", &s);
    s.message.average.weights.rows = s.message.average.rows.rows = s.body_bytes = 0;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    sample_find("score", &s);
    s.message.score.has_offsets = false;
    s.message.score.queries.rows = s.message.score.ids.rows = s.body_bytes = 0;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    sample_find("knn", &s); /* an empty list allows nothing; it is not an absent one */
    s.message.knn.filter.ids.rows = 0;
    s.body_bytes = 64;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    cr_assert_eq(job.request.filter_ids.dtype, DTYPE_UINT64);
}

Test(decode, k_and_threshold)
{
    struct sample s;
    sample_find("knn_plain", &s);
    s.message.knn.k = 0;
    refused(&s, DETAIL_BAD_K, "k: 0, 1 to 16384");
    s.message.knn.k = 16385;
    refused(&s, DETAIL_BAD_K, "k: 16385");
    s.message.knn.k = 16384;
    cr_assert_eq(decode(&s), STATUS_OK);
    s.message.knn.has_threshold = true;
    s.message.knn.threshold = NAN;
    refused(&s, DETAIL_BAD_THRESHOLD, "threshold");
    s.message.knn.threshold = -INFINITY;
    cr_assert_eq(decode(&s), STATUS_OK);
    sample_find("similarity", &s);
    s.message.similarity.threshold = NAN;
    refused(&s, DETAIL_BAD_THRESHOLD, "threshold");
    sample_find("score", &s);
    s.message.score.k = 16385;
    refused(&s, DETAIL_BAD_K, "k: 16385");
    sample_find("explain", &s);
    s.message.explain.last = 64;
    cr_assert_eq(decode(&s), STATUS_OK);
    s.message.explain.last = 65;
    refused(&s, DETAIL_BAD_K, "last: 65, 0 to 64");
}

Test(decode, filters)
{
    struct sample s;
    sample_find("knn", &s);
    s.message.knn.filter.has_bitmap = true;
    s.message.knn.filter.bitmap = sample_tensor(DTYPE_UINT8, 8, 1);
    s.body_bytes += 64;
    refused(&s, DETAIL_BAD_FILTER, "exclude each other");
    sample_find("similarity", &s);
    s.message.similarity.collection[0] = '\0';
    s.message.similarity.has_rows = true;
    s.message.similarity.rows = sample_tensor(DTYPE_FLOAT32, 1, 4);
    s.message.similarity.metric = engram_accel_v1_Metric_METRIC_DOT;
    s.body_bytes += 64;
    refused(&s, DETAIL_BAD_FILTER, "inline rows");
}

Test(decode, targets_and_metrics)
{
    struct sample s;
    sample_find("similarity_inline", &s);
    strcpy(s.message.similarity.collection, "rows");
    refused(&s, DETAIL_BAD_SHAPE, "exclude each other");
    sample_find("similarity_inline", &s);
    s.message.similarity.metric = engram_accel_v1_Metric_METRIC_UNSPECIFIED;
    refused(&s, DETAIL_BAD_METRIC, "metric: missing");
    s.message.similarity.metric = (engram_accel_v1_Metric)4;
    refused(&s, DETAIL_BAD_METRIC, "metric: 4");
    sample_find("similarity", &s);
    s.message.similarity.metric = engram_accel_v1_Metric_METRIC_DOT;
    refused(&s, DETAIL_BAD_METRIC, "only with inline rows");
    sample_find("similarity", &s);
    s.message.similarity.collection[0] = '\0';
    refused(&s, DETAIL_BAD_NAME, "collection: empty");
    sample_find("create", &s);
    s.message.create.metric = (engram_accel_v1_Metric)9;
    refused(&s, DETAIL_BAD_METRIC, "metric: 9");
    sample_find("score", &s);
    s.message.score.metric = (engram_accel_v1_Metric)4;
    refused(&s, DETAIL_BAD_METRIC, "metric: 4");
    s.message.score.metric = engram_accel_v1_Metric_METRIC_DOT;
    cr_assert_eq(decode(&s), STATUS_OK);
    s.message.score.has_rows = true;
    s.message.score.rows = sample_tensor(DTYPE_FLOAT32, 0, 4);
    refused(&s, DETAIL_BAD_SHAPE, "exclude each other");
    sample_find("score_inline", &s);
    s.message.score.has_rows = false;
    s.body_bytes -= 64;
    refused(&s, DETAIL_BAD_SHAPE, "ids: missing");
    sample_find("average", &s);
    strcpy(s.message.average.collection, "rows");
    refused(&s, DETAIL_BAD_SHAPE, "exclude each other");
    sample_find("average_ids", &s);
    s.message.average.collection[0] = '\0';
    refused(&s, DETAIL_BAD_NAME, "collection: empty");
    sample_find("average_ids", &s);
    s.message.average.weights.rows = 2;
    refused(&s, DETAIL_BAD_SHAPE, "weights: 2 rows, ids have 3");
    s.message.average.has_ids = false;
    s.body_bytes -= 64;
    refused(&s, DETAIL_BAD_SHAPE, "ids: missing");
    sample_find("average", &s);
    s.message.average.weights.rows = 2;
    refused(&s, DETAIL_BAD_SHAPE, "weights: 2 rows, rows have 3");
    sample_find("fetch", &s);
    s.message.fetch.limit = 1;
    refused(&s, DETAIL_BAD_SHAPE, "ids: offset and limit");
}

Test(decode, offsets)
{
    const struct {
        uint64_t offsets[3];
        const char *text;
    } cases[] = {
        {{1, 2, 5}, "the first is 1"},
        {{0, 6, 5}, "number 2 goes back from 6 to 5"},
        {{0, 2, 4}, "the last is 4, 5 candidates"},
        {{0, UINT64_MAX, UINT64_MAX}, "the last is 18446744073709551615"},
    };
    struct sample s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample_find("score", &s);
        memcpy(s.body + 64, cases[i].offsets, sizeof cases[i].offsets);
        refused(&s, DETAIL_BAD_OFFSETS, cases[i].text);
    }
    sample_find("score", &s);
    s.message.score.offsets.rows = 2;
    refused(&s, DETAIL_BAD_OFFSETS, "offsets: 2 for 2 queries");
    s.message.score.offsets.rows = 0;
    s.body_bytes -= 64;
    refused(&s, DETAIL_BAD_OFFSETS, "offsets: 0 for 2 queries");
    s.message.score.has_offsets = false;
    refused(&s, DETAIL_BAD_OFFSETS, "offsets: missing for 2 queries");
    s.message.score.queries.rows = 1;
    memset(s.body + 16, 0, 16); /* what was the second query */
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
}

Test(decode, hello)
{
    struct sample s;
    sample_find("hello", &s);
    uint8_t m[1024];
    uint32_t bytes = sample_message(&s, m, sizeof m);
    struct hello out;
    struct failure f;
    cr_assert_eq(decode_hello(m, bytes, &out, &f), STATUS_OK);
    cr_assert_str_eq(out.client_name, "sample");
    cr_assert_str_eq(out.space, "default");
    cr_assert_eq(out.token_bytes, 3);
    cr_assert_arr_eq(out.token, "key", 3);
    cr_assert_eq(out.version_min, 1);
    for (uint32_t n = 0; n < bytes; n++)
        decode_hello(m, n, &out, &f);
    cr_assert_eq(decode_hello(m, bytes - 1, &out, NULL), STATUS_INVALID_ARGUMENT);
    static const char *const bad_names[] = {
        "a\nb",        "\x1b[2J",          "\xc3",         "\xed\xa0\x80", "\xc0\xaf",
        "\xc2\x85",    "\xf4\x90\x80\x80", "\xe0\x80\x80", "\xff",         "\xf0\x80\x80\x80",
        "\xe2\x28\xa1"};
    for (size_t i = 0; i < sizeof bad_names / sizeof *bad_names; i++) {
        strcpy(s.message.hello.client_name, bad_names[i]);
        bytes = sample_message(&s, m, sizeof m);
        cr_assert_eq(decode_hello(m, bytes, &out, &f), STATUS_INVALID_ARGUMENT, "name %zu", i);
        cr_assert_eq(f.detail, DETAIL_BAD_NAME);
    }
    strcpy(s.message.hello.client_name, "Zo\xc3\xab \xe2\x82\xac \xf0\x9f\x90\x98");
    bytes = sample_message(&s, m, sizeof m);
    cr_assert_eq(decode_hello(m, bytes, &out, &f), STATUS_OK);
    static const uint8_t cut_space[] = {0x22, 3, 'a', 0, 'b'};
    cr_assert_eq(decode_hello(cut_space, 5, &out, &f), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(f.detail, DETAIL_BAD_SPACE);
    static const uint8_t versions[] = {0x08, 2, 0x10, 1};
    cr_assert_eq(decode_hello(versions, 4, &out, &f), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(f.detail, DETAIL_BAD_VERSION);
    cr_assert_eq(decode_hello(NULL, 0, &out, &f), STATUS_OK); /* version 0: refused by the caller */
}

Test(decode, mutations_never_crash)
{
    uint64_t seed = 0x9e3779b97f4a7c15;
    uint8_t message[1100];
    for (unsigned round = 0; round < 60000; round++) {
        struct sample s;
        sample_get(round % sample_count(), &s);
        uint32_t bytes = sample_message(&s, message, 1024);
        for (unsigned n = 0; n < 1 + round % 5; n++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            uint32_t r = (uint32_t)(seed >> 33);
            if (r % 7 == 0 && bytes)
                bytes -= r / 7 % bytes;
            else if (r % 7 == 1 && bytes < 1090)
                message[bytes++] = (uint8_t)(r >> 8);
            else if (r % 7 == 2)
                s.body[(r >> 8) % sizeof s.body] ^= (uint8_t)(r >> 3);
            else if (r % 7 == 3)
                s.body_bytes = (r >> 8) % 16 * 64;
            else if (bytes)
                message[(r >> 12) % bytes] = (uint8_t)(r >> 4);
        }
        if (s.kind == OPERATION_HELLO) {
            struct hello out;
            decode_hello(message, bytes, &out, NULL);
        } else {
            decode_bytes(s.kind, message, bytes, s.body, s.body_bytes);
        }
    }
}
