/* covariance_shapes: what is known of a covariance before it runs. */
#include "daemon/ops/check.h"
#include "daemon/ops/covariance_inside.h"
#include "daemon/ops/work.h"

static uint64_t asked_rows(const struct job *j)
{
    const struct job_request *r = &j->request;
    if (is_present(&r->ids)) return r->ids.rows;
    return is_present(&r->rows) ? r->rows.rows : j->collection ? collection_rows(j->collection) : 0;
}

enum status covariance_check_request(struct job *j)
{
    const struct job_request *r = &j->request;
    enum status st = check_target(j);
    if (st) return st;
    bool listed = is_present(&r->ids);
    if (listed && check_inline(j))
        return check_refuse(j, DETAIL_BAD_SHAPE, "ids: inline rows and ids exclude each other");
    if (!listed && !check_inline(j)) return STATUS_OK;
    const struct tensor *rows = listed ? &r->ids : &r->rows;
    const char *name = listed ? "ids" : "rows";
    if (rows->rows < 2)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "%s: %" PRIu64 ", a covariance needs 2 rows or more", name, rows->rows);
    return is_present(&r->weights) ? check_same_rows(j, "weights", &r->weights, name, rows)
                                   : STATUS_OK;
}

/* Products are counted as the model counts those of pairs of rows: pairs times numbers of a row are
 * about half the square of the dimension, for each row. */
void covariance_work(const struct job *j, struct work *w)
{
    uint64_t d = work_dimension(j);
    w->queries = 1;
    w->rows = asked_rows(j);
    w->pairs = work_times(w->rows, d / 2 + 1);
    w->bytes_out = work_times(d + 1, d * sizeof(double));
}

static enum status check_collection(struct job *j, const struct covariance_job *w)
{
    if (w->rows.count < 2)
        return failure_set(&j->failure, STATUS_FAILED_PRECONDITION, DETAIL_NO_ROWS,
                           "%s has %" PRIu64 " row%s, a covariance needs 2 or more",
                           j->request.names[0], w->rows.count, w->rows.count == 1 ? "" : "s");
    if (w->weights && j->request.weights.rows != w->rows.count)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "weights: %" PRIu64 " rows, %s has %" PRIu64, j->request.weights.rows,
                           j->request.names[0], w->rows.count);
    return STATUS_OK;
}

/* Says how large the reply would be. */
static enum status check_reply(struct job *j, uint64_t d)
{
    uint64_t bytes = (d + 1) * d * sizeof(double);
    if (bytes <= j->reply_bytes_max) return STATUS_OK;
    return failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE,
                       "the covariance of %" PRIu64 " dimensions is %" PRIu64
                       " bytes, more than the limit of %" PRIu64 " (limits.reply_body_mib)",
                       d, bytes, j->reply_bytes_max);
}

enum status covariance_begin(struct job *j, struct covariance_job *w)
{
    const struct job_request *r = &j->request;
    *w = (struct covariance_job){.rows = {.kernels = j->kernels,
                                          .collection = j->collection,
                                          .inline_rows = r->rows.data,
                                          .count = asked_rows(j)},
                                 .kernels = covariance_choose(j->kernels->name),
                                 .weights = r->weights.data};
    enum status st = STATUS_OK;
    if (!j->collection)
        st = operation_check_dimension(j, &r->rows, "rows", &w->rows.dimension);
    else
        w->rows.dimension = collection_dimension(j->collection);
    if (!st && j->collection && !is_present(&r->ids)) st = check_collection(j, w);
    if (!st) st = check_reply(j, w->rows.dimension);
    if (st) return st;
    uint32_t d = w->rows.dimension;
    w->blocks = covariance_blocks(w->rows.count);
    atomic_init(&w->bad_row, NO_ROW);
    if (j->collection) operation_note_collection(j);
    j->result.counts[0] = w->rows.count;
    operation_shape(j, RESULT_COVARIANCE_MEAN, DTYPE_FLOAT64, 1, d);
    operation_shape(j, RESULT_COVARIANCE_COVARIANCE, DTYPE_FLOAT64, d, d);
    return STATUS_OK;
}

/* Each worker gets several parts, as long as what they leave is not many times the reply. */
static void cut(const struct job *j, struct covariance_job *w)
{
    enum { PARTS_EACH = 8, CHECK_BYTES = 1 << 20 };
    uint64_t d = w->rows.dimension, tile_bytes;
    w->tile_numbers = covariance_used((size_t)smaller(d, COVARIANCE_TILE));
    tile_bytes = w->tile_numbers * sizeof(double);
    w->sides = pieces_of(d, COVARIANCE_TILE);
    w->tiles = w->sides * (w->sides + 1) / 2;
    uint64_t ranges_max = pieces_of(UINT64_C(64) << 20, w->tiles * tile_bytes);
    if (ranges_max < 4) ranges_max = 4;
    w->range_blocks = 1;
    while (w->range_blocks < w->blocks &&
           (pieces_of(w->blocks, w->range_blocks) > ranges_max ||
            w->tiles * pieces_of(w->blocks, 2 * w->range_blocks) >= PARTS_EACH * j->worker_count))
        w->range_blocks *= 2;
    w->ranges = pieces_of(w->blocks, w->range_blocks);
    for (w->levels = 0; w->range_blocks >> w->levels > 1;)
        w->levels++;
    w->strips = pieces_of(d, COVARIANCE_STRIP);
    w->check_rows = CHECK_BYTES / (d * sizeof(float)) + 1;
    w->check_parts = j->collection ? 0 : pieces_of(w->rows.count, w->check_rows);
}

static uint64_t items_bytes(const struct job *j, const struct covariance_job *w)
{
    bool whole = j->collection && !is_present(&j->request.ids);
    return whole ? 2 * w->rows.count * sizeof(struct radix_item) : 0;
}

uint64_t covariance_layout_order(const struct job *j, struct covariance_job *w)
{
    uint64_t bytes = 0;
    layout_add(&bytes, sizeof *w);
    w->numbers = layout_add(&bytes, j->collection ? w->rows.count * sizeof(uint32_t) : 0);
    w->items = layout_add(&bytes, items_bytes(j, w));
    return bytes;
}

uint64_t covariance_layout(const struct job *j, struct covariance_job *w)
{
    uint64_t bytes = 0, workers = j->worker_count, n = w->rows.count;
    cut(j, w);
    uint64_t tile_bytes = w->tile_numbers * sizeof(double);
    layout_add(&bytes, sizeof *w);
    w->numbers = layout_add(&bytes, j->collection ? n * sizeof(uint32_t) : 0);
    w->sums = layout_add(&bytes, w->blocks * w->rows.dimension * sizeof(double));
    w->buffer_bytes = rows_buffer_bytes(w->rows.dimension, true);
    w->buffers = layout_add(&bytes, w->check_parts ? workers * w->buffer_bytes : 0);
    w->packs = layout_add(&bytes, workers * 2 * COVARIANCE_PACK_NUMBERS * sizeof(double));
    w->stacks = layout_add(&bytes, workers * w->levels * tile_bytes);
    /* Rows are in order before the first product. */
    uint64_t nodes = w->ranges * w->tiles * tile_bytes;
    uint64_t items = items_bytes(j, w);
    w->nodes = w->items = layout_add(&bytes, nodes > items ? nodes : items);
    return bytes;
}
