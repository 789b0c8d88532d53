/* gpu_recall [--small | --tiny] [--bench] [SEED]: recalls on the GPU, all stages on one stream, bit
 * for bit: random graphs and collections, both modes, with embeddings, bounds, node sets, paths and
 * lists of several cues, against the simulated device's seeds and best, a search in the plainest
 * way and the CPU's spread. Prints how much was compared and what differs; exit 1 unless nothing
 * does. --small, --tiny: for compute-sanitizer. --bench: what each stage takes of a recall of one
 * cue over 100,000 rows of 768 numbers and 1,000,000 edges. */
#include "daemon/gpu/sim_recall.h"
#include "tests/gpu/device_spread.h"
#include "tests/gpu/recall_scene.h"

enum { SHOWN = 5, STAGES = 5, RUNS = 101 };

static uint64_t compared, differing;

/* ---------------------------------------------------------------- where it lies */

typedef void *allocator(size_t bytes);

static uint64_t room_of(const struct scene *s)
{
    const uint64_t nodes = s->c.sample.graph.nodes, most = s->c.question.touched_max;
    return (nodes < most ? nodes : most) * s->r.lists;
}

/* The call, its results and what its stages share, by this allocator; not what it reads. */
static struct cuda_recall laid_out(const struct scene *s, allocator *take)
{
    struct cuda_recall r = s->r;
    const uint64_t hits = r.cues * r.k, entries = (uint64_t)r.lists * r.results;
    r.hops = s->c.question.hops;
    r.node_count = s->c.sample.graph.nodes;
    r.record_room = room_of(s);
    r.hit_ids = take(hits * sizeof *r.hit_ids);
    r.hit_scores = take(hits * sizeof *r.hit_scores);
    r.hit_counts = take(r.cues * sizeof *r.hit_counts);
    r.seed_ids = take(hits * sizeof *r.seed_ids);
    r.seed_activations = take(hits * sizeof *r.seed_activations);
    r.seeds = take(hits * sizeof *r.seeds);
    r.set_offsets = take(r.lists * sizeof *r.set_offsets);
    r.set_ends = take(r.lists * sizeof *r.set_ends);
    r.records = take(r.record_room * sizeof *r.records);
    r.sets = take(r.lists * sizeof *r.sets);
    r.scratch = take(cuda_recall_layout_of(&r).bytes);
    r.outcomes = take(r.lists * sizeof *r.outcomes);
    r.entries = take(entries * sizeof *r.entries);
    r.times = take(sizeof *r.times);
    if (r.paths) r.path_nodes = take(entries * (r.hops + 1) * sizeof *r.path_nodes);
    return r;
}

static void give_back(const struct cuda_recall *r, void (*give)(void *))
{
    void *const all[] = {r->hit_ids,          r->hit_scores,   r->hit_counts,  r->seed_ids,
                         r->seed_activations, r->seeds,        r->set_offsets, r->set_ends,
                         (void *)r->records,  (void *)r->sets, r->scratch,     r->outcomes,
                         r->entries,          r->times,        r->path_nodes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        give(all[i]);
}

static void device_give(void *p)
{
    cudaFree(p);
}

/* ---------------------------------------------------------------- by the CPU */

struct hit {
    float score;
    uint64_t id;
};

static int by_score(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void search(const struct scene *s, const struct cuda_recall *r, uint64_t cue)
{
    const uint32_t d = s->rows.embeddings.dimension, n = s->rows.count;
    const struct row_block all = {s->rows.rows, s->rows.norms, n};
    float *scores = memory_of(n * sizeof *scores);
    struct hit *hits = memory_of(n * sizeof *hits);
    uint32_t count = 0;
    vectors->scan(METRIC_COSINE, d, s->cues + cue * vector_stride(d), s->norms[cue], all, scores);
    for (uint32_t i = 0; i < n; i++)
        if (scores[i] >= r->threshold) hits[count++] = (struct hit){scores[i], s->rows.ids[i]};
    qsort(hits, count, sizeof *hits, by_score);
    r->hit_counts[cue] = count < r->k ? count : r->k;
    for (uint32_t i = 0; i < r->hit_counts[cue]; i++) {
        r->hit_ids[cue * r->k + i] = hits[i].id;
        r->hit_scores[cue * r->k + i] = hits[i].score;
    }
    free(scores), free(hits);
}

/* Each list's spread, its records behind those of the list before. */
static void spread_lists(const struct scene *s, const struct cuda_recall *r)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < r->lists; i++) {
        struct spread_question q = s->c.question;
        const struct spread_way way = {.kernels = &spread_scalar, .threads = 0, .alone = true};
        q.embeddings = s->similar ? &s->rows.embeddings : NULL;
        q.seeds = r->seeds + r->set_offsets[i];
        q.seed_count = r->set_ends[i] - r->set_offsets[i];
        struct spread_answer a = {0};
        if (q.seed_count) a = spread_sample_run(&s->c.sample.graph, &q, &way).answer;
        if (a.count) memcpy((void *)(r->records + used), a.records, a.count * sizeof *a.records);
        ((struct cuda_spread_set *)r->sets)[i] = (struct cuda_spread_set){
            .first_record = used,
            .record_count = a.count,
            .hops_done = a.hops_done,
            .truncated = a.truncated,
        };
        used += a.count;
        spread_answer_free(&a);
    }
}

/* What it reads, on the host. */
static void read_host(const struct scene *s, struct cuda_recall *r)
{
    r->cue_offsets = s->offsets;
    r->nodes = s->c.sample.graph.ids;
    r->allowed = s->c.question.allowed;
    r->rows = (struct cuda_rows){s->rows.embeddings.dimension, s->rows.rows, s->rows.norms,
                                 s->rows.count};
    r->row_ids = s->rows.ids;
    r->queries = (struct cuda_queries){s->cues, s->norms, s->r.cues};
}

static struct cuda_recall expected(const struct scene *s)
{
    struct device_call call = {.kernel = KERNEL_RECALL_BEGIN};
    call.recall = laid_out(s, memory_of);
    read_host(s, &call.recall);
    sim_recall_run(&call, vectors, &clock_real);
    for (uint64_t cue = 0; cue < call.recall.cues; cue++)
        search(s, &call.recall, cue);
    call.kernel = KERNEL_RECALL_SEEDS;
    sim_recall_run(&call, vectors, &clock_real);
    spread_lists(s, &call.recall);
    call.kernel = KERNEL_RECALL_BEST;
    sim_recall_run(&call, vectors, &clock_real);
    return call.recall;
}

/* ---------------------------------------------------------------- by the device */

struct device_scene {
    struct spread_graph graph;
    struct cuda_recall r;
    struct cuda_topk topk;
    struct cuda_spread spread;
};

static struct device_scene device_scene_of(const struct scene *s)
{
    const size_t stride = vector_stride(s->rows.embeddings.dimension), n = s->rows.count;
    const struct spread_graph *g = &s->c.sample.graph;
    struct device_scene d = {.graph = device_graph_of(g), .r = laid_out(s, device_allocate)};
    struct cuda_recall *r = &d.r;
    r->cue_offsets = device_copy_of(s->offsets, sizeof s->offsets);
    r->nodes = d.graph.ids;
    if (s->c.question.allowed)
        r->allowed = device_copy_of(s->c.question.allowed, ((size_t)g->nodes / 64 + 1) * 8);
    r->rows = (struct cuda_rows){s->rows.embeddings.dimension,
                                 device_copy_of(s->rows.rows, n * stride * sizeof(float)),
                                 device_copy_of(s->rows.norms, n * sizeof(float)), n};
    r->row_ids = device_copy_of(s->rows.ids, n * sizeof(uint64_t));
    r->queries = (struct cuda_queries){device_copy_of(s->cues, r->cues * stride * sizeof(float)),
                                       device_copy_of(s->norms, r->cues * sizeof(float)), r->cues};
    d.topk = (struct cuda_topk){.k = r->k,
                                .ids = r->row_ids,
                                .threshold = &s->r.threshold,
                                .scratch_bytes = cuda_topk_scratch_best(r->cues, r->k, n),
                                .out_ids = r->hit_ids,
                                .out_scores = r->hit_scores,
                                .out_counts = r->hit_counts};
    d.topk.scratch = device_allocate(d.topk.scratch_bytes);
    d.spread = (struct cuda_spread){.graph = d.graph,
                                    .question = s->c.question,
                                    .began_ns = cuda_recall_began(r),
                                    .set_offsets = r->set_offsets,
                                    .set_ends = r->set_ends,
                                    .set_count = r->lists,
                                    .record_room = r->record_room,
                                    .out_records = (struct spread_record *)r->records,
                                    .out_sets = (struct cuda_spread_set *)r->sets,
                                    .scratch_bytes = cuda_spread_scratch_best(
                                        s->c.question.mode, g->nodes, g->edges, r->lists)};
    d.spread.scratch = device_allocate(d.spread.scratch_bytes);
    d.spread.question.decay = device_copy_of(s->c.question.decay, (r->hops + 1) * sizeof(float));
    d.spread.question.allowed = r->allowed;
    d.spread.question.seeds = r->seeds;
    d.spread.question.seed_count = r->cues * r->k;
    if (s->similar)
        d.spread.embeddings =
            (struct cuda_embeddings){.rows = r->rows.rows,
                                     .norms = r->rows.norms,
                                     .ids = r->row_ids,
                                     .count = n,
                                     .dimension = r->rows.dimension,
                                     .tables = device_allocate(cuda_embeddings_bytes(n, g->nodes))};
    return d;
}

static void device_scene_free(const struct device_scene *d)
{
    cudaFree((void *)d->r.cue_offsets), cudaFree((void *)d->r.allowed);
    cudaFree((void *)d->r.rows.rows), cudaFree((void *)d->r.rows.norms);
    cudaFree((void *)d->r.row_ids), cudaFree((void *)d->r.queries.rows);
    cudaFree((void *)d->r.queries.norms), cudaFree(d->topk.scratch), cudaFree(d->spread.scratch);
    cudaFree((void *)d->spread.question.decay), cudaFree(d->spread.embeddings.tables);
    give_back(&d->r, device_give);
    device_graph_free(&d->graph);
}

static void run_stage(const struct device_scene *d, int stage, cudaStream_t stream)
{
    switch (stage) {
    case 0: DEVICE(cuda_recall_begin(&d->r, stream)); break;
    case 1: DEVICE(cuda_topk(METRIC_COSINE, &d->r.queries, &d->r.rows, &d->topk, stream)); break;
    case 2: DEVICE(cuda_recall_seeds(&d->r, stream)); break;
    case 3: DEVICE(cuda_spread(&d->spread, stream)); break;
    case 4: DEVICE(cuda_recall_best(&d->r, stream)); break;
    }
}

/* ---------------------------------------------------------------- beside each other */

static void *host_copy(const void *device, size_t bytes)
{
    void *p = memory_of(bytes);
    device_read(p, device, bytes);
    return p;
}

static const char *list_differs(const struct cuda_recall *want, const struct recall_outcome *out,
                                const struct recall_entry *got, const uint32_t *paths,
                                uint32_t list)
{
    const uint64_t base = (uint64_t)list * want->results;
    if (memcmp(out, &want->outcomes[list], sizeof *out) != 0) return "outcomes";
    for (uint32_t i = 0; i < out->kept; i++) {
        const struct recall_entry *e = &want->entries[base + i];
        compared++;
        if (memcmp(e, &got[base + i], sizeof *e) != 0) return "entries";
        const uint64_t path = (base + i) * (want->hops + 1);
        if (paths && memcmp(paths + path, want->path_nodes + path, 4ull * e->path) != 0)
            return "paths";
    }
    return NULL;
}

static void check(const struct scene *s, uint64_t name)
{
    struct device_scene d = device_scene_of(s);
    struct cuda_recall want = expected(s);
    for (int stage = 0; stage < STAGES; stage++)
        run_stage(&d, stage, NULL);
    DEVICE(cudaDeviceSynchronize());
    const size_t entries = (size_t)want.lists * want.results;
    struct recall_outcome *outcomes = host_copy(d.r.outcomes, want.lists * sizeof *outcomes);
    struct recall_entry *got = host_copy(d.r.entries, entries * sizeof *got);
    uint32_t *paths =
        want.paths ? host_copy(d.r.path_nodes, entries * (want.hops + 1) * sizeof *paths) : NULL;
    for (uint32_t i = 0; i < want.lists; i++) {
        const char *wrong = list_differs(&want, &outcomes[i], got, paths, i);
        if (wrong && differing++ < SHOWN)
            printf("DIFFERS %llu: list %u of %u, %u rows of %u, %u nodes: %s\n",
                   (unsigned long long)name, i, want.lists, s->rows.count,
                   s->rows.embeddings.dimension, want.node_count, wrong);
    }
    free(outcomes), free(got), free(paths);
    give_back(&want, free);
    device_scene_free(&d);
}

/* ---------------------------------------------------------------- how long */

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The median of a stage, after those before it; stage STAGES: of all. graph: what was captured. */
static float median_us(const struct device_scene *d, int stage, cudaStream_t stream,
                       cudaGraphExec_t graph)
{
    float ms[RUNS];
    cudaEvent_t from, to;
    DEVICE(cudaEventCreate(&from));
    DEVICE(cudaEventCreate(&to));
    for (int i = -10; i < RUNS; i++) {
        if (stage == STAGES) DEVICE(cudaEventRecord(from, stream));
        if (graph) DEVICE(cudaGraphLaunch(graph, stream));
        for (int k = 0; k < STAGES && !graph; k++) {
            if (k == stage) DEVICE(cudaEventRecord(from, stream));
            run_stage(d, k, stream);
            if (k == stage) DEVICE(cudaEventRecord(to, stream));
        }
        if (stage == STAGES) DEVICE(cudaEventRecord(to, stream));
        DEVICE(cudaStreamSynchronize(stream));
        if (i >= 0) DEVICE(cudaEventElapsedTime(&ms[i], from, to));
    }
    qsort(ms, RUNS, sizeof *ms, by_size);
    cudaEventDestroy(from), cudaEventDestroy(to);
    return 1000.0f * ms[RUNS / 2];
}

static void bench(void)
{
    const struct {
        const char *name;
        enum spread_mode mode;
        bool similar;
    } ways[] = {{"engram", SPREAD_ENGRAM, false},
                {"engram, embeddings", SPREAD_ENGRAM, true},
                {"linear, 3 hops", SPREAD_LINEAR, false}};
    struct scene s;
    cudaStream_t stream;
    DEVICE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    make_bench(&s, SPREAD_ENGRAM, false);
    printf("%d x %d, %d edges, 1 cue; microseconds, medians of %d\n%-20s %7s %7s %7s %7s %7s "
           "%7s %7s %8s\n",
           BENCH_NODES, BENCH_D, BENCH_EDGES, RUNS, "spread", "begin", "kNN", "seeds", "spread",
           "best", "all", "graph", "touched");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ask_mode(&s, ways[i].mode, ways[i].similar);
        check(&s, i);
        struct device_scene d = device_scene_of(&s);
        struct recall_outcome out;
        printf("%-20s", ways[i].name);
        for (int stage = 0; stage <= STAGES; stage++)
            printf(" %7.1f", (double)median_us(&d, stage, stream, NULL));
        device_read(&out, d.r.outcomes, sizeof out);
        cudaGraph_t graph = NULL;
        DEVICE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int stage = 0; stage < STAGES; stage++)
            run_stage(&d, stage, stream);
        DEVICE(cudaStreamEndCapture(stream, &graph));
        cudaGraphExec_t exec = device_graph(graph);
        printf(" %7.1f %8llu\n", (double)median_us(&d, STAGES, stream, exec),
               (unsigned long long)out.touched);
        fflush(stdout);
        cudaGraphExecDestroy(exec), cudaGraphDestroy(graph);
        device_scene_free(&d);
    }
    free_scene(&s);
    cudaStreamDestroy(stream);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, cases = 2000;
    uint32_t nodes_max = 300;
    bool timed = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--small") == 0)
            cases = 40;
        else if (strcmp(argv[i], "--tiny") == 0)
            cases = 8, nodes_max = 60;
        else if (strcmp(argv[i], "--bench") == 0)
            timed = true, cases = 0;
        else
            first = strtoull(argv[i], NULL, 0);
    }
    vectors = vectors_choose("auto");
    device_open();
    for (uint64_t seed = first; seed < first + cases; seed++) {
        struct scene s;
        make_scene(&s, seed, nodes_max);
        if (s.rows.count) check(&s, seed);
        free_scene(&s);
    }
    if (timed) bench();
    printf("recall: %llu entries compared, %llu lists differ: %s\n", (unsigned long long)compared,
           (unsigned long long)differing, differing || !compared ? "FAIL" : "ok");
    return differing || !compared;
}
