#include "daemon/exec/parts.h"

#include <assert.h>

#include "daemon/exec/operation.h"

void parts_make_request(struct job *whole, struct job *part, uint64_t first, uint64_t count)
{
    struct tensor *queries = &part->request.queries;
    uint64_t row_bytes = whole->request.queries.columns * sizeof(float);
    assert(first + count <= whole->request.queries.rows && count);
    part->request = whole->request;
    queries->data = (char *)queries->data + first * row_bytes;
    queries->rows = count;
    part->resident = whole->resident;
    part->collection = whole->collection;
    part->body_bytes = count * row_bytes;
    part->whole = whole;
    part->part_first = first;
    whole->parts_out++;
}

/* At most two parts have failures; that of the part with query 0 is reported. */
static void take_failure(struct job *whole, const struct job *part)
{
    if (!part->failure.code) return;
    if (!whole->failure.code || part->part_first == 0) whole->failure = part->failure;
}

bool parts_take(struct job *whole, struct job *part)
{
    assert(part->whole == whole && whole->parts_out);
    take_failure(whole, part);
    if (part->started_ns && (!whole->started_ns || part->started_ns < whole->started_ns))
        whole->started_ns = part->started_ns;
    if (part->finished_ns > whole->finished_ns) whole->finished_ns = part->finished_ns;
    whole->copy_ns += part->copy_ns;
    whole->screen.screened += part->screen.screened;
    whole->screen.survived += part->screen.survived;
    whole->screen.read_bytes += part->screen.read_bytes;
    if (atomic_load(&part->skipped)) atomic_store(&whole->skipped, true);
    part->whole = NULL;
    part->resident = NULL;
    part->collection = NULL;
    if (--whole->parts_out) return false;
    if (whole->failure.code || is_cancelled(whole)) operation_drop_result(whole);
    return true;
}

void parts_forget(struct job *whole)
{
    assert(!whole->parts_out);
    operation_drop_result(whole);
    memset(&whole->failure, 0, sizeof whole->failure);
    whole->started_ns = whole->finished_ns = whole->copy_ns = 0;
    whole->screen = (struct job_screen){0};
    atomic_store(&whole->skipped, false);
}
