/* bench_complete: completion by the modern rule on one thread: how long a round takes, and what is
 * recalled.
 *
 *   bench_complete [--runs N]            each variant: a round beside a scan of the rows
 *   bench_complete --once ROWS DIMENSION STATES VARIANT RUNS
 *                                        the processor's seconds of a round, for
 *                                        bench_complete_peers.py
 *   bench_complete --recall              how many of 100 rows come back from a part of their
 *                                        numbers; no clock is read
 *
 * Times are the processor's seconds of this process. */
#include "kernels/random.h"
#include "tests/bench/bench.h"
#include "tests/kernels/complete_cases.h"

enum { PIECE = 256, STATES_MAX = 128 };

struct scene {
    struct complete_case of;
    struct complete_round round;
    void *packed;
};

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Unit rows; state q is the beginning of row q, `known` numbers of it, the rest 0. */
static struct scene scene_create(uint32_t dimension, size_t rows, size_t states, uint32_t known)
{
    struct scene s = {.of = {.dimension = dimension,
                             .stride = vector_stride(dimension),
                             .rows = rows,
                             .states = states,
                             .beta = 32.0f}};
    struct complete_case *c = &s.of;
    const struct vector_kernels *k = vectors_choose("auto");
    c->row = samples_allocate(rows * c->stride), c->norm = samples_allocate(rows);
    c->state = samples_allocate(states * c->stride);
    random_choose("auto")->normal(7, dimension, 0, rows, c->row);
    k->norms(dimension, c->row, rows, c->norm);
    k->normalize(dimension, c->row, c->norm, rows);
    k->norms(dimension, c->row, rows, c->norm);
    memset(c->state, 0, states * c->stride * sizeof *c->state);
    for (size_t q = 0; q < states; q++)
        memcpy(c->state + q * c->stride, c->row + q % rows * c->stride, known * sizeof(float));
    s.round = complete_round_create(c);
    s.packed = samples_allocate(STATES_MAX * c->stride * 2 + 4096);
    return s;
}

static void scene_destroy(struct scene *s)
{
    samples_free(s->of.row), samples_free(s->of.norm), samples_free(s->of.state);
    samples_free(s->packed);
    complete_round_destroy(&s->round);
}

static void score_all(struct scene *s, const struct vector_kernels *v)
{
    struct complete_case *c = &s->of;
    const struct complete_kernels *k = complete_choose(v->name);
    struct query_pack pack = {s->packed, NULL, c->states};
    if (c->states > 1) v->pack(c->dimension, c->state, c->states, s->packed);
    for (size_t q = 0; q < c->states; q++)
        s->round.largest[q] = -INFINITY;
    for (size_t at = 0; at < c->rows; at += PIECE) {
        size_t count = c->rows - at < PIECE ? c->rows - at : PIECE;
        struct row_block block = {c->row + at * c->stride, c->norm + at, count};
        float *scores = s->round.scores + at;
        if (c->states > 1)
            v->tile(METRIC_DOT, c->dimension, &pack, block, scores, c->rows);
        else
            v->scan(METRIC_DOT, c->dimension, c->state, 0.0f, block, scores);
        for (size_t q = 0; q < c->states; q++) {
            float most = k->score(c->unit ? block.norms : NULL, count, scores + q * c->rows);
            if (most > s->round.largest[q]) s->round.largest[q] = most;
        }
    }
}

static void sum_all(struct scene *s, const struct vector_kernels *v)
{
    struct complete_case *c = &s->of;
    struct complete_round *r = &s->round;
    const struct complete_kernels *k = complete_choose(v->name);
    size_t blocks = (size_t)complete_blocks(c->rows);
    memset(r->sums, 0, c->states * blocks * c->stride * sizeof *r->sums);
    for (size_t b = 0; b < blocks; b++) {
        size_t first = b * COMPLETE_BLOCK;
        size_t count = c->rows - first < COMPLETE_BLOCK ? c->rows - first : COMPLETE_BLOCK;
        struct complete_shares shares = {r->scores + first, c->rows, c->states};
        for (size_t q = 0; q < c->states; q++)
            r->totals[q * blocks + b] =
                k->weigh(c->unit ? c->norm + first : NULL, count, r->largest[q], c->beta,
                         r->scores + q * c->rows + first);
        k->add(c->dimension, c->row + first * c->stride, count, &shares, r->sums + b * c->stride,
               blocks * c->stride);
    }
    for (size_t q = 0; q < c->states; q++) {
        superpose_choose(v->name)->fold(c->dimension, r->sums + q * blocks * c->stride, blocks);
        complete_fold_totals(r->totals + q * blocks, blocks);
        memcpy(r->next + q * c->stride, c->state + q * c->stride, c->stride * sizeof(float));
        k->settle(c->dimension, r->sums + q * blocks * c->stride, r->totals[q * blocks], NULL, NULL,
                  r->next + q * c->stride, r->moved + q * c->stride);
    }
}

/* The median of scores alone, and of whole rounds. */
static void measure(struct scene *s, const struct vector_kernels *v, size_t runs, double *scan,
                    double *round)
{
    double *scans = calloc(runs, sizeof *scans), *rounds = calloc(runs, sizeof *rounds);
    if (!scans || !rounds) bench_fail("memory", "none left");
    for (size_t i = 0; i < runs; i++) {
        double began = cpu_s();
        score_all(s, v);
        scans[i] = cpu_s() - began;
        sum_all(s, v);
        rounds[i] = cpu_s() - began;
    }
    *scan = bench_percentile(scans, runs, 50);
    *round = bench_percentile(rounds, runs, 50);
    free(scans), free(rounds);
}

static void print_times(size_t runs)
{
    static const size_t states[] = {1, 8, 64}, rows[] = {1024, 20000};
    printf("a round over unit rows of 768, one thread, milliseconds, medians of %zu runs\n", runs);
    printf("%8s %8s %8s %10s %10s %8s\n", "variant", "rows", "states", "scores", "round", "ratio");
    for (size_t i = 0; i < 6; i++) {
        struct scene s = scene_create(768, rows[i / 3], states[i % 3], 256);
        for (size_t v = 1; vectors_variant(v); v++) {
            double scan, round;
            measure(&s, vectors_variant(v), runs, &scan, &round);
            printf("%8s %8zu %8zu %10.3f %10.3f %7.2fx\n", vectors_variant(v)->name, s.of.rows,
                   s.of.states, scan * 1e3, round * 1e3, round / scan);
        }
        scene_destroy(&s);
    }
}

/* ---- what is recalled ---- */

/* Rounds with the first `known` numbers kept, up to 10. Returns how many rows came back: the
 * nearest row is the right one, with a cosine above 0.9. */
static size_t recalled(struct scene *s, uint32_t known, float beta)
{
    enum { ROUNDS = 10 };
    struct complete_case *c = &s->of;
    const struct vector_kernels *v = vectors_choose("auto");
    size_t right = 0;
    c->beta = beta;
    for (int round = 0; round < ROUNDS; round++) {
        score_all(s, v);
        sum_all(s, v);
        for (size_t q = 0; q < c->states; q++)
            memcpy(c->state + q * c->stride + known, s->round.next + q * c->stride + known,
                   (c->dimension - known) * sizeof(float));
    }
    for (size_t q = 0; q < c->states; q++) {
        float *scores = s->round.scores, norm;
        size_t best = 0;
        v->norms(c->dimension, c->state + q * c->stride, 1, &norm);
        v->scan(METRIC_COSINE, c->dimension, c->state + q * c->stride, norm,
                (struct row_block){c->row, c->norm, c->rows}, scores);
        for (size_t i = 1; i < c->rows; i++)
            if (scores[i] > scores[best]) best = i;
        right += best == q && scores[q] > 0.9f;
    }
    return right;
}

static void print_recall(void)
{
    static const uint32_t divisors[] = {3, 6, 12, 24};
    static const size_t rows[] = {50, 1000, 10000, 50000};
    static const float betas[] = {8, 16, 32, 64, 128};
    printf("of 100 random unit rows of 768 (of 50: 50), how many of a hundred come back\n%8s %8s",
           "rows", "known");
    for (size_t b = 0; b < 5; b++)
        printf(" beta %3g", (double)betas[b]);
    puts("");
    for (size_t i = 0; i < 16; i++) {
        size_t states = rows[i / 4] < 100 ? rows[i / 4] : 100;
        uint32_t known = 768 / divisors[i % 4];
        printf("%8zu %8u", rows[i / 4], known);
        for (size_t b = 0; b < 5; b++) {
            struct scene s = scene_create(768, rows[i / 4], states, known);
            printf(" %8zu", 100 * recalled(&s, known, betas[b]) / states);
            fflush(stdout);
            scene_destroy(&s);
        }
        puts("");
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--recall") == 0) {
        print_recall();
        return 0;
    }
    if (argc == 7 && strcmp(argv[1], "--once") == 0) {
        double scan, round;
        size_t states = strtoul(argv[4], NULL, 10);
        const struct vector_kernels *v = vectors_choose(argv[5]);
        if (!v || states < 1 || states > STATES_MAX) return 2;
        struct scene s = scene_create((uint32_t)strtoul(argv[3], NULL, 10),
                                      strtoul(argv[2], NULL, 10), states, 1);
        measure(&s, v, strtoul(argv[6], NULL, 10), &scan, &round);
        printf("%s %.9f %.9f\n", v->name, scan, round);
        scene_destroy(&s);
        return 0;
    }
    size_t runs = argc == 3 && strcmp(argv[1], "--runs") == 0 ? strtoul(argv[2], NULL, 10) : 5;
    if (runs < 1 || runs > 1000) return 2;
    print_times(runs);
    return 0;
}
