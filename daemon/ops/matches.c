#include "daemon/ops/matches.h"

#include <stdio.h>

#include "daemon/base/yield.h"
#include "daemon/ops/match_sort.h"
#include "daemon/store/space.h"
#include "kernels/topk.h"

enum { FIRST_CHUNK_BYTES = 64 << 10, CHUNK_BYTES = 1 << 20, MATCH_REPLY_BYTES = 12 };

/* A heap block of triples; entry.key holds the query until the triples are sorted. */
struct match_chunk {
    struct heap_block before; /* the worker's previous chunk */
    uint64_t count, capacity;
    struct topk_entry entries[];
};

struct match_list {
    struct heap_block last;
    char rest_of_line[64 - sizeof(struct heap_block)];
};

void matches_layout(struct matches *m, const struct job *j, uint64_t query_count, uint64_t *bytes)
{
    m->query_count = query_count;
    m->count_max = j->reply_bytes_max / MATCH_REPLY_BYTES;
    m->lists = layout_add(bytes, j->worker_count * sizeof(struct match_list));
    m->starts = layout_add(bytes, (query_count + 1) * sizeof(uint64_t));
}

static struct match_list *list_of(const struct matches *m, struct job *j, uint32_t worker)
{
    return (struct match_list *)scratch_at(j, m->lists) + worker;
}

void matches_prepare(struct matches *m, struct job *j)
{
    memset(scratch_at(j, m->lists), 0, j->worker_count * sizeof(struct match_list));
    atomic_init(&m->count, 0);
    atomic_init(&m->refused, STATUS_OK);
}

bool matches_welcome(const struct matches *m)
{
    return !atomic_load_explicit(&m->refused, memory_order_relaxed) &&
           atomic_load_explicit(&m->count, memory_order_relaxed) <= m->count_max;
}

static uint32_t owner_of(const struct job *j)
{
    return j->space ? j->space->number : 0;
}

static struct match_chunk *chunk_with_room(struct matches *m, struct job *j,
                                           struct match_list *list)
{
    struct match_chunk *c = list->last.data;
    if (c && c->count < c->capacity) return c;
    uint64_t bytes = c ? CHUNK_BYTES : FIRST_CHUNK_BYTES;
    struct heap_block block;
    enum status st = heap_take(j->heap, bytes, owner_of(j), &block);
    if (st) {
        atomic_store(&m->refused, st);
        return NULL;
    }
    c = block.data;
    c->before = list->last;
    c->count = 0;
    c->capacity = (bytes - sizeof *c) / sizeof *c->entries;
    list->last = block;
    return c;
}

void matches_add(struct matches *m, struct job *j, uint32_t worker, uint64_t query,
                 const uint64_t *ids, const float *scores, const uint32_t *positions, size_t count)
{
    if (count == 0) return;
    if (atomic_fetch_add_explicit(&m->count, count, memory_order_relaxed) + count > m->count_max)
        return;
    struct match_list *list = list_of(m, j, worker);
    for (size_t i = 0; i < count; i++) {
        struct match_chunk *c = chunk_with_room(m, j, list);
        if (!c) return;
        uint32_t at = positions[i];
        c->entries[c->count++] = (struct topk_entry){ids[at], (uint32_t)query, scores[at]};
    }
}

static void drop_lists(struct matches *m, struct job *j)
{
    for (uint32_t worker = 0; worker < j->worker_count; worker++) {
        struct match_list *list = list_of(m, j, worker);
        while (list->last.data) {
            struct heap_block block = list->last;
            list->last = ((struct match_chunk *)block.data)->before;
            heap_give(j->heap, &block);
        }
    }
}

/* starts[q]: where query q's matches begin; afterwards, where they end. */
static uint64_t count_by_query(struct matches *m, struct job *j, uint64_t *starts)
{
    memset(starts, 0, (m->query_count + 1) * sizeof *starts);
    for (uint32_t worker = 0; worker < j->worker_count; worker++)
        for (struct match_chunk *c = list_of(m, j, worker)->last.data; c; c = c->before.data) {
            yield_check();
            for (uint64_t i = 0; i < c->count; i++)
                starts[c->entries[i].key]++;
        }
    uint64_t total = 0;
    for (uint64_t q = 0; q <= m->query_count; q++) {
        uint64_t count = starts[q];
        starts[q] = total;
        total += count;
    }
    return total;
}

static void scatter(struct matches *m, struct job *j, uint64_t *starts, bool lower_is_better,
                    struct topk_entry *sorted)
{
    for (uint32_t worker = 0; worker < j->worker_count; worker++)
        for (struct match_chunk *c = list_of(m, j, worker)->last.data; c; c = c->before.data) {
            yield_check();
            for (uint64_t i = 0; i < c->count; i++) {
                struct topk_entry e = c->entries[i];
                uint64_t at = starts[e.key]++;
                e.key = topk_key(e.score, lower_is_better);
                sorted[at] = e;
            }
        }
}

/* Refuses the job; a retry helps when other requests, of the space or of all, have finished. */
static void refuse(struct job *j, enum status st, const char *what)
{
    heap_refuse(j->heap, st, owner_of(j), what, &j->failure);
    j->failure.retry_after_ms = RETRY_MEMORY_MS;
}

/* Returns the most matches of one query. */
static uint64_t longest(const uint64_t *offsets, uint64_t queries)
{
    uint64_t most = 0;
    for (uint64_t q = 0; q < queries; q++)
        if (offsets[q + 1] - offsets[q] > most) most = offsets[q + 1] - offsets[q];
    return most;
}

static enum status take_entries(const struct job *j, uint64_t count, struct heap_block *out)
{
    return heap_take(j->heap, count * sizeof(struct topk_entry), owner_of(j), out);
}

static void fill(struct matches *m, struct job *j, uint64_t total, bool lower_is_better)
{
    uint64_t *starts = scratch_at(j, m->starts);
    operation_shape(j, RESULT_SIMILARITY_IDS, DTYPE_UINT64, total, 1);
    operation_shape(j, RESULT_SIMILARITY_SCORES, DTYPE_FLOAT32, total, 1);
    operation_shape(j, RESULT_SIMILARITY_OFFSETS, DTYPE_UINT64, m->query_count + 1, 1);
    if (operation_take_result(j, RESULTS_Similarity)) return;
    uint64_t *ids = j->result.tensors[RESULT_SIMILARITY_IDS].data,
             *offsets = j->result.tensors[RESULT_SIMILARITY_OFFSETS].data;
    float *scores = j->result.tensors[RESULT_SIMILARITY_SCORES].data;
    memcpy(offsets, starts, (m->query_count + 1) * sizeof *offsets);
    if (total == 0) return;

    struct heap_block block;
    uint64_t most = longest(starts, m->query_count), room = most > MATCH_SORT_PIECE ? most : 0;
    enum status st = take_entries(j, total + room, &block);
    if (st && room) {
        room = 0; /* without it they are sorted all the same, in one piece */
        st = take_entries(j, total, &block);
    }
    if (st) {
        char what[48];
        snprintf(what, sizeof what, "sorting %" PRIu64 " matches", total);
        refuse(j, st, what);
        return;
    }
    struct topk_entry *sorted = block.data;
    scatter(m, j, starts, lower_is_better, sorted);
    for (uint64_t q = 0; q < m->query_count && !is_cancelled(j); q++) {
        /* they are where they end now; what the reply holds, others may have written to */
        uint64_t first = q ? starts[q - 1] : 0, count = starts[q] - first;
        const struct topk_entry *best =
            match_sort(sorted + first, room ? sorted + total : NULL, count);
        for (uint64_t i = 0; i < count; i++) {
            if (i % MATCH_SORT_PIECE == 0) yield_check();
            ids[first + i] = best[i].id;
            scores[first + i] = best[i].score;
        }
    }
    heap_give(j->heap, &block);
}

void matches_finish(struct matches *m, struct job *j, bool lower_is_better)
{
    if (!j->failure.code && atomic_load(&m->count) > m->count_max)
        failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE,
                    "more matches than a reply of %" PRIu64 " bytes holds", j->reply_bytes_max);
    if (!j->failure.code && atomic_load(&m->refused))
        refuse(j, atomic_load(&m->refused), "the matches");
    if (!j->failure.code && !is_cancelled(j)) {
        uint64_t total = count_by_query(m, j, scratch_at(j, m->starts));
        fill(m, j, total, lower_is_better);
    }
    drop_lists(m, j);
}
