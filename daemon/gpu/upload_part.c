/* upload_part: bytes of a graph's arrays. Numbers that kernels use as indices are checked on the
 * way: lists must be within the edges, and the numbers of the order and of the edges' nodes below
 * the number of nodes. That includes the places between lists, which hold 0 or an old number
 * (store/graph.h). */
#include "daemon/gpu/upload.h"
#include "kernels/spread.h"

#define PART_BYTES_MAX (UINT64_C(1) << 44)
#define NODES_MAX      (UINT64_C(1) << 31)

static const struct {
    uint64_t size; /* of an element */
    bool of_edges; /* otherwise one element for each node */
    bool optional; /* the array may be empty */
    enum numbers numbers;
} parts[ORDER_PARTS_MAX] = {
    [PART_OUT] = {.size = sizeof(struct spread_list), .numbers = NUMBERS_LISTS},
    [PART_IN] = {.size = sizeof(struct spread_list), .numbers = NUMBERS_LISTS},
    [PART_OUT_EDGES] = {.size = sizeof(struct spread_edge),
                        .of_edges = true,
                        .numbers = NUMBERS_EDGES},
    [PART_IN_EDGES] = {.size = sizeof(struct spread_edge),
                       .of_edges = true,
                       .numbers = NUMBERS_EDGES},
    [PART_IDS] = {.size = sizeof(uint64_t)},
    [PART_ORDER] = {.size = sizeof(uint32_t), .numbers = NUMBERS_POSITIONS},
    [PART_KINDS] = {.size = sizeof(uint8_t), .optional = true},
    [PART_FACTORS] = {.size = sizeof(float), .optional = true},
};

static uint64_t nodes_of(const uint64_t part_bytes[])
{
    return part_bytes[PART_OUT] / sizeof(struct spread_list);
}

/* True if the lengths are those of one graph. */
static bool lengths_agree(const uint64_t part_bytes[])
{
    uint64_t nodes = nodes_of(part_bytes);
    if (nodes > NODES_MAX) return false;
    for (int i = 0; i < ORDER_PARTS_MAX; i++) {
        uint64_t bytes = part_bytes[i];
        bool none = parts[i].optional && bytes == 0;
        if (bytes > PART_BYTES_MAX || bytes % parts[i].size) return false;
        if (!parts[i].of_edges && !none && bytes != nodes * parts[i].size) return false;
    }
    return true;
}

/* The limit of a part's numbers. */
static uint64_t limit_of(const struct order_upload_part *p)
{
    if (p->part == PART_OUT) return p->part_bytes[PART_OUT_EDGES] / sizeof(struct spread_edge);
    if (p->part == PART_IN) return p->part_bytes[PART_IN_EDGES] / sizeof(struct spread_edge);
    return nodes_of(p->part_bytes);
}

static struct replica_room room_of(const struct gpu *g, const struct order_upload_part *p)
{
    struct replica_room room;
    for (int i = 0; i < ORDER_PARTS_MAX; i++) {
        uint64_t most = g->replicas.range_bytes_max, nodes = NODES_MAX * parts[i].size;
        room.bytes[i] = p->part_bytes[i];
        room.most[i] = parts[i].of_edges || most < nodes ? most : nodes;
    }
    return room;
}

bool upload_part_read(struct gpu *g, struct task *t, struct upload *out)
{
    const struct order_upload_part *p = &t->order.part;
    if (p->part >= ORDER_PARTS_MAX || !lengths_agree(p->part_bytes)) return false;
    uint64_t size = parts[p->part].size, end = p->part_bytes[p->part];
    if (p->first % size || p->count % size || p->first > end || p->count > end - p->first)
        return false;
    char *host = gpu_heap(g, p->bytes, p->count);
    if (p->count && (!host || p->bytes % size)) return false;
    t->in.moves[0] = (struct move){.from = {.host = host,
                                            .bytes = p->count,
                                            .numbers = parts[p->part].numbers,
                                            .limit = limit_of(p)}};
    t->in.move_count = 1;
    *out = (struct upload){.fresh = p->fresh,
                           .round = p->round,
                           .space_bytes_max = p->space_bytes_max,
                           .room = room_of(g, p),
                           .places = {{(int)p->part, p->first, p->count}},
                           .place_count = 1};
    return true;
}

void upload_part_place(struct task *t)
{
    const struct order_upload_part *p = &t->order.part;
    t->in.moves[0].device = t->replica->ranges[p->part].base + p->first;
}
