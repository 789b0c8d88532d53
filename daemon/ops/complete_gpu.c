/* complete_gpu: completion for a GPU process: an order of all states, and records of what became of
 * them, which are told apart here. */
#include "daemon/ops/complete_inside.h"
#include "daemon/ops/work.h"

/* The kernel counts blocks of rows in 16 bits. */
enum { BLOCKS_MAX = 65535, RECORDS_SHORT_MAX = 4096 };

uint64_t complete_gpu_pairs(const struct job *j)
{
    uint64_t rows = collection_rows(j->collection);
    if (!rows || complete_blocks(rows) > BLOCKS_MAX) return 0;
    return work_times(j->request.queries.rows, rows);
}

static struct complete_record *records_of(struct job *j)
{
    return exchange_at(j, 0);
}

static void finish(struct job *j)
{
    const struct tensor *out = j->result.tensors;
    const struct complete_record *records = records_of(j);
    for (uint64_t i = 0; i < j->request.queries.rows; i++) {
        ((uint32_t *)out[RESULT_COMPLETE_ROUNDS].data)[i] = records[i].rounds;
        ((uint8_t *)out[RESULT_COMPLETE_CONVERGED].data)[i] = records[i].still != 0;
        ((float *)out[RESULT_COMPLETE_ENERGIES].data)[i] = records[i].energy;
        ((uint64_t *)out[RESULT_COMPLETE_IDS].data)[i] = records[i].id;
        ((float *)out[RESULT_COMPLETE_COSINES].data)[i] = records[i].cosine;
    }
}

enum status complete_gpu_plan(struct job *j)
{
    struct complete_job w = {0};
    const struct job_request *r = &j->request;
    enum status st = complete_check(j, &w);
    if (st) return st;
    operation_note_collection(j);
    complete_shape(j, &w);
    st = operation_take_result(j, RESULTS_Complete);
    if (!st) st = operation_take_exchange(j, w.states * sizeof(struct complete_record));
    if (st) return operation_drop_all(j);
    struct order_run *run = operation_gpu_order(j, RUN_COMPLETE, METRIC_DOT);
    run->k = r->rounds;
    run->threshold = r->beta;
    run->has_threshold = r->unit;
    run->list_count = is_present(&r->mask) ? r->mask.rows : 0;
    if (run->list_count) run->weights = operation_gpu_place(j, r->mask.data);
    run->out_scores = operation_gpu_place(j, j->result.tensors[RESULT_COMPLETE_STATES].data);
    run->out_ids = operation_gpu_place(j, records_of(j));
    j->gpu.finish = finish;
    j->gpu.finish_is_long = w.states > RECORDS_SHORT_MAX;
    return STATUS_OK;
}
