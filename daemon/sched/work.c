#include "daemon/sched/work.h"

#include "kernels/shadow.h"

/* ---- int8 ---- */

static float part_of_one(float x)
{
    return x > 0 ? x < 1 ? x : 1 : 0; /* 0: not a number, too */
}

struct work_screen work_screen_on(const struct work *w, enum backend_id b)
{
    const struct work_screen *s = &w->screen[b == BACKEND_GPU];
    return (struct work_screen){part_of_one(s->asked), part_of_one(s->passed)};
}

/* Of a row in float32, what is read instead where int8 is asked and that part of it is scored. */
static double share_of(const struct work *w, enum backend_id b, double scored)
{
    struct work_screen s = work_screen_on(w, b);
    if (s.asked <= 0 || !w->stride) return 1;
    double codes = (double)shadow_bytes(w->stride, 1) / ((double)w->stride * sizeof(float));
    return 1 - (double)s.asked + (double)s.asked * (codes + scored);
}

double work_row_bytes(const struct work *w, enum backend_id b)
{
    double queries = w->queries ? (double)w->queries : 1;
    double scored = (double)work_screen_on(w, b).passed * queries; /* by any of them */
    double bytes = (double)w->rows * w->stride * sizeof(float);
    return bytes * share_of(w, b, scored < 1 ? scored : 1);
}

double work_products(const struct work *w, enum backend_id b)
{
    return (double)w->pairs * w->stride * share_of(w, b, (double)work_screen_on(w, b).passed);
}

void work_note_screen(struct work *w, enum backend_id b, const struct job_screen *did)
{
    struct work_screen seen = {0};
    if (did->screened && w->pairs) {
        seen.asked = part_of_one((float)did->screened / (float)w->pairs);
        seen.passed = part_of_one((float)did->survived / (float)did->screened);
    }
    w->screen[b == BACKEND_GPU] = seen;
}

/* ---- together, in parts ---- */

/* As much is asked as both ask, and more passes. */
static struct work_screen screen_of_both(struct work_screen a, struct work_screen b)
{
    return (struct work_screen){a.asked < b.asked ? a.asked : b.asked,
                                a.passed > b.passed ? a.passed : b.passed};
}

void work_merge(struct work *w, const struct work *more)
{
    for (int i = 0; i < 2; i++)
        w->screen[i] = screen_of_both(w->screen[i], more->screen[i]);
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
