/* gpu_complete: completion by the modern rule on the card. First its bits against the CPU's code,
 * then how long a round takes beside a scan of the same rows and a plain copy in the same run.
 *
 *     gpu_complete [--small | --tiny] [--numbers N] [--bench] [FILE]
 *
 * --numbers: compare at least N numbers (10,000,000). --small, --tiny: a few cases, for
 * compute-sanitizer. --bench: the table of times, in FILE as well, as lines NAME MILLISECONDS,
 * which complete_peer.py reads. */
#include "kernels/cuda/complete_cuda.h"
#include "tests/gpu/complete_scene.h"
#include "tests/gpu/device.h"

enum { SHOWN = 8, GUARD = 256 };

static uint64_t compared, differ;

/* ---- a scene on the card ---- */

struct complete_card {
    struct cuda_rows rows;
    struct cuda_completion work;
    char *guards[7]; /* behind the memory that kernels write */
};

/* Full of bytes that are no sensible number, with as many behind it that nobody may change. */
static void *guarded(struct complete_card *k, int i, size_t bytes)
{
    char *p = device_allocate(bytes + GUARD);
    k->guards[i] = p + bytes;
    return p;
}

static void fill_scratch(const struct complete_scene *s, struct complete_card *k, int garbage)
{
    const struct cuda_completion *w = &k->work;
    DEVICE(cudaMemset(w->moved, garbage, s->states * s->stride * sizeof(float)));
    DEVICE(cudaMemset(w->scores, garbage, s->states * s->rows * sizeof(float)));
    DEVICE(cudaMemset(w->bests, garbage, s->states * s->blocks * sizeof *w->bests));
    DEVICE(cudaMemset(w->runs, garbage, s->states * s->blocks * sizeof *w->runs));
    DEVICE(cudaMemset(w->totals, garbage, s->states * s->blocks * sizeof *w->totals));
    DEVICE(cudaMemset(w->sums, garbage, s->states * s->blocks * s->stride * sizeof *w->sums));
}

static struct complete_card card_create(const struct complete_scene *s)
{
    struct complete_card k = {
        .rows = {.dimension = s->d,
                 .rows = device_copy_of(s->row, s->rows * s->stride * sizeof(float)),
                 .norms = device_copy_of(s->norm, s->rows * sizeof(float)),
                 .count = s->rows}};
    size_t states = s->states, padded = states * s->stride * sizeof(float);
    size_t mask = s->known_step ? states * s->d : s->d;
    k.work = (struct cuda_completion){
        .states = states,
        .begin = 1,
        .rounds = s->rounds,
        .beta = s->beta,
        .unit = s->unit,
        .cues = device_copy_of(s->cues, padded),
        .known = s->known ? device_copy_of(s->known, mask) : NULL,
        .known_step = s->known_step,
        .ids = device_copy_of(s->ids, s->rows * sizeof *s->ids),
        .state = guarded(&k, 0, padded),
        .moved = guarded(&k, 1, padded),
        .scores = guarded(&k, 2, states * s->rows * sizeof(float)),
        .bests = guarded(&k, 3, states * s->blocks * sizeof(struct complete_block_best)),
        .runs = guarded(&k, 6, states * s->blocks * sizeof(uint32_t)),
        .totals = guarded(&k, 4, states * s->blocks * sizeof(double)),
        .sums = guarded(&k, 5, states * s->blocks * s->stride * sizeof(float)),
        .records = device_allocate(states * sizeof(struct complete_record))};
    DEVICE(cuda_complete(&k.rows, &k.work, NULL));
    k.work.begin = 0;
    return k;
}

static void card_destroy(struct complete_card *k)
{
    const struct cuda_completion *w = &k->work;
    cudaFree((void *)k->rows.rows), cudaFree((void *)k->rows.norms), cudaFree((void *)w->cues);
    cudaFree((void *)w->known), cudaFree((void *)w->ids), cudaFree(w->state), cudaFree(w->moved);
    cudaFree(w->scores), cudaFree(w->bests), cudaFree(w->runs), cudaFree(w->totals),
        cudaFree(w->sums);
    cudaFree(w->records);
}

/* A round as the GPU process launches it. */
static void enqueue_round(const struct complete_card *k)
{
    struct cuda_queries states = {.rows = k->work.state, .count = k->work.states};
    if (k->work.states == 1)
        DEVICE(cuda_scan(METRIC_DOT, &states, &k->rows, k->work.scores, NULL));
    else
        DEVICE(cuda_tile(METRIC_DOT, &states, &k->rows, k->work.scores, k->rows.count, NULL));
    DEVICE(cuda_complete(&k->rows, &k->work, NULL));
}

/* Of one state. */
static uint64_t count_differing(const struct complete_scene *s, size_t q, const float *state,
                                const struct complete_record *got)
{
    const struct complete_record *wanted = &s->records[q];
    const float *expected = s->state + q * s->stride;
    uint64_t wrong = 0;
    for (size_t c = 0; !same_bits(expected, state, s->stride) && c < s->stride; c++)
        wrong += !same_bits(expected + c, state + c, 1);
    wrong += wanted->id != got->id || wanted->row != got->row;
    wrong += !same_bits(&wanted->score, &got->score, 1);
    wrong += !same_bits(&wanted->cosine, &got->cosine, 1);
    wrong += !same_bits(&wanted->energy, &got->energy, 1);
    wrong += wanted->rounds != got->rounds;
    wrong += wanted->still != got->still || wanted->done != got->done;
    return wrong;
}

static void check_guards(const struct complete_scene *s, const struct complete_card *k)
{
    unsigned char bytes[GUARD];
    for (int i = 0; i < 7; i++) {
        device_read(bytes, k->guards[i], sizeof bytes);
        for (int n = 0; n < GUARD; n++) {
            if (bytes[n] == 0xff) continue;
            printf("FAIL dimension %u, %zu rows, %zu states: wrote behind array %d\n", s->d,
                   s->rows, s->states, i);
            differ++;
            break;
        }
    }
}

/* Compares after every round. Returns whether a state goes on. */
static bool check_round(struct complete_scene *s, const struct complete_card *k, float *states,
                        struct complete_record *records)
{
    bool goes_on = false;
    uint64_t before = differ;
    device_read(states, k->work.state, s->states * s->stride * sizeof *states);
    device_read(records, k->work.records, s->states * sizeof *records);
    for (size_t q = 0; q < s->states; q++)
        if (!s->records[q].done) compared += s->d + 7;
    expect_rounds(s);
    for (size_t q = 0; q < s->states; q++) {
        differ += count_differing(s, q, states + q * s->stride, &records[q]);
        goes_on |= !s->records[q].done;
    }
    if (differ != before && before < SHOWN)
        printf("FAIL dimension %u, %zu rows, %zu states, %s, beta %g, mask %d, round %u: "
               "%llu differ\n",
               s->d, s->rows, s->states, s->unit ? "unit" : "raw", (double)s->beta,
               s->known ? 1 + (s->known_step > 0) : 0, records[0].rounds,
               (unsigned long long)(differ - before));
    return goes_on;
}

static void check_scene(struct complete_scene *s)
{
    static const int garbage[] = {0xff, 0x7f, 0x80, 0x41};
    struct complete_card k = card_create(s);
    float *states = zeroed(s->states * s->stride, sizeof *states);
    struct complete_record *records = zeroed(s->states, sizeof *records);
    scene_begin(s);
    for (uint32_t round = 0; round < s->rounds; round++) {
        fill_scratch(s, &k, garbage[round % 4]);
        enqueue_round(&k);
        if (!check_round(s, &k, states, records)) break;
    }
    check_guards(s, &k);
    card_destroy(&k);
    free(states), free(records);
}

/* ---- the cases ---- */

static void check_one(uint32_t d, size_t rows, size_t states, uint32_t rounds, uint64_t seed)
{
    static const float betas[] = {1.0f, 32.0f, 8.0f, 0.01f, 1000.0f, 1e-6f, 100.0f, 1e6f};
    struct complete_scene s = {.d = d,
                               .rounds = rounds,
                               .stride = vector_stride(d),
                               .rows = rows,
                               .states = states,
                               .blocks = (size_t)complete_blocks(rows),
                               .unit = seed / 2 & 1,
                               .beta = betas[seed / 4 % 8]};
    make_rows(&s, seed % 5 == 4, seed);
    make_cues(&s, (int)(seed % 3), seed);
    check_scene(&s);
    scene_finish(&s);
}

static void check_dimension(uint32_t d, uint64_t seed)
{
    static const size_t rows[] = {1,    2,    31,   32,   33,   63,   100,  1023,
                                  1024, 1025, 2048, 2049, 2100, 3079, 5000, 700};
    static const uint32_t rounds[] = {1, 2, 3, 1, 5, 2, 100, 1};
    uint64_t random = seed * 1000003 + d;
    size_t states = 1 + (size_t)(d + seed) % 19;
    check_one(d, rows[sample_random(&random) % 16], states, rounds[(d / 3 + seed) % 8],
              sample_random(&random) >> 8);
}

static void check_bits(uint64_t numbers)
{
    static const uint32_t above[] = {1026, 1056, 1100, 1536, 2047, 2048, 3000};
    static const struct {
        uint32_t d, rows, states, rounds;
    } large[] = {{768, 300000, 1, 2}, {768, 100000, 19, 1},  {64, 300000, 128, 2},
                 {384, 50000, 64, 3}, {1025, 20000, 128, 1}, {768, 30000, 128, 2},
                 {100, 65536, 65, 2}, {33, 10000, 127, 100}, {1024, 10241, 33, 3}};
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        for (uint64_t n = 0; n < 2; n++) /* raw and unit; beta 1 and 32 */
            check_one(large[i].d, large[i].rows, large[i].states, large[i].rounds,
                      6 * n + 30 * i + i % 3);
    do {
        for (uint32_t d = 1; d <= VECTOR_COMPENSATED_ABOVE + 1; d++)
            check_dimension(d, seed);
        for (size_t i = 0; i < sizeof above / sizeof *above; i++)
            check_dimension(above[i], seed);
    } while (seed++, compared < numbers);
}

static void check_little(bool tiny)
{
    static const uint32_t dimensions[] = {1, 33, 100, 768, 1024, 1025};
    static const size_t states[] = {1, 3, 8, 17, 64, 128};
    for (uint32_t i = 0; i < (tiny ? 3u : 24u); i++)
        check_one(dimensions[i % 6], i % 2 ? 1 + i : 1100 + i, states[(i + i / 6) % 6], 2,
                  7 * i + 1);
    if (tiny) check_one(64, 1030, 70, 1, 3);
}

/* ---- times ---- */

enum { BENCH_ROWS = 1000000, BENCH_MADE = 20000, BENCH_D = 768 };

struct plain_copy {
    void *to, *from;
    size_t bytes;
};

static void enqueue_copy(void *what)
{
    struct plain_copy *c = what;
    DEVICE(cudaMemcpyAsync(c->to, c->from, c->bytes, cudaMemcpyDeviceToDevice, NULL));
}

/* A completion of one round from its beginning. */
static void enqueue_completion(void *what)
{
    struct complete_card *k = what;
    k->work.begin = 1;
    DEVICE(cuda_complete(&k->rows, &k->work, NULL));
    k->work.begin = 0;
    enqueue_round(k);
}

static void enqueue_dots(void *what)
{
    const struct complete_card *k = what;
    struct cuda_queries states = {.rows = k->work.state, .count = k->work.states};
    if (k->work.states == 1)
        DEVICE(cuda_scan(METRIC_DOT, &states, &k->rows, k->work.scores, NULL));
    else
        DEVICE(cuda_tile(METRIC_DOT, &states, &k->rows, k->work.scores, k->rows.count, NULL));
}

/* Random unit rows, BENCH_MADE of them again and again, and cues near some of them. */
static struct complete_card bench_card(void)
{
    struct complete_scene s = {
        .d = BENCH_D, .stride = BENCH_D, .rows = BENCH_MADE, .states = CUDA_COMPLETION_STATES_MAX};
    make_rows(&s, false, 1);
    make_cues(&s, 0, 1);
    size_t row = BENCH_D * sizeof(float), made = BENCH_MADE * row;
    size_t blocks = (size_t)complete_blocks(BENCH_ROWS), states = s.states;
    char *rows = device_allocate(BENCH_ROWS * row);
    char *norms = device_allocate(BENCH_ROWS * sizeof(float));
    char *ids = device_allocate(BENCH_ROWS * sizeof(uint64_t));
    for (size_t at = 0; at < BENCH_ROWS; at += BENCH_MADE) {
        for (size_t i = 0; i < BENCH_MADE; i++)
            s.ids[i] = at + i;
        DEVICE(cudaMemcpy(rows + at * row, s.row, made, cudaMemcpyHostToDevice));
        DEVICE(cudaMemcpy(norms + at * sizeof(float), s.norm, BENCH_MADE * sizeof(float),
                          cudaMemcpyHostToDevice));
        DEVICE(cudaMemcpy(ids + at * sizeof(uint64_t), s.ids, BENCH_MADE * sizeof(uint64_t),
                          cudaMemcpyHostToDevice));
    }
    struct complete_card k = {.rows = {BENCH_D, (float *)rows, (float *)norms, BENCH_ROWS}};
    k.work = (struct cuda_completion){
        .rounds = 1,
        .beta = 32.0f,
        .unit = 1,
        .cues = device_copy_of(s.cues, states * row),
        .ids = (uint64_t *)ids,
        .state = device_allocate(states * row),
        .moved = device_allocate(states * row),
        .scores = device_allocate(states * BENCH_ROWS * sizeof(float)),
        .bests = device_allocate(states * blocks * sizeof(struct complete_block_best)),
        .runs = device_allocate(states * blocks * sizeof(uint32_t)),
        .totals = device_allocate(states * blocks * sizeof(double)),
        .sums = device_allocate(states * blocks * row),
        .records = device_allocate(states * sizeof(struct complete_record))};
    samples_free(s.row), samples_free(s.norm), samples_free(s.cues);
    free(s.ids);
    return k;
}

static void bench_all(FILE *file)
{
    static const uint64_t batches[] = {1, 2, 8, 16, 32, 64, 128};
    struct plain_copy c = {device_allocate(1u << 30), device_allocate(1u << 30), 1u << 30};
    double bytes_a_ms = 2.0 * (double)c.bytes / device_median_ms(enqueue_copy, &c);
    cudaFree(c.to), cudaFree(c.from);
    struct complete_card k = bench_card();
    double once = (double)BENCH_ROWS * BENCH_D * sizeof(float) / bytes_a_ms;
    k.work.states = 1;
    double scan = device_median_ms(enqueue_dots, &k);
    printf("a plain copy: %.2f TB/s; %d x %d read once at that rate: %.3f ms, scanned: %.3f ms\n",
           bytes_a_ms / 1e9, BENCH_ROWS, BENCH_D, once, scan);
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        k.work.states = batches[i];
        double ms = device_median_ms(enqueue_completion, &k),
               dots = device_median_ms(enqueue_dots, &k);
        double tflops = 4e-9 * BENCH_ROWS * BENCH_D * (double)batches[i] / ms;
        printf("complete, 1 round, batch %3llu: %8.3f ms, of which products %8.3f ms; "
               "%5.2f x a scan, %5.2f TFLOP/s\n",
               (unsigned long long)batches[i], ms, dots, ms / scan, tflops);
        if (file)
            fprintf(file, "complete_%llu %.6f\ndots_%llu %.6f\n", (unsigned long long)batches[i],
                    ms, (unsigned long long)batches[i], dots);
    }
    if (file) fprintf(file, "scan %.6f\n", scan);
    card_destroy(&k);
}

int main(int argc, char **argv)
{
    uint64_t numbers = 10000000;
    bool bench = false, small = false, tiny = false;
    FILE *file = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--numbers") == 0 && i + 1 < argc)
            numbers = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--bench") == 0)
            bench = true;
        else if (strcmp(argv[i], "--small") == 0)
            small = true;
        else if (strcmp(argv[i], "--tiny") == 0)
            tiny = true;
        else
            file = fopen(argv[i], "w");
    }
    device_open();
    if (small || tiny)
        check_little(tiny);
    else if (numbers)
        check_bits(numbers);
    printf("complete: %llu numbers compared with %s, %llu differ: %s\n",
           (unsigned long long)compared, complete_choose("auto")->name, (unsigned long long)differ,
           differ ? "FAIL" : "ok");
    fflush(stdout);
    if (bench) bench_all(file);
    if (file) fclose(file);
    return differ ? 1 : 0;
}
