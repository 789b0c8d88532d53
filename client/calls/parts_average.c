/* parts_average: the weighted average of more rows than fit into a request. A sum of rounded
 * numbers has an order, so the running sums travel on with the next part, as rows of their own.
 *
 * The daemon computes sums = fma(w, x, sums) and total = total + w for rising rows, both from +0,
 * and divides. A row of zeros changes total alone. So each part begins with five rows that restore
 * both:
 *
 *   weight 2^96     the sums of at least 1, times 2^-96, which is exact
 *   weight -2^96    zeros
 *   weight 1        the smaller sums; of the two addends of a column one is 0
 *   weight -1       zeros; total is 0 again
 *   weight total    zeros; total is that of the parts before
 *
 * and every part but the last ends with zeros of weights -total and 1: it is divided by exactly 1,
 * so that its answer is its running sums. The scale keeps the squared norm of the first row, which
 * the daemon looks at, from overflowing. Running sums that overflow themselves are OUT_OF_RANGE. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/calls/calls.h"
#include "client/calls/parts.h"

enum { HEAD_ROWS = 5, TAIL_ROWS = 2 };

#define SCALE 0x1p96F

struct average_parts {
    ea_client *c;
    const ea_average_question *q;
    float *head; /* HEAD_ROWS rows; the last two of them are zeros, and the tail, too */
    float total; /* of the weights before */
    int64_t deadline_ns;
};

/* Running sums -> the head of the next part. */
static bool keep_sums(struct average_parts *p, const float *sums)
{
    uint32_t d = p->q->dimension;
    bool finite = isfinite(p->total);
    for (uint32_t i = 0; i < d; i++) {
        bool large = fabsf(sums[i]) >= 1;
        finite &= isfinite(sums[i]) != 0;
        p->head[i] = large ? sums[i] / SCALE : 0;
        p->head[2 * (size_t)d + i] = large ? 0 : sums[i];
    }
    return finite;
}

static ea_status build(struct average_parts *p, uint64_t at, uint64_t rows, bool last,
                       struct client_request **out)
{
    ea_client *c = p->c;
    const ea_average_question *q = p->q;
    size_t row_bytes = q->dimension * sizeof(float);
    uint64_t all = HEAD_ROWS + rows + (last ? 0 : TAIL_ROWS);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_WEIGHTED_AVERAGE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_WeightedAverageRequest m = {0};
    /* The weights that the library adds lie in the head's room, behind its rows. */
    float *w = p->head + HEAD_ROWS * (size_t)q->dimension;
    memcpy(w, (const float[HEAD_ROWS]){SCALE, -SCALE, 1, -1, p->total}, HEAD_ROWS * sizeof *w);
    for (uint64_t i = 0; i < rows; i++)
        p->total += q->weights[at + i];
    memcpy(w + HEAD_ROWS, (const float[TAIL_ROWS]){-p->total, 1}, TAIL_ROWS * sizeof *w);
    const struct iovec weights[] = {
        {w, HEAD_ROWS * sizeof *w},
        {(float *)q->weights + at, rows * sizeof *w},
        {w + HEAD_ROWS, last ? 0 : TAIL_ROWS * sizeof *w},
    };
    const struct iovec vectors[] = {
        {p->head, HEAD_ROWS * row_bytes},
        {(float *)q->rows + at * q->dimension, rows * row_bytes},
        {p->head + 3 * (size_t)q->dimension, last ? 0 : TAIL_ROWS * row_bytes},
    };
    m.has_weights = m.has_rows = true;
    m.weights = ea_request_pieces(r, engram_accel_v1_Dtype_DTYPE_FLOAT32, weights, all, 1);
    m.rows = ea_request_pieces(r, engram_accel_v1_Dtype_DTYPE_FLOAT32, vectors, all, q->dimension);
    r->expect = (struct expectation){.dimension = q->dimension};
    return ea_build_end(c, r, EA_OK, engram_accel_v1_WeightedAverageRequest_fields, &m, out);
}

static ea_status run_part(struct average_parts *p, uint64_t at, uint64_t rows, float *average_out)
{
    uint32_t d = p->q->dimension;
    memset(p->head + d, 0, d * sizeof *p->head);
    memset(p->head + 3 * (size_t)d, 0, 2 * (size_t)d * sizeof *p->head);
    bool last = at + rows == p->q->count;
    struct client_request *r;
    ea_status st = build(p, at, rows, last, &r);
    if (st) return st;
    st = ea_run(p->c, r, p->deadline_ns, 0);
    if (!st && last) memcpy(average_out, r->result.vectors, d * sizeof *average_out);
    if (!st && !last && !keep_sums(p, r->result.vectors))
        st = ea_fail(p->c, EA_OUT_OF_RANGE, EA_DETAIL_NOT_FINITE,
                     "the running sums overflow, so that they cannot go on with another request");
    ea_request_release(p->c, r);
    return st;
}

ea_status ea_parts_average(ea_client *c, const ea_average_question *q, uint64_t rows,
                           float *average_out)
{
    if (rows <= HEAD_ROWS + TAIL_ROWS)
        return ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_BODY_TOO_LARGE,
                       "%d rows are more than the daemon takes in a request",
                       HEAD_ROWS + TAIL_ROWS + 1);
    struct average_parts p = {.c = c, .q = q, .deadline_ns = ea_deadline_after(c->timeout_us)};
    p.head = calloc(HEAD_ROWS * (size_t)(q->dimension + 2), sizeof *p.head);
    if (!p.head) return ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY, "no memory");
    rows -= HEAD_ROWS + TAIL_ROWS;
    bool outermost = ea_call_begin(c);
    ea_status st = EA_OK;
    for (uint64_t at = 0; !st && at < q->count; at += rows)
        st = run_part(&p, at, q->count - at < rows ? q->count - at : rows, average_out);
    ea_call_end(c, outermost);
    free(p.head);
    return st;
}
