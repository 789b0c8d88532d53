/* gpu_graphs: whether small requests gain by CUDA graphs. A request is what the daemon enqueues for
 * it: 4 KiB in, a kernel over 1,000 x 768, 4 KiB out, an event that is polled. Launched directly;
 * as one captured graph; and as that graph with the addresses of all three nodes set anew, which
 * the daemon would have to do, since blocks and rows differ from request to request. Every way's
 * results are compared with the direct way's; exit 1 if they differ. */
#include "daemon/base/clock.h"
#include "tests/gpu/device.h"
#include "tests/kernels/samples.h"

enum { ROWS = 1000, DIMENSION = 768, K = 10, BLOCK = 4096, ROUNDS = 5, EACH = 400, WARM = 100 };
enum way { DIRECT, REPLAYED, SET_ANEW, WAYS };
static const char *const way_names[] = {"launched directly", "graph, replayed",
                                        "graph, addresses set"};

/* Two of everything: one request is in one place, the next in the other. */
struct request {
    char *pinned_in, *pinned_out;
    char *device_in, *device_out; /* BLOCK bytes each */
    void *scratch;
    uint64_t scratch_bytes;
    struct cuda_rows rows;
    uint32_t k; /* 0: all scores */
};

struct nodes {
    cudaGraphNode_t in, kernel, out;
    struct cudaMemcpy3DParms in_parms, out_parms;
    struct cudaKernelNodeParams kernel_parms;
};

struct times {
    uint64_t whole_ns[ROUNDS * EACH], enqueue_ns[ROUNDS * EACH];
    size_t count;
};

static cudaStream_t stream;
static cudaEvent_t event;

static void enqueue(const struct request *r)
{
    struct cuda_queries query = {(const float *)r->device_in,
                                 (const float *)(r->device_in + DIMENSION * sizeof(float)), 1};
    struct cuda_topk topk = {.k = r->k,
                             .scratch = r->scratch,
                             .scratch_bytes = r->scratch_bytes,
                             .out_ids = (uint64_t *)r->device_out,
                             .out_scores = (float *)(r->device_out + 256),
                             .out_counts = (uint32_t *)(r->device_out + 512)};
    DEVICE(cudaMemcpyAsync(r->device_in, r->pinned_in, BLOCK, cudaMemcpyHostToDevice, stream));
    if (r->k)
        DEVICE(cuda_topk(METRIC_COSINE, &query, &r->rows, &topk, stream));
    else
        DEVICE(cuda_scan(METRIC_COSINE, &query, &r->rows, (float *)r->device_out, stream));
    DEVICE(cudaMemcpyAsync(r->pinned_out, r->device_out, BLOCK, cudaMemcpyDeviceToHost, stream));
}

static cudaGraph_t capture(const struct request *r)
{
    cudaGraph_t graph = NULL;
    DEVICE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    enqueue(r);
    DEVICE(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static struct nodes nodes_of(cudaGraph_t graph, const struct request *r)
{
    struct nodes found = {0};
    cudaGraphNode_t all[3];
    size_t count = 0;
    DEVICE(cudaGraphGetNodes(graph, NULL, &count));
    if (count != 3) abort();
    DEVICE(cudaGraphGetNodes(graph, all, &count));
    for (size_t n = 0; n < count; n++) {
        enum cudaGraphNodeType type;
        struct cudaMemcpy3DParms parms;
        DEVICE(cudaGraphNodeGetType(all[n], &type));
        if (type == cudaGraphNodeTypeKernel) {
            found.kernel = all[n];
            DEVICE(cudaGraphKernelNodeGetParams(all[n], &found.kernel_parms));
            continue;
        }
        DEVICE(cudaGraphMemcpyNodeGetParams(all[n], &parms));
        if (parms.dstPtr.ptr == r->device_in)
            found.in = all[n], found.in_parms = parms;
        else
            found.out = all[n], found.out_parms = parms;
    }
    if (!found.in || !found.kernel || !found.out) abort();
    return found;
}

static void set_anew(cudaGraphExec_t exec, const struct nodes *at, const struct nodes *to)
{
    DEVICE(cudaGraphExecMemcpyNodeSetParams(exec, at->in, &to->in_parms));
    DEVICE(cudaGraphExecKernelNodeSetParams(exec, at->kernel, &to->kernel_parms));
    DEVICE(cudaGraphExecMemcpyNodeSetParams(exec, at->out, &to->out_parms));
}

/* One request, from its bytes in pinned memory to its results there. */
static void ask(enum way way, const struct request *r, cudaGraphExec_t exec, const struct nodes *at,
                const struct nodes *to, struct times *times)
{
    uint64_t start = clock_now_ns();
    if (way == SET_ANEW) set_anew(exec, at, to);
    if (way == DIRECT)
        enqueue(r);
    else
        DEVICE(cudaGraphLaunch(exec, stream));
    DEVICE(cudaEventRecord(event, stream));
    uint64_t enqueued = clock_now_ns();
    cudaError_t error;
    do
        error = cudaEventQuery(event);
    while (error == cudaErrorNotReady);
    DEVICE(error);
    if (!times) return;
    times->whole_ns[times->count] = clock_now_ns() - start;
    times->enqueue_ns[times->count++] = enqueued - start;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double share_us(uint64_t *ns, size_t count, unsigned percent)
{
    qsort(ns, count, sizeof *ns, by_size);
    return (double)ns[(count - 1) * percent / 100] / 1e3;
}

static size_t result_bytes(const struct request *r)
{
    return r->k ? 512 + sizeof(uint32_t) : ROWS * sizeof(float);
}

static bool compare(enum way way, const struct request *r, const char *expected)
{
    size_t bytes = result_bytes(r);
    bool same = r->k ? memcmp(r->pinned_out, expected, K * sizeof(uint64_t)) == 0 &&
                           memcmp(r->pinned_out + 256, expected + 256, K * sizeof(float)) == 0
                     : memcmp(r->pinned_out, expected, bytes) == 0;
    if (!same) printf("FAIL: %s: other results\n", way_names[way]);
    memset(r->pinned_out, 0xff, BLOCK);
    return same;
}

/* Whether all ways gave the same results. */
static bool measure(const char *what, const struct request *requests)
{
    static struct times times[WAYS];
    char expected[2][BLOCK];
    cudaGraph_t graphs[2];
    struct nodes nodes[2];
    memset(times, 0, sizeof times);
    for (int n = 0; n < 2; n++) {
        ask(DIRECT, &requests[n], NULL, NULL, NULL, NULL);
        memcpy(expected[n], requests[n].pinned_out, BLOCK);
        graphs[n] = capture(&requests[n]);
        nodes[n] = nodes_of(graphs[n], &requests[n]);
    }
    bool same = memcmp(expected[0], expected[1], result_bytes(requests)) != 0;
    if (!same) printf("FAIL: both requests have the same results\n");
    cudaGraphExec_t exec = device_graph(graphs[0]);
    for (int turn = 0; turn < ROUNDS * WAYS; turn++) {
        enum way way = (enum way)(turn % WAYS);
        /* The first replay finds the first request's addresses. */
        set_anew(exec, &nodes[0], &nodes[0]);
        for (int n = 0; n < WARM + EACH; n++) {
            int which = way == REPLAYED ? 0 : n % 2;
            ask(way, &requests[which], exec, &nodes[0], &nodes[which],
                n < WARM ? NULL : &times[way]);
            if (n < 2) same &= compare(way, &requests[which], expected[which]);
        }
    }
    printf("\n%s (us)\n%-24s %8s %8s %8s\n", what, "", "p50", "p99", "enqueue");
    double p50[WAYS];
    for (int way = 0; way < WAYS; way++) {
        struct times *t = &times[way];
        p50[way] = share_us(t->whole_ns, t->count, 50);
        printf("%-24s %8.2f %8.2f %8.2f\n", way_names[way], p50[way],
               share_us(t->whole_ns, t->count, 99), share_us(t->enqueue_ns, t->count, 50));
    }
    printf("with the addresses set, a graph takes %.2f of the direct time: it saves %.1f us\n",
           p50[SET_ANEW] / p50[DIRECT], p50[DIRECT] - p50[SET_ANEW]);
    DEVICE(cudaGraphExecDestroy(exec));
    for (int n = 0; n < 2; n++)
        DEVICE(cudaGraphDestroy(graphs[n]));
    return same;
}

static struct request request_create(uint64_t seed)
{
    struct request r = {.scratch_bytes = cuda_topk_scratch_best(1, K, ROWS)};
    float *rows = samples_create(DIMENSION, ROWS, 0, seed);
    float *query = samples_create(DIMENSION, 1, 0, seed + 100);
    float *norms = device_allocate(ROWS * sizeof(float));
    DEVICE(cudaHostAlloc((void **)&r.pinned_in, BLOCK, cudaHostAllocDefault));
    DEVICE(cudaHostAlloc((void **)&r.pinned_out, BLOCK, cudaHostAllocDefault));
    r.device_in = device_allocate(BLOCK);
    r.device_out = device_allocate(BLOCK);
    r.scratch = device_allocate(r.scratch_bytes);
    r.rows = (struct cuda_rows){
        DIMENSION, device_copy_of(rows, (size_t)ROWS * DIMENSION * sizeof(float)), norms, ROWS};
    DEVICE(cuda_norms(&r.rows, norms, NULL));
    memset(r.pinned_in, 0, BLOCK);
    memcpy(r.pinned_in, query, DIMENSION * sizeof(float));
    const float norm = 1.5f; /* of the query: any number does */
    memcpy(r.pinned_in + DIMENSION * sizeof(float), &norm, sizeof norm);
    DEVICE(cudaDeviceSynchronize());
    samples_free(rows), samples_free(query);
    return r;
}

static void request_destroy(struct request *r)
{
    cudaFreeHost(r->pinned_in), cudaFreeHost(r->pinned_out);
    cudaFree(r->device_in), cudaFree(r->device_out), cudaFree(r->scratch);
    cudaFree((void *)r->rows.rows), cudaFree((void *)r->rows.norms);
}

int main(void)
{
    device_open();
    DEVICE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    DEVICE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    struct request requests[] = {request_create(1), request_create(2)};
    bool same = measure("all scores, 1 query x 1,000 rows of 768", requests);
    requests[0].k = requests[1].k = K;
    same &= measure("kNN k = 10, 1 query x 1,000 rows of 768", requests);
    request_destroy(&requests[0]), request_destroy(&requests[1]);
    DEVICE(cudaEventDestroy(event));
    DEVICE(cudaStreamDestroy(stream));
    return !same;
}
