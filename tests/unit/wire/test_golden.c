/* The byte dumps in proto/README.md against the decoder, the encoder and the client library. On a
 * difference the right dump is printed, ready for the page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "daemon/ops/operation.h"
#include "client/engram_accel.h"
#include "tests/support/fake_daemon.h"

enum { BYTES_MAX = 4096 };

struct dump {
    size_t count;
    _Alignas(64) uint8_t bytes[BYTES_MAX];
};

/* ---- the page ---- */

/* "0010  45 41 ...  | comment": an offset, then bytes. */
static void parse_line(const char *line, struct dump *d)
{
    char *end;
    cr_assert_eq(strtoul(line, &end, 16), d->count, "offset in '%s'", line);
    for (;;) {
        while (*end == ' ')
            end++;
        if (*end == '|' || *end == '\n' || *end == '\0') return;
        const char *at = end;
        d->bytes[d->count++] = (uint8_t)strtoul(at, &end, 16);
        cr_assert(end == at + 2 && d->count < BYTES_MAX, "bytes in '%s'", line);
    }
}

static struct dump page(const char *name)
{
    static struct dump d;
    d.count = 0;
    char line[500], fence[100];
    snprintf(fence, sizeof fence, "```hex %s\n", name);
    FILE *f = fopen("proto/README.md", "r");
    cr_assert_not_null(f, "proto/README.md: run from the repository's root");
    bool inside = false, found = false;
    while (fgets(line, sizeof line, f)) {
        if (strcmp(line, fence) == 0) {
            inside = found = true;
        } else if (strncmp(line, "```", 3) == 0) {
            inside = false;
        } else if (inside) {
            parse_line(line, &d);
        }
    }
    fclose(f);
    cr_assert(found, "the page has no %s", name);
    return d;
}

static void print_dump(const uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at < count; at += 16) {
        fprintf(stderr, "%04zx ", at);
        for (size_t i = at; i < at + 16; i++)
            fprintf(stderr, " %02x", bytes[i]);
        fprintf(stderr, "  | ");
        for (size_t i = at; i < at + 16; i++)
            fputc(bytes[i] > 32 && bytes[i] < 127 ? bytes[i] : '.', stderr);
        fputc('\n', stderr);
    }
}

static bool same(const char *name, const void *bytes, size_t count)
{
    struct dump d = page(name);
    if (d.count == count && memcmp(d.bytes, bytes, count) == 0) return true;
    fprintf(stderr, "GOLDEN %s\n", name);
    print_dump(bytes, count);
    return false;
}

/* ---- what the daemon writes ---- */

static size_t make_knn_reply(uint8_t *frame)
{
    static struct job j;
    memset(&j, 0, sizeof j);
    j.operation = OPERATION_KNN;
    j.key.request_id = 3;
    j.backend = BACKEND_CPU;
    j.reason = REASON_GPU_ABSENT;
    j.received_ns = 1000;
    j.started_ns = 3000;
    j.finished_ns = 8000;
    j.result.version = 12;
    j.result.body_bytes = 192;
    j.result.tensors[0] = (struct tensor){.dtype = DTYPE_UINT64, .rows = 1, .columns = 2};
    j.result.tensors[1] = (struct tensor){.dtype = DTYPE_FLOAT32, .rows = 1, .columns = 2};
    j.result.tensors[2] = (struct tensor){.dtype = DTYPE_UINT32, .rows = 1, .columns = 1};
    size_t n = encode_result(&j, frame);
    memset(frame + n, 0, 192);
    memcpy(frame + n, (uint64_t[]){7, 3}, 16);
    memcpy(frame + n + 64, (float[]){1.0F, 0.5F}, 8);
    memcpy(frame + n + 128, (uint32_t[]){2}, 4);
    return n + 192;
}

static size_t make_spread_reply(uint8_t *frame)
{
    static struct job j;
    const struct tensor tensors[] = {
        {DTYPE_UINT64, 2, 1, (uint64_t[]){0, 2}},    {DTYPE_UINT64, 2, 1, (uint64_t[]){1, 2}},
        {DTYPE_FLOAT32, 2, 1, (float[]){1, 0.5F}},   {DTYPE_FLOAT32, 2, 1, (float[]){1, 0.5F}},
        {DTYPE_UINT32, 2, 1, (uint32_t[]){1, 1}},    {DTYPE_UINT32, 2, 1, (uint32_t[]){0, 1}},
        {DTYPE_UINT64, 1, 1, (uint64_t[]){2}},       {DTYPE_UINT64, 1, 1, (uint64_t[]){0}},
        {DTYPE_UINT8, 1, 1, (uint8_t[]){0}},         {DTYPE_FLOAT32, 1, 3, (float[]){1, 0.5F, 0}},
        {DTYPE_UINT64, 3, 1, (uint64_t[]){0, 1, 3}}, {DTYPE_UINT64, 3, 1, (uint64_t[]){1, 1, 2}},
    };
    memset(&j, 0, sizeof j);
    j.operation = OPERATION_SPREAD;
    j.key.request_id = 5;
    j.backend = BACKEND_CPU;
    j.reason = REASON_GPU_ABSENT;
    j.received_ns = 1000;
    j.started_ns = 3000;
    j.finished_ns = 8000;
    j.result.version = 12;
    j.result.body_bytes = 12 * 64;
    memcpy(j.result.tensors, tensors, sizeof tensors);
    size_t n = encode_result(&j, frame);
    memset(frame + n, 0, 12 * 64);
    for (size_t i = 0; i < 12; i++)
        memcpy(frame + n + i * 64, tensors[i].data,
               tensors[i].rows * tensors[i].columns * dtype_bytes(tensors[i].dtype));
    return n + 12 * 64;
}

Test(golden, encoder_writes_the_page)
{
    static uint8_t frame[ENCODE_BYTES_MAX + BYTES_MAX];
    const struct wire_progress said = {.view = {PROGRESS_MERGES, 1550, 4999},
                                       .elapsed_ns = 2000000999,
                                       .foreseen_ns = 3000000000,
                                       .backend = BACKEND_CPU};
    const struct wire_hello hello = {.version = 1,
                                     .features = FEATURE_PROGRESS,
                                     .instance = 0x1122334455667788,
                                     .server_version = "0.1.0",
                                     .space = "default",
                                     .limits = {64 << 20, 64 << 20, 16384, 16384, 256}};
    struct failure f;
    failure_set(&f, STATUS_NOT_FOUND, DETAIL_UNKNOWN_COLLECTION, "there is no collection 'rows'");
    bool good = same("hello-reply", frame, encode_hello(1, &hello, frame));
    good &= same("ping-reply", frame, encode_ping(2, frame));
    good &= same("knn-reply", frame, make_knn_reply(frame));
    good &= same("error-reply", frame, encode_error(OPERATION_KNN, 4, &f, frame));
    good &= same("spread-reply", frame, make_spread_reply(frame));
    good &= same("progress", frame, encode_progress(OPERATION_CLUSTER, 6, &said, frame));
    cr_assert(good);
}

/* ---- what the client writes, and reads ---- */

static struct dump sent[5];

static void record_and_answer(struct fake_daemon *d, int fd)
{
    static const char *const answers[] = {"hello-reply", "ping-reply", "knn-reply", "error-reply",
                                          "spread-reply"};
    static struct fake_request r;
    for (size_t i = 0; i < 5 && fake_read(fd, &r); i++) {
        uint64_t at = frame_body_offset(&r.header);
        frame_write(&r.header, sent[i].bytes);
        memcpy(sent[i].bytes + FRAME_HEADER_BYTES, r.message, at - FRAME_HEADER_BYTES);
        if (r.body) memcpy(sent[i].bytes + at, r.body, r.header.body_bytes);
        sent[i].count = at + r.header.body_bytes;
        struct dump answer = page(answers[i]);
        fake_write(fd, answer.bytes, answer.count);
    }
    while (fake_read(fd, &r)) {
    }
    free(r.body);
    r.body = NULL;
}

Test(golden, client_writes_and_reads_the_page, .timeout = 900)
{
    static struct fake_daemon d;
    fake_start(&d, record_and_answer);
    ea_client *c;
    ea_options o = {.socket_path = d.path,
                    .client_name = "golden",
                    .space = "default",
                    .timeout_us = EA_NO_TIMEOUT};
    cr_assert_eq(ea_open(&o, &c), EA_OK);
    cr_assert_eq(ea_connect(c), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(ea_instance(c), 0x1122334455667788);
    cr_assert_eq(ea_ping(c), EA_OK);
    const float query[4] = {1, 0, 0, 0};
    const ea_knn_question question = {
        .collection = "rows", .queries = query, .query_count = 1, .dimension = 4, .k = 2};
    ea_result r = {0};
    cr_assert_eq(ea_knn(c, &question, &r), EA_OK, "%s", ea_error_text(c));
    cr_assert(r.rows == 1 && r.columns == 2 && r.counts[0] == 2);
    cr_assert(r.ids[0] == 7 && r.ids[1] == 3);
    cr_assert(r.scores[0] == 1.0F && r.scores[1] == 0.5F);
    cr_assert_str_eq(ea_reason_name(r.meta->reason), "gpu_absent");
    cr_assert_eq(r.meta->queue_ns, 2000);
    cr_assert_eq(r.meta->run_ns, 5000);
    cr_assert_eq(ea_knn(c, &question, &r), EA_NOT_FOUND);
    cr_assert_eq(ea_error_detail(c), DETAIL_UNKNOWN_COLLECTION);
    const ea_spread_options how = {.mode = EA_LINEAR,
                                   .hops = 1,
                                   .decay = EA_DECAY_LINEAR,
                                   .decay_parameter = 0.5F,
                                   .paths = true,
                                   .k = 2};
    ea_spread_result s = {0};
    cr_assert_eq(
        ea_spread(c, "links", &how, &(ea_seeds){.sets = 1, .ids = (uint64_t[]){1}, .count = 1}, &s),
        EA_OK, "%s", ea_error_text(c));
    cr_assert(s.sets == 1 && s.count == 2 && s.ids[1] == 2 && s.activations[1] == 0.5F);
    cr_assert(s.depths[1] == 1 && s.touched[0] == 2 && s.tier_sums[1] == 0.5F);
    cr_assert(s.path_offsets[2] == 3 && s.path_ids[1] == 1 && s.path_ids[2] == 2);
    ea_spread_result_free(&s);
    ea_close(c);
    fake_stop(&d);
    bool good = same("hello-request", sent[0].bytes, sent[0].count);
    good &= same("ping-request", sent[1].bytes, sent[1].count);
    good &= same("knn-request", sent[2].bytes, sent[2].count);
    good &= same("spread-request", sent[4].bytes, sent[4].count);
    cr_assert(good);
}

Test(golden, decoder_reads_the_page)
{
    static struct job j;
    struct hello hello;
    struct frame_header h;
    struct failure f;
    struct dump d = page("hello-request");
    cr_assert_eq(frame_parse(d.bytes, 0, &h, &f), STATUS_OK);
    cr_assert_eq(decode_hello(d.bytes + 32, h.message_bytes, &hello, &f), STATUS_OK);
    cr_assert_str_eq(hello.client_name, "golden");
    cr_assert_eq(hello.features, FEATURE_PROGRESS);
    d = page("ping-request");
    cr_assert_eq(frame_parse(d.bytes, 0, &h, &f), STATUS_OK);
    cr_assert_eq(decode_request(&h, d.bytes + 32, NULL, operation_check, &j), STATUS_OK);
    static struct dump knn;
    knn = page("knn-request");
    cr_assert_eq(frame_parse(knn.bytes, 4096, &h, &f), STATUS_OK);
    cr_assert_eq(
        decode_request(&h, knn.bytes + 32, knn.bytes + frame_body_offset(&h), operation_check, &j),
        STATUS_OK, "%s", j.failure.text);
    cr_assert_str_eq(j.request.names[0], "rows");
    cr_assert_eq(j.request.k, 2);
    cr_assert_eq(((float *)j.request.queries.data)[0], 1.0F);
    static struct dump spread;
    spread = page("spread-request");
    cr_assert_eq(frame_parse(spread.bytes, 4096, &h, &f), STATUS_OK);
    cr_assert_eq(decode_request(&h, spread.bytes + 32, spread.bytes + frame_body_offset(&h),
                                operation_check, &j),
                 STATUS_OK, "%s", j.failure.text);
    cr_assert_str_eq(j.request.names[0], "links");
    cr_assert(j.request.spread.mode == 1 && j.request.spread.hops == 1 && j.request.k == 2);
    cr_assert(j.request.spread.decay == DECAY_LINEAR && j.request.spread.decay_parameter == 0.5F);
    cr_assert_eq(((uint64_t *)j.request.ids.data)[0], 1);
}

/* ---- the tables ---- */

Test(golden, every_code_and_detail_is_on_the_page)
{
    enum { DETAIL_LAST = 255 }; /* some numbers are not given away */
    char line[500], want[100];
    for (unsigned n = 0; n <= DETAIL_LAST + STATUS_UNAUTHENTICATED; n++) {
        bool code = n > DETAIL_LAST;
        unsigned number = code ? n - DETAIL_LAST : n;
        const char *name =
            code ? status_name((enum status)number) : detail_name((enum detail)number);
        if (strcmp(name, "?") == 0) continue;
        snprintf(want, sizeof want, "| %u | %s |", number, name);
        FILE *f = fopen("proto/README.md", "r");
        bool found = false;
        while (fgets(line, sizeof line, f))
            found |= strncmp(line, want, strlen(want)) == 0;
        fclose(f);
        cr_assert(found, "no line '%s'", want);
    }
}
