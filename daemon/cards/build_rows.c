/* build_rows: the orders that bring a collection's replica up to date. */
#include <string.h>

#include "daemon/cards/cards_inside.h"
#include "daemon/store/collection.h"
#include "kernels/shadow.h"
#include "kernels/shadow_sum.h"

/* Shorter rows count as this long, because their ids are copied on the loop. */
enum { ROW_BYTES_MIN = 1024 };
/* Rows that do not stay are coded in VRAM for requests, an order's in a part of it, or in a MiB,
 * which the smallest card has; but at least so many rows, a block of dirty ones (store/dirty.h). */
enum { CODED_PART = 8, CODED_BYTES_MIN = 1 << 20, CODED_ROWS_MIN = 64 };

static struct collection *collection_of(const struct resident *of)
{
    return (struct collection *)of;
}

static uint64_t row_bytes(const struct collection *c)
{
    return vector_stride(collection_dimension(collection_now(c))) * sizeof(float);
}

static uint64_t in_pieces(uint64_t bytes, uint64_t piece)
{
    return (bytes + piece - 1) / piece * piece;
}

uint64_t build_rows_bytes_by(const struct resident *of, uint64_t piece)
{
    const struct collection *c = collection_of(of);
    uint64_t rows = collection_rows(collection_now(c));
    return in_pieces(rows * row_bytes(c), piece) + in_pieces(rows * sizeof(float), piece) +
           in_pieces(rows * sizeof(uint64_t), piece);
}

uint64_t build_rows_bytes(const struct resident *of)
{
    return build_rows_bytes_by(of, BUILD_MAPPED_BYTES);
}

uint64_t build_codes_bytes(const struct resident *of, uint64_t piece)
{
    const struct collection *c = collection_of(of);
    uint64_t rows = collection_rows(collection_now(c));
    const struct shadow_sizes s = shadow_sizes_of(collection_dimension(collection_now(c)), rows);
    return in_pieces(s.codes, piece) + in_pieces(rows * sizeof(uint64_t), piece) +
           4 * in_pieces(s.floats, piece) + /* norms, and three more of each row */
           in_pieces(s.centre, piece);
}

/* How many orders and rows one call uploads. */
struct build_piece {
    uint32_t orders;
    uint64_t rows;
    bool last; /* nothing is left after it */
};

/* Finds the rows of the next order. */
static bool next_run(const struct card_replica *r, uint64_t from, uint64_t *first, uint64_t *count)
{
    const struct collection *c = collection_of(r->resident);
    const struct share *share = gpu_process_share(r->card->process);
    uint64_t room = atomic_load(&share->usage.slab_bytes) / CODED_PART, most = CODED_ROWS_MIN;
    if (!collection_next_dirty(c, from, first, count)) return false;
    if (room < CODED_BYTES_MIN) room = CODED_BYTES_MIN;
    while (most * 2 * row_bytes(c) <= room)
        most *= 2;
    if (r->shadow_only && *count > most) *count = most;
    return true;
}

static struct build_piece measure(const struct card_replica *r, uint64_t bytes_max,
                                  uint32_t orders_max)
{
    struct build_piece p = {.last = true};
    uint64_t bytes = row_bytes(collection_of(r->resident)), first, count;
    if (bytes < ROW_BYTES_MIN) bytes = ROW_BYTES_MIN;
    for (uint64_t from = 0; next_run(r, from, &first, &count); from = first + count) {
        if (p.orders && (p.orders == orders_max || (p.rows + count) * bytes > bytes_max)) {
            p.last = false;
            break;
        }
        p.orders++;
        p.rows += count;
    }
    return p;
}

static void order_rows(struct cards *g, struct job *j, struct card_replica *r,
                       struct order_upload up, uint64_t version)
{
    struct order order = {.kind = ORDER_UPLOAD, .version = version, .upload = up};
    order.upload.fresh = !r->begun;
    order.upload.shadow_only = r->shadow_only;
    order.upload.exact = collection_shadow_is_barred(collection_of(r->resident));
    order.upload.round = r->round;
    order.upload.space_bytes_max = build_space_bytes_max(g, r);
    build_order(g, j, r, &order, up.count * vector_stride(up.dimension) * sizeof(float));
}

/* Ids are in this process's own memory: those of the whole piece are copied into one block. */
static void give_piece(struct cards *g, struct job *j, uint32_t operand,
                       const struct build_piece *p)
{
    struct resident *of = job_operand(j, operand);
    struct card_replica *r = replica_of(of);
    struct collection *c = collection_of(of);
    const struct edition *e = j->objects[operand].collection; /* the newest */
    uint64_t *staging = j->gpu.staging[operand].data, first, count, from = 0;
    struct order_upload up = {
        .dimension = collection_dimension(e),
        .row_count = collection_rows(e),
        .rows = PLACE_NONE,
        .ids = PLACE_NONE,
    };
    uint64_t version = p->last ? collection_version(e) : 0;
    r->version = version;
    replica_set_bytes(r, r->shadow_only ? build_codes_bytes(of, 1) : resident_bytes(of));
    if (!p->orders) order_rows(g, j, r, up, version);
    for (uint32_t i = 0; i < p->orders; i++, from = first + count) {
        if (!next_run(r, from, &first, &count)) return;
        const uint64_t *ids;
        struct row_block block = collection_block(e, first, (size_t)count, &ids);
        memcpy(staging, ids, count * sizeof *ids);
        up.first = first;
        up.count = count;
        up.rows = heap_place(g->options.heap, block.rows);
        up.ids = heap_place(g->options.heap, staging);
        staging += count;
        collection_clean(c, first, count);
        order_rows(g, j, r, up, i + 1 < p->orders ? 0 : version);
    }
}

bool build_rows(struct cards *g, struct job *j, uint32_t operand, uint64_t bytes_max,
                uint32_t orders_max)
{
    struct resident *of = job_operand(j, operand);
    struct build_piece p = measure(replica_of(of), bytes_max, orders_max);
    if (!p.last && bytes_max == UINT64_MAX) return false;
    /* The block is the daemon's own and soon freed, so that a space at its quota gets replicas,
     * too. */
    uint64_t staging = p.rows * sizeof(uint64_t);
    if (staging &&
        heap_take_past_quota(g->options.heap, staging, of->space->number, &j->gpu.staging[operand]))
        return false;
    give_piece(g, j, operand, &p);
    return true;
}
