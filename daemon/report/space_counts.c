#include "daemon/report/space_counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"

static struct space_counts *add(struct spaces_counted *t, const char *name)
{
    struct space_counts *row = &t->rows[t->count++];
    snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

enum status space_counts_init(struct spaces_counted *t, uint32_t places, const struct config *c)
{
    memset(t, 0, sizeof *t);
    t->max = places + 1;
    t->rows = fault_here("metrics: spaces") ? NULL : calloc(t->max, sizeof *t->rows);
    if (!t->rows) return STATUS_RESOURCE_EXHAUSTED;
    add(t, "other");
    for (uint32_t i = 0; i < c->space_count && t->count < t->max; i++)
        if (strcmp(c->spaces[i].name, t->rows[0].name) != 0) add(t, c->spaces[i].name);
    return STATUS_OK;
}

void space_counts_finish(struct spaces_counted *t)
{
    free(t->rows);
}

/* A space that has no place keeps looking only while there are some. One that is called other is
 * counted with them: two series of one name would spoil the whole. */
struct space_counts *space_counts_of(struct spaces_counted *t, struct space *space)
{
    if (space->counted_as) return &t->rows[space->counted_as];
    uint32_t i = 0;
    if (space->counted_in_others && t->count == t->max) return &t->rows[0];
    while (i < t->count && strcmp(t->rows[i].name, space->name) != 0)
        i++;
    if (i == t->count) {
        space->counted_in_others = true;
        if (t->count == t->max) return &t->rows[0];
        add(t, space->name);
    }
    space->counted_as = i;
    return &t->rows[i];
}

static void count_route(struct space_counts *row, const struct job *j)
{
    if (j->backend == BACKEND_GPU || j->backend == BACKEND_BOTH) row->gpu_runs++;
    if (j->backend != BACKEND_CPU) return;
    bool no_memory = j->reason == REASON_VRAM_PRESSURE;
    bool error = j->reason == REASON_FALLBACK_AFTER_ERROR;
    row->gpu_no_memory += no_memory;
    row->gpu_errors += error;
    row->fallbacks +=
        no_memory || error || j->reason == REASON_GPU_DOWN || j->reason == REASON_LOW_SUCCESS_RATE;
}

void space_counts_add(struct spaces_counted *t, const struct job *j, uint64_t answered_ns)
{
    struct space_counts *row = space_counts_of(t, j->space);
    uint64_t total_ns = answered_ns > j->received_ns ? answered_ns - j->received_ns : 0;
    row->requests++;
    if (j->failure.code) row->errors++;
    if (j->failure.code == STATUS_RESOURCE_EXHAUSTED) row->refused++;
    if (j->started_ns >= j->received_ns && j->started_ns) {
        row->queue_ns += j->started_ns - j->received_ns;
        if (j->finished_ns > j->started_ns) row->run_ns += j->finished_ns - j->started_ns;
        count_route(row, j);
    } else if (operation_row(j->operation)->answered) {
        row->run_ns += total_ns;
    } else {
        row->queue_ns += total_ns;
    }
}
