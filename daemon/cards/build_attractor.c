/* build_attractor: the orders that bring an attractor's replica up to date: a matrix, of which what
 * learning changes is the first part. The dentate matrix is uploaded with each build, once. */
#include "daemon/cards/cards_inside.h"
#include "daemon/store/attractor.h"

static struct attractor *attractor_of(const struct resident *of)
{
    return (struct attractor *)of;
}

uint64_t build_attractor_bytes(const struct resident *of)
{
    return build_mapped(resident_bytes(of));
}

static void order_run(struct cards *g, struct job *j, struct card_replica *r,
                      const struct attractor_run *run, uint32_t dimension, uint64_t version)
{
    struct order order = {
        .kind = ORDER_UPLOAD,
        .version = version,
        .upload = {.dimension = dimension,
                   .fresh = !r->begun,
                   .row_count = (uint64_t)(ATTRACTOR_SPREAD + 1) * dimension,
                   .first = run->first,
                   .count = run->count,
                   .rows = run->count ? heap_place(g->options.heap, run->rows) : PLACE_NONE,
                   .ids = PLACE_NONE,
                   .round = r->round,
                   .bare = true,
                   .space_bytes_max = build_space_bytes_max(g, r)},
    };
    build_order(g, j, r, &order, run->count * vector_stride(dimension) * sizeof(float));
}

/* All of it is at most 176 MiB, so that it is never cut. */
bool build_attractor(struct cards *g, struct job *j, uint32_t operand, uint64_t bytes_max,
                     uint32_t orders_max)
{
    struct card_replica *r = replica_of(job_operand(j, operand));
    struct attractor *a = attractor_of(r->resident);
    const struct attractor_edition *e = j->objects[operand].attractor; /* the newest */
    uint32_t dimension = attractor_dimension(e);
    uint64_t version = attractor_version(e);
    struct attractor_run runs[2] = {{0}};
    uint32_t count = 0;
    (void)bytes_max;
    for (uint64_t from = 0; attractor_next_dirty(a, from, &runs[count]);) {
        from = runs[count].first + runs[count].count;
        count++;
    }
    uint32_t orders = count ? count : 1; /* without rows it brings the version */
    if (orders > orders_max) return false;
    r->version = version;
    replica_set_bytes(r, resident_bytes(r->resident));
    for (uint32_t i = 0; i < orders; i++) {
        if (count) attractor_clean(a, &runs[i]);
        order_run(g, j, r, &runs[i], dimension, i + 1 < orders ? 0 : version);
    }
    return true;
}
