#include "daemon/exec/operation.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "daemon/store/collection.h"
#include "daemon/store/space.h"
#include "kernels/vectors.h"

static uint64_t padded_bytes(const struct tensor *rows)
{
    if (rows->columns > VECTOR_DIMENSION_MAX) return 0;
    return rows->rows * (vector_stride((uint32_t)rows->columns) + 1) * sizeof(float);
}

uint64_t operation_rows_bytes(const struct job *j)
{
    const struct job_request *r = &j->request;
    return padded_bytes(&r->rows) + padded_bytes(&r->other_rows);
}

uint32_t operation_owner(const struct job *j)
{
    return j->space ? j->space->number : 0;
}

enum status operation_refuse_memory(struct job *j, enum status st, const char *what)
{
    heap_refuse(j->heap, st, operation_owner(j), what, &j->failure);
    j->failure.retry_after_ms = RETRY_MEMORY_MS;
    return j->failure.code;
}

typedef enum status (*heap_taker)(struct heap *h, uint64_t bytes, uint32_t owner,
                                  struct heap_block *out);

static enum status take(struct job *j, heap_taker taker, uint64_t bytes, const char *what,
                        struct heap_block *out)
{
    char all[64];
    enum status st = taker(j->heap, bytes, operation_owner(j), out);
    if (!st) return STATUS_OK;
    snprintf(all, sizeof all, "%" PRIu64 " bytes of %s", bytes, what);
    return operation_refuse_memory(j, st, all);
}

enum status operation_take_scratch(struct job *j, uint64_t bytes)
{
    heap_taker taker = j->backend == BACKEND_GPU ? heap_take_exchange : heap_take;
    return take(j, taker, bytes ? bytes : 1, "scratch", &j->plan.scratch);
}

enum status operation_take_own(struct job *j, uint64_t bytes)
{
    return take(j, heap_take, bytes ? bytes : 1, "scratch", &j->plan.scratch);
}

enum status operation_take_exchange(struct job *j, uint64_t bytes)
{
    if (!bytes) return STATUS_OK;
    return take(j, heap_take_exchange, bytes, "scratch", &j->plan.exchange);
}

static bool tensor_size(const struct tensor *t, uint64_t *bytes)
{
    uint64_t elements;
    return !__builtin_mul_overflow(t->rows, t->columns, &elements) &&
           !__builtin_mul_overflow(elements, dtype_bytes(t->dtype), bytes) &&
           *bytes <= UINT64_MAX / 16;
}

/* A part writes its lines into the whole's block, which the first part that is planned takes. Each
 * tensor has a line for every query. */
static enum status take_lines(struct job *j, uint32_t count)
{
    struct job *whole = j->whole;
    if (!whole->result.block.data) {
        for (uint32_t i = 0; i < count; i++) {
            whole->result.tensors[i] = j->result.tensors[i];
            whole->result.tensors[i].rows = whole->request.queries.rows;
        }
        operation_note_collection(whole);
        if (operation_take_result(whole, count)) {
            j->failure = whole->failure;
            memset(&whole->failure, 0, sizeof whole->failure);
            operation_drop_result(whole);
            return j->failure.code;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        struct tensor *t = &j->result.tensors[i], *all = &whole->result.tensors[i];
        uint64_t line_bytes = t->columns * dtype_bytes(t->dtype);
        assert(t->dtype == all->dtype && t->columns == all->columns);
        t->data = (char *)all->data + j->part_first * line_bytes;
    }
    return STATUS_OK;
}

enum status operation_take_result(struct job *j, uint32_t count)
{
    if (j->whole) return take_lines(j, count);
    struct job_result *r = &j->result;
    uint64_t body = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes;
        if (!tensor_size(&r->tensors[i], &bytes) || bytes > j->reply_bytes_max) {
            body = UINT64_MAX;
            break;
        }
        layout_add(&body, bytes);
    }
    if (body > j->reply_bytes_max)
        return failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE,
                           "the reply would be larger than the limit of %" PRIu64
                           " bytes (limits.reply_body_mib)",
                           j->reply_bytes_max);
    r->body_bytes = body;
    if (body == 0) return STATUS_OK;
    heap_taker taker = j->backend == BACKEND_CPU ? heap_take : heap_take_exchange;
    enum status st = take(j, taker, body, "reply", &r->block);
    if (st) {
        r->body_bytes = 0;
        return st;
    }
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = 0;
        tensor_size(&r->tensors[i], &bytes);
        char *data = (char *)r->block.data + layout_add(&at, bytes);
        memset(data + bytes, 0, (char *)r->block.data + at - (data + bytes));
        r->tensors[i].data = data;
    }
    return STATUS_OK;
}

void operation_note_collection(struct job *j)
{
    if (!j->collection) return;
    j->result.version = collection_version(j->collection);
    j->result.rows = collection_rows(j->collection);
}

enum status operation_drop_result(struct job *j)
{
    heap_give(j->heap, &j->result.block);
    j->result.body_bytes = 0;
    memset(j->result.tensors, 0, sizeof j->result.tensors);
    return j->failure.code;
}

struct heap_block operation_keep_exchange(struct job *j)
{
    struct heap_block block = j->plan.exchange;
    j->plan.exchange = (struct heap_block){0};
    heap_give(j->heap, &j->kept);
    return block;
}

void operation_give_scratch(struct job *j)
{
    heap_give(j->heap, &j->plan.scratch);
    heap_give(j->heap, &j->plan.exchange);
    heap_give(j->heap, &j->plan.before);
}

enum status operation_drop_all(struct job *j)
{
    operation_give_scratch(j);
    memset(&j->plan, 0, sizeof j->plan);
    return operation_drop_result(j);
}

enum status operation_refuse_known(struct job *j, const char *what, uint64_t index,
                                   const float *row, const uint8_t *known, uint32_t dimension)
{
    for (uint32_t column = 0; column < dimension; column++)
        if (!isfinite(row[column]) && (!known || known[column]))
            return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE,
                               "%s %" PRIu64 ": column %" PRIu32 " is not a finite number", what,
                               index, column);
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW,
                       "%s %" PRIu64 ": its squared norm overflows float32", what, index);
}

enum status operation_refuse_row(struct job *j, const char *what, uint64_t index, const float *row,
                                 uint32_t dimension)
{
    return operation_refuse_known(j, what, index, row, NULL, dimension);
}

const uint8_t *operation_mask(const struct job *j, uint64_t line)
{
    const struct tensor *mask = &j->request.mask;
    if (mask->dtype == DTYPE_NONE) return NULL;
    return (const uint8_t *)mask->data + (mask->rows == 1 ? 0 : line) * mask->columns;
}
