#include "tests/support/gpu_peer.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/server.h"
#include "kernels/vectors.h"
#include "tests/support/reference.h"

static void *serve(void *argument)
{
    struct gpu_peer *p = argument;
    struct server_options options = {.ops = p->ops ? p->ops : &device_sim,
                                     .device.which = p->sim,
                                     .share = p->share,
                                     .heap_fd = p->fds[1],
                                     .orders_fd = p->fds[2],
                                     .completions_fd = p->fds[3],
                                     .lifeline_fd = -1,
                                     .spin_us = p->unwatched ? 0 : 20,
                                     .spin_percent = 100,
                                     .copiers = 2,
                                     .streams = p->streams,
                                     .memory_percent = 75,
                                     .sweep_after_ns = p->sweep_after_ns,
                                     .memory_bytes_max = p->memory_bytes_max};
    struct gpu *g = NULL;
    struct failure f = {0};
    p->result = (int)server_open(&options, &g, &f);
    if (p->result) return NULL;
    p->gpu = g;
    p->result = (int)server_run(g);
    server_close(g);
    return NULL;
}

void peer_open(struct gpu_peer *p, const char *sim, uint32_t streams)
{
    uint64_t memory_bytes_max = p->memory_bytes_max;
    const struct device_ops *ops = p->ops;
    uint64_t sweep_after_ns = p->sweep_after_ns;
    bool unwatched = p->unwatched;
    *p = (struct gpu_peer){.sim = sim,
                           .streams = streams,
                           .used = 4096,
                           .memory_bytes_max = memory_bytes_max,
                           .sweep_after_ns = sweep_after_ns,
                           .ops = ops,
                           .unwatched = unwatched,
                           .result = -1};
    cr_assert_eq(share_create(PEER_HEAP_BYTES, ENGRAM_VERSION, &p->fds[0], &p->share), STATUS_OK);
    atomic_store(&p->share->shadows, 1);
    p->fds[1] = memfd_create("peer", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(p->fds[1], PEER_HEAP_BYTES), 0);
    p->heap = mmap(NULL, PEER_HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->fds[1], 0);
    cr_assert_neq(p->heap, MAP_FAILED);
    p->fds[2] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    p->fds[3] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    share_orders(p->share, p->fds[2], &p->orders);
    share_completions(p->share, p->fds[3], &p->completions);
    cr_assert_eq(pthread_create(&p->thread, NULL, serve, p), 0);
    while (atomic_load(&p->share->state) == SHARE_STARTING)
        usleep(200);
}

void peer_close(struct gpu_peer *p)
{
    if (atomic_load(&p->share->state) == SHARE_READY) {
        struct order *o = ring_reserve(&p->orders);
        cr_assert_not_null(o);
        *o = (struct order){.kind = ORDER_STOP};
        ring_publish(&p->orders);
    }
    pthread_join(p->thread, NULL);
    munmap(p->heap, PEER_HEAP_BYTES);
    share_unmap(p->share);
    for (int i = 0; i < 4; i++)
        close(p->fds[i]);
}

uint64_t peer_take(struct gpu_peer *p, uint64_t bytes)
{
    uint64_t at = p->used;
    p->used += (bytes + 63) / 64 * 64;
    cr_assert(p->used <= PEER_HEAP_BYTES);
    return at;
}

uint64_t peer_order(struct gpu_peer *p, struct order o)
{
    struct order *slot;
    while (!(slot = ring_reserve(&p->orders)))
        usleep(50);
    o.token = ++p->token;
    *slot = o;
    ring_publish(&p->orders);
    return o.token;
}

bool peer_next(struct gpu_peer *p, struct completion *out)
{
    uint64_t end_ns = clock_now_ns() + UINT64_C(300000000000);
    const struct completion *c;
    while (!(c = ring_peek(&p->completions))) {
        bool ended = atomic_load(&p->share->state) != SHARE_READY;
        if (ended && !ring_peek(&p->completions)) return false;
        cr_assert(clock_now_ns() < end_ns, "no completion came");
        usleep(20);
    }
    *out = *c;
    ring_release(&p->completions);
    return true;
}

struct completion peer_completion(struct gpu_peer *p)
{
    struct completion c = {0};
    cr_assert(peer_next(p, &c), "the server has ended: %s", p->share->why);
    return c;
}

struct completion peer_done(struct gpu_peer *p, uint64_t token)
{
    struct completion c;
    do
        c = peer_completion(p);
    while (c.kind == COMPLETION_EVICTED);
    cr_assert_eq(c.token, token, "completion of %llu, not %llu", (unsigned long long)c.token,
                 (unsigned long long)token);
    return c;
}

float *peer_upload(struct gpu_peer *p, uint32_t space, uint64_t replica, uint64_t version,
                   uint32_t dimension, uint64_t rows, uint64_t seed)
{
    size_t stride = vector_stride(dimension);
    float *plain = malloc(rows * dimension * sizeof *plain + 1);
    cr_assert_not_null(plain);
    reference_fill(seed, plain, rows * dimension);
    uint64_t places[2] = {peer_take(p, rows * stride * sizeof(float)), peer_take(p, rows * 8)};
    float *padded = peer_at(p, places[0]);
    uint64_t *ids = peer_at(p, places[1]);
    for (uint64_t r = 0; r < rows; r++) {
        memset(padded + r * stride, 0, stride * sizeof *padded);
        memcpy(padded + r * stride, plain + r * dimension, dimension * sizeof *padded);
        ids[r] = r * 7 + 3;
    }
    uint64_t token = peer_order(p, (struct order){.kind = ORDER_UPLOAD,
                                                  .space = space,
                                                  .replica = replica,
                                                  .version = version,
                                                  .upload = {.dimension = dimension,
                                                             .fresh = 1,
                                                             .row_count = rows,
                                                             .count = rows,
                                                             .rows = places[0],
                                                             .ids = places[1]}});
    cr_assert_eq(peer_done(p, token).result, RESULT_OK);
    return plain;
}
