/* fuzz_messages: a request of any kind from anyone. Input: kind, message length (two bytes),
 * message, body (the rest, cut to a multiple of 64). Both lie in blocks of exactly their size. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ops/check.h"
#include "daemon/ops/operation.h"
#include "daemon/wire/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Tensors of an accepted request lie in its body, apart from each other, in whatever order. */
static uint64_t check_tensor(const struct tensor *t, const uint8_t *body, uint64_t body_bytes)
{
    uint64_t bytes = t->rows * t->columns * dtype_bytes(t->dtype);
    if (!bytes) return 0;
    const uint8_t *at = t->data;
    if ((uintptr_t)at % 64 || at < body || bytes > body_bytes - (uint64_t)(at - body)) abort();
    return frame_align(bytes);
}

/* Numbers that whoever spreads goes by. */
static void check_spread(const struct job_request *q)
{
    const struct job_spread *s = &q->spread;
    if (s->mode < 1 || s->mode > 2 || s->fan > 2 || s->hops < 1 || s->hops > 100) abort();
    if (s->decay < DECAY_EXPONENTIAL || s->decay > DECAY_CONSTANT) abort();
    if (!(s->decay_parameter >= 0 && s->decay_parameter < INFINITY)) abort();
    if ((s->decay == DECAY_TABLE) != (q->table.rows == s->hops)) abort();
    for (size_t i = 0; i < 3; i++)
        if (!(s->thresholds[i] >= 0 && s->thresholds[i] < INFINITY)) abort();
    /* Activations themselves are looked at with their seeds (ops/spread_ask.c). */
    if (q->weights.dtype && q->weights.rows != q->ids.rows) abort();
    if (q->offsets.dtype && (q->offsets.rows < 2 || q->offsets.rows > 65537)) abort();
}

/* Operands are rows or ids of a collection, one or as many as there are results. */
static uint64_t check_operand(const struct tensor *rows, const struct tensor *ids, const char *name,
                              uint64_t results)
{
    bool by_id = ids->dtype != DTYPE_NONE;
    uint64_t count = by_id ? ids->rows : rows->rows;
    if (by_id == (rows->dtype != DTYPE_NONE) || by_id != (name[0] != 0) || !count) abort();
    if (count != 1 && results != 1 && count != results) abort();
    return count == 1 ? results : count;
}

/* Results go into a collection by as many ids, or come back. */
static void check_into(const struct job_request *q, uint64_t results)
{
    if ((q->into_ids.dtype != DTYPE_NONE) != (q->names[2][0] != 0)) abort();
    if (q->into_ids.dtype && q->into_ids.rows != results) abort();
}

static void check_bind(const struct job_request *q)
{
    uint64_t results = check_operand(&q->rows, &q->ids, q->names[0], 1);
    results = check_operand(&q->other_rows, &q->other_ids, q->names[1], results);
    check_into(q, results);
}

static void check_cleanup(const struct job_request *q)
{
    uint64_t results = check_operand(&q->rows, &q->ids, q->names[1], 1);
    check_operand(&q->other_rows, &q->other_ids, q->names[2], results);
    if (q->k < 1 || q->k > 16384) abort();
}

/* Lists that have one row at least; what many offsets hold is looked at by workers. */
static void check_lists(const struct job_request *q)
{
    const uint64_t *offsets = q->offsets.data;
    uint64_t count = q->ids.dtype ? q->ids.rows : q->rows.rows, lists = 1;
    check_operand(&q->rows, &q->ids, q->names[0], 1);
    if (q->offsets.dtype) {
        if (q->offsets.rows < 2) abort();
        lists = q->offsets.rows - 1;
        for (uint64_t i = 0; i < lists && !check_later(&q->offsets); i++)
            if (offsets[i] >= offsets[i + 1] || offsets[i + 1] > count) abort();
    }
    if (q->weights.dtype && q->weights.rows != count) abort();
    check_into(q, lists);
}

static void check_permute(const struct job_request *q)
{
    check_operand(&q->rows, &q->ids, q->names[0], 1);
    check_into(q, q->ids.dtype ? q->ids.rows : q->rows.rows);
}

static void check_random(const struct job_request *q)
{
    if (q->dimension < 1 || q->dimension > 16384 || !q->limit) abort();
    check_into(q, q->limit);
}

static void check_holographic(const struct job *j)
{
    const struct job_request *q = &j->request;
    if (j->operation == OPERATION_BIND || j->operation == OPERATION_UNBIND) check_bind(q);
    if (j->operation == OPERATION_CLEANUP) check_cleanup(q);
    if (j->operation == OPERATION_BIND_MANY || j->operation == OPERATION_SUPERPOSE) check_lists(q);
    if (j->operation == OPERATION_PERMUTE) check_permute(q);
    if (j->operation == OPERATION_RANDOM) check_random(q);
}

static void check_complete(const struct job_request *q)
{
    if (!(q->beta > 0 && q->beta < INFINITY) || q->rounds < 1 || q->rounds > 100) abort();
    if (!q->mask.dtype) return;
    if (q->mask.columns != q->queries.columns) abort();
    if (q->mask.rows != 1 && q->mask.rows != q->queries.rows) abort();
}

static void check_engine(const struct job_request *q)
{
    if (!q->mask.dtype) return;
    if (q->mask.columns != q->queries.columns) abort();
    if (q->mask.rows != 1 && q->mask.rows != q->queries.rows) abort();
}

static void check_attractor(const struct job *j)
{
    const struct job_request *q = &j->request;
    const struct job_attractor *a = &q->attractor;
    if (j->operation == OPERATION_ATTRACTOR_CREATE &&
        !(q->dimension >= 1 && q->dimension <= 2048 && a->sparsity > 0 && a->sparsity <= 1 &&
          a->rate > 0 && a->rate <= 1))
        abort();
    if (j->operation == OPERATION_ATTRACTOR_LEARN && ((q->ids.dtype == 0) == (q->rows.dtype == 0) ||
                                                      (q->ids.dtype != 0) != (q->names[1][0] != 0)))
        abort();
    if (j->operation == OPERATION_ATTRACTOR_SET && q->rows.rows != q->rows.columns) abort();
}

/* A whole collection's weights are compared with its rows when it is found. */
static void check_covariance(const struct job_request *q)
{
    uint64_t rows = q->ids.rows + q->rows.rows;
    if (q->ids.dtype && q->rows.dtype) abort();
    if ((q->names[0][0] != 0) == (q->rows.dtype != 0)) abort();
    if (!q->ids.dtype && !q->rows.dtype) return;
    if (rows < 2 || (q->weights.dtype && q->weights.rows != rows)) abort();
}

static void check_cluster(const struct job_request *q)
{
    const struct job_cluster *c = &q->cluster;
    uint64_t rows = q->ids.rows + q->rows.rows;
    if (q->ids.dtype && q->rows.dtype) abort();
    if ((q->names[0][0] != 0) == (q->rows.dtype != 0)) abort();
    if (c->rule < 1 || c->rule > 2 || !c->size_min || !c->clusters_max) abort();
    if (!(fabsf(q->threshold) <= 1) || !(fabsf(c->threshold_second) <= 1)) abort();
    if (!(fabsf(c->score_min) <= 1) || (q->weights.dtype && c->rule != 2)) abort();
    if (q->offset && !q->names[1][0]) abort();
    bool given = q->ids.dtype || q->rows.dtype;
    if (given && (rows < 2 || (q->weights.dtype && q->weights.rows != rows))) abort();
}

static void check_recall(const struct job_request *q)
{
    const struct job_recall *r = &q->recall;
    bool by_id = q->ids.dtype != DTYPE_NONE;
    uint64_t cues = by_id ? q->ids.rows : q->queries.rows;
    if (by_id == (q->queries.dtype != DTYPE_NONE) || !cues) abort();
    if (q->k < 1 || q->k > 16384 || r->results < 1 || r->results > 16384) abort();
    if (!(q->threshold >= -1 && q->threshold <= 1) || !q->has_threshold) abort();
    if (!(r->width > 0 && r->width < INFINITY)) abort();
    if (!(r->activation_min >= 0 && r->activation_min <= 1)) abort();
    if (!(r->boost >= 0 && r->boost <= 65536) || signbit(r->boost)) abort();
    if (q->spread.mode < 1 || q->spread.mode > 2 || q->spread.hops < 1) abort();
    if ((q->spread.decay == DECAY_TABLE) != (q->table.rows == q->spread.hops)) abort();
    const uint64_t *offsets = q->offsets.data;
    for (uint64_t i = 1; i < q->offsets.rows; i++)
        if (offsets[i - 1] > offsets[i] || offsets[i] > cues) abort();
}

static void check_accepted(const struct job *j, const uint8_t *body, uint64_t body_bytes)
{
    const struct job_request *q = &j->request;
    const struct tensor *tensors[] = {
        &q->ids,     &q->rows,  &q->other_ids, &q->other_rows, &q->into_ids,
        &q->queries, &q->table, &q->offsets,   &q->filter_ids, &q->filter_bitmap,
        &q->weights, &q->kinds, &q->factors,   &q->targets,    &q->mask,
    };
    uint64_t filled = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        filled += check_tensor(tensors[i], body, body_bytes);
    if (filled != body_bytes) abort();
    if (j->operation == OPERATION_UPSERT && q->ids.rows != q->rows.rows) abort();
    if (j->operation == OPERATION_KNN && (q->k < 1 || q->k > 16384)) abort();
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++)
        if (!memchr(q->names[i], 0, sizeof q->names[i])) abort();
    if (j->operation == OPERATION_SPREAD) check_spread(q);
    check_holographic(j);
    if (j->operation == OPERATION_COMPLETE) check_complete(q);
    if (j->operation == OPERATION_COMPLETE_ENGINE) check_engine(q);
    if (j->operation == OPERATION_COVARIANCE) check_covariance(q);
    if (j->operation == OPERATION_CLUSTER) check_cluster(q);
    check_attractor(j);
    if (j->operation == OPERATION_RECALL) {
        check_recall(q);
        return;
    }
    if (j->operation == OPERATION_GRAPH_ADD_CSR) { /* what offsets hold is not looked at here */
        if (q->targets.rows != q->weights.rows || !q->offsets.rows) abort();
        if (q->ids.dtype && q->ids.rows != q->offsets.rows - 1) abort();
        return;
    }
    if (j->operation == OPERATION_GRAPH_ADD_WEIGHTS && !(q->low <= q->high)) abort();
    if (j->operation == OPERATION_GRAPH_ADD_EDGES || j->operation == OPERATION_GRAPH_REMOVE_EDGES ||
        j->operation == OPERATION_GRAPH_ADD_WEIGHTS)
        if (q->ids.rows != q->targets.rows) abort();
    if (q->offsets.dtype == DTYPE_NONE) return;
    const uint64_t *offsets = q->offsets.data;
    uint64_t n = q->ids.rows + q->rows.rows; /* one of them is absent */
    uint64_t lists = j->operation == OPERATION_SPREAD ? q->offsets.rows - 1 : q->queries.rows;
    for (uint64_t i = 0; i < lists; i++)
        if (offsets[i] > offsets[i + 1] || offsets[i + 1] > n) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct job j;
    if (size < 3) return 0;
    size_t message_bytes = (size_t)data[1] | (size_t)data[2] << 8;
    size_t left = size - 3;
    if (message_bytes > left) message_bytes = left;
    size_t body_bytes = (left - message_bytes) / 64 * 64;
    struct frame_header h = {
        .kind = data[0], .message_bytes = (uint32_t)message_bytes, .body_bytes = body_bytes};

    uint8_t *message = malloc(message_bytes + 1), *body = NULL;
    memcpy(message, data + 3, message_bytes);
    message = realloc(message, message_bytes ? message_bytes : 1);
    if (body_bytes) {
        body = aligned_alloc(64, body_bytes);
        memcpy(body, data + 3 + message_bytes, body_bytes);
    }
    struct failure f = {0};
    struct hello hello;
    if (h.kind == OPERATION_HELLO) {
        enum status st = decode_hello(message, h.message_bytes, &hello, &f);
        if (st != f.code) abort();
        if (!st && hello.token_bytes > sizeof hello.token) abort();
    } else {
        enum status st = decode_request(&h, message, body, operation_check, &j);
        if (st != j.failure.code) abort();
        if (!st) check_accepted(&j, body, body_bytes);
    }
    free(message);
    free(body);
    return 0;
}
