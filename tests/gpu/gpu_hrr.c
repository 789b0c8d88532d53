/* gpu_hrr: binding on the card. First its bits against the CPU's fastest variant, then how long it
 * takes beside a plain copy in the same run.
 *
 *     gpu_hrr [--numbers N] [--bench] [FILE]
 *
 * --numbers: compare at least N numbers (2,000,000). --bench: the table of times, in FILE as well,
 * as lines NAME MILLISECONDS, which hrr_peer.py reads. */
#include "kernels/cuda/hrr_cuda.h"
#include "tests/gpu/device.h"
#include "tests/kernels/hrr_cases.h"

enum { PAIRS = 500 };

static const uint32_t long_dimensions[] = {127,  128,   256,   384,   500,   512,  768,
                                           769,  1000,  1024,  1536,  2048,  4096, 8191,
                                           8192, 12288, 12289, 13122, 16383, 16384};

static uint64_t compared, differ;

/* ---- bits */

struct scene {
    struct hrr_bench bench;
    uint32_t d;
    size_t step; /* of rows, even */
    float *rows, *expected, *found;
    float *device_rows, *device_out, *device_tables;
    uint32_t *device_positions;
    uint64_t *device_failed;
    void *device_scratch;
    uint64_t scratch_bytes;
};

static uint32_t position_of(uint32_t i)
{
    return i * 7919 % PAIRS;
}

static struct scene scene_create(uint32_t d, uint64_t seed)
{
    struct scene s = {.bench = hrr_bench_create(d), .d = d, .step = (d + 1) / 2 * 2};
    uint32_t positions[PAIRS];
    s.rows = hrr_rows((uint32_t)s.step, 2 * PAIRS);
    s.expected = hrr_rows((uint32_t)s.step, 2 * PAIRS), s.found = s.expected + PAIRS * s.step;
    for (uint32_t i = 0; i < PAIRS; i++) {
        float *a = s.rows + i * s.step, *b = a + PAIRS * s.step;
        hrr_case_fill((enum hrr_case)((i + seed) % HRR_CASES), d, seed * 100000 + i, a);
        hrr_case_fill((enum hrr_case)(i * 7 / 10 % HRR_CASES), d, seed * 200000 + i, b);
        positions[i] = position_of(i);
    }
    s.device_rows = device_copy_of(s.rows, 2 * PAIRS * s.step * sizeof(float));
    s.device_out = device_allocate(PAIRS * s.step * sizeof(float));
    s.device_tables = device_copy_of(s.bench.tables, hrr_plan_bytes(d));
    s.device_positions = device_copy_of(positions, sizeof positions);
    s.device_failed = device_allocate(sizeof(uint64_t));
    s.scratch_bytes = cuda_hrr_scratch(s.bench.plan, PAIRS).best;
    if (s.scratch_bytes) s.device_scratch = device_allocate(s.scratch_bytes);
    return s;
}

static void scene_destroy(struct scene *s)
{
    cudaFree(s->device_rows), cudaFree(s->device_out), cudaFree(s->device_tables);
    cudaFree(s->device_positions), cudaFree(s->device_failed), cudaFree(s->device_scratch);
    free(s->rows), free(s->expected);
    hrr_bench_destroy(&s->bench);
}

/* How rows come: in order, listed, or one for all on either side. */
enum way { IN_ORDER, LISTED, ONE_LEFT, ONE_RIGHT, WAYS };

static void expect_pairs(struct scene *s, enum hrr_form form, enum way way, uint64_t *failed)
{
    const float *a[PAIRS], *b[PAIRS];
    for (uint32_t i = 0; i < PAIRS; i++) {
        uint32_t left = way == LISTED ? position_of(i) : way == ONE_LEFT ? 0 : i;
        a[i] = s->rows + left * s->step;
        b[i] = s->rows + (PAIRS + (way == ONE_RIGHT ? 0 : i)) * s->step;
    }
    *failed = UINT64_MAX;
    for (uint32_t from = 0; from < PAIRS;) {
        struct hrr_pairs work = {.plan = s->bench.plan,
                                 .scratch = s->bench.scratch,
                                 .form = form,
                                 .a = a + from,
                                 .b = b + from,
                                 .count = PAIRS - from,
                                 .out = s->expected + from * s->step,
                                 .out_step = s->step};
        struct hrr_fault fault = hrr_choose("auto")->pairs(&work);
        if (fault.status == HRR_OK) return;
        from += (uint32_t)fault.pair;
        if (*failed == UINT64_MAX) *failed = from;
        memset(s->expected + from * s->step, 0x7f, s->d * sizeof(float)); /* not compared */
        from++;
    }
}

/* expected: the first that has no result. */
static void run_and_compare(struct scene *s, const struct cuda_hrr *work, uint64_t expected,
                            enum way way)
{
    uint64_t failed = 0;
    DEVICE(cudaMemset(s->device_out, 0xff, PAIRS * s->step * sizeof(float)));
    DEVICE(cuda_hrr_pairs(work, NULL));
    device_read(s->found, s->device_out, PAIRS * s->step * sizeof(float));
    device_read(&failed, s->device_failed, sizeof failed);
    uint64_t before = differ;
    differ += failed != expected;
    float skipped;
    memset(&skipped, 0x7f, sizeof skipped);
    for (uint32_t i = 0; i < PAIRS; i++) {
        const float *e = s->expected + i * s->step, *f = s->found + i * s->step;
        if (same_bits(e, &skipped, 1)) continue;
        compared += s->d;
        for (uint32_t n = 0; n < s->d && !same_bits(e, f, s->d); n++)
            differ += !same_bits(e + n, f + n, 1);
    }
    if (differ != before)
        printf("FAIL dimension %u form %d way %d: %llu differ; first failure %lld, expected %lld\n",
               s->d, work->offsets ? -1 : (int)work->form, way,
               (unsigned long long)(differ - before), (long long)failed, (long long)expected);
}

static void check_pairs(struct scene *s, enum hrr_form form, enum way way)
{
    uint64_t expected = 0;
    expect_pairs(s, form, way, &expected);
    struct cuda_hrr work = {
        .plan = s->bench.plan,
        .tables = s->device_tables,
        .form = form,
        .a = {s->device_rows, way == LISTED ? s->device_positions : NULL,
              way == ONE_LEFT ? 0 : s->step},
        .b = {s->device_rows + PAIRS * s->step, NULL, way == ONE_RIGHT ? 0 : s->step},
        .count = PAIRS,
        .out = s->device_out,
        .out_step = s->step,
        .failed = s->device_failed,
        .scratch = s->device_scratch,
        .scratch_bytes = s->scratch_bytes};
    run_and_compare(s, &work, expected, way);
}

/* Lists of 1 to 6 rows, in order or listed. */
static void check_products(struct scene *s, enum way way)
{
    enum { LONGEST = 6, LISTS = 2 * PAIRS / 4 };
    uint64_t expected = UINT64_MAX, offsets[LISTS + 1] = {0};
    uint32_t positions[2 * PAIRS], lists = 0;
    for (uint32_t i = 0; i < 2 * PAIRS; i++)
        positions[i] = way == LISTED ? i * 7919 % (2 * PAIRS) : i;
    while (lists < LISTS && offsets[lists] + 1 + lists % LONGEST <= 2 * PAIRS) {
        const float *rows[LONGEST];
        uint64_t first = offsets[lists], count = 1 + lists % LONGEST;
        for (uint64_t i = 0; i < count; i++)
            rows[i] = s->rows + positions[first + i] * s->step;
        struct hrr_product one = {.plan = s->bench.plan,
                                  .scratch = s->bench.scratch,
                                  .rows = rows,
                                  .count = count,
                                  .out = s->expected + lists * s->step};
        if (hrr_choose("auto")->many(&one).status != HRR_OK) {
            if (expected == UINT64_MAX) expected = lists;
            memset(one.out, 0x7f, s->d * sizeof(float)); /* not compared */
        }
        offsets[++lists] = first + count;
    }
    for (uint32_t i = lists; i < PAIRS; i++)
        memset(s->expected + i * s->step, 0x7f, s->d * sizeof(float));
    uint32_t *device_positions = device_copy_of(positions, sizeof positions);
    uint64_t *device_offsets = device_copy_of(offsets, sizeof offsets);
    struct cuda_hrr work = {.plan = s->bench.plan,
                            .tables = s->device_tables,
                            .a = {s->device_rows, way == LISTED ? device_positions : NULL, s->step},
                            .offsets = device_offsets,
                            .count = lists,
                            .out = s->device_out,
                            .out_step = s->step,
                            .failed = s->device_failed,
                            .scratch = s->device_scratch,
                            .scratch_bytes = s->scratch_bytes};
    run_and_compare(s, &work, expected, way);
    cudaFree(device_positions), cudaFree(device_offsets);
}

static void check_dimension(uint32_t d, uint64_t seed)
{
    struct scene s = scene_create(d, seed);
    for (int form = HRR_BIND; form <= HRR_UNBIND_EXACT; form++) {
        bool runs = hrr_has_form(d, (enum hrr_form)form);
        for (int way = 0; runs && way < WAYS; way++)
            check_pairs(&s, (enum hrr_form)form, (enum way)way);
    }
    check_products(&s, IN_ORDER);
    check_products(&s, LISTED);
    scene_destroy(&s);
}

static void check_bits(uint64_t numbers)
{
    uint64_t seed = 1;
    do {
        for (uint32_t d = 1; d <= 70; d++)
            check_dimension(d, seed);
        for (size_t i = 0; i < sizeof long_dimensions / sizeof *long_dimensions; i++)
            check_dimension(long_dimensions[i], seed);
    } while (seed++, compared < numbers);
    printf("bind: %llu numbers compared with %s, %llu differ\n", (unsigned long long)compared,
           hrr_choose("auto")->name, (unsigned long long)differ);
}

/* ---- times */

static void enqueue_bind(void *what)
{
    DEVICE(cuda_hrr_pairs(what, NULL));
}

struct copying {
    void *to, *from;
    size_t bytes;
};

static void enqueue_copy(void *what)
{
    struct copying *c = what;
    DEVICE(cudaMemcpyAsync(c->to, c->from, c->bytes, cudaMemcpyDeviceToDevice, NULL));
}

static void bench_dimension(uint32_t d, uint64_t count, double bytes_a_ms, FILE *file)
{
    struct hrr_bench bench = hrr_bench_create(d);
    float *rows = hrr_rows(d, 1000);
    for (uint32_t i = 0; i < 1000; i++)
        hrr_case_fill(HRR_CASE_UNIFORM, d, i, rows + (size_t)i * d);
    size_t bytes = count * d * sizeof(float), block = (size_t)1000 * d * sizeof(float);
    struct cuda_hrr work = {.plan = bench.plan,
                            .tables = device_copy_of(bench.tables, hrr_plan_bytes(d)),
                            .a = {device_allocate(bytes), NULL, d},
                            .b = {device_allocate(bytes), NULL, d},
                            .count = count,
                            .out = device_allocate(bytes),
                            .out_step = d,
                            .failed = device_allocate(sizeof(uint64_t))};
    for (size_t at = 0; at < bytes; at += block) {
        size_t part = bytes - at < block ? bytes - at : block;
        DEVICE(cudaMemcpy((char *)work.a.rows + at, rows, part, cudaMemcpyHostToDevice));
        DEVICE(cudaMemcpy((char *)work.b.rows + at, rows, part, cudaMemcpyHostToDevice));
    }
    work.scratch_bytes = cuda_hrr_scratch(bench.plan, count).best;
    if (work.scratch_bytes) work.scratch = device_allocate(work.scratch_bytes);
    const char *names[] = {"bind", "unbind", "exact", "one"};
    const enum hrr_form forms[] = {HRR_BIND, HRR_UNBIND, HRR_UNBIND_EXACT, HRR_BIND};
    for (int i = 0; i < 4; i++) {
        work.form = forms[i];
        if (!hrr_has_form(d, work.form)) continue;
        if (i == 3) work.b.step = 0;
        double ms = device_median_ms(enqueue_bind, &work);
        double floor_ms = (i == 3 ? 2.0 : 3.0) * (double)bytes / bytes_a_ms;
        printf("%-6s d = %5u, %7llu pairs: %8.3f ms, bytes alone %8.3f ms, %4.2f of the rate\n",
               names[i], d, (unsigned long long)count, ms, floor_ms, floor_ms / ms);
        if (file) fprintf(file, "%s_%u_%llu %.6f\n", names[i], d, (unsigned long long)count, ms);
    }
    cudaFree((void *)work.a.rows), cudaFree((void *)work.b.rows), cudaFree(work.out);
    cudaFree((void *)work.tables), cudaFree(work.failed), cudaFree(work.scratch);
    free(rows);
    hrr_bench_destroy(&bench);
}

static void bench_all(FILE *file)
{
    const uint32_t dimensions[] = {256, 512, 768, 1024, 1536, 2048, 4096, 8192, 16384, 1000, 769};
    struct copying c = {device_allocate(1u << 30), device_allocate(1u << 30), 1u << 30};
    double bytes_a_ms = 2.0 * (double)c.bytes / device_median_ms(enqueue_copy, &c);
    cudaFree(c.to), cudaFree(c.from);
    printf("a plain copy: %.2f TB/s\n", bytes_a_ms / 1e9);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++)
        bench_dimension(dimensions[i], 100000, bytes_a_ms, file);
    bench_dimension(16383, 10000, bytes_a_ms, file);
    bench_dimension(1024, 1, bytes_a_ms, file);
    bench_dimension(1024, 100, bytes_a_ms, file);
    bench_dimension(1024, 1000, bytes_a_ms, file);
}

int main(int argc, char **argv)
{
    uint64_t numbers = 2000000;
    bool bench = false;
    FILE *file = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--numbers") == 0 && i + 1 < argc)
            numbers = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--bench") == 0)
            bench = true;
        else
            file = fopen(argv[i], "w");
    }
    device_open();
    check_bits(numbers);
    if (bench) bench_all(file);
    if (file) fclose(file);
    return differ ? 1 : 0;
}
