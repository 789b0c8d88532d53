/* bench_capacity: how many bound pairs one vector holds. Pairs of a random role and a random filler
 * out of 1,000 are added up; each role is taken out again, and the nearest of the 1,000 fillers is
 * right or wrong. No clock is read: the same numbers on every machine.
 *
 *   bench_capacity [--quick] [--svg FILE]      FILE: the plot that docs/hrr.md shows */
#include "kernels/hrr.h"
#include "kernels/random.h"
#include "kernels/vectors.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { FILLERS = 1000, PAIRS_MAX = 1536, PACK = 8, POINTS_MAX = 20, QUESTIONS = 2000 };

static const uint32_t dimensions[] = {512, 768, 1024, 2048, 4096, 8192};
static const uint32_t pair_counts[] = {4,  6,   8,   12,  16,  24,  32,  48,   64,
                                       96, 128, 192, 256, 384, 512, 768, 1024, 1536};
enum { DIMENSIONS = sizeof dimensions / sizeof *dimensions };
enum { COUNTS = sizeof pair_counts / sizeof *pair_counts };

/* Hits in percent by number of pairs. */
struct capacity_curve {
    uint32_t dimension, points;
    double hits[COUNTS];
};

/* All memory of one dimension. */
struct codebook {
    uint32_t dimension;
    size_t stride;
    const struct vector_kernels *kernels;
    const struct hrr_kernels *binding;
    const struct hrr_plan *plan;
    void *plan_memory, *scratch, *packed;
    float *fillers, *roles, *bound, *sum, *scores;
    float norms[FILLERS];
    uint32_t chosen[PAIRS_MAX];
};

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) bench_fail("memory", strerror(errno));
    return memset(memory, 0, bytes);
}

/* Unit rows `first` to first + count of the seed. */
static void make_rows(const struct codebook *b, uint64_t seed, uint64_t first, size_t count,
                      float *rows)
{
    float *norms = allocate(count * sizeof *norms);
    random_choose("auto")->normal(seed, b->dimension, first, count, rows);
    b->kernels->norms(b->dimension, rows, count, norms);
    b->kernels->normalize(b->dimension, rows, norms, count);
    free(norms);
}

static void codebook_init(struct codebook *b, uint32_t dimension)
{
    *b = (struct codebook){.dimension = dimension,
                           .stride = vector_stride(dimension),
                           .kernels = vectors_choose("auto"),
                           .binding = hrr_choose("auto")};
    b->plan_memory = allocate(hrr_plan_bytes(dimension));
    b->plan = hrr_plan_make(dimension, b->plan_memory);
    b->scratch = allocate(hrr_scratch_bytes(dimension));
    b->packed = allocate(b->kernels->pack_bytes(dimension, PACK));
    b->fillers = allocate(FILLERS * b->stride * sizeof(float));
    b->roles = allocate(PAIRS_MAX * b->stride * sizeof(float));
    b->bound = allocate(PAIRS_MAX * b->stride * sizeof(float));
    b->sum = allocate(b->stride * sizeof(float));
    b->scores = allocate(PACK * FILLERS * sizeof(float));
    make_rows(b, 1, 0, FILLERS, b->fillers);
    b->kernels->norms(dimension, b->fillers, FILLERS, b->norms);
}

static void codebook_finish(struct codebook *b)
{
    void *const all[] = {b->plan_memory, b->scratch, b->packed, b->fillers,
                         b->roles,       b->bound,   b->sum,    b->scores};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void bind_rows(struct codebook *b, enum hrr_form form, const float **left,
                      const float **right, size_t count)
{
    const struct hrr_pairs work = {.plan = b->plan,
                                   .scratch = b->scratch,
                                   .form = form,
                                   .a = left,
                                   .b = right,
                                   .count = count,
                                   .out = b->bound,
                                   .out_step = b->stride};
    if (b->binding->pairs(&work).status != HRR_OK) bench_fail("binding", "it overflows");
}

/* How many of the `count` rows of b->bound are nearest to the filler that was chosen. */
static size_t count_hits(struct codebook *b, size_t count)
{
    size_t hits = 0;
    float norms[PACK];
    for (size_t first = 0; first < count; first += PACK) {
        size_t n = count - first < PACK ? count - first : PACK;
        const float *rows = b->bound + first * b->stride;
        b->kernels->norms(b->dimension, rows, n, norms);
        b->kernels->pack(b->dimension, rows, n, b->packed);
        b->kernels->tile(METRIC_COSINE, b->dimension, &(struct query_pack){b->packed, norms, n},
                         (struct row_block){b->fillers, b->norms, FILLERS}, b->scores, FILLERS);
        for (size_t q = 0; q < n; q++) {
            const float *scores = b->scores + q * FILLERS;
            size_t best = 0;
            for (size_t i = 1; i < FILLERS; i++)
                if (scores[i] > scores[best]) best = i;
            hits += best == b->chosen[first + q];
        }
    }
    return hits;
}

/* One vector of so many pairs. Returns how many of its roles give back their filler. */
static size_t try_vector(struct codebook *b, size_t pairs, uint64_t number, uint64_t *state)
{
    const float *left[PAIRS_MAX], *right[PAIRS_MAX];
    make_rows(b, 2, number * PAIRS_MAX, pairs, b->roles);
    for (size_t i = 0; i < pairs; i++) {
        b->chosen[i] = (uint32_t)(bench_random(state) % FILLERS);
        left[i] = b->fillers + b->chosen[i] * b->stride;
        right[i] = b->roles + i * b->stride;
    }
    bind_rows(b, HRR_BIND, left, right, pairs);
    memset(b->sum, 0, b->stride * sizeof *b->sum);
    for (size_t i = 0; i < pairs; i++)
        for (size_t j = 0; j < b->dimension; j++)
            b->sum[j] += b->bound[i * b->stride + j];
    for (size_t i = 0; i < pairs; i++)
        left[i] = b->sum;
    bind_rows(b, HRR_UNBIND, left, right, pairs);
    return count_hits(b, pairs);
}

static void measure(struct capacity_curve *curve, uint32_t dimension, size_t questions)
{
    struct codebook b;
    codebook_init(&b, dimension);
    uint64_t state = dimension, number = 0;
    *curve = (struct capacity_curve){.dimension = dimension};
    for (uint32_t i = 0; i < COUNTS; i++) {
        size_t asked = 0, hits = 0;
        while (asked < questions) {
            hits += try_vector(&b, pair_counts[i], number++, &state);
            asked += pair_counts[i];
        }
        curve->hits[i] = 100.0 * (double)hits / (double)asked;
        curve->points = i + 1;
        if (curve->hits[i] < 10) break;
    }
    codebook_finish(&b);
}

/* Returns how many pairs give so many hits, between two numbers that were tried. */
static double pairs_at(const struct capacity_curve *curve, double percent)
{
    for (uint32_t i = 1; i < curve->points; i++) {
        double before = curve->hits[i - 1], here = curve->hits[i];
        if (before < percent || here >= percent) continue;
        double part = (before - percent) / (before - here);
        return pair_counts[i - 1] * pow((double)pair_counts[i] / pair_counts[i - 1], part);
    }
    return 0;
}

/* ---- the plot ---- */

enum { WIDTH = 760, HEIGHT = 420, LEFT = 60, RIGHT = 90, TOP = 20, BOTTOM = 50 };

static double x_of(double pairs)
{
    double span = log((double)pair_counts[COUNTS - 1] / pair_counts[0]);
    return LEFT + (WIDTH - LEFT - RIGHT) * log(pairs / pair_counts[0]) / span;
}

static double y_of(double percent)
{
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - percent / 100);
}

static void draw_axes(FILE *out)
{
    for (int percent = 0; percent <= 100; percent += 20)
        fprintf(out,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n",
                LEFT, WIDTH - RIGHT, y_of(percent), y_of(percent), LEFT - 8, y_of(percent) + 4,
                percent);
    for (uint32_t pairs = 4; pairs <= 1024; pairs *= 2)
        fprintf(out,
                "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#eee\"/>\n"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%u</text>\n",
                x_of(pairs), x_of(pairs), TOP, HEIGHT - BOTTOM, x_of(pairs), HEIGHT - BOTTOM + 18,
                pairs);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">pairs in one vector</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10);
}

static void draw(const char *path, const struct capacity_curve *curves)
{
    static const char *const colours[DIMENSIONS] = {"#999999", "#56b4e9", "#0072b2",
                                                    "#009e73", "#e69f00", "#d55e00"};
    FILE *out = fopen(path, "w");
    if (!out) bench_fail(path, strerror(errno));
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"13\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    draw_axes(out);
    for (uint32_t d = 0; d < DIMENSIONS; d++) {
        const struct capacity_curve *c = &curves[d];
        fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                colours[d]);
        for (uint32_t i = 0; i < c->points; i++)
            fprintf(out, "%.1f,%.1f ", x_of(pair_counts[i]), y_of(c->hits[i]));
        fprintf(out, "\"/>\n<text x=\"%d\" y=\"%u\" fill=\"%s\">%u</text>\n", WIDTH - RIGHT + 14,
                TOP + 20 + 22 * d, colours[d], c->dimension);
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\">dimension</text>\n</svg>\n", WIDTH - RIGHT + 14, TOP);
    if (fclose(out)) bench_fail(path, strerror(errno));
}

int main(int argc, char **argv)
{
    static struct capacity_curve curves[DIMENSIONS];
    const char *svg = NULL;
    size_t questions = QUESTIONS;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            questions = 100;
        else if (!strcmp(argv[i], "--svg") && i + 1 < argc)
            svg = argv[++i];
        else
            bench_fail(argv[i], "bench_capacity [--quick] [--svg FILE]");
    }
    printf("pairs in one vector, by the part of them that is found among %d fillers\n\n"
           "| dimension | 99 %% | 90 %% | 50 %% |\n|---|---|---|---|\n",
           FILLERS);
    for (uint32_t d = 0; d < DIMENSIONS; d++) {
        measure(&curves[d], dimensions[d], questions);
        printf("| %u | %.0f | %.0f | %.0f |\n", dimensions[d], pairs_at(&curves[d], 99),
               pairs_at(&curves[d], 90), pairs_at(&curves[d], 50));
        fflush(stdout);
    }
    if (svg) draw(svg, curves);
    return 0;
}
