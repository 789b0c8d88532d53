/* The GPU process's server with rows in int8 beside its replicas: the k best are those of the rows
 * whatever becomes of a shadow. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/gpu/replica.h"
#include "daemon/gpu/replica_shadow.h"
#include "daemon/gpu/tasks.h"
#include "tests/support/gpu_ask.h"

enum { ROWS = 10000, DIMENSION = 96, K = 5 };

static void open_with(struct gpu_peer *p, const char *settings)
{
    static char sim[200];
    snprintf(sim, sizeof sim, "latency_us=0 granularity_kib=16 strict=1 shadow_rows=1000 %s",
             settings);
    *p = (struct gpu_peer){0};
    peer_open(p, sim, 2);
}

static uint64_t result_of(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o)).result;
}

static struct completion ask_told(struct gpu_peer *p, const struct ask_rows *r, enum metric metric,
                                  uint64_t queries)
{
    struct order o = ask_knn(p, r, metric, queries, K, r->version + queries);
    struct completion c = peer_done(p, peer_order(p, o));
    cr_assert_eq(c.result, RESULT_OK);
    cr_assert(ask_right(p, &o, r), "%llu queries", (unsigned long long)queries);
    cr_assert_eq(c.number > 0, (c.screen & SCREEN_ASKED) != 0);
    return c;
}

/* Asks, checks, and returns how many pairs were scored after a shadow: 0: there was none. */
static uint64_t ask_best(struct gpu_peer *p, const struct ask_rows *r, enum metric metric,
                         uint64_t queries)
{
    return ask_told(p, r, metric, queries).number;
}

/* What is read of a shadow of so many rows, and of rows. */
static uint64_t codes_bytes(uint64_t rows)
{
    return rows * (128 + 12);
}

static uint64_t rows_bytes(uint64_t rows)
{
    return rows * DIMENSION * sizeof(float);
}

static void make(struct gpu_peer *p, struct ask_rows *r, uint32_t space, uint64_t replica)
{
    *r = ask_make(space, replica, 1, DIMENSION, ROWS, replica);
    cr_assert_eq(result_of(p, ask_upload(p, r, true, 0, r->count)), RESULT_OK);
}

/* Rows [first, first + count) become others, and the collection has `rows`. */
static void change(struct gpu_peer *p, struct ask_rows *r, uint64_t first, uint64_t count,
                   uint64_t rows)
{
    struct ask_rows next =
        ask_make(r->space, r->replica, r->version + 1, r->dimension, rows, r->version + 77);
    uint64_t most = r->count < rows ? r->count : rows;
    for (uint64_t i = 0; i < most; i++) {
        if (i >= first && i < first + count) continue;
        memcpy(next.plain + i * DIMENSION, r->plain + i * DIMENSION, DIMENSION * sizeof(float));
        next.ids[i] = r->ids[i];
    }
    ask_free(r);
    *r = next;
    cr_assert_eq(result_of(p, ask_upload(p, r, false, first, count)), RESULT_OK);
}

static uint64_t bytes_of_shadow(struct gpu_peer *p, const struct ask_rows *r)
{
    return replica_shadow_bytes(replica_find(p->gpu, r->replica));
}

/* What the front is told of a replica's shadow. */
static struct share_shadow *told_of(struct gpu_peer *p, const struct ask_rows *r)
{
    struct share_shadow *told = &p->share->shadow_of[r->replica % SHARE_SHADOWS];
    bool is = false; /* while it is written it is nobody's */
    for (int n = 0; n < 20000 && !is; n++) {
        is = atomic_load(&told->replica) == r->replica;
        if (!is) usleep(1000);
    }
    cr_assert(is);
    return told;
}

Test(server_shadow, is_told_of, .timeout = 300)
{
    struct gpu_peer p;
    struct ask_rows r;
    open_with(&p, "");
    make(&p, &r, 1, SHARE_SHADOWS + 7);
    ask_best(&p, &r, METRIC_COSINE, 1);
    struct share_shadow *told = told_of(&p, &r);
    cr_assert_eq(atomic_load(&told->rows), ROWS);
    cr_assert_geq(atomic_load(&told->bytes), codes_bytes(ROWS));
    cr_assert_gt(atomic_load(&told->made_ns), 0);
    cr_assert_eq(atomic_load(&told->rests), 0);
    change(&p, &r, ROWS, 400, ROWS + 400);
    ask_best(&p, &r, METRIC_COSINE, 1);
    cr_assert_eq(atomic_load(&told_of(&p, &r)->rows), ROWS + 400);
    atomic_store(&p.share->shadows, 0);
    change(&p, &r, 3, 2, ROWS + 400);
    ask_best(&p, &r, METRIC_COSINE, 1);
    cr_assert_eq(atomic_load(&told_of(&p, &r)->rows), 0);
    cr_assert_eq(atomic_load(&told_of(&p, &r)->bytes), 0);
    ask_free(&r);
    peer_close(&p);
}

Test(server_shadow, finds_what_the_rows_say_through_writes, .timeout = 300)
{
    struct gpu_peer p;
    struct ask_rows r;
    open_with(&p, "");
    make(&p, &r, 1, 1);
    for (enum metric m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
        struct completion c = ask_told(&p, &r, m, 1);
        cr_assert(c.number > 0 && c.number < ROWS / 8, "%llu", (unsigned long long)c.number);
        cr_assert_eq(c.screen, SCREEN_ASKED);
        cr_assert_eq(c.read_bytes, codes_bytes(ROWS) + rows_bytes(c.number));
        ask_best(&p, &r, m, 3);
        ask_best(&p, &r, m, 40);
    }
    change(&p, &r, 700, 20, ROWS); /* some rows */
    cr_assert(ask_best(&p, &r, METRIC_DOT, 1) > 0);
    change(&p, &r, ROWS, 400, ROWS + 400); /* it grows */
    cr_assert(ask_best(&p, &r, METRIC_COSINE, 1) > 0);
    change(&p, &r, 5, 1, ROWS - 300); /* and shrinks */
    cr_assert(ask_best(&p, &r, METRIC_COSINE, 1) > 0);
    change(&p, &r, 0, 900, 900); /* too few for one */
    cr_assert_eq(ask_best(&p, &r, METRIC_COSINE, 1), 0);
    cr_assert_eq(bytes_of_shadow(&p, &r), 0);
    change(&p, &r, 900, 9000, 9900); /* and enough again */
    cr_assert(ask_best(&p, &r, METRIC_COSINE, 1) > 0);
    ask_free(&r);
    peer_close(&p);
}

/* All rows are equal: no bound tells them apart. */
Test(server_shadow, is_not_asked_for_a_while_if_it_did_not_help, .timeout = 300)
{
    struct gpu_peer p;
    struct ask_rows r = ask_make(1, 1, 1, DIMENSION, ROWS, 9);
    for (uint64_t i = 1; i < ROWS; i++)
        memcpy(r.plain + i * DIMENSION, r.plain, DIMENSION * sizeof(float));
    open_with(&p, "");
    cr_assert_eq(result_of(&p, ask_upload(&p, &r, true, 0, r.count)), RESULT_OK);
    const struct replica_shadow *s = &replica_find(p.gpu, r.replica)->shadow;
    struct completion c =
        ask_told(&p, &r, METRIC_COSINE, 7); /* which are asked again, of the rows */
    cr_assert_eq(c.screen, SCREEN_ASKED | SCREEN_USELESS);
    cr_assert_eq(c.number, 7 * ROWS);
    cr_assert_eq(c.read_bytes, codes_bytes(ROWS) + rows_bytes(ROWS));
    cr_assert(s->exact_left > 0);
    cr_assert_eq(s->exact_left, s->exact_next);
    cr_assert_eq(atomic_load(&told_of(&p, &r)->rests), s->exact_left);
    uint32_t left = s->exact_left;
    for (; left; left--)
        cr_assert_eq(ask_told(&p, &r, METRIC_COSINE, 1).screen, SCREEN_RESTED);
    cr_assert_eq(s->exact_left, 0);
    cr_assert_eq(ask_best(&p, &r, METRIC_COSINE, 1), ROWS); /* tried again, in vain */
    cr_assert(s->exact_left > 64, "%u", s->exact_left);
    ask_free(&r);
    peer_close(&p);
}

/* Queries of which some are asked again lie between others, in a batch of passes. */
Test(server_shadow, asks_some_queries_again, .timeout = 300)
{
    struct gpu_peer p;
    struct ask_rows r = ask_make(1, 1, 1, DIMENSION, ROWS, 4);
    for (uint64_t i = 0; i < 9000; i++) /* a cluster that the codes cannot resolve */
        for (uint32_t d = 0; d < DIMENSION; d++)
            r.plain[i * DIMENSION + d] = r.plain[d] * (1 + 1e-6f * (float)(i % 7));
    for (int slow = 0; slow < 2; slow++) {
        open_with(&p, slow ? "multiply_adds=1" : "");
        cr_assert_eq(result_of(&p, ask_upload(&p, &r, true, 0, r.count)), RESULT_OK);
        ask_best(&p, &r, METRIC_DOT, 150);
        peer_close(&p);
    }
    ask_free(&r);
}

Test(server_shadow, gives_way_before_any_replica_does, .timeout = 300)
{
    struct gpu_peer p;
    struct ask_rows a, b;
    open_with(&p, "vram_mib=12"); /* of which replicas have nine: two, but no shadow beside them */
    make(&p, &a, 1, 1);
    cr_assert(ask_best(&p, &a, METRIC_COSINE, 1) > 0);
    cr_assert(bytes_of_shadow(&p, &a) > 0);
    make(&p, &b, 2, 2);
    struct share_usage *u = &p.share->usage;
    cr_assert_eq(atomic_load(&u->evictions), 0);
    cr_assert_geq(atomic_load(&u->shadows_dropped), 1);
    cr_assert_eq(bytes_of_shadow(&p, &a), 0);
    cr_assert_eq(ask_best(&p, &a, METRIC_COSINE, 1), 0);
    ask_best(&p, &b, METRIC_COSINE, 1);
    ask_free(&a);
    ask_free(&b);
    peer_close(&p);
}

/* In parts, which are under way at the same time; only the last makes the replica complete. */
static void upload_parts(struct gpu_peer *p, const struct ask_rows *r, uint64_t first, bool fresh)
{
    enum { PARTS = 5 };
    uint64_t each = (r->count - first) / PARTS;
    for (uint64_t i = 0; i < PARTS; i++, first += each) {
        struct order o = ask_upload(p, r, fresh && i == 0, first, each);
        if (i < PARTS - 1) o.version = 0;
        peer_order(p, o);
    }
    for (uint64_t i = 0; i < PARTS; i++)
        cr_assert_eq(peer_completion(p).result, RESULT_OK);
}

/* Also where ranges move, as in unified memory, while earlier parts hold the replica. */
Test(server_shadow, is_there_right_behind_uploads_of_many_parts, .timeout = 300)
{
    static const char *const kinds[] = {"latency_us=3000", "vmm=0 latency_us=3000"};
    for (int n = 0; n < 2; n++) {
        struct gpu_peer p;
        struct ask_rows r = ask_make(1, 1, 1, DIMENSION, ROWS, 3);
        open_with(&p, kinds[n]);
        upload_parts(&p, &r, 0, true);
        cr_assert(ask_best(&p, &r, METRIC_COSINE, 1) > 0, "%s", kinds[n]);
        cr_assert(ask_best(&p, &r, METRIC_COSINE, 40) > 0, "%s", kinds[n]);
        struct ask_rows more = ask_make(1, 1, 2, DIMENSION, 2 * ROWS, 3);
        memcpy(more.plain, r.plain, (size_t)ROWS * DIMENSION * sizeof(float));
        memcpy(more.ids, r.ids, ROWS * sizeof(uint64_t));
        upload_parts(&p, &more, ROWS, false); /* it grows: where it moves, at the next search, */
        ask_best(&p, &more, METRIC_COSINE, 1);
        cr_assert(ask_best(&p, &more, METRIC_COSINE, 1) > 0, "%s", kinds[n]);
        ask_free(&r);
        ask_free(&more);
        peer_close(&p);
    }
}

Test(server_shadow, is_there_only_where_it_is_wanted, .timeout = 300)
{
    struct gpu_peer p;
    struct ask_rows r;
    open_with(&p, "");
    atomic_store(&p.share->shadows, 0);
    make(&p, &r, 1, 1);
    cr_assert_eq(ask_best(&p, &r, METRIC_COSINE, 1), 0);
    cr_assert_eq(bytes_of_shadow(&p, &r), 0);
    atomic_store(&p.share->shadows, 1);
    change(&p, &r, 3, 2, ROWS);
    cr_assert(ask_best(&p, &r, METRIC_COSINE, 1) > 0);
    atomic_store(&p.share->shadows, 0);
    cr_assert_eq(ask_best(&p, &r, METRIC_COSINE, 1), 0);
    change(&p, &r, 3, 2, ROWS);
    cr_assert_eq(bytes_of_shadow(&p, &r), 0);
    ask_free(&r);
    peer_close(&p);
}

/* Where ranges move when they grow, codes are not copied, but made anew. */
/* How long exact scores take is measured with rows that have none. */
Test(server_shadow, is_not_where_the_order_says_so, .timeout = 300)
{
    struct gpu_peer p;
    open_with(&p, "");
    struct ask_rows r = ask_make(1, 1, 1, DIMENSION, ROWS, 1);
    struct order o = ask_upload(&p, &r, true, 0, r.count);
    o.upload.exact = 1;
    cr_assert_eq(result_of(&p, o), RESULT_OK);
    cr_assert_eq(ask_best(&p, &r, METRIC_COSINE, 1), 0);
    cr_assert_eq(bytes_of_shadow(&p, &r), 0);
    ask_free(&r);
    make(&p, &r, 1, 2);
    cr_assert_gt(ask_best(&p, &r, METRIC_COSINE, 1), 0);
    ask_free(&r);
    peer_close(&p);
}

Test(server_shadow, is_never_moved, .timeout = 300)
{
    struct gpu_peer p;
    struct ask_rows r;
    for (int moves = 0; moves < 2; moves++) {
        open_with(&p, moves ? "vmm=0" : "");
        make(&p, &r, 1, 1);
        cr_assert(ask_best(&p, &r, METRIC_COSINE, 1) > 0);
        uint64_t made_ns = atomic_load(&told_of(&p, &r)->made_ns);
        change(&p, &r, ROWS, 2000, ROWS + 2000);
        cr_assert(ask_best(&p, &r, METRIC_COSINE, 1) > 0);
        cr_assert_eq(atomic_load(&told_of(&p, &r)->rows), ROWS + 2000);
        cr_assert_eq(atomic_load(&told_of(&p, &r)->made_ns) > made_ns, moves == 1);
        ask_free(&r);
        peer_close(&p);
    }
}

/* An upload beside a search of many passes makes a second version, with a shadow of its own. */
Test(server_shadow, a_second_version_has_its_own, .timeout = 300)
{
    struct gpu_peer p;
    struct ask_rows first, second;
    open_with(&p, "multiply_adds=1 latency_us=5000");
    make(&p, &first, 1, 1);
    second = ask_make(1, 1, 2, DIMENSION, ROWS, 1);
    memcpy(second.plain, first.plain, (size_t)ROWS * DIMENSION * sizeof(float));
    memcpy(second.ids, first.ids, ROWS * sizeof(uint64_t));
    for (uint32_t d = 0; d < 30 * DIMENSION; d++)
        second.plain[d] = -second.plain[d];
    struct order many = ask_knn(&p, &first, METRIC_COSINE, 200, K, 3);
    struct order write = ask_upload(&p, &second, false, 0, 30);
    struct order few = ask_knn(&p, &second, METRIC_COSINE, 1, K, 4);
    write.upload.round = 1;
    uint64_t token = peer_order(&p, many), passed = 0;
    peer_order(&p, write);
    peer_order(&p, few);
    for (int i = 0; i < 3; i++) {
        struct completion c = peer_completion(&p);
        cr_assert_eq(c.result, RESULT_OK, "%llu: %u", (unsigned long long)(c.token - token),
                     c.result);
        if (c.token == token + 2) passed = c.number;
    }
    cr_assert(ask_right(&p, &many, &first));
    cr_assert(ask_right(&p, &few, &second));
    cr_assert(passed > 0);
    ask_free(&first);
    ask_free(&second);
    peer_close(&p);
}

/* ---- the sweep ---- */

/* These look at, and change, what the server's thread uses meanwhile, as a flipped bit does. */
#define UNSEEN __attribute__((noinline, no_sanitize("thread")))

UNSEEN static void flip_bit(const struct replica *r, int range, uint64_t byte, int bit)
{
    r->ranges[range].base[byte] ^= (char)(1 << bit);
}

UNSEEN static uint64_t made_ns_of(const struct replica *r)
{
    return r->shadow.made_ns;
}

UNSEEN static double lost_of(const struct replica *r)
{
    return r->shadow.lost;
}

static uint64_t differed(struct gpu_peer *p)
{
    return atomic_load(&p->share->usage.shadows_differed);
}

static void open_swept(struct gpu_peer *p)
{
    *p = (struct gpu_peer){.sweep_after_ns = 1000};
    peer_open(p, "latency_us=0 granularity_kib=16 strict=1 shadow_rows=1000", 2);
}

/* A bit of a shadow changes in the card's memory: searches may be wrong until the sweep comes by,
 * which makes the shadow anew. */
static void flip(struct gpu_peer *p, const struct ask_rows *r, int range, uint64_t byte, int bit)
{
    uint64_t before = differed(p);
    const struct replica *replica = replica_find(p->gpu, r->replica);
    uint64_t made_ns = made_ns_of(replica);
    flip_bit(replica, range, byte, bit);
    for (int i = 0; i < 20000 && differed(p) == before; i++)
        usleep(1000);
    cr_assert_eq(differed(p), before + 1, "range %d", range);
    cr_assert(ask_best(p, r, METRIC_COSINE, 1) > 0);
    cr_assert(made_ns_of(replica) > made_ns);
}

Test(server_shadow, a_sweep_finds_each_bit_that_flipped, .timeout = 300)
{
    struct gpu_peer p;
    struct ask_rows r;
    open_swept(&p);
    make(&p, &r, 1, 1);
    ask_best(&p, &r, METRIC_COSINE, 1);
    for (int n = 0; n < 20000 && !atomic_load(&told_of(&p, &r)->lost); n++)
        usleep(1000);
    double lost = 0;
    uint64_t bits = atomic_load(&told_of(&p, &r)->lost);
    memcpy(&lost, &bits, sizeof lost);
    cr_assert(lost > 0.001 && lost < 0.05, "%g", lost);
    flip(&p, &r, RANGE_CODES, 0, 0);
    flip(&p, &r, RANGE_CODES, (uint64_t)(ROWS - 1) * 128 + 95, 7);
    flip(&p, &r, RANGE_CODES, (uint64_t)5000 * 128 + 127, 3); /* its pad is read, too */
    flip(&p, &r, RANGE_SCALES, 4 * 77, 0);
    flip(&p, &r, RANGE_LOSTS, 4 * 9999 + 3, 6); /* a loss that seems less */
    flip(&p, &r, RANGE_LENGTHS, 4 * 256 + 1, 1);
    flip(&p, &r, RANGE_CENTRE, 4 * 17 + 2, 5); /* of which all codes are the distance */
    flip(&p, &r, RANGE_CENTRE, vector_stride(96) * sizeof(float), 4); /* its norm */
    ask_free(&r);
    peer_close(&p);
}

/* What is written, grows and shrinks is no change of a bit; what has flipped in a tile shows though
 * rows beside it are written. */
Test(server_shadow, a_sweep_follows_writes, .timeout = 300)
{
    struct gpu_peer p;
    struct ask_rows r;
    open_swept(&p);
    make(&p, &r, 1, 1);
    const struct replica *replica = replica_find(p.gpu, r.replica);
    static const uint64_t rows[] = {ROWS, ROWS + 300, ROWS + 300, ROWS - 700, ROWS - 700, ROWS};
    for (uint64_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t had = r.count;
        change(&p, &r, rows[i] > had ? had : 100 + i, rows[i] > had ? rows[i] - had : 700, rows[i]);
        uint64_t seen = atomic_load(&p.share->usage.sweeps);
        for (int n = 0; n < 20000 && atomic_load(&p.share->usage.sweeps) < seen + 2; n++)
            usleep(1000);
        cr_assert(atomic_load(&p.share->usage.sweeps) >= seen + 2);
        cr_assert_eq(differed(&p), 0, "%llu", (unsigned long long)i);
        cr_assert(lost_of(replica) > 0.001 && lost_of(replica) < 0.05);
    }
    flip_bit(replica, RANGE_CODES, (uint64_t)400 * 128, 2);
    change(&p, &r, 401, 3, ROWS);
    for (int n = 0; n < 20000 && !differed(&p); n++)
        usleep(1000);
    cr_assert_eq(differed(&p), 1);
    cr_assert(ask_best(&p, &r, METRIC_DOT, 1) > 0);
    ask_free(&r);
    peer_close(&p);
}

/* All rows move away from the centre that was chosen when there were others. */
Test(server_shadow, a_sweep_chooses_another_centre, .timeout = 300)
{
    struct gpu_peer p;
    struct ask_rows r = ask_make(1, 1, 1, DIMENSION, ROWS, 5);
    for (uint64_t i = 0; i < ROWS * DIMENSION; i++) /* one cluster */
        r.plain[i] = 5.0f + 0.01f * r.plain[i];
    open_swept(&p);
    cr_assert_eq(result_of(&p, ask_upload(&p, &r, true, 0, r.count)), RESULT_OK);
    const struct replica *replica = replica_find(p.gpu, r.replica);
    for (int n = 0; n < 20000 && atomic_load(&p.share->usage.sweeps) < 2; n++)
        usleep(1000);
    uint64_t made_ns = made_ns_of(replica);
    change(&p, &r, 0, ROWS, ROWS);
    uint64_t seen = atomic_load(&p.share->usage.sweeps);
    for (int n = 0; n < 20000 && atomic_load(&p.share->usage.sweeps) < seen + 3; n++)
        usleep(1000);
    cr_assert_neq(made_ns_of(replica), made_ns);
    cr_assert(ask_best(&p, &r, METRIC_COSINE, 1) > 0);
    cr_assert_eq(differed(&p), 0);
    ask_free(&r);
    peer_close(&p);
}
