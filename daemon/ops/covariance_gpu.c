/* covariance_gpu: a covariance for a GPU process: the order of rows and the sums of weights are
 * made here, the rest there. */
#include "daemon/ops/covariance_inside.h"
#include "daemon/ops/work.h"

uint64_t covariance_gpu_pairs(const struct job *j)
{
    struct work w = {0};
    covariance_work(j, &w);
    return w.rows < 2 ? 0 : w.pairs;
}

static enum status prepare(struct job *j)
{
    struct covariance_job *w = covariance_of(j);
    enum status st = covariance_prepare(j, w);
    if (st) return st; /* the CPU says what is wrong */
    /* Sums of products have no metric, so any will do. */
    struct order_run *run = operation_gpu_order(j, RUN_COVARIANCE, METRIC_DOT);
    run->list_count = w->rows.count;
    if (j->collection && !w->in_order)
        run->positions = operation_gpu_place(j, scratch_at(j, w->numbers));
    if (w->weights) run->weights = operation_gpu_place(j, w->weights);
    run->weight_total = j->result.totals[0] = w->total;
    run->divisor = j->result.totals[1] = w->divisor;
    run->out_scores = operation_gpu_place(j, j->result.tensors[RESULT_COVARIANCE_MEAN].data);
    run->out_ids = operation_gpu_place(j, j->result.tensors[RESULT_COVARIANCE_COVARIANCE].data);
    return STATUS_OK;
}

enum status covariance_gpu_plan(struct job *j)
{
    enum { SHORT_MAX = 512 };
    struct covariance_job w;
    enum status st = covariance_begin(j, &w);
    if (st) return st;
    uint64_t bytes = covariance_layout_order(j, &w);
    st = operation_take_result(j, RESULTS_Covariance);
    if (!st) st = operation_take_own(j, bytes);
    if (st) return operation_drop_all(j);
    *covariance_of(j) = w;
    j->gpu.prepare = prepare;
    j->gpu.prepare_is_long = w.rows.count > SHORT_MAX;
    return STATUS_OK;
}
