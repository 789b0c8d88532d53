/* The GPU process's server with two versions of a replica: uploads and the requests behind them
 * pass a request of many passes, which goes on with the version that it began with. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/gpu_ask.h"

enum { ROWS = 900, DIMENSION = 8, MANY = 300, ORDERS_MAX = 16 };

static uint32_t result_of(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o)).result;
}

/* A kNN goes in passes of 16 queries, or up to 64, of 5 ms each at least. */
static void open_slow(struct gpu_peer *p, const char *settings)
{
    static char sim[200];
    snprintf(sim, sizeof sim, "multiply_adds=1 latency_us=5000 strict=1 %s", settings);
    *p = (struct gpu_peer){0};
    peer_open(p, sim, 2);
}

/* The next version: rows [first, first + count) are others. */
static struct ask_rows next_of(const struct ask_rows *r, uint64_t first, uint64_t count)
{
    struct ask_rows next =
        ask_make(r->space, r->replica, r->version + 1, r->dimension, r->count, r->version + 1);
    for (uint64_t i = 0; i < r->count; i++) {
        if (i >= first && i < first + count) continue;
        memcpy(next.plain + i * r->dimension, r->plain + i * r->dimension,
               r->dimension * sizeof(float));
        next.ids[i] = r->ids[i];
    }
    return next;
}

static struct order upload_of(struct gpu_peer *p, const struct ask_rows *r, uint64_t first,
                              uint64_t count, uint32_t round)
{
    struct order o = ask_upload(p, r, false, first, count);
    o.upload.round = round;
    return o;
}

static struct order long_on(struct gpu_peer *p, const struct ask_rows *r)
{
    return ask_knn(p, r, METRIC_COSINE, MANY, 5, r->version);
}

static struct order short_on(struct gpu_peer *p, const struct ask_rows *r)
{
    return ask_knn(p, r, METRIC_COSINE, 2, 5, r->version);
}

/* Orders that are given at once, and what became of them. */
struct given {
    uint64_t first; /* token */
    uint32_t count;
    uint32_t results[ORDERS_MAX];
    uint32_t ended[ORDERS_MAX]; /* as which of them: 1 is the first */
};

static struct given give(struct gpu_peer *p, const struct order *orders, uint32_t count)
{
    struct given g = {.count = count};
    for (uint32_t i = 0; i < count; i++) {
        uint64_t token = peer_order(p, orders[i]);
        if (!i) g.first = token;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct completion c = peer_completion(p);
        g.results[c.token - g.first] = c.result;
        g.ended[c.token - g.first] = i + 1;
    }
    return g;
}

static uint64_t replica_bytes(const struct gpu_peer *p)
{
    return atomic_load(&p->share->usage.replica_bytes);
}

Test(server_versions, an_upload_passes_a_long_request, .timeout = 900)
{
    for (int vmm = 0; vmm < 2; vmm++) {
        struct gpu_peer p;
        open_slow(&p, vmm ? "vram_mib=64 granularity_kib=64" : "vram_mib=64 vmm=0");
        struct ask_rows a = ask_make(1, 1, 5, DIMENSION, ROWS, 1), b = next_of(&a, 70, 700);
        struct ask_rows c = next_of(&b, 600, ROWS - 600);
        cr_assert_eq(result_of(&p, ask_upload(&p, &a, true, 0, ROWS)), RESULT_OK);
        uint64_t alone = replica_bytes(&p);
        struct order orders[] = {
            long_on(&p, &a),  upload_of(&p, &b, 70, 700, 1),         short_on(&p, &b),
            short_on(&p, &a), upload_of(&p, &c, 600, ROWS - 600, 1), short_on(&p, &c)};
        const struct ask_rows *asked[] = {&a, NULL, &b, &a, NULL, &c};
        struct given g = give(&p, orders, 6);
        for (int i = 0; i < 6; i++) {
            cr_assert_eq(g.results[i], RESULT_OK, "%d: %u", i, g.results[i]);
            cr_assert(!asked[i] || ask_right(&p, &orders[i], asked[i]), "%d is wrong", i);
        }
        cr_assert_eq(g.ended[0], 6);
        cr_assert_eq(replica_bytes(&p), alone);
        cr_assert_eq(result_of(&p, orders[5]), RESULT_OK);
        cr_assert(ask_right(&p, &orders[5], &c));
        ask_free(&a), ask_free(&b), ask_free(&c);
        peer_close(&p);
    }
}

/* A version more would be the third. Its round is over then, and in another it can be had. */
Test(server_versions, there_are_two_at_most, .timeout = 900)
{
    struct gpu_peer p;
    open_slow(&p, "vram_mib=64 granularity_kib=64");
    struct ask_rows a = ask_make(1, 1, 5, DIMENSION, ROWS, 1), b = next_of(&a, 70, 700);
    struct ask_rows c = next_of(&b, 0, ROWS);
    cr_assert_eq(result_of(&p, ask_upload(&p, &a, true, 0, ROWS)), RESULT_OK);
    struct order orders[] = {long_on(&p, &a),
                             upload_of(&p, &b, 70, 700, 1),
                             long_on(&p, &b),
                             upload_of(&p, &c, 0, 500, 2),
                             upload_of(&p, &c, 500, ROWS - 500, 2),
                             short_on(&p, &c),
                             short_on(&p, &b)};
    static const uint32_t results[] = {
        [3] = RESULT_NO_VERSION, RESULT_NO_VERSION, RESULT_NO_VERSION, RESULT_OK};
    struct given g = give(&p, orders, 7);
    for (int i = 0; i < 7; i++)
        cr_assert_eq(g.results[i], results[i], "%d: %u", i, g.results[i]);
    cr_assert(ask_right(&p, &orders[0], &a) && ask_right(&p, &orders[2], &b));
    cr_assert(ask_right(&p, &orders[6], &b));
    cr_assert_eq(result_of(&p, upload_of(&p, &c, 0, ROWS, 2)), RESULT_NO_VERSION);
    cr_assert_eq(result_of(&p, upload_of(&p, &c, 0, ROWS, 3)), RESULT_OK);
    cr_assert_eq(result_of(&p, orders[5]), RESULT_OK);
    cr_assert(ask_right(&p, &orders[5], &c));
    ask_free(&a), ask_free(&b), ask_free(&c);
    peer_close(&p);
}

/* The budget holds the replica and some more: pieces, but no copy of the whole. */
Test(server_versions, what_is_shared_takes_no_memory, .timeout = 900)
{
    enum { LARGE = 11000 };
    for (int vmm = 0; vmm < 2; vmm++) {
        struct gpu_peer p;
        open_slow(&p,
                  vmm ? "vram_mib=4 granularity_kib=64" : "vram_mib=4 granularity_kib=64 vmm=0");
        struct ask_rows a = ask_make(1, 1, 5, DIMENSION, LARGE, 1), b = next_of(&a, 5000, 100);
        cr_assert_eq(result_of(&p, ask_upload(&p, &a, true, 0, LARGE)), RESULT_OK);
        struct order orders[] = {ask_knn(&p, &a, METRIC_COSINE, 100, 5, 2),
                                 upload_of(&p, &b, 5000, 100, 1), short_on(&p, &b)};
        struct given g = give(&p, orders, 3);
        cr_assert_eq(g.results[1], vmm ? RESULT_OK : RESULT_NO_VERSION, "%d: %u", vmm,
                     g.results[1]);
        cr_assert_eq(g.results[2], g.results[1]);
        /* The version that is read stays whatever becomes of the upload. */
        cr_assert_eq(g.results[0], RESULT_OK);
        cr_assert(ask_right(&p, &orders[0], &a));
        if (!vmm) cr_assert_eq(result_of(&p, upload_of(&p, &b, 5000, 100, 2)), RESULT_OK);
        cr_assert_eq(result_of(&p, orders[2]), RESULT_OK);
        cr_assert(ask_right(&p, &orders[2], &b));
        ask_free(&a), ask_free(&b);
        peer_close(&p);
    }
}

static struct order within(struct order o, uint64_t space_bytes_max)
{
    o.upload.space_bytes_max = space_bytes_max;
    return o;
}

/* A second version counts towards what its space may have, though the card has room: it is not
 * made, or another replica of the space is not, and nobody is evicted for it. */
Test(server_versions, a_space_has_both_within_its_quota, .timeout = 900)
{
    enum { PIECES = 3 * 65536, FEW = 40 };
    for (int vmm = 0; vmm < 2; vmm++) {
        struct gpu_peer p;
        open_slow(&p, vmm ? "vram_mib=64 granularity_kib=64" : "vram_mib=64 vmm=0");
        struct ask_rows a = ask_make(1, 1, 5, DIMENSION, ROWS, 1), b = next_of(&a, 70, FEW);
        struct ask_rows more = ask_make(1, 2, 1, DIMENSION, ROWS, 3),
                        other = ask_make(2, 3, 1, DIMENSION, ROWS, 4);
        cr_assert_eq(result_of(&p, ask_upload(&p, &other, true, 0, ROWS)), RESULT_OK);
        uint64_t others = replica_bytes(&p);
        cr_assert_eq(result_of(&p, ask_upload(&p, &a, true, 0, ROWS)), RESULT_OK);
        uint64_t alone = replica_bytes(&p) - others, second = vmm ? PIECES : alone;

        /* There is a byte too few: the upload waits for the request's end, in another round. */
        struct order many = long_on(&p, &a), few = short_on(&p, &b);
        uint64_t reads = peer_order(&p, many);
        struct order upload = upload_of(&p, &b, 70, FEW, 1);
        cr_assert_eq(result_of(&p, within(upload, alone + second - 1)), RESULT_NO_VERSION);
        cr_assert_eq(peer_done(&p, reads).result, RESULT_OK);
        cr_assert(ask_right(&p, &many, &a));
        upload.upload.round = 2;
        cr_assert_eq(result_of(&p, within(upload, alone + second - 1)), RESULT_OK);
        cr_assert_eq(replica_bytes(&p), others + alone);

        /* There is just enough, and then none for another replica. */
        struct order all = long_on(&p, &b);
        reads = peer_order(&p, all);
        struct ask_rows c = next_of(&b, 300, FEW);
        upload = upload_of(&p, &c, 300, FEW, 3);
        cr_assert_eq(result_of(&p, within(upload, alone + second)), RESULT_OK);
        cr_assert_leq(replica_bytes(&p), others + alone + second);
        struct order fresh = within(ask_upload(&p, &more, true, 0, ROWS), 2 * alone);
        cr_assert_eq(result_of(&p, fresh), RESULT_NO_MEMORY);
        cr_assert_eq(peer_done(&p, reads).result, RESULT_OK);
        cr_assert(ask_right(&p, &all, &b));
        cr_assert_eq(result_of(&p, fresh), RESULT_OK);
        few = short_on(&p, &c);
        cr_assert_eq(result_of(&p, few), RESULT_OK);
        cr_assert(ask_right(&p, &few, &c));
        cr_assert_eq(atomic_load(&p.share->usage.evictions), 0);
        ask_free(&a), ask_free(&b), ask_free(&c), ask_free(&more), ask_free(&other);
        peer_close(&p);
    }
}

/* A second version takes what another replica of the space would grow by: that stays as it is, for
 * those who read what it has, until there is one version less. */
Test(server_versions, another_replica_grows_later, .timeout = 900)
{
    enum { FEW = 40, SMALL = 200 };
    struct gpu_peer p;
    open_slow(&p, "vram_mib=64 vmm=0");
    struct ask_rows a = ask_make(1, 1, 5, DIMENSION, ROWS, 1), b = next_of(&a, 70, FEW);
    struct ask_rows small = ask_make(1, 2, 7, DIMENSION, SMALL, 3),
                    grown = ask_make(1, 2, 8, DIMENSION, ROWS, 4);
    cr_assert_eq(result_of(&p, ask_upload(&p, &a, true, 0, ROWS)), RESULT_OK);
    uint64_t alone = replica_bytes(&p);
    cr_assert_eq(result_of(&p, ask_upload(&p, &small, true, 0, SMALL)), RESULT_OK);
    uint64_t quota = replica_bytes(&p) + alone;

    struct order many = long_on(&p, &a);
    uint64_t reads = peer_order(&p, many);
    cr_assert_eq(result_of(&p, within(upload_of(&p, &b, 70, FEW, 1), quota)), RESULT_OK);
    struct order grows = within(ask_upload(&p, &grown, false, 0, ROWS), quota);
    grows.upload.round = 4;
    cr_assert_eq(result_of(&p, grows), RESULT_NO_VERSION);
    cr_assert_eq(result_of(&p, short_on(&p, &grown)), RESULT_NO_VERSION);
    struct order few = short_on(&p, &small);
    cr_assert_eq(result_of(&p, few), RESULT_OK);
    cr_assert(ask_right(&p, &few, &small));
    cr_assert_eq(peer_done(&p, reads).result, RESULT_OK);
    cr_assert(ask_right(&p, &many, &a));

    grows.upload.round = 5;
    cr_assert_eq(result_of(&p, grows), RESULT_OK);
    few = short_on(&p, &grown);
    cr_assert_eq(result_of(&p, few), RESULT_OK);
    cr_assert(ask_right(&p, &few, &grown));
    cr_assert_eq(atomic_load(&p.share->usage.evictions), 0);
    ask_free(&a), ask_free(&b), ask_free(&small), ask_free(&grown);
    peer_close(&p);
}

/* Neither is evicted for others, and the replica is forgotten when both are free. */
Test(server_versions, both_stay_until_the_last_request, .timeout = 900)
{
    struct gpu_peer p;
    open_slow(&p, "vram_mib=4 granularity_kib=64 latency_us=20000");
    struct ask_rows a = ask_make(1, 1, 5, DIMENSION, ROWS, 1), b = next_of(&a, 70, 700);
    struct ask_rows other = ask_make(2, 2, 1, DIMENSION, 24000, 3);
    cr_assert_eq(result_of(&p, ask_upload(&p, &a, true, 0, ROWS)), RESULT_OK);
    struct order many = long_on(&p, &a);
    uint64_t first = peer_order(&p, many);
    cr_assert_eq(result_of(&p, upload_of(&p, &b, 70, 700, 1)), RESULT_OK);
    cr_assert_eq(result_of(&p, ask_upload(&p, &other, true, 0, other.count)), RESULT_NO_MEMORY);
    uint64_t second = peer_order(&p, ask_forget(&a));
    struct order fresh = ask_upload(&p, &a, true, 0, ROWS);
    uint64_t third = peer_order(&p, fresh);
    cr_assert_eq(peer_done(&p, first).result, RESULT_OK);
    cr_assert(ask_right(&p, &many, &a));
    cr_assert_eq(peer_done(&p, second).result, RESULT_OK);
    cr_assert_eq(peer_done(&p, third).result, RESULT_OK);
    struct order few = short_on(&p, &a);
    cr_assert_eq(result_of(&p, few), RESULT_OK);
    cr_assert(ask_right(&p, &few, &a));
    cr_assert_eq(atomic_load(&p.share->usage.evictions), 0);
    ask_free(&a), ask_free(&b), ask_free(&other);
    peer_close(&p);
}

/* The simulated device would notice what is not given back. */
Test(server_versions, the_end_comes_while_there_are_two, .timeout = 900)
{
    for (int vmm = 0; vmm < 2; vmm++) {
        struct gpu_peer p;
        open_slow(&p, vmm ? "vram_mib=64 granularity_kib=64" : "vram_mib=64 vmm=0");
        struct ask_rows a = ask_make(1, 1, 5, DIMENSION, ROWS, 1), b = next_of(&a, 70, 700);
        cr_assert_eq(result_of(&p, ask_upload(&p, &a, true, 0, ROWS)), RESULT_OK);
        peer_order(&p, long_on(&p, &a));
        cr_assert_eq(result_of(&p, upload_of(&p, &b, 70, 700, 1)), RESULT_OK);
        ask_free(&a), ask_free(&b);
        peer_close(&p);
        cr_assert_eq(p.result, 0);
    }
}
