#include "daemon/sched/work.h"

void work_merge(struct work *w, const struct work *more)
{
    if (more->k > w->k) w->k = more->k;
    w->filtered |= more->filtered;
    w->gpu_able &= more->gpu_able;
    w->queries += more->queries;
    w->pairs += more->pairs;
    w->bytes_in += more->bytes_in;
    w->bytes_out += more->bytes_out;
    w->after.queries += more->after.queries;
    w->after.pairs += more->after.pairs;
    if (more->after.rows > w->after.rows) w->after.rows = more->after.rows;
}

struct work work_part(const struct work *w, uint64_t queries)
{
    struct work part = *w;
    part.queries = queries;
    part.pairs = w->pairs / w->queries * queries;
    part.bytes_in = w->bytes_in / w->queries * queries;
    part.bytes_out = w->bytes_out / w->queries * queries;
    part.after.queries = w->after.queries / w->queries * queries;
    part.after.pairs = w->after.pairs / w->queries * queries;
    return part;
}
